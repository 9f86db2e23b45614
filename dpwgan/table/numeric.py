"""Columns that can be parsed as numbers at once, because how a number is spelt makes no difference to them.

Parsing is a shortcut: whatever a cell means as text, it means as the number that it writes. Where that may not hold,
for a column by its specs or for some rows by their cells, cells are taken as text. A list of other cells is a shortcut
too: the parser says which of them a cell is.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal

import polars as pl

from dpwgan.table.numerals import read_number
from dpwgan.table.schema import CategoricalColumn, Column, DerivedColumn, NumericColumn, Schema


def find_number_columns(schema: Schema) -> Mapping[str, pl.DataType]:
    """Gives the columns whose legal cells are plain numbers, or empty, or listed, and the type that holds them.

    Privacy: reads public facts only.
    """
    kinds = {column.name: _choose_kind(column, schema) for column in schema.columns}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def holds_numbers(cells: pl.Series, text: bytes) -> bool:
    """Says whether a column that was parsed as numbers says the same as its text.

    The parser takes "nan" for a number, which here is text, and blanks for an empty cell.
    """
    if cells.dtype == pl.Enum:
        return True
    if cells.dtype == pl.Float64 and not cells.is_finite().all():
        return False
    return not cells.null_count() or (b" " not in text and b"\t" not in text)


def write_numbers(cells: pl.Series) -> pl.Series:
    """Gives cells as text, of which any spelling of the number will do. Shapes: (n,)."""
    return cells if cells.dtype == pl.String else cells.cast(pl.String).fill_null("")


def write_all_numbers(frame: pl.DataFrame) -> pl.DataFrame:
    """Gives every cell of a frame as text."""
    return frame.select(write_numbers(cells) for cells in frame.get_columns())


def read_plain(cells: pl.Series) -> pl.Series:
    """Gives cells that are empty or whole numbers written plainly as those numbers, null where empty. Shapes: (n,)."""
    return cells.replace({"": None}).cast(pl.Int64)


def _choose_kind(column: Column, schema: Schema) -> pl.DataType | None:
    if isinstance(column, CategoricalColumn):
        whole = column.integer and _are_whole(column.tokens)
        return _choose_whole(_find_bound(column)) if whole else pl.Enum(column.tokens)
    if isinstance(column, NumericColumn):
        if not all(token == "" or read_number(token) is not None for token in column.missing):
            return None
        return _choose_whole(_find_bound(column)) if column.integer and _are_whole(column.missing) else pl.Float64()
    if isinstance(column, DerivedColumn) and column.mapping is None:
        source = schema.by_name[column.source]
        if not isinstance(source, CategoricalColumn | NumericColumn):
            return None
        missing = source.missing if column.missing is None else (column.missing,)
        bound = max([_find_bound(source), *map(_find_size, missing)]) * (column.multiply or 1)
        return _choose_whole(bound) if _are_whole(missing) else None
    return None


def _choose_whole(bound: Decimal) -> pl.DataType | None:
    # The narrower type is parsed faster; a cell beyond it is no legal one, and read as text.
    if bound < 1 << 31:
        return pl.Int32()
    return pl.Int64() if bound < 1 << 63 else None


def _find_bound(column: CategoricalColumn | NumericColumn) -> Decimal:
    if isinstance(column, CategoricalColumn):
        return max(map(_find_size, column.tokens))
    ends = [Decimal(column.minimum), Decimal(column.maximum)]
    return max(abs(number) for number in [*ends, *map(_find_size, column.missing)])


def _find_size(cell: str) -> Decimal:
    return abs(read_number(cell) or Decimal(0))


def _are_whole(cells: Iterable[str]) -> bool:
    """Says whether cells are whole numbers, each another one, or empty."""
    numbers = [read_number(cell) for cell in cells if cell != ""]
    whole = [number for number in numbers if number is not None and number == number.to_integral_value()]
    return len(whole) == len(numbers) == len(set(whole))
