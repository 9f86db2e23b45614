"""RON-DP-GAN. Johnson 2019: Generating Privacy Preserving Synthetic Datasets, section 5.4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpwgan.critic.plan import CRITIC_LABEL, plan_beside
from dpwgan.critic.settings import DpWganSettings
from dpwgan.gaussians.projected_gaussian import ClassSampler
from dpwgan.images.basis import CosineSpace
from dpwgan.images.grid import find_images
from dpwgan.images.sampler import GaussianImages
from dpwgan.methods.base import Run
from dpwgan.methods.published.dp_gan import (
    DpGanDesign,
    complete_settings,
    lay_out_game,
    lay_out_space,
    make_discriminator,
)
from dpwgan.methods.published.published_gan import PublishedDesign, plan_published, train_published_table
from dpwgan.methods.published.samplers import RefinedTable, SmoothSampler
from dpwgan.methods.ron_gauss import lay_out_gaussians, measure_gaussians
from dpwgan.methods.ron_gauss_images import RonGaussImageDesign
from dpwgan.methods.ron_gauss_tables import MOST_DIMENSION, RonGaussDesign
from dpwgan.methods.settings import RonDpGanSettings, RonGaussSettings
from dpwgan.plan import Cost, Plan
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.journal import Arrays
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import Terms
from dpwgan.table.encoded import EncodedTable, TableShape
from dpwgan.table.saved import pack_model, unpack_model

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
        """The settings as JSON-able pairs."""
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

    def plan(
        self, shape: TableShape, terms: Terms, *, settings: RonDpGanSettings
    ) -> Plan[RonDpGanDesign | PublishedDesign]:
        """Fixes releases, batch, noise and steps as one family of charges. Privacy: sees the public shape only.

        How the noise of a step stands to the releases' is fixed first, by the prior's share; then all is scaled alike.
        Raises: UsageError for a setting that the table has no use for, PrivacyError if the budget cannot be met.
        """
        share = settings.prior_share
        if settings.private_part == "generator":
            # epsilon_RON = psi epsilon, as published; what is left is for the generator's noise.
            budget = replace(terms.budget, epsilon=share * terms.budget.epsilon)
            alone = replace(terms, budget=budget, accountant_rule=MOMENTS.name, other_charges=())
            choice = alone.calibrate(lambda scale: _lay_out_prior(shape, scale=scale, share=1.0).releases)
            prior = _lay_out_prior(shape, scale=choice.noise, share=1.0)
            networks = DpWganSettings(**settings.training)
            return plan_published(shape, terms, networks=networks, prior_share=share, prior=prior)
        space, seen = lay_out_space(shape, settings)
        defaults = _SETTINGS if space is not None else {**_SETTINGS, "hidden_critic": _TABLE_HIDDEN}
        steps = plan_beside(
            seen,
            terms,
            settings=complete_settings(settings, shape, space, **defaults),
            share=1.0 - share,
            others=lambda scale: _lay_out_prior(shape, scale=scale, share=share).releases,
        )
        design = RonDpGanDesign(
            prior=_lay_out_prior(shape, scale=steps.choice.noise, share=share),
            game=lay_out_game(settings, steps.design, space),
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
            return _fit(plan.design, run)


def _lay_out_prior(shape: TableShape, *, scale: float, share: float) -> RonGaussDesign | RonGaussImageDesign:
    """Lays out the prior's releases at a noise scale of the whole."""
    shares = [share * part for part in (_TABLE_SHARES if find_images(shape) is None else _IMAGE_SHARES)]
    return lay_out_gaussians(shape, settings=_PRIOR_SETTINGS, shares=shares, scale=scale)


def _quiet(done: int, of: int, epsilon: float) -> None:
    """Stands for the progress of the prior, which is over in seconds."""


def _fit(plan: RonDpGanDesign | PublishedDesign, run: Run) -> RefinedTable | SmoothSampler:
    from dpwgan.critic.generators import CodeSource, LatentSource
    from dpwgan.critic.loop import play
    from dpwgan.methods.published.generators import SmoothGenerator, TableRefiner

    encoded, ledger, rng = run.rows.own, run.ledger, run.model
    prior: Any = plan.prior
    game = plan.game if isinstance(plan, RonDpGanDesign) else None
    hidden = (plan.networks if isinstance(plan, PublishedDesign) else plan.game.steps.settings).hidden_generator

    def release_prior() -> Arrays:
        return pack_model(measure_gaussians(prior, replace(run, progress=_quiet)))

    released = ledger.keep("prior", release_prior)
    space: CosineSpace | None = None
    generator: SmoothGenerator | TableRefiner
    latents: LatentSource
    if isinstance(prior, RonGaussImageDesign):
        images = unpack_model(released, GaussianImages.load)
        # As published, the discriminator sees every pixel.
        everything = CosineSpace(grid=prior.grid, most=min(len(prior.grid.sources), MOST_DIMENSION))
        space = everything if game is None or game.space is None else game.space
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
        training, steps = replace(plan.game.steps, shape=rows.shape), ledger.open(CRITIC_LABEL)
        critic, update = make_discriminator(training, space, rng=rng, secrets=steps.secrets)
        networks |= {"critic": critic, "update": update, "steps": steps}
        weights = play(rows, training, **networks, ledger=ledger, progress=run.progress)
    return generator.to_sampler(weights)
