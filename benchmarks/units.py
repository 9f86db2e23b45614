"""What a unit of K rows costs: accounted for as one, against group privacy for the same K (epsilon/K for each row).

    python benchmarks/units.py FOLDER UNIT [--columns A,B] [--rows 1,5,20] [--epsilons 1,8] [--runs 3] [--head N]
    python benchmarks/units.py FOLDER UNIT --of A,B [--kind C] ...

FOLDER has data.csv and data-specs.json. UNIT is the column that says whose a row is, of benchmarks/flights.py tailnum;
or columns joined by +, a unit then being neighbouring rows that are alike in them: of benchmarks/census1940.py, where
households have no name, COUNTY+RENT+VALUEH+FAMSIZE. `--columns` are the ones to train, by default all; `--head` takes
the first N rows. Both ways have at most K rows of each unit. By group privacy each row has epsilon e = epsilon/K and
delta/(K exp((K - 1) e)), which make (epsilon, delta) for K rows. Scores are against all rows, so that what the rows
left out would have told is missed too. Prints a line a K, epsilon and way: rows kept, medians of kway_2 and kway_3.

With `--of` rows by themselves are compared with rows put together into units that share these columns (units whose rows
differ there are left out of the table), and medians are added: total variation of the numbers of rows a unit, released
and written, against the units kept, and written beside each of these columns, on the mean; the share of units that
agree in these columns; and with `--kind` the total variation of how many rows of each kind a unit has, also where the
specs say that these are kept.
"""

import argparse
import json
import math
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import polars as pl  # noqa: E402

from dpwgan.app.api import Synthesizer  # noqa: E402
from dpwgan.evaluate.marginals import draw_column_sets, measure_agreement, score_kway  # noqa: E402
from dpwgan.evaluate.tables import read_tables  # noqa: E402
from dpwgan.table.units.forms import list_forms  # noqa: E402

UNIT = "whose row"


def read(arguments: argparse.Namespace) -> tuple[pl.DataFrame, dict[str, Any]]:
    """The table with a column that says whose a row is, rows without one left out, and its specs without a unit."""
    specs = json.loads((arguments.folder / "data-specs.json").read_text())
    frame = pl.read_csv(arguments.folder / "data.csv", infer_schema=False, n_rows=arguments.head).fill_null("")
    named = arguments.unit.split("+")
    whose = frame.get_column(named[0]) if len(named) == 1 else frame.select(pl.struct(named).rle_id()).to_series()
    frame = frame.with_columns(whose.cast(pl.String).alias(UNIT)).filter(pl.col(UNIT) != "")
    for name in arguments.of:
        frame = frame.filter(pl.col(name).n_unique().over(UNIT) == 1)
    columns = arguments.columns.split(",") if arguments.columns else [name for name in specs if name in frame.columns]
    columns = [name for name in columns if specs[name].get("type") != "drop" and "derived" not in specs[name]]
    return frame.select(*columns, UNIT), {name: specs[name] for name in columns}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("unit")
    parser.add_argument("--columns")
    parser.add_argument("--head", type=int)
    parser.add_argument("--of", type=lambda names: names.split(","), default=[])
    parser.add_argument("--kind")
    parser.add_argument("--rows", default="1,5,20")
    parser.add_argument("--epsilons", default="1,8")
    parser.add_argument("--method", default="query-gan")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    frame, specs = read(arguments)
    delta = 1.0 / frame.height**2
    print(f"{frame.height} rows of {frame.get_column(UNIT).n_unique()} units, {len(specs)} columns")
    for rows in map(int, arguments.rows.split(",")):
        kept = frame.filter(pl.int_range(pl.len()).shuffle().over(UNIT) < rows)
        for epsilon in map(float, arguments.epsilons.split(",")):
            of_row, unit = epsilon / rows, {"unit": {"column": UNIT, "max_rows": rows}}
            by_group = delta / (rows * math.exp((rows - 1) * of_row))
            named = {
                UNIT: {"type": "integer", "uuid": True},
                **{name: {**specs[name], "of": "unit"} for name in arguments.of},
            }
            group = {**specs, UNIT: {"type": "drop"}}
            ways = [("unit", {**specs, **unit}, epsilon, delta), ("group", group, of_row, by_group)]
            if arguments.of:
                ways[1] = ("together", {**specs, **named, **unit}, epsilon, delta)
            if arguments.kind:
                by_kind = {"unit": {**unit["unit"], "kind": arguments.kind}}
                ways.append(("by kind", {**specs, **named, **by_kind}, epsilon, delta))
            for way, document, e, d in ways:
                scores = [score(frame, kept, document, specs, e, d, arguments) for _ in range(arguments.runs)]
                told = {key: statistics.median(own[key] for own in scores) for key in scores[0]}
                words = "  ".join(f"{key} {value:.4g}" for key, value in told.items())
                print(f"K {rows:3d}  epsilon {epsilon:g}  {way:8s}  {kept.height} rows  {words}", flush=True)
                if rows == 1:
                    break  # the two ways are one


def score(
    frame: pl.DataFrame, kept: pl.DataFrame, document: Any, specs: Any, epsilon: float, delta: float, arguments: Any
) -> dict[str, float]:
    synthesizer = Synthesizer(document, epsilon, delta, method=arguments.method, threads=1).fit(kept.to_pandas())
    written = pl.concat(synthesizer.sample_cells())
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("real.csv", "synthetic.csv")]
        frame.drop(UNIT).write_csv(paths[0])
        written.drop(UNIT, strict=False).write_csv(paths[1])
        tables = read_tables(paths[0], paths[1], None, specs=Synthesizer(specs, 1.0).schema)
    found = score_kway(measure_agreement(tables.real, tables.synthetic, draw_column_sets(len(tables.real.columns))))
    scores = {key: found[key] for key in ("kway_2", "kway_3")}
    unit = synthesizer.schema.unit
    if unit is None or not unit.sizes:
        return scores
    real = np.bincount(count_rows(kept), minlength=unit.max_rows + 1)[1:] / kept.get_column(UNIT).n_unique()
    sizes = np.bincount(count_rows(written), minlength=unit.max_rows + 1)[1:] / written.get_column(UNIT).n_unique()
    released = np.bincount(list_forms(synthesizer.schema).sum(axis=1), weights=unit.sizes)[1:]
    scores["sizes released"] = float(abs(real - released).sum()) / 2
    scores["sizes written"] = float(abs(real - sizes).sum()) / 2
    beside = [measure_distance(*(count_sizes(own, name) for own in (kept, written))) for name in arguments.of]
    scores["sizes beside columns"] = statistics.mean(beside) if beside else 0.0
    alike = (
        written.group_by(UNIT).agg(pl.col(arguments.of).n_unique()).select(pl.all_horizontal(pl.col(arguments.of) == 1))
    )
    scores["agree"] = float(alike.to_series().mean())  # type: ignore[arg-type]
    if arguments.kind:
        scores["kinds"] = compare_kinds(kept, written, arguments.kind)
    return scores


def count_rows(frame: pl.DataFrame) -> Any:
    return frame.group_by(UNIT).len().get_column("len").to_numpy()


def compare_kinds(real: pl.DataFrame, written: pl.DataFrame, kind: str) -> float:
    """The total variation of how many rows of each kind a unit has."""

    def count(frame: pl.DataFrame) -> pl.DataFrame:
        cells = frame.group_by(UNIT).agg(pl.col(kind).cast(pl.String).sort().str.join(" "))
        return cells.group_by(kind).agg(pl.len() / cells.height)

    return measure_distance(count(real), count(written))


def count_sizes(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """The shares of units by their number of rows and a column that these share."""
    units = frame.group_by(UNIT).agg(pl.col(column).first().cast(pl.String), pl.len().alias("rows"))
    return units.group_by(column, "rows").agg(pl.len() / units.height)


def measure_distance(real: pl.DataFrame, written: pl.DataFrame) -> float:
    """The total variation of shares."""
    on = [name for name in real.columns if name != "len"]
    both = real.join(written, on=on, how="full", coalesce=True).fill_null(0.0)
    return float((both.get_column("len") - both.get_column("len_right")).abs().sum()) / 2


if __name__ == "__main__":
    main()
