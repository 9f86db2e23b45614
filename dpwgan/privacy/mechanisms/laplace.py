"""Discrete Laplace noise, drawn exactly: whole numbers only, from fair integers only, so no rounding can leak.

Laplace noise in floating point has gaps that give the true value away (Mironov 2012). Here nothing but uniform whole
numbers is drawn and compared, so the law of the result is the stated one, exactly, if the generator's integers are
uniform.
"""

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpwgan.array_types import Flags, Integers
from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import Laplace, check_whole

PARTS = 2**20
"""The decay is rounded down to a whole number of these parts of 1, which only adds noise."""


MOST_SCALE = 2**54
"""The largest noise scale: products with it, in the draws, stay whole numbers of 64 bits."""

_STEPS = 2**10
"""A noise scale is rounded up to a whole number of these parts of 1 where that leaves it below the largest one."""


def add_laplace_noise(values: npt.ArrayLike, event: Laplace, *, sensitivity: int, rng: np.random.Generator) -> Integers:
    """Releases whole numbers with independent discrete Laplace noise on every one.

    Privacy: the caller vouches that zeroing out one record moves `values` by at most `sensitivity` in L1, over all
      entries jointly, and replacing one by at most the event's `replace_one_factor` times that. Noise z of scale t has
      probability proportional to e^(-|z|/t), so what moves by at most S in L1 is released with a loss of at most S/t; t
      is S over `epsilon`, as `find_scale` rounds it up. Nothing is rounded after that, so the release is `epsilon`-DP
      exactly.
    Shapes: the release has the shape of `values`.
    Units: `sensitivity` has the unit of `values`; the noise has the stddev sqrt(2) times its scale, or less.
    Raises: PrivacyError if a value is no whole number, or a number is out of range.
    Source: Dwork, McSherry, Nissim, Smith 2006; Canonne, Kamath, Steinke 2020, arXiv:2004.00010.
    """
    check_whole("The sensitivity of Laplace noise", sensitivity)
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise PrivacyError("Only whole numbers can be released with discrete Laplace noise.")
    parts, step = find_scale(sensitivity, event.epsilon)
    noise = sample_two_sided(array.size, parts=parts, step=step, rng=rng).reshape(array.shape)
    return array.astype(np.int64) + noise


def find_scale(sensitivity: float, epsilon: float) -> tuple[int, int]:
    """The noise's scale as parts of a step: sensitivity over epsilon, rounded up to the draws' grid.

    Raises: PrivacyError if epsilon is too small for it.
    """
    scale = Fraction(sensitivity) / Fraction(epsilon)
    step = _STEPS if scale * _STEPS <= MOST_SCALE else 1
    parts = math.ceil(scale * step)
    if parts > MOST_SCALE:
        raise PrivacyError(f"An epsilon of {epsilon:.3g} is too small for Laplace noise on these sums.")
    return parts, step


def usable_decay(decay: float) -> float:
    """Rounds a decay, of a step, down to a whole number of `PARTS`, as `sample_two_sided` draws it.

    Raises: PrivacyError if nothing is left of it, or it is not finite: the noise would be unusable or absent.
    """
    if not (math.isfinite(decay) and decay * PARTS >= 1):
        raise PrivacyError(f"An epsilon of {decay:.3g} for a list of cells is too small: the least is {1 / PARTS:.2g}.")
    # Above 32 the noise is 0 but for 2 e^-32 of the draws; a larger decay would gain nothing.
    return min(math.floor(decay * PARTS), 32 * PARTS) / PARTS


def sample_two_sided(size: int, *, parts: int, step: int, rng: np.random.Generator) -> Integers:
    """Draws independent whole numbers z with probability proportional to e^(-|z| step/parts), exactly.

    Privacy: added to a count that one record moves by 1, it is (step/parts)-DP. How many numbers are drawn from `rng`
      depends on what was drawn before, not on any count.
    Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Algorithms 1 and 2 (there, scale t/s).
    """
    result = np.zeros(size, dtype=np.int64)
    waiting = np.arange(size)
    while waiting.size:
        # u/t + v is geometric with e^-(1/t) steps; a u is kept with probability e^-(u/t).
        u = rng.integers(0, parts, size=waiting.size)
        kept = bernoulli_exp(u, parts, rng)
        v = _count_exp_one(waiting.size, rng)
        magnitude = (u + parts * v) // step
        negative = rng.integers(0, 2, size=waiting.size) == 1
        # A negative zero is thrown away, or zero would count twice.
        kept &= ~(negative & (magnitude == 0))
        result[waiting[kept]] = np.where(negative, -magnitude, magnitude)[kept]
        waiting = waiting[~kept]
    return result


def bernoulli_exp(numerators: Integers, denominator: int, rng: np.random.Generator) -> Flags:
    """Draws True with probability e^-(numerator/denominator), for numerators of at most the denominator.

    Counts how many draws of probability g/1, g/2, g/3 ... succeed before the first failure; e^-g is the chance that
    this number is even (the series of e^-g).
    """
    result = np.zeros(numerators.size, dtype=bool)
    running = np.arange(numerators.size)
    k = 1
    while running.size:
        success = rng.integers(0, k * denominator, size=running.size) < numerators[running]
        result[running[~success]] = k % 2 == 1
        running = running[success]
        k += 1
    return result


def _count_exp_one(size: int, rng: np.random.Generator) -> Integers:
    """Counts how often a draw of probability 1/e succeeds before it first fails."""
    counts = np.zeros(size, dtype=np.int64)
    running = np.arange(size)
    while running.size:
        success = bernoulli_exp(np.ones(running.size, dtype=np.int64), 1, rng)
        running = running[success]
        counts[running] += 1
    return counts
