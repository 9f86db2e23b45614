"""Columns that follow from others of their row: checked on the way in, computed anew on the way out."""

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from dpwgan.array_types import Flags
from dpwgan.errors import quote
from dpwgan.table.codecs.codec import ReadCodec, TrainedCodec, list_distinct
from dpwgan.table.codecs.numbers import read_numbers
from dpwgan.table.conditions import read_sql
from dpwgan.table.findings import Findings
from dpwgan.table.numerals import BLANKS, WHOLE_NUMBER, read_number
from dpwgan.table.schema import ComputedColumn, DerivedColumn, Kind, write_whole


class Derivation(ReadCodec):
    """The function from the cells of a row's `sources` to a cell of this column, for whole columns of them."""

    @abstractmethod
    def check(self, frame: pl.DataFrame, findings: Findings) -> None:
        """Counts the rows of the input whose cell is not what follows from the sources' cells."""

    @abstractmethod
    def apply(self, frame: pl.DataFrame) -> pl.Series:
        """Computes (n,) cells from legal cells of the sources."""


class DerivedRule(Derivation):
    """A multiple, a part or a mapping of one source. Two cells agree if they are the same text or the same number."""

    fault = "does not follow from its source"

    def __init__(self, column: DerivedColumn, codecs: Mapping[str, TrainedCodec]) -> None:
        self.name, self.source, self.sources = column.name, column.source, column.sources
        self._column = column
        self._codec = codecs[column.source]
        self._missing = frozenset(self._codec.missing)

    def check(self, frame: pl.DataFrame, findings: Findings) -> None:
        """As all do; rows whose source cell is illegal are left to the source column's own rule."""
        sources, source_places = list_distinct(frame.get_column(self.source))
        cells, cell_places = list_distinct(frame.get_column(self.name))
        known: dict[Decimal | str, int] = {}

        def identify(cell: str) -> int:
            number = read_number(cell)
            return known.setdefault(cell if number is None else number, len(known))

        legal = map(self._codec.get_canonical, sources)
        expected = np.array([-1 if cell is None else identify(self._derive(cell)) for cell in legal], np.int64)
        found = np.array([identify(cell) for cell in cells], np.int64).take(cell_places)
        wanted = expected.take(source_places)
        wrong = int(np.count_nonzero((wanted >= 0) & (wanted != found)))
        findings.add(self.name, f"does not follow from {quote(self.source)} by its rule", wrong)

    def apply(self, frame: pl.DataFrame) -> pl.Series:
        """Computes each different cell once."""
        distinct, places = list_distinct(frame.get_column(self.source))
        return pl.Series([self._derive(cell) for cell in distinct], dtype=pl.String).gather(places)

    def get_values(self, frame: pl.DataFrame) -> pl.Series:
        """Numbers, or text where the mapping writes other cells; NULL where the source is."""
        column = self._column
        cells = frame.get_column(self.name).cast(pl.String)
        are_numbers = column.mapping is None or all(map(WHOLE_NUMBER.fullmatch, column.mapping.values()))
        values = cells.cast(pl.Float64, strict=False).cast(pl.Int64, strict=False) if are_numbers else cells
        return values.set(self._codec.get_values(frame).is_null(), None)

    def count_illegal(self, frame: pl.DataFrame) -> int:
        """Looks at each pair of a source's cell and the cell beside it once."""
        pairs = frame.select(pl.col(self.source).alias("source"), pl.col(self.name).alias("derived"))
        counts = pairs.group_by("source", "derived").len().cast({"source": pl.String, "derived": pl.String})
        return sum(rows for cell, derived, rows in counts.iter_rows() if not self._follows(cell, derived))

    def _derive(self, cell: str) -> str:
        return self._column.derive(cell, available=cell not in self._missing)

    def _follows(self, cell: str, derived: str) -> bool:
        """Says whether a cell follows from one of the source, by other means than `_derive`."""
        column, is_missing = self._column, cell in self._missing
        if is_missing and column.missing is not None:
            return derived == column.missing
        if column.mapping is not None:
            return column.mapping.get(cell) == derived
        if is_missing:
            return derived == cell
        form = rf"-?[0-9]{{{max(column.width, 1)},}}" + (rf"\.0{{{column.decimals}}}" if column.decimals else "")
        number = read_number(cell)
        if not re.fullmatch(form, derived, re.ASCII) or number is None:
            return False
        source, quotient = Fraction(number), column.floordiv or 1
        return read_number(derived) == (source // quotient if column.multiply is None else source * column.multiply)


_WRITERS: dict[Kind, Callable[[Any, ComputedColumn], str]] = {
    "text": lambda value, column: str(value),
    "whole": lambda value, column: write_whole(value, width=column.width, decimals=column.decimals),
    # A negative zero loses its sign.
    "real": lambda value, column: f"{value + 0.0:.{column.decimals}f}",
}


class ComputedRule(Derivation):
    """The SQL expression of a computed column, over the values of its sources' cells.

    A cell of the table agrees if it is the text that the expression gives, or its number rounded to the column's
    digits. What lies halfway is written half to even, and read either way, as programs differ in it. NULL, and what is
    no finite number, is the column's missing cell.
    """

    fault = "does not follow from its expression"

    def __init__(self, column: ComputedColumn, codecs: Mapping[str, TrainedCodec]) -> None:
        self.name, self.sources = column.name, column.sources
        self._column = column
        self._expression = read_sql(column.sql)
        self._codecs = [codecs[name] for name in column.sources]

    def get_values(self, frame: pl.DataFrame) -> pl.Series:
        """Numbers, or text; computed, whatever the column's own cells are."""
        if self._column.gives == "text":
            return self._evaluate(frame)
        steps = self._compute_steps(frame).round(mode="half_to_even")
        if self._column.gives == "whole":
            return steps.cast(pl.Int64, strict=False)
        # By numpy: polars multiplies by what is nearest to 1 / 100, which makes another double of large amounts.
        return pl.Series(steps.to_numpy() / self._steps, nan_to_null=True)

    def check(self, frame: pl.DataFrame, findings: Findings) -> None:
        """As all do; blanks around a cell do not count. Rows with an illegal source cell are left to its column."""
        cells = frame.get_column(self.name).cast(pl.String).str.strip_chars(BLANKS)
        astray = frame.filter(self._find_wrong(frame, cells))
        for codec in self._codecs:
            sources = astray.get_column(codec.name).cast(pl.String)
            astray = astray.filter([codec.get_canonical(cell) is not None for cell in sources])
        findings.add(self.name, self.fault, astray.height)

    def apply(self, frame: pl.DataFrame) -> pl.Series:
        """Writes what the expression gives."""
        column = self._column
        write = _WRITERS[column.gives]
        written = [None if value is None else write(value, column) for value in self.get_values(frame)]
        return pl.Series(written, dtype=pl.String).fill_null(column.missing)

    def count_illegal(self, frame: pl.DataFrame) -> int:
        """Computes all cells once more, and reads those that are there as numbers."""
        return int(np.count_nonzero(self._find_wrong(frame, frame.get_column(self.name).cast(pl.String))))

    @property
    def _steps(self) -> int:
        return 1 if self._column.gives == "whole" else int(10**self._column.decimals)

    def _evaluate(self, frame: pl.DataFrame) -> pl.Series:
        sources = pl.DataFrame({codec.name: codec.get_values(frame) for codec in self._codecs})
        return self._expression.evaluate(sources)

    def _compute_steps(self, frame: pl.DataFrame) -> pl.Series:
        """The numbers in units of their last digit, before they are rounded."""
        # Through its text a decimal is the double of its digits.
        values = self._evaluate(frame).cast(pl.Float64)
        return values.set(~values.is_finite().fill_null(True), None) * self._steps

    def _find_wrong(self, frame: pl.DataFrame, cells: pl.Series) -> Flags:
        missing = self._column.missing
        if self._column.gives == "text":
            return (cells != self._evaluate(frame).fill_null(missing)).to_numpy()
        computed = self._compute_steps(frame)
        steps, (is_number, numbers) = computed.fill_null(0.0).to_numpy(), read_numbers(cells)
        slack = 1e-6 + 1e-13 * np.abs(steps)
        off = [np.abs(numbers - np.rint(near) / self._steps) * self._steps for near in (steps - slack, steps + slack)]
        is_null = computed.is_null().to_numpy()
        return np.where(is_null, (cells != missing).to_numpy(), ~is_number | (np.minimum(*off) > 1e-6))
