"""Rows as points: neighbours equal loops over pairs, vectors keep distances, and an embedding parts twins."""

import math

import numpy as np
import pytest

from dpwgan.audit.points import find_nearest, find_nearest_without, fit_embedding, lay_out_points
from dpwgan.errors import UsageError
from tests.audit.populations import SPECS, draw_table


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


def test_nearest_rows_equal_a_loop_over_all_pairs_when_columns_are_mixed(monkeypatch):
    monkeypatch.setattr("dpwgan.audit.points._MOST_PAIRS", 150)  # several pieces
    rng = np.random.default_rng(3)
    targets, among = draw_table(17, rng), draw_table(60, rng)
    distances = find_nearest(*(lay_out_points(t) for t in (targets, among)))
    for row, target in enumerate(targets.numbers):
        nearest = min(loop_distance(target, other) for other in among.numbers)
        assert distances[row] == pytest.approx(nearest, abs=1e-5)


def test_nearest_rows_without_a_column_equal_a_loop_when_each_column_is_left_out():
    rng = np.random.default_rng(4)
    targets, among = draw_table(11, rng), draw_table(50, rng)
    columns = np.arange(len(SPECS))
    places = find_nearest_without(*(lay_out_points(t) for t in (targets, among)), columns=columns)
    for row, target in enumerate(targets.numbers):
        for column, name in enumerate(SPECS):
            all_of_them = [loop_distance(target, other, without=name) for other in among.numbers]
            assert all_of_them[places[row, column]] == pytest.approx(min(all_of_them), abs=1e-5)


def test_rows_written_out_are_as_far_apart_as_their_cells_when_columns_are_mixed():
    table = draw_table(30, np.random.default_rng(6))
    points = lay_out_points(table)
    flat = points.spread_out()
    for left, right in ((0, 1), (2, 3), (4, 5)):
        expected = 0.0
        for place, spec in enumerate(SPECS.values()):
            a, b = points.values[[left, right], place].astype(float)
            if spec["type"] == "enum":
                expected += a != b
            else:
                expected += (np.isnan(a) != np.isnan(b)) + (np.nan_to_num(a) - np.nan_to_num(b)) ** 2
        assert np.square(flat[left] - flat[right]).sum() == pytest.approx(expected, abs=1e-5)


def test_embedding_keeps_the_directions_of_most_spread_when_dimensions_are_few():
    points = lay_out_points(draw_table(500, np.random.default_rng(7)))
    embedding = fit_embedding(points, components=3)
    flat = points.spread_out()
    singular = np.linalg.svd(flat - flat.mean(axis=0), compute_uv=False)
    kept = (flat - flat.mean(axis=0)) @ embedding.directions
    assert np.linalg.norm(kept, axis=0) == pytest.approx(singular[:3])
    assert embedding.noise == pytest.approx(0.1 * np.sqrt(np.mean(singular[:3] ** 2 / 500)))


def test_embedding_parts_rows_that_coincide_when_it_places_them():
    table = draw_table(50, np.random.default_rng(8))
    twins = lay_out_points(table.take(np.repeat(np.arange(50), 2)))
    embedding = fit_embedding(twins, components=4)
    assert len(np.unique(embedding.place(twins, np.random.default_rng(9)), axis=0)) == 100


def test_embedding_is_refused_when_all_rows_are_the_same():
    points = lay_out_points(draw_table(5, np.random.default_rng(11)).take(np.zeros(9, dtype=np.int64)))
    with pytest.raises(UsageError):
        fit_embedding(points, components=2)
