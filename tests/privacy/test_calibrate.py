import pytest

from dpwgan.errors import PrivacyError
from dpwgan.privacy.accountants.accountant import Accountant
from dpwgan.privacy.accountants.amortized import AMORTIZED
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.accountants.pld import PLD
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.calibrate import LEAST_NOISE_MULTIPLIER, _next_down, _next_up, noise_multiplier_for, steps_for
from dpwgan.privacy.events import poisson_gaussian, stable_selection

ZERO_OUT, REPLACE_ONE = NeighboringRelation.ZERO_OUT, NeighboringRelation.REPLACE_ONE
RECORDS, BATCH, STEPS = 39_073, 1_024, 1_000
DELTA = RECORDS**-2


def _calibrate(accountant, epsilon, *, relation=ZERO_OUT, steps=STEPS, q=BATCH / RECORDS, **more):
    return noise_multiplier_for(
        accountant=accountant,
        budget=Budget(epsilon=epsilon, delta=DELTA),
        sampling_probability=q,
        steps=steps,
        neighboring_relation=relation,
        **more,
    )


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.3, 1.0, 8.0, 30.0, 100.0])
@pytest.mark.parametrize(
    ("accountant", "relation"),
    [(MOMENTS, ZERO_OUT), (AMORTIZED, ZERO_OUT), (PLD, ZERO_OUT), (AMORTIZED, REPLACE_ONE)],
    ids=str,
)
def test_reported_epsilon_is_at_most_the_one_asked_for_when_noise_is_calibrated(accountant, relation, epsilon):
    noise = _calibrate(accountant, epsilon, relation=relation)

    def reported(noise_multiplier):
        event = poisson_gaussian(sampling_probability=BATCH / RECORDS, noise_multiplier=noise_multiplier)
        return accountant.get_epsilon([(event, STEPS)], delta=DELTA, neighboring_relation=relation)

    assert reported(noise) <= epsilon
    # Nothing is given away either: one unit less in the fourth digit would not do.
    assert noise == _next_up(_next_down(noise))
    assert reported(_next_down(noise)) > epsilon


@pytest.mark.parametrize("epsilon", [0.3, 8.0])
@pytest.mark.parametrize("accountant", [MOMENTS, PLD], ids=str)
def test_reported_epsilon_is_at_most_the_one_asked_for_when_a_record_is_replaced(accountant, epsilon):
    noise = _calibrate(accountant, epsilon, relation=REPLACE_ONE)
    event = poisson_gaussian(sampling_probability=BATCH / RECORDS, noise_multiplier=noise)
    assert accountant.get_epsilon([(event, STEPS)], delta=DELTA, neighboring_relation=REPLACE_ONE) <= epsilon
    assert noise > 1.4 * _calibrate(accountant, epsilon)


def test_noise_is_higher_when_other_charges_come_off_first():
    selection = (stable_selection(epsilon=0.2, delta=DELTA / 10), 2)
    noise = _calibrate(MOMENTS, 1.0, other_charges=[selection])
    assert noise > _calibrate(MOMENTS, 1.0)
    event = poisson_gaussian(sampling_probability=BATCH / RECORDS, noise_multiplier=noise)
    epsilon = MOMENTS.get_epsilon([selection, (event, STEPS)], delta=DELTA, neighboring_relation=ZERO_OUT)
    assert 0.999 < epsilon <= 1.0


def test_calibration_refuses_when_other_charges_use_up_the_budget():
    with pytest.raises(PrivacyError, match="leave nothing"):
        _calibrate(MOMENTS, 1.0, other_charges=[(stable_selection(epsilon=1.0, delta=DELTA / 10), 1)])
    with pytest.raises(PrivacyError, match="leave nothing"):
        _calibrate(AMORTIZED, 1.0, other_charges=[(stable_selection(epsilon=0.1, delta=DELTA), 2)])


def test_calibration_refuses_when_no_noise_is_enough():
    with pytest.raises(PrivacyError, match="cannot be met"):
        _calibrate(MOMENTS, 1e-5)


def test_calibration_stops_at_the_least_noise_when_the_budget_is_absurd():
    assert _calibrate(AMORTIZED, 1e300) == LEAST_NOISE_MULTIPLIER


@pytest.mark.parametrize("steps", [0, -1, 1.5, True])
def test_calibration_refuses_steps_when_they_are_no_whole_number_above_zero(steps):
    with pytest.raises(PrivacyError, match="steps"):
        _calibrate(AMORTIZED, 1.0, steps=steps)


def test_calibration_handles_every_row_in_every_step_when_q_is_one():
    noise = _calibrate(MOMENTS, 1.0, steps=1, q=1.0)
    event = poisson_gaussian(sampling_probability=1.0, noise_multiplier=noise)
    assert MOMENTS.get_epsilon([(event, 1)], delta=DELTA, neighboring_relation=ZERO_OUT) <= 1.0


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
        event = poisson_gaussian(sampling_probability=BATCH / RECORDS, noise_multiplier=noise)
        assert _Rough().get_epsilon([(event, STEPS)], delta=DELTA, neighboring_relation=ZERO_OUT) <= 0.321
        assert noise == pytest.approx(1 / 0.321, rel=0.02)


@pytest.mark.parametrize("accountant", [MOMENTS, AMORTIZED], ids=str)
def test_steps_are_as_many_as_fit_when_noise_is_given(accountant):
    settings = {
        "noise_multiplier": 8.0,
        "accountant": accountant,
        "budget": Budget(epsilon=2.0, delta=DELTA),
        "sampling_probability": 64 / RECORDS,
        "neighboring_relation": ZERO_OUT,
    }
    steps = steps_for(**settings)
    event = poisson_gaussian(sampling_probability=64 / RECORDS, noise_multiplier=8.0)

    def reported(count):
        return accountant.get_epsilon([(event, count)], delta=DELTA, neighboring_relation=ZERO_OUT)

    assert steps > 100
    assert reported(steps) <= 2.0 < reported(steps + 1)
    assert steps_for(**settings, at_most=17) == 17
    others = [(stable_selection(epsilon=1.0, delta=DELTA / 2), 1)]
    fewer = steps_for(**settings, other_charges=others)
    assert 0 < fewer < steps
    assert accountant.get_epsilon([*others, (event, fewer)], delta=DELTA, neighboring_relation=ZERO_OUT) <= 2.0
    assert steps_for(**settings, at_most=steps + 1) == steps
    assert steps_for(**settings, at_most=0) == 0


@pytest.mark.parametrize(
    ("accountant", "near"),
    [
        *((known, near) for known in (MOMENTS, AMORTIZED) for near in (0.02, 0.9, 1.1, 30.0, 1e6)),
        (PLD, 0.9),
        (PLD, 30.0),
    ],
    ids=str,
)
def test_noise_is_the_same_when_the_search_begins_elsewhere(accountant, near):
    assert _calibrate(accountant, 2.0, near=near) == _calibrate(accountant, 2.0)
