"""The ledger: what may be reserved and charged, what has been spent, and what it states."""

import json

import pytest

from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import Gaussian, PoissonGaussian, StableSelection
from tests.ledgers import make_release, open_ledger
from tests.plans import make_terms
from tests.privacy.charges import ACCOUNTANTS, MOMENTS

TERMS = make_terms(epsilon=1.0, delta=1e-8)
STEPS = 40


def make_steps(count=STEPS, *, accountant=MOMENTS, terms=TERMS, **details):
    """Makes the release of steps with the least noise with which 40 of them fit the budget."""
    noise = terms.find_noise_multiplier(accountant, sampling_probability=0.02, steps=STEPS)
    event = PoissonGaussian(sampling_probability=0.02, noise_multiplier=noise)
    return make_release("critic", event, count, mechanism="critic step", **details)


def open_with(*releases, accountant=MOMENTS):
    return open_ledger(releases, budget=TERMS.budget, accountant=accountant)


@ACCOUNTANTS
def test_ledger_refuses_step_t_plus_one_when_t_are_reserved(accountant):
    ledger = open_with(make_steps(accountant=accountant), accountant=accountant)
    for _ in range(STEPS):
        ledger.charge("critic")
    with pytest.raises(PrivacyError, match="40 of 40"):
        ledger.charge("critic")
    assert ledger.itemise()[0]["charged"] == STEPS


def test_ledger_refuses_a_charge_whole_when_only_a_part_of_it_is_left():
    ledger = open_with(make_steps())
    ledger.charge("critic", 39)
    with pytest.raises(PrivacyError):
        ledger.charge("critic", 2)
    ledger.charge("critic")


@ACCOUNTANTS
def test_ledger_refuses_a_reservation_when_it_would_pass_the_budget(accountant):
    ledger = open_with(accountant=accountant)
    with pytest.raises(PrivacyError, match="would bring the total"):
        ledger.reserve(make_steps(STEPS + 2, accountant=accountant))
    assert ledger.itemise() == []
    ledger.reserve(make_steps(accountant=accountant))
    for event in (Gaussian(noise_multiplier=5.0), StableSelection(epsilon=0.1, delta=1e-10)):
        with pytest.raises(PrivacyError):
            ledger.reserve(make_release("more", event))
    assert len(ledger.itemise()) == 1
    assert ledger.epsilon_reserved() <= 1.0


def test_ledger_refuses_a_label_when_it_is_taken_or_unknown():
    ledger = open_with(make_steps(10))
    with pytest.raises(PrivacyError, match="already holds"):
        ledger.reserve(make_steps(10))
    with pytest.raises(PrivacyError, match="no reservation"):
        ledger.charge("generator")


@pytest.mark.parametrize("count", [0, -1, 1.0, True])
def test_ledger_refuses_a_count_when_it_is_no_whole_number_above_zero(count):
    with pytest.raises(PrivacyError):
        open_with(make_steps(count))
    ledger = open_with(make_steps(10))
    with pytest.raises(PrivacyError):
        ledger.charge("critic", count)


def test_ledger_refuses_a_list_of_cells_whose_noise_could_not_be_drawn_before_it_is_charged():
    ledger = open_with(make_release("these", StableSelection(epsilon=1e-6, delta=1e-9)))
    with pytest.raises(PrivacyError, match="epsilon of 9e-07 for a list of cells is too small"):
        ledger.reserve(make_release("those", StableSelection(epsilon=9e-7, delta=1e-9)))
    assert [release.label for release in ledger.releases] == ["these"]


@ACCOUNTANTS
def test_epsilon_spent_climbs_to_what_was_reserved_when_everything_is_charged(accountant):
    assert open_with(accountant=accountant).epsilon_spent() == 0.0
    ledger = open_with(make_steps(accountant=accountant), accountant=accountant)
    seen = [ledger.epsilon_spent()]
    for _ in range(STEPS):
        ledger.charge("critic")
        seen.append(ledger.epsilon_spent())
    assert seen[0] == 0.0
    assert seen == sorted(seen)
    assert seen[1] > 0.0
    assert seen[-1] == ledger.epsilon_reserved() <= 1.0


def test_guarantee_states_the_reserved_total_when_a_run_ends_early():
    ledger = open_with(make_steps())
    ledger.charge("critic", 3)
    assert ledger.epsilon_spent() < ledger.guarantee().epsilon == ledger.epsilon_reserved()
    assert ledger.guarantee().accountant == "moments"
    assert ledger.guarantee().delta == 1e-8
    with pytest.raises(PrivacyError, match="Nothing was reserved"):
        open_with().guarantee()


def test_ledger_lists_every_number_when_itemised():
    steps = make_steps(7, l2_clip_norm=0.5)
    ledger = open_with(steps)
    ledger.charge("critic", 2)
    (item,) = json.loads(json.dumps(ledger.itemise()))
    assert item == {
        "label": "critic",
        "mechanism": "critic step",
        "event": "poisson_gaussian",
        "sampling_probability": 0.02,
        "noise_multiplier": steps.event.noise_multiplier,
        "reserved": 7,
        "charged": 2,
        "accountant": "moments",
        "accountant_version": MOMENTS.version,
        "details": {"l2_clip_norm": 0.5},
    }


def test_ledger_adds_selections_when_they_come_before_training():
    selection = StableSelection(epsilon=0.25, delta=1e-9)
    ledger = open_with(make_release("cells", selection, 2))
    assert ledger.epsilon_reserved() == pytest.approx(0.5)
    ledger.reserve(make_steps(terms=make_terms(epsilon=1.0, delta=1e-8, others=[(selection, 2)])))
    assert 0.99 < ledger.epsilon_reserved() <= 1.0
    assert any("basic composition" in text for text in ledger.guarantee().assumptions)
