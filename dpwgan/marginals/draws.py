"""Draws from many distributions at once: by a point in each, on one scale for all of them."""

import math
from collections.abc import Mapping

import numpy as np

from dpwgan.array_types import AnyFloats, AnyIntegers, Floats, Floats32, Integers

# Iterations of proportional fitting: of odds, and of weights; and the least share.
_TURNS, _SWEEPS, _LEAST_SHARE = 20, 30, 1e-6
# The least lift, whose inverse is the largest; and the least expected count that is divided by.
_LEAST_LIFT, _LEAST_COUNT = 1e-2, 1e-3
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def draw_by_odds(odds: AnyFloats, rows: Integers, *, rng: np.random.Generator) -> Integers:
    """Draws a category by the odds of each row that is named. Shapes: `odds` (m, categories); `rows` (n,), to (n,)."""
    return find_on_scale(odds, rows, rows + rng.random(len(rows)))


def find_on_scale(odds: AnyFloats, rows: Integers, points: Floats) -> Integers:
    """The category that each point falls on in its row of odds: one scale rises over all rows, i holds [i, i + 1).

    Shapes: `odds` (m, categories); `rows` and `points` (n,), a point at or above its row's number, below the next one.
    """
    limits = np.cumsum(odds, axis=1, dtype=np.float64)
    # A row of zero odds, from which nothing is drawn, must not become NaN, or the search would fail.
    limits /= np.where(limits[:, -1:] > 0, limits[:, -1:], 1.0)
    limits += np.arange(len(limits))[:, np.newaxis]
    found = np.searchsorted(limits.ravel(), points, side="right") - rows * odds.shape[1]
    return np.clip(found, 0, odds.shape[1] - 1)


def find_lifts(counts: Floats, expected: Floats) -> Floats32:
    """Counts over expected counts, bounded above 0 so that every row finds a kind. Shapes: both alike."""
    lifts: Floats = counts / np.maximum(expected, _LEAST_COUNT)
    return lifts.clip(_LEAST_LIFT, 1.0 / _LEAST_LIFT).astype(np.float32)


def trade_cells(
    cells: Integers,
    groups: Integers,
    kinds: Integers,
    conditions: Integers,
    lifts: AnyFloats,
    *,
    rng: np.random.Generator,
) -> Integers:
    """Has rows trade cells within their groups, so that kinds of cells depend on the rows' conditions.

    A kind is as many times as likely as its lift says, scaled so that all groups together keep their count of each
    kind, up to rounding. Lifts are above 0. Shapes: (n,) each; `lifts` (conditions, kinds).
    Source: Deming and Stephan 1940 (iterative proportional fitting).
    """
    own, places, counts = np.unique(groups * lifts.shape[1] + kinds, return_inverse=True, return_counts=True)
    of_group, kind = np.divmod(own, lifts.shape[1])
    rows, row_of, many = np.unique(groups * len(lifts) + conditions, return_inverse=True, return_counts=True)
    group, condition = np.divmod(rows, len(lifts))
    # Of each group its kinds side by side.
    starts, ends = (np.searchsorted(of_group, group, side=side) for side in ("left", "right"))
    members = starts[:, np.newaxis] + np.arange((ends - starts).max(initial=0))
    is_kind = members < ends[:, np.newaxis]
    members[~is_kind] = 0
    kinds_of = kind[members]
    odds = is_kind * counts[members] * lifts[condition[:, np.newaxis], kinds_of]
    totals = np.bincount(kinds, minlength=lifts.shape[1])
    for _ in range(_TURNS):
        odds *= (many / odds.sum(axis=1))[:, np.newaxis]
        sums = np.bincount(kinds_of.ravel(), odds.ravel(), minlength=lifts.shape[1])
        odds *= (totals / np.where(sums > 0, sums, 1.0))[kinds_of]
    # Multiples of the golden section are spread evenly in any stretch.
    points = np.empty(len(cells))
    points[np.argsort(row_of + rng.random(len(cells)))] = (rng.random() + _GOLDEN * np.arange(len(cells))) % 1.0
    drawn = members[row_of, find_on_scale(odds, row_of, row_of + points)]
    # Rows that drew a kind get the cells that rows had of it, each once, and then over again.
    had, rising = np.argsort(places + rng.random(len(places))), np.argsort(drawn, kind="stable")
    ranks = np.arange(len(drawn)) - np.searchsorted(drawn[rising], drawn[rising])
    traded = cells.copy()
    traded[rising] = cells[had[(np.cumsum(counts) - counts)[drawn[rising]] + ranks % counts[drawn[rising]]]]
    return traded


def weigh_rows(groups: AnyIntegers, shares: Mapping[int, Floats], *, most: float = math.inf) -> Floats:
    """Weights with which rows nearly have these shares of some attributes' groups; they add up to 1.

    None is much more than `most` times the mean. Shapes: (n, attributes) groups, each of the shares (its groups,).
    Source: Deming and Stephan 1940 (raking).
    """
    weights = np.full(len(groups), 1.0 / len(groups))
    for _ in range(_SWEEPS):
        for attribute, own in shares.items():
            held = np.bincount(groups[:, attribute], weights, minlength=len(own))
            weights *= (own / np.maximum(held, _LEAST_SHARE))[groups[:, attribute]]
        weights = np.minimum(weights, most * weights.mean())
        weights /= weights.sum()
    return weights


class SystematicDraws:
    """Draws for rows in groups, evenly spread within each group, from one table after the other.

    Each row's category has the stated distribution; together the rows of a group hold each category as often as
    expected, give or take one.
    Source: Madow and Madow 1944 (systematic sampling).
    """

    def __init__(self, groups: Integers, *, count: int) -> None:
        """Takes the group of every row, (n,), and how many groups there are."""
        self._groups = groups
        sizes = np.bincount(groups, minlength=count)
        # Groups in order: in that order the search below goes from one end of its scale to the other.
        self._rising = np.repeat(np.arange(count), sizes)
        self._shares = 1.0 / np.maximum(sizes, 1)
        firsts = np.cumsum(sizes) - sizes
        ranks = np.arange(len(groups)) - firsts[self._rising]
        self._begins = self._rising + ranks * self._shares[self._rising]

    def draw(self, table: Floats, *, rng: np.random.Generator) -> Integers:
        """Draws a category for every row. Shapes: `table` (groups, categories), rows adding to 1; the result (n,)."""
        # Rows within a group in random order, and groups in order: one sort instead of two.
        order = np.argsort(self._groups + rng.random(len(self._groups)))
        points = self._begins + (self._shares * rng.random(len(table)))[self._rising]
        drawn = np.empty(len(order), np.int64)
        drawn[order] = find_on_scale(table, self._rising, points)
        return drawn
