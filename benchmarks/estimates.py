"""Puts the time that a plan says beside the time that the run takes, method by method and table by table.

    python benchmarks/estimates.py FOLDER... [--method NAME...] [--planned] [--timeout S] [--json FILE] [-- FLAGS]

A FOLDER holds data-specs.json and a table: data.csv, data.csv.gz, train.csv.gz, data.parquet or data.npz. Each cell is
one run at epsilon 1 in a process of its own, after `--check` on the same table has said how long it would take.
--planned takes what was said alone. The figures are seconds said over seconds of the wall clock: one is right.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.figures import report, split_arguments, take_figure  # noqa: E402
from benchmarks.processes import CSV_TABLES, RUN, find_table, run_measured  # noqa: E402

TABLES = (*CSV_TABLES, "data.parquet", "data.npz")
METHODS: dict[str, list[str]] = {
    "dp-wgan": [],
    "dp-wgan none": ["--anchor", "none"],
    "query-gan": ["--method", "query-gan"],
    "query-gan one-layer": ["--method", "query-gan", "--oracle", "one-layer"],
    "independent": ["--method", "independent"],
    "ron-gauss": ["--method", "ron-gauss"],
    "ron-dp-gan": ["--method", "ron-dp-gan"],
    "dp-gan": ["--method", "dp-gan"],
    "dp-critic formal": ["--method", "dp-critic", "--formal"],
}


def plan(arguments: Sequence[str]) -> dict[str, Any] | None:
    """Gives what `--check` says of a run, or None where it is refused."""
    command = [*RUN, *arguments, "--check", "--log-format", "json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def compare(
    folder: Path, method: str, *, planned: bool, timeout: float, scratch: Path, flags: Sequence[str]
) -> dict[str, Any] | None:
    """Plans one run and takes its time; None where the method refuses the table. Raises: SystemExit if it fails."""
    stages = scratch / "stages.json"
    files = [str(find_table(folder, TABLES)), str(scratch / "output.csv"), str(folder / "data-specs.json")]
    arguments = [*files, "1", *METHODS[method], *flags]
    found = plan(arguments)
    if found is None:
        return None
    case = {"table": folder.name, "method": method, "said_s": found["seconds"], "records": found["records"]}
    if planned:
        return case
    command = [sys.executable, str(ROOT / "benchmarks/stages.py"), str(stages), *arguments, "--quiet"]
    try:
        run = run_measured(command, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {**case, "longer_than_s": timeout}
    if run.exit_code != 0:
        raise SystemExit(f"{method} on {folder} ended with exit code {run.exit_code}: {run.errors}")
    return {**case, "wall_s": run.wall_s, "cpu_s": run.cpu_s, "stages": json.loads(stages.read_text())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS), dest="methods")
    parser.add_argument("--planned", action="store_true", help="say what is planned, and run nothing")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds after which a run is ended")
    parser.add_argument("--json", type=Path)
    ours, flags = split_arguments(sys.argv[1:])
    asked = parser.parse_args(ours)
    cases: list[dict[str, Any]] = []
    skipped: dict[str, str] = {}
    for folder in asked.folders:
        for method in asked.methods:
            with tempfile.TemporaryDirectory() as scratch:
                case = compare(
                    folder,
                    method,
                    planned=asked.planned,
                    timeout=asked.timeout,
                    scratch=Path(scratch),
                    flags=flags,
                )
            if case is None:
                skipped[f"{method}, {folder.name}"] = "the method refuses this table"
                continue
            cases.append(case)
            print(json.dumps(case), file=sys.stderr, flush=True)
    figures = [
        take_figure(f"{case['method']}, {case['table']}", [case["said_s"] / case["wall_s"]], unit="said / taken")
        for case in cases
        if "wall_s" in case
    ]
    report(figures, asked.json, skipped=skipped, cases=cases)


if __name__ == "__main__":
    main()
