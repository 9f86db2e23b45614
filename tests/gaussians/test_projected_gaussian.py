"""Rows from a Gaussian in a random projection: what they are drawn from, back to groups, and from disk."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dpwgan.app.saved_model import load_synthesizer
from dpwgan.errors import DpwganError, InputError
from dpwgan.gaussians.class_moments import leave_out
from dpwgan.gaussians.projected_gaussian import (
    PROJECTED_FILE,
    ClassSampler,
    Coordinates,
    fit_offsets,
)
from tests.methods.runs import make_table, run

SHARES = (np.array([0.5, 0.3, 0.2]), np.array([1.0]), np.array([0.1, 0.0, 0.6, 0.3]), np.array([0.25, 0.75]))
COORDINATES = Coordinates(probabilities=SHARES, is_rank=(False, True, True, True))


def covariance_of_independent_columns() -> np.ndarray:
    result = np.zeros((5, 5))
    result[:3, :3] = np.diag(SHARES[0]) - np.outer(SHARES[0], SHARES[0])
    for place, column in ((3, 2), (4, 3)):
        ranks = 2 * np.cumsum(SHARES[column]) - SHARES[column] - 1
        result[place, place] = SHARES[column] @ ranks**2
    return result


def test_points_are_centred_and_as_spread_as_the_columns_when_shares_are_known():
    assert [column.piece for column in COORDINATES.columns] == [slice(0, 3), slice(3, 3), slice(3, 4), slice(4, 5)]
    for shares, _, _, points in COORDINATES.columns:
        np.testing.assert_allclose(shares @ points, 0, atol=1e-15)
        assert np.abs(points).max(initial=0) <= 1
    expected = covariance_of_independent_columns()
    np.testing.assert_allclose(COORDINATES.multiply(np.eye(5)), expected, atol=1e-15)
    assert COORDINATES.variance == pytest.approx(np.trace(expected))


def test_projection_equals_a_product_when_points_are_written_out():
    rng = np.random.default_rng(1)
    groups = np.stack([rng.integers(0, len(shares), 50) for shares in SHARES], axis=1)
    matrix = rng.standard_normal((5, 2))
    dense = np.hstack([column.points[groups[:, place]] for place, column in enumerate(COORDINATES.columns)])
    np.testing.assert_allclose(COORDINATES.project(groups, matrix), dense @ matrix, atol=1e-12)


def make_sampler(**settings: object) -> ClassSampler:
    return run("ron-gauss", make_table(400), epsilon=30.0, **settings).fitted


@pytest.mark.statistical
def test_drawn_points_have_the_stated_stddevs_when_dimensions_are_few():
    """400,000 draws: a stddev is off by 5 in 1,000 at most, five of its own stddevs."""
    model = make_sampler(projection_dimension=3, noise="gaussian").models[0]
    draws = model.draw_points(400_000, rng=np.random.default_rng(2))
    np.testing.assert_allclose(draws.std(axis=0), model.stddevs, rtol=7e-3, atol=1e-4)
    inside = draws @ model.projection
    np.testing.assert_allclose(np.cov(inside.T), model.factor @ model.factor.T, rtol=0.02, atol=0.01)


def test_groups_have_the_released_shares_when_drawn():
    table = make_table(2_000)
    table.codes[:, 0] = np.where(np.arange(2_000) % 8 < 6, 0, table.codes[:, 0])  # three quarters in one cell
    model = run("ron-gauss", table, epsilon=30.0, projection_dimension=23, noise="gaussian").fitted.models[0]
    assert not all(model.is_rank)
    groups = model.to_groups(model.draw_points(40_000, rng=np.random.default_rng(3)))
    for column, shares in enumerate(model.coarsening.probabilities):
        found = np.bincount(groups[:, column], minlength=len(shares)) / 40_000
        np.testing.assert_allclose(found, shares, atol=0.02)
    # The twin: without offsets they have not.
    plain = replace(model, offsets=np.zeros_like(model.offsets))
    again = plain.to_groups(plain.draw_points(40_000, rng=np.random.default_rng(3)))
    wrong = [
        np.abs(np.bincount(again[:, column], minlength=len(shares)) / 40_000 - shares).max()
        for column, shares in enumerate(model.coarsening.probabilities)
    ]
    assert max(wrong) > 0.03
    assert np.isfinite(fit_offsets(model, rng=np.random.default_rng(4))).all()


@pytest.mark.parametrize("damage", ["key", "width", "classes", "number", "label"])
def test_saved_model_is_refused_when_it_is_damaged(damage, tmp_path):
    make_sampler().save(tmp_path)
    columns = tmp_path / "projected.json"
    document = json.loads(columns.read_text())
    with np.load(tmp_path / PROJECTED_FILE) as archive:
        arrays = dict(archive)
    if damage == "key":
        columns.write_text(json.dumps({"spans": []}))
    elif damage == "label":
        columns.write_text(json.dumps({**document, "label": 99}))
    elif damage == "width":
        np.savez(tmp_path / PROJECTED_FILE, **{**arrays, "projection_0": arrays["projection_0"][1:]})
    elif damage == "classes":
        np.savez(tmp_path / PROJECTED_FILE, **{**arrays, "shares": np.array([0.5, 0.5])})
    else:
        np.savez(tmp_path / PROJECTED_FILE, **{**arrays, "factor_0": arrays["factor_0"] * np.nan})
    with pytest.raises(InputError, match="damaged"):
        load_synthesizer(tmp_path)


def test_column_leaves_no_gap_when_it_is_left_out():
    spans = make_table(3).spans
    for span in spans:
        if span.head == "linear" or span.role == "available":
            continue
        inner = leave_out(spans, span)
        assert len(inner) == len(spans) - 1
        assert sorted(s.source for s in inner if s.head != "linear") == list(
            range(sum(s.head != "linear" for s in inner))
        )
        ends = [0, *np.cumsum([s.width for s in inner]).tolist()]
        assert [s.start for s in inner] == ends[:-1]


def test_model_is_refused_when_its_arrays_do_not_fit():
    model = make_sampler().models[0]
    with pytest.raises(DpwganError, match="fit together"):
        replace(model, offsets=model.offsets[1:])
