"""The generator's steps against a critic. None of them meets a row."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from dpwgan.critic.device import compile_step
from dpwgan.critic.generators import LatentSource, TensorMixture
from dpwgan.critic.optimizers import Adam, PlainAscent, RmsProp, WeightAverage
from dpwgan.critic.plan import TrainingDesign
from dpwgan.marginals.loss import Probabilities, ReleasedLoss, add_up_gradients

# The value of the lecture that proposed it: gradients shrink as the generator gets close, and steps must not.
_DECAY = 0.9
_DECAY_BESIDE_AN_ANCHOR = 0.99
_SPREAD_FLOOR = 1e-6
# A short memory: after each move the discriminator is another one.
_ROUND_MEMORIES = (0.5, 0.9)


class AveragedStep(ABC):
    """Moves a generator by what a critic says of its rows, and follows it with a running average of its weights.

    Privacy: post-processing. It is given no rows.
    """

    def __init__(
        self, *, critic: Any, generator: Any, latents: LatentSource, plan: TrainingDesign, optimizer: Adam | RmsProp
    ) -> None:
        self._critic, self._generator, self._latents, self._plan = critic, generator, latents, plan
        self._optimizer = optimizer
        self._average = WeightAverage(generator.weights, keep=plan.settings.generator_average)
        self.averaged_weights = self._average.means
        """What rows are sampled from."""
        self.variables = [*generator.weights, *optimizer.variables, *self.averaged_weights]
        """Everything that steps change, but for the critic's weights."""
        self._step = compile_step(self.trace, input_signature=[tf.TensorSpec([], tf.float32)])

    def __call__(self, *, learning_rate: float) -> None:
        """Takes one step."""
        self._step(tf.constant(learning_rate, tf.float32))

    def trace(self, learning_rate: tf.Tensor) -> None:
        """Does what a step does, for whoever compiles it. Shapes: a number."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._generator.weights)
            loss = self._lose(*self._latents.draw(self._plan.generated_batch_size))
        self._move(tape.gradient(loss, self._generator.weights), learning_rate)
        self._average.follow()

    @abstractmethod
    def _lose(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
        """Computes what the generator goes down, of a random input. Shapes: as `LatentSource.draw`, to a number."""

    def _move(self, gradients: list[tf.Tensor], learning_rate: tf.Tensor) -> None:
        self._optimizer.descend(gradients, learning_rate)

    def _score(self, rows: tf.Tensor) -> tf.Tensor:
        """Scores generated rows; a critic whose weights are pulled back counts by what it has learnt. Shapes: (b,)."""
        score = self._critic.score(rows)
        if self._plan.settings.weight_pull > 0:
            score -= self._critic.score(rows, self._critic.initial)
        return score


class GeneratorStep(AveragedStep):
    """One step of RMSProp on the generator, up the critic's score.

    With a pull on the critic's weights the first critic, which is random and has learnt nothing, is taken off the
    score: what is left is what the critic learnt from released gradients.
    Source: Srivastava and Alzantot 2019, Algorithm 2, lines 16 to 18.
    """

    def __init__(self, *, generator: Any, **parts: Any) -> None:
        super().__init__(generator=generator, **parts, optimizer=RmsProp(generator.weights, decay=_DECAY))

    def _lose(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
        return self._critic.loss_of_generated(self._score(self._generator.rows(latents, uniforms)))


class AnchoredStep(AveragedStep):
    """One step of RMSProp on a mixture of codes beside an anchor: down the released losses and up the critic's score.

    The objective is the anchor's log-likelihood plus `weight` times n times the critic's mean score, whose scale is
    taken off: divided by its standard deviation over the generated batch, so that it does not depend on the weights'.
    As in `GeneratorStep` the first, random critic is taken off the score.
    Source: Srivastava and Alzantot 2019, Algorithm 2, lines 16 to 18; the anchor is this tool's own.
    """

    def __init__(
        self,
        *,
        generator: TensorMixture,
        plan: TrainingDesign,
        losses: Sequence[ReleasedLoss],
        weight: float,
        **parts: Any,
    ) -> None:
        self._losses = list(losses)
        self._weight = weight * plan.shape.records
        optimizer = RmsProp(generator.weights, decay=_DECAY_BESIDE_AN_ANCHOR)
        super().__init__(generator=generator, plan=plan, **parts, optimizer=optimizer)
        # The generator's fixed parts too.
        self.variables = [*generator.variables, *optimizer.variables, *self.averaged_weights]

    def averaged_probabilities(self) -> Probabilities:
        """Puts the averaged weights into the generator and gives its distributions. Shapes: (codes, width)."""
        for weight, average in zip(self._generator.weights, self.averaged_weights, strict=True):
            weight.assign(average)
        probabilities: Probabilities = self._generator.soft().numpy()
        return probabilities

    def _lose(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
        probabilities = self._generator.soft()
        score = self._score(self._generator.rows(latents, uniforms, soft=probabilities))
        spread = tf.stop_gradient(tf.math.reduce_std(score)) + _SPREAD_FLOOR
        gradient = tf.numpy_function(self._differentiate, [probabilities], tf.float32)
        anchor = tf.reduce_sum(probabilities * tf.ensure_shape(gradient, probabilities.shape))
        return anchor - self._weight * tf.reduce_mean(score) / spread

    def _differentiate(self, probabilities: Probabilities) -> Probabilities:
        return np.ascontiguousarray(add_up_gradients(self._losses, probabilities))


class GeneratorRound(AveragedStep):
    """A round of the game without rows: the discriminator answers the generator, which goes down -ln D by Adam.

    The generated half of the discriminator's gradient is taken anew.
    Privacy: post-processing. It draws no noise that protects anything, so that there may be as many rounds as help for
      each step that is charged.
    Source: Goodfellow et al. 2014, arXiv:1406.2661, Algorithm 1.
    """

    def __init__(self, *, generator: Any, update: PlainAscent, **parts: Any) -> None:
        """`update` makes the discriminator's weights, and remembers all that is known of rows."""
        self._update = update
        optimizer = Adam(generator.weights, learning_rate=1.0, memories=_ROUND_MEMORIES)
        super().__init__(generator=generator, **parts, optimizer=optimizer)

    def trace(self, learning_rate: tf.Tensor) -> None:
        """Does what a round does. Shapes: a number."""
        cells = self._generator.cells(*self._latents.draw(self._plan.generated_batch_size))
        self._update.answer(self._critic.clipped_sum_of_generated(cells, l2_clip_norm=self._plan.clip_target))
        super().trace(learning_rate)

    def _lose(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
        return self._critic.loss_of_generated(self._critic.score(self._generator.rows(latents, uniforms)))

    def _move(self, gradients: list[tf.Tensor], learning_rate: tf.Tensor) -> None:
        self._optimizer.descend(gradients, self._update.confidence * learning_rate)
