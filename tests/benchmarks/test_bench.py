"""Figures of speed: their form, how two files are compared, and that every part runs and stores what it found."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import bench, figures, growth, job, parts, processes
from benchmarks.figures import Figure, read_figures, take_figure, take_ratios
from tests.evaluate.samples import draw_rows, write_rows, write_specs


def make(name: str = "a", values: tuple[float, ...] = (1.0, 2.0, 3.0), **more: Any) -> Figure:
    return take_figure(name, values, unit="s", **more)


@pytest.mark.parametrize(
    ("goal", "met"), [("<= 2", True), ("<= 1.9", False), (">= 2", True), (">= 2.1", False), (None, None)]
)
def test_a_figure_says_whether_its_median_meets_the_goal_when_it_has_one(goal, met):
    assert make(goal=goal).met is met
    assert ("**no**" in figures.describe(make(goal=goal))) is (met is False)


def test_ratios_are_taken_round_by_round_when_both_slow_down_together():
    figure = take_ratios("r", [2.0, 20.0, 4.0], [1.0, 10.0, 2.0])
    assert (figure.low, figure.median, figure.high, figure.runs) == (2.0, 2.0, 2.0, 3)


@pytest.mark.parametrize(
    ("other", "differs"),
    [((2.5, 3.0, 4.0), False), ((3.5, 4.0, 5.0), True), ((0.1, 0.2, 0.3), True), ((3.1,), False), ((3.3,), True)],
)
def test_figures_differ_when_their_spreads_do_not_meet(other, differs):
    assert figures.differ(make(), make(values=other)) is differs
    assert figures.differ(make(values=other), make()) is differs


def test_a_measured_command_gives_its_exit_code_and_what_it_said_when_it_fails():
    run = processes.run_measured([sys.executable, "-c", "import sys; sys.stderr.write('no'); sys.exit(3)"])
    assert (run.exit_code, run.errors) == (3, "no")
    assert min(run.wall_s, run.cpu_s, run.peak_mb) > 0


SMALL = ["--method", "independent"]


def write_small(folder: Path, *, rows: int, **_: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / "data.csv", draw_rows(1, rows=rows))
    write_specs(folder / "data-specs.json")


@pytest.mark.slow
def test_growth_is_measured_when_tables_are_tiny(tmp_path, monkeypatch):
    monkeypatch.setattr(growth, "write_population", write_small)
    found = growth.measure([40, 80], [2], scratch=tmp_path, flags=SMALL)
    assert [case["rows"] for case in found["rows"]] == [40, 80]
    assert found["columns"][0]["columns"] >= 2
    assert set(found["rows"][0]["stages"]) == {"read", "plan", "encode", "fit", "write", "draw", "rest"}
    assert found["rows"][0]["stages"]["draw"]["cpu_s"] > 0


@pytest.mark.slow
def test_job_is_measured_and_a_peer_that_is_not_there_is_named_when_tables_are_tiny(tmp_path, monkeypatch):
    monkeypatch.setattr(job, "write_population", write_small)
    peers = f"gone=/no/such/peer {{data}}; fails={sys.executable} -c 'raise SystemExit(4)'; runs={sys.executable} -c 1"
    runs = job.measure(300, out_rows=600, scratch=tmp_path, flags=SMALL, peers=peers)
    assert set(runs["skipped"]) == {"gone", "fails"}
    assert [figure.name for figure in runs["peers"]] == ["whole job, runs", "whole job, runs, peak memory"]
    made = job.make_figures(runs["whole"], runs["tenth"], runs["out"], rows=300)
    assert sum(figure.goal is not None for figure in made) == 5


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_in_parts_is_measured_when_it_is_tiny(tmp_path, form):
    parts.write_parts(tmp_path, rows=250, part=100, form=form)
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [f"part-0000{n}.{form}" for n in range(3)]
    with parts.DiskWatch(tmp_path) as disk:
        run = growth.run_staged(tmp_path, SMALL, data="data", output=f"out.{form}")
    assert set(run["stages"]) > {"read", "encode", "fit", "write"}
    assert disk.most >= 0


PART = """
import json, sys
target = sys.argv[sys.argv.index("--json") + 1]
name = "quick" if "--quick" in sys.argv else "slow"
figure = {"name": name, "unit": "s", "median": 1, "low": 1, "high": 1, "runs": 1}
open(target, "w").write(json.dumps({"figures": [figure], "skipped": {"rival": "not there"}}))
"""


def test_all_parts_are_put_into_one_file_when_one_fails_and_one_is_not_there(tmp_path, monkeypatch):
    (tmp_path / "steps.py").write_text(PART)
    (tmp_path / "growth.py").write_text("raise SystemExit(3)")
    monkeypatch.setattr(bench, "HERE", tmp_path)
    target = tmp_path / "all.json"
    parts = ["--only", "steps", "growth", "tables"]
    monkeypatch.setattr(sys, "argv", ["bench.py", "--output", str(target), "--quick", *parts])
    assert bench.main() == 1
    document = json.loads(target.read_text())
    assert [figure.name for figure in read_figures(document)] == ["quick"]
    assert document["skipped"] == {
        "steps: rival": "not there",
        "growth": "ended with exit code 3",
        "tables": "there is no such script",
    }
