"""The generator's step: up the critic's score. It sees the critic alone, never a row: post-processing."""

import tensorflow as tf

from dpwgan.critic.averaged_step import AveragedStep
from dpwgan.critic.critic import Critic
from dpwgan.critic.latents import LatentSource
from dpwgan.critic.mlp import MlpGenerator
from dpwgan.critic.optimizer import RmsProp
from dpwgan.critic.plan import TrainingDesign

# The value of the lecture that proposed it: gradients shrink as the generator gets close, and steps must not.
_DECAY = 0.9


class GeneratorStep(AveragedStep):
    """One step of RMSProp on the generator.

    With a pull on the critic's weights the first critic, which is random and has learnt nothing, is taken off the
    score: what is left is what the critic learnt from released gradients.
    Source: Srivastava and Alzantot 2019, Algorithm 2, lines 16 to 18.
    """

    def __init__(self, *, critic: Critic, generator: MlpGenerator, latents: LatentSource, plan: TrainingDesign) -> None:
        """Starts with no memory of gradients."""
        self._optimizer = RmsProp(generator.weights, decay=_DECAY)
        super().__init__(critic=critic, generator=generator, latents=latents, plan=plan, optimizer=self._optimizer)

    def _move(self, learning_rate: tf.Tensor) -> None:
        latents, uniforms = self._latents.draw(self._plan.generator_batch_size)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._generator.weights)
            rows = self._generator.rows(latents, uniforms)
            loss = self._critic.loss_of_generated(self._score(rows))
        self._optimizer.apply(tape.gradient(loss, self._generator.weights), -learning_rate)
