"""The records of a CSV stream, found without holding more than a piece of it: how many, how sound, and where to cut.

The stream is gone over twice: once to count, before anything private is done, and once to parse. Segments found the
first time, each of whole records, are what is parsed the second time.
"""

import codecs
import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from dpwgan.errors import DataError
from dpwgan.table.scan import scan
from dpwgan.table.stream import ByteStream

LONGEST_RECORD = 1 << 26
"""A record of more bytes than this is an open quote somewhere, or no table."""

SEGMENT = 1 << 22
"""Bytes that are parsed at a time: enough for a parser to be efficient, little beside what it makes of them."""

_COMMA, _NEWLINE, _RETURN = b",\n\r"
_MOST_IN_BYTES = 256
_UNREADABLE = "{name} is not a text in UTF-8."


@dataclass
class Records:
    """What is known of a CSV stream's records after one pass.

    `mark_bytes` are those of a byte order mark before the header, `header_bytes` those of the header's line.
    `segments` are (bytes, records) of runs of whole records, the header's and any blank lines at the end included.
    `ragged` counts records without as many cells as the header; `blank` the blank lines at the end, which are among
    them unless the header has one cell.
    """

    header: tuple[str, ...] = ()
    line_ending: str = "\n"
    mark_bytes: int = 0
    header_bytes: int = 0
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
        """Adds whole records of so many bytes to those that are parsed together, or begins anew."""
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
    for segment, is_last in _cut(stream, found):
        if not segment.isascii():
            try:
                segment.decode("utf-8")
            except UnicodeDecodeError:
                raise DataError(_UNREADABLE.format(name=stream.name)) from None
        is_blank = is_blank and not segment.strip()
        if not found.segments:
            _read_header(segment, found)
        if not _add_plain(segment, found, is_last=is_last):
            _add_scanned(segment, found)
    if is_blank:
        raise DataError(f"{stream.name} is empty.")
    _check_form(found)
    return found


def read_segments(stream: ByteStream, found: Records) -> Iterator[tuple[bytes, int]]:
    """Goes over the text again: the bytes and the number of each segment's records, without the header.

    Raises: DataError if the text is not the one that was gone over before; whatever reading raises.
    """
    sizes = [size for size, _ in found.segments]
    sizes[0] += found.mark_bytes
    texts = stream.pieces(sizes)
    for index, (size, (_, records)) in enumerate(zip(sizes, found.segments, strict=True)):
        text = next(texts, b"")
        if len(text) != size:
            raise DataError(f"{stream.name} was changed while it was read.")
        if index == 0:
            yield text[found.mark_bytes + found.header_bytes :], records - 1
        else:
            yield text, records


def _cut(stream: ByteStream, found: Records) -> Iterator[tuple[bytes, bool]]:
    """Cuts the text into segments of whole records, and says which is the last one.

    The last one is what follows the last line ending outside of quotes in all pieces but the last.
    """
    held = b""
    for piece in _read_text(stream, found):
        if b"\0" in piece:
            raise DataError(_UNREADABLE.format(name=stream.name))
        if held:
            end = _find_end(held)
            if end:
                yield held[:end], False
            held = held[end:]
            if len(held) > LONGEST_RECORD:
                raise DataError(
                    f"The table has a record of more than {LONGEST_RECORD >> 20} MB: is a quote not closed?"
                )
        held += piece
    while end := _find_end(held, final=True):
        yield held[:end], end == len(held)
        held = held[end:]


def _find_end(text: bytes, *, final: bool = False) -> int:
    """Gives where the last whole record of a text ends, 0 where none does; the end of the text itself is none yet."""
    if final:
        return len(text)
    if b'"' not in text:
        return text.rfind(b"\n") + 1
    # A line ending is one of a record where the number of quotes before it is even.
    end = len(text)
    quotes = text.count(b'"')
    while (newline := text.rfind(b"\n", 0, end)) >= 0:
        quotes -= text.count(b'"', newline, end)
        if quotes % 2 == 0:
            return newline + 1
        end = newline
    return 0


def _read_text(stream: ByteStream, found: Records) -> Iterator[bytes]:
    """Gives the text without its byte order mark."""
    for index, piece in enumerate(stream.pieces()):
        text = piece.removeprefix(codecs.BOM_UTF8) if index == 0 else piece
        found.mark_bytes += len(piece) - len(text)
        yield text


def _read_header(segment: bytes, found: Records) -> None:
    end = _find_first_end(segment)
    line = segment[:end]
    found.header_bytes = end
    found.line_ending = "\r\n" if line.endswith(b"\r\n") else "\n"
    try:
        found.header = tuple(next(csv.reader(io.StringIO(line.decode(), newline=""), strict=True), []))
    except csv.Error:  # it breaks the rules of quoting, which is told when all breaches are counted
        found.header = ()


def _find_first_end(segment: bytes) -> int:
    end = 0
    while True:
        newline = segment.find(b"\n", end)
        if newline < 0:
            return len(segment)
        end = newline + 1
        if segment.count(b'"', 0, end) % 2 == 0:
            return end


def _add_plain(segment: bytes, found: Records, *, is_last: bool) -> bool:
    """Counts a segment of nothing but records of the header's width, without a quote, and says whether it was one."""
    width = len(found.header)
    if width < 2 or b'"' in segment:
        return False
    data = np.frombuffer(segment, np.uint8)
    ends = np.flatnonzero(data == _NEWLINE)
    starts = np.append(0, ends + 1)
    if starts[-1] == len(data):
        starts = starts[:-1]
    records, commas = len(starts), (data == _COMMA).view(np.uint8)
    # Sums of bytes are fast and forget multiples of 256. Where each record has the right number of commas but for such
    # a multiple, and all together have as many as they should, none has more, since none could have fewer.
    kind = np.uint8 if width <= _MOST_IN_BYTES else np.uint32
    if np.count_nonzero(commas) != records * (width - 1):
        return False
    if np.any(np.add.reduceat(commas, starts, dtype=kind) != width - 1):
        return False
    if b"\r" in segment:
        # Each record has a comma, so that something stands before its end.
        at_ends = int(np.count_nonzero(data.take(ends - 1) == _RETURN)) + (is_last and segment.endswith(b"\r"))
        found.stray_returns += segment.count(b"\r") - at_ends
    found.add(len(segment), records)
    found.blank = 0
    return True


def _add_scanned(segment: bytes, found: Records) -> None:
    layout = scan(segment)
    found.stray_quotes += layout.stray_quotes
    found.stray_returns += layout.stray_returns
    found.open_quote = layout.open_quote
    found.ragged += int(np.count_nonzero(layout.cells != len(found.header)))
    found.add(len(segment), layout.records)
    filled = np.flatnonzero(~layout.blank)
    found.blank = layout.records - 1 - int(filled[-1]) if len(filled) else found.blank + layout.records


def _check_form(found: Records) -> None:
    if found.open_quote:
        raise DataError("The table ends inside a quoted cell.")
    if found.stray_quotes:
        raise DataError(f"The table has {found.stray_quotes:,} quotes inside cells that are not quoted as a whole.")
    if found.stray_returns:
        raise DataError(f"The table has {found.stray_returns:,} carriage returns outside quotes and line endings.")
