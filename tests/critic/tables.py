"""A small table with every kind of span, and plans for it."""

import functools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from dpwgan.critic.critic import Critic
from dpwgan.critic.generators import LatentSource, MlpGenerator
from dpwgan.critic.plan import TrainingDesign, plan_training
from dpwgan.critic.settings import DpWganSettings
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.randomness import Streams
from dpwgan.privacy.steps import Steps
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.schema import CategoricalColumn, NumericColumn, Schema
from tests.ledgers import make_source, open_ledger
from tests.marginals import tables
from tests.plans import make_terms

HAS_REFERENCE = find_spec("tensorflow_privacy") is not None
needs_reference = pytest.mark.skipif(not HAS_REFERENCE, reason="tensorflow-privacy is for Python 3.10 and 3.11")

SCHEMA = Schema(
    columns=(
        CategoricalColumn(name="five", tokens=("a", "b", "c", "d", "e")),
        CategoricalColumn(name="two", tokens=("no", "yes")),
        CategoricalColumn(name="constant", tokens=("only",)),
        NumericColumn(name="number", minimum=0, maximum=10, integer=False),
        NumericColumn(name="maybe", minimum=0, maximum=9, integer=True, missing=("N",)),
        NumericColumn(name="codes", minimum=0, maximum=9, integer=True, missing=("N", "")),
        NumericColumn(name="binned", minimum=0, maximum=9, integer=False, edges=(0.0, 3.0, 6.0, 9.0)),
    ),
    sha256="0" * 64,
)


def make_encoded(records: int, *, seed: int = 0) -> EncodedTable:
    """Draws a table with every kind of span, legal in every cell."""
    return tables.make_encoded(records, seed=seed, columns=SCHEMA.columns, uniform=True)


@functools.cache
def _plan_noise(records: int, *, epsilon: float, steps: int, batch: int) -> TrainingDesign:
    return plan_training(
        make_encoded(records).shape,
        make_terms(epsilon=epsilon),
        settings=DpWganSettings(steps=steps, expected_batch_size=batch),
    ).design


def make_plan(
    encoded: EncodedTable,
    *,
    epsilon: float = 1.0,
    steps: int = 5,
    expected_batch_size: int = 20,
    noise_multiplier: float | None = None,
    **settings: Any,
) -> TrainingDesign:
    """Plans a run on the table under zero-out; `noise_multiplier` overrules what the budget asks for."""
    plan = _plan_noise(encoded.records, epsilon=epsilon, steps=steps, batch=expected_batch_size)
    chosen = {"hidden_critic": (7, 5), "hidden_generator": (6,), "latent": 4, **settings}
    return replace(
        plan,
        settings=replace(plan.settings, **chosen),
        noise_multiplier=plan.noise_multiplier if noise_multiplier is None else noise_multiplier,
    )


def make_parts(encoded: EncodedTable, plan: TrainingDesign) -> dict[str, Any]:
    """Makes a critic, its generator and latents, drawn alike each time: what every critic step takes, with the plan."""
    settings, rng = plan.settings, np.random.default_rng(3)
    return {
        "critic": Critic(encoded.spans, hidden=settings.hidden_critic, weight_clip=settings.weight_clip, rng=rng),
        "generator": MlpGenerator(encoded.spans, latent=settings.latent, hidden=settings.hidden_generator, rng=rng),
        "latents": LatentSource(latent=settings.latent, width=plan.shape.width, rng=np.random.default_rng(4)),
        "plan": plan,
    }


@contextmanager
def running_eagerly() -> Iterator[None]:
    """Has compiled steps run in Python, where what they call can be watched."""
    was = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(was)


def flat(tensors: Iterable[Any]) -> npt.NDArray[np.float64]:
    """All numbers of some arrays, one after the other."""
    return np.concatenate([np.asarray(tensor, np.float64).ravel() for tensor in tensors])


def length(tensors: Iterable[Any]) -> float:
    """How long arrays are together."""
    return float(np.linalg.norm(flat(tensors)))


class FreeSteps(Steps):
    """Steps of a test, as many as it takes, with noise for batches that it makes up."""

    def _use_noise(self, steps: int) -> None:
        """Has nothing to refuse."""


def make_steps(plan: TrainingDesign, *, seed: int | Streams = 1) -> FreeSteps:
    """Makes the token of a plan's steps, for steps that are not taken by the loop."""
    return FreeSteps(
        plan.releases[0],
        source=make_source(seed),
        charge=lambda steps: None,
        count_charged=lambda: 10**9,
        first=0,
        with_noise=False,
        observers=(),
    )


def make_ledger(plan: TrainingDesign, *, epsilon: float = 1.0, **more: Any) -> Ledger:
    """Opens a ledger with the plan's releases reserved."""
    return open_ledger(plan.releases, budget=make_terms(epsilon=epsilon).budget, **more)
