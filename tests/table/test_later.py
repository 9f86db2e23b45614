"""Moments told since another column's: the same rows out as in, what is refused, and that their order is kept."""

import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.app.api import Synthesizer
from dpwgan.app.saved_model import describe_column, read_column
from dpwgan.errors import DataError, DpwganError, SpecsError
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.specs import parse_specs

BEGAN = {"type": "datetime", "format": "%Y-%m-%d %H:%M", "min": "2023-01-01", "max": "2023-12-31"}
STAY = BEGAN | {"since": "a", "min": "0 days", "max": "60 days"}
DELAY = BEGAN | {"since": "a", "min": "-30 minutes", "max": "1 day"}
DAY = {"type": "date", "min": "2023-01-01", "max": "2023-12-31"}
LATER_DAY = {"type": "date", "since": "a", "min": "1 day", "max": "3 weeks"}
PAIRS = {
    "day and time of day": (BEGAN, STAY, 0, 60 * 1440),
    "time that passed": (BEGAN, DELAY, -30, 1440),
    "days between dates": (DAY, LATER_DAY, 1440, 21 * 1440),
    "day of a time": (BEGAN, LATER_DAY, 1440, 21 * 1440),
    "time since a day": (DAY, STAY, 0, 60 * 1440),
}


def make(first: dict[str, Any], second: dict[str, Any]) -> TableEncoder:
    return TableEncoder(parse_specs({"b": second, "a": first}, sha256="0"), ["a", "b"])


def write(moment: datetime.datetime, keys: dict[str, Any]) -> str:
    return moment.strftime(keys.get("format", "%Y-%m-%d"))


def frame(*rows: tuple[str, str]) -> pl.DataFrame:
    return pl.DataFrame({"a": [row[0] for row in rows], "b": [row[1] for row in rows]})


@pytest.mark.parametrize("kind", PAIRS)
@settings(max_examples=30)
@given(data=st.data())
def test_rows_come_back_as_they_were(kind, data):
    first, second, least, most = PAIRS[kind]
    encoder, rows = make(first, second), []
    ends = {"min_value": datetime.datetime(2023, 1, 1), "max_value": datetime.datetime(2023, 12, 31, 23, 59)}
    for _ in range(data.draw(st.integers(1, 5))):
        begin = data.draw(st.datetimes(**ends)).replace(second=0, microsecond=0)
        if "format" not in first or second is LATER_DAY:
            begin = begin.replace(hour=0, minute=0)
        rows.append((begin, begin + datetime.timedelta(minutes=data.draw(st.integers(least, most)))))
    cells = frame(*((write(begin, first), write(end, second)) for begin, end in rows))
    decoded = encoder.decode(encoder.encode(cells), np.random.default_rng(0))
    assert decoded.equals(cells)
    encoder.validate(decoded)


@pytest.mark.parametrize("kind", PAIRS)
def test_whatever_a_method_draws_lies_right(kind):
    first, second, least, most = PAIRS[kind]
    encoder = make(first | {"optional": True}, second | {"missing": ["never"], "optional": True})
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(span.categories, size=500) for span in encoder.spans if span.head != "linear"], 1)
    numbers = rng.uniform(-0.2, 1.2, (500, sum(span.head == "linear" for span in encoder.spans)))
    encoded = EncodedTable(codes=codes.astype(np.int32), numbers=numbers.astype(np.float32), spans=encoder.spans)
    drawn = encoder.decode(encoded, rng)
    encoder.validate(drawn)
    there = drawn.filter((pl.col("a") != "") & ~pl.col("b").is_in(["", "never"]))
    forms = [keys.get("format", "%Y-%m-%d") for keys in (first, second)]
    between = [
        datetime.datetime.strptime(b, forms[1]) - datetime.datetime.strptime(a, forms[0]) for a, b in there.iter_rows()
    ]
    slack = 1439 if second is STAY or "format" in first else 0  # days are counted from date to date
    assert len(between) > 50
    assert datetime.timedelta(minutes=least - slack) <= min(between)
    assert max(between) <= datetime.timedelta(minutes=most + slack)
    assert set(drawn.filter(pl.col("a") == "").get_column("b").to_list()) <= {"", "never"}
    # The check of the output is one that can fail.
    swapped = drawn.with_columns(b=pl.col("b").reverse())
    with pytest.raises(DpwganError, match="is not as long after"):
        encoder.validate(swapped)


NOON = "2023-06-01 12:00"


@pytest.mark.parametrize(
    ("cells", "rule"),
    [
        ((NOON, "2023-05-31 12:00"), "is not as long after 'a' as the specs say"),
        ((NOON, "2023-08-01 00:00"), "is not as long after 'a' as the specs say"),
        (("", NOON), "is there where 'a' is not"),
        ((NOON, "2023-06-01"), "is not written as"),
        ((NOON, "2029-06-01 00:00"), "is not between"),
    ],
)
def test_row_that_lies_wrong_is_refused_or_put_right(cells, rule):
    first = BEGAN | {"optional": True}
    for place in range(3):  # the first, a middle and the last row alike
        rows = [(NOON, "2023-06-03 08:00")] * 3
        rows[place] = cells
        with pytest.raises(DataError, match=f"'b': 1 row with a cell that {rule}"):
            make(first, STAY | {"optional": True}).encode(frame(*rows))
    encoder = make(first, STAY | {"missing": ["?"], "out_of_domain": "missing"})
    assert encoder.decode(encoder.encode(frame(cells)), np.random.default_rng(0)).rows() == [(cells[0], "?")]


def test_time_is_clamped_to_the_range_between_the_two():
    encoder = make(BEGAN, STAY | {"out_of_domain": "clamp"})
    rows = frame((NOON, "2023-05-01 08:00"), (NOON, "2023-09-01 00:00"))
    clamped = encoder.decode(encoder.encode(rows), np.random.default_rng(0))
    assert clamped.get_column("b").to_list() == ["2023-06-01 00:00", "2023-07-31 23:59"]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (BEGAN, STAY | {"since": "b"}, "must name a date or datetime"),
        (BEGAN, STAY | {"since": "z"}, "must name a date or datetime"),
        ({"type": "time"}, STAY, "must name a date or datetime"),
        (BEGAN, {"type": "time", "since": "a", "min": "0 days", "max": "1 day"}, "must name a date or datetime"),
        (BEGAN, {"type": "integer", "min": 0, "max": 1, "since": "a"}, "does not go with the type 'integer'"),
        (BEGAN, STAY | {"min": "2023-01-01"}, "must be such as \"0 days\""),
        (BEGAN, {key: STAY[key] for key in STAY if key != "max"}, "'max' must be such as"),
        (BEGAN, STAY | {"min": "61 days"}, "'min' is above 'max'"),
        (BEGAN, STAY | {"min": "-6 hours"}, "must be whole days"),
        (BEGAN, DELAY | {"step": "7 minutes"}, "'step' must be that of 'a'"),
        (BEGAN, STAY | {"step": "1 month"}, "to the day or finer"),
        (BEGAN | {"optional": True}, STAY, "may be missing"),
        (BEGAN, STAY | {"max": "9000000 days"}, "the years 1 to 9999"),
    ],
)  # fmt: skip
def test_specs_are_refused_when_the_two_do_not_fit(first, second, words):
    with pytest.raises(SpecsError, match=words):
        parse_specs({"a": first, "b": second}, sha256="0")
    with pytest.raises(SpecsError, match="must name a date"):
        parse_specs({"a": BEGAN, "b": STAY, "c": STAY | {"since": "b"}}, sha256="0")


def test_column_comes_back_from_a_saved_model():
    column = parse_specs({"a": BEGAN, "b": STAY}, sha256="0").columns[1]
    assert read_column(describe_column(column)) == column


def test_frame_of_typed_moments_is_released_with_rules_and_conditions():
    rng = np.random.default_rng(3)
    began = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 300 * 1440, 3000), unit="min")
    stayed = began + pd.to_timedelta(rng.integers(0, 4 * 1440, 3000), unit="min")
    table = pd.DataFrame({"a": began, "b": stayed, "dead": rng.integers(0, 2, 3000)})
    specs = {"b": STAY, "a": BEGAN, "dead": {"type": "enum", "count": 2}, "rules": ["a <= b"]}
    fitted = Synthesizer(specs, 50.0, method="query-gan", rows=2000, settings={"rounds": 2}).fit(table)
    drawn = fitted.sample(where="dead = 1")
    assert list(drawn.dtypes) == list(table.dtypes)
    assert len(drawn) == 2000
    assert (drawn["dead"] == 1).all()
    between = (drawn["b"] - drawn["a"]).dt.total_seconds()
    assert between.min() >= 0
    assert between.mean() / 86400 == pytest.approx(2.0, abs=0.3)
