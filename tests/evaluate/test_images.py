"""Images through the evaluation: every score, and what keeps hundreds of pixels from taking hours."""

import itertools
import json

import numpy as np
import pytest

from dpwgan.evaluate import classifiers, cli, dependence, marginals
from dpwgan.evaluate.tables import ComparedColumn, ComparedTable
from tests.table.images import draw_images, make_specs


@pytest.mark.slow
def test_every_score_is_given_when_tables_are_images(tmp_path, monkeypatch):
    monkeypatch.setattr(classifiers, "CLASSIFIERS", ("naive_bayes",))
    (tmp_path / "specs.json").write_text(json.dumps(make_specs(6, 6, 1)))
    for seed, name in enumerate(("real", "made", "holdout")):
        images, labels = draw_images(200, 6, 6, seed=seed)
        np.savez(tmp_path / f"{name}.npz", images=images, labels=labels)
    paths = {
        name: str(tmp_path / name) for name in ("real.npz", "made.npz", "holdout.npz", "specs.json", "scores.json")
    }
    files = [paths["real.npz"], paths["made.npz"], paths["specs.json"]]
    assert cli.main([*files, "--holdout", paths["holdout.npz"], "--json", paths["scores.json"], "--quiet"]) == 0
    document = json.loads((tmp_path / "scores.json").read_text())
    assert document["tables"]["real"] == {"file": "real.npz", "rows": 200, "columns": 37}
    scores = document["scores"]["synthetic"]
    assert {trial["target"] for trial in scores["classifiers"]} == {"y"}
    assert scores["classifier_auc"] > 0.99  # which row is bright says what the label is
    assert document["scores"]["floor"]["classifier_auc"] < 0.7
    assert 0 <= scores["pc1_distance"] < 1.5


@pytest.mark.parametrize("columns", [300, 785])
def test_sets_are_all_different_when_there_are_too_many_to_list(columns):
    sets = marginals.draw_column_sets(columns)
    for k in (1, 2, 3):
        assert len(set(sets[k])) == len(sets[k]) == marginals.SETS
        assert all(len(set(chosen)) == k and sorted(chosen) == list(chosen) for chosen in sets[k])
        assert all(0 <= column < columns for chosen in sets[k] for column in chosen)
    assert sets == marginals.draw_column_sets(columns)


def test_correlations_are_those_of_single_pairs_when_taken_in_one_product():
    rng = np.random.default_rng(1)
    numbers = rng.standard_normal((400, 6)) @ rng.standard_normal((6, 6))
    numbers[:, 2] = 0.1  # constant
    numbers[::7, 4] = np.nan  # missing now and then
    columns = tuple(ComparedColumn(name=str(i), kind="number", labels=("a", "b")) for i in range(6))
    table = ComparedTable(columns=columns, cells=np.zeros((400, 6), np.int32), numbers=numbers)
    found = dependence.measure_dependence(table, rng)
    for first, second in itertools.combinations(range(6), 2):
        expected = dependence.measure_pearson(numbers[:, first], numbers[:, second])
        assert found[first, second] == pytest.approx(expected, abs=1e-12)
        assert found[second, first] == found[first, second]
    np.testing.assert_array_equal(np.diag(found), 1.0)
    few = dependence.measure_dependence(table.take(np.arange(1)), rng)
    np.testing.assert_array_equal(few, np.eye(6))
