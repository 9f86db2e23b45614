"""Mean embeddings from plan to images: what is charged, what is refused, and what comes out."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.app.saved_model import load_synthesizer
from dpwgan.errors import InputError, PrivacyError, UsageError
from dpwgan.images.factor_images import FACTORS_FILE, FactorImages
from dpwgan.methods import mean_embedding
from dpwgan.methods.mean_embedding import EMBEDDING_LABEL, choose_number
from dpwgan.methods.registry import get_method
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.table.arrays import make_table
from dpwgan.table.encoded import EncodedTable, TableShape, lay_out_spans
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.schema import Schema
from tests.methods import runs
from tests.methods.privacy_totals import gaussian_delta, total_rho
from tests.methods.runs import Run, make_plan, refuse_illegal, reserve
from tests.table.images import draw_images, get_layout, make_schema

ZERO_OUT, REPLACE_ONE = NeighboringRelation.ZERO_OUT, NeighboringRelation.REPLACE_ONE
TWO: dict[str, Any] = {"type": "enum", "count": 2}


def make_shape(schema: Schema, records: int = 300) -> TableShape:
    return TableShape(records=records, spans=lay_out_spans(schema), image=schema.layout)


def encode(schema: Schema, images: npt.NDArray[np.uint8], labels: npt.NDArray[Any]) -> EncodedTable:
    spans = lay_out_spans(schema)
    layout = get_layout(schema)
    places = {span.column: span.source for span in spans}
    numbers = np.empty((len(images), len(layout.pixels)), np.float32)
    numbers[:, [places[name] for name in layout.pixels]] = images.reshape(len(images), -1) / 255
    return EncodedTable(codes=labels.astype(np.int32)[:, np.newaxis], numbers=numbers, spans=spans)


def run(*shape: int, records: int = 300, seed: int = 1, **more: Any) -> Run:
    schema = make_schema(*shape)
    images, labels = draw_images(records, *shape)
    plan = make_plan("mean-embedding", make_shape(schema, records), **more)
    return runs.fit("mean-embedding", encode(schema, images, labels), plan, ledger=reserve(plan), seed=seed)


def test_encoding_of_these_tests_is_the_products_when_images_are_read() -> None:
    schema = make_schema(5, 4, 3)
    images, labels = draw_images(20, 5, 4, 3)
    table = make_table(images, labels, get_layout(schema), schema, name="the table")
    encoder = TableEncoder(schema, table.header)
    mine = encode(schema, images, labels)
    theirs = encoder.encode(next(table.frames()))
    np.testing.assert_allclose(mine.numbers, theirs.numbers, atol=1e-6)
    np.testing.assert_array_equal(mine.codes, theirs.codes)


@pytest.mark.parametrize("shape", [(6, 6, 1), (5, 9, 1), (6, 4, 3), (1, 1, 1)])
@pytest.mark.parametrize(("records", "epsilon"), [(300, 1.0), (1, 0.01), (2, 50.0)])
def test_sampled_cells_are_legal_when_images_are_of_any_shape(
    shape: tuple[int, ...], records: int, epsilon: float
) -> None:
    done = run(*shape, records=records, epsilon=epsilon)
    refuse_illegal(done.sampled)
    assert done.sampled.records == 200
    (line,) = done.ledger.itemise()
    assert line["label"] == EMBEDDING_LABEL
    assert line["charged"] == line["reserved"] == 1
    assert [numbers[:2] for numbers in done.progress] == [(1, 2), (2, 2)]


@pytest.mark.parametrize("relation", [ZERO_OUT, REPLACE_ONE])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 10.0])
def test_noise_is_the_least_of_one_gaussian_when_planned(relation: NeighboringRelation, epsilon: float) -> None:
    plan = make_plan("mean-embedding", make_shape(make_schema(6, 6, 1)), epsilon=epsilon, relation=relation, rule="pld")
    rho = total_rho([(event, count) for _, event, count, _ in plan.charges], relation=relation)
    # Of one Gaussian the exact delta is known (Balle and Wang 2018).
    assert gaussian_delta(epsilon, rho=rho) <= 1e-5
    assert gaussian_delta(epsilon, rho=rho * 1.01) > 1e-5
    ((_, event, count, _),) = plan.charges
    assert count == 1
    assert event.replace_one_factor == math.sqrt(2)
    assert reserve(plan).guarantee().delta == 1e-5


def test_noise_is_of_the_planned_scale_when_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    real = mean_embedding.measure_embedding
    monkeypatch.setattr(
        mean_embedding,
        "measure_embedding",
        lambda *a, noise_multiplier, **k: (
            told.append(noise_multiplier) or real(*a, noise_multiplier=noise_multiplier, **k)
        ),
    )
    done = run(6, 6, 1)
    assert told == [done.plan.release.noise_multiplier]


def test_no_row_is_read_when_the_ledger_refuses() -> None:
    schema = make_schema(6, 6, 1)
    plan = make_plan("mean-embedding", make_shape(schema))
    ledger = reserve(plan)
    ledger.charge(EMBEDDING_LABEL)
    with pytest.raises(PrivacyError, match="1 of 1"):
        runs.fit("mean-embedding", encode(schema, *draw_images(300, 6, 6)), plan, ledger=ledger)


@pytest.mark.parametrize("shape", [(6, 6, 1), (6, 6, 3)])
def test_classes_and_colours_come_back_when_the_budget_is_large(shape: tuple[int, ...]) -> None:
    done = run(*shape, records=3_000, epsilon=200.0, coefficients=36 * shape[2], fit_steps=20)
    schema = make_schema(*shape)
    images, labels = draw_images(3_000, *shape)
    real = encode(schema, images, labels)
    for label in range(3):
        mine = done.sampled.numbers[done.sampled.codes[:, 0] == label]
        truth = real.numbers[real.codes[:, 0] == label]
        assert np.abs(mine.mean(axis=0) - truth.mean(axis=0)).mean() < 0.05
        assert mine.std(axis=0).mean() == pytest.approx(truth.std(axis=0).mean(), rel=0.3)
    shares = np.bincount(done.sampled.codes[:, 0], minlength=3) / 200
    np.testing.assert_allclose(shares, np.bincount(labels, minlength=3) / 3_000, atol=0.12)


def test_images_are_the_same_when_the_seed_is_and_others_when_it_is_not() -> None:
    one, other, third = (run(6, 6, 1, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.sampled.numbers, other.sampled.numbers)
    assert not np.array_equal(one.sampled.numbers, third.sampled.numbers)


def test_two_classes_are_drawn_when_the_label_has_two() -> None:
    schema = make_schema(4, 4, 1, label=TWO)
    images, labels = draw_images(300, 4, 4)
    plan = make_plan("mean-embedding", make_shape(schema))
    done = runs.fit("mean-embedding", encode(schema, images, labels % 2), plan, ledger=reserve(plan))
    refuse_illegal(done.sampled)
    assert set(done.sampled.codes[:, 0].tolist()) == {0, 1}


def test_saved_generator_draws_the_same_images_when_read_back(tmp_path: Path) -> None:
    fitted = run(6, 6, 1).fitted
    fitted.save(tmp_path)
    read = load_synthesizer(tmp_path)
    assert isinstance(read, FactorImages)
    assert read.certificate is None
    one, other = (next(model.sample(50, rng=np.random.default_rng(3))) for model in (fitted, read))
    np.testing.assert_array_equal(one.numbers, other.numbers)
    np.testing.assert_array_equal(one.codes, other.codes)


@pytest.mark.parametrize("damage", ["cut", "nan", "absent"])
def test_saved_generator_is_refused_when_damaged(tmp_path: Path, damage: str) -> None:
    run(6, 6, 1).fitted.save(tmp_path)
    path = tmp_path / FACTORS_FILE
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:100])
    elif damage == "nan":
        with np.load(path) as archive:
            arrays = dict(archive)
        np.savez(path, **{**arrays, "centers": arrays["centers"] * np.nan})
    else:
        (tmp_path / "image_factors.json").unlink()
    with pytest.raises(InputError, match="damaged"):
        load_synthesizer(tmp_path)


def refuse(shape: TableShape, words: str, **settings: Any) -> None:
    with pytest.raises(UsageError, match=words):
        make_plan("mean-embedding", shape, **settings)


def test_table_is_refused_when_it_holds_no_images_or_more_than_images() -> None:
    shape = make_shape(make_schema(4, 4, 1))
    refuse(replace(shape, image=None), "the specs have no 'layout' that says which columns are pixels")
    more = make_schema(4, 4, 1, age={"type": "integer", "min": 0, "max": 9})
    refuse(make_shape(more), "pixels and their label alone, and the specs have the column age besides")
    many = make_schema(2, 2, 1, label={"type": "enum", "count": 129})
    refuse(make_shape(many), "the label y has 129 classes, and mean-embedding takes 128 at most")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"coefficients": 0}, "coefficients must be a whole number from 1 to 1,024"),
        ({"coefficients": 1_025}, "coefficients"),
        ({"fit_steps": 0}, "fit-steps must be at least 1"),
        ({"noise": "laplace"}, "has no setting noise"),
    ],
)
def test_setting_is_refused_when_it_is_out_of_range_or_unknown(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        get_method("mean-embedding").make_settings(**settings)


def test_more_coefficients_are_embedded_when_there_is_less_noise() -> None:
    numbers = [choose_number(8_000, noise_multiplier=sigma) for sigma in (400.0, 40.0, 4.0, 0.4)]
    assert numbers == sorted(numbers)
    assert numbers[0] < numbers[-1]
    assert choose_number(1, noise_multiplier=1e6) >= 1


def test_plan_says_what_it_costs_when_asked() -> None:
    plan = make_plan("mean-embedding", make_shape(make_schema(28, 28, 1), 8_000), coefficients=100, fit_steps=200)
    assert plan.memory_bytes < 2 * 2**30
    assert 0 < plan.seconds < 240
    assert set(plan.summary()) == {"coefficients", "fit_steps"}
