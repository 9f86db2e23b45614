"""What numbers come to, real beside synthetic: means, spreads, quantiles, means by group, totals. NOT private."""

from typing import Any

import numpy as np

from dpwgan.array_types import Integers
from dpwgan.evaluate.tables import ComparedColumn, ComparedTable

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
MOST_GROUPS = 12
"""Of a column by whose cells rows are grouped; of more categories the rarest are one, and numbers are cut at tenths."""


def describe_numbers(real: ComparedTable, synthetic: ComparedTable) -> list[dict[str, Any]]:
    """For each number what `describe_number` says of both tables."""
    return [
        {
            "name": real.columns[place].name,
            **{name: describe_number(table, place) for name, table in (("real", real), ("synthetic", synthetic))},
        }
        for place in real.numeric
    ]


def describe_number(table: ComparedTable, place: int) -> dict[str, Any]:
    """Mean, standard deviation and quantiles of a number where it is not missing, and the share of rows where it is.

    None for each where it is missing in all rows.
    Units: those of the column; of moments the mean and quantiles are written as such, and `unit` is the deviation's.
    """
    numbers, write = table.numbers[:, place], table.columns[place].write
    length, unit = table.columns[place].step
    there = numbers[~np.isnan(numbers)]
    if len(there):
        found = [there.mean(), *np.quantile(there, QUANTILES, method="inverted_cdf")]
    else:
        found = [None] * (1 + len(QUANTILES))
    mean, *shown = (value if value is None else write(round(value)) if write else float(value) for value in found)
    return {
        "missing": 1.0 - len(there) / table.rows,
        "mean": mean,
        "stddev": length * float(there.std(ddof=1)) if len(there) > 1 else None,
        "unit": unit,
        "quantiles": {f"{level:.2f}": value for level, value in zip(QUANTILES, shown, strict=True)},
    }


def describe_groups(real: ComparedTable, synthetic: ComparedTable, by: int, weights: list[int]) -> dict[str, Any]:
    """The rows by their cells of one column: their share, the mean of each number, and the total of each weight.

    Totals are those of as many rows as the real table's file has.
    """
    groups, labels = group_cells(real, by)
    tables = {"real": real, "synthetic": synthetic}
    keys = {name: groups[table.cells[:, by]] for name, table in tables.items()}
    counts = {name: np.bincount(own, minlength=len(labels)) for name, own in keys.items()}
    numbers = []
    for place in real.numeric:
        # A moment is written in words, which have no mean.
        if place == by or real.columns[place].write:
            continue
        means, totals = {}, {}
        for name, table in tables.items():
            there = ~np.isnan(table.numbers[:, place])
            own, values = keys[name][there], table.numbers[there, place]
            many = np.bincount(own, minlength=len(labels))
            sums = np.bincount(own, weights=values, minlength=len(labels))
            means[name] = [float(total / count) if count else None for total, count in zip(sums, many, strict=True)]
            totals[name] = (sums / table.rows * real.records).tolist()
        numbers.append(
            {"name": real.columns[place].name, "means": means, "totals": totals if place in weights else None}
        )
    return {
        "column": real.columns[by].name,
        "groups": labels,
        "shares": {name: (own / own.sum()).tolist() for name, own in counts.items()},
        "numbers": numbers,
    }


def add_up(real: ComparedTable, synthetic: ComparedTable, weight: int) -> dict[str, Any]:
    """The total of a weight in both tables, as of as many rows as the real table's file has."""
    totals = (float(np.nansum(table.numbers[:, weight])) / table.rows * real.records for table in (real, synthetic))
    return {"column": real.columns[weight].name, **dict(zip(("real", "synthetic"), totals, strict=True))}


def group_cells(real: ComparedTable, place: int) -> tuple[Integers, list[str]]:
    """Puts the cells of a column into at most `MOST_GROUPS` groups. Shapes: (cells,) the group of each, and names."""
    column = real.columns[place]
    counts = np.bincount(real.cells[:, place], minlength=column.cells)
    if column.cells <= MOST_GROUPS:
        return np.arange(column.cells), list(column.labels)
    if column.kind == "categorical":
        order = np.argsort(-counts, kind="stable")
        common = order[: MOST_GROUPS - 1]
        groups = np.full(column.cells, len(common))
        groups[common] = np.arange(len(common))
        return groups, [*(column.labels[cell] for cell in common), f"{column.cells - len(common):,} others"]
    return _cut_at_tenths(column, counts)


def _cut_at_tenths(column: ComparedColumn, counts: Integers) -> tuple[Integers, list[str]]:
    numbers = column.cells - len(column.missing)
    before = np.concatenate([[0], np.cumsum(counts[:numbers])[:-1]]) / max(1, counts[:numbers].sum())
    starts = np.flatnonzero(np.diff(np.floor(10.0 * before), prepend=-1.0))
    groups = np.searchsorted(starts, np.arange(numbers), side="right") - 1
    lasts = [*(starts[1:] - 1), numbers - 1]
    names = [
        f"{column.labels[first].partition(' to ')[0]} to {column.labels[last].rpartition(' to ')[2]}"
        for first, last in zip(starts, lasts, strict=True)
    ]
    absent = [column.labels[cell] for cell in column.missing]
    return np.concatenate([groups, len(names) + np.arange(len(absent))]), names + absent
