"""The records of a CSV text, against Python's own reader."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpwgan.table.scan as scan_module
from dpwgan.table.scan import scan

CELLS = st.text(alphabet='ab,"\n\r é', max_size=4)


def write(rows: list[list[str]], *, line_ending: str) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=line_ending, quoting=csv.QUOTE_ALL).writerows(rows)
    return text.getvalue().encode()


@pytest.mark.parametrize("piece", [1, 3, 1 << 22])
@given(rows=st.lists(st.lists(CELLS, min_size=1, max_size=4), min_size=1, max_size=5), crlf=st.booleans())
def test_scan_finds_every_record_when_all_cells_are_quoted(piece: int, rows: list[list[str]], crlf: bool) -> None:
    text = write(rows, line_ending="\r\n" if crlf else "\n")
    before = scan_module._PIECE
    scan_module._PIECE = piece
    try:
        layout = scan(text)
    finally:
        scan_module._PIECE = before
    assert layout.cells.tolist() == [len(row) for row in rows]
    assert (layout.stray_quotes, layout.stray_returns, layout.open_quote) == (0, 0, False)
    for row, first, last in zip(rows, layout.starts[:-1], layout.starts[1:], strict=True):
        assert next(csv.reader(io.StringIO(text[first:last].decode(), newline=""))) == row


@pytest.mark.parametrize(
    ("text", "stray_quotes", "stray_returns", "open_quote"),
    [
        (b'a"b,c\n', 1, 0, True),
        (b'a""b,c\n', 2, 0, False),
        (b'"a"b,c\n', 1, 0, False),
        (b'"a" ,c\n', 1, 0, False),
        (b' "a",c\n', 1, 0, False),
        (b'"a","b\n', 0, 0, True),
        (b'"a\rb"\n', 0, 0, False),
        (b"a\rb\n", 0, 1, False),
        (b"a\r", 0, 0, False),
        (b'"a"\rb\n', 1, 1, False),
        (b'"""",""\n', 0, 0, False),
    ],
)
def test_scan_counts_what_is_not_csv_when_quotes_or_returns_stand_alone(
    text: bytes, stray_quotes: int, stray_returns: int, open_quote: bool
) -> None:
    layout = scan(text)
    assert (layout.stray_quotes, layout.stray_returns, layout.open_quote) == (stray_quotes, stray_returns, open_quote)


def test_scan_marks_blank_lines_when_there_are_some() -> None:
    layout = scan(b'a\n\n\r\n""\n\n')
    assert layout.blank.tolist() == [False, True, True, False, True]
    assert layout.cells.tolist() == [1] * 5


def test_scan_counts_a_last_record_when_it_has_no_line_ending() -> None:
    assert scan(b"a,b\n1,2").cells.tolist() == [2, 2]
    assert scan(b"a,b\n1,2\n").cells.tolist() == [2, 2]
