"""Gaussian noise on a discriminator's hidden layers: drawn for each record and step, or place."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dpwgan.array_types import Integers, Integers32
from dpwgan.errors import PrivacyError

_KEY_BYTES, _BLOCK_BYTES = 16, 16
_PAIRS_A_BLOCK = 2
_TURN = 2.0 * math.pi


class LayerNoise:
    """Noise of one stddev for all hidden layers of a discriminator, drawn anew for every step.

    Privacy: it protects nothing and is accounted for by nothing. But what a record adds to a step's sum may depend on
      that record alone, so its noise may not depend on which others are in the batch: it is AES-128 of the record's
      number and the step's, under a key of 128 bits from the noise stream. For every key a gradient is then a function
      of its record, and the clip bounds what taking the record out does. (Were it drawn by place in the batch, all
      records behind it would move up and change theirs.) A key that nobody knows makes the numbers themselves
      worthless: records that are numbered otherwise have noise of the same law.
      Generated rows are made of released numbers; theirs goes by place, from the model stream.
    Source: NIST SP 800-38A, section 6.5 (counter mode, whose counters are records here); Box and Muller 1958.
    """

    def __init__(
        self,
        *,
        stddev: float,
        widths: Sequence[int],
        rng: np.random.Generator,
        secrets: np.random.Generator | None = None,
    ) -> None:
        """Draws both keys, that of generated rows from `rng`. Without `secrets` there is none for records."""
        self.stddev = stddev
        self.widths = tuple(widths)
        self._generated_key = int(rng.integers(2**31))
        self._key = None if secrets is None else secrets.bytes(_KEY_BYTES)
        self._step = tf.Variable(0, dtype=tf.int32)

    def of_records(self, rows: tf.Tensor) -> tf.Tensor:
        """Draws the noise that records have in this step. Shapes: (b,) record numbers to (b, all widths together).

        Raises: PrivacyError if there is no key for records.
        """
        if self._key is None:
            raise PrivacyError("Internal error: the noise of records' layers has no key.")
        total = sum(self.widths)
        pairs = -(-total // (2 * _PAIRS_A_BLOCK)) * _PAIRS_A_BLOCK
        words = tf.numpy_function(self._encipher, [rows, self._step], tf.uint32)
        top = tf.bitwise.right_shift(tf.ensure_shape(words, [None, 2 * pairs]), tf.constant(8, tf.uint32))
        # Between 0 and 1, and neither.
        radii, angles = tf.split((tf.cast(top, tf.float32) + 0.5) * 2.0**-24, 2, axis=1)
        radii, angles = self.stddev * tf.sqrt(-2.0 * tf.math.log(radii)), _TURN * angles
        normal = tf.concat([radii * tf.cos(angles), radii * tf.sin(angles)], axis=1)
        return normal[:, :total]

    def of_generated(self, shape: tf.Tensor, *, layer: int = 0) -> tf.Tensor:
        """Draws the noise of generated rows by their places: the same until the next step. Shapes: to `shape`."""
        seed = tf.stack([tf.constant(self._generated_key ^ (2 * layer + 1), tf.int32), self._step])
        return self.stddev * tf.random.stateless_normal(shape, seed)

    def advance(self, steps: tf.Tensor | int = 1) -> None:
        """Goes on to the next step, whose noise is another."""
        self._step.assign_add(steps)

    def _encipher(self, rows: Integers, step: Integers32) -> npt.NDArray[np.uint32]:
        """Random words, no two of them from one counter. Shapes: (b,) and () to (b, words)."""
        blocks = -(-sum(self.widths) // (_BLOCK_BYTES // 4))
        counters = np.empty((len(rows), blocks, 2), np.uint64)
        counters[..., 0] = rows[:, np.newaxis]
        counters[..., 1] = np.arange(blocks, dtype=np.uint64) + (np.uint64(step) << np.uint64(32))
        # Cipher blocks that are never the same twice: counter mode, but for the order of its counters.
        cipher = Cipher(algorithms.AES128(self._key or b""), modes.ECB()).encryptor()
        return np.frombuffer(cipher.update(counters.tobytes()), np.uint32).reshape(len(rows), 4 * blocks)
