"""Moments, groups and totals by hand-worked cases, and against polars."""

import math

import numpy as np
import polars as pl
import pytest

from dpwgan.evaluate.numbers import add_up, describe_groups, describe_number, describe_numbers, group_cells
from dpwgan.evaluate.report.page import list_moments
from tests.evaluate.samples import SPECS, draw_rows, make_categorical, make_numeric, read_rows


def test_moments_equal_those_of_polars_when_some_numbers_are_missing():
    values = np.random.default_rng(0).normal(50.0, 10.0, size=301)
    values[::7] = np.nan
    table = make_numeric(values[:, None], minimum=0.0, maximum=100.0)
    there = pl.Series(values[~np.isnan(values)])
    found = describe_number(table, 0)
    assert found["mean"] == pytest.approx(there.mean())
    assert found["stddev"] == pytest.approx(there.std())
    assert found["missing"] == pytest.approx(43 / 301)
    assert list(found["quantiles"]) == ["0.05", "0.25", "0.50", "0.75", "0.95", "0.99"]
    for level, value in found["quantiles"].items():
        assert (there <= value).mean() >= float(level) > (there < value).mean()


def test_a_number_that_is_never_there_has_no_moments():
    table = make_numeric([[math.nan], [math.nan]], minimum=0.0, maximum=1.0)
    found = describe_number(table, 0)
    assert (found["missing"], found["mean"], found["stddev"], found["quantiles"]["0.50"]) == (1.0, None, None, None)


def test_moments_of_a_date_are_written_as_dates(tmp_path):
    specs = {"born": {"type": "date", "format": "%d.%m.%Y", "min": "1920-01-01", "max": "2010-12-31"}}
    table = read_rows(tmp_path / "a.csv", [["01.01.1950"], ["03.01.1950"]], specs)
    found = describe_numbers(table, table)[0]["real"]
    assert (found["mean"], found["quantiles"]["0.99"]) == ("02.01.1950", "03.01.1950")


def test_deviations_of_moments_are_in_days_hours_or_months_whatever_the_step(tmp_path):
    ends = {"min": "2020-01-01", "max": "2020-12-31"}
    specs = {
        "seen": {"type": "datetime", "step": "15 minutes", **ends},
        "week": {"type": "date", "step": "7 days", "min": "2020-01-01", "max": "2020-12-30"},
        "hour": {"type": "time", "step": "15 minutes"},
        "paid": {"type": "date", "format": "%Y-%m", "step": "3 months", "min": "2020-01", "max": "2020-10"},
    }
    rows = [["2020-01-01T06:00:00", "2020-01-01", "06:00:00", "2020-01"]]
    rows += [["2020-01-03T08:00:00", "2020-01-15", "08:00:00", "2020-07"]]
    table = read_rows(tmp_path / "a.csv", rows, specs)
    found = describe_numbers(table, table)
    of_two = math.sqrt(0.5)  # the deviation of two numbers that differ by 1
    assert [(each["real"]["unit"], each["real"]["stddev"] / of_two) for each in found] == [
        ("days", pytest.approx(2)),
        ("hours", pytest.approx(2)),
        ("days", pytest.approx(14)),
        ("hours", pytest.approx(2)),
        ("months", pytest.approx(6)),
    ]
    assert list_moments(found[0])[1][0] == "standard deviation, days"


def test_groups_have_the_means_and_totals_of_polars_when_rows_are_grouped_by_a_category(tmp_path):
    rows = draw_rows(1, rows=90)
    real, half = read_rows(tmp_path / "a.csv", rows), read_rows(tmp_path / "b.csv", rows[:45])
    found = describe_groups(real, half, real.names.index("SEX"), [real.names.index("age")])
    frame = pl.DataFrame(rows, schema=list(SPECS), orient="row").with_columns(pl.col("age").cast(pl.Float64))
    age = next(number for number in found["numbers"] if number["name"] == "age")
    for place, label in enumerate(found["groups"]):
        for name, part in (("real", frame), ("synthetic", frame[:45])):
            own = part.filter(pl.col("SEX") == label)["age"]
            assert age["means"][name][place] == pytest.approx(own.mean())
            # Of half as many rows the total counts twice.
            assert age["totals"][name][place] == pytest.approx(own.sum() * 90 / part.height)
    assert add_up(real, half, real.names.index("age"))["real"] == pytest.approx(frame["age"].sum())
    assert {number["name"] for number in found["numbers"] if number["totals"]} == {"age"}


def test_cells_are_grouped_into_a_dozen_at_most():
    groups, names = group_cells(make_categorical(np.arange(40)[:, None] // 2 * 2, [60]), 0)
    assert (len(names), names[-1]) == (12, "49 others")
    assert np.bincount(groups).tolist() == [1] * 11 + [49]
    rng = np.random.default_rng(1)
    table = make_numeric(rng.uniform(size=(5_000, 1)) ** 3, minimum=0.0, maximum=1.0, buckets=100)
    groups, names = group_cells(table, 0)
    assert names[-1] == "missing"
    assert (np.diff(groups) >= 0).all()
    assert len(names) <= 11
    shares = np.bincount(groups[table.cells[:, 0]], minlength=len(names)) / table.rows
    assert shares[1:-1].max() < 0.2
