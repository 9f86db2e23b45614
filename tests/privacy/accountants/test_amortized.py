import math

import numpy as np
import pytest
from scipy import optimize, stats

from dpwgan.privacy.accountants.amortized import amplified_epsilon, gaussian_delta, gaussian_epsilon
from tests.privacy.brute_force import Line
from tests.privacy.charges import AMORTIZED, RELATIONS, REPLACE_ONE, ask, take_steps


@pytest.mark.parametrize("noise", [0.3, 1.0, 4.0, 50.0])
def test_gaussian_delta_is_that_of_an_integral_when_compared(noise):
    line = Line(stddev=noise, reach=1 + 14 * noise)
    p, q = line.log_mixture((1.0, 1.0)), line.log_mixture((1.0, 0.0))
    for epsilon in np.array([0.0, 0.3, 1.0, 3.0]) / noise:
        computed = float(gaussian_delta(np.array([epsilon]), noise_multiplier=noise)[0])
        assert computed == pytest.approx(line.hockey_stick(p, q, epsilon=epsilon), rel=1e-5)


def test_amplified_epsilon_is_the_formula_when_small_and_does_not_overflow_when_large():
    assert amplified_epsilon(np.array([0.5]), sampling_probability=0.1)[0] == pytest.approx(
        math.log(1 + 0.1 * (math.exp(0.5) - 1)), rel=1e-12
    )
    assert amplified_epsilon(np.array([2000.0]), sampling_probability=0.1)[0] == pytest.approx(2000 + math.log(0.1))
    around = amplified_epsilon(np.array([30 - 1e-9, 30 + 1e-9]), sampling_probability=1e-5)
    assert around[0] == pytest.approx(around[1], rel=1e-8)


@pytest.mark.parametrize("q", [1e-3, 0.05, 0.5])
@pytest.mark.parametrize("noise", [0.6, 1.0, 6.0])
def test_one_step_keeps_its_delta_when_a_record_is_zeroed_or_replaced(q, noise):
    line = Line(stddev=noise, reach=3 + 14 * noise)
    table, without = line.log_mixture((1 - q, 0.0), (q, 1.0)), line.log_mixture((1.0, 0.0))
    for full in np.array([0.1, 1.0, 4.0]) / noise:
        epsilon = float(amplified_epsilon(np.array([full]), sampling_probability=q)[0])
        for mean in (None, -1.0, -0.5, 0.5):
            # Zeroed out, or replaced by one of that mean.
            other = without if mean is None else line.log_mixture((1 - q, 0.0), (q, mean))
            own = noise if mean is None else noise / 2
            allowed = q * float(gaussian_delta(np.array([full]), noise_multiplier=own)[0]) * (1 + 1e-5)
            assert line.hockey_stick(table, other, epsilon=epsilon) <= allowed
            assert line.hockey_stick(other, table, epsilon=epsilon) <= allowed


def test_the_check_of_one_step_notices_when_the_sensitivity_of_a_replacement_is_not_doubled():
    q, noise, full = 0.05, 1.0, 1.0
    line = Line(stddev=noise, reach=20.0)
    table, other = line.log_mixture((1 - q, 0.0), (q, 1.0)), line.log_mixture((1 - q, 0.0), (q, -1.0))
    epsilon = float(amplified_epsilon(np.array([full]), sampling_probability=q)[0])
    too_small = q * float(gaussian_delta(np.array([full]), noise_multiplier=noise)[0])
    assert line.hockey_stick(table, other, epsilon=epsilon) > too_small


def _by_another_optimiser(q, noise, steps, delta):
    """The module's formula, written again with other functions and minimised by scipy."""

    def at(log_odds):
        slack = delta / (1 + math.exp(-log_odds))
        target = (delta - slack) / steps / q

        def excess(e0):
            upper = stats.norm.cdf(1 / (2 * noise) - e0 * noise)
            return upper - math.exp(e0) * stats.norm.cdf(-1 / (2 * noise) - e0 * noise) - target

        e0 = optimize.brentq(excess, 0, 40 / noise + 20 / noise**2, xtol=1e-14)
        e1 = math.log(1 + q * (math.exp(e0) - 1))
        return min(steps * e1, math.sqrt(2 * steps * math.log(1 / slack)) * e1 + steps * e1 * (math.exp(e1) - 1))

    return optimize.minimize_scalar(at, bounds=(-12, 12), method="bounded").fun


@pytest.mark.parametrize(("q", "noise", "steps"), [(0.026, 35.5, 1_000), (0.026, 7.46, 1_000), (0.1, 4.0, 20)])
def test_amortized_epsilon_is_that_of_another_optimiser_when_compared(q, noise, steps):
    computed = ask(AMORTIZED, [take_steps(q, noise, steps)], delta=1e-6)
    assert computed == pytest.approx(_by_another_optimiser(q, noise, steps, 1e-6), rel=2e-3)


def test_amortized_replace_one_is_a_halved_noise_when_steps_are_sampled():
    replaced = ask(AMORTIZED, [take_steps(0.05, 6.0, 100)], delta=1e-6, relation=REPLACE_ONE)
    assert replaced == ask(AMORTIZED, [take_steps(0.05, 3.0, 100)], delta=1e-6)


@pytest.mark.filterwarnings("error")
@RELATIONS
def test_epsilon_grows_to_infinity_without_a_warning_when_noise_vanishes(relation):
    epsilons = [
        ask(AMORTIZED, [take_steps(0.1, noise, 100)], delta=1e-9, relation=relation)
        for noise in (1e-2, 1e-4, 1e-8, 1e-10, 1e-60, 1e-153)
    ]
    assert epsilons == sorted(epsilons)
    # One look at one record tells it from another by 1/(2 s^2) at least: no bound may be below that.
    assert epsilons[0] >= 0.5 / 1e-2**2
    assert epsilons[-1] >= 0.5 / 1e-153**2


@pytest.mark.parametrize("noise", [0.05, 0.5, 2.0, 30.0, 1e5])
def test_gaussian_epsilon_is_the_least_that_keeps_each_delta_when_deltas_are_tiny_or_large(noise):
    deltas = np.array([1e-300, 1e-40, 1e-12, 1e-5, 0.1, 0.9])
    epsilons = gaussian_epsilon(deltas, noise_multiplier=noise)
    assert np.all(gaussian_delta(epsilons, noise_multiplier=noise) <= deltas)
    positive = epsilons > 0
    # Where delta is next to nothing, what rounding may have taken is added back, and moves epsilon a little.
    smaller = epsilons * (1 - 1e-6)
    assert np.all(gaussian_delta(smaller, noise_multiplier=noise)[positive] > deltas[positive])
    assert np.all(gaussian_delta(np.zeros(6), noise_multiplier=noise)[~positive] <= deltas[~positive])
