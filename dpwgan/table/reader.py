"""A table as it stands, checked against the specs' column names: every cell a string, nothing interpreted.

The end of the name says what kind of file it is: .npz (`dpwgan.table.arrays`), .parquet (`dpwgan.table.parquet`), and
CSV for every other name and for standard input.

Of CSV, read are plain text and gzip (told by its first bytes, not by the name), UTF-8 with or without a byte order
mark, LF or CRLF line endings, quoted cells as in RFC 4180. The text is read a piece at a time, once to count its
records and once to parse them: it is never held whole.

Blank lines at the end of the file are ignored. In a table of one column for which an empty cell is legal, every
blank line is such a cell, those at the end included.
"""

import codecs
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import polars as pl

from dpwgan.errors import DataError, DpwganError
from dpwgan.table.arrays import open_arrays
from dpwgan.table.findings import count_rows
from dpwgan.table.forms import get_form
from dpwgan.table.header import check_header
from dpwgan.table.numeric import find_number_columns, holds_numbers
from dpwgan.table.parquet import open_parquet
from dpwgan.table.records import Records, find_records, read_segments
from dpwgan.table.schema import CategoricalColumn, IdentifierColumn, NumericColumn, Schema, UndiscoveredColumn
from dpwgan.table.source import Piece, SourceTable
from dpwgan.table.stream import ByteStream, read_bytes, say


def open_table(path: str | Path, schema: Schema, *, look_at_cells: bool = True) -> SourceTable:
    """Reads a file and checks its form and its header, without parsing a cell of CSV.

    `look_at_cells`: whether those of Parquet, which have types, are gone over as well, as for a run and not for a plan.
    Privacy: of the rows only their number is used, which is public, and whether each has as many cells as the header.
    Raises: InputError if the file is missing or cannot be opened; TransferError if reading breaks off or the archive is
      damaged; DataError if it is no such table, has no rows, or its header and the specs differ.
    """
    form = get_form(path)
    if form == "npz":
        return open_arrays(read_bytes(path), schema, name=say(path))
    if form == "parquet":
        return open_parquet(path, schema, name=say(path), look_at_cells=look_at_cells)
    return _open_csv(path, schema)


def _open_csv(path: str | Path, schema: Schema) -> SourceTable:
    stream = ByteStream(path)
    found = find_records(stream)
    header = found.header
    check_header(header, schema)
    drops_blank = len(header) > 1 or not _may_be_empty(schema.by_name[header[0]])
    records = found.count - 1 - found.blank * drops_blank
    # Blank lines at the end are no records; they were counted as ragged where the header has more cells than one.
    ragged = found.ragged - found.blank * (len(header) > 1)
    if records < 1:
        raise DataError("The table has a header but no rows.")
    if ragged:
        raise DataError(f"The table has {count_rows(ragged)} without exactly {len(header)} cells.")
    parser = _Parser(header, schema)
    return SourceTable(
        header=header,
        records=records,
        line_ending=found.line_ending,
        pieces=partial(_read_pieces, stream, found, parser, records=records),
    )


def _read_pieces(stream: ByteStream, found: Records, parser: "_Parser", *, records: int) -> Iterator[Piece]:
    for text, count in read_segments(stream, found):
        if count > records:
            text, count = text.rstrip(b"\r\n"), records
        if not count:
            continue
        records -= count
        yield Piece(
            records=count,
            parse=partial(parser.parse, text, count),
            parse_numbers=partial(parser.parse_numbers, text, count),
            text=text if parser.reads_whole_numbers else None,
        )


class _Parser:
    """Parses whole records, whose form is known to be sound."""

    def __init__(self, header: tuple[str, ...], schema: Schema) -> None:
        self._header = header
        self._numbers = find_number_columns(schema)
        # With one column, a blank line is a cell, or none.
        self.reads_whole_numbers = len(header) > 1 and all(
            name in self._numbers and self._numbers[name].is_integer()
            for name in header
            if not isinstance(schema.by_name[name], IdentifierColumn)
        )

    def parse(self, text: bytes, records: int) -> pl.DataFrame:
        """Gives every cell as it stands."""
        try:
            return self._read(text, records, {})
        except pl.exceptions.PolarsError:
            # Its own words may quote cells.
            raise DataError("The table cannot be parsed as CSV.") from None

    def parse_numbers(self, text: bytes, records: int) -> pl.DataFrame:
        """Gives columns of numbers and of listed cells as such, unless a cell of theirs is none."""
        numbers = self._numbers
        if not numbers:
            return self.parse(text, records)
        try:
            frame = self._read(text, records, numbers)
        except pl.exceptions.PolarsError:
            # Some cell is not listed, or else is no plain number; the same is to be expected of the rows that follow.
            fewer = {name: kind for name, kind in numbers.items() if kind != pl.Enum}
            self._numbers = fewer if len(fewer) < len(numbers) else {}
            return self.parse_numbers(text, records)
        kept = {name: kind for name, kind in numbers.items() if holds_numbers(frame.get_column(name), text)}
        return frame if len(kept) == len(numbers) else self._read(text, records, kept)

    def _read(self, text: bytes, records: int, numbers: Mapping[str, pl.DataType]) -> pl.DataFrame:
        # The parser drops a byte order mark at the start of what it is given; one that opens a cell has to stay.
        if text.startswith(codecs.BOM_UTF8):
            text = codecs.BOM_UTF8 + text
        types = {name: numbers.get(name, pl.String()) for name in self._header}
        frame = pl.read_csv(text, has_header=False, schema=types, empty_string_is_null=False)
        if frame.shape != (records, len(self._header)):
            raise DpwganError(f"The parser found {frame.height} records where the scan found {records}.")
        return frame


def read_table(path: str | Path, schema: Schema) -> pl.DataFrame:
    """Reads a whole table as strings, in the order of its header.

    Raises: as `open_table`.
    """
    return open_table(path, schema).frame()


def _may_be_empty(column: object) -> bool:
    if isinstance(column, CategoricalColumn):
        return "" in column.tokens
    return isinstance(column, NumericColumn | UndiscoveredColumn) and "" in column.missing
