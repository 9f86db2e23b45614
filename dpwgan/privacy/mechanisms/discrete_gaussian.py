"""The discrete Gaussian mechanism: adds whole-number noise to counts, drawn without any rounding.

Counts are whole numbers, so their noise can be as well, and then nothing is left of the gaps between floating-point
numbers. Every decision of the sampler compares uniform random bits with bounds in whole numbers of the probability that
they stand for; where the bits drawn so far lie between the bounds, more are drawn. So the law of the result is the
stated one, exactly, if the generator's bits are uniform.
"""

import math
from bisect import bisect_right
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpwgan.array_types import Integers
from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import DiscreteGaussian
from dpwgan.privacy.mechanisms.laplace import MOST_SCALE

Words = npt.NDArray[np.uint64]

_MOST_AT_ONCE = 1 << 16
"""Numbers that are drawn together: their arrays stay in the cache of one core."""

_MOST_STDDEV = 64
"""The largest stddev of a table, whose levels are 9 times as many: some milliseconds' work, once for each stddev."""


def add_discrete_gaussian_noise(
    values: npt.ArrayLike, event: DiscreteGaussian, *, rng: np.random.Generator
) -> Integers:
    """Releases whole numbers with independent discrete Gaussian noise on every one.

    Privacy: noise z has probability proportional to e^(-z^2/(2 s^2)), s being the event's `stddev` as it is. What that
      proves is said by `dpwgan.privacy.events.DiscreteGaussian`. `rng` must not be known to whoever sees the release.
      The noise, and the time that it takes, depend on the event and on how many values there are, not on the values.
    Shapes: the release has the shape of `values`.
    Units: the stddev of the noise itself is a little below the event's for very small ones.
    Raises: PrivacyError if a value is no whole number, or the stddev is too large.
    Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Definition 1; `_Law` says how it is drawn.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise PrivacyError("Only whole numbers can be released with discrete Gaussian noise.")
    if event.stddev > MOST_SCALE:
        raise PrivacyError(f"A stddev of {event.stddev:.3g} is too large for discrete Gaussian noise.")
    law = _find_law(event.stddev, most=_MOST_STDDEV)
    noise = np.empty(array.size, np.int64)
    for start in range(0, array.size, _MOST_AT_ONCE):
        piece = noise[start : start + _MOST_AT_ONCE]
        piece[:] = _sample(piece.size, law, rng)
    return array.astype(np.int64) + noise.reshape(array.shape)


class _Law(NamedTuple):
    """The law of z with probability proportional to e^(-z^2/(2 s^2)), in parts that are drawn one by one.

    s = t 2^k, k >= 0 the least for which t is small enough. x >= 0 is drawn with probability proportional to
    e^(-x^2/(2 t^2)), y is uniform in 0 ... 2^k - 1, and |z| = 2^k x + y is kept with probability e^-g, g = y (2^(k+1) x
    + y)/(2 s^2): the product is proportional to e^(-|z|^2/(2 s^2)). The sign is a fair bit; a negative zero is thrown
    away, or zero would count twice. As 1 - e^-g <= g <= (2 x + 1)/(2 t^2), most are kept without computing more.
    Source: Ducas, Durmus, Lepoint, Lyubashevsky 2013, eprint 2013/383, section 6, for the parts x and y.
    """

    t: Fraction
    k: int
    table: Words  # for x
    step: int  # 2^(64 - k)/(2 t^2), rounded up
    square: Fraction  # 2 s^2


@lru_cache(maxsize=64)
def _find_law(stddev: float, *, most: int) -> _Law:
    s = Fraction(stddev)
    k = (math.ceil(s / most) - 1).bit_length()
    t = s / (1 << k)
    table = np.array(_find_levels(t, 63), np.uint64)
    return _Law(t=t, k=k, table=table, step=math.ceil((1 << 64 - k) / (2 * t**2)), square=2 * s**2)


def _sample(size: int, law: _Law, rng: np.random.Generator) -> Integers:
    result = np.empty(size, np.int64)
    done = 0
    while done < size:
        missing = size - done
        some = _try(missing + missing // 16 + 8, law, rng)[:missing]
        result[done : done + some.size] = some
        done += some.size
    return result


def _try(size: int, law: _Law, rng: np.random.Generator) -> Integers:
    """Makes so many proposals and gives the accepted ones."""
    words = _draw_words(size, rng)
    magnitude = _invert(words >> np.uint64(1), law, rng)
    kept = np.ones(size, dtype=bool)
    if law.k:
        more, twice_x = _draw_words(size, rng), 2 * magnitude
        coins, y = more >> np.uint64(law.k), (more & np.uint64((1 << law.k) - 1)).astype(np.int64)
        magnitude = (magnitude << law.k) + y
        unsure = np.flatnonzero((coins // np.uint64(law.step)).astype(np.int64) <= twice_x)
        parts = zip(coins[unsure].tolist(), y[unsure].tolist(), magnitude[unsure].tolist(), strict=True)
        kept[unsure] = [_is_above(coin, 64 - law.k, y * (2 * z - y), law.square, rng) for coin, y, z in parts]
    negative = (words & np.uint64(1)).astype(bool)
    kept &= ~(negative & (magnitude == 0))
    drawn: Integers = np.where(negative, -magnitude, magnitude)[kept]
    return drawn


def _draw_words(size: int, rng: np.random.Generator) -> Words:
    return rng.integers(1 << 64, size=size, dtype=np.uint64)


def _invert(words: Words, law: _Law, rng: np.random.Generator) -> Integers:
    """Gives the x between whose levels uniform numbers lie, of which `words` are the first 63 bits.

    A level in the table is rounded down to 63 bits: a word above it is above the level whatever bits follow, a word
    below it is below. Where a word is in the table, 64 more bits are drawn and compared with levels of as many bits.
    Source: Devroye 1986, Non-Uniform Random Variate Generation, chapters III.2 (inversion) and XV.1 (bits as needed).
    """
    result: Integers = np.searchsorted(law.table, words, side="right") - 1
    for i in np.flatnonzero(law.table[result] == words):
        word, bits, levels = int(words[i]), 63, law.table.tolist()
        while levels[result[i]] == word:
            word, bits = _lengthen(word, bits, rng)
            levels = _find_levels(law.t, bits)
            result[i] = bisect_right(levels, word) - 1
    return result


def _lengthen(word: int, bits: int, rng: np.random.Generator) -> tuple[int, int]:
    return word << 64 | int(_draw_words(1, rng)[0]), bits + 64


def _find_levels(t: Fraction, bits: int) -> list[int]:
    """Gives 2^bits P(X < x) for x = 0, 1, 2 ..., rounded down, up to the first that is 2^bits - 1.

    X >= 0 has probability proportional to w(x) = e^(-x^2/(2 t^2)). Computed are whole numbers below and above
    2^precision times w(x) and times r(x) = w(x + 1)/w(x) = e^(-(2 x + 1)/(2 t^2)), which falls by the factor
    r(0)^2: what is rounded is rounded down below and up above. All weights from w(x) on are at most w(x)/(1 - r(x))
    together. Where both do not give the same levels, the precision is raised; no level is 1 itself.
    """
    precision = bits
    while True:
        precision += 64
        one = 1 << precision
        low, high = one, one
        r_low, r_high = _bracket_exp(1 / (2 * t**2), precision)
        q_low, q_high = r_low * r_low >> precision, (r_high * r_high >> precision) + 1
        sums_low, sums_high = [0], [0]
        while high > 1:
            sums_low.append(sums_low[-1] + low)
            sums_high.append(sums_high[-1] + high)
            low, high = low * r_low >> precision, (high * r_high >> precision) + 1
            r_low, r_high = r_low * q_low >> precision, (r_high * q_high >> precision) + 1
        least, most = sums_low[-1], sums_high[-1] + one // (one - r_high) + 1
        levels = []
        for below, above in zip(sums_low, sums_high, strict=True):
            levels.append((below << bits) // most)
            if levels[-1] != min((above << bits) // least, (1 << bits) - 1):
                break
            if levels[-1] == (1 << bits) - 1:
                return levels


def _is_above(word: int, bits: int, a: int, square: Fraction, rng: np.random.Generator) -> bool:
    """Whether a uniform number, of which `word` is the first bits, is above 1 - e^-g, g = a/square: so with e^-g.

    Most are told apart by g - g^2/2 <= 1 - e^-g <= g.
    """
    above, below = a * square.denominator, square.numerator
    if word * below >= above << bits:
        return True
    if 2 * (word + 1) * below * below <= above * (2 * below - above) << bits:
        return False
    while True:
        low, high = _bracket_exp(a / square, bits)
        if word >= (1 << bits) - low:
            return True
        if word + 1 <= (1 << bits) - high:
            return False
        word, bits = _lengthen(word, bits, rng)


def _bracket_exp(g: Fraction, bits: int) -> tuple[int, int]:
    """Gives whole numbers below and above 2^bits e^-g, at most 3 apart. `g` must be 0 at least.

    Decimals are rounded correctly, `exp` too. With d digits that is by 10^(1-d)/2 of a number at most, and for g, as
    g e^-g < 1, by as much of e^-g's distance from 0 to 1: three times as much together is far less than 2^-bits.
    """
    context = Context(prec=math.ceil(bits * math.log10(2)) + 4)
    exponent = context.divide(Decimal(-g.numerator), Decimal(g.denominator))
    value = int(context.multiply(context.exp(exponent), Decimal(1 << bits)))
    return max(value - 1, 0), value + 2
