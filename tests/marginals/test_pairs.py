"""All two-way counts in one release: how far a record moves them together, the noise on them, and the weights."""

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpwgan.errors import PrivacyError
from dpwgan.marginals.groups import GroupLayout
from dpwgan.marginals.measurements import MeasuredMarginals
from dpwgan.marginals.pairs import measure_moments, plan_moments, weigh_pairs
from dpwgan.marginals.views import Views
from dpwgan.privacy.events import Gaussian
from tests.counts import count_marginal
from tests.ledgers import Watcher, open_ledger
from tests.marginals.groups import loss_of, make_groups, replace_row
from tests.normal_law import has_variance
from tests.rows import hold_groups

FALSE_ALARM = 1e-6
SIZES = (3, 1, 4, 2, 5)
LAYOUT = GroupLayout(SIZES)


def measure(
    groups: npt.NDArray[np.int32], layout: GroupLayout, *, noise_multiplier: float, seed: int = 0
) -> tuple[MeasuredMarginals, Watcher]:
    measured, watcher = MeasuredMarginals(Views(layout)), Watcher()
    ledger = open_ledger([plan_moments(noise_multiplier=noise_multiplier)], source=seed, observers=[watcher])
    measure_moments(hold_groups(groups, layout), measured=measured, records=len(groups), ledger=ledger)
    return measured, watcher


def find_values(groups: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
    """Everything that is given noise in one release, side by side."""
    _, watcher = measure(groups, LAYOUT, noise_multiplier=7.0)
    (release,) = watcher.releases
    assert release.sensitivity == 1.0
    assert release.event == Gaussian(noise_multiplier=7.0, replace_one_factor=math.sqrt(2))
    return np.concatenate([values.ravel() for values in watcher.exact])


@pytest.mark.parametrize("sizes", [SIZES, (2, 2), (128, 2, 2, 30)])
def test_weights_are_the_best_of_one_norm_when_compared_with_others(sizes):
    layout = GroupLayout(sizes)
    weights = weigh_pairs(layout)
    assert list(weights) == list(itertools.combinations(range(len(sizes)), 2))
    chosen = np.array(list(weights.values()))
    assert np.square(chosen).sum() == pytest.approx(1.0, rel=1e-12)
    cells = np.array([layout.count_cells(pair) for pair in weights], np.float64)
    rng = np.random.default_rng(1)
    for spread in (0.01, 0.1, 1.0):
        for _ in range(50):
            other = chosen * np.exp(spread * rng.standard_normal(len(chosen)))
            other /= np.linalg.norm(other)
            assert (cells / chosen).sum() <= (cells / other).sum() * (1 + 1e-12)


def test_no_pair_is_weighed_when_there_is_one_attribute():
    assert weigh_pairs(GroupLayout((4,))) == {}


@settings(max_examples=40)
@given(st.integers(1, 30), st.integers(0, 2**31))
def test_all_counts_together_move_by_no_more_than_the_sensitivity_when_a_record_goes_or_changes(records, seed):
    rng = np.random.default_rng(seed)
    groups = make_groups(records, sizes=SIZES, seed=seed)
    row = int(rng.integers(records))
    values = find_values(groups)
    # A record that is zeroed out adds nothing to any count; how many records there are is public.
    without = find_values(np.delete(groups, row, axis=0)) if records > 1 else np.zeros_like(values)
    changed = find_values(replace_row(groups, row, by=rng.integers(0, SIZES)))
    assert np.linalg.norm(values - without) == pytest.approx(1.0, rel=1e-12)
    assert np.linalg.norm(values - changed) <= math.sqrt(2) * (1 + 1e-12)


def test_replaced_record_reaches_the_sensitivity_when_it_leaves_every_cell():
    groups = np.zeros((5, 5), np.int32)
    moved = find_values(groups) - find_values(replace_row(groups, 0, by=[2, 0, 3, 1, 4]))
    assert np.linalg.norm(moved) == pytest.approx(math.sqrt(2))


@pytest.mark.statistical
def test_noise_has_the_variance_of_its_weight_when_measured_by_chi_square():
    layout = GroupLayout((70, 60, 20))
    groups = make_groups(300, sizes=layout.sizes, seed=2)
    measured, _ = measure(groups, layout, noise_multiplier=3.0, seed=3)
    cells = {(0, 1): 4_200, (0, 2): 1_400, (1, 2): 1_200}
    norm = math.sqrt(sum(number ** (2 / 3) for number in cells.values()))
    normal = []
    for pair, number in cells.items():
        noise = measured.get_shares(pair).astype(np.float64) * 300 - count_marginal(groups, pair, layout)
        normal.append(noise.ravel() * number ** (1 / 3) / norm / 3.0)
    together = np.concatenate(normal)
    assert len(together) >= 5_000
    assert has_variance(together)
    assert stats.kstest(together, "norm").pvalue > FALSE_ALARM
    # Pairs are not noisy together: Pearson's r of two halves has stddev 1 / root of their length.
    assert abs(np.corrcoef(together[:3_400], together[3_400:])[0, 1]) < 5 / math.sqrt(3_400)
    # The twin: noise a tenth too low must be found out, on as few as 5,000 numbers.
    assert not has_variance(0.9 * together[:5_000])


def test_answers_weigh_by_their_own_noise_when_they_become_a_loss():
    groups = make_groups(300, sizes=SIZES, seed=4)
    measured, _ = measure(groups, LAYOUT, noise_multiplier=2.0)
    probabilities = np.full((1, LAYOUT.width), 0.0, np.float32)
    squares = {pair: float((measured.get_shares(pair).astype(np.float64) ** 2).sum()) for pair in measured}
    expected = sum(0.5 * squares[pair] * (weight * 300 / 2.0) ** 2 for pair, weight in weigh_pairs(LAYOUT).items())
    assert loss_of(measured, probabilities) == pytest.approx(expected, rel=1e-4)


def test_release_is_refused_when_the_noise_is_none():
    with pytest.raises(PrivacyError, match="noise_multiplier"):
        measure(make_groups(5, sizes=SIZES, seed=0), LAYOUT, noise_multiplier=0.0)
