"""The one rule for what is a number."""

from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpwgan.table.codecs.numbers import read_numbers
from dpwgan.table.numerals import are_same_cell, read_number

NUMBERS = {"0": 0, "-0": 0, "03": 3, "3.0": 3, " 3\t": 3, "+4": 4, ".5": 0.5, "5.": 5}
NUMBERS |= {"1e3": 1000, "3E-2": 0.03, "1e308": 1e308}
TEXTS = [
    "", " ", "abc", "nan", "NaN", "inf", "-inf", "Infinity", "1_000", "1,000", "0x10", "1e", "e1", ".", "+", "--1",
    "1 2",     "٣", "３", "1.2.3", "5\n", "\n5", "5\r", "\u00a05", "½", "1e+", "TRUE", "1/2",
]  # fmt: skip


@pytest.mark.parametrize(("cell", "value"), NUMBERS.items())
def test_number_is_read_when_it_is_an_ascii_numeral(cell, value):
    assert read_number(cell) == Decimal(repr(value))
    is_number, values = read_numbers(pl.Series([cell]))
    assert is_number[0]
    assert values[0] == value


@pytest.mark.parametrize("cell", TEXTS)
def test_number_is_refused_when_the_cell_is_anything_else(cell):
    assert read_number(cell) is None
    is_number, values = read_numbers(pl.Series([cell]))
    assert not is_number[0]
    assert values[0] == 0


@pytest.mark.parametrize("cell", ["1e999", "1e999999999", "1e99999999999999999999999", "-1e400"])
def test_number_is_infinite_when_it_is_beyond_every_double(cell):
    is_number, values = read_numbers(pl.Series([cell]))
    assert is_number[0]
    assert abs(values[0]) == float("inf")
    assert not are_same_cell(cell, "3")


@given(st.text(alphabet="0123456789+-.eE_ \tnaif٣", max_size=8))
def test_one_cell_and_a_column_of_cells_agree_when_the_cell_is_any_text(cell):
    number = read_number(cell)
    is_number, values = read_numbers(pl.Series([cell], dtype=pl.String))
    if number is None:
        assert not is_number[0] or abs(values[0]) in (float("inf"), 0)
    else:
        assert is_number[0]
        assert values[0] == float(number)


def test_cells_are_the_same_when_they_write_one_number():
    assert are_same_cell("9999", "9999.0")
    assert are_same_cell("?", "?")
    assert not are_same_cell("?", " ?")
    assert not are_same_cell("9999", "")
