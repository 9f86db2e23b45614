"""Two columns of which one is told by its distance from the other: moments since, and numbers above."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from dpwgan.errors import DpwganError
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.specs import parse_specs

NOON = "2023-06-01 12:00"
BEGAN = {"type": "datetime", "format": "%Y-%m-%d %H:%M", "min": "2023-01-01", "max": "2023-12-31"}
STAY = BEGAN | {"since": "a", "min": "0 days", "max": "60 days"}
DELAY = BEGAN | {"since": "a", "min": "-30 minutes", "max": "1 day"}
TIME = {"type": "time", "format": "%H:%M", "step": "30 minutes"}
SHIFT = TIME | {"since": "a", "min": "0 hours", "max": "12 hours"}
BASE = {"type": "float", "min": -10, "max": 1000, "decimals": 2}
GROSS = {"type": "float", "above": "a", "min": 0, "max": 500}
COUNT = {"type": "integer", "min": 0, "max": 90}


def make(first: dict[str, Any], second: dict[str, Any]) -> TableEncoder:
    return TableEncoder(parse_specs({"b": second, "a": first}, sha256="0"), ["a", "b"])


def frame(*rows: tuple[str, str]) -> pl.DataFrame:
    return pl.DataFrame({"a": [row[0] for row in rows], "b": [row[1] for row in rows]})


def draw_legal(first: dict[str, Any], second: dict[str, Any]) -> pl.DataFrame:
    """Rows of whatever a method may give, both of whose cells are there; all drawn have been checked."""
    encoder = make(first | {"optional": True}, second | {"missing": ["never"], "optional": True})
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(span.categories, size=500) for span in encoder.spans if span.head != "linear"], 1)
    numbers = rng.uniform(-0.2, 1.2, (500, sum(span.head == "linear" for span in encoder.spans)))
    encoded = EncodedTable(codes=codes.astype(np.int32), numbers=numbers.astype(np.float32), spans=encoder.spans)
    drawn = encoder.decode(encoded, rng)
    encoder.validate(drawn)
    assert set(drawn.filter(pl.col("a") == "").get_column("b").to_list()) <= {"", "never"}
    # The check of the output is one that can fail.
    with pytest.raises(DpwganError, match=r"is not as (long after|far above)"):
        encoder.validate(drawn.with_columns(b=pl.col("b").reverse()))
    return drawn.filter((pl.col("a") != "") & ~pl.col("b").is_in(["", "never"]))
