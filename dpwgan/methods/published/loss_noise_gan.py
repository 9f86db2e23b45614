"""Noise on a GAN's loss. Han, Xue 2021: Differentially private GANs by adding noise to Discriminator's loss."""

import math
from typing import Any

from dpwgan.critic.sampler import MlpSampler
from dpwgan.methods.published.game import STEPS_LABEL, PlainDesign, fit_plainly, plan_game
from dpwgan.methods.published.samplers import ConvSampler
from dpwgan.methods.settings import GameSettings
from dpwgan.plan import Plan, Run
from dpwgan.privacy.events import PublishedClaim, Unprotected
from dpwgan.privacy.terms import Terms
from dpwgan.table.encoded import TableShape

REASON = (
    "the gradient of a loss plus noise is the gradient of the loss, so that the noise changes nothing that is trained, "
    "and the discriminator reads rows as they are"
)

# A hundredth of the table, as 600 of 60,000 in the paper, in batches of a size that trains.
_SHARE_OF_TABLE = 0.01
_LEAST_BATCH = 64
_MOST_BATCH = 600
# A discriminator step is about as much work as a generator step.
_PASSES = 1.0
# In the place of the published dropout: without either the discriminator of images wins within some steps. The value is
# that of papers/dp-gan-ron-gauss, section 4.1.
_ACTIVATION_STDDEV = math.sqrt(0.5)


class LossNoiseGan:
    """A GAN whose generator's loss is clipped and noised, as published.

    Privacy: no guarantee, whatever the noise; see docs/published.md. The epsilon asked for is the published one,
      and gives the noise by the paper's formula.
    Source: Han and Xue 2021, Computers & Security 107, 102322, Algorithm 1, section 3.4 and Eq. 19.
    """

    name = "loss-noise-gan"
    title = "GAN with noise on its loss, as published: no guarantee"
    paper = "C. Han, R. Xue: Differentially private GANs by adding noise to Discriminator's loss, 2021"

    def plan(self, shape: TableShape, terms: Terms, *, settings: GameSettings) -> Plan[PlainDesign]:
        """Fixes batch, steps and the noise that the paper asks for. Privacy: sees the public shape only.

        Raises: UsageError for what the networks cannot take.
        """
        batch = max(_LEAST_BATCH, min(_MOST_BATCH, round(_SHARE_OF_TABLE * shape.records)))
        game = plan_game(shape, settings, method=self.name, batch_size=batch, passes=_PASSES)
        noise_multiplier = published_noise(
            epsilon=terms.budget.epsilon,
            delta=terms.budget.delta,
            sampling_probability=game.batch_size / shape.records,
            steps=game.steps,
        )
        published = PublishedClaim(
            epsilon=terms.budget.epsilon,
            delta=terms.budget.delta,
            provable_epsilon=None,
            source="Han and Xue 2021, Eq. 19",
        )
        design = PlainDesign(
            game=game,
            event=Unprotected(reason=REASON, published=published),
            mechanism="gradients of the discriminator's loss on rows as they are",
            noise_multiplier=noise_multiplier,
        )
        return Plan(design=design, shape=shape, choice=terms.choose_nothing())

    def fit(self, plan: Plan[PlainDesign], run: Run) -> ConvSampler | MlpSampler:
        """Trains. Privacy: none; every read is charged before it happens. Raises: as `fit_plainly`."""
        design = plan.design

        def make_steps(networks: Any) -> Any:
            from dpwgan.methods.published.published_steps import LossNoiseSteps

            steps = LossNoiseSteps(networks, design, noise_rng=run.ledger.lend_streams(STEPS_LABEL).noise)
            return steps.train_discriminator, steps.train_generator

        return fit_plainly(design, run, make_steps=make_steps, activation_stddev=_ACTIVATION_STDDEV)


def published_noise(*, epsilon: float, delta: float, sampling_probability: float, steps: int) -> float:
    """The sigma for which the paper states an epsilon: 2 q sqrt(T ln(1/delta)) / epsilon.

    Privacy: none follows from it. The paper asks for sigma of at least 1 and q below 1/(16 sigma), which is not checked
      here, since nothing would be gained if it held.
    Source: Han and Xue 2021, Eq. 19; with q = 0.01, T = 10,000, delta = 1e-5 and sigma = 1 it states 6.786 (Table 1).
    """
    return 2 * sampling_probability * math.sqrt(steps * math.log(1 / delta)) / epsilon
