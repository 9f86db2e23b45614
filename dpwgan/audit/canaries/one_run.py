"""The bound of an attacker who guesses which of many canaries were in the table, in one run or a few.

Each canary is in the table or null by the toss of a coin, all of them by themselves. The attacker gives each a score,
guesses "in" for the highest and "out" for the lowest, and abstains on those between. How many guesses are right says
how large epsilon is at least (`dpwgan.audit.canaries.lower_bound.p_value_of_guesses`), whatever the noise is like.
Source: Steinke, Nasr, Jagielski 2023, arXiv:2305.08846, Algorithm 1.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpwgan.audit.canaries.lower_bound import bound_by_guesses
from dpwgan.errors import UsageError

Scores = npt.NDArray[np.float64]

SHARES_GUESSED = (0.02, 0.1, 0.4, 1.0)
"""Parts of the canaries that are guessed for. Fixed beforehand; the best is taken, and its chance of being wrong paid
for four times."""


@dataclass(frozen=True, kw_only=True)
class GuessBound:
    """A lower bound on epsilon from right guesses. Privacy: a private statistic, not covered by epsilon."""

    found: float
    correct: int
    guesses: int
    canaries: int
    most: float
    """What could have been found, had every guess been right."""


def bound_by_scores(
    scores: Scores,
    present: npt.NDArray[np.bool_],
    *,
    delta: float,
    failure_probability: float,
    rng: np.random.Generator,
) -> GuessBound:
    """Guesses by the scores, high ones "in", and bounds epsilon from below.

    Shapes: `scores` and `present` (canaries,), of all runs together. Ties are broken by `rng`, never by the order,
    which may hang together with the coins.
    Raises: UsageError for fewer than two canaries.
    """
    canaries = len(scores)
    if canaries < 2:
        raise UsageError("guesses need two canaries or more")
    order = np.lexsort((rng.random(canaries), scores))
    best: GuessBound | None = None
    for share in SHARES_GUESSED:
        each = max(1, math.floor(share * canaries / 2))
        correct = int(np.count_nonzero(present[order[-each:]])) + int(np.count_nonzero(~present[order[:each]]))
        numbers = {"guesses": 2 * each, "canaries": canaries}
        chance = failure_probability / len(SHARES_GUESSED)
        bound = GuessBound(
            found=bound_by_guesses(correct, delta=delta, failure_probability=chance, **numbers),
            correct=correct,
            **numbers,
            most=bound_by_guesses(2 * each, delta=delta, failure_probability=chance, **numbers),
        )
        if best is None or bound.found >= best.found:
            best = bound
    if best is None:
        raise UsageError("there is nothing to guess")
    return best
