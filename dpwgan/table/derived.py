"""A column that is a function of another one: checked on the way in, computed anew on the way out."""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from dpwgan.errors import SpecsError
from dpwgan.table.codecs import Codec
from dpwgan.table.findings import Findings
from dpwgan.table.numerals import are_same_cell, read_number
from dpwgan.table.numeric import write_numbers
from dpwgan.table.places import choose_places
from dpwgan.table.schema import CategoricalColumn, DerivedColumn, NumericColumn, Schema

# Numbers up to here are looked up in a table.
_MOST_NUMBER = 1 << 20


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
        listed = source.tokens if isinstance(source, CategoricalColumn) else source.missing
        ends = () if isinstance(source, CategoricalColumn) else (source.minimum, source.maximum)
        self._places = choose_places(
            [*ends, *(number for token in listed if (number := read_number(token)) is not None)]
        )
        # What follows from the number at each place, and whether that was worked out: a few of very many are ever met.
        self._expected = np.zeros(self._places.count + 1, np.int64)
        self._known = np.zeros(self._places.count + 1, np.bool_)
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
        sources, cells = frame.get_column(self.source), frame.get_column(self._column.name)
        if sources.dtype.is_integer() and cells.dtype.is_integer() and self._all_follow(sources, cells):
            return
        pairs = pl.DataFrame({"source": sources, "derived": cells})
        counts = pairs.group_by("source", "derived").len()
        texts = write_numbers(counts["source"]), write_numbers(counts["derived"])
        wrong = 0
        for source, derived, rows in zip(*texts, counts["len"], strict=True):
            cell = self._codec.get_canonical(source)
            if cell is not None and not are_same_cell(self._derive(cell), derived):
                wrong += rows
        findings.add(self._column.name, f"does not follow from {self.source!r} by its rule", wrong)

    def _all_follow(self, sources: pl.Series, cells: pl.Series) -> bool:
        """Says of cells parsed as numbers, without counting, that all follow; False where that is not easily seen."""
        places = self._places.find(sources)
        if places is None or cells.null_count():
            return False
        if not self._known.take(places).all():
            self._learn(places)
            if not self._known.take(places).all():
                return False
        return bool((self._expected.take(places) == cells.to_numpy()).all())

    def _learn(self, places: npt.NDArray[np.intp]) -> None:
        """Works out what follows from the numbers at some places, where that is a whole number."""
        for place in np.flatnonzero(np.bincount(places, minlength=len(self._known)) * ~self._known).tolist():
            source = str(self._places.first + place) if place < self._places.count else ""
            cell = self._codec.get_canonical(source)
            number = read_number(self._derive(cell)) if cell is not None else None
            if number is not None and number == number.to_integral_value() and abs(number) <= _MOST_NUMBER:
                self._expected[place] = int(number)
                # Last, so that no other thread takes for known what is not there yet.
                self._known[place] = True

    def apply(self, sources: pl.Series) -> pl.Series:
        """Computes (n,) derived cells from (n,) legal cells of the source, which may be numbers, null where empty."""
        if sources.null_count():
            sources = write_numbers(sources)
        seen = sources.unique()
        cells: pl.Series = sources.replace_strict(seen, self.derive(write_numbers(seen)), return_dtype=pl.String)
        return cells

    def derive(self, cells: Iterable[str]) -> list[str]:
        """Does the same for some cells, one by one."""
        return [self._derive(cell) for cell in cells]

    def _derive(self, cell: str) -> str:
        return self._column.derive(cell, available=cell not in self._missing)
