"""Takes all figures of speed and stores them in one file, which benchmarks/figures.py puts beside another.

    python benchmarks/bench.py --output FILE.json [--quick] [--only PART...] [--table FOLDER]

Every part is a script of this folder that runs by itself and writes its figures with --json. They run one after the
other, each in a process of its own. A part that is not there, or fails, is named with the reason, and the exit code is
then 1. --quick takes some minutes: smaller tables, fewer rounds, and figures that say little.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.figures import HEADING, Figure, describe, describe_machine, read_figures, write_results  # noqa: E402

PARTS = ("startup", "steps", "tables", "growth", "job")


def run_part(name: str, *, quick: bool, table: Path | None, scratch: Path) -> tuple[list[Figure], dict[str, str]]:
    """Runs one part. Gives its figures, and reasons for what it left out or for its failure."""
    script = HERE / f"{name}.py"
    if not script.exists():
        return [], {name: "there is no such script"}
    target = scratch / f"{name}.json"
    command = [sys.executable, str(script), "--json", str(target), *(["--quick"] if quick else [])]
    if name == "startup" and table is not None:
        command += ["--table", str(table)]
    code = subprocess.run(command, check=False).returncode
    if code != 0 or not target.exists():
        return [], {name: f"ended with exit code {code}"}
    document = json.loads(target.read_text())
    return read_figures(document), {f"{name}: {what}": str(why) for what, why in document["skipped"].items()}


def run_parts(
    parts: Sequence[str], *, quick: bool, table: Path | None
) -> tuple[list[Figure], dict[str, str], list[str]]:
    figures: list[Figure] = []
    skipped: dict[str, str] = {}
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in parts:
            print(f"\n## {name}\n", flush=True)
            found, why = run_part(name, quick=quick, table=table, scratch=Path(scratch))
            figures += found
            skipped.update(why)
            failed += [name] if name in why else []
    return figures, skipped, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--table", type=Path, help="the table adult, for --check: data-specs.json and train.csv.gz")
    asked = parser.parse_args()
    before = describe_machine()
    figures, skipped, failed = run_parts(asked.only, quick=asked.quick, table=asked.table)
    write_results(asked.output, figures, skipped=skipped, quick=asked.quick, machine_before=before)
    print(f"\n## All figures\n\n{HEADING}")
    for figure in figures:
        print(describe(figure))
    for name, reason in skipped.items():
        print(f"skipped: {name}: {reason}")
    print(f"stored in {asked.output}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
