"""Small tables for the tests of the evaluation: written as CSV and specs, or made of cells at once."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpwgan.evaluate.tables import ComparedColumn, ComparedTable, read_compared
from dpwgan.table.specs import parse_specs

Row = list[str]

SPECS: dict[str, Any] = {
    "SEX": {"type": "enum", "values": [1, 2]},
    "CITY": {"type": "enum", "count": 5},
    "INCWAGE": {"type": "integer", "min": 0, "max": 4000, "missing": [999998]},
    "job": {"type": "enum", "values": ["a", "b", "c"], "missing": ["?"]},
    "age": {"type": "integer", "min": 0, "max": 16},
    "weight": {"type": "float", "min": -1.5, "max": 2.5, "decimals": 2, "optional": True},
    "flat": {"type": "enum", "values": ["x"]},
    "next": {"derived": {"from": "age", "multiply": 2}},
}


def draw_rows(seed: int, *, rows: int, cities: int = 5) -> list[Row]:
    """Draws rows that SPECS allows, unevenly; many numbers lie on the border of a bucket."""
    rng = np.random.default_rng(seed)
    table = []
    for _ in range(rows):
        age = int(rng.integers(0, 17))
        wage = "999998" if rng.random() < 0.2 else str(int(rng.integers(0, 401)) * 10)
        table.append(
            [
                rng.choice(["1", "2"], p=[0.7, 0.3]),
                str(int(rng.integers(0, cities))),
                wage,
                rng.choice(["a", "b", "c", "?"]),
                str(age),
                "" if rng.random() < 0.3 else f"{rng.uniform(-1.5, 2.5):.2f}",
                "x",
                str(2 * age),
            ]
        )
    return table


def write_specs(path: Path, specs: dict[str, Any] | None = None) -> Path:
    """Writes a specs file."""
    path.write_text(json.dumps(SPECS if specs is None else specs), encoding="utf-8")
    return path


def write_rows(path: Path, rows: list[Row], *, header: list[str] | None = None) -> Path:
    """Writes a table as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(list(SPECS) if header is None else header)
        writer.writerows(rows)
    return path


def read_rows(path: Path, rows: list[Row], specs: dict[str, Any] = SPECS, **more: Any) -> ComparedTable:
    """Writes a table as CSV, and reads it for comparison by its specs."""
    return read_compared(write_rows(path, rows, header=list(specs)), parse_specs(specs, sha256=""), **more)


def make_categorical(cells: Any, sizes: list[int]) -> ComparedTable:
    """Makes a table of categorical columns out of cells. Shapes: (n, columns)."""
    array: npt.NDArray[np.int32] = np.asarray(cells, dtype=np.int32)
    columns = tuple(
        ComparedColumn(name=f"c{place}", kind="categorical", labels=tuple(f"v{cell}" for cell in range(size)))
        for place, size in enumerate(sizes)
    )
    return ComparedTable(columns=columns, cells=array, numbers=array.astype(np.float64))


def make_numeric(numbers: Any, *, minimum: float, maximum: float, buckets: int = 10) -> ComparedTable:
    """Makes a table of numbers that may be missing (NaN). Shapes: (n, columns)."""
    array: npt.NDArray[np.float64] = np.asarray(numbers, dtype=np.float64)
    column = {
        "kind": "number_or_missing",
        "labels": (*(f"b{place}" for place in range(buckets)), "missing"),
        "missing": (buckets,),
        "minimum": minimum,
        "maximum": maximum,
    }
    filled = np.where(np.isnan(array), minimum, array)
    cells = np.minimum((filled - minimum) / (maximum - minimum) * buckets, buckets - 1).astype(np.int32)
    cells[np.isnan(array)] = buckets
    columns = tuple(ComparedColumn(name=f"n{place}", **column) for place in range(array.shape[1]))  # type: ignore[arg-type]
    return ComparedTable(columns=columns, cells=cells, numbers=array)


def draw_categorical(seed: int, *, rows: int, sizes: list[int]) -> ComparedTable:
    """Draws a table of categorical columns, each uneven and depending on the one before."""
    rng = np.random.default_rng(seed)
    cells = np.empty((rows, len(sizes)), dtype=np.int32)
    for place, size in enumerate(sizes):
        drawn = np.floor(size * rng.random(rows) ** 2).astype(np.int32)
        keep = rng.random(rows) < 0.5 if place else np.zeros(rows, dtype=bool)
        cells[:, place] = np.where(keep, cells[:, place - 1] % size, drawn)
    return make_categorical(cells, sizes)


def is_close(left: float, right: float, *, tolerance: float = 1e-9) -> bool:
    """Says whether two scores are equal but for rounding."""
    return math.isclose(left, right, rel_tol=tolerance, abs_tol=tolerance)
