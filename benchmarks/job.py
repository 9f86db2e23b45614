"""Measures the whole default job at the size of the challenge: 661,968 rows of 98 columns, epsilon 1, as many rows out.

    python benchmarks/job.py [--rows N] [--quick] [--json FILE] [-- FLAGS OF run.py]

First a tenth of the rows, then all of them: what every row passes through (read, encode) may take ten times as long at
most. Then a million rows out of a small table: what sampling, decoding, validating and writing take. Peers get the
same table where BENCH_PEERS names them (benchmarks/processes.py).
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.census1940 import ROWS, write_population  # noqa: E402
from benchmarks.figures import Figure, report, split_arguments, take_figure  # noqa: E402
from benchmarks.growth import QUICK_FLAGS, run_staged  # noqa: E402
from benchmarks.processes import read_peers, run_measured  # noqa: E402

PEER_SECONDS = 1_800
QUICK_ROWS = 3_000
OUT_ROWS = 1_000_000


def run_peers(folder: Path, peers: str) -> tuple[list[Figure], dict[str, str]]:
    """Runs the peers' commands on a table. Gives figures, and the reason of each that gave none."""
    figures: list[Figure] = []
    skipped: dict[str, str] = {}
    if not peers.strip():
        return [], {"peers": "BENCH_PEERS names none"}
    fields = {
        "data": str(folder / "data.csv"),
        "specs": str(folder / "data-specs.json"),
        "output": str(folder / "peer.csv"),
        "epsilon": "1",
    }
    for name, command in read_peers(peers).items():
        try:
            run = run_measured([part.format(**fields) for part in command], timeout=PEER_SECONDS)
        except subprocess.TimeoutExpired:
            skipped[name] = f"took more than {PEER_SECONDS} s"
            continue
        except OSError as error:
            skipped[name] = f"cannot be started: {error.strerror}"
            continue
        if run.exit_code != 0:
            skipped[name] = f"exit code {run.exit_code}: {run.errors.strip().splitlines()[-1:]}"
            continue
        figures.append(take_figure(f"whole job, {name}", [run.cpu_s], unit="CPU s"))
        figures.append(take_figure(f"whole job, {name}, peak memory", [run.peak_mb / 1e3], unit="GB"))
    return figures, skipped


def make_figures(whole: dict[str, Any], tenth: dict[str, Any], out: dict[str, Any], *, rows: int) -> list[Figure]:
    label = f"whole job, {rows:,} rows of 98 columns"
    spent = whole["stages"]

    def reading(run: dict[str, Any]) -> float:
        return float(sum(run["stages"][stage]["cpu_s"] for stage in ("read", "encode")))

    everything = sum(part["cpu_s"] for stage, part in spent.items() if stage != "draw")
    share = (reading(whole) + spent["write"]["cpu_s"]) / everything
    drawing = spent["draw"]["cpu_s"] / everything
    return [
        take_figure(f"{label}: wall time", [whole["wall_s"]], unit="s", goal="<= 900"),
        take_figure(f"{label}: CPU time", [whole["cpu_s"]], unit="CPU s"),
        take_figure(f"{label}: peak memory", [whole["peak_mb"] / 1e3], unit="GB", goal="<= 4"),
        take_figure(f"{label}: share of reading and writing", [share - drawing], unit="of CPU time", goal="<= 0.1"),
        take_figure(f"{label}: share of reading, sampling and writing", [share], unit="of CPU time"),
        take_figure(
            f"{label}: reading and encoding / that of a tenth of the rows",
            [reading(whole) / reading(tenth)],
            unit="ratio",
            goal="<= 10",
        ),
        take_figure(f"{label}: CPU time / that of a tenth", [whole["cpu_s"] / tenth["cpu_s"]], unit="ratio"),
        take_figure(f"{label}: peak memory / that of a tenth", [whole["peak_mb"] / tenth["peak_mb"]], unit="ratio"),
        *(
            take_figure(f"{label}: stage {stage}", [part["cpu_s"]], unit="CPU s")
            for stage, part in sorted(spent.items())
        ),
        take_figure(
            f"{out['out_rows']:,} rows of 98 columns sampled, decoded, validated, written",
            [out["stages"]["write"]["wall_s"]],
            unit="s",
            goal="<= 60",
        ),
    ]


def measure(rows: int, *, out_rows: int, scratch: Path, flags: Sequence[str], peers: str) -> dict[str, Any]:
    runs: dict[str, Any] = {}
    folder = scratch / "table"
    for name, size in (("tenth", max(rows // 10, 300)), ("whole", rows)):
        write_population(folder, rows=size, seed=1940)
        runs[name] = run_staged(folder, flags)
    runs["peers"], runs["skipped"] = run_peers(folder, peers)
    write_population(folder, rows=max(rows // 10, 300), seed=1940)
    runs["out"] = {**run_staged(folder, [*flags, "--rows", str(out_rows)]), "out_rows": out_rows}
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--quick", action="store_true", help="a small table")
    parser.add_argument("--json", type=Path)
    ours, flags = split_arguments(sys.argv[1:])
    asked = parser.parse_args(ours)
    flags += QUICK_FLAGS if asked.quick else []
    rows = asked.rows or (QUICK_ROWS if asked.quick else ROWS)
    with tempfile.TemporaryDirectory() as scratch:
        runs = measure(
            rows,
            out_rows=10 * rows if asked.quick else OUT_ROWS,
            scratch=Path(scratch),
            flags=flags,
            peers=os.environ.get("BENCH_PEERS", ""),
        )
    figures = [*make_figures(runs["whole"], runs["tenth"], runs["out"], rows=rows), *runs.pop("peers")]
    skipped = runs.pop("skipped")
    report(figures, asked.json, skipped=skipped, cases=runs)


if __name__ == "__main__":
    main()
