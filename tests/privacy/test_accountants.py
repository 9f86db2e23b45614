"""The contract that every accountant keeps."""

import itertools
import math

import pytest

from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import ExponentialSelection, Gaussian, StableSelection
from tests.privacy.charges import ACCOUNTANTS, MOMENTS, RELATIONS, REPLACE_ONE, ZERO_OUT, ask, take_steps

STEP, _ = take_steps(0.02, 1.5)
# A grid that settles to 0.2% may move a curve by as much; the other two are exactly monotone.
TOLERANCE = {"moments": 1.0, "amortized": 1.0, "pld": 1.004}


@ACCOUNTANTS
@pytest.mark.parametrize(
    ("charge", "delta", "relation"),
    [
        (("critic step", 1), 1e-6, ZERO_OUT),
        *(((STEP, count), 1e-6, ZERO_OUT) for count in (-1, 1.5, True)),
        *(((STEP, 1), delta, ZERO_OUT) for delta in (0.0, 1.0, math.nan)),
        ((STEP, 1), 1e-6, "zero_out"),
    ],
)
def test_every_accountant_refuses_what_it_cannot_add_up(accountant, charge, delta, relation):
    words = "does not know" if charge[0] is not STEP else None
    with pytest.raises(PrivacyError, match=words):
        ask(accountant, [charge], delta=delta, relation=relation)


@ACCOUNTANTS
@RELATIONS
def test_every_accountant_says_zero_when_nothing_happens(accountant, relation):
    assert ask(accountant, [], relation=relation) == ask(accountant, [(STEP, 0)], relation=relation) == 0


ROUNDS = [(Gaussian(noise_multiplier=30.0, replace_one_factor=math.sqrt(2)), 1), take_steps(0.02, 4.0, 200)]
# From what costs least to what costs most: charges, and delta.
GROWING = {
    "steps": [([take_steps(0.02, 1.5, steps)], 1e-7) for steps in (1, 2, 10, 100, 101, 1_000)],
    "less noise": [([take_steps(0.02, noise, 300)], 1e-7) for noise in (30.0, 3.0, 1.001, 1.0, 0.8)],
    "less delta": [([take_steps(0.02, 1.5, 300)], delta) for delta in (1e-3, 1e-6, 1e-9, 1e-12)],
    # At q = 1 amortized and pld know the exact curve of all steps together, which is below a bound near it.
    "sampling probability": [([take_steps(q, 2.0, 50)], 1e-7) for q in (0.001, 0.01, 0.2, 0.9, 1.0)],
    "selections": [([*ROUNDS, (ExponentialSelection(epsilon=0.05), 5 * times)], 1e-7) for times in (1, 2, 4, 8)],
    "surer selections": [([*ROUNDS, (ExponentialSelection(epsilon=0.05 * times), 5)], 1e-7) for times in (1, 2, 4, 8)],
}


@ACCOUNTANTS
@RELATIONS
@pytest.mark.parametrize("what", GROWING)
def test_epsilon_never_falls_when_more_of_it_is_spent(accountant, relation, what):
    asked = GROWING[what][:-1] if what == "sampling probability" and accountant is not MOMENTS else GROWING[what]
    epsilons = [ask(accountant, charges, delta=delta, relation=relation) for charges, delta in asked]
    for less, more in itertools.pairwise(epsilons):
        assert less <= more * TOLERANCE[accountant.name]
    assert epsilons[0] < epsilons[-1]


@ACCOUNTANTS
def test_replacing_a_record_costs_more_than_zeroing_it_when_asked_for_both(accountant):
    zeroed, replaced = (ask(accountant, [(STEP, 300)], relation=relation) for relation in (ZERO_OUT, REPLACE_ONE))
    assert 1.5 * zeroed < replaced


@ACCOUNTANTS
@RELATIONS
def test_selections_add_their_epsilon_and_delta_when_composed(accountant, relation):
    selection = StableSelection(epsilon=0.25, delta=2e-8)
    alone = ask(accountant, [(STEP, 100)], delta=1e-7 - 4e-8, relation=relation)
    together = ask(accountant, [(selection, 2), (STEP, 100)], relation=relation)
    assert together == pytest.approx(0.5 + alone, rel=1e-6)
    assert together >= 0.5 + alone


@ACCOUNTANTS
def test_epsilon_is_infinite_when_selections_use_up_delta(accountant):
    selection = StableSelection(epsilon=0.25, delta=1e-7)
    for charges in ([(selection, 2)], [(selection, 1), (STEP, 1)]):
        assert math.isinf(ask(accountant, charges))


@ACCOUNTANTS
@RELATIONS
def test_epsilon_is_the_same_when_charges_come_in_another_order(accountant, relation):
    other = (Gaussian(noise_multiplier=20.0), 1)
    first = ask(accountant, [(STEP, 40), other, (STEP, 2)], relation=relation)
    assert first == ask(accountant, [other, (STEP, 42)], relation=relation)
    assert ask(accountant, [(STEP, 42)], relation=relation) < first


@ACCOUNTANTS
def test_accountant_names_its_library_when_asked_for_a_version(accountant):
    assert any(character.isdigit() for character in accountant.version)
    assert str(accountant) == accountant.name
