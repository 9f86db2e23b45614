"""The generator's step: up the critic's score. It sees the critic alone, never a row: post-processing."""

import tensorflow as tf

from dpwgan.discriminators.critic import Critic
from dpwgan.generators.mlp import MlpGenerator
from dpwgan.training.latents import LatentSource
from dpwgan.training.optimizer import RmsProp
from dpwgan.training.plan import TrainingPlan
from dpwgan.training.weight_average import WeightAverage

# The value of the lecture that proposed it: gradients shrink as the generator gets close, and steps must not.
_DECAY = 0.9


class GeneratorStep:
    """One step of RMSProp on the generator, and a running average of its weights.

    With a pull on the critic's weights the first critic, which is random and has learnt nothing, is taken off the
    score: what is left is what the critic learnt from released gradients.
    Source: Srivastava and Alzantot 2019, Algorithm 2, lines 16 to 18.
    """

    def __init__(self, *, critic: Critic, generator: MlpGenerator, latents: LatentSource, plan: TrainingPlan) -> None:
        """Starts the average at the first weights."""
        self._critic = critic
        self._generator = generator
        self._latents = latents
        self._plan = plan
        self._optimizer = RmsProp(generator.weights, decay=_DECAY)
        self._average = WeightAverage(generator.weights, keep=plan.settings.generator_average)
        self._step = tf.function(self._trace, input_signature=[tf.TensorSpec([], tf.float32)])

    @property
    def variables(self) -> list[tf.Variable]:
        """Everything that steps change."""
        return [*self._generator.weights, *self._optimizer.variables, *self._average.means]

    def __call__(self, *, learning_rate: float) -> None:
        """Takes one generator step."""
        self._step(tf.constant(learning_rate, tf.float32))

    def averaged_weights(self) -> list[tf.Variable]:
        """Gives the running average of the weights, from which rows are sampled."""
        return self._average.means

    def _trace(self, learning_rate: tf.Tensor) -> None:
        latents, uniforms = self._latents.draw(self._plan.generator_batch_size)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._generator.weights)
            rows = self._generator.rows(latents, uniforms)
            score = self._critic.score(rows)
            if self._plan.settings.weight_pull > 0:
                score -= self._critic.score(rows, self._critic.initial)
            loss = self._critic.loss_of_generated(score)
        self._optimizer.apply(tape.gradient(loss, self._generator.weights), -learning_rate)
        self._average.follow()
