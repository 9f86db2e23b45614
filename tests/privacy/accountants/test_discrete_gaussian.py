"""Counts with discrete Gaussian noise: every accountant against the exact law, added up count by count."""

import itertools
import math
from functools import lru_cache

import mpmath
import numpy as np
import pytest

from dpwgan.privacy.accountants.discrete_gaussian import _log_spread, stand_in
from dpwgan.privacy.events import DiscreteGaussian, ExponentialSelection, Gaussian, discrete_gaussian, round_up_stddev
from tests.plans import make_terms
from tests.privacy.brute_force import find_delta, find_epsilon, round_at_random
from tests.privacy.charges import ACCOUNTANTS, ALL, RELATIONS, ZERO_OUT, ask, calibrate, get_epsilon, take_steps

MOMENTS, AMORTIZED, PLD = ALL

_MARGINS = {0.3: 1.35, 0.5: 1.21, 1.0: 1.21, 2.0: 1.09, 5.0: 1.025, 24.0: 1.0015}
"""By how much pld may lie above the exact epsilon at most, by stddev."""


@lru_cache
def _law_of_the_sum(stddev, moved):
    """The law of the sum of `moved` counts, count by count."""
    half = math.ceil(14 * stddev) + 2
    one = np.exp(-(np.arange(-half, half + 1) ** 2) / (2 * stddev**2))
    one /= one.sum()
    law = one
    for _ in range(moved - 1):
        law = np.convolve(law, one)
    return law


def _find_losses(stddev, moved):
    """The losses of `moved` counts, by their sum, and how likely each is."""
    law = _law_of_the_sum(stddev, moved)
    return (moved + 2.0 * (np.arange(law.size) - law.size // 2)) / (2 * stddev**2), law


@lru_cache
def _epsilon(delta, *, stddev, moved):
    return find_epsilon(*_find_losses(stddev, moved), delta=delta)


def _ask(accountant, *charges, delta=1e-5, relation=ZERO_OUT):
    return ask(accountant, charges, delta=delta, relation=relation)


@RELATIONS
def test_divergence_of_the_sum_is_that_of_all_counts_when_added_up_place_by_place(relation):
    stddev, epsilon = mpmath.mpf(1.25), 1.5
    signs = (1, 1) if relation is ZERO_OUT else (1, -1)
    places = range(-12, 14)
    g = {x: mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * stddev**2)) for x in range(-13, 15)}
    total = sum(mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * stddev**2)) for x in range(-60, 61))
    found = mpmath.fsum(
        max(g[x] * g[y] - mpmath.exp(epsilon) * g[x - signs[0]] * g[y - signs[1]], 0) / total**2
        for x, y in itertools.product(places, places)
    )
    assert float(found) == pytest.approx(find_delta(*_find_losses(1.25, 2), epsilon=epsilon), rel=1e-9)


@ACCOUNTANTS
@RELATIONS
@pytest.mark.parametrize("delta", [1e-5, 2e-12])
@pytest.mark.parametrize("cells", [1, 2, 3, 15])
@pytest.mark.parametrize("stddev", [0.3, 0.5, 1.0, 2.0, 5.0, 24.0])
def test_epsilon_is_never_below_the_exact_one_when_counts_are_released(accountant, relation, delta, cells, stddev):
    event = DiscreteGaussian(stddev=round_up_stddev(stddev), cells=cells)
    exact = _epsilon(delta, stddev=event.stddev, moved=cells * (1 if relation is ZERO_OUT else 2))
    found = _ask(accountant, (event, 1), delta=delta, relation=relation)
    assert found >= exact * (1 - 1e-7)
    # Several releases of some counts each are one release of all of them.
    if cells == 15:
        apart = _ask(accountant, (DiscreteGaussian(stddev=event.stddev, cells=5), 3), delta=delta, relation=relation)
        assert apart == pytest.approx(found, rel=1e-9)
    if accountant is PLD:
        assert found <= _MARGINS[stddev] * exact


def test_stand_in_costs_two_c_and_its_part_of_delta_when_counts_are_released():
    event = DiscreteGaussian(stddev=round_up_stddev(0.5), cells=3)
    release, c = stand_in(event, 1)
    assert c > 0.5
    alone = ask(AMORTIZED, [(release, 1)], delta=1e-5 * math.exp(-c))
    found = _ask(AMORTIZED, (event, 1))
    assert found == pytest.approx(alone + 2 * c, rel=1e-9)


def test_the_check_against_the_exact_law_fails_when_noise_is_taken_for_continuous():
    exact = _epsilon(1e-5, stddev=5.0, moved=1)
    assert _ask(PLD, (Gaussian(noise_multiplier=5.0), 1)) < 0.9995 * exact
    assert exact <= _ask(PLD, (discrete_gaussian(noise_multiplier=5.0, cells=1), 1)) < 1.03 * exact


@ACCOUNTANTS
@pytest.mark.parametrize("change", [{"noise": 0.9}, {"cells": 0.8}], ids=str)
def test_the_check_against_the_exact_law_fails_when_a_tenth_is_missing(accountant, change):
    exact = _epsilon(1e-5, stddev=8.0 * change.get("noise", 1.0), moved=10)
    told = DiscreteGaussian(stddev=8.0, cells=round(10 * change.get("cells", 1.0)))
    margin = 1.1 if accountant is MOMENTS else 1.005
    assert _ask(accountant, (told, 1)) < margin * exact
    assert _ask(accountant, (DiscreteGaussian(stddev=8.0, cells=10), 1)) >= _epsilon(1e-5, stddev=8.0, moved=10)


@RELATIONS
def test_moments_are_those_of_continuous_noise_when_counts_are_released(relation):
    event = discrete_gaussian(noise_multiplier=3.0, cells=16)
    same = _ask(MOMENTS, (Gaussian(noise_multiplier=3.0, replace_one_factor=math.sqrt(2)), 5), relation=relation)
    assert _ask(MOMENTS, (event, 5), relation=relation) == pytest.approx(same, rel=1e-12)


@pytest.mark.parametrize("h", [0.02, 0.05, 0.3, 1.0, 3.0])
def test_spread_is_that_of_sums_over_whole_numbers_when_added_up_with_many_digits(h):
    with mpmath.workdps(60):
        places = [mpmath.mpf(a) for a in range(-80, 81)]
        highest = mpmath.fsum(mpmath.exp(-(a**2) / (2 * mpmath.mpf(h))) for a in places)
        lowest = mpmath.fsum(mpmath.exp(-((a + 0.5) ** 2) / (2 * mpmath.mpf(h))) for a in places)
        expected = float(mpmath.log(highest / lowest))
    assert _log_spread(np.array([h]))[0] == pytest.approx(expected, rel=1e-9)
    assert math.isinf(_log_spread(np.array([0.0199]))[0])


@pytest.mark.parametrize(("stddev", "moved"), [(0.6, 3), (1.0, 4), (3.0, 2)])
def test_sum_of_counts_stays_within_the_factor_of_its_stand_in_when_rounded_at_random(stddev, moved):
    event = DiscreteGaussian(stddev=round_up_stddev(stddev), cells=moved)
    release, cost = stand_in(event, 1)
    variance, places = moved * event.stddev**2, np.arange(-40, 41)
    rounding = min(1.0, variance / 2)
    assert release.noise_multiplier == pytest.approx(math.sqrt(variance - rounding) / moved)
    law = _law_of_the_sum(event.stddev, moved)
    rounded = round_at_random(places, variance=variance - rounding, rounding=rounding, reach=60)
    middle = places[np.abs(places) < 5 * math.sqrt(variance)]
    assert np.max(np.abs(np.log(law[middle + law.size // 2] / rounded[middle + 40]))) <= cost + 1e-9


@pytest.mark.parametrize("rule", ["moments", "amortized", "pld", "auto"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
def test_family_with_whole_number_noise_is_within_its_budget_when_calibrated(rule, epsilon):
    def charges(scale):
        return [
            (discrete_gaussian(noise_multiplier=3 * scale, cells=15), 1),
            (ExponentialSelection(epsilon=0.1 / scale), 40),
            (discrete_gaussian(noise_multiplier=9 * scale, cells=1), 40),
            take_steps(0.02, max(1.0, scale), 50),
        ]

    choice = calibrate(make_terms(rule=rule, epsilon=epsilon, delta=1e-9), charges)
    # A scale of four digits: the next one less is up to a thousandth away.
    assert 0.985 * epsilon < get_epsilon(choice) <= epsilon
    if rule == "auto":
        assert choice.noise <= min(other.noise for other in choice.alternatives)


def test_stddev_is_the_multiple_of_the_sensitivity_when_an_event_is_made():
    event = discrete_gaussian(noise_multiplier=1.37, cells=7)
    assert 1.37 * math.sqrt(7) <= event.stddev <= 1.37 * math.sqrt(7) * (1 + 2**-18)


@pytest.mark.parametrize("stddev", [1e-9, 0.3, 1.0, 24.0001, 3e5, 7.7e12])
def test_stddev_is_rounded_up_when_it_is_off_the_grid(stddev):
    usable = round_up_stddev(stddev)
    assert max(stddev, 2.0**-20) <= usable <= max(stddev, 2.0**-20) * (1 + 2.0**-19)
    assert round_up_stddev(usable) == usable
