"""DP-GAN and RON-DP-GAN. Johnson 2019: Generating Privacy Preserving Synthetic Datasets, chapter 4, 5.2 and 5.4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpwgan.critic.plan import CRITIC_LABEL, TENSORFLOW_SECONDS, TrainingDesign, plan_beside, plan_training
from dpwgan.critic.sampler import MlpSampler
from dpwgan.critic.settings import DpWganSettings
from dpwgan.errors import UsageError
from dpwgan.gaussians.projected_gaussian import ClassSampler
from dpwgan.images.basis import LENGTH, CosineSpace
from dpwgan.images.grid import find_images
from dpwgan.images.sampler import GaussianImages
from dpwgan.methods.published.published_gan import (
    LAYER_NOISE,
    PublishedDesign,
    fit_published,
    plan_published,
    train_published_table,
)
from dpwgan.methods.published.samplers import ConvSampler, RefinedTable, SmoothSampler
from dpwgan.methods.ron_gauss import lay_out_gaussians, measure_gaussians
from dpwgan.methods.ron_gauss_images import RonGaussImageDesign
from dpwgan.methods.ron_gauss_tables import MOST_DIMENSION, RonGaussDesign
from dpwgan.methods.settings import DpGanSettings, RonDpGanSettings, RonGaussSettings
from dpwgan.plan import Cost, Part, Plan, Run
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import Terms
from dpwgan.table.encoded import EncodedTable, TableShape
from dpwgan.table.saved import pack_model, unpack_model

if TYPE_CHECKING:
    from dpwgan.critic.optimizers import PlainAscent
    from dpwgan.methods.published.discriminators import NoisyDiscriminator, NoisyProducts

# One hidden layer of the generator is enough: it is held to means and covariances of classes.
_IMAGE_SETTINGS: dict[str, Any] = {
    "hidden_generator": (64,),
    "latent": 32,
    "generator_learning_rate": 2e-2,
    # Where steps and pull even out the weights are 14 gradients: with more the logit leaves 0 and the game is lost,
    # with less the discriminator tells of brightness alone.
    "critic_learning_rate": 13.0,
    "weight_pull": 0.9,
    # What a row's gradient is long where nothing is known, see `NoisyProducts`.
    "l2_clip_norm": 0.5,
    "steps": 400,
}
_IMAGE_SHARE_OF_TABLE = 0.25
_IMAGE_GENERATED = 256
# Cosines of an image that the discriminator sees, at most: the smoothest.
_DIMENSION = 66
# A number of the noise on the layers of a table's discriminator, drawn and added: measured on RAND HIE.
_SECONDS_OF_NOISE = 1e-8
_NOT_OF_IMAGES = ("hidden_critic", "weight_clip", "gradient_memory")

# Of a budget the prior gets this share, in units of rho, and of that counts, or means, theirs: see docs/published.md.
_TABLE_SHARES = (0.6, 1.0 - 0.6)
_IMAGE_SHARES = (0.1, 0.5, 0.4)
_PRIOR_SETTINGS = RonGaussSettings(noise="gaussian", mean_share=_TABLE_SHARES[0])
# Where the generator starts as the prior it has little to learn, and much to lose: a small network, few small steps.
_TABLE_HIDDEN = (64,)
_BESIDE_PRIOR: dict[str, Any] = {"hidden_generator": (64,), "generator_learning_rate": 5e-4, "steps": 300}
# Rows of the prior that a table's generator learns on: many more than it can learn by heart.
_ROWS = 32_768
# What drawing those, and compiling steps on them, takes: measured on RAND HIE.
_SECONDS_OF_REFINING = 3.0


@dataclass(frozen=True, kw_only=True)
class DpGanDesign:
    """A private discriminator's steps, after the releases of a prior where there is one, fixed before a row is read.

    `space`: what it sees of images; None for tables. `prior_share`: of rho.
    """

    steps: TrainingDesign
    space: CosineSpace | None
    prior: Part | None
    prior_share: float | None

    @property
    def releases(self) -> Sequence[Release]:
        """What to reserve in the ledger."""
        return [*([] if self.prior is None else self.prior.releases), *self.steps.releases]

    @property
    def cost(self) -> Cost:
        """That of the steps, with the noise on layers; of images that of what is seen of them; and the prior's."""
        plan, space, batch = self.steps, self.space, self.steps.generated_batch_size
        before = Cost() if self.prior is None else self.prior.cost + Cost(seconds=_SECONDS_OF_REFINING)
        if space is None:
            rows = plan.expected_batch_size + plan.generated_batch_size + plan.settings.generator_steps * batch
            noise = plan.steps * rows * sum(plan.settings.hidden_critic) * _SECONDS_OF_NOISE
            return before + (plan.cost + Cost(seconds=noise))
        products, classes = space.features**2, space.grid.classes
        numbers = space.grid.pixels * (4 * space.dimension + 8 * batch)
        numbers += products * (3 * classes + int(4 * plan.expected_batch_size))
        step = 6e-9 * products * (plan.expected_batch_size + classes)
        a_round = 1e-10 * batch * (space.grid.pixels * space.dimension + products * classes) + 3e-9 * batch * products
        seconds = TENSORFLOW_SECONDS + plan.steps * (step + plan.settings.generator_steps * a_round)
        return before + replace(plan.cost + Cost(working_bytes=4 * numbers), seconds=seconds)

    def summary(self) -> dict[str, Any]:
        """The settings as JSON-able pairs."""
        share = {} if self.prior is None else {"prior_share": self.prior_share}
        summary = {"private_part": "discriminator", "layer_noise_variance": LAYER_NOISE**2}
        summary |= {} if self.space is None else {"projection_dimension": self.space.dimension}
        summary |= self.steps.summary()
        if self.space is not None:
            summary["critic_weights"] = (self.space.grid.classes + 1) * self.space.features**2
        without = () if self.prior is None else ("latent", "generator_weights")
        for name in ("engine", *(() if self.space is None else _NOT_OF_IMAGES), *without):
            del summary[name]
        return share | summary


class DpGan:
    """A GAN whose discriminator reads rows through clipped, noised gradients; or, as published, without.

    Privacy: with the private part discriminator (the default) rows are read by its steps alone, each a Gaussian
      mechanism on a Poisson sample; the generator and every sampled row are post-processing. With the private part
      generator nothing is promised. See docs/published.md.
    """

    name = "dp-gan"
    title = "Differentially private GAN (DP-GAN)"
    paper = "N. A. G. Johnson: Generating Privacy Preserving Synthetic Datasets, Princeton University, 2019"

    def plan(self, shape: TableShape, terms: Terms, *, settings: DpGanSettings) -> Plan[DpGanDesign | PublishedDesign]:
        """Fixes releases, batch, noise and steps, those of a prior too, if there is one, as one family of charges.

        Privacy: sees the public shape only.
        Raises: UsageError for a setting that the table has no use for, PrivacyError if the budget cannot be met.
        """
        share = settings.prior_share if isinstance(settings, RonDpGanSettings) else None
        if settings.private_part == "generator":
            networks = DpWganSettings(**settings.training)
            prior = None if share is None else _plan_published_prior(shape, terms, share=share)
            return plan_published(shape, terms, networks=networks, prior_share=share, prior=prior)
        space, seen = _lay_out_space(shape, settings)
        if share is None:
            training, prior = plan_training(seen, terms, settings=_complete_settings(settings, shape, space)), None
        else:
            defaults = _BESIDE_PRIOR if space is not None else {**_BESIDE_PRIOR, "hidden_critic": _TABLE_HIDDEN}
            training = plan_beside(
                seen,
                terms,
                settings=_complete_settings(settings, shape, space, **defaults),
                share=1.0 - share,
                others=lambda scale: _lay_out_prior(shape, scale=scale, share=share).releases,
            )
            prior = _lay_out_prior(shape, scale=training.choice.noise, share=share)
        steps = training.design
        if space is not None:
            # Generated batches of images are small: each step has several.
            steps = replace(steps, generated_batch_size=_IMAGE_GENERATED)
        design = DpGanDesign(steps=steps, space=space, prior=prior, prior_share=share)
        return Plan(design=design, shape=shape, choice=training.choice)

    def fit(
        self, plan: Plan[DpGanDesign | PublishedDesign], run: Run
    ) -> MlpSampler | SmoothSampler | ConvSampler | RefinedTable:
        """Releases the prior if there is one, then trains both networks. Privacy: each read of rows is charged before.

        Raises: PrivacyError, ResourceError, UsageError.
        """
        from dpwgan.critic.device import on_device

        with on_device(run.device, threads=run.threads, seconds=plan.cost.seconds):
            if plan.design.prior is not None:
                return _fit_from_prior(plan.design, run)
            if isinstance(plan.design, PublishedDesign):
                return fit_published(plan.design, run)
            return _fit_private(plan.design, run)


class RonDpGan(DpGan):
    """A GAN whose generator starts from a Gaussian of RON-Gauss, which is released with a share of the budget.

    Privacy: with the private part discriminator (the default), the prior's releases and the discriminator's steps
      are charged in one ledger; all else is post-processing. With the private part generator the prior is as private,
      and the run is not. See docs/published.md.
    """

    name = "ron-dp-gan"
    title = "DP-GAN with a RON-Gauss prior (RON-DP-GAN)"


def _lay_out_prior(shape: TableShape, *, scale: float, share: float) -> RonGaussDesign | RonGaussImageDesign:
    """Lays out the prior's releases at a noise scale of the whole."""
    shares = [share * part for part in (_TABLE_SHARES if find_images(shape) is None else _IMAGE_SHARES)]
    return lay_out_gaussians(shape, settings=_PRIOR_SETTINGS, shares=shares, scale=scale)


def _plan_published_prior(shape: TableShape, terms: Terms, *, share: float) -> RonGaussDesign | RonGaussImageDesign:
    """Plans the prior with epsilon_RON = psi epsilon, as published; the rest is for the generator's noise."""
    budget = replace(terms.budget, epsilon=share * terms.budget.epsilon)
    alone = replace(terms, budget=budget, accountant_rule=MOMENTS.name, other_charges=())
    choice = alone.calibrate(lambda scale: _lay_out_prior(shape, scale=scale, share=1.0).releases)
    return _lay_out_prior(shape, scale=choice.noise, share=1.0)


def _lay_out_space(shape: TableShape, settings: DpGanSettings) -> tuple[CosineSpace | None, TableShape]:
    """Chooses what a private discriminator sees of images, None for a table, and the shape of that.

    Privacy: of public facts only.
    """
    grid = find_images(shape)
    if grid is None:
        if settings.projection_dimension is not None:
            raise UsageError("projection-dimension is for images whose every column is a pixel, or the label")
        return None, shape
    pixels = grid.pixels
    asked = settings.projection_dimension or _DIMENSION
    if settings.projection_dimension is not None and asked > pixels:
        raise UsageError(f"projection-dimension must be at most {pixels:,}, the number of pixels")
    space = CosineSpace(grid=grid, most=min(asked, pixels))
    return space, TableShape(records=shape.records, spans=space.point_spans)


def _complete_settings(
    settings: DpGanSettings, shape: TableShape, space: CosineSpace | None, **defaults: Any
) -> DpWganSettings:
    """Fills in what was not asked for: the method's own `defaults`, and those of images.

    Privacy: of public facts only. Raises: UsageError for a setting that a discriminator of images has no use for.
    """
    asked = settings.training
    if space is not None:
        for name in _NOT_OF_IMAGES:
            if name in asked:
                raise UsageError(
                    f"the private discriminator of images has no setting {name.replace('_', '-')}: it weighs products "
                    "of coordinates, without hidden layers of its own"
                )
        batch = max(1, round(_IMAGE_SHARE_OF_TABLE * min(shape.records, 32_768)))
        defaults = {**_IMAGE_SETTINGS, "expected_batch_size": batch, **defaults}
    if asked.get("epochs") is not None:
        defaults.pop("steps", None)
    return DpWganSettings(**{**defaults, **asked})


def make_discriminator(
    plan: TrainingDesign, space: CosineSpace | None, *, rng: np.random.Generator, secrets: np.random.Generator
) -> tuple[NoisyDiscriminator | NoisyProducts, PlainAscent | None]:
    """Makes the private discriminator of rows, or of points of a space, and what makes its noisy sums weights."""
    from dpwgan.critic.optimizers import PlainAscent
    from dpwgan.methods.published.discriminators import NoisyDiscriminator, NoisyProducts

    noise: dict[str, Any] = {"layer_noise": LAYER_NOISE, "rng": rng, "secrets": secrets}
    if space is not None:
        products = NoisyProducts(features=space.features, classes=space.grid.classes, length=LENGTH, **noise)
        return products, PlainAscent(products, plan)
    settings = plan.settings
    spans, hidden = plan.shape.spans, settings.hidden_critic
    return NoisyDiscriminator(spans, hidden=hidden, weight_clip=settings.weight_clip, **noise), None


def _fit_private(plan: DpGanDesign, run: Run) -> MlpSampler | SmoothSampler:
    from dpwgan.critic.generators import LatentSource, MlpGenerator
    from dpwgan.critic.loop import play
    from dpwgan.methods.published.generators import SmoothGenerator

    settings, space, rng = plan.steps.settings, plan.space, run.model
    encoded, steps = run.rows.own, run.ledger.open(CRITIC_LABEL)
    discriminator, update = make_discriminator(plan.steps, space, rng=rng, secrets=steps.secrets)
    shared: dict[str, Any] = {"latent": settings.latent, "hidden": settings.hidden_generator, "rng": rng}
    latents = LatentSource(latent=settings.latent, width=plan.steps.shape.width, rng=rng)
    generator = MlpGenerator(encoded.spans, **shared) if space is None else SmoothGenerator(space, **shared)
    weights = play(
        encoded if space is None else space.to_points(encoded),
        plan.steps,
        critic=discriminator,
        generator=generator,
        latents=latents,
        steps=steps,
        ledger=run.ledger,
        progress=run.progress,
        update=update,
    )
    if isinstance(generator, SmoothGenerator):
        return generator.to_sampler(weights)
    return MlpSampler(weights=weights, spans=encoded.spans)


def _fit_from_prior(plan: DpGanDesign | PublishedDesign, run: Run) -> RefinedTable | SmoothSampler:
    from dpwgan.critic.generators import CodeSource, LatentSource
    from dpwgan.critic.loop import play
    from dpwgan.methods.published.generators import SmoothGenerator, TableRefiner

    encoded, ledger, rng = run.rows.own, run.ledger, run.model
    prior: Any = plan.prior
    hidden = (plan.networks if isinstance(plan, PublishedDesign) else plan.steps.settings).hidden_generator
    # What is told of the prior is nothing: it is over in seconds.
    quiet = replace(run, progress=lambda done, of, epsilon: None)
    released = ledger.keep("prior", lambda: pack_model(measure_gaussians(prior, quiet)))
    space = plan.space if isinstance(plan, DpGanDesign) else None
    generator: SmoothGenerator | TableRefiner
    latents: LatentSource
    if isinstance(prior, RonGaussImageDesign):
        images = unpack_model(released, GaussianImages.load)
        # As published, the discriminator sees every pixel.
        space = space or CosineSpace(grid=prior.grid, most=min(prior.grid.pixels, MOST_DIMENSION))
        generator = SmoothGenerator(space, latent=images.latent, hidden=hidden, prior=images, rng=rng)
        rows = space.to_points(encoded)
        latents = LatentSource(latent=images.latent, width=rows.shape.width, rng=rng)
    else:
        table = unpack_model(released, ClassSampler.load)
        generator = TableRefiner(table, rows=_ROWS, hidden=hidden, rng=rng)
        rows = EncodedTable(
            codes=table.models[0].coarsening.to_groups(encoded),
            numbers=np.zeros((encoded.records, 0), np.float32),
            spans=generator.spans,
        )
        latents = CodeSource(codes=_ROWS, width=rows.shape.width, rng=rng)
    networks: dict[str, Any] = {"generator": generator, "latents": latents}
    if isinstance(plan, PublishedDesign):
        weights = train_published_table(rows, plan, run, **networks)
    else:
        # The public n: rows that a rule drops are not told by what sums are divided by.
        shape = TableShape(records=plan.steps.shape.records, spans=rows.spans)
        training, steps = replace(plan.steps, shape=shape), ledger.open(CRITIC_LABEL)
        critic, update = make_discriminator(training, space, rng=rng, secrets=steps.secrets)
        networks |= {"critic": critic, "update": update, "steps": steps}
        weights = play(rows, training, **networks, ledger=ledger, progress=run.progress)
    return generator.to_sampler(weights)
