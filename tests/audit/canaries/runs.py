"""Small runs to audit: every formal method of the registry, with short fits, on a table with canaries."""

import functools
from dataclasses import replace
from typing import Any

import numpy as np

from dpwgan.app.config import SynthesisConfig
from dpwgan.app.planning import RunPlan, plan_run
from dpwgan.audit.canaries.watch import add_canaries
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.schema import Column, Schema, UnitColumn
from dpwgan.table.units.units import Units
from tests.marginals.tables import COLUMNS, make_encoded
from tests.methods.images import make_images
from tests.table.images import make_schema

KEPT: list[Column] = [column for column in COLUMNS if column.name in ("letters", "two", "places", "age", "pay", "rate")]
SCHEMA = Schema(columns=tuple(KEPT), sha256="0" * 64)

_FIT: dict[str, Any] = {"codes": 40, "fit_steps": 5}
_CRITIC: dict[str, Any] = {"steps": 40, "expected_batch_size": 40, "hidden_critic": (16, 8)}
_GENERATOR: dict[str, Any] = {"hidden_generator": (8,), "latent": 4}

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "dp-wgan, queries": ("dp-wgan", {"rounds": 2, **_FIT, **_CRITIC}),
    "dp-wgan, none": ("dp-wgan", {"anchor": "none", **_GENERATOR, **_CRITIC}),
    "dp-gan": ("dp-gan", {**_GENERATOR, **_CRITIC}),
    # A small discriminator and a small clip, so that the canary is clipped, and loud, in every step.
    "dp-gan, images": (
        "dp-gan",
        {**_GENERATOR, "critic_learning_rate": 0.01, "l2_clip_norm": 0.1, "steps": 20, "expected_batch_size": 40},
    ),
    "ron-dp-gan": ("ron-dp-gan", {"hidden_generator": (8,), **_CRITIC}),
    "query-gan": ("query-gan", {"rounds": 2, **_FIT}),
    "query-gan, one-layer": ("query-gan", {"oracle": "one-layer", "rounds": 3, "codes": 40}),
    "ron-gauss, gaussian": ("ron-gauss", {"noise": "gaussian"}),
    "ron-gauss, label": ("ron-gauss", {"noise": "gaussian", "label": "letters"}),
    "ron-gauss, images": ("ron-gauss", {"noise": "gaussian"}),
    "independent": ("independent", {"noise": "gaussian"}),
    "dp-critic, formal": (
        "dp-critic",
        {"formal": True, "steps": 6, "expected_batch_size": 200, "hidden_critic": (8,), "hidden_generator": (8,)},
    ),
    "dp-critic, formal images": ("dp-critic", {"formal": True, "steps": 6, "expected_batch_size": 200}),
}
"""Every way in which a method of the registry reads rows."""


OF_IMAGES = {"ron-gauss, images", "dp-gan, images", "dp-critic, formal images"}
SIDE = 8


def make_table(*, records: int = 400, canaries: int = 20, seed: int = 1, images: bool = False) -> EncodedTable:
    base = make_images(records, side=SIDE, seed=seed)[0] if images else make_encoded(records, seed=seed, columns=KEPT)
    return add_canaries(base, canaries=canaries, rng=np.random.default_rng(seed))


def make_units(*, rows: int) -> tuple[EncodedTable, Units]:
    """A table of units of so many rows, the last five of them canaries."""
    base, rng = make_encoded(400, seed=1, columns=KEPT), np.random.default_rng(1)
    encoded = add_canaries(base, canaries=5, rng=rng, rows=rows)
    return encoded, Units(np.arange(encoded.records, dtype=np.int32) // rows)


def make_plan(name: str, encoded: EncodedTable, *, epsilon: float = 1.0, rows: int | None = None) -> RunPlan:
    return _plan(name, encoded.records, epsilon, rows)


@functools.cache
def _plan(name: str, records: int, epsilon: float, rows: int | None) -> RunPlan:
    method, settings = METHODS[name]
    config = SynthesisConfig(
        epsilon=epsilon, delta=1e-5, method=method, settings=settings, device="cpu", accountant="moments"
    )
    schema = make_schema(SIDE, SIDE, 1) if name in OF_IMAGES else SCHEMA
    if rows is not None:
        schema = replace(schema, columns=(*schema.columns, UnitColumn(name="who", max_rows=rows)))
    return plan_run(schema, records=records, config=config)
