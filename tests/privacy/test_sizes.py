"""What one unit moves of the histogram of units: every neighbour there is, and what a histogram of rows would move."""

import numpy as np
import pytest

from dpwgan.errors import PrivacyError
from dpwgan.privacy.budget import Budget
from dpwgan.privacy.mechanisms.laplace import find_scale
from dpwgan.privacy.sizes import SIZES_LABEL, SIZES_SHARE, plan_sizes
from dpwgan.privacy.terms import Terms
from dpwgan.privacy.unit import Unit
from dpwgan.table.units import Units
from tests.ledgers import open_ledger
from tests.privacy.charges import REPLACE_ONE, ZERO_OUT

OTHERS = [3, 1, 1, 25, 7, 2]


def count_units(sizes, most):
    return Units(np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)).count_sizes(most)


def count_rows(sizes, most):
    """The broken twin: rows by how many their unit has."""
    return count_units(sizes, most) * np.arange(1, most + 1)


def find_most_moved(count, most):
    """The most that a unit moves the counts, in L1: taken out, or of another number of rows."""
    gone = count(OTHERS, most)
    there = [count([*OTHERS, size], most) for size in range(1, 2 * most + 2)]
    out = max(np.abs(own - gone).sum() for own in there)
    return out, max(np.abs(one - other).sum() for one in there for other in there)


@pytest.mark.parametrize("most", [1, 2, 5, 20])
def test_a_unit_moves_one_cell_when_it_is_taken_out_and_two_when_it_is_another(most):
    assert find_most_moved(count_units, most) == (1, 2 if most > 1 else 0)
    assert count_units(OTHERS, most).sum() == len(OTHERS)
    assert len(count_units(OTHERS, most)) == most
    if most > 1:
        out, other = find_most_moved(count_rows, most)
        assert (out, other) == (most, 2 * most - 1)


@pytest.mark.parametrize("relation", [ZERO_OUT, REPLACE_ONE])
@pytest.mark.parametrize("most", [2, 5, 20])
def test_noise_is_for_what_a_unit_moves_whatever_its_rows_are(relation, most):
    terms = Terms(
        budget=Budget(epsilon=2.0, delta=1e-5), neighboring_relation=relation, unit=Unit(rows=most, named="person")
    )
    release = plan_sizes(terms, most=most)
    out, other = find_most_moved(count_units, most)
    parts, step = find_scale(release.sensitivity, release.event.epsilon)
    assert (out if relation is ZERO_OUT else other) * step / parts == pytest.approx(SIZES_SHARE * 2.0)
    ledger = open_ledger(
        [], budget=Budget(epsilon=SIZES_SHARE * 2.0 * 1.001, delta=1e-5), unit=terms.unit, relation=relation
    )
    ledger.reserve(release, as_charged=True)
    assert ledger.find(SIZES_LABEL) == release
    assert ledger.guarantee().epsilon == pytest.approx(SIZES_SHARE * 2.0)
    assert ledger.guarantee().delta == 0.0
    assert any("a unit is in one cell" in words for words in ledger.guarantee().assumptions)
    # Planned for a row, it would be paid for as if a unit moved it by all of its rows.
    twin = open_ledger([], budget=ledger.budget, unit=terms.unit, relation=relation)
    with pytest.raises(PrivacyError, match="budget"):
        twin.reserve(release)
