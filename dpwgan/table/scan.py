"""Where the records of a CSV text begin and how many cells each has, found from its bytes alone.

The scan follows RFC 4180 strictly: a cell is quoted as a whole or not at all. It runs before any parser sees the
text, so that a damaged file is refused by a rule of ours, and no parser's own message, which may quote the text, is
ever needed.
Source: Shafranovich 2005, RFC 4180, section 2.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_QUOTE, _COMMA, _NEWLINE, _RETURN = b'",\n\r'

# Large enough for numpy to be efficient, small enough that the masks of a piece stay out of the way.
_PIECE = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The records of a CSV text.

    Shapes: `starts` is (records + 1,), the last entry is the length of the text; `cells` and `blank` are (records,).
    `stray_quotes` counts quotes that neither open, close nor stand doubled in a quoted cell; `stray_returns` counts
    carriage returns outside quotes that are not part of a line ending; `open_quote` says that the text ends in a quote.
    """

    starts: npt.NDArray[np.int64]
    cells: npt.NDArray[np.int64]
    blank: npt.NDArray[np.bool_]
    stray_quotes: int
    stray_returns: int
    open_quote: bool

    @property
    def records(self) -> int:
        """Number of records, the header included."""
        return len(self.cells)


def scan(text: bytes) -> Layout:
    """Finds the records of a CSV text with commas, double quotes, and LF or CRLF line endings."""
    data = np.frombuffer(text, dtype=np.uint8)
    ends: list[npt.NDArray[np.int64]] = []
    commas_before: list[npt.NDArray[np.int64]] = []
    commas = stray_quotes = stray_returns = 0
    quoted = np.uint8(0)
    for low in range(0, len(data), _PIECE):
        piece = data[low : low + _PIECE]
        is_quote = piece == _QUOTE
        # 1 from an opening quote up to its closing one: outside of quotes the number of quotes so far is even.
        inside = np.bitwise_xor.accumulate(is_quote.view(np.uint8)) ^ quoted
        stray_quotes += _count_stray_quotes(data, low + np.flatnonzero(is_quote), inside[is_quote])
        outside = inside == 0
        comma_at = np.flatnonzero((piece == _COMMA) & outside)
        newline_at = np.flatnonzero((piece == _NEWLINE) & outside)
        return_at = low + np.flatnonzero((piece == _RETURN) & outside)
        stray_returns += int(np.count_nonzero(_byte_at(data, return_at + 1) != _NEWLINE))
        ends.append(low + newline_at + 1)
        commas_before.append(commas + np.searchsorted(comma_at, newline_at))
        commas += len(comma_at)
        quoted = inside[-1]
    starts = np.concatenate([np.zeros(1, dtype=np.int64), *ends])
    totals = np.concatenate([np.zeros(1, dtype=np.int64), *commas_before])
    if starts[-1] < len(data):
        starts, totals = np.append(starts, len(data)), np.append(totals, commas)
    return Layout(
        starts=starts,
        cells=np.diff(totals) + 1,
        blank=_find_blank(data, starts),
        stray_quotes=stray_quotes,
        stray_returns=stray_returns,
        open_quote=bool(quoted),
    )


def _byte_at(data: npt.NDArray[np.uint8], positions: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Reads bytes by position; beyond either end stands a newline, as if the text lay between two line endings."""
    within = (positions >= 0) & (positions < len(data))
    found = np.full(len(positions), _NEWLINE, dtype=np.uint8)
    found[within] = data[positions[within]]
    return found


def _count_stray_quotes(
    data: npt.NDArray[np.uint8], positions: npt.NDArray[np.int64], opens: npt.NDArray[np.uint8]
) -> int:
    if not len(positions):
        return 0
    border = np.zeros(256, dtype=bool)
    border[[_QUOTE, _COMMA, _NEWLINE]] = True
    before, after = _byte_at(data, positions - 1), _byte_at(data, positions + 1)
    line_ends = (after == _RETURN) & (_byte_at(data, positions + 2) == _NEWLINE)
    fits = np.where(opens == 1, border[before], border[after] | line_ends)
    return int(np.count_nonzero(~fits))


def _find_blank(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Finds the records that are an empty line: a line ending and nothing else."""
    first = _byte_at(data, starts[:-1])
    second = _byte_at(data, starts[:-1] + 1)
    blank: npt.NDArray[np.bool_] = (first == _NEWLINE) | ((first == _RETURN) & (second == _NEWLINE))
    return blank
