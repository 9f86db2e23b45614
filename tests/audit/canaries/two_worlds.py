"""A lower bound on epsilon from two sets of runs, with a canary and without: for tests of single steps."""

import math

from scipy import stats

from dpwgan.audit.canaries.lower_bound import MOST_EPSILON


def bound_by_two_worlds(
    *, hits: int, trials_with: int, false_alarms: int, trials_without: int, delta: float, failure_probability: float
) -> float:
    """Bounds epsilon from below by how often a test fixed beforehand says "it was there", in runs with and without.

    Two intervals of Clopper and Pearson, each of which fails with half the probability. It asks nothing of the noise;
    but with so many trials it cannot pass ln(trials) - ln(ln(2/failure probability)).
    Source: Clopper and Pearson 1934; Jagielski, Ullman, Oprea 2020, arXiv:2006.07709.
    """
    tail = failure_probability / 2
    often = stats.beta.ppf(tail, hits, trials_with - hits + 1) if hits else 0.0
    rarely = (
        stats.beta.isf(tail, false_alarms + 1, trials_without - false_alarms) if false_alarms < trials_without else 1.0
    )
    if often <= delta:
        return 0.0
    return float(min(MOST_EPSILON, max(0.0, math.log((often - delta) / rarely))))
