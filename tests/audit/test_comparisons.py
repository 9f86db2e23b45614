"""Intervals and p-values are the published ones, and a family of findings is judged as Holm did."""

import numpy as np
import pytest
from scipy import stats

from dpwgan.audit.comparisons import (
    adjust,
    bound_area,
    bound_mean,
    bound_mean_difference,
    bound_share,
    bound_share_difference,
    compare_means,
    compare_order,
    compare_shares,
    compare_with_half,
)

# Newcombe 1998, table II, method 10: successes and trials of both samples, and the 95% interval of the difference.
NEWCOMBE = [
    ((56, 70, 48, 80), (0.0524, 0.3339)),
    ((9, 10, 3, 10), (0.1705, 0.8090)),
    ((6, 7, 2, 7), (0.0582, 0.8062)),
    ((5, 56, 0, 29), (-0.0381, 0.1926)),
    ((0, 10, 0, 20), (-0.1611, 0.2775)),
    ((0, 10, 0, 10), (-0.2775, 0.2775)),
    ((10, 10, 0, 20), (0.6791, 1.0000)),
    ((10, 10, 0, 10), (0.6075, 1.0000)),
]


@pytest.mark.parametrize(("counts", "ends"), NEWCOMBE)
def test_difference_of_shares_has_the_published_interval_when_samples_are_the_published_ones(counts, ends):
    interval = bound_share_difference(*counts, confidence=0.95)
    assert (interval.lower, interval.upper) == pytest.approx(ends, abs=5.1e-5)


@pytest.mark.parametrize(("count", "trials"), [(0, 10), (3, 10), (10, 10), (7, 200)])
def test_share_has_tails_of_the_right_size_when_its_ends_are_put_back(count, trials):
    interval = bound_share(count, trials, confidence=0.95)
    if count > 0:
        assert stats.binom.sf(count - 1, trials, interval.lower) == pytest.approx(0.025)
    else:
        assert interval.lower == 0.0
    if count < trials:
        assert stats.binom.cdf(count, trials, interval.upper) == pytest.approx(0.025)
    else:
        assert interval.upper == 1.0


def test_means_have_tails_of_the_right_size_when_their_ends_are_put_back():
    rng = np.random.default_rng(1)
    one, other = rng.normal(size=30), rng.normal(loc=0.3, scale=2.0, size=50)
    interval = bound_mean(one, confidence=0.9)
    assert stats.ttest_1samp(one, interval.lower).pvalue == pytest.approx(0.1)
    interval = bound_mean_difference(one, other, confidence=0.9)
    assert stats.ttest_ind(one - interval.upper, other, equal_var=False).pvalue == pytest.approx(0.1)


def loop_area(members, others, *, confidence):
    """The definition, pair by pair: DeLong, DeLong, Clarke-Pearson 1988."""
    won = [[1.0 if a > b else 0.5 if a == b else 0.0 for b in others] for a in members]
    of_members = [sum(row) / len(others) for row in won]
    of_others = [sum(row[j] for row in won) / len(members) for j in range(len(others))]
    area = sum(of_members) / len(members)
    variance = sum((x - area) ** 2 for x in of_members) / (len(members) - 1) / len(members)
    variance += sum((x - area) ** 2 for x in of_others) / (len(others) - 1) / len(others)
    half = stats.norm.isf((1 - confidence) / 2) * variance**0.5
    return area, max(0.0, area - half), min(1.0, area + half)


def test_area_equals_the_loop_over_pairs_when_scores_have_ties():
    rng = np.random.default_rng(2)
    members, others = rng.integers(5, size=23).astype(float), rng.integers(4, size=31).astype(float)
    interval = bound_area(members, others, confidence=0.95)
    assert (interval.value, interval.lower, interval.upper) == pytest.approx(
        loop_area(members, others, confidence=0.95)
    )


def test_area_keeps_an_interval_when_every_pair_is_told_apart():
    interval = bound_area(np.arange(10.0) + 100, np.arange(30.0), confidence=0.95)
    assert interval.value == 1.0
    assert interval.lower == pytest.approx(0.025 ** (1 / 10))


@pytest.mark.statistical
def test_area_misses_one_half_as_rarely_as_it_says_when_scores_know_nothing():
    """2,000 games at 95%: more misses than binom.isf(1e-6, 2000, 0.06) come up once in a million runs.

    Intervals half as wide, the broken twin, miss about a third of the time.
    """
    rng = np.random.default_rng()
    misses = halved = 0
    for _ in range(2000):
        interval = bound_area(rng.normal(size=100), rng.normal(size=100), confidence=0.95)
        off, half = abs(interval.value - 0.5), (interval.upper - interval.lower) / 2
        misses, halved = misses + (off > half), halved + (off > half / 2)
    # DeLong's variance is an estimate: 100 rows a side miss a little more often than 5%.
    allowed = stats.binom.isf(1e-6, 2000, 0.06)
    assert misses <= allowed
    assert halved > allowed


def test_shares_have_the_p_value_of_fishers_exact_test():
    found = compare_shares(9, 20, 3, 30, confidence=0.95)
    expected = stats.fisher_exact([[9, 11], [3, 27]], alternative="greater").pvalue
    assert found.p_value == pytest.approx(expected)
    assert found.excess.value == pytest.approx(9 / 20 - 3 / 30)
    assert compare_shares(0, 20, 0, 30, confidence=0.95).p_value == 1.0


def test_half_has_the_p_value_of_the_binomial_test():
    found = compare_with_half(15, 20, confidence=0.95)
    assert found.p_value == pytest.approx(stats.binomtest(15, 20, alternative="greater").pvalue)
    assert (found.baseline.value, found.excess.value) == (0.5, 0.25)


@pytest.mark.parametrize("compare", [compare_means, compare_order])
def test_scores_have_a_small_p_value_only_when_those_of_training_rows_are_higher(compare):
    low, high = np.zeros(30), np.arange(40.0)
    assert compare(high, low, confidence=0.95).p_value < 1e-9
    assert compare(low, high, confidence=0.95).p_value > 0.999
    assert compare(low, low, confidence=0.95).p_value > 0.49


def test_adjusted_p_values_are_those_worked_by_hand_when_some_are_equal_or_out_of_order():
    assert adjust([0.04, 0.01, 0.03, 0.005]) == pytest.approx([0.06, 0.03, 0.06, 0.02])
    assert adjust([0.5, 0.5, 0.9]) == [1.0, 1.0, 1.0]
    assert adjust([]) == []
