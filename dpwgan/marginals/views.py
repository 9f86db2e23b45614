"""Views of attributes: their groups one by one, or in blocks of neighbours where groups have an order.

What thousands of cells of two numbers hide in noise, blocks of them show; and a block that is asked for as one has the
noise of one cell.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.groups import GroupLayout, Marginal

Values = npt.NDArray[Any]
Places = npt.NDArray[np.int64]

WIDTHS = (1, 2, 4, 8)
"""How many neighbouring groups may be looked at as one: each a double of the one before."""


class Views(GroupLayout):
    """Where each view's blocks lie, were those of all views side by side.

    Views are numbered, those of single groups as their attributes are. View v is of attribute `attribute_of[v]` in
    blocks of `width_of[v]` groups, which have an order where `ordered[v]`; `at[w][a]` is the view of attribute a at
    width w, or at the largest below it that leaves two blocks.
    """

    def __init__(self, own: GroupLayout, ordered: Sequence[bool] = ()) -> None:
        """`own` are the attributes; `ordered`: whose groups have an order, nobody's if not given."""
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

    def is_of_groups(self, marginal: Marginal) -> bool:
        """Whether a marginal is of single groups alone."""
        return all(view < self.own.attributes for view in marginal)

    def describe(self, marginal: Marginal) -> tuple[Marginal, tuple[int, ...]]:
        """The attributes that a marginal of views is about, and at which widths."""
        return tuple(self.attribute_of[view] for view in marginal), tuple(self.width_of[view] for view in marginal)

    def join(self, cells: Values, marginal: Marginal) -> Values:
        """Adds up cells of a marginal's groups to those of its blocks. Shapes: one axis a view."""
        for axis, width in enumerate(self.describe(marginal)[1]):
            cells = join_neighbours(cells, width, axis=axis)
        return cells

    def part(self, blocks: Values, marginal: Marginal) -> Values:
        """Gives each cell of a marginal's groups what its block has. Shapes: one axis a view."""
        for axis, (attribute, width) in enumerate(zip(*self.describe(marginal), strict=True)):
            whole = (slice(None),) * axis + (slice(self.own.sizes[attribute]),)
            blocks = np.repeat(blocks, width, axis=axis)[whole]
        return blocks

    def take(self, values: Values, view: int) -> Values:
        """A view's part of values that lie along the first axis as groups do."""
        return join_neighbours(values[self.own.get_slice(self.attribute_of[view])], self.width_of[view])

    def take_pair(self, matrix: Values, pair: Marginal) -> Values:
        """A pair's part of what lies along both axes as groups do. Shapes: (width, width) of groups."""
        left, right = (self.own.get_slice(attribute) for attribute in self.describe(pair)[0])
        return self.join(matrix[left, right], pair)


def join_neighbours(cells: Values, width: int, *, axis: int = 0) -> Values:
    """Adds up so many neighbours along an axis, a power of 2; the last block has what is left."""
    while width > 1:
        first, second = part_neighbours(cells, axis)
        cells, width = first.copy(), width // 2
        cells[(slice(None),) * axis + (slice(second.shape[axis]),)] += second
    return cells


def part_neighbours(cells: Values, axis: int) -> tuple[Values, Values]:
    """The first and the second of each two neighbours along an axis; a last one that is alone has no second."""
    first, second = ((slice(None),) * axis + (slice(begin, None, 2),) for begin in (0, 1))
    return cells[first], cells[second]


class Look:
    """One attribute beside all after it, each in its view of one width: what adds up cells of groups to their blocks.

    `others` are those of them that have an order, or all where the one attribute has; `own` and `views` say which view
    of each it is, `starts` where the blocks of each of the others begin, side by side.
    """

    def __init__(self, views: Views, attribute: int, *, width: int) -> None:
        rest = range(attribute + 1, views.own.attributes)
        chosen = [other for other in rest if width == 1 or views.ordered[attribute] or views.ordered[other]]
        self.others: Places = np.array(chosen, np.int64)
        self.own, self.views = views.at[width][attribute], np.array(views.at[width])[self.others]
        self._step = views.width_of[self.own]
        begin, edges, firsts = views.own.starts[rest.start], [], []
        for other, view in zip(chosen, self.views.tolist(), strict=True):
            piece = views.own.get_slice(other)
            firsts.append(np.arange(piece.start, piece.stop, views.width_of[view]) - begin)
            edges.append(np.append(firsts[-1], piece.stop - begin))
        # Attributes between those looked at are added up, too, and left out.
        places = np.unique(np.concatenate([*edges, [0]]))
        self._edges = places[places < views.own.width - begin]
        self._kept = np.searchsorted(self._edges, np.concatenate([*firsts, np.zeros(0, np.int64)]))
        self.starts: Places = np.cumsum([0, *(len(part) for part in firsts)])[:-1]

    def join(self, cells: Values) -> Values:
        """Shapes: (groups, groups of all after) to (blocks, blocks)."""
        return join_neighbours(np.add.reduceat(cells, self._edges, axis=1)[:, self._kept], self._step)

    def join_each(self, own: Values, others: Values) -> tuple[Values, Values]:
        """Of the one attribute's groups, and of those of all after it. Shapes: (groups,) to (blocks,) each."""
        return join_neighbours(own, self._step), np.add.reduceat(others, self._edges)[self._kept]
