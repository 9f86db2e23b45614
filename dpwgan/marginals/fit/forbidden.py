"""Combinations of groups that rules between columns forbid: known to be empty, at no cost to privacy.

A combination of groups is judged by representative cells: all cells of an attribute with codes alone or few levels,
else the ends of its intervals and all points that the rule's constants and other columns distinguish. Where those do
not represent all (arithmetic on a long range, say) the fit ignores the rule, and sampling alone enforces it.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dpwgan.array_types import Flags, Floats, Floats32, Integers
from dpwgan.marginals.answers.row_products import add_rows
from dpwgan.marginals.answers.zeros import Zeros
from dpwgan.marginals.groups import GroupLayout, Marginal
from dpwgan.marginals.layout import Attribute
from dpwgan.marginals.loss import Codes, Probabilities, ReleasedLoss, Sums
from dpwgan.marginals.one_way.coarsening import AttributeGroups, Coarsening
from dpwgan.marginals.one_way.one_ways import OneWayPlan
from dpwgan.table.encoded import EncodedTable, RowRule, Span

AnyTold = TypeVar("AnyTold", bound=np.generic)

_MOST_ATTRIBUTES = 3
# Of an attribute with levels, all cells are looked at up to so many.
_FEW_CELLS = 512
_MOST_ROWS = 1 << 19
# Alternating projections of shares: onto what the rules say, and back to 0 or more.
_PASSES = 20


def find_zeros(coarsening: Coarsening, rules: Sequence[RowRule]) -> Zeros:
    """Finds the combinations of groups of which every cell breaks a rule. Privacy: public rules, released groups."""
    places = {attribute.column: place for place, attribute in enumerate(coarsening.attributes)}
    zeros: dict[Marginal, Flags] = {}
    for rule in rules:
        if not set(rule.columns) <= places.keys():
            continue  # a moment of which methods see day and time
        marginal = tuple(sorted(places[name] for name in rule.columns))
        found = _judge(coarsening, rule, marginal) if len(marginal) <= _MOST_ATTRIBUTES else None
        if found is not None and found.any() and not found.all():
            zeros[marginal] = zeros.get(marginal, np.False_) | found
    return zeros


def add_implied(zeros: Zeros, sizes: Sequence[int]) -> Zeros:
    """The zeros, and pairs of groups that no group of a third attribute goes with both of.

    Source: Montanari 1974, "Networks of constraints" (path consistency).
    """
    rules = [marginal for marginal in zeros if len(marginal) == 2]
    ruled = sorted({attribute for pair in rules for attribute in pair})
    # Whether two groups may go together, both ways round.
    fits = {(a, b): np.ones((sizes[a], sizes[b]), np.float32) for a in ruled for b in ruled if a != b}
    for left, right in rules:
        fits[left, right] = (~zeros[left, right]).astype(np.float32)
        fits[right, left] = fits[left, right].T
    known = -1.0
    while known != (known := sum(float(matrix.sum()) for matrix in fits.values())):
        for middle, left, right in itertools.permutations(ruled, 3):
            if left < right:
                fits[left, right] = fits[left, right] * (fits[left, middle] @ fits[middle, right] > 0)
                fits[right, left] = fits[left, right].T
    implied: dict[Marginal, Flags] = {
        (a, b): matrix == 0 for (a, b), matrix in fits.items() if a < b and not matrix.all()
    }
    return {**zeros, **implied}


def leave_out(coarsening: Coarsening, rules: Sequence[RowRule]) -> Coarsening:
    """The coarsening with no weight on intervals that a rule over one column forbids throughout.

    Privacy: post-processing; public rules.
    """
    parts = list(coarsening.parts)
    for place, attribute in enumerate(coarsening.attributes):
        for rule in rules:
            is_told = _is_short(attribute) or (attribute.column in rule.ranges and not rule.opaque)
            if rule.columns != (attribute.column,) or not is_told:
                continue
            part, ends = parts[place], np.append(parts[place].starts[1:], attribute.cells)
            cells = np.unique(np.concatenate([part.starts, ends - 1, _list_cells(attribute, rule, rule.numbers)]))
            kept = ~_tell(coarsening.spans, [attribute], [cells], rule.break_rows)
            intervals = np.searchsorted(part.starts, cells[kept], side="right") - 1
            alive = np.bincount(intervals, minlength=len(ends)) > 0
            weights = part.weights
            # What is left of a group keeps its weights, or is uniform if it has none; a group of which nothing is left
            # gets no share in the end.
            for own in ((ends - part.starts) * alive, part.weights * alive):
                sums = np.bincount(part.groups, own, minlength=part.size)[part.groups]
                weights = np.where(sums > 0, own / np.where(sums > 0, sums, 1.0), weights)
            parts[place] = replace(part, weights=weights)
    return replace(coarsening, parts=tuple(parts))


def tie(coarsening: Coarsening, zeros: Zeros) -> Coarsening:
    """The coarsening with the nearest shares, by the noise, that are consistent with the rules.

    Sets of groups of two attributes that go only with each other hold equally much, so each side's counts inform both.
    Privacy: post-processing of released counts; public rules.
    """
    starts = np.cumsum([0, *coarsening.sizes])
    found = [_list_ties(flags, starts[list(pair)], int(starts[-1])) for pair, flags in zeros.items() if len(pair) == 2]
    ties = np.concatenate([np.zeros((0, starts[-1])), *found])
    if not len(ties):
        return coarsening
    totals = np.repeat(np.eye(len(coarsening.sizes)), coarsening.sizes, axis=1)
    matrix, wanted = np.concatenate([ties, totals]), np.append(np.zeros(len(ties)), np.ones(len(totals)))
    before = shares = np.concatenate(coarsening.probabilities)
    spread = np.square(np.concatenate(coarsening.stddevs))[:, np.newaxis] * matrix.T
    back = spread @ np.linalg.pinv(matrix @ spread, hermitian=True)
    for _ in range(_PASSES):
        shares = np.maximum(shares - back @ (matrix @ shares - wanted), 0.0)
    parts = []
    for part, start, end in zip(coarsening.parts, starts, starts[1:], strict=False):
        moved = np.sum(part.counts) * (shares[start:end] - before[start:end])
        own = shares[start:end] / shares[start:end].sum()
        parts.append(replace(part, probabilities=own, counts=part.counts + moved))
    return replace(coarsening, parts=tuple(parts))


def _list_ties(flags: Flags, starts: Integers, width: int) -> Floats:
    """For each set of groups that go only with each other, the equation that both sides hold equally much.

    Shapes: (sets, width).
    """
    from scipy.sparse.csgraph import connected_components  # here, because a plan needs none of it

    sizes = flags.shape
    allowed = np.zeros((sum(sizes), sum(sizes)), np.bool_)
    allowed[: sizes[0], sizes[0] :] = ~flags
    count, labels = connected_components(allowed, directed=False)
    rows = np.zeros((count, width))
    rows[labels[: sizes[0]], starts[0] + np.arange(sizes[0])] = 1.0
    rows[labels[sizes[0] :], starts[1] + np.arange(sizes[1])] = -1.0
    return rows[: count if count > 1 else 0]


def find_kinds(plan: OneWayPlan, rules: Sequence[RowRule]) -> list[Integers | None]:
    """By attribute, a class number for each code: rules treat codes of one class alike. None where no rule applies.

    A derived column counts if it is coarse: if it has at most half as many cells.
    Privacy: public rules.
    """
    kinds: list[Integers | None] = [None] * len(plan.attributes)
    places = {attribute.column: place for place, attribute in enumerate(plan.attributes)}
    for rule in rules:
        if not set(rule.columns) <= places.keys():
            continue
        marginal = [places[name] for name in rule.columns]
        attributes = [plan.attributes[place] for place in marginal]
        ends = [end for attribute in attributes for end in rule.ranges.get(attribute.column, ())]
        if not all(_is_short(attribute) or attribute.column in rule.ranges for attribute in attributes):
            continue
        chosen = [_list_cells(attribute, rule, [*rule.numbers, *ends]) for attribute in attributes]
        sizes = [len(cells) for cells in chosen]
        if math.prod(sizes) > _MOST_ROWS:
            continue
        told = _tell(plan.spans, attributes, chosen, rule.tell_apart or rule.break_rows).reshape(sizes)
        if rule.tell_apart and 2 * len(np.unique(told)) > told.size:
            continue
        for axis, (place, attribute) in enumerate(zip(marginal, attributes, strict=True)):
            if not attribute.levels and attribute.cells > 1:
                found = np.unique(np.moveaxis(told, axis, 0).reshape(sizes[axis], -1), axis=0, return_inverse=True)[1]
                before = kinds[place]
                pairs = found.ravel() if before is None else before * (found.max() + 1) + found.ravel()
                kinds[place] = np.unique(pairs, return_inverse=True)[1].ravel()
    return kinds


def _judge(coarsening: Coarsening, rule: RowRule, marginal: Marginal) -> Flags | None:
    """Which combinations of groups break a rule throughout; None if that is not known."""
    attributes = [coarsening.attributes[index] for index in marginal]
    parts = [coarsening.parts[index] for index in marginal]
    numbers = list(rule.numbers)
    for attribute, part in zip(attributes, parts, strict=True):
        if not _is_short(attribute):
            if attribute.column in rule.opaque or attribute.column not in rule.ranges:
                return None
            numbers += _list_ends(attribute, part, rule.ranges[attribute.column])
    chosen = []
    for attribute, part in zip(attributes, parts, strict=True):
        cells = _list_cells(attribute, rule, numbers)
        # What is never drawn needs no room.
        chosen.append(cells[part.weights[np.searchsorted(part.starts, cells, side="right") - 1] > 0])
    if math.prod(len(cells) for cells in chosen) > _MOST_ROWS:
        return None
    kept = ~_tell(coarsening.spans, attributes, chosen, rule.break_rows)
    groups = np.meshgrid(*(part.find_groups(cells) for part, cells in zip(parts, chosen, strict=True)), indexing="ij")
    sizes = [part.size for part in parts]
    cells_of_groups = np.ravel_multi_index([axis.ravel()[kept] for axis in groups], sizes)
    empty: Flags = (np.bincount(cells_of_groups, minlength=math.prod(sizes)) == 0).reshape(sizes)
    return empty


def _is_short(attribute: Attribute) -> bool:
    return not attribute.levels or attribute.cells <= _FEW_CELLS


def _tell(
    spans: tuple[Span, ...],
    attributes: Sequence[Attribute],
    chosen: Sequence[Integers],
    tell: Callable[[EncodedTable], npt.NDArray[AnyTold]],
) -> npt.NDArray[AnyTold]:
    """`tell` of each combination of the chosen cells. Shapes: flat, the last attribute's cells fastest."""
    encoded = EncodedTable.make_empty(spans, math.prod(len(cells) for cells in chosen))
    for attribute, cells in zip(attributes, np.meshgrid(*chosen, indexing="ij"), strict=True):
        attribute.put_cells(cells.ravel(), into=encoded)
    return tell(encoded)


def _list_ends(attribute: Attribute, part: AttributeGroups, ends: tuple[float, float]) -> list[float]:
    """The numbers at both ends of each run of intervals of one group, for a column with range `ends`."""
    is_drawn = part.weights > 0
    alike = (np.diff(part.groups) == 0) & (np.diff(is_drawn) == 0) & (part.starts[:-1] >= attribute.codes)
    runs = part.starts[np.append(True, ~alike)]
    starts = runs[runs >= attribute.codes] - attribute.codes
    levels = np.append(starts, [*(starts[1:] - 1), attribute.levels - 1])
    numbers: list[float] = (ends[0] + attribute.scale_levels(levels) * (ends[1] - ends[0])).tolist()
    return numbers


def _list_cells(attribute: Attribute, rule: RowRule, numbers: Sequence[float]) -> Integers:
    """Representative cells of an attribute: all, or the codes and the levels at and next to the given numbers."""
    if _is_short(attribute):
        return np.arange(attribute.cells)
    minimum, maximum = rule.ranges[attribute.column]
    scaled = (np.array(numbers) - minimum) / (maximum - minimum)
    levels = attribute.find_levels(scaled[(scaled >= 0) & (scaled <= 1)].astype(np.float64))
    around = np.concatenate([levels + offset for offset in (-1, 0, 1)]).clip(0, attribute.levels - 1)
    cells: Integers = np.unique(np.append(np.arange(attribute.codes), attribute.codes + around))
    return cells


class ForbiddenMass(ReleasedLoss):
    """The mean probability that a code gives to forbidden combinations, as a loss.

    It is linear in that probability, so that each code is driven to 0, and not only the mean to little.
    Privacy: public facts alone.
    """

    def __init__(self, layout: GroupLayout, zeros: Zeros, *, weight: float) -> None:
        """Units: `weight` is in units of the loss for a mass of 1."""
        self._weight = weight
        self._blocks = [
            _ForbiddenCells([layout.get_slice(attribute) for attribute in marginal], flags)
            for marginal, flags in zeros.items()
        ]

    def add_gradient(self, codes: Codes, means: Sums, sums: Sums, *, into: Probabilities) -> None:
        """As in `ReleasedLoss`."""
        for block in self._blocks:
            block.add(codes.rows, scale=self._weight * codes.share, into=into)


class _ForbiddenCells:
    """One marginal's forbidden cells."""

    def __init__(self, slices: list[slice], flags: Flags) -> None:
        self._slices, self._flags = slices, flags.astype(np.float32)
        if len(slices) == 2:
            # Groups fall into few classes under a rule such as "a before b".
            self._kinds = [_tell_apart(flags), _tell_apart(flags.T)]

    def add(self, rows: Probabilities, *, scale: float, into: Probabilities) -> None:
        """Adds its part of the gradient. Shapes: (width, codes)."""
        (*given, last), flags = self._slices, self._flags
        if not given:
            into[last] += np.float32(scale) * flags[:, np.newaxis]
        elif len(given) == 1:
            for (own, other), (_, spread), (sums, _) in zip(
                (self._slices, self._slices[::-1]), self._kinds, self._kinds[::-1], strict=True
            ):
                of_kinds = np.zeros((len(sums), rows.shape[1]), rows.dtype)
                add_rows(sums, rows[other], scale=1.0, into=of_kinds)
                add_rows(spread, of_kinds, scale=scale, into=into[own])
        else:
            first, second = (rows[piece] for piece in given)
            for group, empty in enumerate(flags):
                masses = np.float32(scale) * (empty @ rows[last])
                into[given[0]][group] += np.einsum("bz,bz->z", masses, second)
                into[given[1]] += masses * first[group]
                add_rows(empty.T, second * first[group], scale=scale, into=into[last])


def _tell_apart(flags: Flags) -> tuple[Floats32, Floats32]:
    """The class of each group, as an indicator, and which of the other attribute's classes each group forbids.

    Shapes: (a, b) flags to (kinds of a, a) and (a, kinds of b).
    """
    _, kinds = np.unique(flags, axis=0, return_inverse=True)
    _, firsts = np.unique(flags, axis=1, return_index=True)
    of_kind = kinds.ravel() == np.arange(kinds.max() + 1)[:, np.newaxis]
    return of_kind.astype(np.float32), flags[:, firsts].astype(np.float32)
