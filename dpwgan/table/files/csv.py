"""CSV of RFC 4180: a table's form is checked before any parser sees it, and it is never held in memory as a whole.

Read are plain text and gzip (told by its first bytes, not by the name), UTF-8 with or without a byte order mark, LF or
CRLF line endings, and cells that are quoted as a whole or not at all. The text is gone over twice, a piece at a time:
once to count records, before anything private is done, and once to parse them. So a damaged file is refused by a rule
of ours, and no parser's own message, which may quote the text, is ever needed.

Blank lines at the end of the file are ignored. In a table of one column for which an empty cell is legal, every
blank line is such a cell, those at the end included.
Source: Shafranovich 2005, RFC 4180, section 2.
"""

import codecs
import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from dpwgan.array_types import Integers
from dpwgan.errors import DataError, DpwganError, say_count
from dpwgan.table.files.stream import ByteStream
from dpwgan.table.findings import check_header, count_rows
from dpwgan.table.schema import Schema
from dpwgan.table.source import Piece, SourceTable

LONGEST_RECORD = 1 << 26
"""A record of more bytes than this is an open quote somewhere, or no table."""

SEGMENT = 1 << 22
"""Bytes that are parsed at a time: enough for a parser to be efficient, little beside what it makes of them."""

_NEAR = 1 << 16
_QUOTE, _COMMA, _NEWLINE, _RETURN = b'",\n\r'
_UNREADABLE = "{name} is not a text in UTF-8: docs/specs.md (CSV) says how another becomes one."
_KINDS = {
    b"PK\x03\x04": "{name} is a workbook or another archive, not a text: save the table as CSV in UTF-8.",
    **dict.fromkeys((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "{name} is a text in UTF-16: save it in UTF-8."),
}
"""By its first bytes, what else is often taken for a table."""
_MARK_BYTES = max(map(len, _KINDS))


def open_csv(path: str | Path, schema: Schema) -> SourceTable:
    """Opens a CSV file or standard input as a table, without parsing a cell.

    Raises: as `dpwgan.table.files.reader.open_table`.
    """
    stream = ByteStream(path)
    found = find_records(stream)
    header = found.header
    check_header(header, schema)
    drops_blank = len(header) > 1 or "" not in schema.by_name[header[0]].listed
    records = found.count - 1 - found.blank * drops_blank
    # Blank lines at the end are no records; they were counted as ragged where the header has more cells than one.
    ragged = found.ragged - found.blank * (len(header) > 1)
    if ragged:
        title = "" if len(header) > 1 else ": is its first line a title, and not the header?"
        raise DataError(f"The table has {count_rows(ragged)} without exactly {say_count(len(header), 'cell')}{title}")
    return SourceTable(
        header=header,
        records=records,
        line_ending=found.line_ending,
        pieces=partial(_read_pieces, stream, found, read=tuple(filter(schema.is_read, header)), records=records),
    )


@dataclass
class Records:
    """What is known of a CSV stream's records after one pass.

    `mark_bytes` are those of a byte order mark before the header, `header_bytes` those of the header's line.
    `begins_with`: the first few bytes behind it.
    `segments` are (bytes, records) of runs of whole records, the header's and any blank lines at the end included.
    `ragged` counts records without as many cells as the header; `blank` the blank lines at the end, which are among
    them unless the header has one cell.
    """

    header: tuple[str, ...] = ()
    line_ending: str = "\n"
    mark_bytes: int = 0
    header_bytes: int = 0
    begins_with: bytes = b""
    segments: list[tuple[int, int]] = field(default_factory=list)
    ragged: int = 0
    blank: int = 0
    stray_quotes: int = 0
    stray_returns: int = 0
    open_quote: bool = False

    @property
    def count(self) -> int:
        """Number of records, the header and blank lines included."""
        return sum(records for _, records in self.segments)

    def add(self, size: int, records: int) -> None:
        """Adds whole records of so many bytes to those that are parsed together, or begins a new segment."""
        if self.segments and self.segments[-1][0] + size <= SEGMENT:
            before = self.segments.pop()
            size, records = before[0] + size, before[1] + records
        self.segments.append((size, records))


def find_records(stream: ByteStream) -> Records:
    """Goes over a CSV text once.

    Raises: DataError if it is empty, no UTF-8, or breaks the rules of quoting; whatever reading raises.
    """
    found = Records()
    is_blank = True
    for segment in _cut(stream, found):
        if not segment.isascii():
            try:
                segment.decode("utf-8")
            except UnicodeDecodeError:
                raise _refuse(stream, found) from None
        is_blank = is_blank and not segment.strip()
        if not found.segments:
            _read_header(segment, found)
        _count_records(segment, found)
    if is_blank:
        raise DataError(f"{stream.name} is empty.")
    if found.open_quote:
        raise DataError("The table ends inside a quoted cell.")
    if found.stray_quotes:
        raise DataError(
            f"The table has {say_count(found.stray_quotes, 'quote')} inside cells that are not quoted as a whole: are "
            "its cells separated by commas? docs/specs.md (CSV) says how others are turned"
        )
    if found.stray_returns:
        raise DataError(
            f"The table has {say_count(found.stray_returns, 'carriage return')} outside quotes and line endings."
        )
    return found


def _refuse(stream: ByteStream, found: Records) -> DataError:
    """Says that bytes are no text in UTF-8, and what they are where the first of them tell."""
    said = next((said for mark, said in _KINDS.items() if found.begins_with.startswith(mark)), _UNREADABLE)
    return DataError(said.format(name=stream.name))


def _cut(stream: ByteStream, found: Records) -> Iterator[bytes]:
    """Cuts the text into segments of whole records. Each piece is looked at once, however long a record is."""
    held: list[bytes] = []
    size, inside = 0, False
    for index, piece in enumerate(stream.pieces()):
        if index == 0 and piece.startswith(codecs.BOM_UTF8):
            found.mark_bytes = len(codecs.BOM_UTF8)
            piece = piece[found.mark_bytes :]
        found.begins_with = (found.begins_with + piece[:_MARK_BYTES])[:_MARK_BYTES]
        if b"\0" in piece:
            raise _refuse(stream, found)
        quotes = piece.count(b'"')
        ends_inside = inside ^ bool(quotes % 2)
        end = _find_end(piece, inside=ends_inside) if quotes else 0 if inside else piece.rfind(b"\n") + 1
        if end:
            yield b"".join((*held, piece[:end]))
            held, size = [], 0
        held.append(piece[end:])
        size, inside = size + len(piece) - end, ends_inside
        if size > LONGEST_RECORD:
            raise DataError(f"The table has a record of more than {LONGEST_RECORD >> 20} MB: is a quote not closed?")
    if size:
        yield b"".join(held)


def _find_end(piece: bytes, *, inside: bool) -> int:
    """Where the last whole record of a piece ends, 0 where none does; `inside` quotes is where the piece ends."""
    # Backwards: a line ending is one of a record where the quotes after it leave it outside of them. Near the end there
    # is one but for long records and open quotes.
    for start in (max(0, len(piece) - _NEAR), 0):
        data = np.frombuffer(piece, np.uint8, offset=start)[::-1]
        odd = np.bitwise_xor.accumulate((data == _QUOTE).view(np.uint8))
        ends = np.flatnonzero((data == _NEWLINE) & (odd == inside))
        if len(ends):
            return len(piece) - int(ends[0])
    return 0


def _read_header(segment: bytes, found: Records) -> None:
    text = io.StringIO(segment.decode(), newline="")
    try:
        found.header = tuple(next(csv.reader(text, strict=True), []))
    except csv.Error:  # it breaks the rules of quoting, which is told when all breaches are counted
        found.header = ()
    line = text.getvalue()[: text.tell()]
    found.header_bytes = len(line.encode())
    found.line_ending = "\r\n" if line.endswith("\r\n") else "\n"


def _count_records(segment: bytes, found: Records) -> None:
    """Adds what is to be known of whole records."""
    data = np.frombuffer(segment, np.uint8)
    is_comma, is_newline, is_return = data == _COMMA, data == _NEWLINE, data == _RETURN
    if b'"' in segment:
        is_quote = data == _QUOTE
        # 1 from an opening quote up to its closing one: outside of quotes the number of quotes so far is even.
        inside = np.bitwise_xor.accumulate(is_quote.view(np.uint8))
        quotes = np.flatnonzero(is_quote)
        found.stray_quotes += _count_stray_quotes(data, quotes, inside[quotes])
        found.open_quote = bool(inside[-1])
        for flags in (is_comma, is_newline, is_return):
            flags &= inside == 0
    starts = np.append(0, np.flatnonzero(is_newline) + 1)
    if starts[-1] == len(data):
        starts = starts[:-1]
    commas = np.add.reduceat(is_comma, starts, dtype=np.uint16)
    if commas.sum() != np.count_nonzero(is_comma):  # a line has too many for 16 bits, which are twice as fast as 32
        commas = np.add.reduceat(is_comma, starts, dtype=np.uint32)
    cells = commas + np.uint32(1)
    found.ragged += int(np.count_nonzero(cells != len(found.header)))
    if is_return.any():
        found.stray_returns += int(np.count_nonzero(_byte_at(data, np.flatnonzero(is_return) + 1) != _NEWLINE))
    found.add(len(segment), len(starts))
    first, second = _byte_at(data, starts), _byte_at(data, starts + 1)
    filled = np.flatnonzero((first != _NEWLINE) & ((first != _RETURN) | (second != _NEWLINE)))
    found.blank = len(starts) - 1 - int(filled[-1]) if len(filled) else found.blank + len(starts)


def _byte_at(data: npt.NDArray[np.uint8], positions: Integers) -> npt.NDArray[np.uint8]:
    """Reads bytes by position; beyond either end stands a newline, as if the text lay between two line endings."""
    within = (positions >= 0) & (positions < len(data))
    found = np.full(len(positions), _NEWLINE, dtype=np.uint8)
    found[within] = data[positions[within]]
    return found


def _count_stray_quotes(data: npt.NDArray[np.uint8], positions: Integers, opens: npt.NDArray[np.uint8]) -> int:
    border = np.zeros(256, dtype=bool)
    border[[_QUOTE, _COMMA, _NEWLINE]] = True
    before, after = _byte_at(data, positions - 1), _byte_at(data, positions + 1)
    line_ends = (after == _RETURN) & (_byte_at(data, positions + 2) == _NEWLINE)
    fits = np.where(opens == 1, border[before], border[after] | line_ends)
    return int(np.count_nonzero(~fits))


def _read_pieces(stream: ByteStream, found: Records, *, read: tuple[str, ...], records: int) -> Iterator[Piece]:
    """Goes over the text again, which has to be the one that was gone over before, for the columns that are read."""
    sizes = [size for size, _ in found.segments]
    sizes[0] += found.mark_bytes
    texts = stream.pieces(sizes)
    for index, (size, (_, count)) in enumerate(zip(sizes, found.segments, strict=True)):
        text = next(texts, b"")
        if len(text) != size:
            raise DataError(f"{stream.name} was changed while it was read.")
        if index == 0:
            text, count = text[found.mark_bytes + found.header_bytes :], count - 1
        if count > records:  # blank lines at the end
            text, count = text.rstrip(b"\r\n"), records
        if count:
            records -= count
            yield Piece(records=count, parse=partial(_parse, text, found.header, read, count))


def _parse(text: bytes, header: tuple[str, ...], read: tuple[str, ...], records: int) -> pl.DataFrame:
    """Gives every cell of some columns of whole records, whose form is known to be sound, as it stands."""
    # The parser drops a byte order mark at the start of what it is given; one that opens a cell has to stay.
    if text.startswith(codecs.BOM_UTF8):
        text = codecs.BOM_UTF8 + text
    types = dict.fromkeys(header, pl.String())
    try:
        columns = None if read == header else [header.index(name) for name in read]
        frame = pl.read_csv(text, has_header=False, schema=types, columns=columns, empty_string_is_null=False)
    except pl.exceptions.PolarsError:
        # Its own words may quote cells.
        raise DataError("The table cannot be parsed as CSV.") from None
    if frame.shape != (records, len(read)):
        raise DpwganError(f"The parser found {frame.height} records where the scan found {records}.")
    return frame


def write_header(header: Sequence[str], line_ending: str) -> bytes:
    """The line of the names."""
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator=line_ending).writerow(header)
    return line.getvalue().encode()


def write_rows(frame: pl.DataFrame, line_ending: str) -> bytes:
    """The lines of a frame of text; cells are quoted only where they have to be."""
    # An empty string would be written as "", and a null as nothing. Nothing is what other programs write; only in a
    # table of one column would it be a blank line, which readers skip.
    if frame.width > 1:
        empty = (cells.name for cells in frame if isinstance(cells.dtype, pl.Enum) and "" in cells.dtype.categories)
        frame = frame.cast(dict.fromkeys(empty, pl.String))
        frame = frame.with_columns(pl.when(pl.col(pl.String) != "").then(pl.col(pl.String)))
    written = io.BytesIO()
    frame.write_csv(written, include_header=False, line_terminator=line_ending, quote_style="necessary")
    return written.getvalue()
