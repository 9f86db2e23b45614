"""What the counts of linked rows cost: by zero-concentrated privacy worked out anew, and by the ledger."""

import math

import pytest
from scipy.optimize import brentq

from dpwgan.errors import PrivacyError
from dpwgan.privacy.budget import Budget
from dpwgan.privacy.terms import Terms
from dpwgan.privacy.unit import Unit
from dpwgan.privacy.unit_counts import LINKS_LABEL, plan_links
from tests.ledgers import open_ledger
from tests.privacy.charges import RELATIONS, ZERO_OUT


def make_terms(relation, rows, epsilon=2.0):
    unit = Unit(rows=rows, named="person")
    return Terms(budget=Budget(epsilon=epsilon, delta=1e-6), neighboring_relation=relation, unit=unit)


def spend(rho, delta):
    """The epsilon of rho-zCDP."""
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


@RELATIONS
@pytest.mark.parametrize(("rows", "columns"), [(2, 1), (6, 3), (20, 8)])
def test_links_cost_a_tenth_of_what_gaussian_noise_has_to_spend(relation, rows, columns):
    release = plan_links(make_terms(relation, rows), columns=columns)
    moved = rows * math.sqrt(columns)
    assert release.sensitivity == pytest.approx(moved)
    factor = 1.0 if relation is ZERO_OUT else math.sqrt(2)
    rho = (factor * moved) ** 2 / (2 * release.stddev**2)
    assert rho == pytest.approx(0.1 * brentq(lambda rho: spend(rho, 1e-6) - 2.0, 1e-9, 10), rel=1e-6)


@RELATIONS
def test_ledger_takes_the_release_as_that_of_all_rows_of_a_unit(relation):
    terms = make_terms(relation, 6)
    release = plan_links(terms, columns=3)
    ledger = open_ledger([], budget=terms.budget, unit=terms.unit, relation=relation)
    ledger.reserve(release, as_charged=True)
    assert ledger.find(LINKS_LABEL).event.rows == 6
    assert any("a row may move what others of its unit add" in told for told in ledger.guarantee().assumptions)
    moved = release.sensitivity * (1.0 if relation is ZERO_OUT else math.sqrt(2))
    bound = spend(moved**2 / (2 * release.stddev**2), 1e-6)
    assert 0.8 * bound < ledger.guarantee().epsilon <= bound
    # Planned as one of a row, it would be paid for once more as that of all rows of a unit.
    twin = open_ledger([], budget=Budget(epsilon=1.001 * bound, delta=1e-6), unit=terms.unit, relation=relation)
    with pytest.raises(PrivacyError, match=r"budget|rows"):
        twin.reserve(plan_links(make_terms(relation, 1, epsilon=40.0), columns=3))
