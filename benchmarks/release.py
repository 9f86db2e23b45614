"""Runs the command line on tables and measures what a custodian would: time, memory, legality, claim.

    python benchmarks/release.py FOLDER... [--epsilon 0.3,1,8] [--keep DIR] [--check] [-- FLAGS OF run.py]

A FOLDER holds data-specs.json and data.csv or data.csv.gz (or train.csv.gz). One line of JSON a run on stdout.
Cells are checked here by a plain reading of the specs, not by the package: tokens of enums, ranges of numbers, order of
columns.
"""

import argparse
import csv
import gzip
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.processes import RUN, run_measured


def main() -> None:
    """Measures each table at each epsilon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--epsilon", default="1", help="comma-separated (default: 1)")
    parser.add_argument("--keep", type=Path, help="keep the outputs in this folder")
    parser.add_argument("--check", action="store_true", help="time --check instead of whole runs")
    ours, passed_on = sys.argv[1:], []
    if "--" in ours:
        ours, passed_on = ours[: ours.index("--")], ours[ours.index("--") + 1 :]
    asked = parser.parse_args(ours)
    with tempfile.TemporaryDirectory() as scratch:
        kept = asked.keep or Path(scratch)
        kept.mkdir(parents=True, exist_ok=True)
        for folder in asked.folders:
            for epsilon in asked.epsilon.split(","):
                flags = [*passed_on, *(["--check"] if asked.check else [])]
                sys.stdout.write(json.dumps(measure(folder, epsilon, kept, flags)) + "\n")
                sys.stdout.flush()


def measure(folder: Path, epsilon: str, kept: Path, flags: list[str]) -> dict[str, Any]:
    """Runs one release and gives its figures."""
    names = ("data.csv", "data.csv.gz", "train.csv.gz")
    data = next(path for path in (folder / name for name in names) if path.exists())
    specs = folder / "data-specs.json"
    output = kept / f"{folder.name}-{epsilon}.csv"
    command = [*RUN, str(data), str(output), str(specs), epsilon, "--quiet", *flags]
    run = run_measured(command)
    sys.stderr.write(run.errors)
    figures: dict[str, Any] = {
        "table": folder.name,
        "epsilon": float(epsilon),
        "exit": run.exit_code,
        "wall_s": round(run.wall_s, 1),
        "cpu_s": round(run.cpu_s, 1),
        "peak_mb": round(run.peak_mb),
    }
    if run.exit_code == 0 and "--check" not in flags:
        claim = json.loads(output.with_name(output.name + ".privacy.json").read_text())
        figures["spent"] = claim["budget"]["epsilon_spent"]
        figures["claim_within_budget"] = claim["budget"]["epsilon_spent"] <= float(epsilon)
        figures["rows"], figures["illegal_cells"] = count_illegal(data, output, json.loads(specs.read_text()))
    return figures


def count_illegal(data: Path, output: Path, specs: dict[str, Any]) -> tuple[int, int]:
    """Counts the rows of the output, and its cells that the specs do not allow."""
    opener: Any = gzip.open if data.suffix == ".gz" else open
    with opener(data, "rt", newline="") as stream:
        header = next(csv.reader(stream))
    rows = illegal = 0
    with output.open(newline="") as stream:
        reader = csv.reader(stream)
        if next(reader) != header:
            raise SystemExit(f"{output}: the header is not the input's")
        derived = {name: specs[name]["derived"] for name in header if "derived" in specs[name]}
        for name, rule in derived.items():
            if rule.keys() != {"from", "floordiv"}:
                raise SystemExit(f"{name}: only columns derived by floordiv can be checked here")
        places = {name: place for place, name in enumerate(header)}
        sources = [(places[name], places[rule["from"]], rule["floordiv"]) for name, rule in derived.items()]
        rules = [(places[name], make_rule(specs[name])) for name in header if name not in derived]
        for row in reader:
            rows += 1
            illegal += sum(not rule(row[place]) for place, rule in rules)
            illegal += sum(row[place] != str(int(row[source]) // divisor) for place, source, divisor in sources)
    return rows, illegal


def make_rule(spec: dict[str, Any]) -> Any:
    """Gives a function that says whether a cell is legal, for enums, numbers and their missing codes."""
    missing = {str(code) for code in spec.get("missing", ())} | ({""} if spec.get("optional") else set())
    if spec["type"] == "enum":
        if "values" in spec:
            legal = {str(value) for value in spec["values"]} | missing
        else:
            count = spec["count"] if "count" in spec else spec["maxval"] + 1
            legal = {str(code) for code in range(count)} | missing
        return legal.__contains__

    def is_number(cell: str) -> bool:
        if cell in missing:
            return True
        try:
            value = float(cell)
        except ValueError:
            return False
        return spec["min"] <= value <= spec["max"] and (spec["type"] == "float" or value == int(value))

    return is_number


if __name__ == "__main__":
    main()
