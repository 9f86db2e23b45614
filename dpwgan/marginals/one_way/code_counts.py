"""Posterior counts of codes from noisy ones.

Privacy: post-processing of released counts.
"""

import math

import numpy as np

from dpwgan.array_types import Floats
from dpwgan.marginals.fitted_prior import RATIO, take_posterior
from dpwgan.marginals.layout import Attribute
from dpwgan.marginals.one_way.number_tree import NumberTree

_MANY_CODES = 32
"""With more ordered codes than this, neighbours may inform each other."""

_INTERVAL_PENALTY = 2.0
"""The log likelihood that each interval of neighbours has to gain."""

_STEPS_BELOW = 3
"""The least multiple of a scale that is considered, in steps of `RATIO` below it."""


def find_likely(counts: Floats, attribute: Attribute, *, stddev: float) -> Floats:
    """The posterior means of an attribute's codes, under a prior fitted to all of them.

    Selection by a threshold biases noisy counts: those below it hold more than they say, those above it less. For a
    long list with an order, be it of ages or of districts, the counts decide whether neighbours are alike.
    Shapes: (codes,). Units: counts of records; `stddev` is that of the noise on each.
    Source: `take_posterior`.
    """
    if not len(counts) or stddev == 0.0:
        return counts
    likely, _ = _hold_against(np.full(len(counts), stddev), counts, stddev=stddev)
    is_known = ~attribute.is_missing
    if attribute.ordered and not attribute.levels and is_known.sum() > _MANY_CODES:
        likely[is_known] = _ask_neighbours(counts[is_known], likely[is_known], stddev=stddev)
    return likely


def _ask_neighbours(counts: Floats, alone: Floats, *, stddev: float) -> Floats:
    """Posterior means with scales from intervals of neighbours, as of a number's levels, whose sums are kept.

    `alone`, if the counts are no likelier by that.
    """
    tree = NumberTree([(np.arange(len(counts)), counts)], variance=stddev**2, levels=len(counts))
    intervals = tree.split()
    masses = np.repeat(intervals.masses, intervals.sizes)
    even = masses / np.repeat(intervals.sizes, intervals.sizes)
    likely, evidence = _hold_against(even, counts, stddev=stddev)
    _, other_evidence = _hold_against(np.full(len(counts), stddev), counts, stddev=stddev)
    if evidence - other_evidence < _INTERVAL_PENALTY * len(intervals.starts):
        return alone
    sums = np.repeat(np.add.reduceat(likely, intervals.starts), intervals.sizes)
    return np.divide(masses * likely, sums, out=even, where=sums > 0)


def _hold_against(scales: Floats, counts: Floats, *, stddev: float) -> tuple[Floats, float]:
    """Posterior means of codes near multiples of a scale each, and the log likelihood."""
    scales = np.maximum(scales, stddev * RATIO**-_STEPS_BELOW)
    above = math.ceil(math.log(max(1.0, (counts / scales).max()), RATIO))
    multiples = np.append(0.0, RATIO ** np.arange(-_STEPS_BELOW, above + 1.0))
    odds = np.full(len(multiples), 1.0 / len(multiples))
    found = take_posterior(counts, stddev=stddev, scales=scales, multiples=multiples, first_odds=odds)
    # The mean may be far below 0, as the prior's kinds around 0 have spread.
    return np.maximum(found.means, 0), float(found.evidence.sum())
