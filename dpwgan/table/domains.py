"""Lists of cells that the specs leave to the data: released by a private mechanism, or taken as they stand."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Protocol

import numpy as np
import polars as pl

from dpwgan.errors import DataError, PrivacyError, SpecsError
from dpwgan.privacy.events import StableSelection
from dpwgan.table.findings import Findings
from dpwgan.table.numerals import are_same_cell, read_number
from dpwgan.table.schema import CategoricalColumn, Column, Schema, UndiscoveredColumn

MOST_CATEGORIES = 10_000


class SelectCategories(Protocol):
    """A private mechanism that releases some of the cells it is given counts of, and the event to account for."""

    def __call__(
        self, counts: Mapping[str, int], *, epsilon: float, delta: float, rng: np.random.Generator
    ) -> tuple[Sequence[str], StableSelection]:
        """Releases (epsilon, delta)-differentially private cells, where one record adds 1 to one count."""


def discover_domains(
    frames: pl.DataFrame | Iterable[pl.DataFrame],
    schema: Schema,
    *,
    select: SelectCategories | None = None,
    reserved: Mapping[str, StableSelection] | None = None,
    rng: np.random.Generator | None = None,
    charge: Callable[[str], None] | None = None,
    most_categories: int = MOST_CATEGORIES,
) -> Schema:
    """Gives every undiscovered column its list of cells; the other columns stay as they are.

    A "waived" column takes all cells that occur, sorted. A "private" column takes those that `select` releases with
    the epsilon and delta of the event in `reserved` under its name. A cell that was not released counts as the column's
    first missing code, so such a column must have one. Whole numbers in an integer column are one cell in every
    spelling. An empty cell is legal only where "" is a missing code.

    Privacy: one record adds 1 to one count of each column. "private" is as private as `select`, and what `select` says
      that it spent has to be what was reserved; "waived" is not covered by the guarantee. `charge` is called with the
      name of every private column before the first row is read.
    Raises: SpecsError if a private column has no missing code or there is nothing to select with; PrivacyError if
      `select` spent anything but what was reserved; DataError if a waived column has more than `most_categories` cells,
      or cells that the specs rule out.
    """
    columns = [column for column in schema.columns if isinstance(column, UndiscoveredColumn)]
    for column in columns:
        if column.privacy == "private" and not column.missing:
            raise SpecsError(
                f"Column {column.name!r}: a private list of cells needs a missing code, for the cells not released."
            )
        if column.privacy == "private" and (select is None or rng is None or column.name not in (reserved or {})):
            raise SpecsError(f"Column {column.name!r}: its list of cells cannot be selected privately here.")
    if charge is not None:
        for column in columns:
            if column.privacy == "private":
                charge(column.name)
    counts: dict[str, Counter[str]] = {column.name: Counter() for column in columns}
    if columns:
        for frame in [frames] if isinstance(frames, pl.DataFrame) else frames:
            for column in columns:
                for cell, rows in frame.get_column(column.name).value_counts(name="rows").iter_rows():
                    counts[column.name][cell] += rows

    findings = Findings()
    merged = {column.name: _merge_spellings(counts[column.name], column, findings) for column in columns}
    findings.raise_if_any()

    discovered: dict[str, Column] = {}
    for column in columns:
        if column.privacy == "waived":
            values: Sequence[str] = list(merged[column.name])
            if len(values) > most_categories:
                raise DataError(f"Column {column.name!r} has more than {most_categories:,} distinct cells.")
        else:
            if select is None or rng is None or reserved is None:  # seen to above, for every column at once
                raise SpecsError(f"Column {column.name!r}: its list of cells cannot be selected privately here.")
            event = reserved[column.name]
            values, spent = select(merged[column.name], epsilon=event.epsilon, delta=event.delta, rng=rng)
            if spent != event:
                raise PrivacyError(f"Column {column.name!r}: selecting its cells spent other than what was reserved.")
        discovered[column.name] = CategoricalColumn(
            name=column.name,
            tokens=(*sorted(values, key=_order), *column.missing),
            missing=column.missing,
            integer=column.integer,
            out_of_domain="missing" if column.privacy == "private" else "reject",
            domain=column.privacy,
        )
    return replace(schema, columns=tuple(discovered.get(column.name, column) for column in schema.columns))


def _merge_spellings(counts: Mapping[str, int], column: UndiscoveredColumn, findings: Findings) -> dict[str, int]:
    """Adds up the counts of cells that are one and the same, and leaves out the missing codes.

    In a private column a cell that the specs rule out is left out as well: it then counts as missing.
    """
    merged: Counter[str] = Counter()
    for cell, rows in counts.items():
        if cell in column.missing or (column.integer and any(are_same_cell(cell, code) for code in column.missing)):
            continue
        if column.integer:
            number = read_number(cell)
            if number is None or number != number.to_integral_value():
                if column.privacy == "waived":
                    findings.add(column.name, "is not a whole number", rows)
                continue
            merged[str(int(number))] += rows
        elif cell == "":
            if column.privacy == "waived":
                findings.add(column.name, "is empty", rows)
        else:
            merged[cell] += rows
    return dict(merged)


def _order(cell: str) -> tuple[int, Decimal, str]:
    number = read_number(cell)
    return (0, number, cell) if number is not None else (1, Decimal(0), cell)
