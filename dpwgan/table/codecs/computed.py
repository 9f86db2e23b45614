"""Columns that an SQL expression gives from others of their row: checked on the way in, computed on the way out."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import polars as pl

from dpwgan.table.codecs.codec import Codec
from dpwgan.table.codecs.numbers import read_numbers
from dpwgan.table.conditions import read_sql
from dpwgan.table.findings import Findings
from dpwgan.table.numerals import BLANKS
from dpwgan.table.schema import ComputedColumn, Kind, write_whole

_WRITERS: dict[Kind, Callable[[Any, ComputedColumn], str]] = {
    "text": lambda value, column: str(value),
    "whole": lambda value, column: write_whole(value, width=column.width, decimals=column.decimals),
    # A negative zero loses its sign.
    "real": lambda value, column: f"{value + 0.0:.{column.decimals}f}",
}


class ComputedRule(Codec):
    """The expression of a computed column, over the values of its sources' cells.

    A cell of the table agrees if it is the text that the expression gives, or its number rounded to the column's
    digits, half to even; NULL, and what is no finite number, is the column's missing cell.
    """

    fault = "does not follow from its expression"

    def __init__(self, column: ComputedColumn, *, codecs: Mapping[str, Codec]) -> None:
        self.name, self.sources = column.name, column.sources
        self._column = column
        self._expression = read_sql(column.sql)
        self._codecs = [codecs[name] for name in column.sources]

    def get_values(self, frame: pl.DataFrame) -> pl.Series:
        """Numbers, or text; computed, whatever the column's own cells are."""
        sources = pl.DataFrame({codec.name: codec.get_values(frame) for codec in self._codecs})
        found = self._expression.evaluate(sources)
        if self._column.gives == "text":
            return found
        # Through its text a decimal is the double of its digits.
        values = found.cast(pl.Float64)
        values = values.set(~values.is_finite().fill_null(True), None)
        steps = (values * self._steps).round(mode="half_to_even")
        return steps.cast(pl.Int64, strict=False) if self._column.gives == "whole" else steps / self._steps

    def check(self, frame: pl.DataFrame, findings: Findings) -> None:
        """Counts the rows of the input whose cell is not what the expression gives."""
        wrong = self._count_wrong(frame, frame.get_column(self.name).cast(pl.String).str.strip_chars(BLANKS))
        findings.add(self.name, "does not follow from its expression", wrong)

    def apply(self, frame: pl.DataFrame) -> pl.Series:
        """Writes (n,) cells, from legal cells of the sources."""
        column = self._column
        write = _WRITERS[column.gives]
        written = [None if value is None else write(value, column) for value in self.get_values(frame)]
        return pl.Series(written, dtype=pl.String).fill_null(column.missing)

    def count_illegal(self, frame: pl.DataFrame) -> int:
        """Computes all cells once more, and reads those that are there as numbers."""
        return self._count_wrong(frame, frame.get_column(self.name).cast(pl.String))

    @property
    def _steps(self) -> int:
        return 1 if self._column.gives == "whole" else int(10**self._column.decimals)

    def _count_wrong(self, frame: pl.DataFrame, cells: pl.Series) -> int:
        values, missing = self.get_values(frame), self._column.missing
        if self._column.gives == "text":
            return int((cells != values.fill_null(missing)).sum())
        is_number, numbers = read_numbers(cells)
        off = np.abs(numbers - values.cast(pl.Float64).fill_null(0.0).to_numpy()) * self._steps
        is_null = values.is_null().to_numpy()
        return int(np.count_nonzero(np.where(is_null, (cells != missing).to_numpy(), ~is_number | (off > 1e-6))))
