"""Blocks of neighbouring groups: what single cells hide in noise, a block of them may show."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

WIDTHS = 4
"""At how many widths cells are looked at: one by one, and in blocks of 2, 4 and 8 neighbours along an order."""


class Width(NamedTuple):
    """Attributes side by side at one width of blocks.

    `kept`: of the blocks one narrower those that have wider ones, None for all. `starts`: where blocks begin among
    these. `cells`: how many groups each has. `attributes`: which ones are there; `firsts`: where the blocks of each
    begin.
    """

    kept: npt.NDArray[np.bool_] | None
    starts: Places
    cells: Counts
    attributes: Places
    firsts: Places

    def widen(self, narrow: Counts) -> Counts:
        """Adds up what is known of the blocks one narrower. Shapes: (..., blocks)."""
        wide: Counts = np.add.reduceat(narrow if self.kept is None else narrow[..., self.kept], self.starts, axis=-1)
        return wide


def list_widths(sizes: Sequence[int], ordered: Sequence[bool], *, beside_order: bool) -> list[Width]:
    """The widths of some attributes' blocks, single groups first.

    Attributes without an order stay as they are beside one that has it (`beside_order`), and else have one width.
    """
    counts, has_order, attributes = np.array(sizes), np.array(ordered, np.bool_), np.arange(len(sizes))
    cells = np.ones(int(counts.sum()))
    widths = [Width(None, np.arange(len(cells)), cells, attributes, np.cumsum(counts) - counts)]
    kept = None
    if not beside_order and not has_order.all():
        kept = np.repeat(has_order, counts)
        counts, attributes, cells, has_order = (
            counts[has_order],
            attributes[has_order],
            cells[kept],
            has_order[has_order],
        )
    for _ in range(1, WIDTHS if len(counts) else 1):
        firsts, steps = np.cumsum(counts) - counts, np.where(has_order, 2, 1)
        starts = np.concatenate([np.arange(a, a + n, step) for a, n, step in zip(firsts, counts, steps, strict=True)])
        counts, cells = -(-counts // steps), np.add.reduceat(cells, starts)
        widths.append(Width(kept, starts, cells, attributes, np.cumsum(counts) - counts))
        kept = None
    return widths


def join_neighbours(cells: Counts, axis: int) -> Counts:
    """Adds up neighbours along an axis, two by two."""
    joined: Counts = np.add.reduceat(cells, np.arange(0, cells.shape[axis], 2), axis=axis)
    return joined
