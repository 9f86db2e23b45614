"""A table as it stands, checked against the specs' column names: every cell a string, nothing interpreted.

The end of the name says what kind of file it is: .npz (`dpwgan.data.arrays`), .parquet (`dpwgan.data.parquet`), and
CSV for every other name and for standard input.

Of CSV, read are plain text and gzip (told by its first bytes, not by the name), UTF-8 with or without a byte order
mark, LF or CRLF line endings, quoted cells as in RFC 4180. The text is held in memory as bytes and parsed a chunk of
records at a time.

Blank lines at the end of the file are ignored. In a table of one column for which an empty cell is legal, every
blank line is such a cell, those at the end included.
"""

import codecs
import csv
import gzip
import io
import sys
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from dpwgan.data.arrays import open_arrays
from dpwgan.data.findings import count_rows
from dpwgan.data.forms import get_form
from dpwgan.data.header import check_header as check_header
from dpwgan.data.parquet import open_parquet
from dpwgan.data.scan import Layout, scan
from dpwgan.data.source import SourceTable as SourceTable
from dpwgan.errors import DataError, DpwganError, InputError, TransferError
from dpwgan.schema import CategoricalColumn, NumericColumn, Schema, UndiscoveredColumn

_GZIP_MAGIC = b"\x1f\x8b"
_PIECE = 1 << 22


def open_table(path: str | Path, schema: Schema) -> SourceTable:
    """Reads a file and checks its form and its header, without parsing a cell.

    Privacy: of the rows only their number is used, which is public, and whether each has as many cells as the header.
    Raises: InputError if the file is missing or cannot be opened; TransferError if reading breaks off or the archive is
      damaged; DataError if it is no such table, has no rows, or its header and the specs differ.
    """
    form = get_form(path)
    if form == "npz":
        return open_arrays(read_bytes(path), schema, name=_say(path))
    if form == "parquet":
        return open_parquet(read_bytes(path), schema, name=_say(path))
    return _open_csv(path, schema)


def _open_csv(path: str | Path, schema: Schema) -> SourceTable:
    text = _read_text(path)
    layout = scan(text)
    _check_form(layout)
    header, line_ending = _read_first_record(text[: layout.starts[1]])
    check_header(header, schema)
    last = layout.records
    if len(header) > 1 or not _may_be_empty(schema.by_name[header[0]]):
        while last > 1 and layout.blank[last - 1]:
            last -= 1
    if last == 1:
        raise DataError("The table has a header but no rows.")
    ragged = int(np.count_nonzero(layout.cells[1:last] != len(header)))
    if ragged:
        raise DataError(f"The table has {count_rows(ragged)} without exactly {len(header)} cells.")
    return SourceTable(
        header=tuple(header),
        records=last - 1,
        line_ending=line_ending,
        _cut=partial(_parse, text, layout.starts[1 : last + 1], tuple(header)),
    )


def _parse(text: bytes, starts: npt.NDArray[np.int64], header: tuple[str, ...], first: int, last: int) -> pl.DataFrame:
    part = text[starts[first] : starts[last]]
    # The parser drops a byte order mark at the start of what it is given; one that opens a cell has to stay.
    if part.startswith(codecs.BOM_UTF8):
        part = codecs.BOM_UTF8 + part
    try:
        frame = pl.read_csv(part, has_header=False, schema=dict.fromkeys(header, pl.String), empty_string_is_null=False)
    except pl.exceptions.PolarsError:
        # Its own words may quote cells.
        raise DataError("The table cannot be parsed as CSV.") from None
    if frame.shape != (last - first, len(header)):
        raise DpwganError(f"The parser found {frame.height} records where the scan found {last - first}.")
    return frame


def read_header(path: str | Path) -> list[str]:
    """Reads the column names of a CSV file. Standard input is used up by this: take `open_table` there.

    Raises: as `open_table`, but for what concerns the specs.
    """
    text = _read_text(path)
    layout = scan(text)
    _check_form(layout)
    header, _ = _read_first_record(text[: layout.starts[1]])
    return header


def count_records(path: str | Path, schema: Schema) -> tuple[tuple[str, ...], int]:
    """Gives the checked header and the public number of records; no cell is parsed and no row is kept.

    Raises: as `open_table`.
    """
    table = open_table(path, schema)
    return table.header, table.records


def read_table(path: str | Path, schema: Schema) -> pl.DataFrame:
    """Reads a whole table as strings, in the order of its header.

    Raises: as `open_table`.
    """
    return open_table(path, schema).frame()


def _may_be_empty(column: object) -> bool:
    if isinstance(column, CategoricalColumn):
        return "" in column.tokens
    return isinstance(column, NumericColumn | UndiscoveredColumn) and "" in column.missing


def _say(path: str | Path) -> str:
    return "Standard input" if str(path) == "-" else f"The file {str(path)!r}"


def read_bytes(path: str | Path) -> bytes:
    """Reads a file or standard input whole, as it stands.

    Raises: InputError if it is missing or cannot be opened; TransferError if reading breaks off.
    """
    if str(path) == "-" and sys.stdin is None:
        raise InputError("Standard input is closed.")
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{_say(path)} does not exist.") from None
    except IsADirectoryError:
        raise InputError(f"{_say(path)} is a directory.") from None
    except PermissionError:
        raise InputError(f"{_say(path)} may not be read.") from None
    except OSError as error:
        raise TransferError(f"{_say(path)} could not be read to its end: {error.strerror}.") from None


def unpack_gzip(data: bytes, *, name: str) -> bytes:
    """Unpacks what is gzipped, told by its first bytes, and leaves all else alone. Raises: TransferError if damaged."""
    if not data.startswith(_GZIP_MAGIC):
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error):
        raise TransferError(f"{name} is a gzip archive that is cut short or damaged.") from None


def _read_text(path: str | Path) -> bytes:
    """Reads a file or standard input whole, unpacked, without its byte order mark, and known to be UTF-8."""
    name, data = _say(path), read_bytes(path)
    data = unpack_gzip(data, name=name).removeprefix(codecs.BOM_UTF8)
    if not data.strip():
        raise DataError(f"{name} is empty.")
    if b"\0" in data or not _is_utf8(data):
        raise DataError(f"{name} is not a text in UTF-8.")
    return data


def _is_utf8(data: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    view = memoryview(data)
    try:
        for low in range(0, len(view), _PIECE):
            decoder.decode(view[low : low + _PIECE], final=low + _PIECE >= len(view))
    except UnicodeDecodeError:
        return False
    return True


def _check_form(layout: Layout) -> None:
    if layout.open_quote:
        raise DataError("The table ends inside a quoted cell.")
    if layout.stray_quotes:
        raise DataError(f"The table has {layout.stray_quotes:,} quotes inside cells that are not quoted as a whole.")
    if layout.stray_returns:
        raise DataError(f"The table has {layout.stray_returns:,} carriage returns outside quotes and line endings.")


def _read_first_record(line: bytes) -> tuple[list[str], str]:
    header = next(csv.reader(io.StringIO(line.decode(), newline=""), strict=True), [])
    return header, "\r\n" if line.endswith(b"\r\n") else "\n"
