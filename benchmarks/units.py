"""What a unit of K rows costs: accounted for as one, against group privacy for the same K (epsilon/K for each row).

    python benchmarks/units.py FOLDER UNIT [--columns A,B] [--rows 1,5,20] [--epsilons 1,8] [--runs 3] [--head N]

FOLDER has data.csv and data-specs.json. UNIT is the column that says whose a row is, of benchmarks/flights.py tailnum;
or columns joined by +, a unit then being neighbouring rows that are alike in them: of benchmarks/census1940.py, where
households have no name, COUNTY+RENT+VALUEH+FAMSIZE. `--columns` are the ones to train, by default all; `--head` takes
the first N rows. Both ways have at most K rows of each unit. By group privacy each row has epsilon e = epsilon/K and
delta/(K exp((K - 1) e)), which make (epsilon, delta) for K rows. Scores are against all rows, so that what the rows
left out would have told is missed too. Prints a line a K, epsilon and way: rows kept, medians of kway_2 and kway_3.
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

import polars as pl  # noqa: E402

from dpwgan.app.api import Synthesizer  # noqa: E402
from dpwgan.evaluate.marginals import draw_column_sets, measure_agreement, score_kway  # noqa: E402
from dpwgan.evaluate.tables import read_tables  # noqa: E402

UNIT = "whose row"


def read(arguments: argparse.Namespace) -> tuple[pl.DataFrame, dict[str, Any]]:
    """The table with a column that says whose a row is, rows without one left out, and its specs without a unit."""
    specs = json.loads((arguments.folder / "data-specs.json").read_text())
    frame = pl.read_csv(arguments.folder / "data.csv", infer_schema=False, n_rows=arguments.head).fill_null("")
    named = arguments.unit.split("+")
    whose = frame.get_column(named[0]) if len(named) == 1 else frame.select(pl.struct(named).rle_id()).to_series()
    frame = frame.with_columns(whose.cast(pl.String).alias(UNIT)).filter(pl.col(UNIT) != "")
    columns = arguments.columns.split(",") if arguments.columns else [name for name in specs if name in frame.columns]
    columns = [name for name in columns if specs[name].get("type") != "drop" and "derived" not in specs[name]]
    return frame.select(*columns, UNIT), {name: specs[name] for name in columns}


def main() -> None:
    """Runs both ways for each K and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("unit")
    parser.add_argument("--columns")
    parser.add_argument("--head", type=int)
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
            for way, document, (e, d) in (
                ("unit", {**specs, **unit}, (epsilon, delta)),
                ("group", {**specs, UNIT: {"type": "drop"}}, (of_row, by_group)),
            ):
                scores = [score(frame, kept, document, specs, e, d, arguments.method) for _ in range(arguments.runs)]
                two, three = (statistics.median(own[key] for own in scores) for key in ("kway_2", "kway_3"))
                print(
                    f"K {rows:3d}  epsilon {epsilon:g}  {way:5s}  {kept.height} rows  {two:.1f}  {three:.1f}",
                    flush=True,
                )
                if rows == 1:
                    break  # the two ways are one


def score(
    frame: pl.DataFrame, kept: pl.DataFrame, document: Any, specs: Any, epsilon: float, delta: float, method: str
) -> dict[str, Any]:
    """The scores of one run against all rows."""
    synthesizer = Synthesizer(document, epsilon, delta, method=method, threads=1).fit(kept.to_pandas())
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("real.csv", "synthetic.csv")]
        frame.drop(UNIT).write_csv(paths[0])
        pl.concat(synthesizer.sample_cells()).write_csv(paths[1])
        tables = read_tables(paths[0], paths[1], None, specs=Synthesizer(specs, 1.0).schema)
    return score_kway(measure_agreement(tables.real, tables.synthetic, draw_column_sets(len(tables.real.columns))))


if __name__ == "__main__":
    main()
