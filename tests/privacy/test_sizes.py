"""What one unit moves of the histogram of units: every neighbour there is, and what a histogram of rows would move."""

import functools
import math

import numpy as np
import polars as pl
import pytest

from dpwgan.errors import PrivacyError
from dpwgan.privacy.budget import Budget
from dpwgan.privacy.mechanisms.laplace import find_scale
from dpwgan.privacy.terms import Terms
from dpwgan.privacy.unit import Unit
from dpwgan.privacy.unit_counts import SIZES_LABEL, SIZES_SHARE, plan_sizes
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.source import make_table
from dpwgan.table.specs import parse_specs
from dpwgan.table.units.forms import count_forms, list_forms
from dpwgan.table.units.units import keep_rows, read_units
from tests.ledgers import open_ledger
from tests.privacy.charges import RELATIONS, ZERO_OUT

OTHERS = ["aab", "b", "a", "a", "bbb", "ab"]
KINDS = {"type": "enum", "values": ["a", "b"]}


@functools.cache
def read_schema(most, *, kind):
    unit = {"column": "name", "max_rows": most, **({"kind": "role"} if kind else {})}
    specs = {
        "unit": unit,
        "name": {"type": "string", "uuid": True},
        "role": KINDS,
        "gone": {"type": "enum", "count": 2},
    }
    specs["rules"] = [{"sql": "gone = 0", "violations": "drop"}]
    return parse_specs(specs, sha256="0" * 64)


def count_units(rows, most, *, kind):
    """The histogram of units, each of which has rows of these kinds; those in capitals a rule drops, ? is no kind."""
    schema = read_schema(most, kind=kind)
    names = [str(place) for place, own in enumerate(rows) for _ in own]
    kinds = "".join(rows)
    cells = {"name": names, "role": list(kinds.lower()), "gone": [str(int(cell.isupper())) for cell in kinds]}
    table = read_units(make_table(pl.DataFrame(cells)), schema.unit)
    table = keep_rows(table, most, rng=np.random.default_rng(1))
    return count_forms(table, table.units, TableEncoder(schema, table.header)), list_forms(schema)


def count_rows(rows, most, *, kind):
    """The broken twin: rows by the form of their unit."""
    counts, forms = count_units(rows, most, kind=kind)
    return counts * forms.sum(axis=1), forms


@functools.cache
def find_most_moved(count, most, *, kind):
    """The most that a unit moves the counts, in L1: taken out, or with any other rows."""
    others = [*OTHERS, "a" * 25]
    gone = count(others, most, kind=kind)[0]
    numbers = {1, 2, most, most + 1}
    units = ["a" * first + "b" * (rows - first) for rows in numbers for first in {0, 1, rows}]
    units += ["?" + unit[1:] for unit in units] + [unit[0].upper() + unit[1:] for unit in units] + ["AB", "B" * most]
    there = [count([*others, unit], most, kind=kind)[0] for unit in units]
    out = max(np.abs(own - gone).sum() for own in there)
    return out, max(np.abs(one - other).sum() for one in there for other in there)


@pytest.mark.parametrize("kind", [False, True], ids=["rows", "kinds"])
@pytest.mark.parametrize("most", [1, 2, 5, 20])
def test_a_unit_moves_one_cell_when_it_is_taken_out_and_two_when_it_is_another(most, kind):
    assert find_most_moved(count_units, most, kind=kind) == (1, 2 if most > 1 or kind else 1)
    counts, forms = count_units(OTHERS, most, kind=kind)
    assert counts.sum() == len(OTHERS)
    assert len(counts) == len(forms) == (math.comb(most + 2, 2) - 1 if kind else most)
    assert len({tuple(form) for form in forms}) == len(forms)
    assert set(forms.sum(axis=1)) == set(range(1, most + 1))
    if most > 1:
        out, other = find_most_moved(count_rows, most, kind=kind)
        assert out == most
        assert other > max(most, 2)


def test_rows_that_a_rule_drops_or_that_are_of_no_kind_are_not_counted():
    for kind in (False, True):
        counts, forms = count_units(["?aAb", "B", "AB", "?B", "Bb"], 4, kind=kind)
        found = {tuple(own): count for own, count in zip(forms.tolist(), counts, strict=True) if count}
        # Without kinds nobody looks at the cell that is none; the run ends for it.
        assert found == ({(1, 1): 1, (0, 1): 1} if kind else {(3,): 1, (1,): 2})


@RELATIONS
@pytest.mark.parametrize("most", [2, 5, 20])
def test_noise_is_for_what_a_unit_moves_whatever_its_rows_are(relation, most):
    terms = Terms(
        budget=Budget(epsilon=2.0, delta=1e-5), neighboring_relation=relation, unit=Unit(rows=most, named="person")
    )
    release = plan_sizes(terms)
    out, other = find_most_moved(count_units, most, kind=True)
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
