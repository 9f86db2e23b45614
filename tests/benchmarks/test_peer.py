"""The runner of other tools: what they are given, and what is written of what they give back."""

import json
import sys
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from benchmarks import mbi_mechanisms, peer


@pytest.mark.parametrize(
    ("rule", "cells", "codes", "size"),
    [
        ({"type": "enum", "values": ["b", "a"], "missing": ["?"]}, ["a", "?", "b"], [1, 2, 0], 3),
        ({"type": "enum", "count": 3}, ["2", "0", "1"], [2, 0, 1], 3),
        ({"type": "integer", "min": 0, "max": 100}, ["0", "100", "52"], [0, 19, 10], 20),
        ({"type": "integer", "min": 1, "max": 9, "missing": [0, 99]}, ["0", "99", "1"], [20, 21, 0], 22),
        ({"type": "integer", "min": 1, "max": 9, "missing": ["N"]}, ["N", "1"], [20, 0], 21),
    ],
)
def test_cells_are_coded_by_the_specs_alone_when_a_column_is_read(rule, cells, codes, size):
    found, most = peer.code_column(pd.Series(cells), rule)
    assert (list(found), most) == (codes, size)
    again, _ = peer.code_column(pd.Series(peer.write_cells(found, rule)).astype(str), rule)
    assert list(again) == codes


def test_tool_is_given_codes_and_sizes_when_it_runs(monkeypatch, tmp_path):
    given: dict[str, Any] = {}

    def run(table: pd.DataFrame, sizes: dict[str, int], **more: Any) -> pd.DataFrame:
        given.update(more, sizes=sizes)
        return table

    (tmp_path / "specs.json").write_text(
        json.dumps({"a": {"type": "enum", "values": [5, 7]}, "b": {"derived": {"from": "a", "floordiv": 5}}})
    )
    (tmp_path / "data.csv").write_text("a,b\n7,1\n5,1\n7,1\n")
    monkeypatch.setitem(peer.RUNNERS, "dpmm", run)
    files = [str(tmp_path / name) for name in ("data.csv", "out.csv", "specs.json")]
    monkeypatch.setattr(sys, "argv", ["peer.py", "dpmm-mst", *files, "0.5"])
    peer.main()
    assert given == {"kind": "mst", "ways": 2, "epsilon": 0.5, "delta": pytest.approx(1 / 9), "sizes": {"a": 2}}
    assert list(pd.read_csv(tmp_path / "out.csv")["a"]) == [7, 5, 7]


@pytest.mark.parametrize(("kind", "more"), [("mst", ()), ("aim", (3, peer.MODEL_MB))])
def test_loop_on_mbi_gets_the_table_and_its_rho_when_it_runs(monkeypatch, kind, more):
    given: list[Any] = []
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(config=SimpleNamespace(update=lambda *_: None)))
    monkeypatch.setitem(sys.modules, "mbi_mechanisms", mbi_mechanisms)
    monkeypatch.setattr(mbi_mechanisms, f"run_{kind}", lambda *asked: given.extend(asked) or asked[0].table)
    table = pd.DataFrame({"a": [1, 0]})
    made = peer.RUNNERS["mbi"](table, {"a": 2}, kind=kind, epsilon=1.0, delta=1e-6, ways=3)
    assert made is table
    assert (given[0].sizes, given[0].rho) == ({"a": 2}, mbi_mechanisms.find_rho(1.0, 1e-6))
    assert tuple(given[1:]) == more
