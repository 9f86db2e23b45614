"""The one place where tests plan: any method, on any shape, under any terms."""

from collections.abc import Sequence
from typing import Any

from dpwgan.methods.registry import get_method, make_settings
from dpwgan.plan import Plan
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.events import Charge
from dpwgan.privacy.terms import Terms
from dpwgan.privacy.unit import ONE_ROW, Unit
from dpwgan.table.encoded import TableShape


def make_terms(
    *,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    relation: NeighboringRelation = NeighboringRelation.ZERO_OUT,
    rule: str = "moments",
    others: Sequence[Charge] = (),
    unit: Unit = ONE_ROW,
) -> Terms:
    """Makes the terms that a test does not say."""
    budget = Budget(epsilon=epsilon, delta=delta)
    return Terms(
        budget=budget, neighboring_relation=relation, accountant_rule=rule, other_charges=tuple(others), unit=unit
    )


def plan_method(name: str, shape: TableShape, terms: Terms | None = None, **settings: Any) -> Plan[Any]:
    """Plans a run of a method; without terms, of the usual ones."""
    return get_method(name).plan(shape, terms or make_terms(), settings=make_settings(name, **settings))
