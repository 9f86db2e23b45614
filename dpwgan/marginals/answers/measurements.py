"""Marginals of groups: counted in rows, answered by a mixture, and, once measured, a loss."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from dpwgan.array_types import AnyArray, AnyIntegers, Arrays, Floats, Floats32, Integers
from dpwgan.marginals.answers.answer_blocks import LargerBlock, PairBlock, Targets, ViewRows, lay_out_larger
from dpwgan.marginals.answers.row_products import multiply_rows
from dpwgan.marginals.answers.views import Views
from dpwgan.marginals.answers.zeros import Zeros, mask
from dpwgan.marginals.groups import GroupLayout, Marginal
from dpwgan.marginals.loss import Codes, Probabilities, Sums
from dpwgan.table.rows import Sum
from dpwgan.table.storage import cut, let_go

if TYPE_CHECKING:
    from scipy import sparse


# The most cells of a bundle of attributes counted together: a few more than groups, as they are in memory squared.
_BUNDLE_CELLS = 32


class GroupedRows(NamedTuple):
    """Rows of groups; `cells`: of some attributes also the cells themselves.

    Shapes: `groups` (n, attributes); each of `cells` (n,).
    """

    groups: AnyIntegers
    layout: GroupLayout
    cells: Mapping[int, AnyIntegers] = {}


def count_pairs(groups: AnyIntegers, layout: GroupLayout) -> Floats:
    """Counts all two-way marginals, exactly. The result is not released.

    Privacy: a record adds 1 to one cell of each marginal, under zero-out; replaced, it moves to another cell of each.
    Shapes: `groups` (n, attributes); the result (width, width), whose diagonal blocks hold the one-way counts.
    """
    bundles = _bundle(layout)
    sizes = [layout.count_cells(bundle) for bundle in bundles]
    bundled = GroupLayout(sizes)
    slices = [bundled.get_slice(bundle) for bundle in range(len(bundles))]
    total = np.zeros((bundled.width, bundled.width))
    for chunk in cut(len(groups)):
        columns = [_join(groups[chunk], bundle, layout) for bundle in bundles]
        let_go(groups)
        for left, rows in enumerate(columns):
            np.einsum("ii->i", total[slices[left], slices[left]])[:] += np.bincount(rows, minlength=sizes[left])
            for right in range(left + 1, len(bundles)):
                cells = rows * sizes[right]
                cells += columns[right]
                counts = np.bincount(cells, minlength=sizes[left] * sizes[right])
                total[slices[left], slices[right]] += counts.reshape(sizes[left], sizes[right])
    for piece in slices:
        total[piece.stop :, piece] = total[piece, piece.stop :].T
    groups_of_cells = _name_groups(bundles, layout)
    counts_of_pairs: Floats = (groups_of_cells.T @ total) @ groups_of_cells
    return counts_of_pairs


def _bundle(layout: GroupLayout) -> list[list[int]]:
    """Bundles of small attributes with few cells together: fewer pairs are left to be counted."""
    bundles: list[list[int]] = []
    for attribute in np.argsort(layout.sizes)[::-1].tolist():
        room = [bundle for bundle in bundles if layout.count_cells((*bundle, attribute)) <= _BUNDLE_CELLS]
        if room:
            max(room, key=layout.count_cells).append(attribute)
        else:
            bundles.append([attribute])
    return bundles


def _join(groups: AnyIntegers, bundle: Sequence[int], layout: GroupLayout) -> Integers:
    """The cell of a bundle that each row is in. Shapes: (n,)."""
    cells = groups[:, bundle[0]].astype(np.int64)
    for attribute in bundle[1:]:
        cells *= layout.sizes[attribute]
        cells += groups[:, attribute]
    return cells


def _name_groups(bundles: Sequence[Sequence[int]], layout: GroupLayout) -> "sparse.csr_matrix":
    """Which groups the cells of bundles belong to, as indicators. Shapes: (cells of all bundles, width)."""
    from scipy import sparse  # here, because a plan needs none of it

    blocks = []
    for bundle in bundles:
        # Not by numpy's own, which numbers cells of 32 attributes at most.
        cells = np.arange(layout.count_cells(bundle))
        columns = np.empty((len(cells), len(bundle)), np.int64)
        for place, attribute in reversed([*enumerate(bundle)]):
            cells, group = np.divmod(cells, layout.sizes[attribute])
            columns[:, place] = layout.starts[attribute] + group
        pointers = np.arange(len(columns) + 1) * len(bundle)
        blocks.append(
            sparse.csr_matrix((np.ones(columns.size), columns.ravel(), pointers), (len(columns), layout.width))
        )
    return sparse.vstack(blocks, format="csr")


def count_marginals(groups: AnyIntegers, marginals: Sequence[Sequence[Sequence[int]]], layout: GroupLayout) -> Floats:
    """Counts some marginals, exactly, in one pass. The result is not released.

    Each is a list of attributes, with the width of their blocks of groups.
    Privacy: as `count_pairs`. Shapes: one vector, the cells of one marginal after those of the one before it.
    """
    named = [[(attribute, width) for attribute, width in marginal] for marginal in marginals]
    shapes = [[-(-layout.sizes[attribute] // width) for attribute, width in marginal] for marginal in named]
    counts = [np.zeros(math.prod(shape), np.int64) for shape in shapes]
    views = sorted({view for marginal in named for view in marginal})
    for chunk in cut(len(groups)):
        # One copy of what is needed, so that each view's blocks lie side by side.
        columns = {(attribute, width): groups[chunk, attribute].astype(np.int64) // width for attribute, width in views}
        let_go(groups)
        for marginal, shape, so_far in zip(named, shapes, counts, strict=True):
            cells = columns[marginal[0]]
            for view, size in zip(marginal[1:], shape[1:], strict=True):
                cells = cells * size + columns[view]
            so_far += np.bincount(cells, minlength=len(so_far))
    return np.concatenate(counts).astype(np.float64)


PAIRS = Sum[GroupedRows]("pairs", lambda rows, argument, array: count_pairs(rows.groups, rows.layout))
"""`count_pairs`."""
MARGINALS = Sum[GroupedRows]("marginals", lambda rows, named, array: count_marginals(rows.groups, named, rows.layout))
"""`count_marginals` of a list of marginals."""


def answer_pairs(probabilities: Probabilities, left: slice = slice(None), right: slice = slice(None)) -> Probabilities:
    """The share of rows in every cell of all two-way marginals, or of some groups with others.

    Diagonal blocks are not marginals: within an attribute groups exclude each other.
    Shapes: (codes, width) to (width, width), or to the part of it that two slices name.
    """
    rows = np.ascontiguousarray(probabilities.T)
    return multiply_rows(rows[right], rows[left], scale=1.0 / len(probabilities)).T


def answer_marginal(probabilities: Probabilities, marginal: Marginal, views: Views) -> Probabilities:
    """The share of rows in every cell of a marginal of two views or more. Shapes: the result has one axis a view."""
    factors = [views.take(probabilities.T, view) for view in marginal]
    last = np.ascontiguousarray(factors[-1])
    answers: Probabilities = multiply_rows(last, _multiply(factors[:-1]), scale=1.0 / len(probabilities)).T
    return answers.reshape([len(factor) for factor in factors])


def _multiply(factors: Sequence[Probabilities]) -> Probabilities:
    """Each code's probabilities of all combinations. Shapes: (a, codes), (b, codes) ... to (a b ..., codes)."""
    product = factors[0]
    for factor in factors[1:]:
        product = (product[:, np.newaxis] * factor[np.newaxis]).reshape(-1, product.shape[1])
    return product


class MeasuredMarginals:
    """All marginals measured so far, as a loss: half the squared errors over the variance of each answer's noise.

    A marginal measured twice keeps the mean weighted by precision. Privacy: holds released numbers alone.
    """

    def __init__(self, views: Views, zeros: Zeros | None = None) -> None:
        """Marginals are of `views`. `zeros`: cells known to be empty, which get 0 whatever their noise."""
        self.views, self.zeros = views, zeros or {}
        self._shares: dict[Marginal, Floats32] = {}
        self._weights: dict[Marginal, Floats32] = {}
        # The same in the order in which it is compared; None after a new answer.
        self._laid_out: _Blocks | None = None

    def __iter__(self) -> Iterator[Marginal]:
        return iter(self._shares)

    def add(self, marginal: Marginal, shares: npt.ArrayLike, *, stddev: npt.ArrayLike) -> None:
        """Adds an answer. Units: `shares` and the `stddev` of their noise are fractions of the records."""
        answer = np.asarray(shares, np.float64)
        if self.zeros:
            answer = np.where(mask(self.zeros, marginal, answer.shape), 0.0, answer)
        weight = np.broadcast_to(1.0 / np.square(np.asarray(stddev, np.float64)), answer.shape)
        if marginal in self._shares:
            before, precision = self._shares[marginal].astype(np.float64), self._weights[marginal].astype(np.float64)
            answer = (before * precision + answer * weight) / (precision + weight)
            weight = precision + weight
        self._shares[marginal] = answer.astype(np.float32)
        self._weights[marginal] = weight.astype(np.float32)
        self._laid_out = None

    def pack(self, marginals: Iterable[Marginal]) -> dict[str, AnyArray]:
        """Some marginals as arrays by name, for a checkpoint. Privacy: releases alone."""
        arrays: dict[str, AnyArray] = {}
        for number, marginal in enumerate(marginals):
            arrays[f"marginal {number}"] = np.array(marginal, np.int64)
            arrays[f"shares {number}"] = self._shares[marginal]
            arrays[f"weights {number}"] = self._weights[marginal]
        return arrays

    def unpack(self, arrays: Arrays) -> list[Marginal]:
        """Takes over what `pack` gave, and gives its marginals."""
        marginals: list[Marginal] = []
        for number in range(len(arrays) // 3):
            marginal: Marginal = tuple(arrays[f"marginal {number}"].tolist())
            self._shares[marginal] = arrays[f"shares {number}"].astype(np.float32)
            self._weights[marginal] = arrays[f"weights {number}"].astype(np.float32)
            marginals.append(marginal)
        self._laid_out = None
        return marginals

    def get_shares(self, marginal: Marginal) -> Floats32:
        """The answer so far: the mean of all, weighted by precision."""
        return self._shares[marginal]

    def get_stddevs(self, marginal: Marginal) -> Floats:
        """The stddevs of the noise of `get_shares`."""
        return 1.0 / np.sqrt(self._weights[marginal].astype(np.float64))

    def count_sums(self) -> int:
        """The mean of each cell of larger marginals."""
        return sum(block.cells for block in self._blocks.larger)

    def add_up(self, codes: Codes, *, into: Sums) -> None:
        """As in `ReleasedLoss`."""
        sides = ViewRows(codes.rows, self._join(codes.rows))
        for block, answers in self._list_answers(into):
            block.add_up(sides, share=codes.share, into=answers)

    def add_gradient(self, codes: Codes, means: Sums, sums: Sums, *, into: Probabilities) -> None:
        """As in `ReleasedLoss`."""
        rows, (one_ways, _, views) = codes.rows, self._blocks
        # The one-ways' gradient is the same for every code.
        weighted = one_ways.weights * (means - one_ways.shares)
        weighted *= codes.share
        into += weighted[:, np.newaxis]
        joined = self._join(rows)
        sides, slopes = ViewRows(rows, joined), ViewRows(into, np.zeros_like(joined))
        for block, answers in self._list_answers(sums):
            block.add_gradient(sides, answers, share=codes.share, into=slopes)
        for view, place in views.items():
            own = self.views.own.get_slice(self.views.attribute_of[view])
            into[own] += self.views.part(slopes.take(place), view)

    def _join(self, rows: Probabilities) -> Probabilities:
        """The blocks of the measured views. Shapes: (width, codes) to (blocks, codes)."""
        return np.concatenate([rows[:0], *(self.views.take(rows, view) for view in self._blocks.views)])

    def _list_answers(self, sums: Sums) -> "Iterator[tuple[PairBlock | LargerBlock, Sums]]":
        """Each block with its part of the sums."""
        start = 0
        for block in self._blocks.larger:
            yield block, sums[start : start + block.cells]
            start += block.cells

    @property
    def _blocks(self) -> "_Blocks":
        if self._laid_out is None:
            self._laid_out = self._lay_out()
        return self._laid_out

    def _lay_out(self) -> "_Blocks":
        """Joins answers that are compared together: all one-ways, and pairs whose groups lie side by side."""
        own = self.views.own
        one_ways = Targets(np.zeros(own.width, np.float32), np.zeros(own.width, np.float32))
        pairs: list[PairBlock] = []
        larger: dict[Marginal, Targets] = {}
        places: dict[int, slice] = {}
        views, width = {}, own.width
        for view in sorted({view for marginal in self._shares for view in marginal if view >= own.attributes}):
            views[view] = slice(width, width + self.views.sizes[view])
            width += self.views.sizes[view]
        for marginal in sorted(self._shares):
            targets = Targets(self._shares[marginal], self._weights[marginal])
            slices = [views[view] if view in views else own.get_slice(view) for view in marginal]
            if len(marginal) == 1:
                one_ways.shares[slices[0]], one_ways.weights[slices[0]] = targets.shares, targets.weights
            elif len(marginal) > 2:
                larger[marginal] = targets
                places.update(zip(marginal, slices, strict=True))
            elif pairs and pairs[-1].is_beside(*slices) and slices[1].start != own.width:
                pairs[-1] = pairs[-1].widen(slices[1], targets)
            else:
                pairs.append(PairBlock(slices[0], slices[1], targets))
        return _Blocks(one_ways, [*pairs, *lay_out_larger(larger, places, self.views.sizes)], views)


class _Blocks(NamedTuple):
    """What is compared: the one-ways of all groups, larger marginals, and where views of blocks lie."""

    one_ways: Targets
    larger: list[PairBlock | LargerBlock]
    views: dict[int, slice]
