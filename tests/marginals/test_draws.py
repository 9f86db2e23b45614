"""Draws from many rows of odds at once, and systematic ones: each row's law, and how little counts are off."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpwgan.marginals.draws import SystematicDraws, draw_by_odds, trade_cells

FALSE_ALARM = 1e-6
Floats = npt.NDArray[np.float64]


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


@settings(max_examples=60)
@given(st.integers(0, 300), st.integers(1, 6), st.integers(1, 7), st.integers(0, 2**31))
def test_counts_are_off_by_at_most_one_in_each_group_when_drawn(rows, groups, categories, seed):
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(categories, 0.3), groups)
    chosen = rng.integers(0, groups, rows)
    drawn = draw_systematically(table, chosen, rng=rng)
    assert drawn.shape == (rows,)
    for group in range(groups):
        inside = chosen == group
        counts = np.bincount(drawn[inside], minlength=categories)
        assert len(counts) == categories
        assert np.abs(counts - inside.sum() * table[group]).max() <= 1 + 1e-9


def test_no_category_of_probability_zero_is_drawn_when_others_have_all():
    table = np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])
    chosen = np.random.default_rng(1).integers(0, 3, 5_000)
    drawn = draw_systematically(table, chosen, rng=np.random.default_rng(2))
    assert table[chosen, drawn].min() > 0


def draw_systematically(
    table: Floats, groups: npt.NDArray[np.int64], *, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    return SystematicDraws(groups, count=len(table)).draw(table, rng=rng)


def draw_by_rank(table: Floats, groups: npt.NDArray[np.int64], *, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """The twin: rows of a group in their order, not in a random one. Together they are right, each one is not."""
    ranks = np.array([np.count_nonzero(groups[:row] == group) for row, group in enumerate(groups)])
    points = (ranks + rng.random(len(table))[groups]) / np.bincount(groups, minlength=len(table))[groups]
    return (points[:, np.newaxis] > np.cumsum(table, axis=1)[groups][:, :-1]).sum(axis=1)


@pytest.mark.statistical
@pytest.mark.parametrize(("draw", "broken"), [(draw_systematically, False), (draw_by_rank, True)])
def test_each_row_has_its_groups_distribution_when_drawn_again_and_again(draw, broken):
    """Chi-square of one row over repeated draws, which are independent; the bound is shared out among the rows."""
    rng = np.random.default_rng(3)
    table = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    groups = np.array([0, 1, 1, 0, 0, 1, 0, 0])
    drawn = np.array([draw(table, groups, rng=rng) for _ in range(3_000)])
    rejected = [
        stats.chisquare(np.bincount(own, minlength=3), len(drawn) * table[group]).pvalue < FALSE_ALARM / len(groups)
        for own, group in zip(drawn.T, groups, strict=True)
    ]
    assert bool(np.any(rejected)) is broken
