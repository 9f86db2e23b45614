"""The benchmark of reading and writing: on a tiny table every figure is there and has the form that the others have."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_every_figure_is_written_when_tables_are_tiny(tmp_path):
    target = tmp_path / "tables.json"
    subprocess.run(
        [sys.executable, str(ROOT / "benchmarks/tables.py"), "--quick", "--json", str(target)],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    figures = {figure["name"]: figure for figure in json.loads(target.read_text())["figures"]}
    assert {"csv_mixed_in_over_polars", "csv_crlf_in_over_polars", "csv_in_and_decoded_out_over_polars"} <= set(figures)
    assert {"csv_in_over_polars", "csv_out_over_polars", "counts_of_ten_times_the_rows", "peak_counts_all"} <= set(
        figures
    )
    for figure in figures.values():
        assert set(figure) == {"name", "unit", "median", "low", "high", "runs", "goal"}
        assert 0 < figure["low"] <= figure["median"] <= figure["high"]
