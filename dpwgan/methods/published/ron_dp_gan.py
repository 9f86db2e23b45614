"""RON-DP-GAN. Johnson 2019: Generating Privacy Preserving Synthetic Datasets, section 5.4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpwgan.critic.plan import CRITIC_LABEL, plan_beside
from dpwgan.critic.settings import DpWganSettings
from dpwgan.errors import DpwganError, UsageError
from dpwgan.gaussians.projected_gaussian import ClassSampler
from dpwgan.images.basis import CosineSpace
from dpwgan.images.grid import find_images
from dpwgan.images.sampler import GaussianImages
from dpwgan.methods.base import Run
from dpwgan.methods.published.dp_gan import (
    MOST_DIMENSION,
    DpGanDesign,
    complete_settings,
    generate_few,
    lay_out_space,
    make_discriminator,
    refuse_nothing_to_train_on,
    seen_shape,
)
from dpwgan.methods.published.image_samplers import SmoothSampler
from dpwgan.methods.published.published_gan import PublishedDesign, plan_published, train_published_table
from dpwgan.methods.published.refined_table import RefinedTable
from dpwgan.methods.ron_gauss import (
    RonGaussDesign,
    RonGaussImageDesign,
    get_factors,
    lay_out_releases,
    measure_gaussians,
    share_out,
)
from dpwgan.methods.settings import DpGanSettings, RonDpGanSettings, RonGaussSettings
from dpwgan.plan import Cost, Plan
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.journal import Arrays
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import Terms
from dpwgan.table.encoded import EncodedTable, TableShape
from dpwgan.table.saved import pack_model, unpack_model

if TYPE_CHECKING:
    pass

# Of a budget the prior gets this share, in units of rho, and of that the counts, or means, theirs: see docs/dp-gan.md.
_TABLE_SHARES = (0.6, 1.0 - 0.6)
_IMAGE_SHARES = (0.1, 0.5, 0.4)
_PRIOR_SETTINGS = RonGaussSettings(noise="gaussian", mean_share=_TABLE_SHARES[0])
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
class RonDpGanDesign:
    """A prior's releases and a private discriminator's steps under one accountant, fixed before a row is read."""

    prior: RonGaussDesign | RonGaussImageDesign
    game: DpGanDesign
    prior_share: float

    @property
    def releases(self) -> Sequence[Release]:
        """What to reserve in the ledger."""
        return [*self.prior.releases, *self.game.releases]

    @property
    def cost(self) -> Cost:
        """That of both parts."""
        return self.prior.cost + Cost(seconds=_SECONDS_OF_REFINING) + self.game.cost

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

    def make_settings(self, **asked: Any) -> RonDpGanSettings:
        """Checks settings by name. Raises: UsageError."""
        return RonDpGanSettings.make(self.name, asked)

    def plan(
        self, shape: TableShape, terms: Terms, *, settings: RonDpGanSettings
    ) -> Plan[RonDpGanDesign | PublishedDesign]:
        """Fixes releases, batch, noise and steps as one family of charges. Privacy: sees the public shape only.

        How the noise of a step stands to the releases' is fixed first, by the prior's share; then all is scaled alike.
        Raises: UsageError without a column to train on, PrivacyError if the budget cannot be met.
        """
        refuse_nothing_to_train_on(shape, method=self.name)
        share = settings.prior_share
        if settings.private_part == "generator":
            # epsilon_RON = psi epsilon, as published; what is left is for the generator's noise.
            budget = replace(terms.budget, epsilon=share * terms.budget.epsilon)
            alone = replace(terms, budget=budget, accountant_rule=MOMENTS.name, other_charges=())
            choice = alone.calibrate(lambda scale: _lay_out_prior(shape, scale=scale, share=1.0).releases)
            prior = _lay_out_prior(shape, scale=choice.noise, share=1.0)
            networks = DpWganSettings(**settings.training)
            return plan_published(shape, terms, networks=networks, prior_share=share, prior=prior)
        space = lay_out_space(shape, settings)
        defaults = {name: value for name, value in _SETTINGS.items() if name != "steps" or not _counts_epochs(settings)}
        if space is None:
            defaults["hidden_critic"] = _TABLE_HIDDEN
        chosen = {**defaults, **settings.training}
        training = complete_settings(replace(settings, training=chosen), shape, space)
        steps = plan_beside(
            seen_shape(shape, space),
            terms,
            settings=training,
            share=1.0 - share,
            others=lambda scale: _lay_out_prior(shape, scale=scale, share=share).releases,
        )
        design = RonDpGanDesign(
            prior=_lay_out_prior(shape, scale=steps.choice.noise, share=share),
            game=DpGanDesign(settings=settings, steps=generate_few(steps.design, space), space=space),
            prior_share=share,
        )
        return Plan(design=design, shape=shape, choice=steps.choice)

    def fit(self, plan: Plan[RonDpGanDesign | PublishedDesign], run: Run) -> RefinedTable | SmoothSampler:
        """Releases the prior, then trains both networks. Privacy: each read of rows is charged before it happens.

        Raises: PrivacyError, ResourceError, UsageError.
        """
        # TensorFlow takes seconds to import; a plan must not pay for it.
        from dpwgan.critic.device import on_device

        with on_device(run.device, threads=run.threads):
            if isinstance(plan.design.prior, RonGaussImageDesign):
                return _fit_images(plan.design, run)
            return _fit_table(plan.design, run)


def _counts_epochs(settings: DpGanSettings) -> bool:
    return settings.training.get("epochs") is not None


def _lay_out_prior(shape: TableShape, *, scale: float, share: float) -> RonGaussDesign | RonGaussImageDesign:
    """Lays out the prior's releases at a noise scale of the whole."""
    shares = [share * part for part in (_TABLE_SHARES if find_images(shape) is None else _IMAGE_SHARES)]
    events = share_out(scale, shares=shares, factors=get_factors(shape, _PRIOR_SETTINGS))
    return lay_out_releases(shape, settings=_PRIOR_SETTINGS, events=events)


_PRIOR = "prior"


def _quiet(done: int, of: int, epsilon: float) -> None:
    """Stands for the progress of the prior, which is over in seconds."""


def _fit_images(plan: RonDpGanDesign | PublishedDesign, run: Run) -> SmoothSampler:
    from dpwgan.critic.latents import LatentSource
    from dpwgan.critic.private_game import play
    from dpwgan.methods.published.smooth_images import SmoothGenerator

    encoded, ledger, rng, images = run.rows.own, run.ledger, run.model, plan.prior
    if not isinstance(images, RonGaussImageDesign):
        raise DpwganError("Internal error: a prior of images was planned for a table.")

    def release_prior() -> Arrays:
        return pack_model(measure_gaussians(images, replace(run, progress=_quiet)))

    prior = unpack_model(ledger.keep(_PRIOR, release_prior), GaussianImages.load)
    latent = prior.latent
    # As published, the discriminator sees every pixel.
    space = (plan.game.space if isinstance(plan, RonDpGanDesign) else None) or lay_out_all(images.shape)
    training = plan.game.steps.settings if isinstance(plan, RonDpGanDesign) else plan.networks
    generator = SmoothGenerator(space, latent=latent, hidden=training.hidden_generator, prior=prior, rng=rng)
    latents = LatentSource(latent=latent, width=sum(span.width for span in space.point_spans), rng=rng)
    points = space.to_points(encoded)
    networks: dict[str, Any] = {"generator": generator, "latents": latents}
    told: dict[str, Any] = {"ledger": ledger, "progress": run.progress}
    if isinstance(plan, RonDpGanDesign):
        steps = ledger.open(CRITIC_LABEL)
        discriminator, update = make_discriminator(plan.game.steps, space, rng=rng, secrets=steps.secrets)
        weights = play(points, plan.game.steps, critic=discriminator, steps=steps, update=update, **networks, **told)
    else:
        weights = train_published_table(points, plan, run, **networks)
    return generator.to_sampler(weights)


def lay_out_all(shape: TableShape) -> CosineSpace:
    """Gives the space of all pixels' worth of coordinates, as many as a network may see. Privacy: public facts only."""
    grid = find_images(shape)
    if grid is None:
        raise UsageError("the table is no table of images")
    return CosineSpace(grid=grid, most=min(len(grid.sources), MOST_DIMENSION))


def _fit_table(plan: RonDpGanDesign | PublishedDesign, run: Run) -> RefinedTable:
    from dpwgan.critic.private_game import play
    from dpwgan.critic.tensor_mixture import CodeSource
    from dpwgan.methods.published.table_refiner import TableRefiner

    encoded, ledger, rng = run.rows.own, run.ledger, run.model
    if not isinstance(plan.prior, RonGaussDesign):
        raise DpwganError("Internal error: a prior of a table was planned for images.")
    releases = plan.prior

    def release_prior() -> Arrays:
        return pack_model(measure_gaussians(releases, replace(run, progress=_quiet)))

    prior = unpack_model(ledger.keep(_PRIOR, release_prior), ClassSampler.load)
    training = plan.game.steps.settings if isinstance(plan, RonDpGanDesign) else plan.networks
    generator = TableRefiner(prior, rows=_ROWS, hidden=training.hidden_generator, rng=rng)
    groups = EncodedTable(
        codes=prior.models[0].coarsening.to_groups(encoded),
        numbers=np.zeros((encoded.records, 0), np.float32),
        spans=generator.spans,
    )
    shape = groups.shape
    latents = CodeSource(codes=_ROWS, width=shape.width, rng=rng)
    networks: dict[str, Any] = {"generator": generator, "latents": latents}
    told: dict[str, Any] = {"ledger": ledger, "progress": run.progress}
    if isinstance(plan, RonDpGanDesign):
        game, steps = replace(plan.game.steps, shape=shape), ledger.open(CRITIC_LABEL)
        discriminator, _ = make_discriminator(game, None, rng=rng, secrets=steps.secrets)
        weights = play(groups, game, critic=discriminator, steps=steps, **networks, **told)
    else:
        weights = train_published_table(groups, plan, run, **networks)
    return generator.to_sampler(weights)
