import math

import numpy as np
import pytest

from dpwgan.audit.neighbours import find_nearest, find_nearest_without, lay_out_points
from dpwgan.errors import UsageError
from tests.audit.populations import SCHEMA, SPECS, draw_table


def loop_distance(left, right, *, without=None):
    """The definition, cell by cell."""
    total = 0.0
    for place, (name, spec) in enumerate(SPECS.items()):
        a, b = left[place], right[place]
        if name == without:
            continue
        if spec["type"] == "enum":
            total += a != b
        elif math.isnan(a) or math.isnan(b):
            total += math.isnan(a) != math.isnan(b)
        else:
            total += abs(a - b) / (spec["max"] - spec["min"])
    return total


@pytest.mark.parametrize("neighbours", [1, 4])
def test_nearest_rows_equal_a_loop_over_all_pairs_when_columns_are_mixed(neighbours, monkeypatch):
    monkeypatch.setattr("dpwgan.audit.neighbours._MOST_PAIRS", 150)  # several pieces
    rng = np.random.default_rng(3)
    targets, among = draw_table(17, rng), draw_table(60, rng)
    distances, places = find_nearest(*(lay_out_points(t, SCHEMA) for t in (targets, among)), neighbours=neighbours)
    for row, target in enumerate(targets.numbers):
        all_of_them = [loop_distance(target, other) for other in among.numbers]
        assert distances[row] == pytest.approx(sorted(all_of_them)[:neighbours], abs=1e-5)
        assert [all_of_them[place] for place in places[row]] == pytest.approx(distances[row], abs=1e-5)


def test_nearest_rows_without_a_column_equal_a_loop_when_each_column_is_left_out():
    rng = np.random.default_rng(4)
    targets, among = draw_table(11, rng), draw_table(50, rng)
    columns = np.arange(len(SPECS))
    places = find_nearest_without(*(lay_out_points(t, SCHEMA) for t in (targets, among)), columns=columns)
    for row, target in enumerate(targets.numbers):
        for column, name in enumerate(SPECS):
            all_of_them = [loop_distance(target, other, without=name) for other in among.numbers]
            assert all_of_them[places[row, column]] == pytest.approx(min(all_of_them), abs=1e-5)


def test_neighbours_are_refused_when_there_are_fewer_rows():
    points = lay_out_points(draw_table(5, np.random.default_rng(5)), SCHEMA)
    with pytest.raises(UsageError):
        find_nearest(points, points, neighbours=6)
