"""The training loop: charge, sample, step. The number of steps is fixed before it starts."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dpwgan.accounting.ledger import Ledger
from dpwgan.randomness import Streams
from dpwgan.training.plan import CRITIC_LABEL, TrainingPlan
from dpwgan.training.sampling import sample_poisson_rows

Progress = Callable[[int, int, float], None]

# Learning rates fall by the same factor each step, to this share of what they were.
_LAST_RATE = 0.02
_PROGRESS_CALLS = 100


class CriticStep(Protocol):
    """One private step on the rows of a batch: the fused engine or the reference engine."""

    def __call__(self, rows: npt.NDArray[np.int64], *, noise_rng: np.random.Generator, learning_rate: float) -> None:
        """Takes one critic step on the given row numbers."""


class GeneratorStep(Protocol):
    """One step of the generator."""

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
    Privacy: each critic step is charged before its batch is drawn; the ledger refuses the step that would pass the
      budget. An empty batch is a step like any other. `progress` is told steps and epsilon, both public.
    Raises: PrivacyError from the ledger.
    Source: Srivastava and Alzantot 2019, Algorithm 2.
    """
    settings = plan.settings
    every = max(1, plan.steps // _PROGRESS_CALLS)
    for step in range(plan.steps):
        rate = _LAST_RATE ** (step / plan.steps)
        ledger.charge(CRITIC_LABEL)
        rows = sample_poisson_rows(
            plan.shape.records if records is None else records,
            sampling_probability=plan.sampling_probability,
            rng=streams.batches,
        )
        critic_step(rows, noise_rng=streams.noise, learning_rate=rate * settings.critic_learning_rate)
        if (step + 1) % settings.critic_steps_per_generator_step == 0:
            for _ in range(settings.generator_steps):
                generator_step(learning_rate=rate * settings.generator_learning_rate)
        if (step + 1) % every == 0 or step + 1 == plan.steps:
            progress(step + 1, plan.steps, ledger.epsilon_spent())
