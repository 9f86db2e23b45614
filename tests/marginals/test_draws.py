"""Draws of a category from many rows of odds at once."""

import numpy as np
import pytest

from dpwgan.marginals.draws import draw_by_odds, trade_cells


def test_rows_beside_one_of_no_odds_are_drawn_by_their_own():
    """As the days of an interval that lies beside missing codes, which have none."""
    odds = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 1.0], [0.0, 0.0, 0.0], [0.0, 1.0, 3.0]])
    rows = np.repeat([1, 3], 20_000)
    drawn = draw_by_odds(odds, rows, rng=np.random.default_rng(0))
    for row in (1, 3):
        found = np.bincount(drawn[rows == row], minlength=3) / 20_000
        assert np.abs(found - odds[row] / odds[row].sum()).max() < 0.02


@pytest.mark.parametrize("seed", range(3))
def test_rows_trade_cells_so_that_kinds_go_with_conditions_and_groups_keep_their_own(seed):
    rng = np.random.default_rng(seed)
    groups, conditions, numbers = rng.integers(0, 3, 12_000), rng.integers(0, 2, 12_000), rng.integers(0, 50, 12_000)
    kinds = np.where(groups == 2, 0, numbers % 2)  # of the last group all are of one kind
    cells = 1_000 * groups + 100 * kinds + numbers
    lifts = np.array([[1.0, 1.0], [1.0, 9.0]])
    traded = trade_cells(cells, groups, kinds, conditions, lifts, rng=rng)
    assert np.array_equal(traded // 1_000, groups)
    of_kind = traded // 100 % 10
    assert abs(of_kind.sum() - kinds.sum()) <= 6
    for group in range(2):
        rows = groups == group
        # The odds of the second kind are nine times as large where the condition is met.
        shares = [of_kind[rows & (conditions == condition)].mean() for condition in (0, 1)]
        odds = [share / (1.0 - share) for share in shares]
        assert odds[1] / odds[0] == pytest.approx(9.0, rel=0.02)
        # What is traded is what rows had: each as often, but for a few.
        counts = [np.bincount(own[rows], minlength=3_000) for own in (traded, cells)]
        assert np.abs(counts[0] - counts[1]).max() <= 3
    assert trade_cells(cells[:0], groups[:0], kinds[:0], conditions[:0], lifts, rng=rng).shape == (0,)
