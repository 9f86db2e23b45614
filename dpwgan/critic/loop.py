"""The training loop: charge, sample, step. The number of steps is fixed before it starts."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from dpwgan.array_types import AnyArray, Arrays, Floats32, Integers
from dpwgan.critic.device import compile_step
from dpwgan.critic.generator_steps import AveragedStep, GeneratorRound, GeneratorStep
from dpwgan.critic.optimizers import PlainAscent
from dpwgan.critic.plan import CRITIC_LABEL, TrainingDesign
from dpwgan.critic.private_step import FusedStep
from dpwgan.critic.weights import take_weights
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.steps import Steps
from dpwgan.stages import Progress
from dpwgan.table.encoded import EncodedTable

TakeSteps = Callable[..., None]
"""Takes critic steps on some batches, and the generator's where they are due, as `CompiledLoop` does."""

_PROGRESS_CALLS = 100
# A run is at least so many calls, between which it can be interrupted and reports progress. Compiling the loop takes as
# long as some hundred calls that it saves.
_LEAST_CALLS = 50


class TrainingStep(Protocol):
    """A step of the generator, or a private one of the critic, with the noise of the run's steps."""

    def pack(self) -> dict[str, AnyArray]:
        """All that steps change, made of noisy sums, as arrays by name, for a checkpoint."""

    def unpack(self, arrays: Arrays) -> None:
        """Takes over what `pack` gave."""

    def __call__(self, *rows: Any, **more: Any) -> None:
        """Takes one step, at a `learning_rate`: the critic's on the given row numbers."""


def play(
    encoded: EncodedTable,
    plan: TrainingDesign,
    *,
    critic: Any,
    generator: Any,
    latents: Any,
    steps: Steps,
    ledger: Ledger,
    progress: Progress,
    records: int | None = None,
    make_critic_step: Callable[..., TrainingStep] = FusedStep,
    update: PlainAscent | None = None,
) -> tuple[Floats32, ...]:
    """Trains both for the planned steps and gives the average of the generator's weights.

    `encoded` may be one worker's share of the rows, if `make_critic_step` makes a step that sums over all workers.
    `records`: the number to sample from, if not that of rows. With an `update` the critic's noisy sums go there, and it
    also answers each step of the generator, without rows.
    Privacy: steps are charged before their batches are drawn; the weights are post-processing.
    Raises: PrivacyError; UsageError if training ran off.
    """
    parts: dict[str, Any] = {"critic": critic, "generator": generator, "latents": latents, "plan": plan}
    generator_step = GeneratorStep(**parts) if update is None else GeneratorRound(**parts, update=update)
    train(
        plan,
        steps=steps,
        critic_step=make_critic_step(encoded, **parts, steps=steps, update=update),
        generator_step=generator_step,
        ledger=ledger,
        progress=progress,
        records=encoded.records if records is None else records,
    )
    return take_weights(generator_step.averaged_weights)


def train(
    plan: TrainingDesign,
    *,
    steps: Steps,
    critic_step: TrainingStep,
    generator_step: TrainingStep,
    ledger: Ledger,
    progress: Progress,
    records: int,
) -> None:
    """Runs all planned critic steps, the ledger's `steps`, with generator steps in between.

    Some are taken at a time, in one compiled loop, where both kinds of steps can be compiled into it.
    `records`: how many rows are here, where several workers have the table's between them, or how many units, where
    critic steps are taken on whole units.
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
    sides = {"critic ": critic_step, "generator ": generator_step}
    kept = journal.recall(CRITIC_LABEL)
    if kept is not None:
        for side, own in sides.items():
            own.unpack({name.removeprefix(side): kept[name] for name in kept if name.startswith(side)})
    journal.begin(CRITIC_LABEL, dispensable=True)
    for start in range(steps.first, plan.steps, block):
        stop = min(start + block, plan.steps)
        steps.charge(stop - start)
        for step in range(start, stop, most):
            taken = min(step + most, stop)
            batches = steps.draw_batches(records, steps=taken - step)
            take(batches, first=step)
            if taken // every > step // every or taken == plan.steps:
                progress(taken, plan.steps, ledger.epsilon_spent())
        if journal.keeps:
            packed = {side: own.pack() for side, own in sides.items()}
            arrays = {f"{side}{name}": array for side, part in packed.items() for name, array in part.items()}
            journal.keep(CRITIC_LABEL, arrays)
    journal.end()


def _choose_way(plan: TrainingDesign, critic_step: TrainingStep, generator_step: TrainingStep) -> tuple[TakeSteps, int]:
    """What takes some steps, and how many it takes at a time: more than one only in a compiled loop."""
    if isinstance(critic_step, FusedStep) and isinstance(generator_step, AveragedStep):
        most = min(critic_step.most_at_once, max(1, plan.steps // _LEAST_CALLS))
        if most > 1:
            return CompiledLoop(plan, critic_step=critic_step, generator_step=generator_step), most
    settings = plan.settings

    def take(batches: Sequence[Integers], *, first: int) -> None:
        for step, rows in enumerate(batches, start=first):
            share = plan.learning_share(step)
            critic_step(rows, learning_rate=share * settings.critic_learning_rate)
            if (step + 1) % settings.critic_steps_per_generator_step == 0:
                for _ in range(settings.generator_steps):
                    generator_step(learning_rate=share * settings.generator_learning_rate)

    return take, 1


class CompiledLoop:
    """Takes critic steps one after the other, and the generator's where they are due, in one call.

    To call a compiled step from Python costs about a millisecond, which is much of a small one: a loop pays it once.
    Privacy: each step has a batch and noise of its own, which the caller has charged for together.
    Source: Srivastava and Alzantot 2019, Algorithm 2.
    """

    def __init__(self, plan: TrainingDesign, *, critic_step: FusedStep, generator_step: AveragedStep) -> None:
        self._plan = plan
        self._critic_step, self._generator_step = critic_step, generator_step
        spec = critic_step.noise_spec
        self._loop = compile_step(
            self._trace,
            input_signature=[
                tf.TensorSpec([None], tf.int64),
                tf.TensorSpec([None], tf.int64),
                tf.TensorSpec([None, *spec.shape], spec.dtype),
                tf.TensorSpec([None], tf.float64),
                tf.TensorSpec([], tf.int32),
            ],
        )

    def __call__(self, batches: Sequence[Integers], *, first: int) -> None:
        """Takes a step on each batch of row numbers, (b,) each, the first of which is step `first` of the run."""
        shares = [self._plan.learning_share(step) for step in range(first, first + len(batches))]
        self._loop(
            tf.constant(np.concatenate(batches)),
            tf.constant(np.cumsum([0, *map(len, batches)])),
            self._critic_step.draw_noise(len(batches)),
            tf.constant(np.array(shares)),
            tf.constant(first),
        )

    def _trace(self, rows: tf.Tensor, ends: tf.Tensor, drawn: tf.Tensor, shares: tf.Tensor, first: tf.Tensor) -> None:
        settings = self._plan.settings

        def take(done: tf.Tensor) -> None:
            rates = shares[done] * (settings.critic_learning_rate, settings.generator_learning_rate)
            critic_rate, generator_rate = tf.unstack(tf.cast(rates, tf.float32))
            self._critic_step.trace(rows[ends[done] : ends[done + 1]], drawn[done], critic_rate)
            due = (first + done + 1) % settings.critic_steps_per_generator_step == 0
            times = tf.where(due, settings.generator_steps, 0)
            _repeat(times, lambda _: self._generator_step.trace(generator_rate))

        _repeat(tf.shape(drawn)[0], take)


def _repeat(times: tf.Tensor, act: Callable[[tf.Tensor], None]) -> None:
    """Acts so many times, one after the other; `act` is told how often it was called before."""

    def once(done: tf.Tensor) -> tf.Tensor:
        act(done)
        return done + 1

    tf.while_loop(lambda done: done < times, once, [tf.constant(0)], parallel_iterations=1)
