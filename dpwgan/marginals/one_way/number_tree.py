"""A tree of intervals of a number's levels: which to count next, which to keep apart, how many records each holds.

Every interval that is counted is a node of a binary tree over the levels; the nodes of a look partition them. The next
look halves a few times more what stood out of the noise, and counts the rest in as few nodes as possible: so a range of
any width takes one look for every few halvings, and an empty stretch of it has the noise of one count.
Upwards, every node gets its best estimate from measurements in it and below it; disjoint nodes have independent
estimates, so those of two halves test whether the halves differ. Downwards, the estimates are made consistent with the
total. Any threshold would cut off a tail that falls off into the noise, and bias the mean: so tails are shrunk towards
an extrapolation of their nearer part, unless that has ended. Public cuts divide the levels into segments with a tree
each.
Source: Hay, Rastogi, Miklau, Suciu 2010, arXiv:0904.0942 (both passes); Donoho 1997, "CART and best-ortho-basis", and
  Barron, Birge, Massart 1999 (a dyadic partition by penalised least squares).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dpwgan.array_types import AnyArray, Flags, Floats, Integers
from dpwgan.marginals.simplex import project_on_simplex
from dpwgan.table.schema import FEW_LEVELS

Looks = Sequence[tuple[Integers, Floats]]
"""By look, the starts of intervals that cover all levels, from 0, and their noisy counts. Shapes: (m,) each."""

_FIRST_BLOCKS = 16
"""About the most blocks of the first look, all of one width.

The error of the mean grows with the root of the number of large blocks with noise of their own. So even a number of few
levels is worth one more look, though all counts then have more noise.
"""

_HALVINGS = 6
"""How often a look halves what stood out in the one before it, such that looks suffice for single levels."""

_MOST_HALVINGS = 8

_MOST_REFINED = 256
"""The most blocks that a look halves: the largest."""

MOST_BLOCKS = _MOST_REFINED << _HALVINGS
"""About the most blocks of a look: what memory is planned for."""

_STANDS_OUT = 4.0
"""The least count of a block to be halved, in stddevs of noise."""

_SPLIT_PENALTY = 6.0
"""By how much a further interval must lower chi-square: a lone difference counts from 2.4 stddevs on."""

_LEAST = math.sqrt(_SPLIT_PENALTY)
"""The least mass of a half, in stddevs, or else all goes to the other half.

With 0 instead, every empty half that noise made positive would take from the full one, at every halving. As for any
further interval, its gain in fit must be worth the penalty.
"""

_TOLD = 1.5
"""The expected count of a part of a tail, in stddevs, from which on its end can be tested; below, the tail goes on."""

_BESIDE, _MOST_BESIDE = 2.5, 0.05
"""The most records outside a few levels that are taken to hold all: in stddevs, and as a share of all records."""

_NEARLY_ONE = 16
"""Intervals of up to so many levels pass for one level, which noise hid."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Intervals:
    """Neighbouring intervals that cover all levels.

    Shapes: (m,) each. `masses`: consistent, nonnegative estimates of the records in each. `counts`, `variances`: the
    unbiased estimate from measurements inside the interval alone, independent between intervals. `is_inner`: whether
    there are measurements of its halves.
    """

    starts: Integers
    sizes: Integers
    masses: Floats
    counts: Floats
    variances: Floats
    is_inner: Flags


def count_looks(levels: int, cuts: Sequence[int] = ()) -> int:
    """Looks from the first blocks to single levels; 1 without levels."""
    height = _choose_height(_Segments(levels, cuts)) if levels else 0
    return 1 + -(-height // _HALVINGS)


def lay_out_first(levels: int, cuts: Sequence[int] = ()) -> Integers:
    """Where the blocks of the first look start. Privacy: of public facts alone."""
    segments = _Segments(levels, cuts)
    width = 1 << _choose_height(segments)
    parts = [np.arange(base, end, width) for base, end in zip(segments.bases, segments.ends, strict=True)]
    return np.concatenate(parts).astype(np.int64)


class _Segments:
    """The segments of levels between public cuts: begin, end, and height of the tree."""

    def __init__(self, levels: int, cuts: Sequence[int]) -> None:
        self.bases = np.array([0, *cuts], np.int64)
        self.ends = np.array([*cuts, levels], np.int64)
        self.heights = _find_heights(self.ends - self.bases)

    def find(self, starts: Integers) -> Integers:
        """The segment of each level."""
        return np.searchsorted(self.bases, starts, side="right") - 1


def _find_heights(sizes: Integers) -> Integers:
    """The least h with 2^h at least each size."""
    return np.frexp((sizes - 1).astype(np.float64))[1].astype(np.int64)


def _choose_height(segments: _Segments) -> int:
    sizes = segments.ends - segments.bases
    height = 0
    while height < int(segments.heights.max()) and np.sum(-(-sizes >> height)) > _FIRST_BLOCKS:
        height += 1
    return height


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scale:
    """The measured nodes of one width: estimates from below, and whether the fit keeps their halves apart.

    `is_inner`: whether there are measurements of the halves; `peaks`: the largest count of a leaf below.
    """

    starts: Integers
    counts: Floats
    variances: Floats
    sizes: Floats
    misfit: Floats
    cost: Floats
    peaks: Floats
    is_inner: Flags
    is_split: Flags

    def find(self, starts: Integers) -> tuple[Integers, Flags]:
        """The place of each start among the nodes, and whether it is one."""
        places = np.minimum(np.searchsorted(self.starts, starts), max(0, len(self.starts) - 1))
        return places, (self.starts[places] == starts) if len(self.starts) else np.zeros(len(starts), bool)


_Rule = Callable[[_Scale, Integers, Floats], Flags]
"""Which nodes to halve, by their places and masses."""


class NumberTree:
    """Estimates of one number's levels from all looks: a binary tree for each segment between public cuts."""

    def __init__(self, looks: Looks, *, variance: float, levels: int, cuts: Sequence[int] = ()) -> None:
        """Units: counts of records, each with independent noise of this `variance`."""
        self.levels, self._looks, self._variance = levels, looks, variance
        self._segments = _Segments(levels, cuts)

    @cached_property
    def totals(self) -> tuple[Floats, Floats]:
        """The estimated number of records in each segment, and its variance. Shapes: (segments,) each."""
        segments = self._segments
        counts, variances = np.zeros(len(segments.bases)), np.zeros(len(segments.bases))
        for height in np.unique(segments.heights):
            mine, scale = np.flatnonzero(segments.heights == height), self._scales[height]
            places, _ = scale.find(segments.bases[mine])
            counts[mine], variances[mine] = scale.counts[places], scale.variances[places]
        return counts, variances

    def split(self, *, totals: Floats | None = None) -> Intervals:
        """Cuts the levels into intervals within which there is only noise.

        Every halving down to a level may leave noise beside it. So if few of many levels have all records, as with
        rates and list prices, but for what noise explains, the others get none.
        `totals`: the records of each segment, where known better than by these counts.
        """
        totals = np.maximum(self.totals[0], 0.0) if totals is None else totals
        found = self._descend(totals, lambda scale, places, masses: scale.is_split[places], tails=self._tails)
        return self._clear_beside(found)

    def _clear_beside(self, found: Intervals) -> Intervals:
        """Gives all mass to the levels that stand out, if they are few of many and noise explains the rest."""
        alone = (found.sizes <= _NEARLY_ONE) & (found.masses >= _STANDS_OUT * np.sqrt(found.variances))
        segment, total = self._segments.find(found.starts), float(found.masses.sum())
        is_few = 0 < FEW_LEVELS * found.sizes[alone].sum() <= self.levels
        most = min(_BESIDE * math.sqrt(found.variances[alone].sum()), _MOST_BESIDE * total)
        has_own = np.isin(segment, segment[alone])
        if not is_few or total - found.counts[alone].sum() > most or found.masses[~has_own].any():
            return found
        masses = np.zeros_like(found.masses)
        for here in np.unique(segment[alone]):
            own, held = alone & (segment == here), float(found.masses[segment == here].sum())
            masses[own] = project_on_simplex(found.counts[own], found.variances[own], total=held)
        return replace(found, masses=masses)

    def refine(self, *, looks_left: int) -> Integers:
        """Where the blocks of the next look start: what stands out is halved, the rest in as few blocks as possible.

        Privacy: post-processing of the looks so far.
        """
        bar = _STANDS_OUT * np.sqrt(self._variance)

        def goes_on(scale: _Scale, places: Integers, masses: Floats) -> Flags:
            is_large = masses >= np.maximum(2 * bar, _STANDS_OUT * np.sqrt(scale.variances[places]))
            flags: Flags = scale.is_split[places] | (scale.peaks[places] >= bar) | is_large
            return flags

        blocks = self._descend(np.maximum(self.totals[0], 0.0), goes_on)
        heights = _find_heights(blocks.sizes)
        refined = np.flatnonzero((heights > 0) & (blocks.masses >= bar) & ~blocks.is_inner)
        refined = refined[np.argsort(-blocks.masses[refined], kind="stable")][:_MOST_REFINED]
        halvings = np.zeros(len(heights), np.int64)
        halvings[refined] = np.clip(-(-heights[refined] // looks_left), _HALVINGS, _MOST_HALVINGS)
        widths = np.int64(1) << np.maximum(heights - halvings, 0)
        pieces = -(-blocks.sizes // widths)
        within = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        starts: Integers = np.repeat(blocks.starts, pieces) + within * np.repeat(widths, pieces)
        return starts

    def _descend(self, totals: Floats, goes_on: _Rule, *, tails: Sequence[Floats] = ()) -> Intervals:
        """Descends from the roots as long as the rule says, dividing each node's mass between its halves.

        `tails`: as `_tails`, if tails are to be shrunk towards them.
        """
        segments = self._segments
        starts, masses = np.zeros(0, np.int64), np.zeros(0)
        found: list[tuple[AnyArray, ...]] = []
        for height in range(len(self._scales) - 1, -1, -1):
            roots = np.flatnonzero(segments.heights == height)
            starts, masses = np.append(starts, segments.bases[roots]), np.append(masses, totals[roots])
            scale = self._scales[height]
            places, _ = scale.find(starts)
            inner = scale.is_inner[places] & goes_on(scale, places, masses)
            ends = places[~inner]
            parts = (scale.sizes, scale.counts, scale.variances, scale.is_inner)
            found.append((starts[~inner], masses[~inner], *(part[ends] for part in parts)))
            expected = tails[height] if tails else np.full(len(segments.bases), np.nan)
            starts, masses = self._halve(starts[inner], masses[inner], height=height, tails=expected)
        firsts, masses, sizes, counts, variances, is_inner = (
            np.concatenate(parts) for parts in zip(*found, strict=True)
        )
        order = np.argsort(firsts)
        return Intervals(
            starts=firsts[order].astype(np.int64),
            sizes=sizes[order].astype(np.int64),
            masses=masses[order],
            counts=counts[order],
            variances=variances[order],
            is_inner=is_inner[order],
        )

    def _halve(self, starts: Integers, masses: Floats, *, height: int, tails: Floats) -> tuple[Integers, Floats]:
        if not len(starts):
            return starts, masses
        below, rights = self._scales[height - 1], starts + (np.int64(1) << (height - 1))
        left, _ = below.find(starts)
        has_right = rights < self._segments.ends[self._segments.find(starts)]
        right, _ = below.find(np.where(has_right, rights, starts))
        right_count = np.where(has_right, below.counts[right], 0.0)
        right_variance = np.where(has_right, below.variances[right], 0.0)
        # The difference of the halves' sum from their node's mass is divided by their variances.
        left_share = below.variances[left] / (below.variances[left] + right_variance)
        fitted = below.counts[left] + left_share * (masses - below.counts[left] - right_count)
        left_mass = np.where(has_right, _clear(fitted, masses, left, right, below), masses)
        # The first node of a segment separates all below a level from what lies farther out.
        segment = self._segments.find(starts)
        expected = np.where(starts == self._segments.bases[segment], tails[segment], np.nan)
        stddevs = np.sqrt(left_share * right_variance)
        # What stands out is no end of a tail, and the first half may then be noise itself.
        outer = np.flatnonzero(has_right & ~np.isnan(expected) & (masses - fitted <= _STANDS_OUT * stddevs))
        held = _draw_towards((masses - fitted)[outer], stddevs[outer], expected[outer])
        left_mass[outer] = masses[outer] - np.clip(held, 0.0, masses[outer])
        exists = np.stack((np.ones(len(starts), bool), has_right), axis=1).ravel()
        halves = np.stack((starts, rights), axis=1).ravel()
        return halves[exists], np.stack((left_mass, masses - left_mass), axis=1).ravel()[exists]

    @cached_property
    def _tails(self) -> list[Floats]:
        """The extrapolated mass of the second half of each segment's first node, by height: each twice as wide.

        Shapes: (segments,), one a height; NaN where counts do not fall off.
        """
        segments = self._segments
        last = np.full((3, len(segments.bases)), np.nan)
        tails = [last[0]]
        for height in range(1, len(self._scales)):
            below, rights = self._scales[height - 1], segments.bases + (np.int64(1) << (height - 1))
            expected = _go_on(*last)
            expected[self._find_ended(last[-1], expected, height=height)] = 0.0
            # The range may end within the last one.
            tails.append(expected * np.clip((segments.ends - rights) / 2 ** (height - 1), 0.0, 1.0))
            places, known = below.find(rights)
            mine = np.flatnonzero(known & (rights < segments.ends))
            counts, stddevs = below.counts[places[mine]], np.sqrt(below.variances[places[mine]])
            held, expected = np.full(len(rights), np.nan), tails[-1][mine]
            held[mine] = np.where(np.isnan(expected), counts, _draw_towards(counts, stddevs, expected))
            last = np.stack([*last[1:], held])
        return tails

    def _find_ended(self, held: Floats, expected: Floats, *, height: int) -> Flags:
        """Which tails end in the last block before a height: its second half holds less than half of a tail's mass.

        (A block in which all records end also holds less than the one before, as in a tail.)
        Shapes: (segments,) each. `held`: in that block; `expected`: beyond it, which gives the power law.
        """
        scale, ended = self._scales[max(height - 3, 0)], np.zeros(len(held), bool)
        # The block is the second half of all that is nearer, and its own second half the last fourth.
        places, known = scale.find(self._segments.bases + (np.int64(3) << height >> 3))
        mine = np.flatnonzero(known & (expected > 0))
        rates, counts = expected[mine] / held[mine], scale.counts[places[mine]]
        wanted = held[mine] * (rates ** math.log2(1.5) - rates) / (1.0 - rates)
        ended[mine] = (counts < wanted / 2) & (wanted > _TOLD * np.sqrt(scale.variances[places[mine]]))
        return ended

    @cached_property
    def _scales(self) -> list[_Scale]:
        """The nodes of all widths, from single levels to the roots."""
        segments = self._segments
        start, count = (np.concatenate(parts) for parts in zip(*self._looks, strict=True))
        height = np.concatenate([_find_heights(np.diff(starts, append=self.levels)) for starts, _ in self._looks])
        precision = np.full(len(start), 1.0 / self._variance)
        scales: list[_Scale] = []
        for here in range(int(segments.heights.max()) + 1):
            mine = height == here
            measured, inverse = np.unique(start[mine], return_inverse=True)
            weights: Floats = np.bincount(inverse, precision[mine], len(measured)).astype(np.float64)
            sums: Floats = np.bincount(inverse, precision[mine] * count[mine], len(measured)).astype(np.float64)
            below = scales[-1] if scales else None
            scales.append(self._climb(here, measured, sums, weights, below))
        return scales

    def _climb(self, height: int, measured: Integers, sums: Floats, weights: Floats, below: _Scale | None) -> _Scale:
        """The nodes of one width, from their own measurements and from their halves where both are known."""
        segments, parents = self._segments, np.zeros(0, np.int64)
        if below is not None and len(below.starts):
            segment = segments.find(below.starts)
            bases, rises = segments.bases[segment], segments.heights[segment] >= height
            parents = np.unique((bases + ((below.starts - bases) >> height << height))[rises])
            rights = parents + (np.int64(1) << (height - 1))
            has_right = rights < segments.ends[segments.find(parents)]
            left, left_known = below.find(parents)
            right, right_known = below.find(rights)
            known = left_known & (right_known | ~has_right)
            parents, left, right, has_right = parents[known], left[known], right[known], has_right[known]
        starts = np.union1d(parents, measured)
        size = np.minimum(np.int64(1) << height, segments.ends[segments.find(starts)] - starts).astype(np.float64)
        total_weights, total_sums = np.zeros(len(starts)), np.zeros(len(starts))
        misfit, cost = np.zeros(len(starts)), np.full(len(starts), _SPLIT_PENALTY)
        is_inner, is_split, peaks = np.zeros(len(starts), bool), np.zeros(len(starts), bool), np.zeros(len(starts))
        if below is not None and len(parents):

            def take(values: Floats) -> tuple[Floats, Floats]:
                return values[left], np.where(has_right, values[right], 0.0)

            places = np.searchsorted(starts, parents)
            (low, high), (low_variance, high_variance) = take(below.counts), take(below.variances)
            low_size, high_size = take(below.sizes)
            contrast = high_size * low - low_size * high
            spread = high_size**2 * low_variance + low_size**2 * high_variance
            together = sum(take(below.misfit)) + contrast**2 / np.where(has_right, spread, 1.0)
            apart = sum(take(below.cost))
            misfit[places], cost[places] = together, np.minimum(apart, together + _SPLIT_PENALTY)
            is_inner[places], is_split[places] = True, apart < together + _SPLIT_PENALTY
            total_weights[places] = 1.0 / (low_variance + high_variance)
            total_sums[places] = (low + high) * total_weights[places]
            peaks[places] = np.maximum(*take(below.peaks))
        places = np.searchsorted(starts, measured)
        total_weights[places] += weights
        total_sums[places] += sums
        counts = total_sums / total_weights
        return _Scale(
            starts=starts,
            counts=counts,
            variances=1.0 / total_weights,
            sizes=size,
            misfit=misfit,
            cost=cost,
            peaks=np.where(is_inner, peaks, counts),
            is_inner=is_inner,
            is_split=is_split,
        )


def _clear(left_mass: Floats, masses: Floats, left: Integers, right: Integers, below: _Scale) -> Floats:
    """Moves all of a node's mass to one half if the other is noise without structure."""
    left_variance, right_variance = below.variances[left], below.variances[right]
    least = _LEAST * np.sqrt(left_variance * right_variance / (left_variance + right_variance))
    left_is_noise = ~below.is_split[left] & (left_mass < least)
    right_is_noise = ~below.is_split[right] & (masses - left_mass < least)
    cleared = np.where(left_is_noise & ~right_is_noise, 0.0, left_mass)
    cleared = np.where(right_is_noise & ~left_is_noise, masses, cleared)
    return np.clip(cleared, 0.0, masses)


def _go_on(first: Floats, second: Floats, third: Floats) -> Floats:
    """Extrapolates three counts if the third is below the second, else NaN; the first may be NaN, unknown.

    0 if the third is. Else the log counts follow the parabola through them, as for a lognormal density, or a line, as
    for Pareto's, if the parabola would bend up or the first is unknown: a line alone makes most tails too long.
    Shapes: (n,) each.
    """
    falls = (third > 0) & (third < second)
    second = np.where(falls, second, 1.0)
    rate = third / second
    # A first count that is not above 0 gives the steepest bend.
    bend = np.where(np.isnan(first), 1.0, np.clip(rate * first / second, 0.0, 1.0))
    return np.where(falls, third * rate * bend, np.where(third <= 0, 0.0, np.nan))


def _draw_towards(counts: Floats, stddevs: Floats, expected: Floats) -> Floats:
    """Posterior means of noisy counts, with the expected ones as prior means and stddevs.

    What stands out of the noise stays. Shapes: (n,) each.
    """
    weights = expected**2 / np.maximum(expected**2 + stddevs**2, np.finfo(np.float64).tiny)
    return np.where(counts > _STANDS_OUT * stddevs, counts, weights * counts + (1 - weights) * expected)
