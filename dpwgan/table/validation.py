"""The last check before a table leaves: every cell against the specs, by means that share nothing with decoding."""

import re
from fractions import Fraction

import polars as pl

from dpwgan.errors import DpwganError
from dpwgan.table.findings import describe
from dpwgan.table.schema import CategoricalColumn, DerivedColumn, IdentifierColumn, NumericColumn, Schema

# Version 4, variant 1: RFC 9562, section 5.4.
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"


def check_cells(frame: pl.DataFrame, schema: Schema) -> None:
    """Checks every output cell against the specs.

    Categorical cells have to be listed; numbers have to be written plainly, with the column's digits and in its range;
    derived cells have to follow from the source cell beside them; identifiers have to count up or be distinct UUIDs.

    Privacy: sees the output only.
    Raises: DpwganError, an internal error, naming column, rule and count of rows.
    """
    wrong: dict[tuple[str, str], int] = {}
    for column in schema.columns:
        cells = frame.get_column(column.name)
        if cells.dtype not in (pl.String, pl.Enum) or cells.null_count():
            rule, rows = "is not text", frame.height
        elif isinstance(column, CategoricalColumn):
            rule, rows = "is not listed in the specs", _count_bad_cells(cells, column)
        elif isinstance(column, NumericColumn):
            rule, rows = "is not a number of the column's form and range", _count_bad_cells(cells, column)
        elif isinstance(column, DerivedColumn):
            rule, rows = "does not follow from its source", _count_bad_derived(frame, column, schema)
        elif isinstance(column, IdentifierColumn):
            rule, rows = "is not a fresh identifier", _count_bad_identifiers(cells, column)
        else:
            rule, rows = "belongs to a column without a list of cells", frame.height
        if rows:
            wrong[column.name, rule] = rows
    if wrong:
        raise DpwganError(f"Internal error: the output does not fit the specs: {describe(wrong)}.")


def _count_bad_cells(cells: pl.Series, column: CategoricalColumn | NumericColumn) -> int:
    seen = cells.unique().cast(pl.String)
    legal = seen.is_in(list(column.tokens)) if isinstance(column, CategoricalColumn) else _are_legal(seen, column)
    return 0 if legal.all() else int(cells.cast(pl.String).is_in(seen.filter(~legal).to_list()).sum())


def _are_legal(cells: pl.Series, column: NumericColumn) -> pl.Series:
    if column.decimals:
        behind_point = f"0{{{column.decimals}}}" if column.integer else f"[0-9]{{{column.decimals}}}"
        form = rf"^-?(0|[1-9][0-9]*)\.{behind_point}$"
    else:
        form = r"^-?(0|[1-9][0-9]*)$"
    values = cells.cast(pl.Float64, strict=False)
    in_range = (values >= column.minimum) & (values <= column.maximum)
    legal = cells.str.contains(form) & in_range.fill_null(False)
    if column.missing:
        legal |= cells.is_in(list(column.missing))
    return legal


def _count_bad_derived(frame: pl.DataFrame, column: DerivedColumn, schema: Schema) -> int:
    source = schema.by_name[column.source]
    if not isinstance(source, CategoricalColumn | NumericColumn):
        return frame.height
    pairs = frame.select(pl.col(column.source).alias("source"), pl.col(column.name).alias("derived"))
    counts = pairs.group_by("source", "derived").len().cast({"source": pl.String, "derived": pl.String})
    return sum(
        rows
        for cell, derived, rows in zip(counts["source"], counts["derived"], counts["len"], strict=True)
        if not _follows(cell, derived, column, is_missing=cell in source.missing)
    )


def _follows(cell: str, derived: str, column: DerivedColumn, *, is_missing: bool) -> bool:
    if is_missing and column.missing is not None:
        return derived == column.missing
    if column.mapping is not None:
        return column.mapping.get(cell) == derived
    if is_missing:
        return derived == cell
    form = rf"-?[0-9]{{{max(column.width, 1)},}}" + (rf"\.0{{{column.decimals}}}" if column.decimals else "")
    if not re.fullmatch(form, derived, re.ASCII):
        return False
    try:
        number = _read_exactly(cell)
    except ValueError:
        return False
    expected = number * column.multiply if column.multiply is not None else number // (column.floordiv or 1)
    return _read_exactly(derived) == expected


def _read_exactly(cell: str) -> int | Fraction:
    """Reads a number. Raises: ValueError."""
    # Some ten times as fast as a fraction, and most are whole.
    return int(cell) if cell.isascii() and cell.isdecimal() else Fraction(cell)


def _count_bad_identifiers(cells: pl.Series, column: IdentifierColumn) -> int:
    bad = cells.len() - cells.n_unique()
    if column.start is not None:
        numbers = cells.cast(pl.Int64, strict=False)
        counts_up = (numbers.diff().drop_nulls() == 1).all() and numbers.null_count() == 0
        return bad if counts_up and (not len(numbers) or numbers[0] >= column.start) else cells.len()
    return max(bad, int((~cells.str.contains(_UUID)).sum()))
