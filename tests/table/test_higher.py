"""Numbers told above another column's: the same rows out as in, what is refused, and that they stay above it."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.app.api import Synthesizer
from tests.rows import round_trip
from tests.table.relative import BASE, COUNT, GROSS, draw_legal, frame, make

PAIRS = {
    "cents": (BASE, GROSS, 2, 0, 50_000),
    "cents above whole numbers": (COUNT, GROSS | {"decimals": 2}, 2, 0, 50_000),
    "whole numbers, below too": (COUNT, {"type": "integer", "above": "a", "min": -5, "max": 5}, 0, -5, 5),
    "whole numbers with a digit": (
        COUNT,
        {"type": "integer", "above": "a", "min": 1, "max": 9, "decimals": 1},
        0,
        1,
        9,
    ),
    "of few levels, above many": (BASE, GROSS | {"max": 0.03}, 2, 0, 3),
}


def write(number: Decimal, keys: dict[str, Any], digits: int) -> str:
    return f"{number:.{keys.get('decimals', 0 if keys['type'] == 'integer' else digits)}f}"


@pytest.mark.parametrize("kind", PAIRS)
@settings(max_examples=30)
@given(data=st.data())
def test_rows_come_back_as_they_were(kind, data):
    first, second, digits, least, most = PAIRS[kind]
    encoder, rows = make(first, second), []
    for _ in range(data.draw(st.integers(1, 5))):
        places = first.get("decimals", 0)
        low = Decimal(data.draw(st.integers(first["min"] * 10**places, first["max"] * 10**places))) / 10**places
        high = low + Decimal(data.draw(st.integers(least, most))) / 10**digits
        rows.append((write(low, first, places), write(high, second, digits)))
    decoded = round_trip(encoder, frame(*rows))
    assert decoded.rows() == rows
    encoder.validate(decoded)


@pytest.mark.parametrize("kind", PAIRS)
def test_whatever_a_method_draws_lies_right(kind):
    first, second, digits, least, most = PAIRS[kind]
    there = draw_legal(first, second)
    between = [(Decimal(b) - Decimal(a)) * 10**digits for a, b in there.iter_rows()]
    assert len(between) > 50
    assert (min(between), max(between)) == (least, most)


def test_difference_is_clamped_to_the_range_between_the_two():
    encoder = make(BASE, GROSS | {"out_of_domain": "clamp"})
    rows = frame(("10.00", "3.00"), ("10.00", "900.00"), ("10.00", "1e9"))
    clamped = round_trip(encoder, rows)
    assert clamped.get_column("b").to_list() == ["10.00", "510.00", "510.00"]


def test_numbers_that_are_often_equal_are_so_in_what_is_released():
    rng = np.random.default_rng(3)
    base = np.round(rng.lognormal(6.0, 0.4, 4000), 2)
    extra = np.where(rng.random(4000) < 0.3, 0.0, np.round(rng.exponential(40.0, 4000), 2))
    table = pd.DataFrame({"base": base, "gross": np.round(base + extra, 2)})
    number = {"type": "float", "min": 0, "max": 5000, "decimals": 2}
    told = {"type": "float", "above": "base", "min": 0, "max": 1000}

    def release(gross: dict[str, Any]) -> pd.DataFrame:
        specs = {"gross": gross, "base": number, "rules": ["gross >= base"]}
        settings = {"rounds": 0, "codes": 100}
        fitted = Synthesizer(specs, 20.0, method="query-gan", rows=2000, settings=settings).fit(table)
        return fitted.sample(where="gross < 800")

    drawn = release(told)
    assert list(drawn.dtypes) == list(table.dtypes)
    assert len(drawn) == 2000
    assert (drawn["gross"] >= drawn["base"]).all()
    assert drawn["gross"].max() < 800
    assert (drawn["gross"] == drawn["base"]).mean() == pytest.approx(0.3, abs=0.05)
    assert (drawn["gross"] - drawn["base"]).mean() == pytest.approx(28.0, abs=5.0)
    # Its twin: both by themselves.
    apart = release(number)
    assert (apart["gross"] == apart["base"]).mean() < 0.1
