"""Columns that tell nothing of a row: one cell for all rows, which the input may have to hold as well, and fresh names.

Names of the input are dropped unread: no row of the output belongs to a row of the input.
"""

import uuid

import numpy as np
import polars as pl

from dpwgan.array_types import Integers
from dpwgan.table.codecs.codec import Codec, list_distinct
from dpwgan.table.findings import Findings
from dpwgan.table.numerals import are_same_cell
from dpwgan.table.schema import FixedColumn, IdentifierColumn, MemberColumn, UnitColumn
from dpwgan.table.units.units import count_up

# Version 4, variant 1: RFC 9562, section 5.4.
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"


class FixedCell(Codec):
    """The one cell of a column."""

    fault = "is not the column's one cell"

    def __init__(self, column: FixedColumn) -> None:
        self.name, self._column, self._cell = column.name, column, column.cell or ""

    def check(self, frame: pl.DataFrame, findings: Findings) -> None:
        """Counts the rows of the input with another cell, if they are to be looked at."""
        if self._column.checked:
            cells, places = list_distinct(frame.get_column(self.name))
            differs = pl.Series([not are_same_cell(cell, self._cell) for cell in cells], dtype=pl.Boolean)
            findings.add(self.name, self.fault, int(differs.gather(places).sum()))

    def make(self, *, records: int) -> pl.Series:
        """The cell, once a record."""
        return pl.repeat(self._cell, records, dtype=pl.String, eager=True)

    def count_illegal(self, frame: pl.DataFrame) -> int:
        """Counts rows with another cell."""
        return int((frame.get_column(self.name).cast(pl.String) != self._cell).sum())


class FreshIdentifiers(Codec):
    """Names that count up, or random UUIDs: of rows, or of units."""

    fault = "is not a fresh identifier"

    def __init__(self, column: IdentifierColumn) -> None:
        self.name, self._start, self._width = column.name, column.start, column.width
        self._of_units = isinstance(column, UnitColumn)

    def make(self, *, first_record: int, records: int) -> pl.Series:
        """Writes names for records `first_record`, `first_record` + 1, ... of the output.

        Privacy: a function of the position in the output, or of the operating system's randomness; of no data.
        Source: RFC 9562, section 5.4 (UUID version 4).
        """
        if self._start is not None:
            start = self._start + first_record
            return self._write(pl.Series(np.arange(start, start + records, dtype=np.int64)))
        return pl.Series([str(uuid.uuid4()) for _ in range(records)], dtype=pl.String)

    def count_illegal(self, frame: pl.DataFrame) -> int:
        """Counts names that come twice, or have another form; all of them where they do not count up.

        Rows of a unit stand together under one name.
        """
        cells = frame.get_column(self.name)
        if self._of_units:
            cells = cells.filter(cells.ne_missing(cells.shift()))
        repeated = cells.len() - cells.n_unique()
        if self._start is None:
            return max(repeated, int((~cells.str.contains(_UUID)).sum()))
        numbers = cells.cast(pl.Int64, strict=False)
        counts_up = (numbers.diff().drop_nulls() == 1).all() and numbers.null_count() == 0
        counts_up = counts_up and self._write(numbers).equals(cells.cast(pl.String))
        return repeated if counts_up and (not len(numbers) or numbers[0] >= self._start) else cells.len()

    def _write(self, numbers: pl.Series) -> pl.Series:
        written: pl.Series = numbers.cast(pl.String).str.zfill(self._width)
        return written


class MemberCells(Codec):
    """Which of its unit's rows each row is, or how many these are. Rows of a unit stand together."""

    fault = "is not what the unit's rows say"

    def __init__(self, column: MemberColumn, unit: str) -> None:
        self.name, self._column, self._unit = column.name, column, unit

    def make(self, sizes: Integers) -> pl.Series:
        """Writes the cells of units of these sizes. Privacy: post-processing of sizes. Shapes: (units,) to (n,)."""
        is_place = self._column.tells == "place"
        numbers = count_up(sizes) + self._column.start if is_place else np.repeat(sizes, sizes)
        written: pl.Series = pl.Series(numbers).cast(pl.String).str.zfill(self._column.width)
        return written

    def count_illegal(self, frame: pl.DataFrame) -> int:
        """Counts rows with another cell."""
        sizes = frame.get_column(self._unit).rle().struct.field("len").cast(pl.Int64).to_numpy()
        return int((frame.get_column(self.name).cast(pl.String) != self.make(sizes)).sum())
