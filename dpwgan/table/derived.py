"""A column that is a function of another one: checked on the way in, computed anew on the way out."""

from collections.abc import Mapping
from decimal import Decimal

import numpy as np
import polars as pl

from dpwgan.errors import SpecsError
from dpwgan.table.codecs import Codec, list_distinct
from dpwgan.table.findings import Findings
from dpwgan.table.numerals import read_number
from dpwgan.table.schema import CategoricalColumn, DerivedColumn, NumericColumn, Schema


class DerivedRule:
    """The function from a source column's cells to a derived column's cells, for whole columns of them.

    Two cells agree if they are the same text or the same number.
    Raises: SpecsError if the source is no trained column, or the function is not defined on all of its listed cells.
    """

    def __init__(self, column: DerivedColumn, *, schema: Schema, codecs: Mapping[str, Codec]) -> None:
        source = schema.by_name.get(column.source)
        if not isinstance(source, CategoricalColumn | NumericColumn):
            raise SpecsError(f"Column {column.name!r}: it has to be derived from a categorical or numeric column.")
        self.name = column.name
        self.source = source.name
        self._column = column
        self._missing = frozenset(source.missing)
        self._codec = codecs[source.name]
        if isinstance(source, CategoricalColumn):
            try:
                for token in source.tokens:
                    self._derive(token)
            except (KeyError, ArithmeticError):
                raise SpecsError(
                    f"Column {column.name!r}: its rule does not hold for every cell of {column.source!r}."
                ) from None

    def check(self, frame: pl.DataFrame, findings: Findings) -> None:
        """Counts the rows whose cell is not what the rule makes of the source's cell.

        Rows whose source cell is illegal are left to the source column's own rule.
        """
        sources, source_places = list_distinct(frame.get_column(self.source))
        cells, cell_places = list_distinct(frame.get_column(self._column.name))
        known: dict[Decimal | str, int] = {}

        def identify(cell: str) -> int:
            number = read_number(cell)
            return known.setdefault(cell if number is None else number, len(known))

        legal = map(self._codec.get_canonical, sources)
        expected = np.array([-1 if cell is None else identify(self._derive(cell)) for cell in legal], np.int64)
        found = np.array([identify(cell) for cell in cells], np.int64).take(cell_places)
        wanted = expected.take(source_places)
        wrong = int(np.count_nonzero((wanted >= 0) & (wanted != found)))
        findings.add(self._column.name, f"does not follow from {self.source!r} by its rule", wrong)

    def apply(self, sources: pl.Series) -> pl.Series:
        """Computes (n,) derived cells from (n,) legal cells of the source."""
        distinct, places = list_distinct(sources)
        return pl.Series([self._derive(cell) for cell in distinct], dtype=pl.String).gather(places)

    def _derive(self, cell: str) -> str:
        return self._column.derive(cell, available=cell not in self._missing)
