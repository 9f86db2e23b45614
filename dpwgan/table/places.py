"""Whole numbers as places in a table, so that what a cell means is looked up for a whole column at once."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import polars as pl

# A table of so many places is no burden.
_MOST_NUMBERS = 1 << 20


@dataclass(frozen=True)
class Places:
    """The `count` whole numbers from `first` on; the place after the last one is that of an empty cell."""

    first: int
    count: int

    def find(self, cells: pl.Series) -> npt.NDArray[np.intp] | None:
        """Gives (n,) places of cells parsed as whole numbers, null where empty; None where a number is none of these.

        Shapes: (n,) cells to (n,) places, each from 0 to `count`.
        """
        if cells.dtype not in (pl.Int32, pl.Int64):
            cells = cells.cast(pl.Int64)
        empty = cells.null_count() > 0
        numbers = (cells.fill_null(self.first) if empty else cells).to_numpy()
        # What lies below the first number wraps around and lies beyond the last one: one comparison sees both.
        places = numbers - numbers.dtype.type(self.first)
        if len(places) and places.view(f"u{places.itemsize}").max() >= self.count:
            return None
        if empty:
            places[cells.is_null().to_numpy()] = self.count
        found: npt.NDArray[np.intp] = places.astype(np.intp)
        return found

    def list_cells(self) -> pl.Series:
        """Gives the cell of each place, in order, as the parser gives whole numbers: null for an empty one."""
        numbers = pl.Series(np.arange(self.first, self.first + self.count, dtype=np.int32))
        return numbers.append(pl.Series([None], dtype=pl.Int32))


def choose_places(numbers: Iterable[Decimal | float]) -> Places:
    """Gives the places from the least to the largest of some numbers, leaving out those too large for a table."""
    near = [number for number in map(Decimal, numbers) if abs(number) <= _MOST_NUMBERS]
    if not near:
        return Places(0, 0)
    first = int(min(near))
    return Places(first, int(max(near)) - first + 1)
