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
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import polars as pl

from dpwgan.errors import DataError, DpwganError
from dpwgan.table.arrays import open_arrays
from dpwgan.table.findings import count_rows
from dpwgan.table.forms import get_form
from dpwgan.table.header import check_header
from dpwgan.table.parquet import open_parquet
from dpwgan.table.records import Records, find_records, read_segments
from dpwgan.table.schema import CategoricalColumn, NumericColumn, Schema, UndiscoveredColumn
from dpwgan.table.source import Piece, SourceTable
from dpwgan.table.stream import ByteStream, read_bytes, say


def open_table(path: str | Path, schema: Schema) -> SourceTable:
    """Reads a file and checks its form and its header, without parsing a cell.

    Privacy: of the rows only their number is used, which is public, and whether each has as many cells as the header.
    Raises: InputError if the file is missing or cannot be opened; TransferError if reading breaks off or the archive is
      damaged; DataError if it is no such table, has no rows, or its header and the specs differ.
    """
    form = get_form(path)
    if form == "npz":
        return open_arrays(read_bytes(path), schema, name=say(path))
    if form == "parquet":
        return open_parquet(path, schema, name=say(path))
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
    return SourceTable(
        header=header,
        records=records,
        line_ending=found.line_ending,
        pieces=partial(_read_pieces, stream, found, records=records),
    )


def _read_pieces(stream: ByteStream, found: Records, *, records: int) -> Iterator[Piece]:
    for text, count in read_segments(stream, found):
        if count > records:
            text, count = text.rstrip(b"\r\n"), records
        if count:
            records -= count
            yield Piece(records=count, parse=partial(_parse, text, found.header, count))


def _parse(text: bytes, header: tuple[str, ...], records: int) -> pl.DataFrame:
    """Gives every cell of whole records, whose form is known to be sound, as it stands."""
    # The parser drops a byte order mark at the start of what it is given; one that opens a cell has to stay.
    if text.startswith(codecs.BOM_UTF8):
        text = codecs.BOM_UTF8 + text
    types = dict.fromkeys(header, pl.String())
    try:
        frame = pl.read_csv(text, has_header=False, schema=types, empty_string_is_null=False)
    except pl.exceptions.PolarsError:
        # Its own words may quote cells.
        raise DataError("The table cannot be parsed as CSV.") from None
    if frame.shape != (records, len(header)):
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
