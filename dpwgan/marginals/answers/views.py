"""Views of attributes: single groups, or blocks of neighbours where groups have an order.

Blocks stand out of the noise where thousands of cells of two numbers do not; a block that is measured as one has the
noise of one cell.
"""

from collections.abc import Sequence

import numpy as np

from dpwgan.array_types import AnyArray, Integers
from dpwgan.marginals.groups import GroupLayout, Marginal

WIDTHS = (1, 2, 4, 8)
"""Numbers of neighbouring groups in a block, each double the one before."""


class Views(GroupLayout):
    """The layout of the blocks of all views, side by side.

    Views are numbered; those of single groups have their attributes' numbers. View v is of attribute `attribute_of[v]`
    in blocks of `width_of[v]` groups, in an order if `ordered[v]`; `at[w][a]` is the view of attribute a at width w, or
    at the largest below it that leaves two blocks.
    """

    def __init__(self, own: GroupLayout, ordered: Sequence[bool] = ()) -> None:
        """`own`: the attributes; `ordered`: which have an order, by default none."""
        self.own = own
        has_order = tuple(ordered) or (False,) * own.attributes
        known = [(attribute, 1) for attribute in range(own.attributes)]
        self.at = {1: list(range(own.attributes))}
        for width in WIDTHS[1:]:
            self.at[width] = list(self.at[width // 2])
            for attribute, size in enumerate(own.sizes):
                if has_order[attribute] and size > width:
                    self.at[width][attribute] = len(known)
                    known.append((attribute, width))
        self.attribute_of, self.width_of = (tuple(part) for part in zip(*known, strict=True))
        self.ordered = tuple(has_order[attribute] for attribute in self.attribute_of)
        super().__init__([-(-own.sizes[attribute] // width) for attribute, width in known])

    def list_views(self, attributes: Marginal) -> list[Marginal]:
        """The views of a marginal of attributes, all at one width, the finest first."""
        return list(dict.fromkeys(tuple(self.at[width][attribute] for attribute in attributes) for width in WIDTHS))

    def find_view(self, attributes: Marginal, *, most_cells: int) -> Marginal | None:
        """The finest view of a marginal of attributes with at most `most_cells`: longest axes are halved first.

        None if there is no such view.
        """
        found = [*attributes]  # the views of single groups
        while self.count_cells(found) > most_cells:
            doubled = [(view, min(2 * self.width_of[view], WIDTHS[-1])) for view in found]
            wider = {view: self.at[width][self.attribute_of[view]] for view, width in doubled}
            longer = [view for view in found if wider[view] != view]
            if not longer:
                return None
            longest = max(longer, key=lambda view: self.sizes[view])
            found[found.index(longest)] = wider[longest]
        return tuple(found)

    def is_of_groups(self, marginal: Marginal) -> bool:
        """Whether a marginal is of single groups alone."""
        return all(view < self.own.attributes for view in marginal)

    def find_attributes(self, marginal: Marginal) -> Marginal:
        """The attributes that a marginal of views is about."""
        return tuple(self.attribute_of[view] for view in marginal)

    def join(self, cells: AnyArray, marginal: Marginal) -> AnyArray:
        """Adds up cells of a marginal's groups to those of its blocks. Shapes: one axis a view."""
        for axis, view in enumerate(marginal):
            cells = join_neighbours(cells, self.width_of[view], axis=axis)
        return cells

    def part(self, blocks: AnyArray, view: int) -> AnyArray:
        """Repeats each block's values for its groups, along the first axis; the inverse of `take` in shape."""
        return np.repeat(blocks, self.width_of[view], axis=0)[: self.own.sizes[self.attribute_of[view]]]

    def take(self, values: AnyArray, view: int) -> AnyArray:
        """A view's block sums, of values of all groups along the first axis."""
        return self.join(values[self.own.get_slice(self.attribute_of[view])], (view,))

    def take_pair(self, matrix: AnyArray, pair: Marginal) -> AnyArray:
        """A pair's block sums, of values of all groups along both axes. Shapes: (width, width) of groups."""
        left, right = (self.own.get_slice(attribute) for attribute in self.find_attributes(pair))
        return self.join(matrix[left, right], pair)


def join_neighbours(cells: AnyArray, width: int, *, axis: int = 0) -> AnyArray:
    """Sums blocks of `width` neighbours, a power of 2, along an axis; the last block may be shorter."""
    while width > 1:
        first, second = part_neighbours(cells, axis)
        cells, width = first.copy(), width // 2
        cells[(slice(None),) * axis + (slice(second.shape[axis]),)] += second
    return cells


def part_neighbours(cells: AnyArray, axis: int) -> tuple[AnyArray, AnyArray]:
    """The even and the odd places along an axis."""
    first, second = ((slice(None),) * axis + (slice(begin, None, 2),) for begin in (0, 1))
    return cells[first], cells[second]


class Look:
    """One attribute with all after it, in their views of one width: it joins blocks of half that width.

    `others`: for single groups all attributes after it; for blocks those with an order, or all if it has one itself.
    `own` and `views`: the view of each; `starts`: where the blocks of each of the others begin, side by side.
    """

    def __init__(self, views: Views, attribute: int, *, before: "Look | None" = None) -> None:
        """`before`: the look at half the width; None for single groups, which are joined as they are."""
        self.width: int = 1 if before is None else 2 * before.width
        self.others: Integers = np.arange(attribute + 1, views.own.attributes) if before is None else before.others
        if before is not None and not views.ordered[attribute]:
            self.others = self.others[np.array(views.ordered)[self.others]]
        self.own, self.views = views.at[self.width][attribute], np.array(views.at[self.width])[self.others]
        self._sizes = np.array(views.sizes)[self.views]
        self.starts: Integers = np.cumsum(self._sizes) - self._sizes
        self._step = 1 if before is None or before.own == self.own else 2
        self._edges = self._kept = self.starts[:0]
        if before is not None and len(self.others):
            places = np.searchsorted(before.others, self.others)
            steps = 1 + (before.views[places] != self.views)
            runs = zip(before.starts[places], before.starts[places] + before._sizes[places], steps, strict=True)
            firsts = np.concatenate([np.arange(*run) for run in runs])
            # Attributes in between are summed, too, and left out.
            self._edges = np.unique(np.concatenate([[0], firsts, before.starts]))
            self._kept = np.searchsorted(self._edges, firsts)

    def join(self, cells: AnyArray) -> AnyArray:
        """Shapes: (blocks of half the width, those of all others) to (blocks, blocks)."""
        return join_neighbours(self._join_others(cells), self._step)

    def join_each(self, own: AnyArray, others: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Of the one attribute, and of the others. Shapes: (blocks of half the width,) to (blocks,) each."""
        return join_neighbours(own, self._step), self._join_others(others)

    def _join_others(self, cells: AnyArray) -> AnyArray:
        """Joins the others' blocks, along the last axis."""
        if not len(self._kept):
            return cells
        return np.add.reduceat(cells, self._edges, axis=-1)[..., self._kept]


def list_looks(views: Views, attribute: int) -> list[Look]:
    """The looks of one attribute, one a width."""
    looks = [Look(views, attribute)]
    while 2 * looks[-1].width in WIDTHS:
        looks.append(Look(views, attribute, before=looks[-1]))
    return [look for look in looks if len(look.others)]
