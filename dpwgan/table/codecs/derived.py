"""Columns that are functions of another one: checked on the way in, computed anew on the way out."""

import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl

from dpwgan.errors import SpecsError, quote
from dpwgan.table.codecs.codec import Codec, TrainedCodec, list_distinct
from dpwgan.table.findings import Findings
from dpwgan.table.numerals import read_number
from dpwgan.table.schema import CategoricalColumn, DerivedColumn, Schema

WHOLE_NUMBER = re.compile(r"-?[0-9]+", re.ASCII)


class DerivedRule(Codec):
    """The function from a source column's cells to a derived column's cells, for whole columns of them.

    Two cells agree if they are the same text or the same number.
    Raises: SpecsError if the source is no trained column, or the function is not defined on all of its listed cells.
    """

    fault = "does not follow from its source"

    def __init__(self, column: DerivedColumn, *, schema: Schema, codecs: Mapping[str, TrainedCodec]) -> None:
        if column.source not in codecs:
            raise SpecsError(f"Column {quote(column.name)}: it has to be derived from a categorical or numeric column.")
        self.name, self.source, self.sources = column.name, column.source, column.sources
        self._column = column
        self._codec = codecs[column.source]
        self._missing = frozenset(self._codec.missing)
        source = schema.by_name[column.source]
        if isinstance(source, CategoricalColumn):
            try:
                for token in source.tokens:
                    self._derive(token)
            except (KeyError, ArithmeticError):
                raise SpecsError(
                    f"Column {quote(column.name)}: its rule does not hold for every cell of {quote(column.source)}."
                ) from None

    def check(self, frame: pl.DataFrame, findings: Findings) -> None:
        """Counts the rows of the input whose cell is not what the rule makes of the source's cell.

        Rows whose source cell is illegal are left to the source column's own rule.
        """
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
        """Computes (n,) derived cells from legal cells of the source."""
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
        if not re.fullmatch(form, derived, re.ASCII):
            return False
        try:
            number = _read_exactly(cell)
        except ValueError:
            return False
        expected = number * column.multiply if column.multiply is not None else number // (column.floordiv or 1)
        return _read_exactly(derived) == expected


def _read_exactly(cell: str) -> int | Fraction:
    """Reads a number. Raises: ValueError."""
    # Some ten times as fast as a fraction, and most are whole.
    return int(cell) if cell.isascii() and cell.isdecimal() else Fraction(cell)
