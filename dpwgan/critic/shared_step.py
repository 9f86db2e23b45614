"""The private critic step where several workers have the rows between them: clip and sum apart, noise once, update."""

from typing import Any

import numpy as np
import tensorflow as tf

from dpwgan.array_types import Floats, Integers
from dpwgan.critic.critic import Critic
from dpwgan.critic.device import compile_step
from dpwgan.critic.private_step import PrivateStep, count_entries, flatten, split_like
from dpwgan.critic.rows import RowReader
from dpwgan.privacy.steps import Steps
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.rows import Rows, Sum
from dpwgan.table.units.units import Units


class ShareOfGradients:
    """The clipped gradients of one worker's rows, or of its units.

    Privacy: a record, or a unit with all its rows, belongs to one worker, whose Poisson batch has it with the same
      probability as the batch of a single worker would: the union of the workers' batches is a Poisson batch of all.
      Clipped to C, it moves its worker's sum by C at most, and with it the total. No noise is added here.
    """

    def __init__(
        self,
        encoded: EncodedTable,
        *,
        critic: Critic,
        l2_clip_norm: float,
        steps: Steps,
        units: Units | None = None,
        share: float = 1.0,
    ) -> None:
        """Puts the worker's rows on the device, unless they are on disk. `steps`: of the worker's own ledger.

        With `units` batches are of these, as `FusedStep` has it, and no row counts more than its `share`.
        """
        self._read, self._share, self._units = RowReader(encoded), share, None
        if units is not None:
            self._units = tf.RaggedTensor.from_row_splits(*map(tf.constant, units.list_rows()))
        self._critic, self._l2_clip_norm, self._steps = critic, l2_clip_norm, steps
        self._records = encoded.records if units is None else len(units.sizes)
        self._batch: Integers | None = None
        self._sum = compile_step(self._trace, input_signature=[tf.TensorSpec([None], tf.int64)])

    def sum_rows(self, rows: Integers) -> Floats:
        """Clips and sums the gradients of the given rows, or units.

        Shapes: (b,), b may be 0, to (number of critic weights,).
        """
        total: Floats = self._sum(tf.constant(rows)).numpy()
        return total

    def take(self, rows: Integers) -> None:
        """Sets the batch of the next sum: the chief's, which its training loop has drawn."""
        self._batch = rows

    def sum_batch(self, weights: Floats) -> Floats:
        """The sum of a Poisson batch, drawn here unless `take` was given it, at the chief's weights.

        Shapes: all (number of weights,).
        """
        pieces = split_like(weights.astype(np.float32), self._critic.weights)
        for weight, piece in zip(self._critic.weights, pieces, strict=True):
            weight.assign(piece)
        batch, self._batch = self._batch, None
        return self.sum_rows(self._steps.draw_batches(self._records)[0] if batch is None else batch)

    def _trace(self, rows: tf.Tensor) -> tf.Tensor:
        if self._units is None:
            sums = self._critic.clipped_sum_of_rows(*self._read(rows), l2_clip_norm=self._l2_clip_norm)
        else:
            drawn = tf.gather(self._units, rows)
            sums, _ = self._critic.clipped_sums_of_units(
                self._read(drawn.values),
                self._read(drawn.values[:0]),
                l2_clip_norm=self._l2_clip_norm,
                units=drawn.value_rowids(),
                share=self._share,
            )
        return tf.cast(flatten(sums), tf.float64)


GRADIENTS = Sum[ShareOfGradients]("gradients", lambda share, argument, weights: share.sum_batch(weights))
"""The clipped sum over a Poisson batch of each worker's own rows, at weights that come along."""


class SharedStep(PrivateStep):
    """One critic step on the rows of all workers, taken by the chief.

    Privacy: as `FusedStep`. The workers' sums are added up in float64; the chief alone draws the noise
      that was charged, and adds it to the total once, whatever the number of workers. So it depends on no other
      worker's entropy or honesty, and the loss of a worker ends the run before anything is made of the step.
    Source: Srivastava and Alzantot 2019, Algorithm 2; Abadi et al. 2016, arXiv:1607.00133, Algorithm 1.
    """

    def __init__(self, shares: Rows[ShareOfGradients], **parts: Any) -> None:
        super().__init__(**parts)
        self._shares = shares
        flat = tf.TensorSpec([sum(count_entries(self._critic.weights))], tf.float32)
        self._move = compile_step(self._trace, input_signature=[flat, tf.TensorSpec([], tf.float32)])

    def __call__(self, rows: Integers, *, learning_rate: float) -> None:
        """Takes one critic step, on the given rows of the chief and a batch of every other worker's."""
        noisy = self.noisy_sum(rows)
        self._move(tf.constant(noisy, tf.float32), tf.constant(learning_rate, tf.float32))

    def noisy_sum(self, rows: Integers) -> Floats:
        """Adds up the clipped sums of all workers and adds the noise. Shapes: (b,) to (number of critic weights,)."""
        weights = np.concatenate([weight.numpy().ravel() for weight in self._critic.weights])
        self._shares.own.take(rows)
        total = self._shares.sum(GRADIENTS, array=weights)
        return total + self._steps.draw_normal_numbers(total.size, step_noise=self._plan.settings.step_noise)

    def _trace(self, noisy: tf.Tensor, learning_rate: tf.Tensor) -> None:
        noisy_sums = split_like(noisy, self._critic.weights)
        cells = self._generator.cells(*self._latents.draw(self._plan.generated_batch_size))
        fake_sums = self._critic.clipped_sum_of_rows(*cells, l2_clip_norm=self._plan.clip_target)
        self._update.apply(noisy_sums, fake_sums, learning_rate=learning_rate)
