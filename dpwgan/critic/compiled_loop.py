"""Several steps of a game in one call: a compiled loop over batches and noise that were drawn for them."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from dpwgan.critic.plan import TrainingDesign
from dpwgan.critic.tracing import compile_step


@runtime_checkable
class TracedCriticStep(Protocol):
    """A critic step that can be compiled into a loop, as `FusedStep` can."""

    @property
    def noise_spec(self) -> tf.TensorSpec:
        """What a step's noise is made of."""

    @property
    def most_at_once(self) -> int:
        """How many steps may have their noise drawn before the first of them is taken."""

    def draw_noise(self, count: int) -> tf.Tensor:
        """Draws what the noise of some steps is made of. Shapes: (count, ...)."""

    def trace(self, rows: tf.Tensor, drawn: tf.Tensor, learning_rate: tf.Tensor) -> None:
        """Does what a step does."""


@runtime_checkable
class TracedGeneratorStep(Protocol):
    """A generator's step that can be compiled into a loop, as an `AveragedStep` can."""

    def trace(self, learning_rate: tf.Tensor) -> None:
        """Does what a step does."""


class CompiledLoop:
    """Takes critic steps one after the other, and the generator's where they are due.

    To call a compiled step from Python costs about a millisecond, which is much of a small one: a loop pays it once.
    Privacy: each step has a batch and noise of its own, which the caller has charged for together.
    Source: Srivastava and Alzantot 2019, Algorithm 2.
    """

    def __init__(
        self, plan: TrainingDesign, *, critic_step: TracedCriticStep, generator_step: TracedGeneratorStep
    ) -> None:
        """Traces nothing yet."""
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

    def __call__(self, batches: Sequence[npt.NDArray[np.int64]], *, first: int) -> None:
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
    """Does the same a number of times, one after the other; `act` is told how often it was done before."""

    def once(done: tf.Tensor) -> tf.Tensor:
        act(done)
        return done + 1

    tf.while_loop(lambda done: done < times, once, [tf.constant(0)], parallel_iterations=1)
