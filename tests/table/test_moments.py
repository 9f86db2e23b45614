"""Dates, times of day and both: the same text out as in, what is refused, and what methods see of them."""

import datetime
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.errors import DataError
from dpwgan.table.codecs import make_codec
from dpwgan.table.codecs.codec import EncodedCells
from dpwgan.table.codecs.moments import MomentCodec
from dpwgan.table.specs import parse_specs
from tests.table.test_codecs import encode

FORMATS = {
    "date": ("%Y-%m-%d", "%d.%m.%Y", "%-m/%-d/%Y", "%-d %B %Y", "%b %d, %Y", "%Y%m%d", "%Y-%j"),
    "datetime": (
        *("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+00:00", "%d.%m.%Y %H:%M", "%Y-%m-%d %H"),
        *("%-m/%-d/%Y %-I:%M %p", "%Y-%m-%dT%H:%M:%S.%f", "été %Y-%m-%d à %Hh"),
    ),
    "time": ("%H:%M:%S", "%H:%M:%S.%f", "%H:%M", "%-H.%M Uhr", "%I %p"),
}
EVERY = [(kind, form) for kind, forms in FORMATS.items() for form in forms]


def make(**keys: Any) -> MomentCodec:
    codec = make_codec(parse_specs({"x": keys}, sha256="0").columns[0])
    assert isinstance(codec, MomentCodec)
    return codec


def round_trip(codec: MomentCodec, cells: list[str]) -> list[str]:
    return codec.decode(encode(codec.column, cells), np.random.default_rng(0)).to_list()


@pytest.mark.parametrize(("kind", "form"), EVERY)
@settings(max_examples=10)
@given(moments=st.lists(st.datetimes(datetime.datetime(1890, 1, 1), datetime.datetime(2110, 12, 31)), min_size=1))
def test_text_comes_back_when_it_is_any_moment_in_any_format(kind, form, moments):
    ends = {} if kind == "time" else {"min": "1890-01-01", "max": "2110-12-31"}
    codec = make(type=kind, format=form, optional=True, missing=["NA"], **ends)
    cells = [*(moment.strftime(form) for moment in moments), "", "NA"]
    assert round_trip(codec, cells) == cells
    assert codec.are_legal(pl.Series(cells)).all()
    assert [codec.get_canonical(cell) for cell in cells] == cells


def test_names_are_read_whatever_their_capitals_are_as_statistical_programs_write_them():
    codec = make(type="datetime", format="%d%b%Y:%I:%M %p", min="2022-01-01", max="2022-12-31", missing=["NA"])
    cells = ["17OCT2022:09:30 AM", "17oct2022:09:30 am", "NA"]
    written = "17Oct2022:09:30 AM"
    assert round_trip(codec, cells) == [written, written, "NA"]
    assert [codec.get_canonical(cell) for cell in [*cells, "17OKT2022:09:30 AM"]] == [written, written, "NA", None]


@pytest.mark.parametrize(("form", "digits"), [("%H:%M:%S.%6f", 6), ("%H:%M:%S.%3f", 3)])
@settings(max_examples=20)
@given(micros=st.lists(st.integers(0, 999_999), min_size=1))
def test_text_comes_back_when_it_has_fractions_of_a_second(form, digits, micros):
    codec = make(type="time", format=form, max="12:00:00")
    cells = [f"11:59:59.{micro:06d}"[: 9 + digits] for micro in micros] + ["12:00:00.000000"[: 9 + digits]]
    assert round_trip(codec, cells) == cells


@pytest.mark.parametrize(
    ("keys", "legal", "illegal"),
    [
        ({"min": "2018-01", "max": "2023-12"}, ["2018-01", "2020-02", "2023-12"], ["2017-12", "2020-2", "2024-01"]),
        ({"min": "2018-03", "max": "2019-12", "step": "3 months"}, ["2018-03", "2019-12"], ["2018-04"]),
    ],
)
def test_months_are_counted_when_a_format_tells_no_day(keys, legal, illegal):
    codec = make(type="date", format="%Y-%m", **keys)
    assert round_trip(codec, legal) == legal
    assert not codec.are_legal(pl.Series(illegal)).any()
    assert [codec.get_canonical(cell) for cell in illegal] == [None] * len(illegal)


def test_months_begin_on_their_first_day_when_a_format_tells_days():
    codec = make(type="date", min="2019-12-01", max="2020-06-01", step="2 months")
    assert round_trip(codec, ["2019-12-01", "2020-02-01"]) == ["2019-12-01", "2020-02-01"]
    with pytest.raises(DataError, match="2 rows with a cell that is not a whole number of steps"):
        encode(codec.column, ["2020-01-01", "2020-02-02"])


MONTH = {"type": "date", "format": "%Y-%m", "min": "2019-12", "max": "2021-01"}
SECONDS = {"type": "datetime", "min": "2020-01-01", "max": "2020-12-31"}
DAYS = {"type": "date", "min": "2020-02-28", "max": "2020-03-06", "step": "7 days"}


@pytest.mark.parametrize(
    ("cell", "rule"),
    [
        ("2020-2-28", "is not written as '%Y-%m-%d' says"),
        ("2020-02-30", "is not written as '%Y-%m-%d' says"),
        ("", 'is empty, which only "optional": true allows'),
        ("2020-02-27", "is not between 2020-02-28 and 2020-03-06"),
        ("2020-03-13", "is not between 2020-02-28 and 2020-03-06"),
        ("2020-02-29", "is not a whole number of steps from the column's 'min'"),
    ],
)
def test_cell_is_refused_when_it_is_no_moment_of_the_column(cell, rule):
    codec = make(**DAYS)
    with pytest.raises(DataError, match=f"1 row with a cell that {rule}"):
        encode(codec.column, ["2020-02-28", cell])
    assert codec.are_legal(pl.Series([" 2020-02-28", "2020-02-28", cell])).to_list()[1:] == [True, False]


def test_illegal_cells_become_legal_when_the_specs_say_how():
    wild = ["2020-01-01", "2020-03-01", "2020-03-04", "2029-01-01"]
    clamped = make(**DAYS, out_of_domain="clamp")
    assert round_trip(clamped, wild) == ["2020-02-28", "2020-02-28", "2020-03-06", "2020-03-06"]
    with pytest.raises(DataError, match="is not written as '%Y-%m-%d' says"):
        encode(clamped.column, ["soon"])
    assert round_trip(make(**DAYS, missing=["?"], out_of_domain="missing"), [*wild, "soon"]) == ["?"] * 5


@given(
    numbers=st.lists(st.floats(width=32) | st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=2),
    ends=st.tuples(*[st.datetimes(datetime.datetime(1950, 1, 1), datetime.datetime(2050, 1, 1))] * 2),
    minutes=st.sampled_from([1, 15, 60, 7 * 60]),
)
def test_output_is_legal_when_the_method_gives_anything(numbers, ends, minutes):
    first = min(ends).replace(second=0, microsecond=0)
    last = first + (max(ends) - first) // datetime.timedelta(minutes=minutes) * datetime.timedelta(minutes=minutes)
    codec = make(type="datetime", min=first.isoformat(), max=last.isoformat(), step=f"{minutes} minutes")
    parts = 2 if minutes < 420 and last - first > datetime.timedelta(days=1) else 1
    given_back = np.array(numbers[:parts], np.float32).reshape(-1, 1)
    encoded = EncodedCells(numbers=given_back if parts > 1 else given_back[0])
    assert codec.are_legal(codec.decode(encoded, np.random.default_rng(0))).all()


def test_day_and_time_of_day_are_two_numbers_when_the_range_has_several_days():
    codec = make(type="datetime", min="2020-01-01T06:07:00", max="2020-01-10", step="15 minutes")
    day, time = codec.column.parts
    assert (day.column, day.levels, time.column, time.levels) == ("day", 10, "time of day", 96)
    encoded = encode(codec.column, ["2020-01-02T06:07:00", "2020-01-02T23:52:00"])
    assert encoded.numbers.shape == (2, 2)
    assert encoded.numbers[0, 0] == encoded.numbers[0, 1]
    night = {"min": "2020-01-01T04:00:00", "max": "2020-01-02T03:59:00"}
    for one in (
        night,
        {"max": "2020-01-01T20:00:00"},
        {"step": "1 day"},
        {"step": "7 hours", "max": "2020-01-08T00:00:00"},
    ):
        assert len(make(**{"type": "datetime", "min": "2020-01-01", "max": "2020-01-10"} | one).column.parts) == 1


def test_times_that_the_first_or_the_last_day_lacks_are_those_of_the_day_beside_it():
    codec = make(type="datetime", step="1 minute", min="2020-01-01T09:00:00", max="2020-01-03T17:00:00")
    encoded = encode(codec.column, ["2020-01-02T08:15:00", "2020-01-02T17:15:00", "2020-01-01T09:00:00"])
    encoded.numbers[0, :] = [0.0, 1.0, 1.0]
    written = ["2020-01-02T08:15:00", "2020-01-02T17:15:00", "2020-01-03T09:00:00"]
    assert codec.decode(encoded, np.random.default_rng(0)).to_list() == written


def test_time_is_that_of_another_row_when_only_the_day_is_there():
    codec = make(type="datetime", format="%d.%m.%Y %H:%M", min="2020-01-01", max="2020-12-31", optional=True)
    encoded = encode(codec.column, ["01.02.2020 08:15", "", "03.02.2020 17:30", ""])
    assert encoded.codes.tolist() == [[1, 0, 1, 0]] * 2
    encoded.codes[0, 1], encoded.codes[1, 0] = 1, 0
    first, second, third, fourth = codec.decode(encoded, np.random.default_rng(0)).to_list()
    assert first in ("01.02.2020 08:15", "01.02.2020 17:30")
    assert second in ("01.01.2020 08:15", "01.01.2020 17:30")
    assert (third, fourth) == ("03.02.2020 17:30", "")


@pytest.mark.parametrize(
    ("keys", "cells", "values"),
    [
        ({**DAYS, "optional": True}, ["2020-03-06", ""], [datetime.date(2020, 3, 6), None]),
        ({"type": "time", "format": "%H:%M"}, ["08:15"], [datetime.time(8, 15)]),
        (MONTH, ["2020-12"], [datetime.date(2020, 12, 1)]),
        (SECONDS, ["2020-02-29T23:59:59"], [datetime.datetime(2020, 2, 29, 23, 59, 59)]),
    ],
)
def test_values_are_moments_when_rules_between_columns_look_at_them(keys, cells, values):
    codec = make(**keys)
    assert codec.read_values(cells).to_list() == values
    assert codec.read_values([]).dtype == codec.read_values(cells).dtype
