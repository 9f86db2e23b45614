"""Moments told since another column's: the same rows out as in, what is refused, and that their order is kept."""

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.app.api import Synthesizer
from dpwgan.errors import DataError
from tests.rows import encode_table, round_trip
from tests.table.relative import BEGAN, DELAY, NOON, SHIFT, STAY, TIME, draw_legal, frame, make

DAY = {"type": "date", "min": "2023-01-01", "max": "2023-12-31"}
LATER_DAY = {"type": "date", "since": "a", "min": "1 day", "max": "3 weeks"}
PAIRS = {
    "day and time of day": (BEGAN, STAY, 0, 60 * 1440),
    "time that passed": (BEGAN, DELAY, -30, 1440),
    "days between dates": (DAY, LATER_DAY, 1440, 21 * 1440),
    "day of a time": (BEGAN, LATER_DAY, 1440, 21 * 1440),
    "time since a day": (DAY, STAY, 0, 60 * 1440),
}


def write(moment: datetime.datetime, keys: dict[str, Any]) -> str:
    return moment.strftime(keys.get("format", "%Y-%m-%d"))


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
    decoded = round_trip(encoder, cells)
    assert decoded.equals(cells)
    encoder.validate(decoded)


@pytest.mark.parametrize("kind", PAIRS)
def test_whatever_a_method_draws_lies_right(kind):
    first, second, least, most = PAIRS[kind]
    there = draw_legal(first, second)
    forms = [keys.get("format", "%Y-%m-%d") for keys in (first, second)]
    between = [
        datetime.datetime.strptime(b, forms[1]) - datetime.datetime.strptime(a, forms[0]) for a, b in there.iter_rows()
    ]
    slack = 1439 if second is STAY or "format" in first else 0  # days are counted from date to date
    assert len(between) > 50
    assert datetime.timedelta(minutes=least - slack) <= min(between)
    assert max(between) <= datetime.timedelta(minutes=most + slack)


def test_times_of_day_go_on_beyond_midnight():
    encoder = make(TIME | {"min": "06:30"}, SHIFT)
    rows = frame(("06:30", "18:30"), ("22:00", "06:00"), ("23:30", "00:00"), ("08:00", "08:00"), ("23:30", "23:30"))
    encoded = encode_table(encoder, rows)
    assert encoder.decode(encoded, np.random.default_rng(0)).equals(rows)
    assert sorted(span.levels for span in encoder.spans) == [25, 35]
    for wrong in ("10:30", "21:30"):
        with pytest.raises(DataError, match="'b': 1 row with a cell that is not as long after 'a'"):
            encode_table(encoder, frame(("22:00", wrong), ("22:00", "10:00")))
    hours = [int(end[:2]) - int(start[:2]) for start, end in draw_legal(TIME, SHIFT).iter_rows()]
    assert {hour % 24 for hour in hours} == set(range(13))
    assert min(hours) < 0


def test_time_is_clamped_to_the_range_between_the_two():
    encoder = make(BEGAN, STAY | {"out_of_domain": "clamp"})
    rows = frame((NOON, "2023-05-01 08:00"), (NOON, "2023-09-01 00:00"))
    clamped = round_trip(encoder, rows)
    assert clamped.get_column("b").to_list() == ["2023-06-01 00:00", "2023-07-31 23:59"]


def test_frame_of_typed_moments_is_released_with_rules_and_conditions():
    rng = np.random.default_rng(3)
    began = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 300 * 1440, 3000), unit="min")
    stayed = began + pd.to_timedelta(rng.integers(0, 4 * 1440, 3000), unit="min")
    table = pd.DataFrame({"a": began, "b": stayed, "dead": rng.integers(0, 2, 3000)})
    specs = {"b": STAY, "a": BEGAN, "dead": {"type": "enum", "count": 2}, "rules": ["a <= b"]}
    fitted = Synthesizer(specs, 50.0, method="query-gan", rows=2000, settings={"rounds": 2, "codes": 100}).fit(table)
    drawn = fitted.sample(where="dead = 1")
    assert list(drawn.dtypes) == list(table.dtypes)
    assert len(drawn) == 2000
    assert (drawn["dead"] == 1).all()
    between = (drawn["b"] - drawn["a"]).dt.total_seconds()
    assert between.min() >= 0
    assert between.mean() / 86400 == pytest.approx(2.0, abs=0.3)
