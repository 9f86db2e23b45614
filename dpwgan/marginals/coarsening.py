"""Groups of cells that hold enough records to be told from noise, and the way back to cells.

Everything here is post-processing of the released one-way counts: nothing of it reads a row to choose anything.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpwgan.errors import DpwganError, InputError, UsageError
from dpwgan.marginals.groups import GroupLayout
from dpwgan.marginals.layout import Attribute, lay_out_attributes
from dpwgan.marginals.measurements import GroupedRows
from dpwgan.marginals.number_tree import Intervals
from dpwgan.marginals.one_ways import OneWays
from dpwgan.marginals.round_steps import RoundSteps
from dpwgan.marginals.simplex import project_on_simplex
from dpwgan.table.encoded import EncodedTable, Span, choose_number_type
from dpwgan.table.rows import Derivation
from dpwgan.table.storage import allocate_beside, cut, let_go

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Groups = npt.NDArray[np.int32]

MOST_CELLS = 128
"""Groups that an attribute has at most, unless the caller says otherwise."""

_LEAST_SHARE = 1 / 32
"""A number is cut into intervals of about this share of the records, where the data spread that far."""

_LEAST_KIND = 0.25
"""What cells that only rules tell from others must hold to make a group of their own, over what any other holds."""

_LEAST_STDDEVS = 3.0
"""How many stddevs of the noise an interval of a number must hold."""

_LEAST_VARIANCE = 1e-12
"""Below it a variance is none, to divide by."""

_SMOOTH_PIECES, _MOST_PIECES = 8, 128
"""Into how many pieces an interval of a number is cut at least, so that they follow a smooth density, and at most."""

_NUMBER_FIELDS = ("weights", "probabilities", "counts", "stddevs")


@dataclass(frozen=True, kw_only=True, eq=False)
class AttributeGroups:
    """How one attribute's cells lie in groups.

    The cells are cut into intervals, one code or a run of levels each: `starts` (m,) rise from 0, `groups` (m,) say
    which group each belongs to, `weights` (m,) how its group's rows spread over its intervals (they add to 1 in each
    group). For each group, (k,): `probabilities`, consistent estimates on the simplex of its share of the records;
    `counts` and `stddevs`, the noisy count of records, not projected on anything, and the stddev of its noise. These
    are independent from group to group, but for the choice of the groups, which was made by the same counts. Levels of
    an interval are as likely as each other, or as `round_steps` have it, which begin `codes` cells later.
    """

    cells: int
    starts: Integers
    groups: Groups
    weights: Floats
    probabilities: Floats
    counts: Floats
    stddevs: Floats
    codes: int = 0
    round_steps: RoundSteps | None = None

    def __post_init__(self) -> None:
        intervals, groups = len(self.starts), len(self.probabilities)
        is_sound = (
            groups >= 1
            and self.groups.shape == self.weights.shape == (intervals,)
            and self.counts.shape == self.stddevs.shape == (groups,)
            and intervals >= 1
            and self.starts[0] == 0
            and np.all(np.diff(self.starts) > 0)
            and self.starts[-1] < self.cells
            and np.array_equal(np.unique(self.groups), np.arange(groups))
            and all(np.all(np.isfinite(getattr(self, name))) for name in _NUMBER_FIELDS)
            and all(np.all(array >= 0) for array in (self.weights, self.probabilities, self.stddevs))
            and math.isclose(float(self.probabilities.sum()), 1.0, rel_tol=1e-6)
            and np.allclose(np.bincount(self.groups, self.weights), 1.0, rtol=1e-6)
        )
        if not is_sound:
            raise DpwganError("Internal error: the groups of an attribute's cells do not fit together.")

    @property
    def size(self) -> int:
        """Number of groups."""
        return len(self.probabilities)

    def find_groups(self, cells: Integers) -> Groups:
        """The group of every cell. Shapes: (n,)."""
        if len(self.starts) == self.cells:
            found: Groups = self.groups[cells]
        else:
            found = self.groups[np.searchsorted(self.starts, cells, side="right") - 1]
        return found

    def draw_cells(self, groups: Groups, *, rng: np.random.Generator) -> Integers:
        """Draws a cell for every group: an interval by its weight, and any of its cells alike, or by its round step.

        Shapes: (n,).
        """
        order = np.argsort(self.groups, kind="stable")
        bounds = np.searchsorted(self.groups[order], np.arange(self.size + 1))
        sizes = np.diff(self.starts, append=self.cells)
        first = order[bounds[:-1]]
        cells: Integers = self.starts[first][groups]
        # A group of one cell, as most codes are, leaves nothing to be drawn.
        several = (np.diff(bounds) > 1) | (sizes[first] > 1)
        rows = np.flatnonzero(several[groups])
        chosen = self._draw_intervals(groups[rows], order=order, bounds=bounds, rng=rng)
        if self.round_steps is None:
            cells[rows] = self.starts[chosen] + rng.integers(0, sizes[chosen])
            return cells
        wide = sizes[chosen] > 1
        cells[rows[~wide]] = self.starts[chosen[~wide]]
        cells[rows[wide]] = self.codes + self.round_steps.draw(self.starts - self.codes, sizes, chosen[wide], rng=rng)
        return cells

    def _draw_intervals(
        self, groups: Groups, *, order: Integers, bounds: Integers, rng: np.random.Generator
    ) -> Integers:
        """Draws an interval for every group. `order` sorts intervals by group, each of which begins at its bound."""
        # One rising scale for all groups: group g holds the interval [g, g + 1).
        within = np.cumsum(self.weights[order])
        within -= np.concatenate(([0.0], within))[bounds[self.groups[order]]]
        scale = self.groups[order] + np.minimum(within, 1.0)
        drawn = np.searchsorted(scale, groups + rng.random(len(groups)), side="right")
        # Sums that are off 1 by rounding must not lead into another group, nor to an interval of weight 0.
        last = _find_last_weighted(self.weights[order], bounds)
        intervals: Integers = order[np.clip(drawn, bounds[groups], last[groups])]
        return intervals


@dataclass(frozen=True, kw_only=True, eq=False)
class Coarsening:
    """The table's attributes with their cells in groups: the only form that methods that fit counts see."""

    spans: tuple[Span, ...]
    parts: tuple[AttributeGroups, ...]

    def __post_init__(self) -> None:
        cells = [attribute.cells for attribute in self.attributes]
        if cells != [part.cells for part in self.parts]:
            raise DpwganError("Internal error: the groups of cells do not fit the columns.")

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes, one a trained column."""
        return lay_out_attributes(self.spans)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of groups of each attribute."""
        return tuple(part.size for part in self.parts)

    @property
    def width(self) -> int:
        """Number of groups of all attributes: the width of a one-hot row."""
        return sum(self.sizes)

    @property
    def probabilities(self) -> tuple[Floats, ...]:
        """Each attribute's estimated shares of the records, one a group, on the simplex."""
        return tuple(part.probabilities for part in self.parts)

    @property
    def counts(self) -> tuple[Floats, ...]:
        """Each attribute's noisy counts of records, one a group, not projected on anything."""
        return tuple(part.counts for part in self.parts)

    @property
    def stddevs(self) -> tuple[Floats, ...]:
        """The stddevs of the noise on `counts`."""
        return tuple(part.stddevs for part in self.parts)

    def to_groups(self, encoded: EncodedTable) -> Integers:
        """The group of every row in every attribute: a function of each row by itself. They lie where rows lie.

        Shapes: (n, attributes), of whole numbers as short as groups allow: they are gone over many times.
        Raises: DpwganError, an internal error, if the table is not laid out as these attributes.
        """
        if encoded.spans != self.spans:
            raise DpwganError("Internal error: the encoded table is not laid out as its groups of cells.")
        attributes = self.attributes
        beside = encoded.codes if encoded.codes.shape[1] else encoded.numbers
        kind = np.min_scalar_type(max(self.sizes, default=1) - 1)
        groups: Integers = allocate_beside(beside, (encoded.records, len(attributes)), kind)
        for rows in cut(encoded.records):
            for index, (attribute, part) in enumerate(zip(attributes, self.parts, strict=True)):
                groups[rows, index] = part.find_groups(attribute.find_cells(encoded, rows))
            let_go(encoded.codes, encoded.numbers, groups)
        return groups

    def to_encoded(self, groups: npt.NDArray[np.integer[Any]], *, rng: np.random.Generator) -> EncodedTable:
        """Draws a row of the encoded table for every row of groups; `to_groups` gives the same groups back.

        Shapes: (n, attributes).
        Raises: DpwganError, an internal error, if a group does not exist.
        """
        if groups.ndim != 2 or groups.shape[1] != len(self.parts):
            raise DpwganError("Internal error: rows of groups need one group for each attribute.")
        if len(groups) and not (np.all(groups >= 0) and np.all(groups < np.array(self.sizes))):
            raise DpwganError("Internal error: a row holds a group that does not exist.")
        numbers = sum(span.head == "linear" for span in self.spans)
        # Columns are written, and later read, one after the other: each in one piece.
        encoded = EncodedTable(
            codes=np.zeros((len(groups), len(self.spans) - numbers), np.int32, order="F"),
            numbers=np.zeros((len(groups), numbers), choose_number_type(self.spans), order="F"),
            spans=self.spans,
        )
        for index, (attribute, part) in enumerate(zip(self.attributes, self.parts, strict=True)):
            chosen = groups[:, index].astype(np.int32)
            attribute.put_cells(part.draw_cells(chosen, rng=rng), into=encoded)
        return encoded

    def to_document(self) -> dict[str, Any]:
        """Everything as JSON-able values, from which `from_document` builds the same."""
        return {
            "spans": [asdict(span) for span in self.spans],
            "attributes": [
                {
                    "cells": part.cells,
                    "codes": part.codes,
                    "starts": part.starts.tolist(),
                    "groups": part.groups.tolist(),
                    **{name: getattr(part, name).tolist() for name in _NUMBER_FIELDS},
                    "round_steps": None if part.round_steps is None else part.round_steps.to_document(),
                }
                for part in self.parts
            ],
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "Coarsening":
        """Reads what `to_document` gave. Raises: InputError if it is damaged."""
        try:
            return cls(
                spans=tuple(Span(**span) for span in document["spans"]),
                parts=tuple(
                    AttributeGroups(
                        cells=int(part["cells"]),
                        starts=np.array(part["starts"], np.int64),
                        groups=np.array(part["groups"], np.int32),
                        weights=np.array(part["weights"], np.float64),
                        probabilities=np.array(part["probabilities"], np.float64),
                        counts=np.array(part["counts"], np.float64),
                        stddevs=np.array(part["stddevs"], np.float64),
                        codes=int(part["codes"]),
                        round_steps=part["round_steps"] and RoundSteps.from_document(part["round_steps"]),
                    )
                    for part in document["attributes"]
                ),
            )
        except (DpwganError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"the saved groups of cells are missing or damaged ({type(error).__name__})") from None


def _group(encoded: EncodedTable, document: dict[str, Any]) -> GroupedRows:
    coarsening = Coarsening.from_document(document)
    return GroupedRows(coarsening.to_groups(encoded), GroupLayout(coarsening.sizes))


GROUPS = Derivation[EncodedTable, GroupedRows]("groups", lambda encoded, document, beside: _group(encoded, document))
"""Rows as groups of cells, by the document of a `Coarsening`."""


def coarsen(
    one_ways: OneWays,
    *,
    records: int,
    least_count: float,
    most_cells: int = MOST_CELLS,
    kinds: Sequence[Integers | None] | None = None,
) -> Coarsening:
    """Merges cells that the released counts cannot tell from noise.

    Numbers become intervals that hold about a 32nd of the records each, or a single level where many records share
    it. Then groups below `least_count` are merged: neighbours where cells have an order, into one group of rare cells
    elsewhere; missing codes only with each other. An attribute has `most_cells` groups at most, and one with a
    number no more than MOST_CELLS. `kinds` say of each attribute, if it is known, which codes are of one kind by public
    rules: they are merged first.
    Privacy: post-processing of the release; `records` is public.
    Units: `least_count` is a count of records.
    Raises: UsageError if a number is out of its range.
    """
    if records < 1 or not (math.isfinite(least_count) and least_count >= 0) or most_cells < 2:
        raise UsageError("Cells are merged for 1 record or more, a count of 0 or more and 2 cells or more.")
    parts = []
    for index, attribute in enumerate(one_ways.plan.attributes):
        most = min(most_cells, MOST_CELLS) if attribute.levels else most_cells
        pieces = _Pieces(one_ways, index, records=records, kinds=None if kinds is None else kinds[index])
        threshold, merged = least_count, pieces.merge(least_count)
        while merged.size > most:
            threshold = max(1.25 * threshold, one_ways.stddev)
            merged = pieces.merge(threshold)
        parts.append(merged)
    return Coarsening(spans=one_ways.plan.spans, parts=tuple(parts))


class _Pieces:
    """One attribute's smallest intervals with all that is known of them, ready to be merged at any threshold."""

    def __init__(self, one_ways: OneWays, index: int, *, records: int, kinds: Integers | None = None) -> None:
        self._attribute = attribute = one_ways.plan.attributes[index]
        self._records, self._kinds = records, kinds
        self._codes, self._code_stddev = one_ways.get_codes(index)
        self._round_steps = one_ways.round_steps.get(index)
        self._tree = one_ways.get_tree(index) if attribute.number_span is not None else None
        self._least_share = max(_LEAST_SHARE * records, _LEAST_STDDEVS * one_ways.stddev)

    def merge(self, least_count: float) -> AttributeGroups:
        """Merges what lies below the threshold."""
        attribute = self._attribute
        labels = np.empty(attribute.codes, np.int64)
        is_missing = attribute.is_missing
        labels[is_missing] = _pool(self._codes[is_missing], least_count)
        others = self._codes[~is_missing]
        merge = _merge_neighbours if attribute.ordered else _pool
        if self._kinds is None:
            merged = merge(others, least_count)
        else:
            merged = _merge_kinds(others, least_count, self._kinds[~is_missing], merge)
        labels[~is_missing] = merged + attribute.codes
        labels = _number_in_order(labels)
        groups = int(labels.max()) + 1 if len(labels) else 0
        counts = np.bincount(labels, self._codes, minlength=groups).astype(np.float64)
        variances = np.bincount(labels, minlength=groups) * self._code_stddev**2
        weights = _spread(self._codes, labels, groups=groups, stddev=self._code_stddev)
        starts = np.arange(attribute.codes)
        if self._tree is None:
            masses = project_on_simplex(counts, variances, total=self._records)
        else:
            roots, root_variances = self._tree.totals
            masses = project_on_simplex(
                np.append(counts, roots), np.append(variances, root_variances), total=self._records
            )
            intervals = _cut_intervals(
                self._tree.split(totals=masses[groups:]),
                most_count=max(least_count, self._least_share),
                round_steps=self._round_steps,
            )
            bar, cuts = max(least_count, self._least_share / 2), attribute.cuts
            # Cuts are given up where there would be too many groups else.
            places = np.searchsorted(intervals.starts, cuts if bar < self._records else ())
            segments = np.split(intervals.masses, places)
            merged = np.concatenate([_merge_neighbours(own, bar) + index for index, own in _count_on(segments)])
            merged = _number_in_order(merged)
            size = int(merged.max()) + 1
            sums = np.bincount(merged, intervals.masses, minlength=size)
            masses = np.append(masses[:groups], sums)
            counts = np.append(counts, np.bincount(merged, intervals.counts, minlength=size))
            variances = np.append(variances, np.bincount(merged, intervals.variances, minlength=size))
            # A group without a record in it is drawn from evenly.
            is_empty = sums[merged] <= 0
            levels = np.bincount(merged, intervals.sizes, minlength=size)
            shares = np.where(
                is_empty, intervals.sizes / levels[merged], intervals.masses / np.where(is_empty, 1.0, sums[merged])
            )
            weights = np.append(weights, shares)
            starts = np.append(starts, attribute.codes + intervals.starts)
            labels = np.append(labels, groups + merged)
        return AttributeGroups(
            cells=attribute.cells,
            starts=starts,
            groups=labels.astype(np.int32),
            weights=weights,
            probabilities=masses / masses.sum(),
            counts=counts,
            stddevs=np.sqrt(variances),
            codes=attribute.codes,
            round_steps=self._round_steps,
        )


def _count_on(segments: Iterable[Floats]) -> Iterable[tuple[int, Floats]]:
    """Each segment with the number of intervals before it."""
    before = 0
    for own in segments:
        yield before, own
        before += len(own)


def _cut_intervals(intervals: Intervals, *, most_count: float, round_steps: RoundSteps | None = None) -> Intervals:
    """Cuts intervals into pieces that hold no more than about `most_count`, as a smooth density through them has it.

    The density keeps what each interval holds, and pieces with rounder levels in them hold more of it. Single levels
    are no part of it: a heap says nothing of its neighbours.
    Source: Fritsch and Carlson 1980 (monotone cubic interpolation, here of the distribution function).
    """
    is_single = intervals.sizes == 1
    pieces = np.clip(np.ceil(intervals.masses / most_count), _SMOOTH_PIECES, _MOST_PIECES).astype(np.int64)
    pieces = np.where(intervals.masses > 0, np.minimum(pieces, intervals.sizes), 1)
    parts = np.repeat(np.arange(len(pieces)), pieces)
    within = np.arange(len(parts)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = intervals.starts[parts] + _take_parts(intervals.sizes, pieces, parts, within)
    sizes = np.diff(starts, append=intervals.starts[-1] + intervals.sizes[-1])
    wide, wide_masses = np.where(is_single, 0, intervals.sizes), np.where(is_single, 0.0, intervals.masses)
    knots = np.append(0.0, np.cumsum(wide[~is_single].astype(np.float64)))
    heights = np.append(0.0, np.cumsum(wide_masses[~is_single]))
    masses = intervals.masses[parts].copy()
    if np.any(pieces > 1):
        from scipy.interpolate import PchipInterpolator  # here, because a plan needs none of it

        smooth = PchipInterpolator(knots, heights)
        places = np.append(0.0, np.cumsum(np.where(is_single[parts], 0, sizes).astype(np.float64)))
        drawn = np.maximum(np.diff(smooth(places)), 0.0)
        if round_steps is not None:
            drawn *= round_steps.weigh(starts, sizes)
        sums = np.bincount(parts, drawn)[parts]
        even = sizes / intervals.sizes[parts]
        shares = np.where(sums > 0, drawn / np.where(sums > 0, sums, 1.0), even)
        masses *= np.where(is_single[parts], 1.0, shares)
    # What was measured of an interval is shared out among its pieces like its mass, and its variance with it.
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


def _take_parts(sizes: Integers, pieces: Integers, parts: Integers, within: Integers) -> Integers:
    """Where the pieces of an interval begin in it, all of them nearly alike in size; without overflow up to 2^53."""
    whole, rest = np.divmod(sizes, pieces)
    begins: Integers = within * whole[parts] + np.minimum(within, rest[parts])
    return begins


def _pool(counts: Floats, least_count: float) -> Integers:
    """Gives each cell that reaches the threshold a label of its own, and all others one label together."""
    labels = np.arange(len(counts))
    rare = np.flatnonzero(counts < least_count)
    labels[rare] = rare[0] if len(rare) else 0
    return labels


def _merge_kinds(
    counts: Floats, least_count: float, kinds: Integers, merge: Callable[[Floats, float], Integers]
) -> Integers:
    """Merges cells of one kind with each other, and what is still far below the threshold with all that is as small."""
    labels = np.empty(len(counts), np.int64)
    for kind in np.unique(kinds):
        places = np.flatnonzero(kinds == kind)
        labels[places] = places[merge(counts[places], least_count)]
    small = np.flatnonzero(np.bincount(labels, counts)[labels] < _LEAST_KIND * least_count)
    labels[small] = labels[small[0]] if len(small) else 0
    return labels


def _merge_neighbours(counts: Iterable[float], least_count: float) -> Integers:
    """Gives runs of small neighbours one label as soon as they reach the threshold together.

    What is left at the end of a run joins the run's last group; runs too small for a group of their own share one.
    """
    labels: list[int] = []
    shared: int | None = None
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
        leftover = group_starts[-1]
        if leftover > first:
            labels[leftover:] = [group_starts[-2]] * (len(labels) - leftover)
        else:
            shared = first if shared is None else shared
            labels[first:] = [shared] * (len(labels) - first)
    return np.array(labels, np.int64)


def _number_in_order(labels: Integers) -> Integers:
    """Numbers labels from 0 on in the order of their first cells."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    numbered: Integers = rank[inverse]
    return numbered


def _spread(counts: Floats, labels: Integers, *, groups: int, stddev: float) -> Floats:
    """The share of each cell in its group: what stands out of the group's mean as it is, the rest drawn to their mean.

    The bar rises with the number of cells in the group, so that noise alone seldom passes it anywhere; a stddev more,
    as what passes keeps its noise. The rest are taken to lie around their mean with the variance that noise does not
    explain, and no wider than that mean.
    Source: Donoho and Johnstone 1994 (the universal threshold); Efron and Morris 1973 (the shrinkage).
    """

    def add_up(values: npt.NDArray[Any]) -> Floats:
        return np.bincount(labels, values, minlength=groups).astype(np.float64)

    members = np.bincount(labels, minlength=groups)
    totals = np.maximum(add_up(counts), 0.0)
    bar = stddev * (1.0 + np.sqrt(2 * np.log(np.maximum(members, 2))))
    stands_out = counts >= (totals / members + bar)[labels]
    faint = np.maximum(add_up(~stands_out), 1.0)
    mean = np.maximum(totals - add_up(np.where(stands_out, counts, 0.0)), 0.0) / faint
    errors = np.where(stands_out, 0.0, counts - (add_up(np.where(stands_out, 0.0, counts)) / faint)[labels])
    spread = add_up(np.square(errors)) / np.maximum(faint - 1.0, 1.0)
    variance = np.clip(spread - stddev**2, 0.0, np.square(mean))
    kept = variance / np.maximum(variance + stddev**2, _LEAST_VARIANCE)
    masses = np.where(stands_out, counts, np.maximum(mean[labels] + kept[labels] * errors, 0.0))
    sums = add_up(masses)[labels]
    shares: Floats = np.where(sums > 0, masses / np.where(sums > 0, sums, 1.0), 1.0 / members[labels])
    return shares


def _find_last_weighted(weights: Floats, bounds: Integers) -> Integers:
    """The last position of a positive weight in each of the runs that the bounds part."""
    positive = np.flatnonzero(weights > 0)
    last: Integers = positive[np.searchsorted(positive, bounds[1:]) - 1]
    return last
