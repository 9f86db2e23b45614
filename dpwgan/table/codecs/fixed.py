"""Constant columns: one cell for all rows, which the input may have to hold as well."""

import polars as pl

from dpwgan.table.codecs.codec import Codec, list_distinct
from dpwgan.table.findings import Findings
from dpwgan.table.numerals import are_same_cell
from dpwgan.table.schema import FixedColumn


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

    def get_values(self, frame: pl.DataFrame) -> pl.Series:
        """What rules between columns see: the cell."""
        return self.make(records=frame.height)

    def count_illegal(self, frame: pl.DataFrame) -> int:
        """Counts rows with another cell."""
        return int((frame.get_column(self.name).cast(pl.String) != self._cell).sum())
