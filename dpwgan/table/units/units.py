"""The units of a table: which unit each row belongs to, and which rows of a unit are kept.

Privacy: neighbouring tables differ in the rows of one unit alone, which are in the same places (docs/privacy.md,
section 13). So the numbers of units, of rows of each and of rows kept are the same in both, and which rows are kept
depends on places and randomness alone. Of these numbers only those of all kept rows and of all units are used, and the
first is told. How many rows single units have is released with noise only, as if a zeroed unit had none.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from dpwgan.array_types import Flags, Integers, Integers32
from dpwgan.errors import DataError, quote
from dpwgan.table.findings import count_rows
from dpwgan.table.schema import SizeColumn, UnitColumn
from dpwgan.table.source import Piece, SourceTable
from dpwgan.table.units.distinct import find_alike


@dataclass(frozen=True, eq=False)
class Units:
    """The unit of each row, a number from 0; `elsewhere`: units of other workers. Shapes: `of_rows` (n,)."""

    of_rows: Integers32 = field(repr=False)
    elsewhere: int = 0

    @cached_property
    def sizes(self) -> Integers:
        """Rows of each unit. Shapes: (units,)."""
        sizes: Integers = np.bincount(self.of_rows).astype(np.int64)
        return sizes

    @property
    def count(self) -> int:
        """Number of units, those of other workers included: public."""
        return len(self.sizes) + self.elsewhere

    @property
    def firsts(self) -> Flags:
        """Which rows are the first of their unit. Shapes: (n,)."""
        first = np.zeros(len(self.of_rows), np.bool_)
        first[np.unique(self.of_rows, return_index=True)[1]] = True
        return first

    def count_kept(self, most: int) -> int:
        """Number of rows if each unit keeps at most `most`: public."""
        return int(np.minimum(self.sizes, most).sum())

    def count_split(self, cells: npt.NDArray[np.uint64]) -> int:
        """Number of units whose rows are not all alike. Shapes: (n,)."""
        of_units = np.empty(len(self.sizes), cells.dtype)
        of_units[self.of_rows] = cells
        return len(np.unique(self.of_rows[cells != of_units[self.of_rows]]))

    def choose(self, most: int, *, rng: np.random.Generator) -> Flags:
        """Chooses the rows to keep: at most `most` of each unit, uniformly. Shapes: (n,).

        Privacy: each row draws a number, and the least of each unit are kept: a unit's choice depends on its own rows'
          numbers alone.
        """
        kept = np.zeros(len(self.of_rows), np.bool_)
        drawn = rng.integers(1 << 64, size=len(kept), dtype=np.uint64)
        order = np.lexsort((drawn, self.of_rows))
        kept[order] = count_up(self.sizes) < most
        return kept

    def list_rows(self) -> tuple[Integers, Integers]:
        """The rows sorted by unit, and where each unit begins, and the end. Shapes: (n,), (units + 1,)."""
        order: Integers = np.argsort(self.of_rows, kind="stable")
        return order, np.concatenate(([0], np.cumsum(self.sizes)))


def count_up(sizes: Integers) -> Integers:
    """The places of rows, from 0 up, in units of these sizes that lie one after the other. Shapes: (units,) to (n,)."""
    places: Integers = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return places


def read_units(table: SourceTable, column: UnitColumn) -> SourceTable:
    """Reads the unit of each row of a table, and counts the rows to be kept, which `keep_rows` then chooses.

    Raises: DataError if the table lacks the column, parts of it have types that write a name differently, or a cell of
      it is empty; or if two rows of a unit are not alike, to the letter, in a column that it shares, or are alike in
      all its unique columns.
    """
    if column.name not in table.header:
        raise DataError(f"The header does not have {quote(column.name)}, which says whose a row is.")
    if len({_name_spelling(part.types.get(column.name)) for part in table.parts}) > 1:
        raise DataError(
            f"Column {quote(column.name)}: of types in parts of the table that write one name in several ways, so that "
            "one unit would be taken for several."
        )
    shared, unique = ([name for name in names if name in table.header] for names in (column.shared, column.unique))
    hashes = [pl.col(name).hash() for name in shared]
    together = [pl.struct(unique).hash().alias(unique[0])] if unique else []
    frame = pl.concat(
        part.select(pl.col(column.name, *shared, *unique).cast(pl.String).fill_null(""))
        .with_columns(*hashes, *together)
        .drop(unique[1:])
        for part in table.frames()
    )
    cells = frame.get_column(column.name)
    empty = int((cells == "").sum())
    if empty:
        raise DataError(
            f"Column {quote(column.name)}: {count_rows(empty)} with an empty cell, which does not say whose it is."
        )
    units = Units(cells.rank("dense").to_numpy().astype(np.int32) - np.int32(1))
    for name in shared:
        split = units.count_split(frame.get_column(name).to_numpy())
        if split:
            raise DataError(
                f"Column {quote(name)}: not the same cell in all rows of a unit, which the specs say it has, in "
                f"{split:,} of {len(units.sizes):,} units."
            )
    alike = find_alike(frame.get_column(unique[0]).to_numpy(), units.of_rows) if unique else np.zeros(0, np.bool_)
    if alike.any():
        raise DataError(
            f"Column{'s' * (len(unique) > 1)} {', '.join(map(quote, unique))}: alike in two rows of a unit, which the "
            f"specs say none are, in {len(np.unique(units.of_rows[alike])):,} of {len(units.sizes):,} units."
        )
    table = replace(table, records=units.count_kept(column.max_rows), units=units)
    return _add_sizes(table, column.size_column, units) if column.has_sizes else table


def _add_sizes(table: SourceTable, column: SizeColumn, units: Units) -> SourceTable:
    """The table with a column of how many rows each row's unit keeps, a function of the unit's own rows alone."""
    kept = np.minimum(units.sizes, len(column.tokens)) - 1

    def pieces() -> Iterator[Piece]:
        first = 0
        for piece in table.pieces():
            own = kept[units.of_rows[first : first + piece.records]]
            yield piece.put(pl.Series(column.name, column.tokens).gather(own))
            first += piece.records

    return replace(table, pieces=pieces, parts=())


def _name_spelling(kind: pl.DataType | None) -> str:
    """How a type writes a name; text, whole numbers and CSV write it alike."""
    is_plain = kind is None or kind.is_integer() or kind in (pl.String, pl.Categorical, pl.Enum)
    return "as it is" if is_plain else str(kind)


def keep_rows(
    table: SourceTable, most: int, *, rng: np.random.Generator, own: tuple[int, int] | None = None
) -> SourceTable:
    """The table of at most `most` rows of each unit. Raises: as reading does.

    `own`: begin and end of the units whose rows are wanted, if workers share them.
    Privacy: each unit lies with one worker, which alone chooses among its rows; which worker depends on names, and what
      all have together does not.
    """
    units = table.units
    if units is None:
        return table
    start, stop = own or (0, units.count)
    kept = units.choose(most, rng=rng) & (units.of_rows >= start) & (units.of_rows < stop)

    def pieces() -> Iterator[Piece]:
        first = 0
        for piece in table.pieces():
            own = kept[first : first + piece.records]
            first += piece.records
            if len(own) != piece.records:
                raise DataError("The table does not have the number of rows that was counted before.")
            if own.any():
                yield piece.choose(own)

    mine = Units(units.of_rows[kept] - np.int32(start), elsewhere=units.count - (stop - start))
    return replace(table, records=len(mine.of_rows), pieces=pieces, parts=(), units=mine)
