"""Groups of cells: where each attribute's lie in a row of probabilities, and how many cells a marginal of them has."""

import math
from collections.abc import Sequence

import numpy as np

from dpwgan.table.encoded import Span

Marginal = tuple[int, ...]
"""The attributes of a marginal, rising."""
Edge = tuple[int, int]
"""Two attributes."""


class GroupLayout:
    """Where each attribute's groups lie in a row of probabilities."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(int(size) for size in sizes)
        self.starts = tuple(int(start) for start in np.concatenate(([0], np.cumsum(self.sizes)))[:-1])
        self.width = sum(self.sizes)
        self.attributes = len(self.sizes)

    def get_slice(self, attribute: int) -> slice:
        """An attribute's slice of the width."""
        return slice(self.starts[attribute], self.starts[attribute] + self.sizes[attribute])

    def count_cells(self, marginal: Sequence[int]) -> int:
        """How many cells a marginal has."""
        return math.prod(self.sizes[attribute] for attribute in marginal)


def lay_out_groups(columns: Sequence[str], sizes: Sequence[int]) -> tuple[Span, ...]:
    """Gives each attribute's groups their slice of a one-hot row, all of them with a softmax head."""
    starts = GroupLayout(sizes).starts
    return tuple(
        Span(column=column, role="category", head="softmax", start=start, width=size, source=index, categories=size)
        for index, (column, start, size) in enumerate(zip(columns, starts, sizes, strict=True))
    )
