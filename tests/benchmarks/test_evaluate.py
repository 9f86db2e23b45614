"""The measurement of time and memory: it runs the command as users do, and says what it measured."""

import json

import pytest

from benchmarks import evaluate
from tests.evaluate.samples import draw_rows, write_rows, write_specs


@pytest.mark.slow
def test_measurement_gives_time_and_memory_when_a_folder_holds_a_table(tmp_path):
    folder, work = tmp_path / "table", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    write_specs(folder / "data-specs.json")
    write_rows(folder / "data.csv", draw_rows(1, rows=80))
    ((name, real, synthetic, specs),) = evaluate.prepare([folder], 0, work)
    measured = evaluate.measure(real, synthetic, specs, work=work)
    assert name == "table"
    assert (measured["rows"], measured["columns"]) == (80, 7)
    assert all(measured[key] > 0 for key in ("wall_s", "cpu_s", "peak_gb", "report_mb"))
    json.dumps(measured)
