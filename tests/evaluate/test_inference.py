"""Overlap of confidence intervals: by hand, and as an analyst with scipy would have them."""

import numpy as np
import pytest
from scipy import stats

from dpwgan.evaluate.inference import Analysis, Estimates, Regression, choose_regressions, share_intervals
from dpwgan.evaluate.scores import make_ceiling, make_floor
from dpwgan.evaluate.tables import ComparedTable
from tests.evaluate.samples import make_categorical, make_numeric

RNG = np.random.default_rng


def estimates(*pairs):
    values, errors = np.array(pairs, dtype=np.float64).T
    return Estimates(values=values, errors=errors)


def test_overlap_is_one_for_one_interval_half_for_half_and_none_beyond():
    width = 2 * 1.959964
    ours = estimates((0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (3.0, 0.0), (3.0, 0.0))
    theirs = estimates((0.0, 1.0), (width / 2, 1.0), (9.0, 1.0), (0.0, 2.0), (3.0, 0.0), (4.0, 0.0))
    assert share_intervals(ours, theirs) == pytest.approx([1.0, 0.5, 0.0, 0.75, 1.0, 0.0])


def draw(seed, rows=2_000, slope=2.0):
    """A number that is twice another one plus noise, and a category that says nothing."""
    rng = RNG(seed)
    x = rng.uniform(0.0, 1.0, size=rows)
    y = slope * x + rng.normal(size=rows)
    numbers = make_numeric(np.column_stack([x, np.clip(y, -10, 10)]), minimum=-10.0, maximum=10.0)
    other = make_categorical(rng.integers(0, 3, size=(rows, 1)), [3])
    return ComparedTable(
        columns=(*numbers.columns, *other.columns),
        cells=np.column_stack([numbers.cells, other.cells]),
        numbers=np.column_stack([numbers.numbers, other.numbers]),
    )


def test_coefficient_and_error_are_those_of_scipy_when_there_is_one_input():
    table = draw(0)
    found = Regression(target=1, inputs=(0,), baselines=(0,), kept=np.array([0, 1])).fit(table, rows=500)
    line = stats.linregress((table.numbers[:, 0] + 10) / 20, table.numbers[:, 1])
    assert found.values == pytest.approx([line.slope])
    assert found.errors == pytest.approx([2 * line.stderr])  # as of a quarter of the rows


def test_terms_that_the_real_rows_cannot_tell_apart_are_left_out():
    table = draw(1, rows=300)
    twice = ComparedTable(
        columns=(*table.columns, table.columns[0]),
        cells=table.cells[:, [0, 1, 2, 0]],
        numbers=table.numbers[:, [0, 1, 2, 0]],
    )
    chosen = choose_regressions(twice, np.full((4, 4), 0.5))
    # The constant, the number once, two of three categories; nothing is missing, so no term says so.
    of_second = next(each for each in chosen if each.target == 1)
    assert set(of_second.inputs) == {0, 2, 3}
    assert len(of_second.kept) == 4


def test_answers_overlap_where_the_law_is_the_same_and_not_where_a_slope_is_lost():
    real = draw(2)
    analysis = Analysis(real, np.ones((3, 3)))
    same, lost = (analysis.compare(table)[0] for table in (real, make_floor(real, rows=2_000, rng=RNG(3))))
    assert same == {"means": pytest.approx(1.0), "coefficients": pytest.approx(1.0)}
    assert lost["means"] == pytest.approx(1.0)
    again = analysis.compare(make_ceiling(real, rows=2_000, rng=RNG(4)))[0]
    assert lost["coefficients"] < 0.6 < again["coefficients"]
    _, listed = analysis.compare(real)
    assert [entry["target"] for entry in listed["regressions"]] == ["n0", "n1"]
    assert [entry["name"] for entry in listed["means"]] == ["n0", "n1"]


def test_a_table_without_numbers_has_no_answers():
    table = make_categorical(RNG(5).integers(0, 3, size=(50, 2)), [3, 3])
    scores, listed = Analysis(table, np.eye(2)).compare(table)
    assert scores == {"means": None, "coefficients": None}
    assert listed == {"means": [], "regressions": []}
