"""The terms of a plan: which accountant a rule takes, the noise that it asks for, and what others would have said."""

import math

import pytest

from dpwgan.errors import PrivacyError, UsageError
from dpwgan.privacy.calibrate import _next_down
from dpwgan.privacy.events import ExponentialSelection, Gaussian, StableSelection
from dpwgan.privacy.terms import ACCOUNTANTS, NOISE_SCALES, RULES, AccountantChoice, Terms
from tests import plans
from tests.ledgers import make_release, open_ledger
from tests.privacy.charges import AMORTIZED, MOMENTS, PLD, RELATIONS, ask, calibrate, get_epsilon

DELTA = 39_073**-2
STEPS = {"sampling_probability": 1_024 / 39_073, "steps": 200}


def make_terms(rule="auto", epsilon=1.0, **more) -> Terms:
    return plans.make_terms(rule=rule, epsilon=epsilon, delta=DELTA, **more)


def check_alternatives(choice: AccountantChoice) -> None:
    """What the others say is their own epsilon for what was chosen."""
    assert {other.accountant for other in choice.alternatives} == {MOMENTS, AMORTIZED, PLD} - {choice.accountant}
    for other in choice.alternatives:
        relation = choice.terms.neighboring_relation
        assert other.epsilon == ask(other.accountant, choice.chosen_charges, delta=DELTA, relation=relation)


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
    choice = make_terms(rule, epsilon).calibrate_steps(**STEPS)
    assert choice.accountant is accountant
    assert (choice.describe()["rule"], choice.noise_unit, choice.steps) == (rule, "noise_multiplier", 200)
    assert get_epsilon(choice) <= epsilon
    assert accountant.name in choice.reason
    assert choice.reason.endswith(".")
    check_alternatives(choice)


def test_others_need_more_noise_when_the_best_was_chosen():
    choice = make_terms().calibrate_steps(**STEPS)
    for _, noise, epsilon in choice.alternatives:
        assert noise > choice.noise
        assert epsilon > 1.0


def test_rule_is_refused_when_unknown():
    with pytest.raises(UsageError, match=", ".join(RULES)):
        make_terms("best")


@pytest.mark.slow
def test_choice_for_noise_allows_the_most_steps_when_noise_is_fixed():
    asked = {"noise_multiplier": 3.0, "sampling_probability": 64 / 39_073}
    choice = make_terms().fit_steps(at_most_steps=1_000_000, **asked)
    assert choice.noise == 3.0
    assert get_epsilon(choice) <= 1.0
    assert "allows" in choice.reason
    fewer = make_terms("amortized").fit_steps(at_most_steps=1_000_000, **asked)
    assert 1 <= fewer.steps < choice.steps
    assert make_terms("paper").fit_steps(at_most_steps=5, **asked).steps == 5
    assert all(math.isfinite(item.epsilon) for item in choice.alternatives)


def test_choice_for_noise_is_refused_when_not_one_step_fits():
    with pytest.raises(PrivacyError, match="Not one step"):
        make_terms(epsilon=0.01).fit_steps(noise_multiplier=0.5, sampling_probability=0.5, at_most_steps=10)


def _queries(scale):
    """One set of counts, then fifty rounds of a selection and an answer."""
    return [
        (Gaussian(noise_multiplier=10 * scale, replace_one_factor=math.sqrt(2)), 1),
        (ExponentialSelection(epsilon=0.1 / scale), 50),
        (Gaussian(noise_multiplier=20 * scale, replace_one_factor=math.sqrt(2)), 50),
    ]


@RELATIONS
@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.3, 1.0, 8.0, 30.0, 100.0])
@pytest.mark.parametrize("rule", ["moments", "amortized", "pld"])
def test_family_is_at_most_the_epsilon_asked_for_when_it_is_calibrated(rule, epsilon, relation):
    terms = make_terms(rule, epsilon, relation=relation)
    choice = calibrate(terms, _queries)
    assert choice.accountant is ACCOUNTANTS[rule]
    assert choice.noise_unit == "noise_scale"
    charges = _queries(choice.noise)
    assert list(choice.chosen_charges) == charges
    reported = ask(choice.accountant, charges, delta=DELTA, relation=relation)
    assert reported <= epsilon
    # Nothing is given away either: one unit less in the fourth digit would not do.
    less = _queries(_next_down(choice.noise))
    assert ask(choice.accountant, less, delta=DELTA, relation=relation) > epsilon
    releases = [make_release(f"part {number}", *charge) for number, charge in enumerate(charges)]
    ledger = open_ledger(releases, budget=terms.budget, accountant=choice.accountant, relation=relation)
    assert ledger.epsilon_reserved() == reported


def test_family_choice_says_what_the_others_would_have_said_when_it_is_made():
    choice = calibrate(make_terms(), _queries)
    # So many selections that pld gives what moments gives.
    assert choice.accountant is MOMENTS
    assert "noise scales" in choice.reason
    assert "moments needs least noise" in choice.reason
    check_alternatives(choice)
    for accountant, noise, _ in choice.alternatives:
        assert calibrate(make_terms(accountant.name), _queries).noise == noise


def test_family_of_gaussians_is_calibrated_exactly_when_amortized_knows_their_curve():
    choice = calibrate(make_terms(), lambda scale: [(Gaussian(noise_multiplier=scale), 30)])
    assert choice.accountant is AMORTIZED
    others = {item.accountant: item.noise for item in choice.alternatives}
    assert others[PLD] == choice.noise < others[MOMENTS]


@pytest.mark.parametrize("of_steps", [False, True], ids=["family", "steps"])
def test_choice_takes_other_charges_off_first_when_there_are_some(of_steps):
    def choose(terms: Terms) -> AccountantChoice:
        return terms.calibrate_steps(**STEPS) if of_steps else calibrate(terms, _queries)

    selection = (StableSelection(epsilon=0.5, delta=DELTA / 2), 1)
    after = choose(make_terms(others=[selection]))
    assert after.noise > choose(make_terms()).noise
    assert ask(after.accountant, [selection, *after.chosen_charges], delta=DELTA) <= 1.0


def test_family_ends_at_its_limits_when_no_scale_is_enough_or_the_budget_is_absurd():
    with pytest.raises(PrivacyError, match="noise scale above"):
        calibrate(
            make_terms("moments"),
            lambda scale: [(Gaussian(noise_multiplier=1.0), 1), (ExponentialSelection(epsilon=1 / scale), 1)],
        )
    assert calibrate(make_terms("amortized", 1e30), _queries).noise == NOISE_SCALES[0]
