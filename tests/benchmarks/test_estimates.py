"""The benchmark that compares what a plan says with what the run takes."""

from pathlib import Path

import pytest

from benchmarks import estimates
from tests.evaluate.samples import draw_rows, write_rows, write_specs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_rows(tmp_path / "data.csv", draw_rows(1, rows=40))
    write_specs(tmp_path / "data-specs.json")
    return tmp_path


@pytest.mark.slow
def test_time_said_lies_beside_time_taken_when_a_run_is_compared(folder, tmp_path):
    case = estimates.compare(folder, "independent", planned=False, timeout=60.0, scratch=tmp_path, flags=[])
    assert case is not None
    assert (case["table"], case["method"], case["records"]) == (folder.name, "independent", 40)
    assert min(case["said_s"], case["wall_s"], case["cpu_s"]) > 0
    assert "fit" in case["stages"]


def test_nothing_is_compared_when_a_method_refuses_the_table(folder, tmp_path):
    asked = {"planned": True, "timeout": 60.0, "scratch": tmp_path, "flags": ["--codes", "8"]}
    assert estimates.compare(folder, "independent", **asked) is None
    with pytest.raises(FileNotFoundError, match="holds no data"):
        estimates.compare(tmp_path / "empty", "independent", **asked)
