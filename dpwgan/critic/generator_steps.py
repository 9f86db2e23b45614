"""The generator's steps against a critic. None of them meets a row."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from dpwgan.array_types import AnyArray, Arrays
from dpwgan.critic.device import compile_step
from dpwgan.critic.generators import CodeSource, CodeTable, LatentSource
from dpwgan.critic.optimizers import Adam, PlainAscent, RmsProp, WeightAverage
from dpwgan.critic.plan import TrainingDesign
from dpwgan.critic.weights import Kept
from dpwgan.marginals.fit.mixture import Mixture
from dpwgan.marginals.loss import Probabilities, ReleasedLoss, sum_gradients

# The value of the lecture that proposed it: gradients shrink as the generator gets close, and steps must not.
_DECAY = 0.9
_SPREAD_FLOOR = 1e-6
# A short memory: after each move the discriminator is another one.
_ROUND_MEMORIES = (0.5, 0.9)
_AVERAGE = "average"


class AveragedStep(Kept, ABC):
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


class GeneratorStep(AveragedStep):
    """One step of RMSProp on the generator, up the critic's score.

    With a pull on the critic's weights the first critic, which is random and has learnt nothing, is taken off the
    score: what is left is what the critic learnt from released gradients.
    Source: Srivastava and Alzantot 2019, Algorithm 2, lines 16 to 18.
    """

    def __init__(self, *, generator: Any, **parts: Any) -> None:
        super().__init__(generator=generator, **parts, optimizer=RmsProp(generator.weights, decay=_DECAY))

    def _lose(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
        score = score_learnt(self._critic, self._generator.rows(latents, uniforms), self._plan)
        return self._critic.loss_of_generated(score)


class AnchoredStep:
    """One step of a mixture of codes beside an anchor: down the released losses and up the critic's score.

    The objective is the anchor's log-likelihood plus `weight` times n times the critic's mean score, whose scale is
    taken off: divided by its standard deviation over the generated batch, so that it does not depend on the weights'.
    As in `GeneratorStep` the first, random critic is taken off the score. Its gradient passes through the draw of a row
    to the distributions of the row's code; the generator takes it as one with that of the losses.
    Privacy: post-processing. It is given no rows.
    Source: Srivastava and Alzantot 2019, Algorithm 2, lines 16 to 18; the anchor is this tool's own.
    """

    def __init__(
        self,
        *,
        critic: Any,
        generator: Mixture,
        drawn: CodeTable,
        latents: CodeSource,
        plan: TrainingDesign,
        losses: Sequence[ReleasedLoss],
        weight: float,
    ) -> None:
        """`drawn` is the same codes, where the critic draws rows of them."""
        self._critic, self._generator, self._drawn, self._latents = critic, generator, drawn, latents
        self._plan, self._losses, self._weight = plan, list(losses), weight * plan.shape.records
        self._codes = generator.see()
        self._average = self._codes.logs.copy()
        self._differentiate = compile_step(self._trace)

    def __call__(self, *, learning_rate: float) -> None:
        """Takes one step."""
        gradient = sum_gradients(self._losses, self._codes)
        used, slopes = self._differentiate()
        gradient[:, used.numpy()] -= np.float32(self._weight) * slopes.numpy().T
        self._generator.step(gradient.T, learning_rate=learning_rate)
        self._see()
        keep = self._plan.settings.generator_average
        self._average *= np.float32(keep)
        self._average += np.float32(1.0 - keep) * self._codes.logs

    def averaged_probabilities(self) -> Probabilities:
        """The distributions of the average of all codes' logits. Shapes: (codes, width)."""
        return Mixture([span.width for span in self._plan.shape.spans], self._average.T).probabilities()

    def pack(self) -> dict[str, AnyArray]:
        """The generator and its average as arrays by name, for a checkpoint."""
        return {**self._generator.pack(), _AVERAGE: self._average}

    def unpack(self, arrays: Arrays) -> None:
        """Takes over what `pack` gave."""
        self._generator.unpack(arrays)
        self._average = arrays[_AVERAGE].astype(np.float32)
        self._see()

    def _see(self) -> None:
        self._codes = self._generator.see()
        self._drawn.put(self._codes.logs.T)

    def _trace(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Which codes rows were drawn of, and the gradient of what the critic says in their distributions.

        Shapes: (m,), each code once, and (m, width).
        """
        indices, uniforms = self._latents.draw(self._plan.generated_batch_size)
        rows = self._drawn.rows(indices, uniforms)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(rows)
            score = score_learnt(self._critic, rows, self._plan)
            said = tf.reduce_mean(score) / (tf.stop_gradient(tf.math.reduce_std(score)) + _SPREAD_FLOOR)
        used, places = tf.unique(indices)
        return used, tf.math.unsorted_segment_sum(tape.gradient(said, rows), places, tf.size(used))


def score_learnt(critic: Any, rows: tf.Tensor, plan: TrainingDesign) -> tf.Tensor:
    """Scores generated rows; a critic whose weights are pulled back counts by what it has learnt. Shapes: (b,)."""
    score = critic.score(rows)
    return score - critic.score(rows, critic.initial) if plan.settings.weight_pull > 0 else score


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
