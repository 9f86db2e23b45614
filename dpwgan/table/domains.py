"""Lists of cells that the specs leave to the data: released by a private mechanism, or taken as they stand."""

import functools
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from decimal import Decimal

import polars as pl

from dpwgan.array_types import Flags
from dpwgan.errors import DataError, DpwganError, SpecsError, quote
from dpwgan.table.findings import Findings
from dpwgan.table.numerals import are_same_cell, read_beginning, read_number
from dpwgan.table.schema import CategoricalColumn, Column, Schema, UndiscoveredColumn

MOST_CATEGORIES = 10_000

SelectCells = Callable[[Sequence[str], Callable[[], Sequence[Mapping[str, int]]]], Sequence[Sequence[str]]]
"""Releases some of the cells of the named columns, privately; what it is given counts their cells, once."""


def discover_domains(
    frames: Iterable[pl.DataFrame],
    schema: Schema,
    *,
    select: SelectCells | None = None,
    firsts: Flags | None = None,
) -> Schema:
    """Gives every undiscovered column its list of cells; the other columns stay as they are.

    A "waived" column takes all cells that occur, sorted. A "private" column takes those that `select` releases, which
    is given the names of all such columns and counts their cells when it has charged for them. A cell that was not
    released counts as the column's first missing code. Whole numbers in an integer column are one cell in every
    spelling. An empty cell is legal only where "" is a missing code. A column that units share is counted once a unit:
    in the rows that are `firsts` of theirs.

    Privacy: one record adds 1 to one count of each column, and so do all of a unit in a column that it shares.
      "private" is as private as `select`, within which the first row is read; "waived" is not covered by the guarantee.
    Raises: SpecsError if there is nothing to select with; DataError if a waived column has more than
      `MOST_CATEGORIES` cells, or cells that the specs rule out.
    """
    columns = schema.undiscovered
    private = [column.name for column in columns if column.privacy == "private"]
    if private and select is None:
        raise SpecsError(f"Column {quote(private[0])}: its list of cells cannot be selected privately here.")
    shared = () if schema.unit is None else schema.unit.shared
    if firsts is None and {*private} & {*shared}:
        raise DpwganError("Internal error: whose rows are whose is not known, so that no unit can be counted once.")

    # In one pass over all columns, and only when it was charged for.
    count = functools.cache(lambda: _count_cells(frames, columns, once=firsts, shared=shared))

    chosen: dict[str, Sequence[str]] = {}
    if private and select is not None:
        selected = select(private, lambda: [count()[name] for name in private])
        chosen = dict(zip(private, selected, strict=True))

    discovered: dict[str, Column] = {}
    for column in columns:
        values = chosen[column.name] if column.name in chosen else list(count()[column.name])
        if column.privacy == "waived" and len(values) > MOST_CATEGORIES:
            raise DataError(f"Column {quote(column.name)} has more than {MOST_CATEGORIES:,} distinct cells.")
        discovered[column.name] = CategoricalColumn(
            name=column.name,
            tokens=(*sorted(values, key=_order), *column.missing),
            missing=column.missing,
            integer=column.integer,
            out_of_domain="missing" if column.privacy == "private" else "reject",
            domain=column.privacy,
        )
    return schema.put(*discovered.values())


def _count_cells(
    frames: Iterable[pl.DataFrame],
    columns: Sequence[UndiscoveredColumn],
    *,
    once: Flags | None,
    shared: Container[str],
) -> dict[str, dict[str, int]]:
    """Counts the records of each cell of each column, those of `shared` ones that are flagged in `once`.

    Raises: DataError for cells that the specs rule out.
    """
    counts: dict[str, Counter[str]] = {column.name: Counter() for column in columns}
    start = 0
    for frame in frames if columns else ():
        for column in columns:
            cells = frame.get_column(column.name)
            if once is not None and column.name in shared:
                cells = cells.filter(pl.Series(once[start : start + frame.height]))
            for cell, rows in cells.value_counts(name="rows").iter_rows():
                counts[column.name][cell] += rows
        start += frame.height
    findings = Findings()
    merged = {column.name: _merge_spellings(counts[column.name], column, findings) for column in columns}
    findings.raise_if_any()
    return merged


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
    number = read_beginning(cell)
    return (0, number, cell) if number is not None else (1, Decimal(0), cell)
