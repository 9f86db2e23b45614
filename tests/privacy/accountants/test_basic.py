"""Pure releases: epsilons are added, delta stays 0, and nothing else slips in under that name."""

import math

import pytest

from dpwgan.errors import PrivacyError
from dpwgan.privacy.accountants.accountant import BASIC
from dpwgan.privacy.budget import Budget
from dpwgan.privacy.events import ExponentialSelection, Gaussian, Laplace, PoissonGaussian, StableSelection
from tests.ledgers import make_release, open_ledger
from tests.privacy.charges import ACCOUNTANTS, ALL, REPLACE_ONE, ZERO_OUT, ask

ALL_AND_BASIC = pytest.mark.parametrize("accountant", [BASIC, *ALL], ids=str)
CHARGES = [(Laplace(epsilon=0.25, replace_one_factor=1.5), 2), (Laplace(epsilon=0.125), 1)]


@ALL_AND_BASIC
@pytest.mark.parametrize(("relation", "total"), [(ZERO_OUT, 0.625), (REPLACE_ONE, 1.0)])
def test_epsilons_are_added_when_releases_are_pure(accountant, relation, total):
    found = ask(accountant, CHARGES, delta=1e-9, relation=relation)
    assert total <= found <= total * (1 + 1e-9)


@ALL_AND_BASIC
def test_pure_releases_take_no_delta_when_composed_with_others(accountant):
    other = (StableSelection(epsilon=0.5, delta=1e-9), 1)
    found = ask(accountant, [*CHARGES, other], delta=1.1e-9)
    assert found == pytest.approx(1.125, rel=1e-9)


@ACCOUNTANTS
def test_epsilons_are_added_to_those_of_noise_that_is_not_pure(accountant):
    noise = (Gaussian(noise_multiplier=5.0), 1)
    alone = ask(accountant, [noise], delta=1e-6)
    both = ask(accountant, [noise, *CHARGES], delta=1e-6)
    assert both == pytest.approx(alone + 0.625, rel=1e-9)


@pytest.mark.parametrize(
    "event", [Gaussian(noise_multiplier=1e6), PoissonGaussian(sampling_probability=1e-6, noise_multiplier=1e6)]
)
def test_basic_accountant_has_no_epsilon_when_noise_is_gaussian(event):
    assert math.isinf(ask(BASIC, [(event, 1)], delta=0.5))
    with pytest.raises(PrivacyError):
        open_ledger([make_release("counts", event)], budget=Budget(epsilon=1e6, delta=0.5), accountant=BASIC)


def test_basic_accountant_adds_selections_when_there_are_any():
    event = ExponentialSelection(epsilon=0.1)
    assert ask(BASIC, [(event, 3)], delta=1e-9) == pytest.approx(0.3)
    assert BASIC.version
    assert str(BASIC) == "basic"


def test_guarantee_states_delta_zero_when_every_release_is_pure():
    release = make_release("counts", CHARGES[0][0], 2)
    ledger = open_ledger([release], budget=Budget(epsilon=1.0, delta=1e-6), accountant=BASIC)
    guarantee = ledger.guarantee()
    assert (guarantee.delta, guarantee.epsilon) == (0.0, pytest.approx(0.5))
    assert guarantee.replace_one() == (pytest.approx(1.0), 0.0)
    assert guarantee.replace_one()[0] >= 2 * guarantee.epsilon
    assert any("drawn exactly" in text for text in guarantee.assumptions)
    assert ledger.itemise()[0]["event"] == "laplace"
    # One line that is not pure, and delta is the budget's again.
    ledger.reserve(make_release("cells", StableSelection(epsilon=0.1, delta=1e-7)))
    assert ledger.guarantee().delta == 1e-6
