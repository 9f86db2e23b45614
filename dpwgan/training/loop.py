"""The training loop: charge, sample, step. The number of steps is fixed before it starts."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from dpwgan.accounting.ledger import Ledger
from dpwgan.randomness import Streams
from dpwgan.training.plan import CRITIC_LABEL, TrainingPlan
from dpwgan.training.sampling import sample_poisson_rows
from dpwgan.training.weights import pack_variables, unpack_variables

if TYPE_CHECKING:
    import tensorflow as tf

Progress = Callable[[int, int, float], None]

# Learning rates fall by the same factor each step, to this share of what they were.
_LAST_RATE = 0.02
_PROGRESS_CALLS = 100


class CriticStep(Protocol):
    """One private step on the rows of a batch: the fused engine or the reference engine."""

    @property
    def variables(self) -> Sequence["tf.Variable"]:
        """Everything that steps change, made of noisy sums: what a checkpoint keeps."""

    def __call__(self, rows: npt.NDArray[np.int64], *, noise_rng: np.random.Generator, learning_rate: float) -> None:
        """Takes one critic step on the given row numbers."""


class GeneratorStep(Protocol):
    """One step of the generator."""

    @property
    def variables(self) -> Sequence["tf.Variable"]:
        """Everything that steps change."""

    def __call__(self, *, learning_rate: float) -> None:
        """Takes one generator step."""


def train(
    plan: TrainingPlan,
    *,
    critic_step: CriticStep,
    generator_step: GeneratorStep,
    ledger: Ledger,
    streams: Streams,
    progress: Progress,
    records: int | None = None,
) -> None:
    """Runs all planned critic steps, with generator steps in between.

    `records`: how many rows are here, where several workers have the table's between them.
    Where the ledger has a journal that keeps weights, they are kept after each block of steps; a run that goes on
    begins with those kept last, and after the last step that was charged: steps that were lost are not taken again.
    Privacy: each critic step is charged before its batch is drawn, with a journal all steps of a block together; the
      ledger refuses the step that would pass the budget. An empty batch is a step like any other. `progress` is told
      steps and epsilon, both public.
    Raises: PrivacyError from the ledger.
    Source: Srivastava and Alzantot 2019, Algorithm 2.
    """
    settings = plan.settings
    every = max(1, plan.steps // _PROGRESS_CALLS)
    journal = ledger.journal
    block = journal.choose_block(plan.steps)
    kept = journal.recall(CRITIC_LABEL)
    if kept is not None:
        unpack_variables([*critic_step.variables, *generator_step.variables], kept)
    first = ledger.count_earlier(CRITIC_LABEL)
    journal.begin(CRITIC_LABEL, dispensable=True)
    for step in range(first, plan.steps):
        rate = _LAST_RATE ** (step / plan.steps)
        if (step - first) % block == 0:
            ledger.charge(CRITIC_LABEL, min(block, plan.steps - step))
        rows = sample_poisson_rows(
            plan.shape.records if records is None else records,
            sampling_probability=plan.sampling_probability,
            rng=streams.batches,
        )
        critic_step(rows, noise_rng=streams.noise, learning_rate=rate * settings.critic_learning_rate)
        if (step + 1) % settings.critic_steps_per_generator_step == 0:
            for _ in range(settings.generator_steps):
                generator_step(learning_rate=rate * settings.generator_learning_rate)
        if journal.keeps and ((step + 1 - first) % block == 0 or step + 1 == plan.steps):
            journal.keep(CRITIC_LABEL, pack_variables([*critic_step.variables, *generator_step.variables]))
        if (step + 1) % every == 0 or step + 1 == plan.steps:
            progress(step + 1, plan.steps, ledger.epsilon_spent())
    journal.end()
