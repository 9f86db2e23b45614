"""Tables of whole numbers: the codes and the scaled numbers of whole rows, looked up for all columns at once.

What each number of each column becomes is the codecs' own answer, asked beforehand; a column of too many numbers is
left to its codec. So are rows with a cell that a codec would refuse, or that lies beyond its table.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dpwgan.table.codecs import Codec, EncodedCells, PlaceTable
from dpwgan.table.derived import DerivedRule
from dpwgan.table.digits import EMPTY, OtherCellsError, read_digits
from dpwgan.table.encoded import Span
from dpwgan.table.findings import Findings


class NumberLookup:
    """Encodes rows whose cells are digits or nothing, all columns of a row together.

    Privacy: holds public facts only; acts on each row by itself.
    """

    def __init__(
        self,
        header: Sequence[str],
        *,
        codecs: Mapping[str, Codec],
        spans: Sequence[Span],
        rules: Sequence[DerivedRule],
    ) -> None:
        place = {name: index for index, name in enumerate(header)}
        tables = {name: codec.tabulate() for name, codec in codecs.items()}
        self._width = len(header)
        ordered = sorted(spans, key=lambda span: span.source)
        for_codes, for_numbers = ([s for s in ordered if (s.head == "linear") is linear] for linear in (False, True))
        self._codes = _Columns(
            [place[span.column] for span in for_codes],
            [_list_entries(tables[span.column], lambda encoded: encoded.codes, np.int32) for span in for_codes],
            np.int32,
        )
        self._numbers = _Columns(
            [place[span.column] for span in for_numbers],
            [_list_entries(tables[span.column], lambda encoded: encoded.numbers, np.float32) for span in for_numbers],
            np.float32,
        )
        self._untabled = {name: codec for name, codec in codecs.items() if tables[name] is None}
        self._spans = [span for span in spans if span.column in self._untabled]
        self._rules = tuple(rules)
        kept = [*self._untabled, *(name for rule in rules for name in (rule.name, rule.source))]
        self._kept = {name: place[name] for name in kept}
        self._kept_places = np.array(list(self._kept.values()), np.intp)

    def encode(
        self, text: bytes, codes: npt.NDArray[np.int32], numbers: npt.NDArray[np.float32], findings: Findings
    ) -> bool:
        """Encodes rows into (n, ...) codes and numbers, and says whether it could; if not, those hold nothing of use.

        What breaks a rule in columns without a table, and in derived ones, is added to `findings` if it could.
        """
        kept = np.empty((len(self._kept), len(codes)), np.int32)
        first = 0
        try:
            for cells in read_digits(text, width=self._width):
                rows = slice(first, first + len(cells))
                if rows.stop > len(codes) or not (
                    self._codes.look_up(cells, codes[rows]) and self._numbers.look_up(cells, numbers[rows])
                ):
                    return False
                kept[:, rows] = cells.take(self._kept_places, axis=1).T
                first = rows.stop
        except OtherCellsError:
            return False
        if first != len(codes):
            return False
        frame = pl.DataFrame({name: _to_series(column) for name, column in zip(self._kept, kept, strict=True)})
        encoded = {name: codec.encode(frame.get_column(name), findings) for name, codec in self._untabled.items()}
        for span in self._spans:
            if span.head == "linear":
                numbers[:, span.source] = encoded[span.column].numbers
            else:
                codes[:, span.source] = encoded[span.column].codes
        for rule in self._rules:
            rule.check(frame, findings)
        return True


class _Columns:
    """The tables of some columns, one after the other: the empty cell, the numbers from 0, and one for all beyond."""

    def __init__(self, places: Sequence[int], tables: Sequence[npt.NDArray[Any]], dtype: npt.DTypeLike) -> None:
        lengths = np.array([len(table) for table in tables], np.intp)
        self._places = np.array(places, np.intp)
        self._starts = np.cumsum(lengths) - lengths - EMPTY
        self._lasts = lengths + (EMPTY - 1)
        self._entries = np.concatenate([np.zeros(0, dtype), *tables])

    def look_up(self, cells: npt.NDArray[np.intp], found: npt.NDArray[Any]) -> bool:
        """Looks up (n, ...) cells into (n, columns), and says whether all were found."""
        if not found.size:
            return True
        places = cells.take(self._places, axis=1)
        np.minimum(places, self._lasts, out=places)
        places += self._starts
        # Any mode but the default writes where it is to, without a copy; none is out of range.
        self._entries.take(places, out=found, mode="clip")
        return bool(found.min() >= 0)


def _list_entries(
    table: PlaceTable | None, choose: Callable[[EncodedCells], npt.NDArray[Any] | None], dtype: npt.DTypeLike
) -> npt.NDArray[Any]:
    """Gives what becomes of an empty cell, of each number from 0, and of all beyond: -1 where the codec is to say it.

    Without a table it is 0 for every cell, for the time being.
    """
    values = None if table is None else choose(table.encoded)
    if table is None or values is None:
        return np.zeros(2, dtype)
    first, count = table.places.first, table.places.count
    flagged = np.where(table.illegal, -1, values)
    entries = np.full(max(first + count, 0) + 2, -1, dtype)
    entries[0] = flagged[count]
    entries[1 + max(first, 0) : -1] = flagged[max(-first, 0) : count]
    return entries


def _to_series(cells: npt.NDArray[np.int32]) -> pl.Series:
    series = pl.Series(cells)
    return series.set(pl.Series(cells == EMPTY), None) if len(cells) and cells.min() == EMPTY else series
