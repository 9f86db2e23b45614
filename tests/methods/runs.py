"""A whole run of a method on a small table: plan, reserve, fit, sample."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwgan.methods.base import FittedSynthesizer
from dpwgan.methods.registry import get_method
from dpwgan.plan import Plan
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import Charge, Unprotected
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.unit import ONE_ROW, Unit
from dpwgan.table.encoded import EncodedTable, TableShape, join
from dpwgan.table.schema import Column
from tests.ledgers import open_for_plan
from tests.marginals.tables import NARROW, make_encoded
from tests.plans import make_terms, plan_method
from tests.rows import make_run

_FIT: dict[str, Any] = {"codes": 30, "fit_steps": 8}
_STEPS: dict[str, Any] = {"steps": 4, "expected_batch_size": 8, "hidden_generator": (8,), "hidden_critic": (6,)}
_PUBLISHED: dict[str, Any] = {"private_part": "generator", "steps": 2, "hidden_generator": (8,), "hidden_critic": (6,)}
_ANCHORED: dict[str, Any] = {**_FIT, "steps": 4, "expected_batch_size": 20, "hidden_critic": (8,)}

# What makes the fit of a method short, where other settings do not say otherwise.
FAST: dict[str, dict[str, Any]] = {"query-gan": {"rounds": 2, "codes": 40, "fit_steps": 8}}
FAST_NETWORKS: dict[str, Any] = {"rounds": 2, "codes": 40}

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "dp-wgan, queries": ("dp-wgan", {"rounds": 1, **_ANCHORED}),
    "dp-wgan, none": ("dp-wgan", {"anchor": "none", "latent": 4, **_STEPS}),
    "query-gan, codes": ("query-gan", {}),
    "query-gan, one-layer": ("query-gan", {"oracle": "one-layer"}),
    "independent": ("independent", {}),
    "ron-gauss, laplace": ("ron-gauss", {}),
    "ron-gauss, gaussian": ("ron-gauss", {"noise": "gaussian"}),
    "dp-gan": ("dp-gan", {"latent": 4, **_STEPS}),
    "dp-gan, published": ("dp-gan", _PUBLISHED),
    "ron-dp-gan": ("ron-dp-gan", _STEPS),
    "ron-dp-gan, published": ("ron-dp-gan", _PUBLISHED),
    "dp-critic, formal": ("dp-critic", {"formal": True, "latent": 4, **_STEPS}),
    "dp-critic, published": ("dp-critic", {"critic_steps_per_generator_step": 1, "latent": 4, **_STEPS}),
    "loss-noise-gan": ("loss-noise-gan", {"critic_steps_per_generator_step": 1, "latent": 4, **_STEPS}),
}
"""Every way in which a method of the registry makes rows, and settings with which it takes a moment."""

OF_IMAGES = {"independent", "ron-gauss", "dp-gan", "ron-dp-gan", "dp-critic", "loss-noise-gan"}
"""Methods that do with a table of images what is their own."""


def make_variant(variant: str, shape: TableShape, **more: Any) -> Any:
    """Plans a run of a variant; images take some networks of their own size."""
    name, settings = VARIANTS[variant]
    if shape.image is not None:
        settings = {key: value for key, value in settings.items() if not key.startswith("hidden_c")}
        if name in ("dp-critic", "loss-noise-gan"):
            settings = {key: value for key, value in settings.items() if not key.startswith("hidden_")}
    return make_plan(name, shape, **settings, **more)


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
    unit: Unit = ONE_ROW,
    **settings: Any,
) -> Plan[Any]:
    """Plans a run whose fit is short."""
    terms = make_terms(epsilon=epsilon, delta=delta, relation=relation, rule=rule, others=others, unit=unit)
    fast = FAST_NETWORKS if "oracle" in settings else FAST.get(name, {})
    return plan_method(name, shape, terms, **{**fast, **settings})


def reserve(plan: Any, **more: Any) -> Ledger:
    """Opens a ledger with the plan's releases reserved, for no guarantee where there can be none."""
    unprotected = any(isinstance(release.event, Unprotected) for release in plan.releases)
    return open_for_plan(plan, **{"no_guarantee": unprotected, **more})


def fit(name: str, encoded: EncodedTable, plan: Any, *, ledger: Ledger, records: int = 200, seed: int = 1) -> Run:
    """Fits and samples."""
    told: list[tuple[int, int, float]] = []
    fitted = get_method(name).fit(
        plan, make_run(encoded, ledger=ledger, seed=seed, progress=lambda *numbers: told.append(numbers))
    )
    sampled = join(list(fitted.sample(records, rng=np.random.default_rng(seed))))
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
            assert 0 <= numbers.min() <= numbers.max() <= 1
            assert np.all(numbers[~available] == 0)
            available = np.ones(encoded.records, bool)
        else:
            codes = encoded.codes[:, span.source]
            assert 0 <= codes.min() <= codes.max() < span.categories
            if span.role == "available":
                available = codes == span.categories - 1
