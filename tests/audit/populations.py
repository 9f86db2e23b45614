"""Small tables drawn from one population: categories, numbers and a number that may be missing."""

import numpy as np

from dpwgan.audit.attacks.base import AttackSettings, Game
from dpwgan.evaluate.tables import ComparedColumn, ComparedTable
from dpwgan.table.specs import parse_specs

# So that a test fails by chance once in a million runs: each interval errs with half of what its confidence leaves.
FALSE_ALARM = 1e-6
CONFIDENCE = 1.0 - 2.0 * FALSE_ALARM

SPECS = {
    "region": {"type": "enum", "count": 6},
    "job": {"type": "enum", "count": 8},
    "kind": {"type": "enum", "count": 3},
    "age": {"type": "float", "min": -4, "max": 4, "decimals": 6},
    "wage": {"type": "float", "min": -8, "max": 8, "decimals": 6},
    "debt": {"type": "float", "min": -4, "max": 4, "decimals": 6, "missing": ["N"]},
    "group": {"type": "enum", "count": 2},
}
SCHEMA = parse_specs(SPECS, sha256="0" * 64)


def draw_table(rows, rng):
    """Draws rows that depend on one another's columns, each row by itself."""
    region, job = rng.integers(6, size=rows), rng.integers(8, size=rows)
    age = np.clip(rng.normal(size=rows) + (region - 2.5) / 3, -4, 4)
    wage = np.clip(age + (job - 3.5) / 4 + rng.normal(size=rows), -8, 8)
    debt = np.clip(rng.normal(size=rows), -4, 4)
    debt[rng.random(rows) < 0.1] = np.nan
    group = (wage + rng.normal(size=rows) > 0).astype(float)
    kind = rng.choice(3, size=rows, p=[0.6, 0.3, 0.1])
    return make_table(np.column_stack([region, job, kind, age, wage, debt, group]))


def make_table(numbers):
    """Makes a table of these specs from one number a cell."""
    columns, cells = [], np.empty(numbers.shape, dtype=np.int32)
    for place, (name, spec) in enumerate(SPECS.items()):
        values, ends = numbers[:, place], {}
        if spec["type"] == "enum":
            kind, labels = "categorical", tuple(map(str, range(spec["count"])))
            cells[:, place] = values
        else:
            ends = {"minimum": spec["min"], "maximum": spec["max"]}
            kind = "number_or_missing" if "missing" in spec else "number"
            labels = tuple(map(str, range(100 + ("missing" in spec))))
            share = (np.nan_to_num(values, nan=spec["min"]) - spec["min"]) / (spec["max"] - spec["min"])
            cells[:, place] = np.where(np.isnan(values), 100, np.minimum((share * 100).astype(int), 99))
        columns.append(ComparedColumn(name=name, kind=kind, labels=labels, **ends))
    return ComparedTable(columns=tuple(columns), cells=cells, numbers=numbers.astype(np.float64))


def shake(table, rng):
    """Moves every number by a hair, so that no row stays exactly as it is."""
    numbers = table.numbers.copy()
    for place, spec in enumerate(SPECS.values()):
        if spec["type"] == "float":
            moved = numbers[:, place] + rng.normal(scale=1e-4, size=len(numbers))
            numbers[:, place] = np.clip(moved, spec["min"], spec["max"])
    return make_table(numbers)


def make_game(synthetic, *, real, holdout, **settings):
    """Makes a game of these tables, at a false alarm rate of 1e-6 unless told otherwise."""
    return Game(
        real=real,
        synthetic=synthetic,
        holdout=holdout,
        schema=SCHEMA,
        settings=AttackSettings(**{"confidence": CONFIDENCE, "rows": 400, **settings}),
    )
