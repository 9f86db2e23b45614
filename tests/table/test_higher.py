"""Numbers told above another column's: the same rows out as in, what is refused, and that they stay above it."""

from decimal import Decimal
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

BASE = {"type": "float", "min": -10, "max": 1000, "decimals": 2}
GROSS = {"type": "float", "above": "a", "min": 0, "max": 500}
COUNT = {"type": "integer", "min": 0, "max": 90}
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


def make(first: dict[str, Any], second: dict[str, Any]) -> TableEncoder:
    return TableEncoder(parse_specs({"b": second, "a": first}, sha256="0"), ["a", "b"])


def frame(*rows: tuple[str, str]) -> pl.DataFrame:
    return pl.DataFrame({"a": [row[0] for row in rows], "b": [row[1] for row in rows]})


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
    decoded = encoder.decode(encoder.encode(frame(*rows)), np.random.default_rng(0))
    assert decoded.rows() == rows
    encoder.validate(decoded)


@pytest.mark.parametrize("kind", PAIRS)
def test_whatever_a_method_draws_lies_right(kind):
    first, second, digits, least, most = PAIRS[kind]
    encoder = make(first | {"optional": True}, second | {"missing": ["never"], "optional": True})
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(span.categories, size=500) for span in encoder.spans if span.head != "linear"], 1)
    numbers = rng.uniform(-0.2, 1.2, (500, sum(span.head == "linear" for span in encoder.spans)))
    encoded = EncodedTable(codes=codes.astype(np.int32), numbers=numbers.astype(np.float32), spans=encoder.spans)
    drawn = encoder.decode(encoded, rng)
    encoder.validate(drawn)
    there = drawn.filter((pl.col("a") != "") & ~pl.col("b").is_in(["", "never"]))
    between = [(Decimal(b) - Decimal(a)) * 10**digits for a, b in there.iter_rows()]
    assert len(between) > 50
    assert (min(between), max(between)) == (least, most)
    assert set(drawn.filter(pl.col("a") == "").get_column("b").to_list()) <= {"", "never"}
    # The check of the output is one that can fail.
    swapped = drawn.with_columns(b=pl.col("b").reverse())
    with pytest.raises(DpwganError, match="is not as far above"):
        encoder.validate(swapped)


@pytest.mark.parametrize(
    ("cells", "rule"),
    [
        (("10.00", "9.99"), "is not as far above 'a' as the specs say"),
        (("10.00", "510.01"), "is not as far above 'a' as the specs say"),
        (("", "10.00"), "is there where 'a' is not"),
        (("10.00", "ten"), "is not a number"),
        (("10.00", "1500.01"), "is not between -10 and 1500"),
    ],
)
def test_row_that_lies_wrong_is_refused_or_put_right(cells, rule):
    first = BASE | {"optional": True}
    for place in range(3):  # the first, a middle and the last row alike
        rows = [("1.00", "2.50")] * 3
        rows[place] = cells
        with pytest.raises(DataError, match=f"'b': 1 row with a cell that {rule}"):
            make(first, GROSS | {"optional": True}).encode(frame(*rows))
    encoder = make(first, GROSS | {"missing": ["?"], "out_of_domain": "missing"})
    assert encoder.decode(encoder.encode(frame(cells)), np.random.default_rng(0)).rows() == [(cells[0], "?")]


def test_difference_is_clamped_to_the_range_between_the_two():
    encoder = make(BASE, GROSS | {"out_of_domain": "clamp"})
    rows = frame(("10.00", "3.00"), ("10.00", "900.00"), ("10.00", "1e9"))
    clamped = encoder.decode(encoder.encode(rows), np.random.default_rng(0))
    assert clamped.get_column("b").to_list() == ["10.00", "510.00", "510.00"]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (BASE, GROSS | {"above": "b"}, "must name a number"),
        (BASE, GROSS | {"above": "z"}, "must name a number"),
        ({"type": "enum", "count": 3}, GROSS, "must name a number"),
        (BASE | {"bins": 4}, GROSS, "must name a number"),
        (COUNT | {"width": 4}, GROSS, "must name a number"),
        (BASE, GROSS | {"bins": 4}, "'bins'"),
        (COUNT, {"type": "integer", "above": "a", "min": 0, "max": 9, "width": 3}, "'width'"),
        (BASE, {"type": "enum", "count": 4, "above": "a"}, "does not go with the type 'enum'"),
        (BASE, {"type": "integer", "above": "a", "min": 0, "max": 9}, "it needs the digits of 'a'"),
        (BASE, GROSS | {"decimals": 1}, "it needs the digits of 'a'"),
        (BASE, GROSS | {"min": 501}, "'min' is above 'max'"),
        (BASE | {"optional": True}, GROSS, "may be missing"),
        (BASE, GROSS | {"missing": [-5]}, "'missing' must lie outside"),
        (BASE, GROSS | {"max": 1e14}, "beyond 2\\^53 steps"),
    ],
)  # fmt: skip
def test_specs_are_refused_when_the_two_do_not_fit(first, second, words):
    with pytest.raises(SpecsError, match=words):
        parse_specs({"a": first, "b": second}, sha256="0")
    with pytest.raises(SpecsError, match="must name a number"):
        parse_specs({"a": BASE, "b": GROSS, "c": GROSS | {"above": "b"}}, sha256="0")


def test_column_comes_back_from_a_saved_model():
    column = parse_specs({"a": BASE, "b": GROSS}, sha256="0").columns[1]
    assert read_column(describe_column(column)) == column


def test_numbers_that_are_often_equal_are_so_in_what_is_released():
    rng = np.random.default_rng(3)
    base = np.round(rng.lognormal(6.0, 0.4, 4000), 2)
    extra = np.where(rng.random(4000) < 0.3, 0.0, np.round(rng.exponential(40.0, 4000), 2))
    table = pd.DataFrame({"base": base, "gross": np.round(base + extra, 2)})
    number = {"type": "float", "min": 0, "max": 5000, "decimals": 2}
    told = {"type": "float", "above": "base", "min": 0, "max": 1000}

    def release(gross: dict[str, Any]) -> pd.DataFrame:
        specs = {"gross": gross, "base": number, "rules": ["gross >= base"]}
        fitted = Synthesizer(specs, 20.0, method="query-gan", rows=2000, settings={"rounds": 0}).fit(table)
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
