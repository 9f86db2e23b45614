"""Says whether the time and memory of a run tell two tables apart of which one row differs, as far as it can differ.

    python benchmarks/side_channels.py [--runs N] [--rows N]

Each run is the command line with `--method independent --threads 1` in a child of its own, the tables in turn. A third
table has ten times the rows: it has to be told apart, or nothing was measured. For each measure and pair: the medians,
and the best threshold's advantage, the share of one table's runs it is right about less that of the other's it is wrong
about: 0 tells nothing, 1 all. Beside it what the true advantage is below with 95% confidence.

Source: the bound is that of Dvoretzky, Kiefer and Wolfowitz with Massart's constant (1990), for each sample at 2.5%.
"""

import argparse
import json
import math
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import dpwgan.app.pipeline  # noqa: E402, F401 - loaded once, for all children
from dpwgan.app.cli import main as run_tool  # noqa: E402

SPECS: dict[str, Any] = {
    "place": {"type": "enum", "values": ["a", "b" * 200], "missing": [""]},
    "income": {"type": "integer", "min": 0, "max": 10**15},
    "share": {"type": "float", "min": 0, "max": 1, "decimals": 9, "optional": True},
    "code": {"type": "enum", "count": 5_000},
}
COMMON = ("a,1000,0.25,7", "a,2000,0.5,8")
LOW, HIGH = ",0,,0", f'"{"b" * 200}",{10**15},0.999999999,4999'
MEASURES = ("CPU seconds", "peak memory, MB")


def find_advantage(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """The advantage of the best threshold on two samples, and what the true one is below with 95% confidence."""
    shares = (
        abs(sum(value <= edge for value in one) / len(one) - sum(value <= edge for value in other) / len(other))
        for edge in {*one, *other}
    )
    found = max(shares)
    slack = sum(math.sqrt(math.log(2 / 0.025) / (2 * len(sample))) for sample in (one, other))
    return found, min(1.0, found + slack)


def measure(folder: Path, table: str) -> tuple[float, float]:
    """CPU seconds and peak megabytes of one run."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        before = time.process_time()
        words = (table, f"{table}.out.csv", "specs.json", "1", "--method", "independent", "--threads", "1", "--quiet")
        os.chdir(folder)
        code = run_tool(words, environment={})
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        os.write(writing, json.dumps([time.process_time() - before, used]).encode())
        os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told: tuple[float, float] = json.loads(pipe.read())
    if os.waitpid(child, 0)[1]:
        raise SystemExit("a run failed")
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="of each of the two tables")
    parser.add_argument("--rows", type=int, default=2_000)
    arguments = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {"low": [], "high": [], "tenfold": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "specs.json").write_text(json.dumps(SPECS))
        rows = list(COMMON) * (arguments.rows // 2)
        for table, lines in {
            "low": [LOW, *rows[1:]],
            "high": [HIGH, *rows[1:]],
            "tenfold": [LOW, *rows[1:], *rows * 9],
        }.items():
            (folder / table).write_text("\n".join([",".join(SPECS), *lines]) + "\n")
        for number in range(arguments.runs):
            for table in ("low", "high", *(["tenfold"] * (number % 5 == 0))):
                found[table].append(measure(folder, table))
    sys.stdout.write("| tables | measure | medians | advantage | below, at 95% |\n|---|---|---|---|---|\n")
    for other in ("high", "tenfold"):
        for place, measured in enumerate(MEASURES):
            samples = [[run[place] for run in found[table]] for table in ("low", other)]
            medians = " and ".join(f"{statistics.median(sample):.4g}" for sample in samples)
            advantage, bound = find_advantage(samples[0], samples[1])
            sys.stdout.write(f"| low, {other} | {measured} | {medians} | {advantage:.3f} | {bound:.3f} |\n")


if __name__ == "__main__":
    main()
