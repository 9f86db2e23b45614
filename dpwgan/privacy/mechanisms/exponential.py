"""The exponential mechanism: which of a public list of candidates scores best, released privately.

Theorem. Let zeroing out a record move no score by more than D, let M be the largest score, C > 0 a constant, and let
i be drawn with probability proportional to w_i = max(e^(r (u_i - M)), e^-C), r = E / (2 D), E the selection's
epsilon. Then the privacy loss of the draw lies in an interval of length E (bounded range), which contains 0; so the
draw is E-DP and (E^2/8)-zCDP.

Proof. Multiplied by e^(r M), which is common to all, w_i is max(e^(r u_i), e^(r M - C)); u_i and M move by at most D,
so both parts, and the larger of them, move by a factor between e^(-E/2) and e^(E/2). The ratio of two tables'
probabilities of i is that factor divided by the ratio of the sums, which is the same for all i. So its logarithm lies
in an interval of length E; and 0 lies in it, since two laws cannot have one all below the other. Cesar and Rogers
2021 give zCDP. QED.

The floor e^-C keeps every weight a normal float. In floating point, u_i - M is off by one rounding and its product
with r by two more, so that a weight is off by a factor within e^(+-3e-13) of the real one at C = 700, and the loss by
at most four times that; the draw uses an E that is smaller by more. From there on nothing is rounded: weights are
whole numbers over a power of two, and the draw compares whole numbers, uniform ones from fair bits. Gumbel noise on
the scores has the same law in real numbers; in floats its tails end where their uniform draw has no more bits, and a
candidate there is never drawn.
"""

import math
from bisect import bisect_right
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from dpwgan.array_types import Floats
from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import ExponentialSelection, refuse_unless_positive

_FLOOR = 700.0
"""The weights' smallest logarithm: e^-700 is a normal float, and no candidate so far behind is ever drawn."""

_MARGIN = 4e-12
"""What the draw's epsilon is lowered by: more than three times what rounding can add to the range of the loss."""

LEAST_EPSILON = 1e-9
"""Below this the margin would be felt; and the draw would be uniform for all that anyone could tell."""


def select_by_exponential_mechanism(
    scores: npt.ArrayLike, event: ExponentialSelection, *, sensitivity: float, rng: np.random.Generator
) -> int:
    """Draws the index of a candidate, with probability proportional to e^(epsilon score / (2 sensitivity)).

    Privacy: the module's theorem. The caller vouches that the list of candidates is public or was released before, that
      zeroing out one record moves no score by more than `sensitivity`, and replacing one by no more than
      the event's `replace_one_factor` times that. `rng` must not be known to whoever sees the release.
    Shapes: `scores` is a vector, one score for each candidate.
    Units: `sensitivity` has the unit of the scores.
    Raises: PrivacyError if there is no score or one that is not finite, or a number is not finite and above 0.
    Source: McSherry and Talwar 2007; Durfee and Rogers 2019, arXiv:1905.04273; Cesar and Rogers 2021, arXiv:2004.07223.
    """
    refuse_unless_positive("sensitivity", sensitivity)
    if event.epsilon < LEAST_EPSILON:
        raise PrivacyError(f"A selection needs an epsilon of at least {LEAST_EPSILON:g}; it is {event.epsilon!r}.")
    rate = (event.epsilon * (1 - 1e-12) - _MARGIN) / (2 * sensitivity)
    array = np.asarray(scores, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise PrivacyError("A selection needs a vector of at least one score.")
    if not np.all(np.isfinite(array)):
        raise PrivacyError("Only finite scores can be selected from.")
    if not math.isfinite(rate) or rate == 0:
        raise PrivacyError("The selection's epsilon over twice its sensitivity is not a positive finite number.")
    with np.errstate(over="ignore"):
        weights = np.exp(np.maximum(rate * (array - np.max(array)), -_FLOOR))
    return _draw(weights, rng)


def _draw(weights: Floats, rng: np.random.Generator) -> int:
    """Draws an index with probability proportional to its weight, a normal float of at most 1, exactly."""
    # A weight is m 2^-s with m < 2^53 and s <= 1074: over 2^1074 all of them are whole numbers.
    mantissas, exponents = np.frexp(weights)
    whole = [int(m * 2.0**53) << (1074 - 53 + int(e)) for m, e in zip(mantissas, exponents, strict=True)]
    borders = list(accumulate(whole))
    drawn = _uniform_below(borders[-1], rng)
    return bisect_right(borders, drawn)


def _uniform_below(bound: int, rng: np.random.Generator) -> int:
    """Draws a whole number below `bound`, uniformly: as many fair bits as it has, until the number is below it."""
    bits = bound.bit_length()
    size = (bits + 7) // 8
    while True:
        drawn = int.from_bytes(rng.bytes(size), "little") >> (8 * size - bits)
        if drawn < bound:
            return drawn
