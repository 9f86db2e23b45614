"""The generator's step beside an anchor: down the released losses and up the critic's score. It never meets a row."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from dpwgan.critic.averaged_step import AveragedStep
from dpwgan.critic.critic import Critic
from dpwgan.critic.optimizer import RmsProp
from dpwgan.critic.plan import TrainingDesign
from dpwgan.critic.tensor_mixture import CodeSource, TensorMixture
from dpwgan.marginals.loss import Probabilities, ReleasedLoss, add_up_gradients

_DECAY = 0.99
_SPREAD_FLOOR = 1e-6


class AnchoredStep(AveragedStep):
    """One step of RMSProp on a mixture of codes, and a running average of its weights.

    The objective is the anchor's log-likelihood plus `weight` times n times the critic's mean score, whose scale is
    taken off: divided by its standard deviation over the generated batch, so that it does not depend on the weights'.
    As in `GeneratorStep` the first, random critic is taken off the score.
    Source: Srivastava and Alzantot 2019, Algorithm 2, lines 16 to 18; the anchor is this tool's own.
    """

    def __init__(
        self,
        *,
        critic: Critic,
        generator: TensorMixture,
        latents: CodeSource,
        plan: TrainingDesign,
        losses: Sequence[ReleasedLoss],
        weight: float,
    ) -> None:
        """Starts the average at the first weights."""
        self._losses = list(losses)
        self._weight = weight * plan.shape.records
        self._optimizer = RmsProp(generator.weights, decay=_DECAY)
        super().__init__(critic=critic, generator=generator, latents=latents, plan=plan, optimizer=self._optimizer)

    @property
    def variables(self) -> list[tf.Variable]:
        """Everything that steps change, and the generator's fixed parts."""
        return [*self._generator.variables, *self._optimizer.variables, *self._average.means]

    def averaged_probabilities(self) -> Probabilities:
        """Puts the averaged weights into the generator and gives its distributions. Shapes: (codes, width)."""
        for weight, average in zip(self._generator.weights, self._average.means, strict=True):
            weight.assign(average)
        probabilities: Probabilities = self._generator.probabilities()
        return probabilities

    def _move(self, learning_rate: tf.Tensor) -> None:
        indices, uniforms = self._latents.draw(self._plan.generator_batch_size)
        weights = self._generator.weights
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            rows = self._generator.rows(indices, uniforms)
            score = self._score(rows)
            spread = tf.stop_gradient(tf.math.reduce_std(score)) + _SPREAD_FLOOR
            probabilities = self._generator.soft()
            gradient = tf.numpy_function(self._differentiate, [probabilities], tf.float32)
            anchor = tf.reduce_sum(probabilities * tf.ensure_shape(gradient, probabilities.shape))
            loss = anchor - self._weight * tf.reduce_mean(score) / spread
        self._optimizer.apply(tape.gradient(loss, weights), -learning_rate)

    def _differentiate(self, probabilities: Probabilities) -> Probabilities:
        return np.ascontiguousarray(add_up_gradients(self._losses, probabilities))
