import json

import pytest

from dpwgan.errors import PrivacyError
from dpwgan.privacy.accountants.amortized import AMORTIZED
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.accountants.pld import PLD
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.calibrate import noise_multiplier_for
from dpwgan.privacy.events import gaussian, poisson_gaussian, stable_selection
from dpwgan.privacy.ledger import Ledger
from tests.ledgers import make_release

ZERO_OUT = NeighboringRelation.ZERO_OUT
BUDGET = Budget(epsilon=1.0, delta=1e-8)
STEPS = 40


def _open(accountant=MOMENTS):
    noise = noise_multiplier_for(
        accountant=accountant,
        budget=BUDGET,
        sampling_probability=0.02,
        steps=STEPS,
        neighboring_relation=ZERO_OUT,
    )
    event = poisson_gaussian(sampling_probability=0.02, noise_multiplier=noise)
    return Ledger(BUDGET, accountant=accountant, neighboring_relation=ZERO_OUT), event


@pytest.mark.parametrize("accountant", [MOMENTS, AMORTIZED, PLD], ids=str)
def test_ledger_refuses_step_t_plus_one_when_t_are_reserved(accountant):
    ledger, event = _open(accountant)
    ledger.reserve(make_release("critic", event, STEPS, mechanism="critic step"))
    for _ in range(STEPS):
        ledger.charge("critic")
    with pytest.raises(PrivacyError, match="40 of 40"):
        ledger.charge("critic")
    assert ledger.itemise()[0]["charged"] == STEPS


def test_ledger_refuses_a_charge_whole_when_only_a_part_of_it_is_left():
    ledger, event = _open()
    ledger.reserve(make_release("critic", event, STEPS, mechanism="critic step"))
    ledger.charge("critic", 39)
    with pytest.raises(PrivacyError):
        ledger.charge("critic", 2)
    ledger.charge("critic")


@pytest.mark.parametrize("accountant", [MOMENTS, AMORTIZED, PLD], ids=str)
def test_ledger_refuses_a_reservation_when_it_would_pass_the_budget(accountant):
    ledger, event = _open(accountant)
    with pytest.raises(PrivacyError, match="would bring the total"):
        ledger.reserve(make_release("critic", event, STEPS + 2, mechanism="critic step"))
    assert ledger.itemise() == []
    ledger.reserve(make_release("critic", event, STEPS, mechanism="critic step"))
    with pytest.raises(PrivacyError):
        ledger.reserve(make_release("counts", gaussian(noise_multiplier=5.0), 1, mechanism="counts"))
    with pytest.raises(PrivacyError):
        ledger.reserve(make_release("cells", stable_selection(epsilon=0.1, delta=1e-10), 1, mechanism="selection"))
    assert len(ledger.itemise()) == 1
    assert ledger.epsilon_reserved() <= 1.0


def test_ledger_refuses_a_label_when_it_is_taken_or_unknown():
    ledger, event = _open()
    ledger.reserve(make_release("critic", event, 10, mechanism="critic step"))
    with pytest.raises(PrivacyError, match="already holds"):
        ledger.reserve(make_release("critic", event, 10, mechanism="critic step"))
    with pytest.raises(PrivacyError, match="no reservation"):
        ledger.charge("generator")


@pytest.mark.parametrize("count", [0, -1, 1.0, True])
def test_ledger_refuses_a_count_when_it_is_no_whole_number_above_zero(count):
    ledger, event = _open()
    with pytest.raises(PrivacyError):
        ledger.reserve(make_release("critic", event, count, mechanism="critic step"))
    ledger.reserve(make_release("critic", event, 10, mechanism="critic step"))
    with pytest.raises(PrivacyError):
        ledger.charge("critic", count)


@pytest.mark.parametrize("accountant", [MOMENTS, AMORTIZED, PLD], ids=str)
def test_epsilon_spent_climbs_to_what_was_reserved_when_everything_is_charged(accountant):
    ledger, event = _open(accountant)
    assert ledger.epsilon_spent() == 0.0
    ledger.reserve(make_release("critic", event, STEPS, mechanism="critic step"))
    seen = [ledger.epsilon_spent()]
    for _ in range(STEPS):
        ledger.charge("critic")
        seen.append(ledger.epsilon_spent())
    assert seen[0] == 0.0
    assert seen == sorted(seen)
    assert seen[1] > 0.0
    assert seen[-1] == ledger.epsilon_reserved() <= BUDGET.epsilon


def test_guarantee_states_the_reserved_total_when_a_run_ends_early():
    ledger, event = _open()
    ledger.reserve(make_release("critic", event, STEPS, mechanism="critic step"))
    ledger.charge("critic", 3)
    assert ledger.epsilon_spent() < ledger.guarantee().epsilon == ledger.epsilon_reserved()
    assert ledger.guarantee().accountant == "moments"
    assert ledger.guarantee().delta == BUDGET.delta


def test_guarantee_is_refused_when_nothing_was_reserved():
    ledger, _ = _open()
    with pytest.raises(PrivacyError):
        ledger.guarantee()


def test_ledger_lists_every_number_when_itemised():
    ledger, event = _open()
    ledger.reserve(make_release("critic", event, 7, mechanism="critic step", l2_clip_norm=0.5))
    ledger.charge("critic", 2)
    (item,) = json.loads(json.dumps(ledger.itemise()))
    assert item == {
        "label": "critic",
        "mechanism": "critic step",
        "event": "poisson_gaussian",
        "sampling_probability": 0.02,
        "noise_multiplier": event.noise_multiplier,
        "reserved": 7,
        "charged": 2,
        "accountant": "moments",
        "accountant_version": MOMENTS.version,
        "details": {"l2_clip_norm": 0.5},
    }


def test_ledger_adds_selections_when_they_come_before_training():
    ledger, _ = _open()
    selection = stable_selection(epsilon=0.25, delta=1e-9)
    ledger.reserve(make_release("cells", selection, 2, mechanism="selection"))
    assert ledger.epsilon_reserved() == pytest.approx(0.5)
    noise = noise_multiplier_for(
        accountant=MOMENTS,
        budget=BUDGET,
        sampling_probability=0.02,
        steps=STEPS,
        neighboring_relation=ZERO_OUT,
        other_charges=[(selection, 2)],
    )
    event = poisson_gaussian(sampling_probability=0.02, noise_multiplier=noise)
    ledger.reserve(make_release("critic", event, STEPS, mechanism="critic step"))
    assert 0.99 < ledger.epsilon_reserved() <= 1.0
    assert any("basic composition" in text for text in ledger.guarantee().assumptions)
