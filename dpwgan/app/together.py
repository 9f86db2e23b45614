"""Rows of a fitted model put together into units, of sizes that were released, each unit under one fresh name.

Rows are drawn each by itself, as always, and a unit of five has five of them: so units are made by grouping rows. Rows
are sorted by the columns that units share and cut into units of drawn sizes; where the rows of one differ there, they
take the cells of one of them. Columns of few values come first in the order, so that what differs is a column of many
values, and little: numbers are next to near ones. Sizes do not hang on these columns.
Privacy: post-processing of releases.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from dpwgan.app.sampling import RowSource
from dpwgan.errors import SpecsError
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.schema import UnitColumn
from dpwgan.table.source import choose_step

Sizes = npt.NDArray[np.int64]

# How often units are made of other rows where rules are broken.
_MOST_TURNS = 100


class UnitSource:
    """A model's rows in units: `shared` columns have one cell in all rows of each, and all rules are kept."""

    def __init__(self, source: RowSource, encoder: TableEncoder, unit: UnitColumn) -> None:
        self._source, self._encoder, self._shared = source, encoder, [*unit.shared]
        # Rows to choose from: of few hardly two are alike.
        self._least = choose_step(len(encoder.header)) // 2

    def draw(self, sizes: Sizes, first_unit: int, *, rng: np.random.Generator) -> pl.DataFrame:
        """Draws units of these sizes, named from `first_unit` on, in any order. Shapes: (units,).

        Raises: SpecsError if hardly a unit keeps the rules; as `RowSource.draw`.
        """
        parts: list[pl.DataFrame] = []
        made: list[Sizes] = []
        wanted = np.bincount(sizes)
        for _ in range(_MOST_TURNS):
            left = np.repeat(np.arange(len(wanted)), wanted)
            tried = rng.permutation(np.tile(left, -(-self._least // int(left.sum()))))
            rows = self._source.draw(int(tried.sum()), first_record=0, rng=rng)
            frame, fine = self._put_together(rows, tried, rng=rng)
            chosen = _choose(tried, fine, wanted=wanted, rng=rng)
            parts.append(frame[_list_rows(tried, chosen)])
            made.append(tried[chosen])
            wanted = wanted - np.bincount(tried[chosen], minlength=len(wanted))
            if not wanted.any():
                drawn = np.concatenate(made)
                order = rng.permutation(len(drawn))
                together = pl.concat(parts)[_list_rows(drawn, order)]
                named = self._encoder.name_units(together, drawn[order], first_unit=first_unit)
                self._encoder.validate(named)
                return named
        raise SpecsError(
            "Hardly a unit that is put together keeps the rules between columns of units and others: mark fewer "
            'columns as "of": "unit", or leave a rule out.'
        )

    def _put_together(
        self, rows: pl.DataFrame, sizes: Sizes, *, rng: np.random.Generator
    ) -> tuple[pl.DataFrame, npt.NDArray[np.bool_]]:
        """The rows in units of these sizes, one after the other, and which of these keep all rules."""
        if not self._shared:
            return rows, np.ones(len(sizes), np.bool_)
        starts = np.cumsum(sizes) - sizes
        values = self._encoder.read_values(rows, self._shared)
        by = sorted(self._shared, key=lambda name: values.get_column(name).n_unique())
        order = values.select(pl.arg_sort_by(by, nulls_last=True)).to_series().to_numpy()
        heads = order[starts + rng.integers(0, sizes)]
        cells = rows.select(self._shared)[np.repeat(heads, sizes)]
        frame, broken = self._encoder.put_cells(rows[order], cells)
        return frame, ~np.logical_or.reduceat(broken, starts)


def draw_sizes(shares: Sequence[float], rows: int, *, rng: np.random.Generator) -> Sizes:
    """Sizes of units of so many rows in all, as often as their shares say, and not by chance. Shapes: (units,).

    The last unit is cut to fit.
    """
    limits = np.cumsum(shares)
    units = math.ceil(rows / float(np.arange(1, len(shares) + 1) @ shares)) + len(shares)
    steps = (np.arange(units) + rng.random()) / units
    sizes = rng.permutation(1 + np.searchsorted(limits[:-1], steps * limits[-1]))
    ends = np.cumsum(sizes)
    last = int(np.searchsorted(ends, rows))
    sizes[last] -= ends[last] - rows
    return sizes[: last + 1]


def cut_units(sizes: Sizes, *, step: int) -> Iterator[tuple[Sizes, int]]:
    """Parts of about `step` rows, and the number of the first unit of each."""
    cuts = np.searchsorted(np.cumsum(sizes), np.arange(step, int(sizes.sum()), step)).tolist()
    firsts = sorted({0, *cuts})
    for first, last in zip(firsts, [*firsts[1:], len(sizes)], strict=True):
        yield sizes[first:last], first


def _choose(sizes: Sizes, fine: npt.NDArray[np.bool_], *, wanted: Sizes, rng: np.random.Generator) -> Sizes:
    """Of fine units as many of each size as are wanted, or all there are. Shapes: `wanted` (1 + most rows,).

    They are spread evenly over units as they lie, which are sorted: each as likely as another, with less chance in it.
    """
    chosen = []
    for size in np.flatnonzero(wanted):
        own = np.flatnonzero(fine & (sizes == size))
        count = min(int(wanted[size]), len(own))
        chosen.append(own[((np.arange(count) + rng.random()) * (len(own) / max(count, 1))).astype(np.int64)])
    return np.concatenate(chosen)


def _list_rows(sizes: Sizes, units: Sizes) -> Sizes:
    """The rows of some units, one unit after the other, where units lie one after the other."""
    starts, own = np.cumsum(sizes) - sizes, sizes[units]
    rows: Sizes = np.repeat(starts[units] - (np.cumsum(own) - own), own) + np.arange(int(own.sum()))
    return rows
