"""Charges in few words, the accountants and relations that tests go over, and what an accountant says of charges."""

from collections.abc import Callable, Iterable

import pytest

from dpwgan.privacy.accountants.accountant import Accountant
from dpwgan.privacy.accountants.amortized import AMORTIZED
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.accountants.pld import PLD
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import Charge, Event, PoissonGaussian
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import AccountantChoice, Terms
from tests.ledgers import make_release

ZERO_OUT, REPLACE_ONE = NeighboringRelation.ZERO_OUT, NeighboringRelation.REPLACE_ONE
ALL = (MOMENTS, AMORTIZED, PLD)
ACCOUNTANTS = pytest.mark.parametrize("accountant", ALL, ids=str)
RELATIONS = pytest.mark.parametrize("relation", [ZERO_OUT, REPLACE_ONE], ids=lambda relation: relation.value)


def take_steps(q: float, noise: float, steps: int = 1) -> Charge:
    """So many critic steps, of rows drawn with probability q."""
    return PoissonGaussian(sampling_probability=q, noise_multiplier=noise), steps


def ask(
    accountant: Accountant, charges: Iterable[Charge], *, delta: float = 1e-7, relation: NeighboringRelation = ZERO_OUT
) -> float:
    """The epsilon of some charges."""
    return accountant.get_epsilon(list(charges), delta=delta, neighboring_relation=relation)


def get_epsilon(choice: AccountantChoice) -> float:
    """The epsilon of all that the budget has to pay for, by the accountant that was chosen."""
    return choice.terms.get_epsilon(choice.accountant, choice.chosen_charges)


def calibrate(terms: Terms, charges: Callable[[float], Iterable[Charge]]) -> AccountantChoice:
    """Calibrates releases of these charges."""

    def release(event: Event, times: int) -> Release:
        return make_release("it", event, times, sensitivity=getattr(event, "sensitivity", 1.0))

    return terms.calibrate(lambda scale: [release(*charge) for charge in charges(scale)])
