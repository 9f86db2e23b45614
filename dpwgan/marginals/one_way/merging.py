"""Merges cells that released one-way counts cannot tell from noise into groups.

All of it is post-processing of the released counts: nothing is chosen by reading rows.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dpwgan.array_types import Flags, Floats, Integers
from dpwgan.errors import UsageError
from dpwgan.marginals.one_way.coarsening import AttributeGroups, Coarsening
from dpwgan.marginals.one_way.code_counts import find_likely
from dpwgan.marginals.one_way.day_kinds import DayKinds
from dpwgan.marginals.one_way.number_tree import Intervals, NumberTree
from dpwgan.marginals.one_way.one_ways import OneWays
from dpwgan.marginals.one_way.round_steps import RoundSteps
from dpwgan.marginals.simplex import project_on_simplex

MOST_CELLS = 128
"""The most groups of an attribute, by default."""

_LEAST_SHARE = 1 / 32
"""Intervals of a number hold about this share of the records."""

_LEAST_KIND = 0.25
"""The least count of a group that only rules set apart, over that of others."""

_LEAST_STDDEVS = 3.0
"""The least count of an interval of a number, in stddevs of noise."""

_NARROW = 8
"""How many times wider than an empty neighbour an interval must be for the density to ignore that neighbour."""

_SMOOTH_PIECES, _MOST_PIECES = 8, 128
"""The least (so that they follow a smooth density) and most pieces that an interval of a number is cut into."""


def coarsen(
    one_ways: OneWays,
    *,
    records: int,
    least_count: float,
    most_cells: int = MOST_CELLS,
    most_intervals: int = MOST_CELLS,
    kinds: Sequence[Integers | None] | None = None,
) -> Coarsening:
    """Merges cells that the released counts cannot tell from noise.

    Numbers become intervals that hold about a 32nd of the records each, or a single level where many records share
    it. Then groups below `least_count` are merged: neighbours if cells have an order, else into one group of rare
    cells; missing codes only with each other. An attribute has `most_cells` groups at most, and one with a number
    `most_intervals`. `kinds`: by attribute, classes of codes by public rules, which are merged first, or None.
    Privacy: post-processing of the release; `records` is public.
    Units: `least_count` is a count of records.
    Raises: UsageError if a number is out of its range.
    """
    if records < 1 or not (math.isfinite(least_count) and least_count >= 0) or most_cells < 2:
        raise UsageError("Cells are merged for 1 record or more, a count of 0 or more and 2 cells or more.")
    parts = []
    for index, attribute in enumerate(one_ways.plan.attributes):
        most = most_intervals if attribute.levels else most_cells
        pieces = _Pieces(one_ways, index, records=records, kinds=None if kinds is None else kinds[index])
        threshold, merged = least_count, pieces.merge(least_count)
        while merged.size > most:
            threshold = max(1.25 * threshold, one_ways.stddev)
            merged = pieces.merge(threshold)
        parts.append(merged)
    return Coarsening(spans=one_ways.plan.spans, parts=tuple(parts))


class _Pieces:
    """One attribute's finest intervals and their estimates, to be merged at any threshold."""

    def __init__(self, one_ways: OneWays, index: int, *, records: int, kinds: Integers | None) -> None:
        self._attribute = attribute = one_ways.plan.attributes[index]
        self._records, self._kinds = records, kinds
        self._noisy, self._code_stddev = one_ways.get_codes(index)
        self._codes = find_likely(self._noisy, attribute, stddev=self._code_stddev)
        self._odds = one_ways.odds.get(index)
        self._tree = one_ways.get_tree(index) if attribute.levels else None
        self._least_share = max(_LEAST_SHARE * records, _LEAST_STDDEVS * one_ways.stddev)

    def merge(self, least_count: float) -> AttributeGroups:
        """The groups at a threshold."""
        labels = self._merge_codes(least_count)
        groups = int(labels.max()) + 1 if len(labels) else 0
        counts = np.bincount(labels, self._codes, minlength=groups).astype(np.float64)
        variances = np.bincount(labels, minlength=groups) * self._code_stddev**2
        of_group, even = counts[labels], 1.0 / np.bincount(labels)[labels]
        weights = np.divide(self._codes, of_group, out=even, where=of_group > 0)
        starts = np.arange(self._attribute.codes)
        if self._tree is None:
            masses = project_on_simplex(counts, variances, total=self._records)
        else:
            roots, root_variances = self._tree.totals
            masses = project_on_simplex(
                np.append(counts, roots), np.append(variances, root_variances), total=self._records
            )
            intervals, merged = self._merge_levels(self._tree, least_count, totals=masses[groups:])
            size = int(merged.max()) + 1
            sums = np.bincount(merged, intervals.masses, minlength=size)
            masses = np.append(masses[:groups], sums)
            counts = np.append(counts, np.bincount(merged, intervals.counts, minlength=size))
            variances = np.append(variances, np.bincount(merged, intervals.variances, minlength=size))
            # A group without records is uniform.
            is_empty = sums[merged] <= 0
            levels = np.bincount(merged, intervals.sizes, minlength=size)
            shares = np.where(
                is_empty, intervals.sizes / levels[merged], intervals.masses / np.where(is_empty, 1.0, sums[merged])
            )
            weights = np.append(weights, shares)
            starts = np.append(starts, self._attribute.codes + intervals.starts)
            labels = np.append(labels, groups + merged)
        return AttributeGroups(
            cells=self._attribute.cells,
            starts=starts,
            groups=labels.astype(np.int32),
            weights=weights,
            probabilities=masses / masses.sum(),
            counts=counts,
            stddevs=np.sqrt(variances),
            codes=self._attribute.codes,
            odds=self._odds,
        )

    def _merge_codes(self, least_count: float) -> Integers:
        """The group of each code."""
        attribute, labels = self._attribute, np.empty(self._attribute.codes, np.int64)
        is_missing = attribute.is_missing
        labels[is_missing] = _pool(self._noisy[is_missing], least_count)
        others = self._noisy[~is_missing]
        merge = _merge_neighbours if attribute.ordered else _pool
        if self._kinds is None:
            merged = merge(others, least_count)
        else:
            merged = _merge_kinds(others, least_count, self._kinds[~is_missing], merge)
        labels[~is_missing] = merged + attribute.codes
        return _number_in_order(labels)

    def _merge_levels(self, tree: NumberTree, least_count: float, *, totals: Floats) -> tuple[Intervals, Integers]:
        """Intervals of levels, and the group of each."""
        intervals = _cut_intervals(
            tree.split(totals=totals),
            most_count=max(least_count, self._least_share),
            odds=self._odds,
            is_ruled=bool(self._attribute.cuts),
        )
        bar = max(least_count, self._least_share / 2)
        # Cuts are given up where there would otherwise be too many groups.
        places = np.searchsorted(intervals.starts, self._attribute.cuts if bar < self._records else ())
        merged: list[Integers] = []
        for own in np.split(intervals.masses, places):
            merged.append(_join_neighbours(own, bar, alone=least_count) + sum(map(len, merged)))
        labels = _number_in_order(np.concatenate(merged))
        # Next to an interval that is large enough by itself, an empty one adds only noise.
        has_large = np.bincount(labels, intervals.masses >= bar) > 0
        known = (intervals.masses > 0) | ~has_large[labels]
        counts, variances = known * intervals.counts, known * intervals.variances
        return replace(intervals, counts=counts, variances=variances), labels


def _cut_intervals(
    intervals: Intervals, *, most_count: float, odds: RoundSteps | DayKinds | None = None, is_ruled: bool = False
) -> Intervals:
    """Cuts intervals into pieces that hold about `most_count` at most, by a smooth density through them.

    The density keeps each interval's mass, and pieces with likelier levels get more of it. Single levels are no part of
    it: a heap says nothing of its neighbours. `is_ruled`: whether rules between columns cut the range.
    """
    is_single = intervals.sizes == 1
    pieces = np.clip(np.ceil(intervals.masses / most_count), _SMOOTH_PIECES, _MOST_PIECES).astype(np.int64)
    pieces = np.where(intervals.masses > 0, np.minimum(pieces, intervals.sizes), 1)
    parts = np.repeat(np.arange(len(pieces)), pieces)
    within = np.arange(len(parts)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    # Pieces nearly equal in size; without overflow up to 2^53.
    least, rest = np.divmod(intervals.sizes, pieces)
    starts = intervals.starts[parts] + within * least[parts] + np.minimum(within, rest[parts])
    sizes = np.diff(starts, append=intervals.starts[-1] + intervals.sizes[-1])
    kept, joined = _find_dense(intervals, is_ruled=is_ruled)
    knots = np.append(0.0, np.cumsum(intervals.sizes[kept].astype(np.float64)))
    heights = np.append(0.0, np.cumsum(intervals.masses[kept]))
    masses = intervals.masses[parts].copy()
    if np.any(pieces > 1):
        places = np.append(0.0, np.cumsum(np.where(kept[parts], sizes, 0).astype(np.float64)))
        curve = _interpolate(knots, heights, places, joined=joined)
        drawn = np.maximum(np.diff(curve), 0.0)
        if odds is not None:
            drawn *= odds.weigh(starts, sizes)
        sums = np.bincount(parts, drawn)[parts]
        even = sizes / intervals.sizes[parts]
        shares = np.where(sums > 0, drawn / np.where(sums > 0, sums, 1.0), even)
        masses *= np.where(is_single[parts], 1.0, shares)
    # An interval's measurement and its variance are divided among its pieces like its mass.
    whole = intervals.masses[parts]
    shares = np.where(whole > 0, masses / np.where(whole > 0, whole, 1.0), sizes / intervals.sizes[parts])
    shares = np.maximum(shares, 1e-6)
    return Intervals(
        starts=starts,
        sizes=sizes,
        masses=masses,
        counts=intervals.counts[parts] * shares,
        variances=intervals.variances[parts] * shares,
        is_inner=np.zeros(len(parts), bool),
    )


def _find_dense(intervals: Intervals, *, is_ruled: bool) -> tuple[Flags, Flags]:
    """Which intervals the density goes through, and which of these it joins to the next. Shapes: (m,), (k - 1,).

    Single levels are no part of it, and separate their neighbours. Where rules cut the range there may be almost
    nothing at a cut: a level that may be empty then separates nothing, and an interval that noise may have emptied, as
    it is far narrower than one beside it, is skipped.
    """
    is_single, is_empty = intervals.sizes == 1, intervals.masses <= 0
    parting, kept = is_single, ~is_single
    if is_ruled:
        parting = is_single & (intervals.counts >= _LEAST_STDDEVS * np.sqrt(intervals.variances))
        others = np.where(is_empty | is_single, 0, intervals.sizes)
        widest = np.maximum(_look_back(others), _look_back(others[::-1])[::-1])
        kept = kept & ~(is_empty & (_NARROW * intervals.sizes <= widest))
    parted = np.cumsum(parting)[kept]
    return kept, parted[1:] == parted[:-1]


def _look_back(values: Integers) -> Integers:
    """The last value above 0 up to each place, else 0."""
    found: Integers = values[np.maximum.accumulate(np.where(values > 0, np.arange(len(values)), 0))]
    return found


def _interpolate(knots: Floats, heights: Floats, places: Floats, *, joined: Flags) -> Floats:
    """A monotone curve through points, evaluated at places between them; a straight line through two points.

    Its slope at a knot interpolates the log densities between the middles of both intervals, so that an interval far
    wider than its tail has nearly all of its mass where it begins. Next to an empty interval, or where intervals are
    not `joined` (k - 2,) because of a heap between, the slope is that of the whole interval.
    Source: Gregory and Delbourgo 1982 (rational quadratic interpolation, monotone whatever the slopes).
    """
    widths, rises = np.diff(knots), np.diff(heights)
    density = rises / widths
    logarithms = np.log(np.where(density > 0, density, 1.0))
    inner = (logarithms[:-1] * widths[1:] + logarithms[1:] * widths[:-1]) / (widths[1:] + widths[:-1])
    joined = joined & (density[:-1] > 0) & (density[1:] > 0)
    begins, ends = density.copy(), density.copy()
    begins[1:][joined] = ends[:-1][joined] = np.exp(inner)[joined]
    own = np.searchsorted(knots[1:-1], places, side="right")
    along = (places - knots[own]) / widths[own]
    both = along * (1.0 - along)
    below = density[own] + (begins[own] + ends[own] - 2.0 * density[own]) * both
    shares = (density[own] * along**2 + begins[own] * both) / np.where(below > 0, below, 1.0)
    curve: Floats = heights[own] + rises[own] * shares
    return curve


def _pool(counts: Floats, least_count: float) -> Integers:
    """Labels: one for each cell that reaches the threshold, and one for all others."""
    labels = np.arange(len(counts))
    rare = np.flatnonzero(counts < least_count)
    labels[rare] = rare[0] if len(rare) else 0
    return labels


def _merge_kinds(
    counts: Floats, least_count: float, kinds: Integers, merge: Callable[[Floats, float], Integers]
) -> Integers:
    """Merges cells within each kind, and then all groups that are still far below the threshold."""
    labels = np.empty(len(counts), np.int64)
    for kind in np.unique(kinds):
        places = np.flatnonzero(kinds == kind)
        labels[places] = places[merge(counts[places], least_count)]
    small = np.flatnonzero(np.bincount(labels, counts)[labels] < _LEAST_KIND * least_count)
    labels[small] = labels[small[0]] if len(small) else 0
    return labels


def _merge_neighbours(counts: Floats, least_count: float) -> Integers:
    """Merges neighbours as `_merge_runs` does; runs too small for a group share one.

    These codes are rare, most of them in no record, and stay apart from those that records have.
    """
    labels, small = _merge_runs(counts, least_count)
    for first, end in small:
        labels[first:end] = small[0][0]
    return labels


def _join_neighbours(counts: Floats, least_count: float, *, alone: float) -> Integers:
    """Merges neighbours as `_merge_runs` does; a run too small for a group is one if it reaches `alone`, or else joins
    the smaller of its neighbours.

    Nothing else may lie between: a group's rows are spread over all of it, whatever their other columns say.
    """
    labels, small = _merge_runs(counts, least_count)
    for first, end in small:
        beside = [place for place in (first - 1, end) if 0 <= place < len(labels)]
        if beside and sum(counts[first:end]) < alone:
            labels[first:end] = labels[min(beside, key=lambda place: counts[place])]
    return labels


def _merge_runs(counts: Floats, least_count: float) -> tuple[Integers, list[tuple[int, int]]]:
    """Labels of runs of small neighbours that reach the threshold together; the rest of a run joins its last group.

    Also gives where runs too small for a group begin and end.
    """
    labels: list[int] = []
    small: list[tuple[int, int]] = []
    for is_large, run in itertools.groupby(counts, key=lambda count: bool(count >= least_count)):
        first = len(labels)
        if is_large:
            labels.extend(first + offset for offset, _ in enumerate(run))
            continue
        group_starts = [first]
        total = 0.0
        for position, count in enumerate(run, start=first):
            labels.append(group_starts[-1])
            total += count
            if total >= least_count:
                group_starts.append(position + 1)
                total = 0.0
        leftover, end = group_starts[-1], len(labels)
        if leftover > first:
            labels[leftover:] = [group_starts[-2]] * (end - leftover)
        else:
            small.append((first, end))
    return np.array(labels, np.int64), small


def _number_in_order(labels: Integers) -> Integers:
    """Renumbers labels from 0 in the order of their first cells."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]
