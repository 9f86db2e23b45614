"""The discrete Gaussian mechanism: whole numbers out, whole-number noise on them, drawn without any rounding.

Counts are whole numbers, so their noise can be as well, and then nothing is left of the gaps between floating-point
numbers. Every decision of the sampler compares a uniform whole number with another whole number: the law of the result
is the stated one, exactly, if the generator's integers are uniform.
"""

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import DiscreteGaussian
from dpwgan.privacy.mechanisms.laplace import MOST_SCALE, IntegerArray, bernoulli_exp, sample_two_sided

_MOST_AT_ONCE = 1 << 16
"""Numbers that are drawn together: their arrays stay in the cache of one core."""


def add_discrete_gaussian_noise(
    values: npt.ArrayLike, event: DiscreteGaussian, *, rng: np.random.Generator
) -> IntegerArray:
    """Releases whole numbers with independent discrete Gaussian noise on every one.

    Privacy: noise z has probability proportional to e^(-z^2/(2 s^2)), s being the event's `stddev` as it is. What that
      proves is said by `dpwgan.privacy.events.DiscreteGaussian`. `rng` must not be known to whoever sees the release.
    Shapes: the release has the shape of `values`.
    Units: the stddev of the noise itself is a little below the event's for very small ones.
    Raises: PrivacyError if a value is no whole number, or the stddev is too large.
    Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Definition 1 and Algorithm 3.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise PrivacyError("Only whole numbers can be released with discrete Gaussian noise.")
    if event.stddev > MOST_SCALE:
        raise PrivacyError(f"A stddev of {event.stddev:.3g} is too large for discrete Gaussian noise.")
    noise = np.empty(array.size, np.int64)
    for start in range(0, array.size, _MOST_AT_ONCE):
        piece = noise[start : start + _MOST_AT_ONCE]
        piece[:] = _sample(piece.size, stddev=Fraction(event.stddev), rng=rng)
    return array.astype(np.int64) + noise.reshape(array.shape)


def _sample(size: int, *, stddev: Fraction, rng: np.random.Generator) -> IntegerArray:
    """Draws independent whole numbers z with probability proportional to e^(-z^2/(2 stddev^2)), exactly.

    With s = a/b: z of a discrete Laplace law of scale s is kept with probability e^(-(|z| - s)^2/(2 s^2)). With
    | |z| b - a | = m a + r, 0 <= r < a, that is e^(-m^2/2) times (e^(-r/a))^m times e^(-r^2/(2 a^2)).
    """
    a, b = stddev.numerator, stddev.denominator
    result = np.zeros(size, dtype=np.int64)
    waiting = np.arange(size)
    while waiting.size:
        drawn = sample_two_sided(waiting.size, parts=a, step=b, rng=rng)
        m, r = np.divmod(np.abs(np.abs(drawn) * b - a), a)
        kept = np.ones(waiting.size, dtype=bool)
        for count, numerators, denominator in ((m * m, np.ones_like(m), 2), (m, r, a)):
            left = np.flatnonzero(count)
            for turn in range(1, int(count.max(initial=0)) + 1):
                left = left[kept[left] & (count[left] >= turn)]
                kept[left] = bernoulli_exp(numerators[left], denominator, rng)
        left = np.flatnonzero(kept)
        kept[left] = _bernoulli_exp_half_square(r[left], a, rng)
        result[waiting[kept]] = drawn[kept]
        waiting = waiting[~kept]
    return result


def _bernoulli_exp_half_square(
    numerators: IntegerArray, denominator: int, rng: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Draws True with probability e^-(x^2/2), x = numerator/denominator of at most 1.

    As `bernoulli_exp`: a draw of probability x^2/(2 k) is one of x and one of x/(2 k), so that no square is formed.
    """
    result = np.zeros(numerators.size, dtype=bool)
    running = np.arange(numerators.size)
    k = 1
    while running.size:
        x = numerators[running]
        success = rng.integers(0, 2 * k * denominator, size=running.size) < x
        again = np.flatnonzero(success)
        success[again] = rng.integers(0, denominator, size=again.size) < x[again]
        result[running[~success]] = k % 2 == 1
        running = running[success]
        k += 1
    return result
