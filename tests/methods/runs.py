"""A whole run of a method on a small table: plan, reserve, fit, sample."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwgan.methods.base import FittedSynthesizer
from dpwgan.methods.registry import get_method
from dpwgan.plan import Plan
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import Charge
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.randomness import make_streams
from dpwgan.table.encoded import EncodedTable, TableShape
from dpwgan.table.schema import Column
from tests.ledgers import open_for_plan
from tests.marginals.tables import COLUMNS, make_encoded
from tests.plans import make_terms, plan_method

NARROW: list[Column] = [column for column in COLUMNS if column.name not in ("wide", "weight", "pay")]
"""Columns of every kind whose cells are few."""

FAST: dict[str, dict[str, Any]] = {
    "query-gan": {"rounds": 2, "codes": 40, "fit_steps": 8},
    "independent": {},
    "ron-gauss": {},
}

FAST_NETWORKS: dict[str, Any] = {"rounds": 2, "codes": 40}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What came of a run."""

    plan: Any
    ledger: Ledger
    fitted: FittedSynthesizer
    sampled: EncodedTable
    progress: list[tuple[int, int, float]]


def make_plan(
    name: str,
    shape: TableShape,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    relation: NeighboringRelation = NeighboringRelation.ZERO_OUT,
    rule: str = "moments",
    others: Sequence[Charge] = (),
    **settings: Any,
) -> Plan[Any]:
    """Plans a run whose fit is short."""
    terms = make_terms(epsilon=epsilon, delta=delta, relation=relation, rule=rule, others=others)
    fast = FAST_NETWORKS if "oracle" in settings else FAST.get(name, {})
    return plan_method(name, shape, terms, **{**fast, **settings})


def reserve(plan: Any, **more: Any) -> Ledger:
    """Opens a ledger with the plan's releases reserved."""
    return open_for_plan(plan, **more)


def fit(name: str, encoded: EncodedTable, plan: Any, *, ledger: Ledger, records: int = 200, seed: int = 1) -> Run:
    """Fits and samples."""
    told: list[tuple[int, int, float]] = []
    fitted = get_method(name).fit(
        encoded,
        plan,
        streams=make_streams(seed),
        ledger=ledger,
        progress=lambda *numbers: told.append(numbers),
        device="cpu",
    )
    parts = list(fitted.sample(records, rng=np.random.default_rng(seed), chunk=150))
    sampled = EncodedTable(
        codes=np.concatenate([part.codes for part in parts]),
        numbers=np.concatenate([part.numbers for part in parts]),
        spans=encoded.spans,
    )
    return Run(plan=plan, ledger=ledger, fitted=fitted, sampled=sampled, progress=told)


def run(name: str, encoded: EncodedTable, *, records: int = 200, seed: int = 1, **more: Any) -> Run:
    """Plans, reserves, fits and samples."""
    plan = make_plan(name, encoded.shape, **more)
    return fit(name, encoded, plan, ledger=reserve(plan), records=records, seed=seed)


def make_table(records: int, *, columns: Sequence[Column] = NARROW, seed: int = 1) -> EncodedTable:
    """Draws a table with columns of every kind."""
    return make_encoded(records, seed=seed, columns=columns)


def refuse_illegal(encoded: EncodedTable) -> None:
    """Fails if a cell is one that its column cannot hold."""
    available = np.ones(encoded.records, bool)
    for span in encoded.spans:
        if span.head == "linear":
            numbers = encoded.numbers[:, span.source]
            assert np.all(np.isfinite(numbers))
            assert numbers.min() >= 0
            assert numbers.max() <= 1
            assert np.all(numbers[~available] == 0)
            available = np.ones(encoded.records, bool)
        else:
            codes = encoded.codes[:, span.source]
            assert codes.min() >= 0
            assert codes.max() < span.categories
            if span.role == "available":
                available = codes == span.categories - 1
