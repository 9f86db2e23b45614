"""Rows whose cells are digits or nothing: from bytes to numbers, many rows at once and no cell by itself.

Separators are found, and each cell's digits lie before its separator, the last one first. Whatever else is in the text
(a sign, a point, a blank, a quote, a letter) makes it none of these, and the parser's.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

EMPTY = -1
"""What stands for an empty cell."""

# Bytes that are worked on at a time: what is made of them stays in the processor's cache.
_BLOCK = 1 << 18

_MOST_DIGITS = 9
_ZERO, _COMMA, _NEWLINE, _RETURN = b"0,\n\r"


class OtherCellsError(ValueError):
    """There is a cell that is not just digits, at most nine of them."""


def read_digits(text: bytes, *, width: int) -> Iterator[npt.NDArray[np.intp]]:
    """Reads whole records of `width` cells each, in blocks.

    Shapes: gives (some records, width) numbers, `EMPTY` where a cell is empty; all blocks make up the text.
    Raises: OtherCellsError at the first block with anything but digits, commas and line endings.
    """
    text = _drop_returns(text) if b"\r" in text else text
    start = 0
    while start < len(text):
        end = text.rfind(b"\n", start, start + _BLOCK) + 1 or text.find(b"\n", start) + 1 or len(text)
        yield _read_block(text[start:end], width)
        start = end


def _drop_returns(text: bytes) -> bytes:
    """Gives a text whose lines end in CRLF as one whose lines end in LF."""
    data = np.frombuffer(text, np.uint8)
    at = np.flatnonzero(data == _RETURN)
    if at[-1] + 1 == len(data) or (data.take(at + 1) != _NEWLINE).any():
        raise OtherCellsError
    return text.replace(b"\r", b"")


def _read_block(text: bytes, width: int) -> npt.NDArray[np.intp]:
    # Room before the first cell, so that a digit of every place can be asked for.
    padded = b"\n" * (_MOST_DIGITS + 1) + text + b"\n" * (not text.endswith(b"\n"))
    data = np.frombuffer(padded, np.uint8)[_MOST_DIGITS + 1 :]
    at = np.flatnonzero(data - np.uint8(_ZERO) > 9)
    # All that is no digit ends a cell, and of these the last of each record, and only it, is a line feed.
    records, line_feeds = len(at) // width, np.count_nonzero(data == _NEWLINE)
    if len(at) != records * width or line_feeds + np.count_nonzero(data == _COMMA) != len(at):
        raise OtherCellsError
    if line_feeds != records or (data.take(at[width - 1 :: width]) != _NEWLINE).any():
        raise OtherCellsError

    def digits(place: int, at: npt.NDArray[np.intp]) -> npt.NDArray[np.uint8]:
        """Gives the digits so many places before some separators; above 9 where another separator stands there."""
        found: npt.NDArray[np.uint8] = np.frombuffer(padded, np.uint8)[_MOST_DIGITS + 1 - place :].take(at)
        found -= np.uint8(_ZERO)
        return found

    ones, tens, hundreds = (digits(place, at) for place in (1, 2, 3))
    empty = np.flatnonzero(ones > 9) if ones.max() > 9 else None
    if empty is not None:
        # What stands before the separator in front is no digit of this cell.
        ones[empty], tens[empty] = 0, 10
    longer = tens <= 9
    # Two digits fit a byte, eight times as fast as a whole number of the usual size.
    tens *= longer
    tens *= np.uint8(10)
    ones += tens
    numbers = ones.astype(np.intp)
    longer &= hundreds <= 9
    cells = np.flatnonzero(longer)
    found, place = hundreds.take(cells), 3
    while len(cells):
        if place > _MOST_DIGITS:
            raise OtherCellsError
        numbers[cells] += found.astype(np.intp) * 10 ** (place - 1)
        place += 1
        found = digits(place, at.take(cells))
        more = np.flatnonzero(found <= 9)
        cells, found = cells.take(more), found.take(more)
    if empty is not None:
        numbers[empty] = EMPTY
    return numbers.reshape(records, width)
