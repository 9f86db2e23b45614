import math

import numpy as np
import pytest
from scipy import stats

from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import ExponentialSelection
from dpwgan.privacy.mechanisms import exponential as exponential_module
from dpwgan.privacy.mechanisms.exponential import LEAST_EPSILON, _draw, _uniform_below, select_by_exponential_mechanism

FALSE_ALARM = 1e-6
DRAWS = 10_000
SCORES = np.array([3.0, 0.0, 2.5, 2.5, -1.0, 3.5])
SENSITIVITY, EPSILON = 0.7, 1.9


def _passes_chi_square(draws):
    """Whether draws have the law of the textbook, at a false alarm of one in a million."""
    weights = np.exp(EPSILON * SCORES / (2 * SENSITIVITY))
    expected = DRAWS * weights / weights.sum()
    assert expected.min() > 5
    observed = np.bincount(draws, minlength=SCORES.size)
    return bool(stats.chisquare(observed, expected).pvalue > FALSE_ALARM)


def select(scores, *, sensitivity=1.0, epsilon=1.0, rng=None):
    event = ExponentialSelection(epsilon=epsilon)
    return select_by_exponential_mechanism(scores, event, sensitivity=sensitivity, rng=rng or np.random.default_rng(1))


@pytest.mark.statistical
@pytest.mark.parametrize("factor", [0.8, 1.0, 1.25, 2.0])
def test_selection_has_its_law_when_drawn_and_another_scale_is_found_out(factor):
    rng = np.random.default_rng()
    drawn = [select(SCORES, sensitivity=SENSITIVITY, epsilon=factor * EPSILON, rng=rng) for _ in range(DRAWS)]
    assert _passes_chi_square(drawn) is (factor == 1.0)


@pytest.mark.statistical
def test_selection_has_the_law_of_gumbel_noise_when_compared():
    rng = np.random.default_rng()
    noise = rng.gumbel(scale=2 * SENSITIVITY / EPSILON, size=(DRAWS, SCORES.size))
    assert _passes_chi_square(np.argmax(SCORES + noise, axis=1))


def test_selection_takes_the_best_when_it_is_far_ahead():
    scores = np.array([0.0, 1e300, -1e300])
    for seed in range(20):
        assert select(scores, rng=np.random.default_rng(seed)) == 1


def _weights(scores, monkeypatch, **settings):
    """The weights that a selection hands to the draw."""
    seen = []
    monkeypatch.setattr(exponential_module, "_draw", lambda weights, rng: seen.append(weights) or 0)
    select(scores, **settings)
    return seen[0]


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 1.0, 40.0])
@pytest.mark.parametrize("spread", [1.0, 30.0, 1e5, 1e12])
def test_losses_stay_within_their_range_when_scores_move_by_the_sensitivity(epsilon, spread, monkeypatch):
    rng = np.random.default_rng(3)
    settings = {"sensitivity": 0.75, "epsilon": epsilon}
    for _ in range(20):
        scores = rng.uniform(-spread, spread, 50)
        # Moves that leave the sums exact, so that the neighbour's scores are at most the sensitivity away.
        scores = np.round(scores * 4) / 4
        moved = scores + 0.75 * rng.choice([-1.0, 1.0], 50)
        with monkeypatch.context() as patch:
            logs = [np.log(_weights(table, patch, **settings)) for table in (scores, moved)]
        assert min(table.min() for table in logs) >= -700 * (1 + 1e-15)
        assert np.ptp(logs[0] - logs[1]) <= epsilon
    with monkeypatch.context() as patch:
        logs = [np.log(_weights(table, patch, **settings)) for table in ([0.0, 0.0], [0.75, -0.75])]
    # The sensitivity is used up: nothing is lost to the margin but the margin.
    assert np.ptp(logs[0] - logs[1]) == pytest.approx(epsilon, rel=0.005)


def test_the_check_of_losses_fails_when_the_sensitivity_is_understated(monkeypatch):
    logs = [np.log(_weights(table, monkeypatch, sensitivity=0.7, epsilon=1.0)) for table in ([0.0, 0.0], [0.75, -0.75])]
    assert np.ptp(logs[0] - logs[1]) > 1.0


class _Bits:
    """Takes the place of a generator: gives whole numbers of a list, as bytes."""

    def __init__(self, *numbers):
        self._numbers = list(numbers)

    def bytes(self, size):
        return self._numbers.pop(0).to_bytes(size, "little")


def test_draw_is_exact_when_weights_are_far_apart():
    # Both ends of the second candidate's part, of 2^74 in 2^1074 + 2^74, which no uniform float would ever hit.
    weights, one = np.array([1.0, 2.0**-1000]), 2**1074
    size = -one.bit_length() % 8
    for drawn, chosen in ((one - 1, 0), (one, 1), (one + 2**74 - 1, 1)):
        assert _draw(weights, _Bits(drawn << size)) == chosen


def test_a_number_at_or_above_the_bound_is_thrown_away_when_drawn():
    assert _uniform_below(3, _Bits(0b11 << 6, 0b01 << 6)) == 1


@pytest.mark.statistical
def test_uniform_numbers_are_uniform_when_the_bound_is_no_power_of_two():
    rng = np.random.default_rng()
    draws = [_uniform_below(5, rng) for _ in range(DRAWS)]
    assert stats.chisquare(np.bincount(draws, minlength=5)).pvalue > FALSE_ALARM
    # The broken twin: bits modulo the bound.
    folded = rng.integers(0, 8, DRAWS) % 5
    assert stats.chisquare(np.bincount(folded, minlength=5)).pvalue < FALSE_ALARM


@pytest.mark.parametrize("scores", [[], [1.0, math.nan], [math.inf, 0.0], [[1.0, 2.0]], 3.0])
def test_selection_is_refused_when_scores_are_no_finite_vector(scores):
    with pytest.raises(PrivacyError):
        select(scores)


@pytest.mark.parametrize(
    ("sensitivity", "epsilon"), [(0.0, 1.0), (math.nan, 1.0), (1e308, 1e-8), (1e-320, 1.0), (1.0, LEAST_EPSILON / 2)]
)
def test_selection_is_refused_when_a_number_is_out_of_range(sensitivity, epsilon):
    with pytest.raises(PrivacyError):
        select([1.0, 2.0], sensitivity=sensitivity, epsilon=epsilon)
