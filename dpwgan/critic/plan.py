"""The plan of a critic's training: sampler, clip, noise and event together, from public facts alone."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from dpwgan.critic.settings import DpWganSettings
from dpwgan.errors import PrivacyError, UsageError
from dpwgan.plan import Cost, Plan
from dpwgan.privacy.events import PoissonGaussian
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import Terms
from dpwgan.table.encoded import TableShape

CRITIC_LABEL = "critic steps"

# With 1,500 steps at a twentieth of the table each (75 passes) accounting asks for about as much noise as for one look
# at the whole table with the same budget: more rows a step would cost time and gain nothing. Small tables are read
# in larger parts, since a batch of a few rows teaches a critic nothing; large ones in at most 8,192 rows a step.
_STEPS = 1_500
_SHARE_OF_TABLE = 0.05
_LEAST_BATCH = 256
_MOST_BATCH = 8_192
# Generated rows are dense: on wide tables fewer of them fill the same time and memory.
_MOST_GENERATED = 1_024
_LEAST_GENERATED = 256
_GENERATED_CELLS = 2**21
# Learning rates fall by the same factor each step, to this share of what they were.
_LAST_RATE = 0.02
# Beside other releases a step has at least as much noise as its clip norm: with less, sampling amplifies little.
_LEAST_NOISE = 1.0
_ROUNDING = 1e-4
_ROUNDING_A_ROW = 5e-8


@dataclass(frozen=True, kw_only=True)
class TrainingDesign:
    """Everything that decides the privacy and the cost of a training run, fixed before a row is read.

    Units: `noise_multiplier` is noise stddev over `l2_clip_norm`.
    """

    shape: TableShape
    settings: DpWganSettings
    steps: int
    sampling_probability: float
    noise_multiplier: float
    generated_batch_size: int

    @property
    def expected_batch_size(self) -> float:
        """q n, the public divisor of a step's sums."""
        return self.sampling_probability * self.shape.records

    @property
    def l2_clip_norm(self) -> float:
        """The longest gradient of a record."""
        return self.settings.l2_clip_norm

    @property
    def clip_target(self) -> float:
        """What gradients are clipped to: a little less than `l2_clip_norm`, by what float32 sums may be off.

        Privacy: taking a record out re-rounds the sum of all others. With 8,192 rows the sums were seen to move by
          2e-5 of C more than the record, with 65,536 by 2e-4, with 400,000 by 5e-3: a few parts in 10^9 a row. The
          margin is several times that, so that the sensitivity stays below `l2_clip_norm` as computed, not only in
          real numbers. Tested at the largest batch that is chosen by itself. Rows of units count one by one: of 50 rows
          each, 20,000 units were seen to move sums by 1.6e-2 of C more.
        """
        return self.l2_clip_norm * (1.0 - _ROUNDING - _ROUNDING_A_ROW * self.expected_batch_size)

    def learning_share(self, step: int) -> float:
        """The share of the settings' learning rates that a step has, counted from 0."""
        return float(_LAST_RATE ** (step / self.steps))

    @property
    def releases(self) -> list[Release]:
        """What to reserve in the ledger."""
        return [
            Release(
                label=CRITIC_LABEL,
                event=PoissonGaussian(
                    sampling_probability=self.sampling_probability, noise_multiplier=self.noise_multiplier
                ),
                times=self.steps,
                mechanism="Gaussian on the sum of clipped per-record gradients of the critic, over a Poisson sample",
                sensitivity=self.l2_clip_norm,
                details={"l2_clip_norm": self.l2_clip_norm, "expected_batch_size": self.expected_batch_size},
            )
        ]

    @property
    def critic_weights(self) -> int:
        """Number of weights of the critic: each gets noise in each step."""
        sizes = self.shape.width, *self.settings.hidden_critic
        return count_weights(sizes) + sizes[-1]

    @property
    def generator_weights(self) -> int:
        """Number of weights of the generator."""
        return count_weights((self.settings.latent, *self.settings.hidden_generator, self.shape.width))

    @property
    def cost(self) -> Cost:
        """The encoded table, the weights and their copies, one batch; the time of training and of sampling."""
        weights = 4 * (9 * self.critic_weights + 6 * self.generator_weights)
        hidden = sum(self.settings.hidden_critic) + sum(self.settings.hidden_generator)
        batch = 4 * (
            self.expected_batch_size * (4 * sum(self.settings.hidden_critic) + 3 * len(self.shape.spans))
            + 2 * self.generated_batch_size * (_COPIES * self.shape.width + 6 * hidden)
        )
        return Cost(
            row_bytes=8 * self.shape.records * max(1, len(self.shape.spans)),
            working_bytes=int(weights + batch),
            seconds=self._estimate_seconds(),
        )

    def _estimate_seconds(self) -> float:
        dense = self.shape.width * self.settings.hidden_critic[0]
        generator_pass = 2 * self.generator_weights
        generator_steps = self.settings.generator_steps / self.settings.critic_steps_per_generator_step
        per_step = (
            (2 * self.generated_batch_size * (3 * dense + generator_pass))
            + generator_steps * self.generated_batch_size * (6 * dense + 3 * generator_pass)
        ) / _FLOP_RATE
        per_step += (
            self.expected_batch_size * len(self.shape.spans) * self.settings.hidden_critic[0] * SECONDS_A_ROW_CELL
        )
        per_step += self.critic_weights * 1e-8 + self.generator_weights * generator_steps * 5e-9
        per_step += (1 + generator_steps) * (self.generated_batch_size * self.shape.width * 3e-9 + 2e-3)
        sampling = self.shape.records * self.generator_weights * _SECONDS_A_SAMPLED_WEIGHT
        return TENSORFLOW_SECONDS + self.steps * per_step + sampling

    def summary(self) -> dict[str, Any]:
        """The settings of the run, those asked for and those chosen, as JSON-able pairs."""
        return {
            **{key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self.settings).items()},
            "expected_batch_size": self.expected_batch_size,
            "sampling_probability": self.sampling_probability,
            "noise_multiplier": self.noise_multiplier,
            "steps": self.steps,
            "encoded_width": self.shape.width,
            "critic_weights": self.critic_weights,
            "generator_weights": self.generator_weights,
        }


# Copies of a generated batch that are held at once: heads, draws and gradients, span by span. From the peak of a run of
# width 13,145: 2.3 GB.
_COPIES = 56
# Measured on two cores of a shared server: products of a few hundred by a few thousand.
_FLOP_RATE = 1.5e11
# What importing TensorFlow and compiling the steps take: from runs of 100 and of 600 steps on RAND HIE.
TENSORFLOW_SECONDS = 3.2
# A weight of the generator for each row that is sampled: from IPUMS and a made-up census of width 13,145.
_SECONDS_A_SAMPLED_WEIGHT = 1e-10
# A column of a row that a critic's step reads, for each unit of the first layer: from runs on adult and IPUMS.
SECONDS_A_ROW_CELL = 1e-9


def count_weights(sizes: Sequence[int]) -> int:
    """Counts the weights, biases too, of layers between these widths."""
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))


def plan_training(shape: TableShape, terms: Terms, *, settings: DpWganSettings) -> Plan[TrainingDesign]:
    """Fixes batch, noise and steps from the public shape and the budget.

    Privacy: the number of steps is fixed here, before training; the noise is what the chosen accountant asks for.
    Raises: PrivacyError if the budget cannot be met, or if a step's noise would drown whatever it could teach.
    """
    sampling_probability = choose_sampling_probability(shape, settings)
    steps = choose_steps(settings, sampling_probability=sampling_probability)
    if settings.noise_multiplier is None:
        choice = terms.calibrate_steps(sampling_probability=sampling_probability, steps=steps)
    else:
        choice = terms.fit_steps(
            noise_multiplier=settings.noise_multiplier,
            sampling_probability=sampling_probability,
            at_most_steps=steps,
        )
    if choice.steps < settings.critic_steps_per_generator_step:
        raise PrivacyError(
            f"the budget of epsilon {terms.budget.epsilon:g} pays for {choice.steps} critic steps at noise multiplier "
            f"{choice.noise:g}; one generator step takes {settings.critic_steps_per_generator_step}, so the "
            "generator would stay untrained"
        )
    training = TrainingDesign(
        shape=shape,
        settings=settings,
        steps=choice.steps,
        sampling_probability=sampling_probability,
        noise_multiplier=choice.noise,
        generated_batch_size=choose_generated_batch(shape.width),
    )
    return Plan(design=training, shape=shape, choice=choice)


def plan_beside(
    shape: TableShape,
    terms: Terms,
    *,
    settings: DpWganSettings,
    share: float,
    others: Callable[[float], Sequence[Release]],
) -> Plan[TrainingDesign]:
    """Fixes a critic's steps together with other releases, under one accountant.

    The ratio of a step's noise to that of the others is fixed first, by the critic's `share` of rho; then all noise is
    scaled together until the budget is met. `others` makes the other releases at a scale; the plan's choice has the
    scale that was found.
    Privacy: sees public facts only. Raises: UsageError for too few steps, PrivacyError if the budget cannot be met.
    """
    probability = choose_sampling_probability(shape, settings)
    steps = choose_steps(settings, sampling_probability=probability)
    if steps < settings.critic_steps_per_generator_step:
        raise UsageError("there are fewer critic steps than one generator step takes: the generator would stand still")
    # By a central limit T steps at rate q are about as private as one Gaussian release with this noise. Only the ratio
    # rests on this; the budget is met by the accountant. Whole units need no more noise in a step than rows do.
    ratio = probability * math.sqrt(steps / share) / (terms.unit.rows if terms.unit.sampled else 1)

    def lay_out(scale: float) -> TrainingDesign:
        return TrainingDesign(
            shape=shape,
            settings=settings,
            steps=steps,
            sampling_probability=probability,
            noise_multiplier=max(_LEAST_NOISE, ratio * scale),
            generated_batch_size=choose_generated_batch(shape.width),
        )

    choice = terms.calibrate(lambda scale: [*others(scale), *lay_out(scale).releases])
    return Plan(design=lay_out(choice.noise), shape=shape, choice=choice)


def choose_sampling_probability(shape: TableShape, settings: DpWganSettings) -> float:
    """Chooses q = L/n. Privacy: of the public n and settings."""
    return min(settings.expected_batch_size or choose_batch(shape.records), shape.records) / shape.records


def choose_steps(settings: DpWganSettings, *, sampling_probability: float) -> int:
    """Chooses how many critic steps are asked for. Privacy: of public settings."""
    if settings.steps is not None:
        return settings.steps
    return max(1, math.ceil(settings.epochs / sampling_probability)) if settings.epochs is not None else _STEPS


def choose_batch(records: int) -> int:
    """Chooses the expected batch size for a table of n rows. Privacy: a function of the public n alone."""
    return min(records, _MOST_BATCH, max(_LEAST_BATCH, round(_SHARE_OF_TABLE * records)))


def choose_generated_batch(width: int) -> int:
    """Chooses how many rows are generated at a time. Privacy: a function of the public encoded width alone."""
    return max(_LEAST_GENERATED, min(_MOST_GENERATED, _GENERATED_CELLS // width))
