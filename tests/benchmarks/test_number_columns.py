"""The benchmark of single columns: its rivals and scores, and one small run."""

import numpy as np
import pytest

from benchmarks.number_columns import (
    COLUMNS,
    Density,
    draw_column,
    main,
    make_equal,
    make_priv_tree,
    make_quantiles,
    score,
)


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_lie_in_their_public_range(name):
    low, high, values = draw_column(name, 500, 1)
    assert low <= values.min() <= values.max() <= high
    assert len(np.unique(values)) > 5


def test_scores_are_0_when_the_density_is_the_column():
    values = np.repeat([3, 8, 20], [20, 50, 30])
    found = score(values, Density(np.array([3, 8, 20]), np.array([3, 8, 20]), np.array([0.2, 0.5, 0.3])))
    nothing = pytest.approx(0.0)
    assert found == {"W1": 0.0, "mean": nothing, "stddev": nothing, "quantiles": 0.0, "heaps": nothing}
    shifted = score(values, Density(np.array([4, 9, 21]), np.array([4, 9, 21]), np.array([0.2, 0.5, 0.3])))
    assert shifted["W1"] == pytest.approx(1.0 / np.mean(np.abs(values - 8)))
    assert shifted["heaps"] == pytest.approx(1.0)


def test_rivals_come_near_the_column_when_there_is_hardly_any_noise():
    low, high, values = draw_column("top code", 4_000, 2)
    rivals = {
        "equal": make_equal(values, low, high, noise=1e-6, bins=100),
        "quantiles": make_quantiles(values, low, high, noise=1e-3),
        "PrivTree": make_priv_tree(values, low, high, epsilon=1e4),
    }
    for density in rivals.values():
        assert density.masses.sum() == pytest.approx(1.0)
        assert density.first.min() >= low
        assert density.last.max() <= high
        assert score(values, density)["W1"] < 0.5
    assert score(values, rivals["PrivTree"])["W1"] < 0.01


def test_one_small_run_prints_all_ways(capsys):
    main(["--records", "2000", "--epsilon", "8", "--runs", "1", "--only", "eleven values"])
    out = capsys.readouterr().out
    assert all(way in out for way in ("ours", "equal 32", "quantiles 32", "PrivTree"))
