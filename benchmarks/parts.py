"""Measures a run on a large table in parts: 20 columns, made up, in a folder of Parquet or CSV files.

    python benchmarks/parts.py [--rows 100000000] [--part 1000000] [--form parquet] [--json FILE] [--quick]
        [--scratch FOLDER] [-- FLAGS OF run.py]

Twelve columns have 2 to 50 categories, six are numbers and two are dates; all hang together by three hidden classes.
Noted are CPU and wall seconds by stage, the peak of memory, and the most that files without a name, where rows lie that
do not fit, took of the disk. No figure of the table is a fact about anybody.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import polars as pl  # noqa: E402

from benchmarks.figures import report, split_arguments, take_figure  # noqa: E402
from benchmarks.growth import QUICK_FLAGS, run_staged  # noqa: E402

SIZES = (2, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50)
"""Categories of the columns that are none of numbers."""

SPECS: dict[str, Any] = {
    **{f"kind_{place}": {"type": "enum", "values": [f"{place}-{code}" for code in range(size)]}
       for place, size in enumerate(SIZES)},
    "age": {"type": "integer", "min": 0, "max": 99},
    "hours": {"type": "integer", "min": 0, "max": 80},
    "code": {"type": "integer", "min": 0, "max": 9999},
    "income": {"type": "integer", "min": 0, "max": 1_000_000},
    "weight": {"type": "float", "min": 0, "max": 200, "decimals": 1},
    "amount": {"type": "float", "min": 0, "max": 10_000, "decimals": 2},
    "begun": {"type": "date", "min": "2000-01-01", "max": "2024-12-31"},
    "ended": {"type": "date", "min": "2000-01-01", "max": "2030-12-31"},
}  # fmt: skip


def draw_part(records: int, rng: np.random.Generator) -> pl.DataFrame:
    hidden = rng.random((3, records), np.float32)
    columns: dict[str, pl.Series] = {}
    for place, size in enumerate(SIZES):
        near = hidden[place % 3] * size + rng.normal(0, 0.25 * size, records)
        names = pl.Series(SPECS[f"kind_{place}"]["values"])
        columns[f"kind_{place}"] = names.gather(np.clip(near, 0, size - 1).astype(np.uint32))
    for place, (name, digits) in enumerate((("age", 0), ("hours", 0), ("code", 0), ("weight", 1), ("amount", 2))):
        most = SPECS[name]["max"]
        value = np.round(np.clip(most * (hidden[place % 3] + rng.normal(0, 0.2, records)), 0, most), digits)
        columns[name] = pl.Series(value if digits else value.astype(np.int32))
    income = np.exp(8 + 4 * hidden[0] + rng.normal(0, 0.5, records))
    columns["income"] = pl.Series(np.minimum(income, 1_000_000).astype(np.int32))
    begun = (9_000 * hidden[1]).astype(np.int32)
    for name, days in (("begun", begun), ("ended", begun + rng.integers(0, 2_000, records, np.int32))):
        columns[name] = pl.Series(days + (date(2000, 1, 1) - date(1970, 1, 1)).days, dtype=pl.Int32).cast(pl.Date)
    return pl.DataFrame({name: columns[name] for name in SPECS})


def write_parts(folder: Path, *, rows: int, part: int, form: str) -> None:
    """Writes a folder of parts, each with a random stream of its own, and data-specs.json beside it."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "data-specs.json").write_text(json.dumps(SPECS))
    for number, start in enumerate(range(0, rows, part)):
        frame = draw_part(min(part, rows - start), np.random.Generator(np.random.PCG64([20, number])))
        path = folder / "data" / f"part-{number:05}.{form}"
        frame.write_parquet(path) if form == "parquet" else frame.write_csv(path)


class DiskWatch:
    """Looks every second how much of a folder's disk is used, and keeps the most above what was used at first."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._ended = folder, threading.Event()
        self._before, self.most = shutil.disk_usage(folder).used, 0
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "DiskWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(1):
            self.most = max(self.most, shutil.disk_usage(self._folder).used - self._before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--part", type=int, default=1_000_000, help="rows of each part")
    parser.add_argument("--form", choices=("parquet", "csv"), default="parquet")
    parser.add_argument("--scratch", type=Path, help="where parts, rows and output lie for the time of the run")
    parser.add_argument("--quick", action="store_true", help="a small table")
    parser.add_argument("--json", type=Path)
    ours, flags = split_arguments(sys.argv[1:])
    asked = parser.parse_args(ours)
    rows, part = (3_000, 1_000) if asked.quick else (asked.rows, asked.part)
    with tempfile.TemporaryDirectory(dir=asked.scratch) as scratch:
        folder = Path(scratch)
        write_parts(folder, rows=rows, part=part, form=asked.form)
        os.environ["TMPDIR"] = scratch
        with DiskWatch(folder) as disk:
            run = run_staged(
                folder, flags + (QUICK_FLAGS if asked.quick else []), data="data", output=f"out.{asked.form}"
            )
    label = f"{rows:,} rows of {len(SPECS)} columns in {asked.form} parts"
    figures = [
        take_figure(f"{label}: wall time", [run["wall_s"]], unit="s", goal="<= 3600"),
        take_figure(f"{label}: CPU time", [run["cpu_s"]], unit="CPU s"),
        take_figure(f"{label}: peak memory", [run["peak_mb"] / 1e3], unit="GB", goal="<= 4"),
        take_figure(f"{label}: disk, output included", [disk.most / 1e9], unit="GB"),
        *(
            take_figure(f"{label}: stage {name}", [spent["cpu_s"]], unit="CPU s")
            for name, spent in run["stages"].items()
        ),
    ]
    report(figures, asked.json, cases=run)


if __name__ == "__main__":
    main()
