import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import StableSelection
from dpwgan.privacy.mechanisms.discovery import calibrate_selection, select_categories
from dpwgan.privacy.mechanisms.laplace import sample_two_sided
from tests.privacy.charges import RELATIONS, REPLACE_ONE, ZERO_OUT


def selection_probability(count: int, *, decay: float, threshold: int) -> float:
    """Computes the probability that a token with this count is released.

    Source: the tail of discrete Laplace noise, a^k / (1 + a) for k >= 0, and its reflection.
    """
    if count < 1:
        return 0.0
    needed = threshold - count
    a = math.exp(-decay)
    if needed >= 0:
        return math.exp(-decay * needed) / (1 + a)
    return 1 - math.exp(-decay * (1 - needed)) / (1 + a)


def select(counts, *, epsilon, delta, relation=REPLACE_ONE):
    event = StableSelection(epsilon=epsilon, delta=delta)
    return select_categories(counts, event, rng=np.random.default_rng(1), neighboring_relation=relation)


def _hockey_stick(counts, others, *, epsilon, decay, threshold):
    """The exact delta at epsilon between the releases of two lists of counts, by adding up every outcome."""
    chances = [
        [selection_probability(c, decay=decay, threshold=threshold) for c in table] for table in (counts, others)
    ]
    total = 0.0
    for outcome in itertools.product([True, False], repeat=len(counts)):
        p, q = (math.prod(c if told else 1 - c for told, c in zip(outcome, law, strict=True)) for law in chances)
        total += max(0.0, p - math.exp(epsilon) * q)
    return total


def _worst_delta(relation, *, epsilon, decay, threshold):
    pairs = []
    for c in range(1, threshold + 6):
        pairs.append(([c], [c - 1]))
        if relation is REPLACE_ONE:
            pairs.extend(([c, w], [c - 1, w + 1]) for w in range(threshold + 6))
    return max(
        _hockey_stick(*order, epsilon=epsilon, decay=decay, threshold=threshold)
        for pair in pairs
        for order in (pair, pair[::-1])
    )


@RELATIONS
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (1.0, 1e-9), (3.0, 1e-6)])
def test_selection_keeps_its_epsilon_and_delta_when_tables_are_neighbours(relation, epsilon, delta):
    event = StableSelection(epsilon=epsilon, delta=delta)
    decay, threshold = calibrate_selection(event, neighboring_relation=relation)
    worst = _worst_delta(relation, epsilon=epsilon, decay=decay, threshold=threshold)
    # Sums of probabilities near 1 are off by 1e-15.
    assert worst <= delta + 1e-14


@RELATIONS
def test_the_check_of_selection_fails_when_the_threshold_is_one_too_low_or_the_noise_too_small(relation):
    event = StableSelection(epsilon=1.0, delta=1e-4)
    decay, threshold = calibrate_selection(event, neighboring_relation=relation)
    lower = _worst_delta(relation, epsilon=1.0, decay=decay, threshold=threshold - 1)
    if relation is ZERO_OUT:
        assert lower > 1e-4
    assert _worst_delta(relation, epsilon=1.0, decay=decay, threshold=threshold - 3) > 1e-4
    assert _worst_delta(relation, epsilon=1.0, decay=1.2 * decay, threshold=math.ceil(threshold)) > 1e-4


def test_selection_calibrated_for_zero_out_is_not_enough_when_a_record_is_replaced():
    event = StableSelection(epsilon=1.0, delta=1e-4)
    decay, threshold = calibrate_selection(event, neighboring_relation=ZERO_OUT)
    assert _worst_delta(REPLACE_ONE, epsilon=1.0, decay=decay, threshold=threshold) > 1e-4


def test_threshold_is_the_least_one_when_calibrated():
    for epsilon, delta in ((0.1, 1e-9), (1.0, 1e-6), (4.0, 1e-3)):
        event = StableSelection(epsilon=epsilon, delta=delta)
        decay, threshold = calibrate_selection(event, neighboring_relation=ZERO_OUT)
        assert selection_probability(1, decay=decay, threshold=threshold) <= delta
        assert selection_probability(1, decay=decay, threshold=threshold - 1) > delta
        # The textbook's threshold for continuous noise, to within a whole number.
        assert threshold == pytest.approx(1 + math.log(1 / (2 * delta)) / epsilon, abs=1.5)


@pytest.mark.statistical
@pytest.mark.parametrize("count", [3, 5, 9])
def test_tokens_are_released_as_often_as_stated_when_drawn(count):
    event = StableSelection(epsilon=1.0, delta=1e-2)
    decay, threshold = calibrate_selection(event, neighboring_relation=ZERO_OUT)
    trials = 20_000
    counts = {f"token {i}": count for i in range(trials)}
    released = select_categories(counts, event, rng=np.random.default_rng(), neighboring_relation=ZERO_OUT)
    chance = selection_probability(count, decay=decay, threshold=threshold)
    assert stats.binomtest(len(released), trials, chance).pvalue > 1e-6
    # The broken twin: noise of half the scale.
    noise = sample_two_sided(trials, parts=1, step=2, rng=np.random.default_rng())
    assert stats.binomtest(int(np.sum(count + noise >= threshold)), trials, chance).pvalue < 1e-6


def test_released_tokens_are_sorted_when_counts_are_large():
    counts = {"b": 10_000, "a": 20_000, "00": 9_000, "never": 0}
    assert select(counts, epsilon=1.0, delta=1e-9) == ("00", "a", "b")


def test_a_token_that_does_not_occur_is_never_released_when_listed():
    assert select({str(i): 0 for i in range(2_000)}, epsilon=5.0, delta=0.4) == ()


def test_fewer_tokens_are_released_when_a_record_may_be_replaced():
    counts = {str(i): 12 for i in range(2_000)}
    # At epsilon 1 and delta 1e-4 the thresholds are 10 for zero-out and 20 for replace-one.
    wide, narrow = (select(counts, epsilon=1.0, delta=1e-4, relation=each) for each in (REPLACE_ONE, ZERO_OUT))
    assert len(wide) < 200 < 1_500 < len(narrow)


@pytest.mark.parametrize(("count", "epsilon"), [(-1, 1.0), (1.5, 1.0), (True, 1.0), (3, 1e-9)])
def test_selection_is_refused_when_a_count_is_no_whole_number_or_epsilon_too_small_for_the_noise(count, epsilon):
    with pytest.raises(PrivacyError):
        select({"a": count}, epsilon=epsilon, delta=1e-6)
