"""The valid inputs that changes start from: tiny, one for each form that the tool reads."""

import json
import shlex
from functools import cache
from pathlib import Path
from typing import Any

from tests.end_to_end.bad_inputs import SECRET, layout

CORPUS = Path(__file__).parent / "corpus"

COLUMNS: dict[str, Any] = {
    "colour": {"type": "enum", "values": ["red", "green", SECRET], "missing": ["?"]},
    "age": {"type": "integer", "min": 0, "max": 120, "optional": True, "out_of_domain": "clamp"},
    "income": {"type": "float", "min": 0, "max": 1000, "decimals": 1, "missing": ["-9"]},
    "code": {"type": "enum", "maxval": 9, "width": 2},
    "day": {"type": "date", "min": "2020-01-01", "max": "2021-12-31", "format": "%d.%m.%Y"},
    "at": {"type": "datetime", "min": "2020-01-01", "max": "2020-01-02", "step": "15 minutes"},
    "hour": {"type": "time", "format": "%I:%M %p", "optional": True},
    "member": {"type": "boolean", "true": ["Y", "yes"], "false": "N"},
    "note": {"type": "text"},
}
LINES = (
    ",".join(COLUMNS),
    "red,30,4.0,01,03.04.2020,2020-01-01T00:15:00,09:30 AM,Y,nothing",
    f"{SECRET},,10.5,09,31.12.2021,2020-01-02T00:00:00,,no,{SECRET}".replace(",no,", ",N,"),
    "?,120,-9,03,01.01.2020,2020-01-01T23:45:00,12:00 PM,yes,",
    "green,7,0.1,00,29.02.2020,2020-01-01T12:00:00,01:15 AM,N,other",
)
IMAGES: dict[str, Any] = {"layout": layout("digit"), "digit": {"type": "enum", "count": 2}}
SPECS: tuple[dict[str, Any], ...] = (
    COLUMNS,
    IMAGES,
    {
        "born": {"type": "enum", "count": 400, "treat_as": "number-or-missing"},
        "region": {"derived": {"from": "born", "floordiv": 100}},
        "town": {"type": "enum", "values_from": "data", "domain_privacy": "private", "optional": True},
        "zip": {"type": "enum", "values_from": "data", "domain_privacy": "waived", "count": 7},
        "id": {"type": "string", "uuid": True},
        "key": {"type": "integer", "uuid": True, "min": 5},
        "one": {"type": "constant", "value": "x"},
        "name": {"type": "drop"},
        "unit": {"column": "name", "max_rows": 2},
        "income": {"type": "float", "min": 0, "max": 100, "decimals": 1, "bins": [0, 10, 50, 100], "missing": ["-9"]},
        "age": {"type": "integer", "min": 0, "max": 99, "bins": 10, "optional": True, "width": 2},
        "twice": {"derived": {"from": "age", "multiply": 2, "missing": "?"}},
        "town-code": {"derived": {"from": "sex", "map": {"0": "a", "1": "b"}}},
        "old": {"type": "enum", "derived": {"sql": "CASE WHEN age > 9 THEN 'y' ELSE 'n' END"}},
        "sex": {"type": "enum", "count": 2},
        "in": {"type": "datetime", "min": "2020-01-01", "max": "2020-12-31", "zone": "Europe/Berlin", "step": "1 hour"},
        "out": {"type": "datetime", "since": "in", "min": "0 days", "max": "9 days", "step": "1 hour"},
        "born on": {
            **{"type": "date", "min": "1900-01-01", "max": "2000-01-01", "step": "3 months", "format": "%-d %b %Y"},
        },
        "rules": ["born > 3 OR born IS NULL", {"columns": ["born", "sex"], "forbidden": [[3, 1], [None, 0]]}],
    },
)
RULES: tuple[Any, ...] = (
    *("age > 3 OR colour = 'red'", "income IS NULL OR age BETWEEN 3 AND 9", "NOT (code IN (1, 2)) AND member"),
    *("day < DATE '2020-02-01'", "CASE WHEN age > 5 THEN income < 3 ELSE TRUE END", "LENGTH(colour) + ABS(age) > 2"),
    {"sql": "age * 2 >= income - 1", "violations": "drop"},
    {"columns": ["colour", "code"], "allowed": [["red", 1], ["green", None]], "violations": "keep"},
)
# What an SQL expression may be made of, beside the rules' own words.
SQL = (
    *("(", ")", "AND", "OR", "NOT", "NULL", "IS", "IN", "LIKE", "'%'", "CAST(age AS TEXT)", "SUM(age)", "OVER"),
    *("SELECT", "1", "-1", "1e308", "9" * 30, "'", '"', "age", "colour", "day", "at", "*", "/", "0", ";", "--", "||"),
    *("ARRAY[1]", "::", "INTERVAL '1 day'", "EXISTS (SELECT 1)", "age::DATE", "ROUND(income, 99)"),
    *("SUBSTR(colour, 1, -1)", "x'ff'", "$1"),
)
ARGUMENTS: tuple[tuple[str, ...], ...] = tuple(
    tuple(shlex.split(line))
    for line in (
        "data.csv out.csv specs.json 1.0",
        "data.csv - specs.json 0.5 1e-6 --method query-gan --rounds 3 --claim c.json",
        "data.csv out.csv specs.json 1 --batch-size 8 --steps 3 --hidden-critic 8,8 --quiet",
        "--from-model model out.csv --rows 3 --where 'age > 3'",
        "data.csv out.csv specs.json 1 --config c.toml --log-format json --memory 2GB",
    )
)
CONFIG = b"""method = "dp-wgan"
batch-size = 8
steps = 3
hidden-critic = [8, 8]
noise-multiplier = 1.5e0
neighbours = "replace-one"
claim = "c.json"
quiet = true
"""
CLUSTER: dict[str, Any] = {
    "cluster": {"chief": ["a:1"], "worker": ["b:2", "c:3"]},
    "task": {"type": "worker", "index": 1},
}


def write_corpus() -> None:
    """Writes the seeds that are binary anew: `python -m tests.fuzz.seeds`."""
    import numpy as np
    import polars as pl

    cells = [line.split(",") for line in LINES[1:]]
    text = pl.DataFrame(cells, schema=list(COLUMNS), orient="row")
    text.write_parquet(CORPUS / "text.parquet", compression="uncompressed")
    typed = text.with_columns(
        pl.col("age").cast(pl.Int16, strict=False),
        pl.col("income").cast(pl.Float64),
        pl.col("day").str.to_date("%d.%m.%Y"),
        pl.col("at").str.to_datetime(),
        pl.col("colour").cast(pl.Categorical),
        pl.col("member").is_in(["Y", "yes"]),
    )
    typed.write_parquet(CORPUS / "typed.parquet", compression="snappy")
    images, labels = np.zeros((3, 2, 2), np.uint8), np.array([0, 1, 1])
    np.savez(CORPUS / "plain.npz", images=images, labels=labels)
    np.savez_compressed(CORPUS / "packed.npz", images=images, labels=labels.astype(str))


@cache
def read_corpus(ending: str) -> list[bytes]:
    """The kept files of an ending, each a seed and, as it stands, a case."""
    return [path.read_bytes() for path in sorted(CORPUS.glob(f"*{ending}"))]


def read_specs_corpus() -> list[Any]:
    """The specs to start from, and those kept."""
    return [*SPECS, *(json.loads(text) for text in read_corpus(".json"))]


if __name__ == "__main__":
    write_corpus()
