"""Rank correlations: how far a record moves them, the noise on them, what is taken off it, and codes that keep them."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.marginals.groups import GroupLayout
from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.marginals.one_way.coarsening import Coarsening
from dpwgan.marginals.selection import rank_correlations as ranking
from dpwgan.marginals.selection.rank_correlations import (
    CORRELATIONS_LABEL,
    NORMS,
    NORMS_LABEL,
    PRODUCTS,
    RankCorrelations,
    has_order,
    measure_correlations,
    plan_correlations,
    rank_groups,
    shrink,
)
from dpwgan.privacy.events import Gaussian
from dpwgan.table.schema import CategoricalColumn, NumericColumn
from tests.ledgers import Watcher, open_ledger
from tests.marginals.groups import (
    add_up_gradients,
    find_slope,
    make_groups,
    make_part,
    make_probabilities,
    replace_row,
)
from tests.marginals.tables import lay_out
from tests.normal_law import has_variance
from tests.rows import hold_groups

Floats = npt.NDArray[np.float64]
Groups = npt.NDArray[np.int32]

SIZES = (3, 2, 4, 2, 5)
LAYOUT = GroupLayout(SIZES)
PLACES = [0, 2, 3, 4]
TOP = 128


def spread_ranks(layout: GroupLayout = LAYOUT, places: Any = PLACES) -> Floats:
    """Ranks from end to end for each attribute's groups."""
    ranks = np.zeros((len(places), layout.width))
    for own, place in zip(ranks, places, strict=True):
        own[layout.get_slice(place)] = np.rint(np.linspace(-TOP, TOP, layout.sizes[place]))
    return ranks


def measure(
    groups: Groups, *, noise: float = 1e-4, layout: GroupLayout = LAYOUT, places: Any = PLACES, seed: int = 0
) -> tuple[dict[str, Any], Watcher]:
    watcher, ranks = Watcher(), spread_ranks(layout, places)
    ledger = open_ledger(plan_correlations(noise_multiplier=noise), source=seed, observers=[watcher])
    counts = [np.bincount(groups[:, place], minlength=size) for place, size in enumerate(layout.sizes)]
    shares = np.concatenate(counts) / max(1, len(groups))
    rows = hold_groups(groups, layout)
    return measure_correlations(
        rows, ranks, places=places, shares=shares, records=max(1, len(groups)), ledger=ledger
    ), watcher


def take_ranks(groups: Groups) -> Floats:
    ranks = spread_ranks()
    return np.array([[ranks[k, LAYOUT.starts[a] + row[a]] for k, a in enumerate(PLACES)] for row in groups])


def test_sums_are_those_of_a_loop_over_rows():
    groups, bound = make_groups(60, sizes=SIZES, seed=1), 170.0
    counts, total = [0] * 16, [[0] * len(PLACES) for _ in PLACES]
    for row in take_ranks(groups).tolist():
        square = sum(value**2 for value in row)
        counts[min(int(16 * square / (4 * TOP**2)), 15)] += 1
        kept = [int(value * min(1.0, bound / math.sqrt(square))) for value in row]
        for left, own in enumerate(kept):
            for right, other in enumerate(kept):
                total[left][right] += own * other
    rows = hold_groups(groups, LAYOUT)
    named = {"places": PLACES, "largest": 4.0 * TOP**2, "bound": bound}
    assert rows.sum(NORMS, argument=named, array=spread_ranks()).tolist() == counts
    assert rows.sum(PRODUCTS, argument=named, array=spread_ranks()).tolist() == total
    assert sum(counts) == 60 > counts[-1] > 0  # some rows are cut


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 30), st.integers(0, 2**31), st.floats(20.0, 300.0))
def test_releases_move_by_no_more_than_their_sensitivity_when_a_record_goes_or_changes(records, seed, bound):
    groups, rng = make_groups(records, sizes=SIZES, seed=seed), np.random.default_rng(seed)

    def find(rows: Groups) -> list[Floats]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ranking, "_choose_bound", lambda *_, **__: bound)
            _, watcher = measure(rows)
        assert [release.label for release in watcher.releases] == [NORMS_LABEL, CORRELATIONS_LABEL]
        assert [release.sensitivity for release in watcher.releases] == [1.0, 1.0]
        return watcher.exact

    row = int(rng.integers(records))
    before = find(groups)
    gone, changed = (
        [np.linalg.norm(own - other) for own, other in zip(before, find(rows), strict=True)]
        for rows in (np.delete(groups, row, axis=0), replace_row(groups, row, by=rng.integers(0, SIZES)))
    )
    assert gone[0] == 1.0
    assert gone[1] <= 1.0
    assert all(moved <= math.sqrt(2.0) for moved in changed)


def test_a_record_reaches_the_sensitivity_when_its_ranks_are_all_at_their_ends():
    """With k ranks it is short of it by what the squares of single ranks are: a factor sqrt(1 - 1/k)."""
    groups = np.zeros((4, 5), np.int32)
    _, watcher = measure(groups)
    _, without = measure(groups[:-1])
    assert np.linalg.norm(watcher.exact[1] - without.exact[1]) == pytest.approx(math.sqrt(1 - 1 / 4), rel=1e-6)
    # Half of the ranks turned: the record is at right angles to what it was.
    _, changed = measure(replace_row(groups, 0, by=[0, 0, 0, 1, 4]))
    assert np.linalg.norm(watcher.exact[1] - changed.exact[1]) == pytest.approx(math.sqrt(2.0), rel=1e-6)


def test_releases_cost_what_a_lone_one_of_that_noise_would():
    norms, products = plan_correlations(noise_multiplier=3.0)
    rho = 1 / (2 * norms.event.stddev**2) + 1 / (2 * products.event.noise_multiplier**2)
    assert rho == pytest.approx(1 / (2 * 3.0**2), rel=1e-6)
    assert products.event == Gaussian(noise_multiplier=3.0 / math.sqrt(0.8), replace_one_factor=math.sqrt(2.0))


@pytest.mark.statistical
def test_noise_has_its_variance_when_measured_by_chi_square():
    layout = GroupLayout((2,) * 110)
    _, watcher = measure(make_groups(50, sizes=layout.sizes, seed=3), noise=4.0, layout=layout, places=range(110))
    noise = (watcher.noisy[1] - watcher.exact[1]) / (4.0 / math.sqrt(0.8))
    assert noise.shape == (110 * 109 // 2,)
    assert has_variance(noise)
    # The twin: noise a tenth too low.
    assert not has_variance(0.9 * noise)


def test_products_are_means_over_records_in_the_unit_of_ranks_from_minus_one_to_one(monkeypatch):
    monkeypatch.setattr(ranking, "_choose_bound", lambda *_, largest, **__: math.sqrt(largest))
    groups = make_groups(3_000, sizes=SIZES, seed=4)
    kept, _ = measure(groups)
    values = take_ranks(groups) / TOP
    exact = values.T @ values / len(groups)
    apart = ~np.eye(len(PLACES), dtype=bool)
    assert np.abs(kept["products"] - exact)[apart].max() < 0.01
    # Three thousand records, of which each moves a product by up to b^2 / sqrt(2) in all.
    noisy, _ = measure(groups, noise=2.0)
    assert float(noisy["stddev"]) == pytest.approx(2.0 / math.sqrt(0.8) * 4 / math.sqrt(2.0) / 3_000, rel=0.01)


@pytest.mark.parametrize(
    ("counts", "stddev", "expected"), [([0, 1_000], 0.1, 2), ([0, 1_000], 4_000.0, 16), ([], 0.1, 1)]
)
def test_rows_are_cut_where_little_is_cut_off_whatever_noise_hides(counts, stddev, expected):
    padded = np.pad(np.array(counts, float), (0, 16 - len(counts)))
    bound = ranking._choose_bound(padded, stddev=stddev, largest=64.0, records=1_000)
    assert bound**2 == pytest.approx(64.0 * expected / 16)


def test_the_norm_that_rows_are_cut_to_is_chosen_by_released_counts(monkeypatch):
    seen: list[Floats] = []
    choose = ranking._choose_bound
    monkeypatch.setattr(ranking, "_choose_bound", lambda counts, **more: seen.append(counts) or choose(counts, **more))
    _, watcher = measure(make_groups(60, sizes=SIZES, seed=1), noise=5.0)
    np.testing.assert_array_equal(seen[0], watcher.noisy[0])
    assert not np.array_equal(seen[0], watcher.exact[0])


def test_columns_that_hold_one_thing_each_have_nothing_to_correlate():
    ledger, rows = open_ledger(plan_correlations(noise_multiplier=2.0)), hold_groups(np.zeros((9, 5), np.int32), LAYOUT)
    nothing, shares = np.zeros_like(spread_ranks()), np.ones(LAYOUT.width)
    kept = measure_correlations(rows, nothing, places=PLACES, shares=shares, records=9, ledger=ledger)
    assert not np.any(kept["products"])
    assert 0 < float(kept["stddev"]) < math.inf


def test_noise_is_taken_off_and_what_columns_share_is_left():
    rng = np.random.default_rng(0)
    loadings, variances = rng.uniform(0.3, 0.5, (40, 1)), np.full(40, 1 / 3)
    exact = loadings @ loadings.T
    upper = np.triu(0.05 * rng.standard_normal((40, 40)), 1)
    apart = ~np.eye(40, dtype=bool)

    def find_error(found: Floats) -> float:
        return float(np.sqrt(np.mean(np.square(found - exact)[apart])))

    found = shrink(exact + upper + upper.T, variances, stddev=0.05)
    assert find_error(found) < 0.35 * find_error(exact + upper + upper.T)
    assert np.abs(found - found.T).max() < 1e-12
    assert np.linalg.matrix_rank(found, tol=1e-6) <= 3
    assert np.all(np.diag(found) <= variances * (1 + 1e-9))
    # Nothing but noise is nothing, and without noise all is left.
    assert np.abs(shrink(upper + upper.T, variances, stddev=0.06)).max() < 1e-9
    assert find_error(shrink(exact, variances, stddev=1e-9)) < 1e-3
    # What noise puts above what ranks can have together is not asked for.
    assert np.diag(shrink(3 * exact, variances, stddev=0.01)).max() <= 1 / 3 + 1e-9


def test_the_gradient_is_that_of_the_squared_errors():
    rng = np.random.default_rng(2)
    probabilities = make_probabilities(7, sizes=SIZES, seed=5)
    wanted = rng.uniform(-0.1, 0.1, (4, 4))
    wanted += wanted.T
    loss = RankCorrelations(spread_ranks(), wanted, stddev=0.03)

    def value(of: Floats) -> float:
        means = of @ (spread_ranks() / TOP).T
        errors = (means.T @ means / len(of) - wanted)[np.triu_indices(4, 1)]
        return float(np.square(errors / 0.03).sum() / 2)

    found, exact = add_up_gradients([loss], probabilities), find_slope(value, probabilities.astype(np.float64))
    assert np.abs(found - exact).max() < 1e-3 * np.abs(exact).max()
    assert loss.count_sums() == 16


SPANS = lay_out(
    NumericColumn(name="age", minimum=0, maximum=99, integer=True, missing=("",)),
    CategoricalColumn(name="answer", tokens=("1", "2", "3", "9"), integer=True, missing=("9",)),
    CategoricalColumn(name="yes", tokens=("no", "yes"), integer=False),
    CategoricalColumn(name="kind", tokens=tuple("abc"), integer=False),
    CategoricalColumn(name="only", tokens=("a",), integer=False),
)


def test_columns_with_an_order_are_numbers_rising_codes_and_those_of_two_codes():
    assert [has_order(attribute) for attribute in lay_out_attributes(SPANS)] == [True, True, True, False, False]


def test_ranks_rise_are_nought_in_the_mean_and_nought_where_there_is_nothing():
    parts = (
        make_part([0, 1, 31, 51], counts=[0.2, 0.4, 0.3, 0.1], cells=101, codes=1),
        # The middle answer shares a group with the one above it.
        make_part([0, 1, 2, 3], groups=[0, 1, 1, 2], counts=[0.3, 0.4, 0.3], cells=4),
        make_part([0, 1], counts=[0.9, 0.1], cells=2),
        make_part([0, 1, 2], counts=[0.2, 0.3, 0.5], cells=3),
        make_part([0], cells=1),
    )
    coarsening = Coarsening(spans=SPANS, parts=parts)
    ranks = rank_groups(coarsening, [0, 1, 2])
    shares = np.concatenate([own.probabilities for own in parts])
    assert np.abs(ranks @ shares).max() < 1.0  # of 128, by rounding
    assert ranks[0, :4].tolist() == [0, -64, 48, 112]
    assert ranks[1, 4:7].tolist() == [-73, 55, 0]
    assert ranks[2, 7:9].tolist() == [-13, 115]
    assert not np.any(ranks[0, 4:])
    assert not np.any(ranks[2, 9:])
