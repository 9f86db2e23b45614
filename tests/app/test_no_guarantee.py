"""Methods without a guarantee: they run when asked to by name, and nothing that they write promises anything."""

import json
import math
from typing import Any

import pytest

from dpwgan.app.claim import Claim
from dpwgan.errors import PrivacyError
from dpwgan.privacy.accountants.accountant import BASIC
from dpwgan.privacy.accountants.amortized import AMORTIZED
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.accountants.pld import PLD
from dpwgan.privacy.budget import Budget
from dpwgan.privacy.events import Gaussian, PublishedClaim, Unprotected
from dpwgan.privacy.terms import Terms
from tests import claims
from tests.ledgers import make_release, open_ledger
from tests.privacy.charges import ZERO_OUT, ask

BUDGET = Budget(epsilon=1.0, delta=1e-6)
PUBLISHED = PublishedClaim(epsilon=2.5, delta=1e-5, provable_epsilon=81234.567, source="A paper, Table 1")
RAW = Unprotected(reason="rows reach the network as they are", published=PUBLISHED)


def make_claim(guarantee: Any = RAW, *, seeded: bool = False) -> Claim:
    release = make_release("steps", RAW, 5, mechanism="gradients of rows, without noise")
    ledger = open_ledger([release], budget=BUDGET, no_guarantee=True)
    ledger.charge("steps", 5)
    accountant = Terms(budget=BUDGET, neighboring_relation=ZERO_OUT).choose_nothing().describe()
    return claims.make_claim(
        guarantee=guarantee, asked=BUDGET, ledger=ledger.itemise(), accountant=accountant, seeded=seeded
    )


@pytest.mark.parametrize("accountant", [MOMENTS, AMORTIZED, PLD, BASIC], ids=str)
def test_every_accountant_gives_no_finite_epsilon_when_rows_are_unprotected(accountant):
    assert ask(accountant, [(RAW, 1)]) == math.inf
    assert ask(accountant, [(Gaussian(noise_multiplier=50.0), 1), (RAW, 2)]) == math.inf
    assert ask(accountant, [(RAW, 0)]) == 0.0


def test_ledger_refuses_unprotected_acts_when_it_is_to_state_a_guarantee():
    ledger = open_ledger([], budget=BUDGET)
    with pytest.raises(PrivacyError, match="has no guarantee"):
        ledger.reserve(make_release("steps", RAW))
    assert ledger.itemise() == []


def test_ledger_states_nothing_when_it_was_opened_for_no_guarantee():
    release = make_release("counts", Gaussian(noise_multiplier=50.0))
    ledger = open_ledger([release], budget=BUDGET, no_guarantee=True)
    ledger.charge("counts")
    with pytest.raises(PrivacyError, match="no guarantee"):
        ledger.guarantee()
    ledger.reserve(make_release("steps", RAW))
    assert ledger.epsilon_reserved() == math.inf
    ledger.charge("steps")
    with pytest.raises(PrivacyError, match="1 of 1"):
        ledger.charge("steps")


def test_claim_holds_null_and_both_epsilons_when_there_is_no_guarantee():
    claim = make_claim()
    document = claim.document
    assert not claim.private
    assert document["guarantee"] is None
    assert document["why_no_guarantee"] == "NOT PRIVATE: rows reach the network as they are"
    assert document["budget"]["epsilon_spent"] is None
    assert document["budget"]["delta_spent"] is None
    assert document["published"] == PUBLISHED.describe()
    assert document["covered"] == []
    assert json.loads(claim.to_json()) == document
    text = claim.to_text()
    assert (
        "published (A paper, Table 1): epsilon 2.5 at delta 1e-05; provable at delta 1e-05: epsilon 8.124e+04" in text
    )
    assert "differential privacy with" not in text
    assert "spent of" not in text
    assert "NOT PRIVATE" in claim.for_output(rows=3, chosen_by="asked for", from_saved_model=True).to_text()


def test_claim_says_that_nothing_can_be_proved_when_no_epsilon_can():
    published = PublishedClaim(epsilon=6.786, delta=1e-5, provable_epsilon=None, source="S")
    text = make_claim(Unprotected(reason="r", published=published)).to_text()
    assert "provable at delta 1e-05: none can be proved" in text
    assert "published" not in make_claim(Unprotected(reason="r")).to_text()


@pytest.mark.parametrize("wrong", [{"epsilon": 0.0}, {"delta": 1.0}, {"provable_epsilon": -1.0}])
def test_published_claim_is_refused_when_a_number_is_out_of_range(wrong):
    with pytest.raises(PrivacyError):
        PublishedClaim(**{"epsilon": 1.0, "delta": 1e-5, "provable_epsilon": None, "source": "S", **wrong})
