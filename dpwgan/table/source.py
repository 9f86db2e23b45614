"""A private table before its cells are parsed, whatever kind of file it came from."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from dpwgan.array_types import Flags
from dpwgan.table.findings import Findings

if TYPE_CHECKING:
    from dpwgan.table.units.units import Units

CHUNK = 65_536
"""Most records that are parsed at a time."""

_MOST_CELLS = 1 << 22
"""Most cells that are parsed at a time: each takes 16 bytes or more as text, and a row of pixels has many."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Some rows of a table, next to each other, not yet parsed.

    `parse` gives one column a header name: cells as they stand, "" where empty. Typed values that are no cells are
    counted in `findings` then.
    """

    records: int
    parse: Callable[[], pl.DataFrame] = field(repr=False)
    findings: Findings = field(default_factory=Findings)

    def part(self, first: int, last: int) -> "Piece":
        """The rows from `first` to just before `last`."""
        return replace(self, records=last - first, parse=lambda: self.parse().slice(first, last - first))

    def choose(self, rows: Flags) -> "Piece":
        """Those of the rows that are true here. Shapes: (records,)."""
        return replace(self, records=int(np.count_nonzero(rows)), parse=lambda: self.parse().filter(pl.Series(rows)))

    def put(self, column: pl.Series) -> "Piece":
        """The rows with one more column."""
        return replace(self, parse=lambda: self.parse().with_columns(column))


def make_piece(frame: pl.DataFrame) -> Piece:
    """Makes a piece of rows that are parsed already."""
    return Piece(records=frame.height, parse=lambda: frame)


@dataclass(frozen=True, kw_only=True)
class SourceTable:
    """A table that is read but not yet parsed: its header, its number of records and how to go over its rows.

    `line_ending` is that of the header line and `types` are those of the columns, if they have any: for an output that
    looks like the input. `pieces` gives the rows in order, each time anew; `parts` are the tables that it was put
    together from, if it was (`dpwgan.table.files.parts`). `units` says whose each row is, where the specs name a unit
    (`dpwgan.table.units.units`).
    Privacy: the header and `records` are public; the rest is not, and does not show in the representation.
    """

    header: tuple[str, ...]
    records: int
    line_ending: str = "\n"
    types: Mapping[str, pl.DataType] = field(default_factory=dict)
    pieces: Callable[[], Iterator[Piece]] = field(repr=False)
    parts: "tuple[SourceTable, ...]" = field(default=(), repr=False)
    units: "Units | None" = field(default=None, repr=False)

    def frame(self) -> pl.DataFrame:
        """Parses the whole table: one string column a header name, cells as they stand, "" where empty."""
        return pl.concat(self.frames())

    def part(self, first: int, last: int) -> "SourceTable":
        """The table of the rows from `first` to just before `last`; no piece without any of them is parsed.

        Nor is a part without any of them read.
        """

        def pieces() -> Iterator[Piece]:
            start = 0
            for part in self.parts or (self,):
                end = start + part.records
                for piece in part.pieces() if start < last and end > first else ():
                    low, high = max(first - start, 0), min(last - start, piece.records)
                    start += piece.records
                    if low < high:
                        yield piece.part(low, high)
                start = end

        return replace(self, records=last - first, pieces=pieces, parts=())

    def frames(self) -> Iterator[pl.DataFrame]:
        """Parses the table in order, a piece at a time. Raises: DataError, at the end, for values that are no cells."""
        findings = Findings()
        for piece in self.pieces():
            yield piece.parse()
            findings.merge(piece.findings)
        findings.raise_if_any()


def make_table(frame: pl.DataFrame, header: Sequence[str] | None = None) -> SourceTable:
    """Makes a table of rows that are parsed already; its header may name columns that are not read."""
    names = tuple(frame.columns if header is None else header)
    return SourceTable(header=names, records=frame.height, pieces=lambda: iter([make_piece(frame)]))


def choose_step(columns: int) -> int:
    """The number of records of so many columns to parse at a time."""
    return max(1, min(CHUNK, _MOST_CELLS // columns))
