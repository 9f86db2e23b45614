"""What rules between columns do: rows that break one, scores and time, with the rules of a table and without.

    python benchmarks/rules.py DATA.csv SPECS.json [--methods M...] [--epsilons E...] [--runs N] [--json FILE]

SPECS has rules that hold on every row of DATA, as benchmarks/rules/acs-national-2019.json has for the table of that
name. Four fifths of the rows are trained on. Each run is one of run.py in a process of its own, with noise from the
operating system. Rows that break a rule are counted here by plain SQL over the cells, "N" as NULL.
"""

import argparse
import gzip
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import scores  # noqa: E402

SHOWN = ("broken", "kway_1", "kway_2", "kway_3", "tstr_auc", "apart", "seconds")
MISSING = "N"


def prepare(folder: Path, data: Path, specs: dict[str, Any]) -> None:
    """Writes the folder that scores are taken in: rows to train on, rows held out, specs without rules."""
    folder.mkdir()
    header, *rows = data.read_text().splitlines()
    random.Random(1).shuffle(rows)
    many = len(rows) // 10 * 8
    for name, part in (("train", rows[:many]), ("holdout", rows[many:])):
        with gzip.open(folder / f"{name}.csv.gz", "wt") as file:
            file.write("\n".join([header, *part]) + "\n")
    plain = {name: keys for name, keys in specs.items() if name != "rules"}
    (folder / "data-specs.json").write_text(json.dumps(plain))


def count_broken(path: Path, specs: dict[str, Any], folder: Path) -> tuple[float, dict[str, float]]:
    """The share of rows that break a rule, and of those that break each."""
    frame = pl.read_csv(path, infer_schema=False)
    frame = frame.with_columns(pl.when(pl.all() != MISSING).then(pl.all()))
    texts = {name for name, keys in specs.items() if isinstance(keys, dict) and _is_text(keys)}
    values = frame.with_columns(pl.col(name).cast(pl.Float64) for name in frame.columns if name not in texts)
    shares, broken = {}, pl.Series([False]).new_from_index(0, frame.height)
    for rule in specs["rules"]:
        if isinstance(rule, str):
            flags = ~values.select(pl.sql_expr(rule).alias("kept")).get_column("kept").fill_null(True)
        else:
            names = rule["columns"]
            listed = rule.get("allowed") or [
                row.split(",") for row in (folder / rule["allowed_from"]).read_text().split()
            ]
            allowed = {tuple(None if cell == MISSING else cell for cell in cells) for cells in listed}
            flags = pl.Series([cells not in allowed for cells in frame.select(names).iter_rows()])
        shares[str(rule)] = float(flags.mean() or 0.0)
        broken = broken | flags
    return float(broken.mean() or 0.0), shares


def _is_text(keys: dict[str, Any]) -> bool:
    return keys.get("type") == "enum" and not all(str(value).isdigit() for value in keys.get("values", ()))


def measure(folder: Path, specs_path: Path, specs: dict[str, Any], method: str, epsilon: float) -> dict[str, Any]:
    """One run: its scores, the share of broken rows and its seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "output.csv"
        command = [sys.executable, str(HERE.parent / "run.py"), str(folder / "train.csv.gz"), str(output)]
        command += [str(specs_path), repr(epsilon), "--method", method, "--quiet"]
        start = time.perf_counter()
        subprocess.run(command, check=True)
        seconds = time.perf_counter() - start
        share, shares = count_broken(output, specs, folder.parent)
        return {**scores.score(folder, output), "broken": share, "by_rule": shares, "seconds": round(seconds, 1)}


def main() -> None:
    """Prints a line for each method, epsilon and choice of rules, and stores every run where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("specs", type=Path)
    parser.add_argument("--methods", nargs="+", default=["query-gan"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.3, 1.0, 8.0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=("with", "without"))
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    specs, records = json.loads(asked.specs.read_text()), []
    print("| method | epsilon | rules | " + " | ".join(SHOWN) + " |")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / asked.specs.stem
        prepare(folder, asked.data, specs)
        for rule in specs["rules"]:
            if isinstance(rule, dict) and "allowed_from" in rule:
                (folder.parent / rule["allowed_from"]).write_bytes(
                    (asked.specs.parent / rule["allowed_from"]).read_bytes()
                )
        for method in asked.methods:
            for epsilon in asked.epsilons:
                for rules in ("without", "with"):
                    if asked.only not in (None, rules):
                        continue
                    path = asked.specs if rules == "with" else folder / "data-specs.json"
                    runs = [measure(folder, path, specs, method, epsilon) for _ in range(asked.runs)]
                    records += [{"method": method, "epsilon": epsilon, "rules": rules, **run} for run in runs]
                    medians = (statistics.median(run.get(name, float("nan")) for run in runs) for name in SHOWN)
                    shown = " | ".join(f"{value:.4g}" for value in medians)
                    print(f"| {method} | {epsilon} | {rules} | {shown} |", flush=True)
    if asked.json is not None:
        asked.json.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
