"""Cuts smaller tables out of those that benchmarks/utility.py takes: fewer rows, fewer columns, yes/no flags.

    python benchmarks/slices.py FOLDER OUTPUT [--only TABLE...]

For each table of FOLDER: TABLE.2000, .5000 and .10000 with so many rows, drawn once; TABLE.8-columns and
.16-columns with so many columns, drawn once, the target of benchmarks/tasks.json among them; TABLE.flags with 16
yes/no columns, each another column cut in two as evenly as may be, then at the next best place. The same each time.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.scores import read_task
from benchmarks.utility import find_tables

ROWS, COLUMNS, FLAGS = (2_000, 5_000, 10_000), (8, 16), 16
FILES = ("train.csv.gz", "holdout.csv.gz")


def write(folder: Path, specs: dict[str, object], tables: dict[str, pd.DataFrame]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data-specs.json").write_text(json.dumps(specs, indent=1))
    for name, table in tables.items():
        table.to_csv(folder / name, index=False, compression={"method": "gzip", "mtime": 0})


def choose_flags(train: pd.DataFrame) -> list[tuple[str, int]]:
    """Gives the columns to cut and the codes from which on a flag is 1: the most even cut of each, then the next."""
    ranked = []
    for name, column in train.astype(int).items():
        shares = {cut: abs(float((column >= cut).mean()) - 0.5) for cut in range(1, int(column.max()) + 1)}
        places = enumerate(sorted(shares, key=lambda cut, shares=shares: shares[cut]))
        ranked += [(place, shares[cut], str(name), cut) for place, cut in places]
    return [(name, cut) for _, _, name, cut in sorted(ranked)[:FLAGS]]


def cut_table(folder: Path, output: Path) -> None:
    specs = json.loads((folder / "data-specs.json").read_text())
    tables = {name: pd.read_csv(folder / name, dtype=str, keep_default_na=False) for name in FILES}
    train = tables["train.csv.gz"]
    rng = np.random.RandomState(300)
    order = rng.permutation(len(train))
    for rows in (rows for rows in ROWS if rows < len(train)):
        few = tables | {"train.csv.gz": train.iloc[np.sort(order[:rows])]}
        write(output / f"{folder.name}.{rows}", specs, few)
    task = read_task(folder.name)
    names = sorted(rng.permutation(list(specs)), key=lambda name: task is None or name != task.target)
    for columns in (columns for columns in COLUMNS if columns < len(names)):
        kept = [name for name in specs if name in names[:columns]]
        slices = {name: table[kept] for name, table in tables.items()}
        write(output / f"{folder.name}.{columns}-columns", {name: specs[name] for name in kept}, slices)
    flags = choose_flags(train)
    yes = {
        file: pd.DataFrame({f"{name}>={cut}": (table[name].astype(int) >= cut).astype(int) for name, cut in flags})
        for file, table in tables.items()
    }
    write(output / f"{folder.name}.flags", {name: {"type": "enum", "count": 2} for name in yes[FILES[0]]}, yes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("output", type=Path, metavar="OUTPUT")
    parser.add_argument("--only", nargs="+", default=[], metavar="TABLE")
    asked = parser.parse_args()
    for folder in find_tables(asked.folder, asked.only).values():
        cut_table(folder, asked.output)


if __name__ == "__main__":
    main()
