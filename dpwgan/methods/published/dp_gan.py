"""DP-GAN. Johnson 2019: Generating Privacy Preserving Synthetic Datasets, chapters 4 and 5.2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpwgan.critic.plan import CRITIC_LABEL, TENSORFLOW_SECONDS, TrainingDesign, plan_training
from dpwgan.critic.sampler import MlpSampler
from dpwgan.critic.settings import DpWganSettings
from dpwgan.errors import UsageError
from dpwgan.images.basis import LENGTH, CosineSpace
from dpwgan.images.grid import find_images
from dpwgan.methods.base import Run
from dpwgan.methods.published.published_gan import LAYER_NOISE, PublishedDesign, fit_published, plan_published
from dpwgan.methods.published.samplers import ConvSampler, SmoothSampler
from dpwgan.methods.settings import DpGanSettings
from dpwgan.plan import Cost, Plan
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import Terms
from dpwgan.table.encoded import TableShape

if TYPE_CHECKING:
    import numpy as np

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


@dataclass(frozen=True, kw_only=True)
class DpGanDesign:
    """A private discriminator's steps, fixed before a row is read. `space`: what it sees of images; None for tables."""

    settings: DpGanSettings
    steps: TrainingDesign
    space: CosineSpace | None

    @property
    def releases(self) -> Sequence[Release]:
        """What to reserve in the ledger."""
        return self.steps.releases

    @property
    def cost(self) -> Cost:
        """That of the steps, with the noise on layers; of images that of what is seen of them."""
        plan, space, batch = self.steps, self.space, self.steps.generated_batch_size
        if space is None:
            rows = plan.expected_batch_size + plan.generated_batch_size + plan.settings.generator_steps * batch
            return plan.cost + Cost(seconds=plan.steps * rows * sum(plan.settings.hidden_critic) * _SECONDS_OF_NOISE)
        products, classes = space.features**2, space.grid.classes
        numbers = space.pixels * (4 * space.dimension + 8 * batch)
        numbers += products * (3 * classes + int(4 * plan.expected_batch_size))
        step = 6e-9 * products * (plan.expected_batch_size + classes)
        a_round = 1e-10 * batch * (space.pixels * space.dimension + products * classes) + 3e-9 * batch * products
        seconds = TENSORFLOW_SECONDS + plan.steps * (step + plan.settings.generator_steps * a_round)
        return replace(plan.cost + Cost(working_bytes=4 * numbers), seconds=seconds)

    def summary(self) -> dict[str, Any]:
        """The settings as JSON-able pairs."""
        summary = self.steps.summary()
        del summary["engine"]
        seen = {}
        if self.space is not None:
            for name in _NOT_OF_IMAGES:
                del summary[name]
            weights = (self.space.grid.classes + 1) * self.space.features**2
            seen = {"projection_dimension": self.space.dimension}
            summary["critic_weights"] = weights
        return {"private_part": "discriminator", "layer_noise_variance": LAYER_NOISE**2, **seen, **summary}


class DpGan:
    """A GAN whose discriminator reads rows through clipped, noised gradients; or, as published, without.

    Privacy: with the private part discriminator (the default) rows are read by its steps alone, each a Gaussian
      mechanism on a Poisson sample; the generator and every sampled row are post-processing. With the private part
      generator nothing is promised. See docs/dp-gan.md.
    """

    name = "dp-gan"
    title = "Differentially private GAN (DP-GAN)"
    paper = "N. A. G. Johnson: Generating Privacy Preserving Synthetic Datasets, Princeton University, 2019"

    def plan(self, shape: TableShape, terms: Terms, *, settings: DpGanSettings) -> Plan[DpGanDesign | PublishedDesign]:
        """Fixes batch, noise and steps. Privacy: sees the public shape only.

        Raises: UsageError for a setting that the table has no use for, PrivacyError if the budget cannot be met.
        """
        if settings.private_part == "generator":
            return plan_published(shape, terms, networks=DpWganSettings(**settings.training))
        space, seen = lay_out_space(shape, settings)
        training = plan_training(seen, terms, settings=complete_settings(settings, shape, space))
        design = lay_out_game(settings, training.design, space)
        return Plan(design=design, shape=shape, choice=training.choice)

    def fit(self, plan: Plan[DpGanDesign | PublishedDesign], run: Run) -> MlpSampler | SmoothSampler | ConvSampler:
        """Trains both networks for the planned steps. Privacy: each step is charged before it reads rows.

        Raises: PrivacyError, ResourceError, UsageError.
        """
        # TensorFlow takes seconds to import; a plan must not pay for it.
        from dpwgan.critic.device import on_device

        with on_device(run.device, threads=run.threads):
            if isinstance(plan.design, PublishedDesign):
                return fit_published(plan.design, run)
            return _fit_private(plan.design, run)


def lay_out_space(shape: TableShape, settings: DpGanSettings) -> tuple[CosineSpace | None, TableShape]:
    """Chooses what a private discriminator sees of images, None for a table, and the shape of that.

    Privacy: of public facts only.
    """
    grid = find_images(shape)
    if grid is None:
        if settings.projection_dimension is not None:
            raise UsageError("projection-dimension is for images whose every column is a pixel, or the label")
        return None, shape
    pixels = len(grid.sources)
    asked = settings.projection_dimension or _DIMENSION
    if settings.projection_dimension is not None and asked > pixels:
        raise UsageError(f"projection-dimension must be at most {pixels:,}, the number of pixels")
    space = CosineSpace(grid=grid, most=min(asked, pixels))
    return space, TableShape(records=shape.records, spans=space.point_spans)


def complete_settings(
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


def lay_out_game(settings: DpGanSettings, steps: TrainingDesign, space: CosineSpace | None) -> DpGanDesign:
    """Puts steps together whose noise is calibrated. Generated batches of images are small: each step has several."""
    if space is not None:
        steps = replace(steps, generated_batch_size=_IMAGE_GENERATED)
    return DpGanDesign(settings=settings, steps=steps, space=space)


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
