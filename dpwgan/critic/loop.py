"""The training loop: charge, sample, step. The number of steps is fixed before it starts."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from dpwgan.critic.plan import CRITIC_LABEL, TrainingDesign
from dpwgan.critic.weights import pack_variables, unpack_variables
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.steps import Steps

if TYPE_CHECKING:
    import tensorflow as tf

Progress = Callable[[int, int, float], None]
TakeSteps = Callable[..., None]
"""Takes critic steps on some batches, and the generator's where they are due, as `CompiledLoop` does."""

_PROGRESS_CALLS = 100
# A run is at least so many calls, between which it can be interrupted and says how far it is.
_LEAST_CALLS = 20


class CriticStep(Protocol):
    """One private step on the rows of a batch, with the noise of the run's steps."""

    @property
    def variables(self) -> Sequence["tf.Variable"]:
        """Everything that steps change, made of noisy sums: what a checkpoint keeps."""

    def __call__(self, rows: npt.NDArray[np.int64], *, learning_rate: float) -> None:
        """Takes one critic step on the given row numbers."""


class GeneratorStep(Protocol):
    """One step of the generator."""

    @property
    def variables(self) -> Sequence["tf.Variable"]:
        """Everything that steps change."""

    def __call__(self, *, learning_rate: float) -> None:
        """Takes one generator step."""


def train(
    plan: TrainingDesign,
    *,
    steps: Steps,
    critic_step: CriticStep,
    generator_step: GeneratorStep,
    ledger: Ledger,
    progress: Progress,
    records: int | None = None,
) -> None:
    """Runs all planned critic steps, the ledger's `steps`, with generator steps in between.

    Some are taken at a time, in one compiled loop, where both kinds of steps can be compiled into it.
    `records`: how many rows are here, where several workers have the table's between them.
    Where the ledger has a journal that keeps weights, they are kept after each block of steps; a run that goes on
    begins with those kept last, and after the last step that was charged: steps that were lost are not taken again.
    Privacy: critic steps are charged before their batches are drawn, those that are taken together, and with a journal
      all of a block, at once; the ledger refuses what would pass the budget. An empty batch is a step like any other.
      `progress` is told steps and epsilon, both public.
    Raises: PrivacyError from the ledger.
    Source: Srivastava and Alzantot 2019, Algorithm 2.
    """
    every = max(1, plan.steps // _PROGRESS_CALLS)
    take, most = _choose_way(plan, critic_step, generator_step)
    journal = ledger.journal
    block = journal.choose_block(plan.steps, together=most)
    kept = journal.recall(CRITIC_LABEL)
    if kept is not None:
        unpack_variables([*critic_step.variables, *generator_step.variables], kept)
    journal.begin(CRITIC_LABEL, dispensable=True)
    for start in range(steps.first, plan.steps, block):
        stop = min(start + block, plan.steps)
        steps.charge(stop - start)
        for step in range(start, stop, most):
            taken = min(step + most, stop)
            batches = steps.draw_batches(plan.shape.records if records is None else records, steps=taken - step)
            take(batches, first=step)
            if taken // every > step // every or taken == plan.steps:
                progress(taken, plan.steps, ledger.epsilon_spent())
        if journal.keeps:
            journal.keep(CRITIC_LABEL, pack_variables([*critic_step.variables, *generator_step.variables]))
    journal.end()


def _choose_way(plan: TrainingDesign, critic_step: CriticStep, generator_step: GeneratorStep) -> tuple[TakeSteps, int]:
    """Gives what takes some steps, and how many it takes at a time: more than one only in a compiled loop."""
    # Whoever has steps has imported TensorFlow.
    from dpwgan.critic.compiled_loop import CompiledLoop, TracedCriticStep, TracedGeneratorStep

    if isinstance(critic_step, TracedCriticStep) and isinstance(generator_step, TracedGeneratorStep):
        most = min(critic_step.most_at_once, max(1, plan.steps // _LEAST_CALLS))
        if most > 1:
            return CompiledLoop(plan, critic_step=critic_step, generator_step=generator_step), most
    settings = plan.settings

    def take(batches: Sequence[npt.NDArray[np.int64]], *, first: int) -> None:
        for step, rows in enumerate(batches, start=first):
            share = plan.learning_share(step)
            critic_step(rows, learning_rate=share * settings.critic_learning_rate)
            if (step + 1) % settings.critic_steps_per_generator_step == 0:
                for _ in range(settings.generator_steps):
                    generator_step(learning_rate=share * settings.generator_learning_rate)

    return take, 1
