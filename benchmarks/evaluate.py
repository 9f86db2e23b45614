"""Measures time and peak memory of a full evaluation, report included: `python -m dpwgan.evaluate` as users run it.

    python benchmarks/evaluate.py [--tables FOLDER ...] [--standin ROWS] [--runs N]

Each FOLDER holds data-specs.json and data.csv or data.csv.gz; its synthetic table is made of its rows, drawn with
replacement. --standin makes two tables of ROWS made-up rows of the 98 columns of specs/nist2018-match3.json instead.
Prints one JSON object a run: table, rows, columns, wall seconds, CPU seconds, peak memory in GB.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

ROOT = Path(__file__).resolve().parent.parent
MATCH3 = ROOT / "specs" / "nist2018-match3.json"
sys.path.insert(0, str(ROOT))

from benchmarks.processes import find_table, run_measured  # noqa: E402


def draw_rows(source: Path, target: Path) -> None:
    frame = pl.read_csv(source, infer_schema=False)
    frame.sample(fraction=1.0, with_replacement=True, seed=1).write_csv(target)


def prepare(folders: list[Path], standin: int, work: Path) -> Iterator[tuple[str, Path, Path, Path]]:
    """Gives name, real table, synthetic table and specs, one table after the other."""
    for folder in folders:
        synthetic = work / "synthetic.csv"
        draw_rows(find_table(folder), synthetic)
        yield folder.name, find_table(folder), synthetic, folder / "data-specs.json"
    if standin:
        from benchmarks.census1940 import write_population

        for seed, name in enumerate(("real", "synthetic"), start=1):
            write_population(work / name, rows=standin, seed=seed)
        real, synthetic = (work / name / "data.csv" for name in ("real", "synthetic"))
        yield "stand-in", real, synthetic, MATCH3


def measure(real: Path, synthetic: Path, specs: Path, *, work: Path) -> dict[str, Any]:
    """Runs one evaluation in a process of its own.

    Units: seconds, and GB of 1e9 bytes.
    Raises: RuntimeError if it ends with another exit code than 0.
    """
    scores = work / "scores.json"
    command = [sys.executable, "-m", "dpwgan.evaluate", *map(str, (real, synthetic, specs)), "--quiet"]
    command += ["--json", str(scores), "--html", str(work / "report.html")]
    run = run_measured(command, cwd=ROOT)
    if run.exit_code:
        raise RuntimeError(f"the evaluation ended with exit code {run.exit_code}: {run.errors}")
    tables = json.loads(scores.read_text(encoding="utf-8"))["tables"]
    return {
        "rows": tables["real"]["rows"],
        "columns": tables["real"]["columns"],
        "wall_s": round(run.wall_s, 1),
        "cpu_s": round(run.cpu_s, 1),
        "peak_gb": round(run.peak_mb / 1e3, 2),
        "report_mb": round((work / "report.html").stat().st_size / 1e6, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="*", type=Path, default=[], metavar="FOLDER")
    parser.add_argument("--standin", type=int, default=0, metavar="ROWS")
    parser.add_argument("--runs", type=int, default=1, metavar="N")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, real, synthetic, specs in prepare(asked.tables, asked.standin, Path(folder)):
            for _ in range(asked.runs):
                print(json.dumps({"table": name, **measure(real, synthetic, specs, work=Path(folder))}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
