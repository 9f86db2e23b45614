"""The scores against their definitions, taken literally on small tables, and against the published scorer's figures."""

import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks import scores

SIZES = [2, 3, 4, 2]


def draw(seed: int, rows: int, sizes: list[int]) -> np.ndarray:
    """A table whose columns follow the first one in part, by a generator whose numbers never change."""
    rng = np.random.RandomState(seed)
    lead = rng.randint(0, max(sizes), size=rows)
    columns = [np.where(rng.rand(rows) < 0.6, lead % size, rng.randint(0, size, size=rows)) for size in sizes]
    return np.stack(columns, axis=1).astype(np.int64)


def write_folder(folder: Path, sizes: list[int], names: list[str]) -> Path:
    folder.mkdir(parents=True)
    specs = {name: {"type": "enum", "count": size} for name, size in zip(names, sizes, strict=True)}
    (folder / "data-specs.json").write_text(json.dumps(specs))
    for seed, rows, file in ((1, 400, "train.csv.gz"), (2, 200, "holdout.csv.gz")):
        with gzip.open(folder / file, "wt") as stream:
            stream.write(as_csv(draw(seed, rows, sizes), names))
    return folder


def as_csv(codes: np.ndarray, names: list[str]) -> str:
    return "\n".join([",".join(names), *(",".join(map(str, row)) for row in codes)]) + "\n"


def test_marginal_scores_are_the_same_when_cells_are_counted_over_those_that_occur(monkeypatch):
    real, synthetic = draw(3, 90, SIZES), draw(4, 70, SIZES)
    dense = scores.score_marginals(real, synthetic, SIZES)
    monkeypatch.setattr(scores, "DENSE_CELLS", 1)
    assert scores.score_marginals(real, synthetic, SIZES) == pytest.approx(dense, abs=1e-9)


def test_all_scores_equal_the_published_scorer_s_when_it_reads_the_same_files(tmp_path):
    # Printed by the scorer that the peers' figures were made with, on these very files; 16 columns, so that pairs and
    # triples are drawn.
    sizes = [2, 3, 4, 5, 6, 7, 8, 2, 3, 4, 5, 6, 7, 2, 12, 2]
    names = [f"c{place}" for place in range(15)] + ["income>50K"]
    folder = write_folder(tmp_path / "adult", sizes, names)
    (tmp_path / "synthetic.csv").write_text(as_csv(draw(9, 300, sizes), names))
    found = scores.score(folder, tmp_path / "synthetic.csv")
    assert 0.4 < found.pop("apart") < 0.6  # not of that scorer; both tables are of one law
    assert found == {
        "table": "adult",
        "rows": 300,
        "bad_rows": 0,
        "kway_1": 941.4,
        "kway_2": 870.0,
        "kway_3": 736.4,
        "hoc": 0.9126,
        "pc1_dist": 0.3213,
        "tstr_acc": 0.655,
        "tstr_auc": 0.6796,
    }


def test_score_is_read_by_column_name_when_the_synthetic_table_orders_them_otherwise(tmp_path):
    names = ["a", "b", "c", "d"]
    folder = write_folder(tmp_path / "toy", SIZES, names)
    codes = draw(9, 300, SIZES)
    (tmp_path / "one.csv").write_text(as_csv(codes, names))
    (tmp_path / "other.csv").write_text(as_csv(codes[:, ::-1], names[::-1]))
    found = scores.score(folder, tmp_path / "one.csv")
    assert found == scores.score(folder, tmp_path / "other.csv")
    assert "tstr_auc" not in found
    assert "no target for a table called toy" in found["tstr_skipped"]


@pytest.mark.parametrize("cell", ["", "x", "2", "-1", "0.5", "nan"])
def test_table_is_not_scored_when_a_cell_is_not_legal(tmp_path, cell):
    folder = write_folder(tmp_path / "toy", [2, 2], ["a", "b"])
    (tmp_path / "bad.csv").write_text(f"a,b\n0,1\n{cell},1\n1,1\n")
    assert scores.score(folder, tmp_path / "bad.csv") == {"table": "toy", "rows": 3, "bad_rows": 1}


def test_task_counts_rows_in_its_ranges_only_when_it_names_them():
    task = scores.Task("y", (2, 3), keep=(1, 3), left_out=("twin",))
    target = np.tile([0, 1, 2, 3], 50)
    useful = (target >= 2).astype(np.int64)
    codes = np.stack([useful, np.where(target == 0, 1, useful), target], axis=1)  # twin, hint, y
    found = scores.score_task(task, ["twin", "hint", "y"], codes, codes)
    assert found == {"tstr_acc": 1.0, "tstr_auc": 1.0}
    noise = codes.copy()
    noise[:, 1] = 0  # nothing is left to learn from if the twin is left out
    assert scores.score_task(task, ["twin", "hint", "y"], noise, noise)["tstr_auc"] == 0.5
    assert scores.score_task(task, ["twin", "hint", "y"], codes[target < 2], codes) == {}


def test_one_ways_keep_single_columns_exactly_and_bootstrap_draws_real_rows_when_made():
    real, rng = draw(10, 500, SIZES), np.random.default_rng(0)
    shuffled = scores.make_reference("one-ways", real, rng)
    assert np.array_equal(np.sort(shuffled, axis=0), np.sort(real, axis=0))
    assert not np.array_equal(shuffled, real)
    again = scores.make_reference("bootstrap", real, rng)
    assert len(again) == len(real)
    assert {tuple(row) for row in again} <= {tuple(row) for row in real}
    assert Counter(map(tuple, again)) != Counter(map(tuple, real))


def test_cells_are_numbered_by_the_specs_when_columns_are_of_other_kinds():
    listed, number, small = scores.read_domains(
        {
            "listed": {"type": "enum", "values": ["01", "x"], "missing": ["?"]},
            "number": {"type": "float", "min": 0, "max": 64, "optional": True},
            "small": {"type": "integer", "min": 3, "max": 5},
        }
    )
    assert [listed.code(cell) for cell in ("01", "x", "?", "1")] == [0, 1, 2, -1]
    assert [number.code(cell) for cell in ("0", "1.99", "2", "64", "", "64.1")] == [0, 0, 1, 31, 32, -1]
    assert [small.code(cell) for cell in ("3", "4", "5", "6")] == [0, 1, 2, -1]
    assert [domain.size for domain in (listed, number, small)] == [3, 33, 3]
