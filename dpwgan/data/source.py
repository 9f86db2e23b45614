"""A private table before its cells are parsed, whatever kind of file it came from."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import polars as pl

CHUNK = 65_536
"""Most records that are parsed at a time."""

_MOST_CELLS = 1 << 22
"""Most cells that are parsed at a time: each takes 16 bytes or more as text, and a row of pixels has many."""


@dataclass(frozen=True, kw_only=True)
class SourceTable:
    """A table that is read but not yet parsed: its header, its number of records and how to cut rows out of it.

    `line_ending` is that of the header line, for an output that looks like the input.
    Privacy: the header and `records` are public; the rest is not, and does not show in the representation.
    """

    header: tuple[str, ...]
    records: int
    line_ending: str = "\n"
    _cut: Callable[[int, int], pl.DataFrame] = field(repr=False)

    def frame(self) -> pl.DataFrame:
        """Parses the whole table: one string column a header name, cells as they stand, "" where empty."""
        return self._cut(0, self.records)

    def part(self, first: int, last: int) -> "SourceTable":
        """Gives the table of the rows from `first` to just before `last`; no other row of it is ever parsed."""
        return replace(self, records=last - first, _cut=lambda low, high: self._cut(first + low, first + high))

    def frames(self, *, records: int | None = None) -> Iterator[pl.DataFrame]:
        """Parses the table in chunks of at most `records` records, in order; by default as many as memory bears."""
        step = max(1, min(CHUNK, _MOST_CELLS // len(self.header))) if records is None else records
        for first in range(0, self.records, step):
            yield self._cut(first, min(first + step, self.records))
