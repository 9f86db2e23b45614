"""Measures what it costs to start: help, version, a usage error, and --check on a table.

    python benchmarks/startup.py [--table FOLDER] [--rounds N] [--quick] [--json FILE]

FOLDER holds data-specs.json and train.csv.gz; the goal for --check was set for the table adult. CPU seconds of whole
commands, in turns.
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.figures import report, take_figure
from benchmarks.processes import RUN, run_measured


def list_commands(table: Path | None) -> dict[str, tuple[list[str], int, str]]:
    """Gives, by name, the command's arguments, its exit code, and the goal."""
    commands = {
        "--help": (["--help"], 0, "<= 0.3"),
        "--version": (["--version"], 0, "<= 0.3"),
        "usage error": (["--nonsense"], 2, "<= 0.3"),
    }
    if table is not None:
        arguments = [str(table / "train.csv.gz"), "unused.csv", str(table / "data-specs.json"), "1", "--check"]
        commands[f"--check, {table.name}"] = (arguments, 0, "<= 1.5")
    return commands


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="three rounds")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    there = asked.table is not None and (asked.table / "train.csv.gz").exists()
    commands = list_commands(asked.table if there else None)
    # As it is for a user, and in the image: compiled files are there. The first round, which makes them, is left out.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(1 + (3 if asked.quick else asked.rounds)):
        for name, (arguments, expected, _) in commands.items():
            run = run_measured([*RUN, *arguments])
            if run.exit_code != expected:
                raise SystemExit(f"{name}: exit code {run.exit_code}: {run.errors}")
            if number:
                times[name].append(run.cpu_s)
    figures = [
        take_figure(f"start-up: {name}", times[name], unit="CPU s", goal=goal)
        for name, (_, _, goal) in commands.items()
    ]
    skipped = {} if there else {"--check": f"there is no table in {asked.table}" if asked.table else "no table given"}
    report(figures, asked.json, skipped=skipped)


if __name__ == "__main__":
    main()
