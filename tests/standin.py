"""Stand-in tables: made-up rows that any schema allows, for data sets that are not to be had."""

import csv
import uuid
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpwgan.table.schema import CategoricalColumn, Column, DerivedColumn, IdentifierColumn, NumericColumn, Schema

Cells = npt.NDArray[np.object_]


def draw_standin(schema: Schema, *, records: int, seed: int) -> dict[str, list[str]]:
    """Draws `records` rows of legal cells, in the order of the schema; derived columns follow from their sources.

    Cells are as uneven as real ones: a few categories and small numbers hold most rows, many are rare or absent.
    Columns are independent of each other. The same seed gives the same rows.
    """
    rng = np.random.default_rng(seed)
    table = {column.name: _draw_cells(column, records, rng) for column in schema.columns}
    for column in schema.columns:
        if isinstance(column, DerivedColumn):
            table[column.name] = _derive_cells(column, schema, table[column.source])
    return {name: cells.tolist() for name, cells in table.items()}


def write_standin(path: Path, schema: Schema, *, records: int, seed: int) -> None:
    """Writes a stand-in table as CSV."""
    table = draw_standin(schema, records=records, seed=seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))


def _draw_cells(column: Column, records: int, rng: np.random.Generator) -> Cells:
    if isinstance(column, CategoricalColumn):
        return _draw_skewed(column.tokens, records, rng)
    if isinstance(column, NumericColumn):
        fractions = rng.beta(1.0, 20.0, size=records)
        # One row at each end, so that the whole range is met.
        fractions[: min(2, records)] = (0.0, 1.0)[:records]
        numbers = column.minimum + fractions * (column.maximum - column.minimum)
        if column.integer:
            numbers = np.rint(numbers)
        cells = np.array([f"{number:.{column.decimals}f}" for number in numbers], dtype=object)
        if column.missing:
            absent = rng.random(records) < 0.4
            cells[absent] = _draw_skewed(column.missing, int(absent.sum()), rng)
        return cells
    if isinstance(column, IdentifierColumn):
        if column.start is not None:
            return np.array([str(column.start + 7 * index) for index in range(records)], dtype=object)
        return np.array([str(uuid.UUID(bytes=rng.bytes(16), version=4)) for _ in range(records)], dtype=object)
    if isinstance(column, DerivedColumn):
        return np.empty(0, dtype=object)  # follows when its source is drawn
    raise TypeError(f"{column.name}: a stand-in needs a public domain.")


def _draw_skewed(tokens: tuple[str, ...], records: int, rng: np.random.Generator) -> Cells:
    """Draws tokens with the rank-size law, the ranks dealt out at random."""
    weights = 1.0 / np.arange(1, len(tokens) + 1) ** 1.2
    rng.shuffle(weights)
    chosen: Cells = np.array(tokens, dtype=object)[rng.choice(len(tokens), size=records, p=weights / weights.sum())]
    return chosen


def _derive_cells(column: DerivedColumn, schema: Schema, sources: Cells) -> Cells:
    source = schema.by_name[column.source]
    missing = source.missing if isinstance(source, CategoricalColumn | NumericColumn) else ()
    derived = {cell: column.derive(cell, available=cell not in missing) for cell in set(sources)}
    return np.array([derived[cell] for cell in sources], dtype=object)
