"""What every generator's step against a critic is: weights that move, and their running average, which is sampled."""

from abc import ABC, abstractmethod
from typing import Any

import tensorflow as tf

from dpwgan.critic.adam import Adam
from dpwgan.critic.generator import LatentDraws
from dpwgan.critic.optimizer import RmsProp
from dpwgan.critic.plan import TrainingDesign
from dpwgan.critic.tracing import compile_step
from dpwgan.critic.weight_average import WeightAverage


class AveragedStep(ABC):
    """Moves a generator by what a critic says of its rows, and follows it with a running average of its weights.

    Privacy: post-processing. It is given no rows.
    """

    def __init__(
        self, *, critic: Any, generator: Any, latents: LatentDraws, plan: TrainingDesign, optimizer: Adam | RmsProp
    ) -> None:
        """Starts the average at the first weights."""
        self._critic = critic
        self._generator = generator
        self._latents = latents
        self._plan = plan
        self._remembered = optimizer.variables
        self._average = WeightAverage(generator.weights, keep=plan.settings.generator_average)
        self._step = compile_step(self.trace, input_signature=[tf.TensorSpec([], tf.float32)])

    @property
    def variables(self) -> list[tf.Variable]:
        """Everything that steps change, but for the critic's weights."""
        return [*self._generator.weights, *self._remembered, *self._average.means]

    def __call__(self, *, learning_rate: float) -> None:
        """Takes one step."""
        self._step(tf.constant(learning_rate, tf.float32))

    def trace(self, learning_rate: tf.Tensor) -> None:
        """Does what a step does, for whoever compiles it. Shapes: a number."""
        self._move(learning_rate)
        self._average.follow()

    def averaged_weights(self) -> list[tf.Variable]:
        """Gives the running average of the weights, from which rows are sampled."""
        return self._average.means

    @abstractmethod
    def _move(self, learning_rate: tf.Tensor) -> None:
        """Moves the generator's weights."""

    def _score(self, rows: tf.Tensor) -> tf.Tensor:
        """Scores generated rows; a critic whose weights are pulled back counts by what it has learnt. Shapes: (b,)."""
        score = self._critic.score(rows)
        if self._plan.settings.weight_pull > 0:
            score -= self._critic.score(rows, self._critic.initial)
        return score
