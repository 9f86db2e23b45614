"""Blocks of neighbouring groups: what single cells hide in noise, a block of them may show."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

WIDENINGS = 3
"""How often neighbours along an order are put together, two by two: blocks of 2, 4 and 8."""

LARGEST = 1 << WIDENINGS


class Blocks:
    """Cells of one attribute's groups with those of others side by side, put together along what has an order."""

    def __init__(self, sizes: Sequence[int], attributes: Sequence[int], *, down: bool, across: bool) -> None:
        """`sizes`: of all attributes side by side; `attributes`: those of them that are looked at.

        `down`: whether the one attribute has an order; `across`: whether those looked at have one.
        """
        self.attributes = np.array(attributes)
        self._down, self._across = down, across
        firsts, counts = np.cumsum(sizes) - sizes, np.array(sizes)[self.attributes]
        room = -(-counts // LARGEST) * LARGEST if across else counts
        self._firsts = np.cumsum(room) - room
        self._width = int(room.sum())
        self._from = _list_places(firsts[self.attributes], counts)
        self._to = _list_places(self._firsts, counts)

    def widen(self, parts: Sequence[Counts]) -> Iterator[tuple[list[Counts], Counts]]:
        """Adds up what is known of cells at each width, and says how many cells a block has, 1 at least.

        Shapes: (groups, groups of all attributes) each.
        """
        height = len(parts[0])
        rows = -(-height // LARGEST) * LARGEST if self._down else height
        high, wide, known = np.zeros(rows), np.zeros(self._width), []
        high[:height], wide[self._to] = 1.0, 1.0
        for part in parts:
            room = np.zeros((rows, self._width))
            room[:height, self._to] = part[:, self._from]
            known.append(room)
        for _ in range(WIDENINGS):
            if self._down:
                known, high = [join_neighbours(part, 0) for part in known], join_neighbours(high, 0)
            if self._across:
                known, wide = [join_neighbours(part, 1) for part in known], join_neighbours(wide, 0)
            yield known, np.maximum(np.outer(high, wide), 1.0)

    def find_largest(self, gains: Sequence[Counts]) -> Counts:
        """Each attribute's largest sum over its columns, of all widths. Shapes: (columns,) each to (attributes,)."""
        firsts = [self._firsts >> (place + 1) if self._across else self._firsts for place in range(WIDENINGS)]
        sums = [np.add.reduceat(columns, first) for columns, first in zip(gains, firsts, strict=True)]
        largest: Counts = np.maximum.reduce(sums)
        return largest


def list_blocks(sizes: Sequence[int], ordered: Sequence[bool], *, has_order: bool) -> list[Blocks]:
    """The blocks of an attribute with others, of which each may have an order or none."""
    parts = [[place for place, own in enumerate(ordered) if own is across] for across in (True, False)]
    kinds = zip(parts, (True, False), strict=True)
    return [Blocks(sizes, p, down=has_order, across=across) for p, across in kinds if p and (has_order or across)]


def join_neighbours(cells: Counts, axis: int) -> Counts:
    """Adds up neighbours along an axis, two by two; the last one stays alone if their number is odd."""
    first, second = part_neighbours(cells, axis)
    return first + second


def part_neighbours(cells: Counts, axis: int) -> tuple[Counts, Counts]:
    """The first and the second of each two neighbours along an axis; beside a lone last one there is 0."""
    if cells.shape[axis] % 2:
        cells = np.pad(cells, [(0, int(place == axis)) for place in range(cells.ndim)])
    first, second = ((slice(None),) * axis + (slice(begin, None, 2),) for begin in (0, 1))
    return cells[first], cells[second]


def _list_places(firsts: Places, counts: Places) -> Places:
    """The places of runs that begin somewhere and have so many each."""
    return np.concatenate([np.arange(first, first + count) for first, count in zip(firsts, counts, strict=True)])
