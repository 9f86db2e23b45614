"""What codes likely hold by their noisy counts.

Privacy: post-processing of released counts.
"""

import math

import numpy as np

from dpwgan.array_types import Floats
from dpwgan.marginals.fitted_prior import RATIO, take_posterior
from dpwgan.marginals.layout import Attribute
from dpwgan.marginals.one_way.number_tree import NumberTree

_MANY_CODES = 32
"""Of more codes in an order it is asked whether neighbours are alike."""

_INTERVAL_PENALTY = 2.0
"""By how much in the logarithm counts must be likelier for each interval that they are held against."""

_STEPS_BELOW = 3
"""What codes may hold begins so many steps below what they are held against."""


def find_likely(counts: Floats, attribute: Attribute, *, stddev: float) -> Floats:
    """What an attribute's codes likely hold: how unequal codes are is what all of a column's counts say together.

    Those that noise takes below a bar hold more on the mean than their counts say, those above it less. Of a long list
    in an order, which may be an age's or that of districts, the counts say whether neighbours are alike.
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
    """What neighbours hold together, told as of a number's levels and shared out by what each likely holds beside that.

    Where the counts are no likelier by that, what each holds `alone`.
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
    """What codes likely hold if that is near a multiple of a scale each, and the logarithm of how likely counts are."""
    scales = np.maximum(scales, stddev * RATIO**-_STEPS_BELOW)
    above = math.ceil(math.log(max(1.0, (counts / scales).max()), RATIO))
    multiples = np.append(0.0, RATIO ** np.arange(-_STEPS_BELOW, above + 1.0))
    odds = np.full(len(multiples), 1.0 / len(multiples))
    found = take_posterior(counts, stddev=stddev, scales=scales, multiples=multiples, first_odds=odds)
    # Far below 0 the mean may be, too, as all that is likely there lies around 0.
    return np.maximum(found.means, 0), float(found.evidence.sum())
