"""Parquet files: a table whose columns have types of their own, read as the cells of the same table in CSV.

Text is the cell as it stands, null the empty cell. A number, truth value or date is written by what the value itself
means, as `dpwgan.data.frames` does it for pandas; what a column may hold is still said by the specs alone. Written are
the types that the specs ask for: whole numbers, doubles, and text for everything else.
"""

import io
from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl

from dpwgan.data.findings import Findings
from dpwgan.data.frames import Refusal, Speller, choose_type
from dpwgan.data.header import check_header
from dpwgan.data.source import SourceTable
from dpwgan.errors import DataError
from dpwgan.schema import Schema

_NO_CELL = Refusal("has a type that no cell can have")


def open_parquet(data: bytes, schema: Schema, *, name: str) -> SourceTable:
    """Opens a Parquet file as a table of string cells.

    Privacy: a row's cells are a function of that row's values and the specs.
    Raises: DataError if it is not Parquet, has no rows, its columns and the specs differ, or a value does not say which
      cell it is.
    """
    try:
        frame = pl.read_parquet(io.BytesIO(data))
    except pl.exceptions.PolarsError:
        # Its own words may quote cells.
        raise DataError(f"{name} is not a Parquet file that can be read.") from None
    check_header(frame.columns, schema)
    if not frame.height:
        raise DataError("The table has a header but no rows.")
    findings = Findings()
    cells = pl.DataFrame(
        {
            column: _read_column(values, Speller(schema.by_name[column]), findings)
            for column, values in zip(frame.columns, frame.get_columns(), strict=True)
        }
    )
    findings.raise_if_any()
    return SourceTable(
        header=tuple(frame.columns), records=frame.height, _cut=lambda first, last: cells.slice(first, last - first)
    )


def pack_parquet(frames: Iterable[pl.DataFrame], schema: Schema) -> tuple[int, bytes]:
    """Packs a table of legal string cells into the bytes of a Parquet file; gives the number of rows as well."""
    parts = [pl.DataFrame([_write_column(cells, schema) for cells in frame.get_columns()]) for frame in frames]
    packed = io.BytesIO()
    table = pl.concat(parts)
    table.write_parquet(packed)
    return table.height, packed.getvalue()


def _read_column(values: pl.Series, speller: Speller, findings: Findings) -> pl.Series:
    kind = values.dtype
    if kind in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        return values.cast(pl.String).fill_null("")
    empty = values.is_null()
    cells: list[str | Refusal]
    if (kind.is_numeric() and not kind.is_decimal()) or kind == pl.Boolean:
        # As an array, so that a float32 is written with its own digits and not with those of the double it becomes.
        filled = values.fill_null(False if kind == pl.Boolean else 0).to_numpy()
        distinct, codes = np.unique(filled, return_inverse=True)
        cells = [speller.spell(value) for value in distinct]
    else:
        known = values.unique(maintain_order=True).to_list() if not kind.is_nested() else []
        distinct_of: dict[Any, int] = {value: index for index, value in enumerate(known)}
        cells = [speller.spell(value) for value in known] or [_NO_CELL]
        codes = np.array([distinct_of.get(value, 0) for value in values.to_list()] if known else [0] * len(values))
    counts = np.bincount(codes[~empty.to_numpy()], minlength=len(cells))
    for cell, rows in zip(cells, counts.tolist(), strict=True):
        if isinstance(cell, Refusal):
            findings.add(values.name, cell.rule, rows)
    texts = pl.Series([None if isinstance(cell, Refusal) else cell for cell in cells], dtype=pl.String)
    written: pl.Series = texts.gather(codes).zip_with(~empty, pl.Series([""], dtype=pl.String)).fill_null("")
    return written


def _write_column(cells: pl.Series, schema: Schema) -> pl.Series:
    kind, _ = choose_type(schema.by_name[cells.name], schema)
    written = cells.replace({"": None})
    if kind == "whole":
        return written.cast(pl.Int64)
    return written.cast(pl.Float64) if kind == "real" else written
