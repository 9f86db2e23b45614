"""Learning from a table: known ends of the scale, and what cannot be learnt."""

import dataclasses

import numpy as np
import pytest

from dpwgan.evaluate import classifiers
from dpwgan.evaluate.scores import make_floor
from tests.evaluate.samples import draw_categorical, make_categorical

SIZES = [3, 3, 3, 12]
RNG = np.random.default_rng


@pytest.mark.parametrize("name", classifiers.CLASSIFIERS)
def test_classifier_is_never_wrong_when_the_target_is_another_column(name):
    rng = RNG(0)
    target = rng.integers(0, 3, size=800)
    cells = np.column_stack([target, (target + 1) % 3, rng.integers(0, 4, size=800)]).astype(np.int32)
    assert classifiers.measure_auc(name, cells[:400], cells[400:], 0, [3, 3, 4]) == pytest.approx(1.0)


@pytest.mark.parametrize("name", classifiers.CLASSIFIERS)
def test_classifier_guesses_when_the_target_is_noise(name):
    # 0.5 give or take 0.1: five standard errors of an AUC on 2,000 rows are 0.065, a false alarm below 1e-6.
    cells = RNG(0).integers(0, 2, size=(6_000, 3)).astype(np.int32)
    assert classifiers.measure_auc(name, cells[:4000], cells[4000:], 0, [2, 2, 2]) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("name", classifiers.CLASSIFIERS)
def test_classifier_scores_half_when_there_is_one_class_to_learn(name):
    cells = RNG(0).integers(0, 2, size=(40, 3)).astype(np.int32)
    flat = cells.copy()
    flat[:, 0] = 1
    assert classifiers.measure_auc(name, flat, cells, 0, [2, 2, 2]) == 0.5


@pytest.mark.parametrize("name", classifiers.CLASSIFIERS)
def test_classifier_scores_a_class_it_never_saw_when_the_test_rows_have_it(name):
    cells = RNG(0).integers(0, 3, size=(300, 3)).astype(np.int32)
    seen = cells[:200][cells[:200, 0] < 2]
    assert 0.0 <= classifiers.measure_auc(name, seen, cells[200:], 0, [3, 3, 3]) <= 1.0


def test_targets_are_the_columns_of_few_cells_when_they_vary():
    table = draw_categorical(1, rows=500, sizes=[*SIZES, 2])
    cells = table.cells.copy()
    cells[:, 4] = 1
    trial = classifiers.prepare_trial(dataclasses.replace(table, cells=cells), None, RNG(0))
    assert set(trial.real_auc) == {(target, name) for target in (0, 1, 2) for name in classifiers.CLASSIFIERS}


def test_few_of_many_columns_are_targets_and_none_of_few_rows(monkeypatch):
    monkeypatch.setattr(classifiers, "TARGETS", 2)
    table = draw_categorical(1, rows=100, sizes=[3, 3, 3, 3])
    trial = classifiers.prepare_trial(table, None, RNG(0))
    targets = list(dict.fromkeys(target for target, _ in trial.real_auc))
    assert len(targets) == 2
    assert targets == sorted(targets)
    assert not classifiers.prepare_trial(table.take(np.arange(99)), None, RNG(0)).real_auc


def test_trial_tests_on_rows_it_does_not_train_on_when_there_is_no_holdout():
    table = make_categorical(np.column_stack([np.arange(100) % 2, np.arange(100)]), [2, 100])
    trial = classifiers.prepare_trial(table, None, RNG(0))
    assert len(trial.test) == 20
    assert not set(trial.test[:, 1]) & set(trial.train[:, 1])
    holdout = make_categorical(np.column_stack([np.arange(30) % 2, np.arange(30)]), [2, 100])
    trial = classifiers.prepare_trial(table, holdout, RNG(0))
    assert (len(trial.train), len(trial.test)) == (100, 30)


@pytest.mark.slow
def test_classifiers_learn_less_when_the_table_is_the_floor():
    real = draw_categorical(1, rows=3_000, sizes=SIZES)
    trial = classifiers.prepare_trial(real, None, RNG(0))
    floor = classifiers.score_classifiers(make_floor(real, rows=3_000, rng=RNG(1)), trial, RNG(2))
    ceiling = classifiers.score_classifiers(real, trial, RNG(2), is_ceiling=True)
    assert [row["target"] for row in floor] == [name for name in ("c0", "c1", "c2") for _ in classifiers.CLASSIFIERS]
    for low, high in zip(floor, ceiling, strict=True):
        assert low["auc_real"] == high["auc_real"] == high["auc"]
        assert low["auc"] < high["auc"]
