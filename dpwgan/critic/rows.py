"""Real rows for a compiled step: put on the device whole, or fetched from disk a batch at a time."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from dpwgan.array_types import Floats32, Integers, Integers32
from dpwgan.table.encoded import EncodedTable, Span


class RowReader:
    """Codes and numbers of rows by their places.

    Privacy: hands private rows to the caller, who has charged for them.
    """

    def __init__(self, encoded: EncodedTable) -> None:
        """Puts the rows on the device; rows on disk stay there, and no more than a batch of them is ever in memory."""
        self._encoded = encoded
        if not encoded.on_disk:
            self._codes, self._numbers = tf.constant(encoded.codes), tf.constant(encoded.numbers, tf.float32)

    def __call__(self, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads a batch. Shapes: (b,) int64 to (b, codes) int32 and (b, numbers) float32."""
        if not self._encoded.on_disk:
            return tf.cast(tf.gather(self._codes, rows), tf.int32), tf.gather(self._numbers, rows)
        codes, numbers = tf.numpy_function(self._fetch, [rows], [tf.int32, tf.float32])
        return (
            tf.ensure_shape(codes, [None, self._encoded.codes.shape[1]]),
            tf.ensure_shape(numbers, [None, self._encoded.numbers.shape[1]]),
        )

    def _fetch(self, rows: Integers) -> tuple[Integers32, Floats32]:
        batch = self._encoded.take(rows)
        return batch.codes.astype(np.int32), batch.numbers.astype(np.float32)


def write_dense(codes: tf.Tensor, numbers: tf.Tensor, spans: Sequence[Span]) -> tf.Tensor:
    """Writes encoded rows out: each span's cells beside those of the one before it, categories one-hot.

    Shapes: (b, codes) and (b, numbers) to (b, width).
    """
    parts = []
    for span in spans:
        if span.head == "linear":
            parts.append(numbers[:, span.source, tf.newaxis])
        elif span.head == "sigmoid":
            parts.append(tf.cast(codes[:, span.source, tf.newaxis], tf.float32))
        else:
            parts.append(tf.one_hot(codes[:, span.source], span.width))
    return tf.concat(parts, axis=1)


def densify(encoded: EncodedTable, rows: Integers) -> tf.Tensor:
    """Writes the given rows out as dense one-hot rows. Shapes: (b,) to (b, width)."""
    return write_dense(
        tf.constant(encoded.codes[rows], tf.int32), tf.constant(encoded.numbers[rows], tf.float32), encoded.spans
    )
