"""A CSV file as it stands, checked against the specs' column names: every cell a string, nothing interpreted.

Read are .csv and gzip (told by its first bytes, not by the name), UTF-8 with or without a byte order mark, LF or CRLF
line endings, quoted cells as in RFC 4180. The text is held in memory as bytes and parsed a chunk of records at a time.

Blank lines at the end of the file are ignored. In a table of one column for which an empty cell is legal, every
blank line is such a cell, those at the end included.
"""

import codecs
import csv
import gzip
import io
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from dpwgan.data.findings import count_rows
from dpwgan.data.scan import Layout, scan
from dpwgan.errors import DataError, DpwganError, InputError, TransferError
from dpwgan.schema import CategoricalColumn, NumericColumn, Schema, UndiscoveredColumn

CHUNK = 65_536

_GZIP_MAGIC = b"\x1f\x8b"
_MOST_NAMES = 10
_PIECE = 1 << 22


@dataclass(frozen=True, kw_only=True)
class SourceTable:
    """A table that is read but not yet parsed: its header, its number of records and its text.

    `line_ending` is that of the header line, for an output that looks like the input.
    Privacy: the header and `records` are public; the rest is not, and does not show in the representation.
    """

    header: tuple[str, ...]
    records: int
    line_ending: str
    _text: bytes = field(repr=False)
    _starts: npt.NDArray[np.int64] = field(repr=False)

    def frame(self) -> pl.DataFrame:
        """Parses the whole table: one string column a header name, cells as they stand, "" where empty."""
        return self._parse(0, self.records)

    def frames(self, *, records: int = CHUNK) -> Iterator[pl.DataFrame]:
        """Parses the table in chunks of at most `records` records, in order."""
        for first in range(0, self.records, records):
            yield self._parse(first, min(first + records, self.records))

    def _parse(self, first: int, last: int) -> pl.DataFrame:
        text = self._text[self._starts[first] : self._starts[last]]
        # The parser drops a byte order mark at the start of what it is given; one that opens a cell has to stay.
        if text.startswith(codecs.BOM_UTF8):
            text = codecs.BOM_UTF8 + text
        try:
            frame = pl.read_csv(
                text, has_header=False, schema=dict.fromkeys(self.header, pl.String), empty_string_is_null=False
            )
        except pl.exceptions.PolarsError:
            # Its own words may quote cells.
            raise DataError("The table cannot be parsed as CSV.") from None
        if frame.shape != (last - first, len(self.header)):
            raise DpwganError(f"The parser found {frame.height} records where the scan found {last - first}.")
        return frame


def open_table(path: str | Path, schema: Schema) -> SourceTable:
    """Reads a CSV file and checks its form and its header, without parsing a cell.

    Privacy: of the rows only their number is used, which is public, and whether each has as many cells as the header.
    Raises: InputError if the file is missing or cannot be opened; TransferError if reading breaks off or the archive is
      damaged; DataError if the text is not such a CSV, has no rows, or its header and the specs differ.
    """
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
        _text=text,
        _starts=layout.starts[1 : last + 1],
    )


def read_header(path: str | Path) -> list[str]:
    """Reads the column names. Standard input is used up by this: take `open_table` there.

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


def check_header(header: Sequence[str], schema: Schema) -> None:
    """Checks that the header names every column of the specs once and nothing else.

    Privacy: in a file without a header line the first record stands in its place. A name that is not in the specs is
      therefore told only where most of the header is.
    Raises: DataError, naming the columns.
    """
    known = [name for name in header if name in schema.by_name]
    absent = [column.name for column in schema.columns if column.name not in header]
    if not known:
        raise DataError(
            f"The first line names none of the columns in the specs ({_list_names(absent)}): is it a header?"
        )
    faults = []
    repeated = [name for name, times in Counter(known).items() if times > 1]
    if repeated:
        faults.append(f"the header repeats {_list_names(repeated)}")
    unknown = [name for name in header if name not in schema.by_name]
    if unknown and len(unknown) < len(known):
        faults.append(f"the specs do not have {_list_names(unknown)}")
    elif unknown:
        faults.append(f"the specs do not have {len(unknown)} of the names in the first line")
    if absent:
        faults.append(f"the header does not have {_list_names(absent)}")
    if faults:
        raise DataError(f"The header and the specs differ: {'; '.join(faults)}.")


def _list_names(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_MOST_NAMES])
    left = len(names) - _MOST_NAMES
    return f"{shown} and {left} more" if left > 0 else shown


def _may_be_empty(column: object) -> bool:
    if isinstance(column, CategoricalColumn):
        return "" in column.tokens
    return isinstance(column, NumericColumn | UndiscoveredColumn) and "" in column.missing


def _read_text(path: str | Path) -> bytes:
    """Reads a file or standard input whole, unpacked, without its byte order mark, and known to be UTF-8."""
    if str(path) == "-" and sys.stdin is None:
        raise InputError("Standard input is closed.")
    name = "Standard input" if str(path) == "-" else f"The file {str(path)!r}"
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{name} does not exist.") from None
    except IsADirectoryError:
        raise InputError(f"{name} is a directory.") from None
    except PermissionError:
        raise InputError(f"{name} may not be read.") from None
    except OSError as error:
        raise TransferError(f"{name} could not be read to its end: {error.strerror}.") from None
    if data.startswith(_GZIP_MAGIC):
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error):
            raise TransferError(f"{name} is a gzip archive that is cut short or damaged.") from None
    data = data.removeprefix(codecs.BOM_UTF8)
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
