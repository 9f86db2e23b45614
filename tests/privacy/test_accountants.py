"""The contract that every accountant keeps."""

import itertools
import math

import pytest

from dpwgan.errors import PrivacyError
from dpwgan.privacy.accountants.amortized import AMORTIZED
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.accountants.pld import PLD
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import gaussian, poisson_gaussian, stable_selection

ACCOUNTANTS = pytest.mark.parametrize("accountant", [MOMENTS, AMORTIZED, PLD], ids=str)
RELATIONS = pytest.mark.parametrize("relation", list(NeighboringRelation), ids=lambda relation: relation.value)
ZERO_OUT = NeighboringRelation.ZERO_OUT
STEP = poisson_gaussian(sampling_probability=0.02, noise_multiplier=1.5)
# A grid that settles to 0.2% may move a curve by as much; the other two are exactly monotone.
TOLERANCE = {"moments": 1.0, "amortized": 1.0, "pld": 1.004}


@ACCOUNTANTS
def test_every_accountant_refuses_an_unknown_event_when_asked(accountant):
    with pytest.raises(PrivacyError, match="does not know"):
        accountant.get_epsilon([("critic step", 1)], delta=1e-6, neighboring_relation=ZERO_OUT)


@ACCOUNTANTS
@pytest.mark.parametrize("count", [-1, 1.5, True])
def test_every_accountant_refuses_a_count_when_it_is_no_whole_number(accountant, count):
    with pytest.raises(PrivacyError):
        accountant.get_epsilon([(STEP, count)], delta=1e-6, neighboring_relation=ZERO_OUT)


@ACCOUNTANTS
@pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
def test_every_accountant_refuses_delta_when_out_of_range(accountant, delta):
    with pytest.raises(PrivacyError):
        accountant.get_epsilon([(STEP, 1)], delta=delta, neighboring_relation=ZERO_OUT)


@ACCOUNTANTS
def test_every_accountant_refuses_a_relation_when_it_is_a_word(accountant):
    with pytest.raises(PrivacyError):
        accountant.get_epsilon([(STEP, 1)], delta=1e-6, neighboring_relation="zero_out")


@ACCOUNTANTS
@RELATIONS
def test_every_accountant_says_zero_when_nothing_happens(accountant, relation):
    assert accountant.get_epsilon([], delta=1e-6, neighboring_relation=relation) == 0
    assert accountant.get_epsilon([(STEP, 0)], delta=1e-6, neighboring_relation=relation) == 0


@ACCOUNTANTS
@RELATIONS
def test_more_steps_never_lower_epsilon(accountant, relation):
    epsilons = [
        accountant.get_epsilon([(STEP, steps)], delta=1e-7, neighboring_relation=relation)
        for steps in (1, 2, 10, 100, 101, 1_000)
    ]
    for fewer, more in itertools.pairwise(epsilons):
        assert fewer <= more * TOLERANCE[accountant.name]
    assert epsilons[0] < epsilons[-1]


@ACCOUNTANTS
@RELATIONS
def test_more_noise_never_raises_epsilon(accountant, relation):
    epsilons = [
        accountant.get_epsilon(
            [(poisson_gaussian(sampling_probability=0.02, noise_multiplier=noise), 300)],
            delta=1e-7,
            neighboring_relation=relation,
        )
        for noise in (0.8, 1.0, 1.001, 3.0, 30.0)
    ]
    for less, more in itertools.pairwise(epsilons):
        assert more <= less * TOLERANCE[accountant.name]
    assert epsilons[-1] < epsilons[0]


@ACCOUNTANTS
@RELATIONS
def test_more_delta_never_raises_epsilon(accountant, relation):
    epsilons = [
        accountant.get_epsilon([(STEP, 300)], delta=delta, neighboring_relation=relation)
        for delta in (1e-12, 1e-9, 1e-6, 1e-3)
    ]
    for less, more in itertools.pairwise(epsilons):
        assert more <= less * TOLERANCE[accountant.name]


@ACCOUNTANTS
@RELATIONS
def test_higher_sampling_probability_never_lowers_epsilon(accountant, relation):
    epsilons = [
        accountant.get_epsilon(
            [(poisson_gaussian(sampling_probability=q, noise_multiplier=2.0), 50)],
            delta=1e-7,
            neighboring_relation=relation,
        )
        # At q = 1 amortized and pld know the exact curve of all steps together, which is below a bound near it.
        for q in (0.001, 0.01, 0.2, 0.9, *([1.0] if accountant is MOMENTS else []))
    ]
    for less, more in itertools.pairwise(epsilons):
        assert less <= more * TOLERANCE[accountant.name]


@ACCOUNTANTS
def test_replacing_a_record_costs_more_than_zeroing_it_when_asked_for_both(accountant):
    zeroed, replaced = (
        accountant.get_epsilon([(STEP, 300)], delta=1e-7, neighboring_relation=relation)
        for relation in (NeighboringRelation.ZERO_OUT, NeighboringRelation.REPLACE_ONE)
    )
    assert 1.5 * zeroed < replaced


@ACCOUNTANTS
@RELATIONS
def test_selections_add_their_epsilon_and_delta_when_composed(accountant, relation):
    selection = stable_selection(epsilon=0.25, delta=2e-8)
    alone = accountant.get_epsilon([(STEP, 100)], delta=1e-7 - 4e-8, neighboring_relation=relation)
    together = accountant.get_epsilon([(selection, 2), (STEP, 100)], delta=1e-7, neighboring_relation=relation)
    assert together == pytest.approx(0.5 + alone, rel=1e-6)
    assert together >= 0.5 + alone


@ACCOUNTANTS
def test_epsilon_is_infinite_when_selections_use_up_delta(accountant):
    selection = stable_selection(epsilon=0.25, delta=1e-7)
    assert math.isinf(accountant.get_epsilon([(selection, 2)], delta=1e-7, neighboring_relation=ZERO_OUT))
    assert math.isinf(accountant.get_epsilon([(selection, 1), (STEP, 1)], delta=1e-7, neighboring_relation=ZERO_OUT))


@ACCOUNTANTS
@RELATIONS
def test_epsilon_is_the_same_when_charges_come_in_another_order(accountant, relation):
    other = gaussian(noise_multiplier=20.0)
    first = accountant.get_epsilon([(STEP, 40), (other, 1), (STEP, 2)], delta=1e-7, neighboring_relation=relation)
    second = accountant.get_epsilon([(other, 1), (STEP, 42)], delta=1e-7, neighboring_relation=relation)
    assert first == second
    alone = accountant.get_epsilon([(STEP, 42)], delta=1e-7, neighboring_relation=relation)
    assert alone < first


@ACCOUNTANTS
def test_accountant_names_its_library_when_asked_for_a_version(accountant):
    assert any(character.isdigit() for character in accountant.version)
    assert str(accountant) == accountant.name
