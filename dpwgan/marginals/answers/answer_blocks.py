"""Answers in the order in which codes are compared with them: what several of them need of codes is worked out once."""

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpwgan.array_types import Floats32
from dpwgan.marginals.answers.row_products import add_rows, multiply_rows
from dpwgan.marginals.groups import Marginal
from dpwgan.marginals.loss import Probabilities, Sums


class Targets(NamedTuple):
    """Answers, as shares of rows, and what a squared error weighs, cell by cell."""

    shares: Floats32
    weights: Floats32


class ViewRows:
    """Something of each group, and of each block of the views that were asked for, whose places come after the groups.

    Shapes: (width, codes) and (blocks, codes).
    """

    def __init__(self, groups: Probabilities, blocks: Probabilities) -> None:
        self._groups, self._blocks = groups, blocks

    def take(self, place: slice) -> Probabilities:
        """What lies at a place of groups or of blocks."""
        before = len(self._groups)
        return self._groups[place] if place.stop <= before else self._blocks[place.start - before : place.stop - before]


class PairBlock:
    """One attribute's pairs with others that lie side by side: one product forwards and two back."""

    def __init__(self, left: slice, right: slice, targets: Targets) -> None:
        self.left, self.right = left, right
        self.cells = targets.shares.size
        # In the order in which BLAS gives its products.
        self._targets = Targets(*(np.asfortranarray(cells) for cells in targets))

    def is_beside(self, left: slice, right: slice) -> bool:
        """Whether a pair is of the same attribute, and of the one after these."""
        return self.left == left and self.right.stop == right.start

    def widen(self, right: slice, targets: Targets) -> "PairBlock":
        """These pairs and that of the attribute with the next one."""
        both = [np.hstack(cells) for cells in zip(self._targets, targets, strict=True)]
        return PairBlock(self.left, slice(self.right.start, right.stop), Targets(*both))

    def add_up(self, rows: ViewRows, *, share: float, into: Sums) -> None:
        """Writes what some codes have of the answers."""
        multiply_rows(rows.take(self.left), rows.take(self.right), scale=share, into=self._shape(into))

    def add_gradient(self, rows: ViewRows, answers: Sums, *, share: float, into: ViewRows) -> None:
        """Adds the gradient."""
        weighted = self._shape(answers) - self._targets.shares
        weighted *= self._targets.weights
        add_rows(weighted, rows.take(self.right), scale=share, into=into.take(self.left))
        add_rows(weighted.T, rows.take(self.left), scale=share, into=into.take(self.right))

    def _shape(self, answers: Sums) -> Sums:
        return answers.reshape(self._targets.shares.shape, order="F")


class LargerBlock:
    """Marginals of three attributes or more that are alike but for one, as pairs of that and of the largest other.

    One product for each combination of the rest, which all of these marginals have.
    """

    def __init__(self, shared: Sequence[slice], own: Sequence[slice], targets: Sequence[Targets]) -> None:
        """`shared` are the places of what all have, the largest last, `own` of what each has by itself.

        The axes of the targets are in this order.
        """
        *self._given, self._left = shared
        self._own = own
        both = [np.concatenate(cells, axis=-1) for cells in zip(*targets, strict=True)]
        # A slab's cells are transposed in memory: that is the order in which BLAS gives its products.
        self._targets = Targets(*(np.ascontiguousarray(cells.swapaxes(-1, -2)) for cells in both))
        self.cells = self._targets.shares.size

    def add_up(self, rows: ViewRows, *, share: float, into: Sums) -> None:
        """Writes what some codes have of the answers."""
        left, right = rows.take(self._left), self._take_own(rows)
        answers, product = into.reshape(self._targets.shares.shape), np.empty_like(left)
        for combination, factors in self._list_given(rows):
            np.multiply(left, functools.reduce(np.multiply, factors), out=product)
            multiply_rows(product, right, scale=share, into=answers[combination].T)

    def add_gradient(self, rows: ViewRows, answers: Sums, *, share: float, into: ViewRows) -> None:
        """Adds the gradient."""
        left, right = rows.take(self._left), self._take_own(rows)
        slope_of_left, slope_of_right = into.take(self._left), np.zeros_like(right)
        errors = answers.reshape(self._targets.shares.shape) - self._targets.shares
        errors *= self._targets.weights
        product, upstream = np.empty_like(left), np.empty_like(left)
        for (combination, factors), (_, slopes) in zip(self._list_given(rows), self._list_given(into), strict=True):
            given, weighted = functools.reduce(np.multiply, factors), errors[combination]
            np.multiply(left, given, out=product)
            add_rows(weighted, product, scale=share, into=slope_of_right)
            upstream.fill(0.0)
            add_rows(weighted.T, right, scale=share, into=upstream)
            slope_of_left += np.multiply(upstream, given, out=product)
            upstream *= left
            slope = np.add.reduce(upstream, axis=0)
            for place, of_given in enumerate(slopes):
                of_given += functools.reduce(np.multiply, (*factors[:place], *factors[place + 1 :]), slope)
        start = 0
        for piece in self._own:
            part = into.take(piece)
            part += slope_of_right[start : start + len(part)]
            start += len(part)

    def _take_own(self, rows: ViewRows) -> Probabilities:
        """What each marginal has by itself, one below the other."""
        return np.concatenate([rows.take(piece) for piece in self._own])

    def _list_given(self, values: ViewRows) -> Iterator[tuple[tuple[int, ...], list[Probabilities]]]:
        """Each combination of groups of all attributes but two, and what is there of each of them. Shapes: (codes,)."""
        pieces = [values.take(piece) for piece in self._given]
        for combination in itertools.product(*(range(len(piece)) for piece in pieces)):
            yield combination, [piece[group] for piece, group in zip(pieces, combination, strict=True)]


def lay_out_larger(
    answers: Mapping[Marginal, Targets], places: Mapping[int, slice], sizes: Sequence[int]
) -> Iterator[LargerBlock]:
    """Puts marginals of three views or more together. `places` and `sizes`: where each view lies, and its blocks."""
    for shared, marginals in share_views(answers, sizes):
        own = [next(view for view in marginal if view not in shared) for marginal in marginals]
        targets = []
        for marginal, view in zip(marginals, own, strict=True):
            order = [marginal.index(each) for each in (*shared, view)]
            targets.append(Targets(*(cells.transpose(order) for cells in answers[marginal])))
        yield LargerBlock([places[view] for view in shared], [places[view] for view in own], targets)


def share_views(marginals: Collection[Marginal], sizes: Sequence[int]) -> Iterator[tuple[Marginal, list[Marginal]]]:
    """Which views several marginals have in common, all of each but one, the smallest first: each marginal once.

    First where it saves the most cells of what is shared, beside each marginal by itself.
    """

    def leave_one_out(marginal: Marginal) -> Iterator[Marginal]:
        return itertools.combinations(marginal, len(marginal) - 1)

    having: defaultdict[Marginal, set[Marginal]] = defaultdict(set)
    for marginal in sorted(marginals):
        for shared in leave_one_out(marginal):
            having[shared].add(marginal)
    cells = {shared: math.prod(sizes[view] for view in shared) for shared in having}
    alone = {marginal: min(cells[shared] for shared in leave_one_out(marginal)) for marginal in marginals}
    while alone:
        best = max(having, key=lambda shared: sum(alone[marginal] for marginal in having[shared]) - cells[shared])
        together = sorted(having[best])
        yield tuple(sorted(best, key=lambda view: sizes[view])), together
        for marginal in together:
            del alone[marginal]
            for shared in leave_one_out(marginal):
                having[shared].discard(marginal)
