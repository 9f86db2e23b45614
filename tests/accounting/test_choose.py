import math

import pytest

from dpwgan.accounting.amortized import AMORTIZED
from dpwgan.accounting.budget import Budget, NeighboringRelation
from dpwgan.accounting.choose import RULES, choose_accountant, choose_accountant_for_noise, get_accountant
from dpwgan.accounting.events import stable_selection
from dpwgan.accounting.moments import MOMENTS
from dpwgan.accounting.pld import PLD
from dpwgan.errors import PrivacyError, UsageError

ZERO_OUT = NeighboringRelation.ZERO_OUT
DELTA = 39_073**-2
SETTINGS = {"sampling_probability": 1_024 / 39_073, "steps": 200, "neighboring_relation": ZERO_OUT}


@pytest.mark.parametrize(
    ("rule", "epsilon", "accountant"),
    [
        ("auto", 0.3, MOMENTS),
        ("auto", 8.0, MOMENTS),
        # Below the reach of 161 Renyi orders only the amortized accountant can answer.
        ("auto", 0.0005, AMORTIZED),
        ("paper", 0.7, AMORTIZED),
        ("paper", 0.71, MOMENTS),
        ("moments", 0.3, MOMENTS),
        ("amortized", 8.0, AMORTIZED),
        ("pld", 1.0, PLD),
    ],
)
def test_rule_chooses_its_accountant_when_asked(rule, epsilon, accountant):
    choice = choose_accountant(rule, budget=Budget(epsilon=epsilon, delta=DELTA), **SETTINGS)
    assert choice.accountant is accountant
    assert choice.rule == rule
    assert choice.epsilon() <= epsilon
    assert accountant.name in choice.reason
    assert choice.reason.endswith(".")
    assert {item.accountant for item in choice.alternatives} == {MOMENTS, AMORTIZED, PLD} - {accountant}


def test_choice_says_what_the_others_would_have_said_when_it_is_made():
    choice = choose_accountant("auto", budget=Budget(epsilon=1.0, delta=DELTA), **SETTINGS)
    for accountant, noise_multiplier, epsilon in choice.alternatives:
        at_chosen = accountant.get_epsilon(choice.charges(), delta=DELTA, neighboring_relation=ZERO_OUT)
        assert epsilon == at_chosen
        if accountant is AMORTIZED:
            assert noise_multiplier > choice.noise_multiplier
            assert epsilon > 1.0
        else:
            assert noise_multiplier < choice.noise_multiplier
            assert epsilon < 1.0


def test_choice_takes_other_charges_off_first_when_there_are_some():
    selection = (stable_selection(epsilon=0.5, delta=DELTA / 2), 1)
    budget = Budget(epsilon=1.0, delta=DELTA)
    choice = choose_accountant("auto", budget=budget, other_charges=[selection], **SETTINGS)
    assert choice.charges()[0] == selection
    assert choice.noise_multiplier > choose_accountant("auto", budget=budget, **SETTINGS).noise_multiplier
    assert choice.epsilon() <= 1.0


def test_choice_is_refused_when_the_budget_cannot_be_met():
    with pytest.raises(PrivacyError, match="cannot be met"):
        choose_accountant("moments", budget=Budget(epsilon=1e-5, delta=DELTA), **SETTINGS)


def test_rule_is_refused_when_unknown():
    with pytest.raises(UsageError, match=", ".join(RULES)):
        choose_accountant("best", budget=Budget(epsilon=1.0, delta=DELTA), **SETTINGS)
    with pytest.raises(UsageError):
        get_accountant("auto")


def test_choice_for_noise_allows_the_most_steps_when_noise_is_fixed():
    settings = {
        "budget": Budget(epsilon=1.0, delta=DELTA),
        "noise_multiplier": 3.0,
        "sampling_probability": 64 / 39_073,
        "neighboring_relation": ZERO_OUT,
    }
    choice = choose_accountant_for_noise("auto", at_most_steps=1_000_000, **settings)
    assert choice.noise_multiplier == 3.0
    assert choice.epsilon() <= 1.0
    assert "steps" in choice.reason or "allows" in choice.reason
    fewer = choose_accountant_for_noise("amortized", at_most_steps=1_000_000, **settings)
    assert 1 <= fewer.steps < choice.steps
    assert choose_accountant_for_noise("paper", at_most_steps=5, **settings).steps == 5
    assert all(math.isfinite(item.epsilon) for item in choice.alternatives)


def test_choice_for_noise_is_refused_when_not_one_step_fits():
    with pytest.raises(PrivacyError, match="Not one step"):
        choose_accountant_for_noise(
            "auto",
            budget=Budget(epsilon=0.01, delta=DELTA),
            noise_multiplier=0.5,
            sampling_probability=0.5,
            at_most_steps=10,
            neighboring_relation=ZERO_OUT,
        )
