"""P-values are those of the tests named, and a family of them is judged as Holm did."""

import numpy as np
import pytest
from scipy import stats

from dpwgan.audit.comparisons import adjust, compare_means, compare_order, compare_shares, compare_with_half


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
