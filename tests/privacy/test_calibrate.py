"""The search for least noise and most steps, by every accountant: on the private side, and nothing given away."""

import itertools

import pytest

from dpwgan.errors import PrivacyError
from dpwgan.privacy.accountants.accountant import Accountant
from dpwgan.privacy.calibrate import _next_down, _next_up
from dpwgan.privacy.events import StableSelection
from dpwgan.privacy.terms import NOISE_MULTIPLIERS
from tests.plans import make_terms
from tests.privacy.charges import ALL, AMORTIZED, MOMENTS, PLD, REPLACE_ONE, ZERO_OUT, ask, take_steps

RECORDS, BATCH, STEPS = 39_073, 1_024, 1_000
DELTA = RECORDS**-2


def _calibrate(accountant, epsilon, *, relation=ZERO_OUT, steps=STEPS, q=BATCH / RECORDS, others=(), **near):
    terms = make_terms(epsilon=epsilon, delta=DELTA, relation=relation, others=others)
    return terms.find_noise_multiplier(accountant, sampling_probability=q, steps=steps, **near)


def _report(accountant, noise, *others, q=BATCH / RECORDS, steps=STEPS, relation=ZERO_OUT):
    return ask(accountant, [*others, take_steps(q, noise, steps)], delta=DELTA, relation=relation)


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.3, 1.0, 8.0, 30.0, 100.0])
@pytest.mark.parametrize(
    ("accountant", "relation"), [*((known, ZERO_OUT) for known in ALL), (AMORTIZED, REPLACE_ONE)], ids=str
)
def test_reported_epsilon_is_at_most_the_one_asked_for_when_noise_is_calibrated(accountant, relation, epsilon):
    noise = _calibrate(accountant, epsilon, relation=relation)
    assert _report(accountant, noise, relation=relation) <= epsilon
    # Nothing is given away either: one unit less in the fourth digit would not do.
    assert noise == _next_up(_next_down(noise))
    assert _report(accountant, _next_down(noise), relation=relation) > epsilon


@pytest.mark.parametrize("epsilon", [0.3, 8.0])
@pytest.mark.parametrize("accountant", [MOMENTS, PLD], ids=str)
def test_reported_epsilon_is_at_most_the_one_asked_for_when_a_record_is_replaced(accountant, epsilon):
    noise = _calibrate(accountant, epsilon, relation=REPLACE_ONE)
    assert _report(accountant, noise, relation=REPLACE_ONE) <= epsilon
    assert noise > 1.4 * _calibrate(accountant, epsilon)


@pytest.mark.parametrize(("epsilon", "delta", "count"), [(1.0, DELTA / 10, 1), (0.1, DELTA, 2)])
def test_calibration_refuses_when_other_charges_use_up_the_budget(epsilon, delta, count):
    with pytest.raises(PrivacyError, match="leave nothing"):
        _calibrate(MOMENTS, 1.0, others=[(StableSelection(epsilon=epsilon, delta=delta), count)])


def test_calibration_ends_at_its_limits_when_no_noise_is_enough_or_the_budget_is_absurd():
    with pytest.raises(PrivacyError, match="cannot be met"):
        _calibrate(MOMENTS, 1e-5)
    assert _calibrate(AMORTIZED, 1e300) == NOISE_MULTIPLIERS[0]


@pytest.mark.parametrize("steps", [0, -1, 1.5, True])
def test_calibration_refuses_steps_when_they_are_no_whole_number_above_zero(steps):
    with pytest.raises(PrivacyError, match="steps"):
        _calibrate(AMORTIZED, 1.0, steps=steps)


class _Rough(Accountant):
    """An accountant whose answers jump up and down by a hundredth, as a grid's might."""

    name = "rough"
    version = "0"

    def _composed_epsilon(self, charges, *, delta, neighboring_relation):
        ((event, _),) = charges
        return (1.01 if int(event.noise_multiplier * 1e4) % 2 else 1.0) / event.noise_multiplier


def test_calibration_ends_on_the_private_side_when_an_accountant_is_not_monotone():
    for near in ({}, {"near": 3.0}, {"near": 3.115}, {"near": 3.2}):
        noise = _calibrate(_Rough(), 0.321, **near)
        assert _report(_Rough(), noise) <= 0.321
        assert noise == pytest.approx(1 / 0.321, rel=0.02)


@pytest.mark.parametrize("accountant", [MOMENTS, AMORTIZED], ids=str)
def test_steps_are_as_many_as_fit_when_noise_is_given(accountant):
    asked = {"noise_multiplier": 8.0, "sampling_probability": 64 / RECORDS}
    terms = make_terms(epsilon=2.0, delta=DELTA)

    def report(count, *others):
        return _report(accountant, 8.0, *others, q=64 / RECORDS, steps=count)

    steps = terms.find_steps(accountant, **asked, at_most=10**8)
    assert steps > 100
    assert report(steps) <= 2.0 < report(steps + 1)
    for at_most, found in ((17, 17), (steps + 1, steps), (0, 0)):
        assert terms.find_steps(accountant, **asked, at_most=at_most) == found
    other = (StableSelection(epsilon=1.0, delta=DELTA / 2), 1)
    fewer = make_terms(epsilon=2.0, delta=DELTA, others=[other]).find_steps(accountant, **asked, at_most=steps)
    assert 0 < fewer < steps
    assert report(fewer, other) <= 2.0


@pytest.mark.parametrize(
    ("accountant", "near"),
    [*itertools.product((MOMENTS, AMORTIZED), (0.02, 0.9, 1.1, 30.0, 1e6)), (PLD, 0.9), (PLD, 30.0)],
    ids=str,
)
def test_noise_is_the_same_when_the_search_begins_elsewhere(accountant, near):
    assert _calibrate(accountant, 2.0, near=near) == _calibrate(accountant, 2.0)
