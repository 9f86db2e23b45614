"""Shares of forms that go with rows: changed as little as will do, by another route."""

import numpy as np
import pytest
from scipy import optimize

from dpwgan.table.schema import CategoricalColumn
from dpwgan.table.specs import parse_specs
from dpwgan.table.units.forms import find_possible, fit_shares, list_forms

SPECS = {
    "unit": {"column": "house", "max_rows": 3, "kind": "role"},
    "house": {"type": "integer", "uuid": True},
    "role": {"type": "enum", "values": ["head", "spouse", "child"]},
}
FORMS = list_forms(parse_specs(SPECS, sha256="0"))
MEMBERS = FORMS.sum(axis=1)


@pytest.mark.parametrize(("wave", "most"), [({"max": 2}, 6), ({"max": 2, "optional": True}, 8), ({"max": 99}, 9)])
def test_no_unit_has_more_rows_than_its_unique_columns_have_combinations(wave, most):
    """Not even where a list of cells became known when it was released."""
    specs = {
        "unit": {"column": "house", "max_rows": 9, "unique": ["wave", "role"]},
        "house": {"type": "integer", "uuid": True},
        "wave": {"type": "integer", "min": 0, **wave},
        "role": {"type": "enum", "values_from": "data", "domain_privacy": "waived"},
    }
    schema = parse_specs(specs, sha256="0").put(CategoricalColumn(name="role", tokens=("head", "child")))
    assert list_forms(schema)[find_possible(schema)].ravel().tolist() == [*range(1, most + 1)]


def count_rows(shares):
    """Rows by the size of their unit, and by kind."""
    return np.bincount(MEMBERS - 1, MEMBERS * shares, 3), shares @ FORMS


@pytest.mark.parametrize("seed", range(5))
def test_shares_of_forms_go_with_rows_and_change_as_little_as_will_do(seed):
    rng = np.random.default_rng(seed)
    shares, others = rng.dirichlet(np.ones(len(FORMS)), size=2)
    sizes, kinds = count_rows(others)
    found = fit_shares(FORMS, shares, sizes=1_000 * sizes, kinds=1_000 * kinds)
    units = (np.bincount(MEMBERS - 1, shares) + np.bincount(MEMBERS - 1, others)) / 2
    wanted = kinds / kinds.sum() * (units @ [1, 2, 3])
    np.testing.assert_allclose(np.bincount(MEMBERS - 1, found), units, atol=1e-6)
    np.testing.assert_allclose(found @ FORMS, wanted, atol=1e-3)
    # The nearest such shares in relative entropy, by a solver that knows of no scaling.
    sums = np.concatenate([np.eye(3)[:, MEMBERS - 1], FORMS.T])
    nearest = optimize.minimize(
        lambda x: np.sum(x * np.log(np.maximum(x, 1e-12) / shares) - x + shares),
        found,
        bounds=[(1e-12, 1)] * len(FORMS),
        constraints={"type": "eq", "fun": lambda x: (sums @ x - sums @ found)[:-1]},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert nearest.success
    np.testing.assert_allclose(found, nearest.x, atol=1e-4)
    # The broken twin: shares as they were are further off.
    assert np.abs(shares @ FORMS - wanted).max() > 1e-3


def test_shares_of_forms_stay_as_they_are_when_rows_agree_or_nothing_else_will_do():
    shares = np.random.default_rng(1).dirichlet(np.ones(len(FORMS)))
    sizes, kinds = count_rows(shares)
    np.testing.assert_allclose(fit_shares(FORMS, shares, sizes=sizes, kinds=kinds), shares, atol=1e-6)
    # Of two rows units have a head and a child alone, whatever rows say.
    only = (FORMS == (1, 0, 1)).all(axis=1).astype(float)
    np.testing.assert_allclose(fit_shares(FORMS, only, sizes=np.ones(3), kinds=np.ones(3)), only, atol=1e-6)
