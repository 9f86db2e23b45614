"""RON-DP-GAN. Johnson 2019: Generating Privacy Preserving Synthetic Datasets, section 5.4."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpwgan.critic.plan import CRITIC_LABEL, plan_beside
from dpwgan.critic.settings import DpWganSettings
from dpwgan.errors import DpwganError, UsageError
from dpwgan.gaussians.class_moments import counts_replace_one_factor, covariance_replace_one_factor
from dpwgan.gaussians.projected_gaussian import ClassSampler
from dpwgan.images.cosine_space import CosineSpace
from dpwgan.images.image_moments import MEANS_REPLACE_ONE_FACTOR
from dpwgan.images.projected_images import ImageSampler, fit_pixels
from dpwgan.methods.base import Progress
from dpwgan.methods.image_gaussian import (
    ImageGaussianPlan,
    find_images,
    plan_image_gaussian,
    release_image_gaussian,
)
from dpwgan.methods.published.dp_gan import (
    MOST_DIMENSION,
    DpGanPlan,
    DpGanSettings,
    complete_settings,
    generate_few,
    lay_out_space,
    make_discriminator,
    make_dp_gan_settings,
    refuse_nothing_to_train_on,
    seen_shape,
)
from dpwgan.methods.published.published_gan import PublishedPlan, plan_published, train_published_table
from dpwgan.methods.published.refined_table import RefinedTable
from dpwgan.methods.published.smooth_sampler import SmoothSampler
from dpwgan.methods.ron_gauss import RonGauss, RonGaussPlan, RonGaussSettings, lay_out_releases
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.choose import AccountantChoice, FamilyChoice, choose_accountant_for_family
from dpwgan.privacy.events import Charge, Gaussian, gaussian
from dpwgan.privacy.journal import Arrays
from dpwgan.privacy.randomness import Streams
from dpwgan.privacy.release import Release
from dpwgan.table.encoded import EncodedTable, TableShape
from dpwgan.table.packed import pack_model, unpack_model

if TYPE_CHECKING:
    from dpwgan.privacy.ledger import Ledger

# Of a budget the prior gets this share, in units of rho, and of that the counts, or means, theirs: see docs/dp-gan.md.
PRIOR_SHARE = 0.7
_COUNTS_SHARE = 0.6
_CENTRE_SHARE, _MEANS_SHARE, _COVARIANCE_SHARE = 0.1, 0.5, 0.4
# Where the generator starts as the prior it has little to learn, and much to lose: a small network, few small steps.
_TABLE_HIDDEN = (64,)
_SETTINGS: dict[str, Any] = {
    "hidden_generator": (64,),
    "generator_learning_rate": 5e-4,
    "steps": 300,
}
# Rows of the prior that a table's generator learns on: many more than it can learn by heart.
_ROWS = 32_768
# What drawing those, and compiling steps on them, takes: measured on RAND HIE.
_SECONDS_OF_REFINING = 3.0


@dataclass(frozen=True, kw_only=True)
class RonDpGanPlan:
    """A prior's releases and a private discriminator's steps under one accountant, fixed before a row is read."""

    prior: RonGaussPlan | ImageGaussianPlan
    game: DpGanPlan
    prior_share: float

    @property
    def choice(self) -> AccountantChoice:
        """The accountant and why: chosen for all charges together."""
        return self.game.choice

    @property
    def releases(self) -> Sequence[Release]:
        """What to reserve in the ledger."""
        return [*self.prior.releases, *self.game.releases]

    @property
    def memory_bytes(self) -> int:
        """Estimate of the memory that the run takes."""
        return self.prior.memory_bytes + self.game.memory_bytes

    @property
    def row_bytes(self) -> int:
        """The part of it that the rows take, which is on disk instead where they are."""
        return self.prior.row_bytes + self.game.row_bytes

    @property
    def seconds(self) -> float:
        """Estimate of the time on two cores."""
        return self.prior.seconds + _SECONDS_OF_REFINING + self.game.seconds

    def summary(self) -> dict[str, Any]:
        """Gives the settings as JSON-able pairs."""
        summary = self.game.summary()
        for name in ("latent", "generator_weights"):
            del summary[name]
        return {"prior_share": self.prior_share, **summary}


class RonDpGan:
    """A GAN whose generator starts from a Gaussian of RON-Gauss, which is released with a share of the budget.

    Privacy: with the private part discriminator (the default), the prior's releases and the discriminator's steps
      are charged in one ledger; all else is post-processing. With the private part generator the prior is as private,
      and the run is not. See docs/dp-gan.md.
    """

    name = "ron-dp-gan"
    title = "DP-GAN with a RON-Gauss prior (RON-DP-GAN)"
    paper = "N. A. G. Johnson: Generating Privacy Preserving Synthetic Datasets, Princeton University, 2019"

    def make_settings(self, **asked: Any) -> DpGanSettings:
        """Checks settings by name. Raises: UsageError."""
        if "latent" in asked:
            raise UsageError(f"the method {self.name} has no setting latent: the prior is the latent's law")
        return make_dp_gan_settings(self.name, {"prior_share": PRIOR_SHARE, **asked})

    def plan(
        self,
        shape: TableShape,
        budget: Budget,
        *,
        settings: DpGanSettings,
        accountant_rule: str,
        neighboring_relation: NeighboringRelation,
        other_charges: Sequence[Charge] = (),
    ) -> RonDpGanPlan | PublishedPlan:
        """Fixes releases, batch, noise and steps as one family of charges. Privacy: sees the public shape only.

        How the noise of a step stands to the releases' is fixed first, by the prior's share; then all is scaled alike.
        Raises: UsageError without a column to train on, PrivacyError if the budget cannot be met.
        """
        refuse_nothing_to_train_on(shape, method=self.name)
        share = PRIOR_SHARE if settings.prior_share is None else settings.prior_share
        shared: dict[str, Any] = {
            "budget": budget,
            "neighboring_relation": neighboring_relation,
            "other_charges": other_charges,
        }
        if settings.private_part == "generator":
            # epsilon_RON = psi epsilon, as published; what is left is for the generator's noise.
            part = replace(budget, epsilon=share * budget.epsilon)
            choice = choose_accountant_for_family(
                MOMENTS.name,
                budget=part,
                charges=lambda scale: _release(shape, scale=scale, share=1.0),
                neighboring_relation=neighboring_relation,
            )
            return plan_published(
                shape,
                budget,
                networks=DpWganSettings(**settings.training),
                accountant_rule=accountant_rule,
                neighboring_relation=neighboring_relation,
                other_charges=other_charges,
                prior_share=settings.prior_share,
                prior=_plan_prior(shape, choice, scale=choice.noise_scale, share=1.0),
            )
        space = lay_out_space(shape, settings)
        defaults = {name: value for name, value in _SETTINGS.items() if name != "steps" or not _counts_epochs(settings)}
        if space is None:
            defaults["hidden_critic"] = _TABLE_HIDDEN
        chosen = {**defaults, **settings.training}
        training = complete_settings(replace(settings, training=chosen), shape, space)
        steps, choice = plan_beside(
            seen_shape(shape, space),
            settings=training,
            share=1.0 - share,
            others=lambda scale: _release(shape, scale=scale, share=share),
            accountant_rule=accountant_rule,
            **shared,
        )
        return RonDpGanPlan(
            prior=_plan_prior(shape, choice, scale=choice.noise_scale, share=share),
            game=DpGanPlan(settings=settings, steps=generate_few(steps, space), space=space),
            prior_share=share,
        )

    def fit(
        self,
        encoded: EncodedTable,
        plan: RonDpGanPlan | PublishedPlan,
        *,
        streams: Streams,
        ledger: Ledger,
        progress: Progress,
        device: str = "auto",
        threads: int | None = None,
    ) -> RefinedTable | SmoothSampler:
        """Releases the prior, then trains both networks. Privacy: each read of rows is charged before it happens.

        Raises: PrivacyError, ResourceError, UsageError.
        """
        # TensorFlow takes seconds to import; a plan must not pay for it.
        from dpwgan.critic.device import on_device

        run: dict[str, Any] = {"streams": streams, "ledger": ledger, "progress": progress}
        with on_device(device, threads=threads):
            if isinstance(plan.prior, ImageGaussianPlan):
                return _fit_images(encoded, plan, **run)
            return _fit_table(encoded, plan, **run)


def _counts_epochs(settings: DpGanSettings) -> bool:
    return settings.training.get("epochs") is not None


def _release(shape: TableShape, *, scale: float, share: float) -> list[Charge]:
    """Gives the charges of the prior's releases, at a noise scale of the whole."""
    if find_images(shape) is not None:
        parts: tuple[tuple[float, float], ...] = (
            (_CENTRE_SHARE, MEANS_REPLACE_ONE_FACTOR),
            (_MEANS_SHARE, MEANS_REPLACE_ONE_FACTOR),
            (_COVARIANCE_SHARE, covariance_replace_one_factor(Gaussian)),
        )
    else:
        parts = (
            (_COUNTS_SHARE, counts_replace_one_factor(Gaussian)),
            (1.0 - _COUNTS_SHARE, covariance_replace_one_factor(Gaussian)),
        )
    return [
        (gaussian(noise_multiplier=scale / math.sqrt(share * part), replace_one_factor=factor), 1)
        for part, factor in parts
    ]


def _plan_prior(
    shape: TableShape, choice: FamilyChoice, *, scale: float, share: float
) -> RonGaussPlan | ImageGaussianPlan:
    events = [event for event, _ in _release(shape, scale=scale, share=share) if isinstance(event, Gaussian)]
    if find_images(shape) is not None:
        centre, means, covariance = events
        return plan_image_gaussian(shape, centre=centre, means=means, covariance=covariance)
    counts, covariance = events
    settings = RonGaussSettings(noise="gaussian", mean_share=_COUNTS_SHARE)
    return lay_out_releases(shape, settings=settings, counts=counts, covariance=covariance, choice=choice)


_PRIOR = "prior"


def _quiet(done: int, of: int, epsilon: float) -> None:
    """Stands for the progress of the prior, which is over in seconds."""


def _fit_images(
    encoded: EncodedTable,
    plan: RonDpGanPlan | PublishedPlan,
    *,
    streams: Streams,
    ledger: Ledger,
    progress: Progress,
) -> SmoothSampler:
    from dpwgan.critic.latents import LatentSource
    from dpwgan.critic.private_game import play
    from dpwgan.methods.published.smooth_images import SmoothGenerator

    rng, images = streams.model, plan.prior
    if not isinstance(images, ImageGaussianPlan):
        raise DpwganError("Internal error: a prior of images was planned for a table.")

    def release_prior() -> Arrays:
        moments = release_image_gaussian(encoded, images, streams=streams, ledger=ledger)
        return pack_model(
            fit_pixels(
                moments, spans=encoded.spans, label=images.label, sources=np.array(images.sources), levels=images.levels
            )
        )

    prior = unpack_model(ledger.keep(_PRIOR, release_prior), ImageSampler.load)
    latent = int(prior.loadings.shape[1])
    # As published, the discriminator sees every pixel.
    space = (plan.game.space if isinstance(plan, RonDpGanPlan) else None) or lay_out_all(images.shape)
    training = plan.game.steps.settings if isinstance(plan, RonDpGanPlan) else plan.networks
    generator = SmoothGenerator(space, latent=latent, hidden=training.hidden_generator, prior=prior, rng=rng)
    latents = LatentSource(latent=latent, width=sum(span.width for span in space.point_spans), rng=rng)
    points = space.to_points(encoded)
    run: dict[str, Any] = {"generator": generator, "latents": latents, "ledger": ledger, "progress": progress}
    if isinstance(plan, RonDpGanPlan):
        steps = ledger.open(CRITIC_LABEL)
        discriminator, update = make_discriminator(plan.game.steps, space, rng=rng, secrets=steps.secrets)
        weights = play(points, plan.game.steps, critic=discriminator, steps=steps, update=update, **run)
    else:
        weights = train_published_table(points, plan, streams=streams, **run)
    return generator.to_sampler(weights)


def lay_out_all(shape: TableShape) -> CosineSpace:
    """Gives the space of all pixels' worth of coordinates, as many as a network may see. Privacy: public facts only."""
    grid = find_images(shape)
    if grid is None:
        raise UsageError("the table is no table of images")
    return CosineSpace(grid=grid, most=min(len(grid.sources), MOST_DIMENSION))


def _fit_table(
    encoded: EncodedTable,
    plan: RonDpGanPlan | PublishedPlan,
    *,
    streams: Streams,
    ledger: Ledger,
    progress: Progress,
) -> RefinedTable:
    from dpwgan.critic.private_game import play
    from dpwgan.critic.tensor_mixture import CodeSource
    from dpwgan.methods.published.table_refiner import TableRefiner

    rng = streams.model
    if not isinstance(plan.prior, RonGaussPlan):
        raise DpwganError("Internal error: a prior of a table was planned for images.")
    releases = plan.prior

    def release_prior() -> Arrays:
        return pack_model(RonGauss().fit(encoded, releases, streams=streams, ledger=ledger, progress=_quiet))

    prior = unpack_model(ledger.keep(_PRIOR, release_prior), ClassSampler.load)
    training = plan.game.steps.settings if isinstance(plan, RonDpGanPlan) else plan.networks
    generator = TableRefiner(prior, rows=_ROWS, hidden=training.hidden_generator, rng=rng)
    groups = EncodedTable(
        codes=prior.models[0].coarsening.to_groups(encoded),
        numbers=np.zeros((encoded.records, 0), np.float32),
        spans=generator.spans,
    )
    shape = groups.shape
    latents = CodeSource(codes=_ROWS, width=shape.width, rng=rng)
    run: dict[str, Any] = {"generator": generator, "latents": latents, "ledger": ledger, "progress": progress}
    if isinstance(plan, RonDpGanPlan):
        game, steps = replace(plan.game.steps, shape=shape), ledger.open(CRITIC_LABEL)
        discriminator, _ = make_discriminator(game, None, rng=rng, secrets=steps.secrets)
        weights = play(groups, game, critic=discriminator, steps=steps, **run)
    else:
        weights = train_published_table(groups, plan, streams=streams, **run)
    return generator.to_sampler(weights)
