"""The method as a whole, on a small table: what it learns, what it charges, and that both engines run."""

from importlib import import_module

import numpy as np
import pytest

from dpwgan.critic.device import prepare_device
from dpwgan.critic.plan import TrainingDesign
from dpwgan.critic.private_step import count_units
from dpwgan.errors import UsageError
from dpwgan.methods import dp_wgan
from dpwgan.methods.dp_wgan import DpWgan
from dpwgan.methods.settings import AnchoredSettings
from dpwgan.plan import Plan
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.rows import Rows
from dpwgan.table.units.units import Units
from tests.critic.tables import make_encoded, make_ledger, make_plan, needs_reference
from tests.methods.runs import fit as fit_run
from tests.plans import make_terms


def fit(encoded: EncodedTable, training: TrainingDesign, *, epsilon: float = 1.0) -> EncodedTable:
    """Fits by a plan whose noise is a test's own business, and samples."""
    plan = Plan(design=training, shape=training.shape, choice=make_terms().choose_nothing())
    done = fit_run("dp-wgan", encoded, plan, ledger=make_ledger(training, epsilon=epsilon), records=2_000)
    assert done.ledger.itemise()[0]["charged"] == training.steps
    return done.sampled


@pytest.mark.parametrize(
    ("engine", "module", "step"),
    [
        ("fused", "private_step", "FusedStep"),
        pytest.param("reference", "reference_step", "ReferenceStep", marks=needs_reference),
    ],
)
def test_the_engine_asked_for_trains_and_samples_when_the_table_has_every_kind_of_span(
    engine, module, step, monkeypatch
):
    made: list[object] = []
    kind = getattr(import_module(f"dpwgan.critic.{module}"), step)
    begin = kind.__init__

    def watch(self: object, *args: object, **more: object) -> None:
        made.append(self)
        begin(self, *args, **more)

    monkeypatch.setattr(kind, "__init__", watch)
    encoded = make_encoded(200)
    sampled = fit(encoded, make_plan(encoded, steps=5, engine=engine))
    assert len(made) == 1
    assert sampled.codes.shape == (2_000, encoded.codes.shape[1])
    assert np.all(np.isfinite(sampled.numbers))


def test_the_reference_engine_is_refused_in_one_sentence_when_its_library_is_not_there(monkeypatch):
    monkeypatch.setattr(dp_wgan, "find_spec", lambda name: None)
    settings = AnchoredSettings.make("dp-wgan", {"anchor": "none", "engine": "reference"})
    with pytest.raises(UsageError, match=r"Python 3\.10 and 3\.11"):
        DpWgan().plan(make_plan(make_encoded(200)).shape, make_terms(), settings=settings)


@pytest.mark.slow
def test_marginals_are_learnt_when_the_table_is_lopsided():
    encoded = make_encoded(3_000)
    five = encoded.spans[0]
    codes = encoded.codes.copy()
    codes[:, five.source] = np.where(np.arange(3_000) % 10 < 8, 3, codes[:, five.source])
    lopsided = EncodedTable(codes=codes, numbers=encoded.numbers, spans=encoded.spans)
    settings = {"hidden_critic": (32,), "hidden_generator": (32,), "latent": 8, "weight_pull": 0.3}
    plan = make_plan(lopsided, steps=300, expected_batch_size=300, epsilon=20.0, **settings)
    share = float(np.mean(fit(lopsided, plan, epsilon=20.0).codes[:, five.source] == 3))
    # Of five categories, an untrained generator gives a fifth to each; the table holds 0.84.
    assert 0.7 < share < 0.95


def test_fit_refuses_when_training_ends_in_numbers_that_are_not_finite():
    encoded = make_encoded(50)
    with pytest.raises(UsageError, match="not finite"):
        fit(encoded, make_plan(encoded, steps=5, generator_learning_rate=1e30))


def test_tensor_float_32_is_off_when_a_device_is_prepared():
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(True)
    prepare_device("cpu", threads=None)
    assert not tf.config.experimental.tensor_float_32_execution_enabled()


def test_units_here_are_sampled_and_those_everywhere_divide_when_workers_have_them_between_them():
    encoded = make_encoded(5)
    units = Units(np.array([0, 2, 1, 1, 2], np.int32), elsewhere=4)
    assert dp_wgan._count_sampled(Rows(encoded, records=20, units=units)) == 3
    assert dp_wgan._count_sampled(Rows(encoded, records=20)) == 5
    plan = make_plan(make_encoded(20), expected_batch_size=10)
    assert count_units(plan, units).expected_batch_size == 3.5
