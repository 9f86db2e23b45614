"""Normal noise made of random words and added inside one compiled function, without a copy in memory."""

import math
from collections.abc import Sequence

import tensorflow as tf

from dpwgan.privacy.mechanisms.normal_numbers import CODE_SHIFT, END

# Least squares at 2,001 Chebyshev nodes. XLA's own sine takes one number at a time, and its logarithm, which is for all
# numbers, longer than one for those from 2^-33 to 1.
# sin(pi y / 2) = y p(y^2) for y from -1 to 1, to 4e-9.
_SINE = (1.5707962899, -0.645963358, 0.0796884737, -0.0046722186, 0.0001508163)
# ln(1 + y) = y p(y) for 1 + y from sqrt(1/2) to sqrt(2), to 2e-7.
_LOGARITHM = (
    0.999999971,
    -0.5000037632,
    0.3333454915,
    -0.2496878018,
    0.1991500195,
    -0.1728165234,
    0.1611416744,
    -0.09868785895,
)
_ROOT_OF_HALF, _MANTISSA_BITS = 0x3F3504F3, 23
_QUARTER_TURN = 1 << 30


def count_pairs(shape: Sequence[int]) -> int:
    """Counts the pairs that numbers of a shape are made of: those of its first half and of its second, row by row."""
    rows, *others = shape
    return (rows + 1) // 2 * math.prod(others)


def make_normal_numbers(words: tf.Tensor, *, shape: Sequence[int], stddev: float) -> tf.Tensor:
    """Turns words into normal numbers: cosines in the first half of the rows, sines in the second.

    The same numbers as `privacy.mechanisms.normal_numbers` makes, but for a few units in the last place of the
    radius. Halves are put side by side by an axis of their own: pieces that are joined, or a last axis that is
    divided, would keep the cluster from working on many numbers at a time.
    Shapes: (2, pairs), as `draw_words` there gives them, to `shape`; pairs as `count_pairs` gives them.
    Source: Box and Muller 1958, Annals of Mathematical Statistics 29.
    """
    width = math.prod(shape[1:])
    radii, angles = tf.unstack(tf.reshape(words, [2, -1, width]))
    turned = tf.bitcast(angles, tf.int32) - tf.constant([[[0]], [[_QUARTER_TURN]]])
    normal = _make_radii(radii, stddev=stddev) * _take_cosine(turned)
    return tf.reshape(tf.reshape(normal, [-1, width])[: shape[0]], shape)


def _make_radii(words: tf.Tensor, *, stddev: float) -> tf.Tensor:
    """Stddev sqrt(-2 ln u), u as words stand for it. Shapes: any, uint32 to float32."""
    code = tf.bitcast(tf.bitwise.left_shift(words, tf.constant(CODE_SHIFT, tf.uint32)), tf.float32)
    end = tf.constant(END, tf.uint32)
    uniform = tf.cast(words - end, tf.float32) * 2.0**-32 + 2.0**-33
    return tf.sqrt(-2.0 * stddev**2 * tf.where(words < 2 * end, -code, _take_logarithm(uniform)))


def _take_logarithm(value: tf.Tensor) -> tf.Tensor:
    """The logarithm of normal floats above 0. Shapes: any."""
    bits = tf.bitcast(value, tf.int32)
    # The power of 2 that leaves a factor between the roots of 1/2 and 2: next to 1 no digits are lost.
    exponent = tf.bitwise.right_shift(bits - _ROOT_OF_HALF, _MANTISSA_BITS)
    rest = tf.bitcast(bits - tf.bitwise.left_shift(exponent, _MANTISSA_BITS), tf.float32) - 1.0
    return rest * _sum_series(_LOGARITHM, rest) + tf.cast(exponent, tf.float32) * math.log(2.0)


def _take_cosine(angle: tf.Tensor) -> tf.Tensor:
    """The cosine of angles in 2^32ths of a turn, which wrap around. Shapes: any, int32 to float32."""
    # The complement of a negative number is its size less 1: half a word more makes both sides alike, and no cosine 0.
    size = tf.bitwise.bitwise_xor(angle, tf.bitwise.right_shift(angle, tf.constant(31)))
    height = (tf.cast(_QUARTER_TURN - size, tf.float32) - 0.5) * (1.0 / _QUARTER_TURN)
    square = height * height
    return height * _sum_series(_SINE, square)


def _sum_series(coefficients: Sequence[float], value: tf.Tensor) -> tf.Tensor:
    """Sums powers of a value, from the constant term up. Shapes: any."""
    total = coefficients[-1] * value + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        total = total * value + coefficient
    return total
