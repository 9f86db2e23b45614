"""DP-GAN as published: noise on the generator's gradients alone. Johnson 2019, chapter 4. Nothing is promised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpwgan.array_types import Floats32
from dpwgan.critic.sampler import MlpSampler
from dpwgan.critic.settings import DpWganSettings
from dpwgan.critic.weights import take_weights
from dpwgan.images.grid import LEAST_SIDE, find_images
from dpwgan.methods.published.game import train_plainly
from dpwgan.methods.published.samplers import ConvSampler
from dpwgan.plan import Cost, Part, Plan, Run
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.events import Charge, DiscreteGaussian, Gaussian, PublishedClaim, Unprotected
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import Terms
from dpwgan.table.encoded import EncodedTable, TableShape

if TYPE_CHECKING:
    from dpwgan.methods.published.networks import Networks

GENERATOR_LABEL = "generator and discriminator steps"
SOURCE = "Johnson 2019, chapter 4: noise on the generator's gradients alone"
_REASON = (
    "the discriminator's weights are trained on rows without any noise, and every gradient of the generator depends on "
    "them"
)

LAYER_NOISE = math.sqrt(0.5)
"""Stddev of the paper's noise of variance 0.5 (section 4.1). Its program has stddev 0.5, which is variance 0.25."""

# What the paper fixes for the generator's optimiser.
BATCH = 100
MICROBATCHES = 50
GENERATOR_CLIP = 1.5
RATE, MEMORIES = 2e-4, (0.5, 0.999)
# The paper takes 11,000 steps, 10 to 12 hours on a GPU of its time; these end in minutes on two cores.
_PUBLISHED_STEPS = 2_000
_PUBLISHED_IMAGE_STEPS = 300


@dataclass(frozen=True, kw_only=True)
class PublishedDesign:
    """The published run: a plain discriminator, and noise on the generator's gradients. Nothing is promised."""

    shape: TableShape
    networks: DpWganSettings
    steps: int
    batch: int
    microbatches: int
    noise_multiplier: float
    claim: PublishedClaim
    prior: Part | None
    prior_share: float | None

    @property
    def releases(self) -> Sequence[Release]:
        """What to note in the ledger."""
        steps = Release(
            label=GENERATOR_LABEL,
            event=Unprotected(reason=_REASON, published=self.claim),
            times=self.steps,
            mechanism="Adam on the discriminator, plain; Gaussian noise on the generator's clipped gradients",
            sensitivity=GENERATOR_CLIP,
            details={key: self.summary()[key] for key in ("l2_clip_norm", "microbatches", "noise_multiplier")},
        )
        return [*([] if self.prior is None else self.prior.releases), steps]

    @property
    def cost(self) -> Cost:
        """Roughly, both networks and a batch."""
        prior = 0 if self.prior is None else self.prior.cost.memory_bytes
        a_step = 0.5 if find_images(self.shape) is not None else 0.02 + self.shape.width * 2e-6 * self.microbatches
        return Cost(
            row_bytes=8 * self.shape.records * max(1, len(self.shape.spans)),
            working_bytes=prior + 4 * self.shape.width * (64 * self.batch + 12 * 1024) + 128 * 2**20,
            seconds=10.0 + self.steps * a_step,
        )

    def summary(self) -> dict[str, Any]:
        """The settings as JSON-able pairs."""
        return {
            "private_part": "generator",
            "layer_noise_variance": LAYER_NOISE**2,
            "batch_size": self.batch,
            "microbatches": self.microbatches,
            "l2_clip_norm": GENERATOR_CLIP,
            "noise_multiplier": self.noise_multiplier,
            "learning_rate": RATE,
            "steps": self.steps,
            "prior_share": self.prior_share,
        }


def plan_published(
    shape: TableShape, terms: Terms, *, networks: DpWganSettings, prior: Part | None, prior_share: float | None
) -> Plan[PublishedDesign]:
    """Fixes steps and noise as published, and works out what they prove. Privacy: sees the public shape only.

    Raises: PrivacyError if even the published accounting cannot meet the budget.
    """
    batch = min(BATCH, shape.records)
    microbatches = max(1, min(MICROBATCHES, batch // 2))
    steps = networks.steps or (_PUBLISHED_STEPS if find_images(shape) is None else _PUBLISHED_IMAGE_STEPS)
    before = (*terms.other_charges, *(release.charge for release in (prior.releases if prior else ())))
    noise_multiplier = replace(terms, other_charges=before).find_noise_multiplier(
        MOMENTS, sampling_probability=batch / shape.records, steps=steps
    )
    budget = terms.budget
    provable = provable_epsilon(
        noise_multiplier, steps=steps, microbatches=microbatches, delta=budget.delta, before=before
    )
    design = PublishedDesign(
        shape=shape,
        networks=networks,
        steps=steps,
        batch=batch,
        microbatches=microbatches,
        noise_multiplier=noise_multiplier,
        claim=PublishedClaim(epsilon=budget.epsilon, delta=budget.delta, provable_epsilon=provable, source=SOURCE),
        prior=prior,
        prior_share=prior_share,
    )
    return Plan(design=design, shape=shape, choice=terms.choose_nothing())


def provable_epsilon(
    noise_multiplier: float, *, steps: int, microbatches: int, delta: float, before: Sequence[Charge] = ()
) -> float | None:
    """An epsilon that the published steps can be proved to have, under either neighbouring relation.

    One record may change the discriminator, hence the gradients of all m microbatches: each is clipped to C, so that
    their sum moves by up to 2 m C, in every step, whether the record is in its batch or not. That is T Gaussians of
    noise multiplier sigma / (2 m) without amplification: rho = T (2 m / sigma)^2 / 2, and epsilon = rho + 2 sqrt(rho
    ln(1/delta)). The formula stands for the accountant, whose orders end above the best one, next to 1, at such a rho.
    Releases `before` are added in rho; None where one of them has none.
    Source: Bun and Steinke 2016, arXiv:1605.02065, Propositions 1.3 and 1.6; Canonne, Kamath, Steinke 2020,
      arXiv:2004.00010, Theorem 14 (whole-number noise has the same rho).
    """
    rho = steps * (2 * microbatches / noise_multiplier) ** 2 / 2
    for event, count in before:
        # A record that is replaced moves a release at most as far as this says; a zeroed one no further.
        if isinstance(event, Gaussian):
            rho += count * event.replace_one_factor**2 / (2 * event.noise_multiplier**2)
        elif isinstance(event, DiscreteGaussian):
            rho += count * 2 * event.cells / (2 * event.stddev**2)
        else:
            return None
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def fit_published(plan: PublishedDesign, run: Run) -> MlpSampler | ConvSampler:
    """Trains both networks, of a table or of images with convolutions. Privacy: none; each read is noted before it."""
    from dpwgan.critic.generators import LatentSource, MlpGenerator
    from dpwgan.methods.published.networks import ImageNetworks

    encoded, settings, rng = run.rows.own, plan.networks, run.model
    grid = find_images(plan.shape)
    if grid is None or min(grid.shape[:2]) < LEAST_SIDE:
        generator = MlpGenerator(encoded.spans, latent=settings.latent, hidden=settings.hidden_generator, rng=rng)
        latents = LatentSource(latent=settings.latent, width=plan.shape.width, rng=rng)
        weights = train_published_table(encoded, plan, run, generator=generator, latents=latents)
        return MlpSampler(weights=weights, spans=encoded.spans)
    shares = np.full(grid.classes, 1.0 / grid.classes)
    networks = ImageNetworks(
        encoded, grid, shares=shares, latent=settings.latent, activation_stddev=LAYER_NOISE, rng=rng
    )
    _train(networks, plan, run)
    return networks.make_sampler()


def train_published_table(
    encoded: EncodedTable, plan: PublishedDesign, run: Run, *, generator: Any, latents: Any
) -> tuple[Floats32, ...]:
    """Trains a generator against a perceptron, and gives its weights. Each step is noted before it reads rows."""
    from dpwgan.methods.published.discriminators import NoisyDiscriminator
    from dpwgan.methods.published.networks import TableNetworks

    hidden = plan.networks.hidden_critic
    discriminator = NoisyDiscriminator(
        encoded.spans, hidden=hidden, weight_clip=1e3, layer_noise=LAYER_NOISE, rng=run.model
    )
    networks = TableNetworks(
        encoded, generator=generator, critic=discriminator, latents=latents, score=discriminator.logit
    )
    return _train(networks, plan, run)


def _train(networks: Networks, plan: PublishedDesign, run: Run) -> tuple[Floats32, ...]:
    from dpwgan.methods.published.published_steps import PublishedSteps

    steps = PublishedSteps(networks, plan, noise_rng=run.ledger.lend_streams(GENERATOR_LABEL).noise)
    train_plainly(run, label=GENERATOR_LABEL, batch_size=plan.batch, steps=plan.steps, critic_step=steps)
    return take_weights(networks.generator_weights)
