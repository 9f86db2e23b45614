"""Smaller tables cut out of a larger one, and the made-up table of a parity."""

import json

import numpy as np
import pandas as pd
import pytest

from benchmarks import scores, slices, xor


@pytest.fixture
def adult(tmp_path):
    rng = np.random.default_rng(0)
    names = ["age", *(f"c{place}" for place in range(9)), "income>50K"]
    table = pd.DataFrame(rng.integers(4, size=(2_100, len(names))), columns=names)
    specs = {name: {"type": "enum", "count": 4} for name in names}
    slices.write(tmp_path / "adult", specs, dict.fromkeys(slices.FILES, table))
    return tmp_path / "adult"


def test_slices_keep_layout_and_target_when_a_table_is_cut(adult, tmp_path):
    slices.cut_table(adult, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "adult.2000",
        "adult.8-columns",
        "adult.flags",
    ]
    assert len(pd.read_csv(tmp_path / "out" / "adult.2000" / "train.csv.gz")) == 2_000
    few = json.loads((tmp_path / "out" / "adult.8-columns" / "data-specs.json").read_text())
    assert len(few) == 8
    assert "income>50K" in few
    assert scores.score(tmp_path / "out" / "adult.8-columns", reference="bootstrap")["tstr_auc"] > 0
    flags = scores.score(tmp_path / "out" / "adult.flags", reference="one-ways")
    assert flags["kway_1"] == 1000
    assert flags["bad_rows"] == 0


def test_flags_cut_each_column_evenly_before_any_twice_when_chosen():
    train = pd.DataFrame({"a": list("0123") * 4, "b": list("0011") * 4}, dtype=str)
    assert slices.choose_flags(train) == [("a", 2), ("b", 1), ("a", 1), ("a", 3)]


@pytest.mark.parametrize("ways", [3, 7])
def test_parity_is_in_all_rows_and_in_no_smaller_marginal_when_its_table_is_made(tmp_path, ways):
    xor.make_table(tmp_path, np.random.default_rng(0), ways=ways, rows=2_000)
    assert xor.share_found(tmp_path / "train.csv.gz") == 1
    bits = pd.read_csv(tmp_path / "train.csv.gz").filter(regex="^x").sort_index(axis=1).to_numpy()
    assert bits.shape == (2_000, ways)
    smaller = bits[:, 1:].sum(axis=1) % 2
    assert abs(smaller.mean() - 0.5) < 5 * 0.5 / 2_000**0.5
