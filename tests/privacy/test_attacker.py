"""The attacker: bounds against closed trade-off curves, and against another accountant's privacy loss."""

import math

import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpwgan.errors import PrivacyError
from dpwgan.privacy.accountants.accountant import BASIC
from dpwgan.privacy.attacker import FALSE_ALARMS, Attacker, bound_guess, bound_power, judge_attacker
from dpwgan.privacy.events import Charge, Gaussian, Laplace, StableSelection
from tests.privacy.charges import AMORTIZED, MOMENTS, PLD, ask, take_steps

DELTA = 1e-6


def judge(accountant, *charges: Charge, delta: float = DELTA) -> Attacker:
    def find(at: float) -> float:
        return ask(accountant, charges, delta=at)

    return judge_attacker(find, epsilon=find(delta or DELTA), delta=delta, accountant=accountant.name)


@pytest.mark.parametrize("noise_multiplier", [0.3, 1.0, 5.0, 50.0])
def test_bounds_are_those_of_the_gaussian_trade_off_curve_when_one_gaussian_is_released(noise_multiplier):
    # mu-GDP, mu = 1/noise multiplier: f(a) = Phi(Phi^-1(1 - a) - mu) (Dong, Roth, Su 2019, equation 6), so that a guess
    # is right Phi(mu/2) of the time, and power is Phi(Phi^-1(a) + mu).
    mu = 1 / noise_multiplier
    attacker = judge(PLD, (Gaussian(noise_multiplier=noise_multiplier), 1))
    right, power = stats.norm.cdf(mu / 2), stats.norm.cdf(stats.norm.ppf(FALSE_ALARMS) + mu)
    assert right <= attacker.right <= right + 0.01 * (right - 0.5) + 1e-6
    assert power <= attacker.power <= power + 0.01 * (power - FALSE_ALARMS)
    # The loss is N(mu^2/2, mu^2): at that chance it passes this and no more, in both directions together.
    loss = stats.norm.isf(DELTA / 2, loc=mu**2 / 2, scale=mu)
    assert 1 / (1 + math.exp(-loss)) <= attacker.sure < 1


@pytest.mark.parametrize(
    ("q", "noise", "steps", "interval"), [(0.01, 4.0, 1000, 1e-4), (0.02, 0.8, 100, 1e-3), (0.05, 27.0, 200, 1e-4)]
)
def test_guess_is_bounded_as_by_another_accountants_privacy_loss_when_steps_are_sampled(q, noise, steps, interval):
    # Total variation is delta at epsilon 0, and a guess is right (1 + it)/2 of the time.
    loss = privacy_loss_distribution.from_gaussian_mechanism(
        noise, sampling_prob=q, value_discretization_interval=interval
    ).self_compose(steps)
    right = (1 + loss.get_delta_for_epsilon(0.0)) / 2
    attacker = judge(PLD, take_steps(q, noise, steps))
    assert right - 1e-5 <= attacker.right <= right + 0.1 * (right - 0.5)  # the other one errs upwards, too
    for accountant in (MOMENTS, AMORTIZED):
        assert judge(accountant, take_steps(q, noise, steps)).right >= attacker.right - 1e-6


@given(epsilon=st.floats(0, 50), delta=st.floats(0, 0.5), false_alarms=st.floats(0, 0.5))
def test_power_and_guess_belong_to_one_curve_when_epsilon_and_delta_are_all_that_is_known(epsilon, delta, false_alarms):
    # Wherever the curve is cut: right at most (1 - a + power(a))/2, and equal where it is best.
    power = bound_power(epsilon, delta, false_alarms=false_alarms)
    assert (1 - false_alarms + power) / 2 <= bound_guess(epsilon, delta) + 1e-9
    best = (1 - delta) / (1 + math.exp(epsilon))
    assert (1 - best + bound_power(epsilon, delta, false_alarms=best)) / 2 == pytest.approx(bound_guess(epsilon, delta))
    assert bound_guess(epsilon, delta) <= math.exp(epsilon) / (1 + math.exp(epsilon)) + delta + 1e-9


def test_certainty_is_that_of_epsilon_when_no_release_has_a_delta():
    attacker = judge(BASIC, (Laplace(epsilon=1.0), 1), delta=0.0)
    assert attacker.sure == attacker.right == pytest.approx(math.e / (1 + math.e))
    assert attacker.proof == "epsilon and delta alone"


def test_certainty_is_that_of_laws_that_reach_it():
    # Of losses x and -x with chances delta/2 and e^-x delta/2 under one law, and the other way round under the other:
    # (1, delta/32) holds of both where delta/2 (1 - e^(1 - x)) is delta/32.
    loss = 1.0 - math.log(1 - 2 / 32)
    attacker = judge_attacker(lambda delta: 1.0 if delta >= DELTA / 32 else math.inf, epsilon=1.0, delta=DELTA)
    assert attacker.sure == pytest.approx(1 / (1 + math.exp(-loss)), rel=1e-9)


def test_certainty_is_found_at_a_larger_delta_when_a_discovery_takes_the_smaller_ones():
    discovery = StableSelection(epsilon=0.1, delta=DELTA / 10)
    attacker = judge(PLD, (discovery, 1), (Gaussian(noise_multiplier=5.0), 1))
    assert 0.5 < attacker.sure < 0.9


def test_an_accountant_without_a_number_leaves_what_epsilon_and_delta_say():
    def refuse(delta: float) -> float:
        raise PrivacyError("no number")

    attacker = judge_attacker(refuse, epsilon=1.0, delta=DELTA)
    assert (attacker.right, attacker.sure) == (bound_guess(1.0, DELTA), 1.0)
