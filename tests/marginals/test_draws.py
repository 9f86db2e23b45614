"""Draws of a category from many rows of odds at once."""

import numpy as np

from dpwgan.marginals.draws import draw_by_odds


def test_rows_beside_one_of_no_odds_are_drawn_by_their_own():
    """As the days of an interval that lies beside missing codes, which have none."""
    odds = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 1.0], [0.0, 0.0, 0.0], [0.0, 1.0, 3.0]])
    rows = np.repeat([1, 3], 20_000)
    drawn = draw_by_odds(odds, rows, rng=np.random.default_rng(0))
    for row in (1, 3):
        found = np.bincount(drawn[rows == row], minlength=3) / 20_000
        assert np.abs(found - odds[row] / odds[row].sum()).max() < 0.02
