"""pandas data frames in and out: the door of the Python interface. The command line never comes through here."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from dpwgan.data.findings import Findings
from dpwgan.data.numerals import read_number
from dpwgan.data.reader import check_header
from dpwgan.errors import DataError
from dpwgan.schema import CategoricalColumn, Column, DerivedColumn, IdentifierColumn, NumericColumn, Schema

if TYPE_CHECKING:
    import pandas as pd

_Kind = Literal["whole", "real", "text"]

_NO_CELL = "is neither text nor a number, truth value or time"


def from_pandas(frame: pd.DataFrame, schema: Schema) -> pl.DataFrame:
    """Writes a pandas frame as the string cells that the same table would have in a CSV file.

    None, NaN, NaT and pandas.NA are empty cells. Numbers, truth values and times are written by `str`; where the specs
    list a column's cells, a whole float may stand for the integer without a point ("1" for 1.0), and a truth value for
    "True", "true", "1" and so on, whichever of them is listed first here. Category columns go by their categories. The
    index is not a column.

    Privacy: cells pass through; none shows in an error.
    Raises: DataError if the column names and the specs differ, there are no rows, or a cell is of another kind.
    """
    names = list(frame.columns)
    if not all(isinstance(name, str) for name in names):
        raise DataError("The frame has column names that are not text.")
    check_header(names, schema)
    if not len(frame):
        raise DataError("The table has a header but no rows.")
    findings = Findings()
    cells = {name: _read_column(frame[name], schema.by_name[name], findings) for name in names}
    findings.raise_if_any()
    return pl.DataFrame(cells)


def to_pandas(frame: pl.DataFrame, schema: Schema) -> pd.DataFrame:
    """Gives string cells the pandas types that the specs say they have; which, does not depend on the rows.

    Whole numbers become int64, or Int64 with <NA> where an empty cell is legal; other numbers float64 with NaN for an
    empty cell. A column with cells that are no such numbers ("N", or "007", which an integer would spell otherwise)
    stays text, with None for an empty cell.
    """
    import pandas as pd

    return pd.DataFrame(
        {name: _write_column(frame.get_column(name), schema.by_name[name], schema) for name in frame.columns}
    )


def _read_column(values: pd.Series, column: Column, findings: Findings) -> pl.Series:
    import pandas as pd

    # Each distinct value is written once; True and 1, which are equal, cannot meet in one dtype but object.
    if values.dtype == object:
        texts = [_read_value(value, column) for value in values]
    else:
        codes, seen = pd.factorize(values, use_na_sentinel=True)
        # As an array, so that a float32 is written with its own digits and not with those of the double it becomes.
        distinct = seen.to_numpy() if values.dtype.kind == "f" else seen
        known = [_read_value(value, column) for value in distinct]
        texts = [known[code] if code >= 0 else "" for code in codes]
    findings.add(column.name, _NO_CELL, sum(text is None for text in texts))
    try:
        return pl.Series(["" if text is None else text for text in texts], dtype=pl.String)
    except UnicodeEncodeError:
        raise DataError(f"Column {column.name!r} has a cell that cannot be written in UTF-8.") from None


def _read_value(value: object, column: Column) -> str | None:
    """Writes one value as a cell; None if it is of no kind that has a cell."""
    import pandas as pd

    if isinstance(value, str):
        return value
    if value is None or value is pd.NA or value is pd.NaT:
        return ""
    if isinstance(value, bool | np.bool_):
        spellings = (str(bool(value)), str(bool(value)).lower(), str(int(value)))
        return _choose_listed(spellings, column, otherwise=spellings[2])
    if isinstance(value, float | np.floating):
        if math.isnan(value):
            return ""
        whole = (str(int(value)),) if math.isfinite(value) and value == int(value) else ()
        return _choose_listed((str(value), *whole), column, otherwise=str(value))
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, Decimal):
        return "" if value.is_nan() else str(value)
    if isinstance(value, pd.Timestamp | pd.Timedelta | pd.Period) or hasattr(value, "isoformat"):
        return str(value)
    return None


def _choose_listed(spellings: tuple[str, ...], column: Column, *, otherwise: str) -> str:
    listed = column.tokens if isinstance(column, CategoricalColumn) else ()
    return next((spelling for spelling in spellings if spelling in listed), otherwise)


def _write_column(cells: pl.Series, column: Column, schema: Schema) -> pd.Series:
    import pandas as pd

    kind, may_be_empty = _choose_type(column, schema)
    if kind == "text":
        return pd.Series(cells.replace({"": None}).to_list(), dtype=object)
    if kind == "real":
        return pd.Series(cells.replace({"": "nan"}).cast(pl.Float64).to_numpy())
    if not may_be_empty:
        return pd.Series(cells.cast(pl.Int64).to_numpy())
    empty = (cells == "").to_numpy()
    whole = cells.replace({"": "0"}).cast(pl.Int64).to_numpy()
    return pd.Series(pd.arrays.IntegerArray(whole.copy(), empty.copy()))


def _choose_type(column: Column, schema: Schema) -> tuple[_Kind, bool]:
    """Says which type holds every cell that a column may have, and whether an empty cell is one of them."""
    if isinstance(column, IdentifierColumn):
        return ("text" if column.start is None else "whole"), False
    if isinstance(column, CategoricalColumn):
        return _choose_listed_type(column.tokens)
    if isinstance(column, NumericColumn):
        own: _Kind = "whole" if column.integer and not column.decimals else "real"
        return _join(own, column.missing)
    if isinstance(column, DerivedColumn):
        source = schema.by_name[column.source]
        through = source.missing if isinstance(source, CategoricalColumn | NumericColumn) else ()
        missing = through if column.missing is None else (column.missing,)
        if column.mapping is not None:
            # Without a code of its own, a missing cell of the source goes through the mapping too.
            return _choose_listed_type((*column.mapping.values(), *(missing if column.missing is not None else ())))
        if column.width > 1:
            return "text", "" in missing
        return _join("real" if column.decimals else "whole", missing)
    return "text", True


def _choose_listed_type(cells: Iterable[str]) -> tuple[_Kind, bool]:
    listed = set(cells)
    return ("whole" if all(map(_is_plain_integer, listed - {""})) else "text"), "" in listed


def _join(own: _Kind, missing: tuple[str, ...]) -> tuple[_Kind, bool]:
    """Widens the type of a column's numbers until it holds the codes that mean not available."""
    codes = [code for code in missing if code]
    if own == "whole" and all(map(_is_plain_integer, codes)):
        return "whole", "" in missing
    if own == "real" and all(read_number(code) is not None for code in codes):
        return "real", "" in missing
    return "text", "" in missing


def _is_plain_integer(cell: str) -> bool:
    number = read_number(cell)
    return number is not None and abs(number) < 1 << 63 and cell == str(int(number))
