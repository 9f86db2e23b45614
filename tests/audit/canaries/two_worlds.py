"""A lower bound on epsilon from two sets of runs, with a canary and without: for tests of single steps."""

import math

from dpwgan.audit.canaries.lower_bound import MOST_EPSILON
from dpwgan.audit.comparisons import bound_share


def bound_by_two_worlds(
    *, hits: int, false_alarms: int, trials: int, delta: float, failure_probability: float
) -> float:
    """Bounds epsilon from below by how often a test fixed beforehand says "it was there", in runs with and without.

    Two intervals of Clopper and Pearson, each of which fails with half the probability. It asks nothing of the noise;
    but with so many trials it cannot pass ln(trials) - ln(ln(2/failure probability)).
    Source: Clopper and Pearson 1934; Jagielski, Ullman, Oprea 2020, arXiv:2006.07709.
    """
    often = bound_share(hits, trials, confidence=1.0 - failure_probability).lower
    rarely = bound_share(false_alarms, trials, confidence=1.0 - failure_probability).upper
    return min(MOST_EPSILON, max(0.0, math.log((often - delta) / rarely))) if often > delta else 0.0
