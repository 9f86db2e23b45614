"""A round of the game without rows: the discriminator answers the generator, and the generator moves."""

from typing import Any

import tensorflow as tf

from dpwgan.training.adam import Adam
from dpwgan.training.latents import LatentSource
from dpwgan.training.plain_ascent import PlainAscent
from dpwgan.training.plan import TrainingPlan
from dpwgan.training.weight_average import WeightAverage

# A short memory: after each move the discriminator is another one.
_MEAN_MEMORY, _SQUARE_MEMORY = 0.5, 0.9


class GeneratorRound:
    """Takes the generated half of the discriminator's gradient anew, and goes down -ln D by a step of Adam.

    Rows come from a running average of the generator's weights.
    Privacy: post-processing. It is given no rows and draws no noise that protects anything, so that there may be as
      many rounds as help for each step that is charged.
    Source: Goodfellow et al. 2014, arXiv:1406.2661, Algorithm 1.
    """

    def __init__(
        self, *, critic: Any, generator: Any, latents: LatentSource, plan: TrainingPlan, update: PlainAscent
    ) -> None:
        """Starts the average at the first weights."""
        self._critic = critic
        self._generator = generator
        self._latents = latents
        self._plan = plan
        self._update = update
        memories = {"mean_memory": _MEAN_MEMORY, "square_memory": _SQUARE_MEMORY}
        self._optimizer = Adam(generator.weights, learning_rate=1.0, **memories)
        self._average = WeightAverage(generator.weights, keep=plan.settings.generator_average)
        self._step = tf.function(self._trace, input_signature=[tf.TensorSpec([], tf.float32)])

    @property
    def variables(self) -> list[tf.Variable]:
        """Everything that rounds change, but for the discriminator's weights."""
        return [*self._generator.weights, *self._optimizer.variables, *self._average.means]

    def __call__(self, *, learning_rate: float) -> None:
        """Takes one round."""
        self._step(tf.constant(learning_rate, tf.float32))

    def averaged_weights(self) -> list[tf.Variable]:
        """Gives the running average of the weights, from which rows are sampled."""
        return self._average.means

    def _trace(self, learning_rate: tf.Tensor) -> None:
        plan, weights = self._plan, self._generator.weights
        cells = self._generator.cells(*self._latents.draw(plan.generated_batch_size))
        sums = self._critic.clipped_sum_of_generated(cells, l2_clip_norm=plan.clip_target)
        self._update.answer(sums, generated=plan.generated_batch_size)
        draws = self._latents.draw(plan.generator_batch_size)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            loss = self._critic.loss_of_generated(self._critic.score(self._generator.rows(*draws)))
        self._optimizer.descend(tape.gradient(loss, weights), share=self._update.confidence * learning_rate)
        self._average.follow()
