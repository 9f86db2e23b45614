"""Cells of digits: the numbers that Python reads, wherever blocks end; whatever else is there is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.table import digits
from dpwgan.table.digits import EMPTY, OtherCellsError, read_digits

CELLS = st.one_of(st.just(""), st.from_regex(r"[0-9]{1,9}", fullmatch=True), st.integers(0, 120).map(str))


@settings(deadline=None, max_examples=200)
@given(
    data=st.data(),
    width=st.integers(2, 5),
    block=st.integers(1, 60),
    line_ending=st.sampled_from(["\n", "\r\n"]),
    ends_in_line_feed=st.booleans(),
)
def test_numbers_are_those_of_the_cells_when_blocks_end_anywhere(data, width, block, line_ending, ends_in_line_feed):
    rows = data.draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1, max_size=20))
    text = line_ending.join(map(",".join, rows)) + line_ending * ends_in_line_feed
    before = digits._BLOCK
    digits._BLOCK = block
    try:
        found = [list(row) for part in read_digits(text.encode(), width=width) for row in part]
    finally:
        digits._BLOCK = before
    assert found == [[int(cell) if cell else EMPTY for cell in row] for row in rows]


@pytest.mark.parametrize(
    "cell",
    [
        "-1",
        "+1",
        "1.0",
        "1e3",
        " 1",
        "1 ",
        '"1"',
        "x",
        "1\t",
        "é",
        "٣",
        "1234567890",
        "0000000001",
        "1\r2",
        "1/2",
        ":",
        ";",
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_text_is_refused_when_a_cell_is_anything_but_digits(cell, place):
    row = ["1", "22", "333"]
    row[place] = cell
    text = "1,2,3\n" + ",".join(row) + "\n4,5,6\n"
    with pytest.raises(OtherCellsError):
        list(read_digits(text.encode(), width=3))


@pytest.mark.parametrize(
    "text", ["1,2\n3,4,5,6\n", "1,2,3,4\n5,6\n", "1,2,3\n4,5\n", "1,2,3\n\n", "1\n2\n3\n", "\n\n\n"]
)
def test_text_is_refused_when_records_have_other_cells_than_the_header(text):
    with pytest.raises(OtherCellsError):
        list(read_digits(text.encode(), width=3))


def test_every_number_of_up_to_three_digits_is_read_when_cells_stand_side_by_side():
    rows = [list(range(first, first + 10)) for first in range(0, 1000, 10)]
    text = "\n".join(",".join(map(str, row)) for row in rows)
    assert [list(row) for part in read_digits(text.encode(), width=10) for row in part] == rows
