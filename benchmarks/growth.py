"""Measures how the time of a whole run grows with rows and with columns, on stand-ins for the 1940 census.

    python benchmarks/growth.py [--rows N...] [--columns D...] [--quick] [--json FILE] [-- FLAGS OF run.py]

Each run is the default method at epsilon 1 in a process of its own. An exponent is the slope of the logarithm of CPU
seconds over the logarithm of rows (all 98 columns), or of columns (the middle one of the numbers of rows); of `read`
and `encode` it is taken alone as well, which are what every row passes through. Columns are the first ones of the
table, with those that derived ones among them are derived from.
"""

import argparse
import itertools
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import polars as pl  # noqa: E402

from benchmarks.census1940 import SPECS, write_population  # noqa: E402
from benchmarks.figures import Figure, report, split_arguments, take_figure  # noqa: E402
from benchmarks.processes import run_measured  # noqa: E402

ROWS = (10_000, 100_000, 1_000_000)
COLUMNS = (10, 30, 98)
QUICK_ROWS, QUICK_COLUMNS = (1_000, 3_000), (5, 10)
QUICK_FLAGS = ["--rounds", "3", "--fit-steps", "20", "--steps", "10"]
"""Ask for next to nothing: what is left is to see that everything runs."""


def cut_columns(folder: Path, target: Path, *, columns: int) -> None:
    specs = json.loads((folder / "data-specs.json").read_text())
    header = pl.scan_csv(folder / "data.csv", infer_schema=False).collect_schema().names()
    taken: list[str] = []
    for name in header:
        needed = [specs[name]["derived"]["from"]] if "derived" in specs[name] else []
        taken += [column for column in (*needed, name) if column not in taken]
        if len(taken) >= columns:
            break
    target.mkdir(parents=True, exist_ok=True)
    kept = [name for name in header if name in taken]
    pl.read_csv(folder / "data.csv", infer_schema=False, columns=kept).select(kept).write_csv(target / "data.csv")
    (target / "data-specs.json").write_text(json.dumps({name: specs[name] for name in kept}))


def run_staged(
    folder: Path, flags: Sequence[str], *, data: str = "data.csv", output: str = "output.csv"
) -> dict[str, Any]:
    """Runs the default job on a table and gives seconds by stage, in all, and the peak. Raises: SystemExit."""
    stages = folder / "stages.json"
    files = [str(folder / name) for name in (data, output, "data-specs.json")]
    run = run_measured(
        [sys.executable, str(ROOT / "benchmarks/stages.py"), str(stages), *files, "1", "--quiet", *flags]
    )
    if run.exit_code != 0:
        raise SystemExit(f"a run on {folder} ended with exit code {run.exit_code}: {run.errors}")
    (folder / output).unlink()
    return {"wall_s": run.wall_s, "cpu_s": run.cpu_s, "peak_mb": run.peak_mb, "stages": json.loads(stages.read_text())}


def fit_exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def take_exponent(name: str, sizes: Sequence[float], seconds: Sequence[float], goal: str | None) -> Figure:
    """Makes a figure of an exponent; its spread is that of the slopes from one size to the next."""
    steps = list(zip(sizes, seconds, strict=True))
    slopes = [math.log(later[1] / one[1]) / math.log(later[0] / one[0]) for one, later in itertools.pairwise(steps)]
    whole = fit_exponent(sizes, seconds)
    return Figure(
        name=name,
        unit="exponent",
        median=whole,
        low=min((*slopes, whole)),
        high=max((*slopes, whole)),
        runs=len(steps),
        goal=goal,
    )


def measure(rows: Sequence[int], columns: Sequence[int], *, scratch: Path, flags: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"rows": [], "columns": []}
    middle = sorted(rows)[len(rows) // 2]
    width = len(json.loads(SPECS.read_text()))
    for size in rows:
        folder = scratch / f"rows-{size}"
        write_population(folder, rows=size, seed=1940)
        found["rows"].append({"rows": size, "columns": width, **run_staged(folder, flags)})
        print(json.dumps(found["rows"][-1]), file=sys.stderr, flush=True)
        if size != middle:
            (folder / "data.csv").unlink()
    for number in columns:
        if number >= width:
            found["columns"] += [case for case in found["rows"] if case["rows"] == middle]
            continue
        folder = scratch / f"columns-{number}"
        cut_columns(scratch / f"rows-{middle}", folder, columns=number)
        kept = len(json.loads((folder / "data-specs.json").read_text()))
        found["columns"].append({"rows": middle, "columns": kept, **run_staged(folder, flags)})
        print(json.dumps(found["columns"][-1]), file=sys.stderr, flush=True)
    return found


def make_figures(found: dict[str, Any]) -> list[Figure]:
    rows, columns = found["rows"], found["columns"]
    sizes, widths = [case["rows"] for case in rows], [case["columns"] for case in columns]
    reading = [sum(case["stages"][stage]["cpu_s"] for stage in ("read", "encode")) for case in rows]
    span, wide = f"{min(sizes):,} to {max(sizes):,}", f"{min(widths)} to {max(widths)}"
    return [
        take_exponent(f"exponent of CPU time in rows, {span}", sizes, [case["cpu_s"] for case in rows], "<= 1.05"),
        take_exponent(f"exponent of reading and encoding in rows, {span}", sizes, reading, "<= 1.05"),
        take_exponent(
            f"exponent of CPU time in columns, {wide}", widths, [case["cpu_s"] for case in columns], "<= 1.5"
        ),
        *(take_figure(f"default run, {case['rows']:,} rows", [case["cpu_s"]], unit="CPU s") for case in rows),
        *(take_figure(f"default run, {case['columns']} columns", [case["cpu_s"]], unit="CPU s") for case in columns),
        take_figure(
            f"peak memory, {max(sizes):,} rows / {min(sizes):,} rows",
            [max(case["peak_mb"] for case in rows) / min(case["peak_mb"] for case in rows)],
            unit="ratio",
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int)
    parser.add_argument("--columns", nargs="+", type=int)
    parser.add_argument("--quick", action="store_true", help="small tables: exponents are then those of the start-up")
    parser.add_argument("--json", type=Path)
    ours, flags = split_arguments(sys.argv[1:])
    asked = parser.parse_args(ours)
    flags += QUICK_FLAGS if asked.quick else []
    rows = asked.rows or (QUICK_ROWS if asked.quick else ROWS)
    columns = asked.columns or (QUICK_COLUMNS if asked.quick else COLUMNS)
    with tempfile.TemporaryDirectory() as scratch:
        found = measure(sorted(rows), sorted(columns), scratch=Path(scratch), flags=flags)
    figures = make_figures(found)
    report(figures, asked.json, cases=found)


if __name__ == "__main__":
    main()
