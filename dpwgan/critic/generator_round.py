"""A round of the game without rows: the discriminator answers the generator, and the generator moves."""

from typing import Any

import tensorflow as tf

from dpwgan.critic.adam import Adam
from dpwgan.critic.averaged_step import AveragedStep
from dpwgan.critic.latents import LatentSource
from dpwgan.critic.plain_ascent import PlainAscent
from dpwgan.critic.plan import TrainingDesign

# A short memory: after each move the discriminator is another one.
_MEAN_MEMORY, _SQUARE_MEMORY = 0.5, 0.9


class GeneratorRound(AveragedStep):
    """Takes the generated half of the discriminator's gradient anew, and goes down -ln D by a step of Adam.

    Privacy: post-processing. It draws no noise that protects anything, so that there may be as many rounds as help for
      each step that is charged.
    Source: Goodfellow et al. 2014, arXiv:1406.2661, Algorithm 1.
    """

    def __init__(
        self, *, critic: Any, generator: Any, latents: LatentSource, plan: TrainingDesign, update: PlainAscent
    ) -> None:
        """`update` makes the discriminator's weights, and remembers all that is known of rows."""
        self._update = update
        self._optimizer = Adam(
            generator.weights, learning_rate=1.0, mean_memory=_MEAN_MEMORY, square_memory=_SQUARE_MEMORY
        )
        super().__init__(critic=critic, generator=generator, latents=latents, plan=plan, optimizer=self._optimizer)

    def _move(self, learning_rate: tf.Tensor) -> None:
        plan, weights = self._plan, self._generator.weights
        cells = self._generator.cells(*self._latents.draw(plan.generated_batch_size))
        sums = self._critic.clipped_sum_of_generated(cells, l2_clip_norm=plan.clip_target)
        self._update.answer(sums, generated=plan.generated_batch_size)
        draws = self._latents.draw(plan.generator_batch_size)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            loss = self._critic.loss_of_generated(self._critic.score(self._generator.rows(*draws)))
        self._optimizer.descend(tape.gradient(loss, weights), share=self._update.confidence * learning_rate)
