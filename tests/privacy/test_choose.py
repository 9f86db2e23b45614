import math

import pytest

from dpwgan.errors import PrivacyError, UsageError
from dpwgan.privacy.accountants.amortized import AMORTIZED
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.accountants.pld import PLD
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.calibrate import LEAST_NOISE_SCALE, _next_down
from dpwgan.privacy.choose import (
    RULES,
    choose_accountant,
    choose_accountant_for_family,
    choose_accountant_for_noise,
    get_accountant,
)
from dpwgan.privacy.events import exponential_selection, gaussian, stable_selection
from dpwgan.privacy.ledger import Ledger
from tests.ledgers import make_release

ZERO_OUT, REPLACE_ONE = NeighboringRelation.ZERO_OUT, NeighboringRelation.REPLACE_ONE
DELTA = 39_073**-2
SETTINGS = {"sampling_probability": 1_024 / 39_073, "steps": 200, "neighboring_relation": ZERO_OUT}


@pytest.mark.parametrize(
    ("rule", "epsilon", "accountant"),
    [
        ("auto", 0.3, PLD),
        ("auto", 8.0, PLD),
        # Below the reach of 161 Renyi orders.
        ("auto", 0.0005, PLD),
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
        assert noise_multiplier > choice.noise_multiplier
        assert epsilon > 1.0


def test_choice_takes_other_charges_off_first_when_there_are_some():
    selection = (stable_selection(epsilon=0.5, delta=DELTA / 2), 1)
    budget = Budget(epsilon=1.0, delta=DELTA)
    choice = choose_accountant("auto", budget=budget, other_charges=[selection], **SETTINGS)
    assert choice.charges()[0] == selection
    assert choice.noise_multiplier > choose_accountant("auto", budget=budget, **SETTINGS).noise_multiplier
    assert choice.epsilon() <= 1.0


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


def _queries(scale):
    """One set of counts, then fifty rounds of a selection and an answer."""
    return [
        (gaussian(noise_multiplier=10 * scale, replace_one_factor=math.sqrt(2)), 1),
        (exponential_selection(epsilon=0.1 / scale), 50),
        (gaussian(noise_multiplier=20 * scale, replace_one_factor=math.sqrt(2)), 50),
    ]


@pytest.mark.parametrize("relation", [ZERO_OUT, REPLACE_ONE], ids=lambda relation: relation.value)
@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.3, 1.0, 8.0, 30.0, 100.0])
@pytest.mark.parametrize("rule", ["moments", "amortized", "pld"])
def test_family_is_at_most_the_epsilon_asked_for_when_it_is_calibrated(rule, epsilon, relation):
    budget = Budget(epsilon=epsilon, delta=DELTA)
    accountant = get_accountant(rule)
    choice = choose_accountant_for_family(rule, budget=budget, charges=_queries, neighboring_relation=relation)
    assert choice.accountant is accountant
    assert choice.noise_unit == "noise_scale"
    assert list(choice.charges()) == _queries(choice.noise_scale)
    reported = accountant.get_epsilon(choice.charges(), delta=DELTA, neighboring_relation=relation)
    assert reported == choice.epsilon() <= epsilon
    # Nothing is given away either: one unit less in the fourth digit would not do.
    less = accountant.get_epsilon(_queries(_next_down(choice.noise)), delta=DELTA, neighboring_relation=relation)
    assert less > epsilon
    ledger = Ledger(budget, accountant=accountant, neighboring_relation=relation)
    for number, (event, count) in enumerate(choice.charges()):
        ledger.reserve(make_release(f"part {number}", event, count, mechanism="test"))
    assert ledger.epsilon_reserved() == reported


def test_family_choice_says_what_the_others_would_have_said_when_it_is_made():
    budget = Budget(epsilon=1.0, delta=DELTA)
    choice = choose_accountant_for_family("auto", budget=budget, charges=_queries, neighboring_relation=ZERO_OUT)
    # So many selections that pld gives what moments gives.
    assert choice.accountant is MOMENTS
    assert "noise scales" in choice.reason
    assert "moments needs least noise" in choice.reason
    for accountant, noise, epsilon in choice.alternatives:
        assert epsilon == accountant.get_epsilon(choice.charges(), delta=DELTA, neighboring_relation=ZERO_OUT)
        alone = choose_accountant_for_family(
            accountant.name, budget=budget, charges=_queries, neighboring_relation=ZERO_OUT
        )
        assert alone.noise_scale == noise


def test_family_of_gaussians_is_calibrated_exactly_when_amortized_knows_their_curve():
    def marginals(scale):
        return [(gaussian(noise_multiplier=scale, replace_one_factor=math.sqrt(2)), 30)]

    choice = choose_accountant_for_family(
        "auto", budget=Budget(epsilon=1.0, delta=DELTA), charges=marginals, neighboring_relation=ZERO_OUT
    )
    assert choice.accountant is AMORTIZED
    assert {item.accountant: item.noise for item in choice.alternatives}[PLD] == choice.noise_scale
    assert {item.accountant: item.noise for item in choice.alternatives}[MOMENTS] > choice.noise_scale


def test_family_is_noisier_when_other_charges_come_off_first():
    budget = Budget(epsilon=1.0, delta=DELTA)
    settings = {"budget": budget, "charges": _queries, "neighboring_relation": ZERO_OUT}
    selection = (stable_selection(epsilon=0.1, delta=DELTA / 10), 1)
    alone = choose_accountant_for_family("auto", **settings)
    after = choose_accountant_for_family("auto", other_charges=[selection], **settings)
    assert after.noise_scale > alone.noise_scale
    assert after.charges()[0] == selection
    assert after.epsilon() <= 1.0


def test_family_is_refused_when_no_scale_is_enough():
    def stubborn(scale):
        return [(gaussian(noise_multiplier=1.0), 1), (exponential_selection(epsilon=1 / scale), 1)]

    settings = {"budget": Budget(epsilon=1.0, delta=DELTA), "neighboring_relation": ZERO_OUT}
    with pytest.raises(PrivacyError, match="noise scale above"):
        choose_accountant_for_family("moments", charges=stubborn, **settings)
    with pytest.raises(UsageError):
        choose_accountant_for_family("best", charges=_queries, **settings)


def test_family_stops_at_the_least_scale_when_the_budget_is_absurd():
    choice = choose_accountant_for_family(
        "amortized", budget=Budget(epsilon=1e30, delta=DELTA), charges=_queries, neighboring_relation=ZERO_OUT
    )
    assert choice.noise_scale == LEAST_NOISE_SCALE
