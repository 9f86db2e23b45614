"""Data frames of pandas and polars in and out: the door of the Python interface."""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from dpwgan.errors import DataError, UsageError, quote
from dpwgan.table.calendar import CalendarColumn
from dpwgan.table.findings import Findings, check_header
from dpwgan.table.numerals import read_number
from dpwgan.table.schema import BooleanColumn, CategoricalColumn, Column, Schema, UnitColumn
from dpwgan.table.spelling import NO_MOMENT, Cell, Refusal, Speller, spell_moments, spell_values, write_cells
from dpwgan.table.types import choose_type, give_type, holds_all

if TYPE_CHECKING:
    import pandas as pd


def from_pandas(frame: pd.DataFrame, schema: Schema) -> pl.DataFrame:
    """Writes a pandas frame as the string cells that the same table would have in a CSV file.

    None, NaN, NaT and pandas.NA are empty cells. Whole numbers, floats too, are written without a point, truth values
    as 1 and 0, dates by `str`. Where the specs list cells, or missing codes, a number or a truth value stands for the
    one listed cell that writes it ("01", "1.0", "true"). Text that is listed stays as it is; text that writes a number
    or a truth value is otherwise written as that would be. Category columns go by their categories. The index is not a
    column.

    Privacy: a row's cells are a function of that row's values and the specs, whatever types the other rows have given
      to the columns; what other rows can do is have the frame refused. No cell shows in an error.
    Raises: DataError if the column names and the specs differ, there are no rows, or a value does not say which cell it
      is: another kind, a time, or in a categorical column a float too large or too long to be exact; UsageError if it
      is no data frame.
    """
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise UsageError("the table must be a data frame of pandas or polars")
    if not all(isinstance(name, str) for name in frame.columns):
        raise DataError("The frame has column names that are not text.")
    return _write_cells(frame, schema, _read_column)


def from_polars(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Writes a polars frame as the string cells that the same table would have in a CSV file.

    Values are written as those of a Parquet file, by what the value itself means; null is the empty cell.
    Privacy: as `from_pandas`.
    Raises: DataError, as `from_pandas`.
    """
    return _write_cells(frame, schema, lambda values, column, found: spell_values(values, Speller(column), found))


def _write_cells(frame: Any, schema: Schema, write: Callable[[Any, Column, Findings], pl.Series]) -> pl.DataFrame:
    names = list(frame.columns)
    check_header(names, schema)
    if not len(frame):
        raise DataError("The table has a header but no rows.")
    findings = Findings()
    cells = {name: write(frame[name], schema.by_name[name], findings) for name in filter(schema.is_read, names)}
    findings.raise_if_any()
    return pl.DataFrame(cells)


def to_polars(frame: pl.DataFrame, schema: Schema, types: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Turns cells of text into the types given, where those hold every legal cell, else the specs' own.

    An empty cell is null.
    """
    columns = [(cells, schema.by_name[cells.name]) for cells in frame]
    return pl.DataFrame(
        {
            column.name: give_type(cells, column, choose_type(column, schema, types.get(column.name)))
            for cells, column in columns
        }
    )


def to_pandas(frame: pl.DataFrame, schema: Schema, dtypes: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """Turns cells of text into pandas types; which, does not depend on the rows.

    A column has the dtype that it is given, such as that of the frame fitted to, where that holds every legal cell.
    object, int64, uint64, float64 and bool do not count, because pandas chooses them by looking at rows; then, and
    without a dtype, the specs say: whole numbers become int64, or Int64 with <NA> where an empty cell is legal; other
    numbers float64 with NaN for an empty cell; booleans bool, or boolean; dates and times of day with dates datetime64.
    A column with cells that are no such values ("N", or "007", which an integer would spell otherwise) stays text, with
    None for an empty cell, and so do moments of such dtypes, where nanoseconds of 64 bits hold all legal ones.
    """
    import pandas as pd

    dtypes = dtypes or {}
    return pd.DataFrame(
        {
            cells.name: _write_column(cells, schema.by_name[cells.name], schema, dtypes.get(str(cells.name)))
            for cells in frame
        }
    )


def _read_column(values: pd.Series, column: Column, findings: Findings) -> pl.Series:
    import pandas as pd

    speller = Speller(column)
    spell = speller.spell
    if isinstance(values.dtype, pd.CategoricalDtype) and values.dtype.categories.dtype.kind in "mMO":
        values = values.astype(values.dtype.categories.dtype)
    if isinstance(column, CalendarColumn):
        if values.dtype == object:
            return _read_objects(values, column, findings)
        if values.dtype.kind in "mM" or isinstance(values.dtype, pd.ArrowDtype):
            return spell_values(_drop_zone(values, column), speller, findings)
    # Each distinct value is written once; True and 1, which are equal, cannot meet in one dtype but object.
    if values.dtype == object:
        texts: dict[str, Cell] = {value: spell(value) for value in {text for text in values if isinstance(text, str)}}
        cells = [texts[value] if isinstance(value, str) else spell(value) for value in values]
        if isinstance(column, UnitColumn):
            told = zip(values, cells, strict=True)
            _refuse_two_names(column.name, texts, {cell for value, cell in told if not isinstance(value, str)})
        return write_cells(column.name, cells, np.arange(len(cells)), findings)
    places, seen = pd.factorize(values, use_na_sentinel=True)
    # As an array, so that a float32 is written with its own digits and not with those of the double it becomes.
    distinct = seen.to_numpy() if values.dtype.kind == "f" else seen
    return write_cells(column.name, list(map(spell, distinct)), places, findings)


def _refuse_two_names(column: str, texts: Iterable[str], others: Collection[Cell]) -> None:
    """Refuses 007 as text where 7 is a number, as pandas reads a long file: rows of one unit would be of two.

    Raises: DataError.
    """
    numbers = {read_number(cell) for cell in others if isinstance(cell, str)} - {None}
    if any(text not in others and read_number(text) in numbers for text in texts):
        raise DataError(
            f"Column {quote(column)}: of numbers, and of text that writes some of them otherwise, so that one unit "
            "would be taken for several; read all of it as text."
        )


def _read_objects(values: pd.Series, column: CalendarColumn, findings: Findings) -> pl.Series:
    """Reads moments that come as text, or as objects of Python or pandas, kind after kind."""
    import pandas as pd

    speller = Speller(column)
    cells = np.full(len(values), "", dtype=object)
    # Each by itself: of a whole column the zone of the first would be everybody's.
    told = pd.Series([_tell_by_clock(value, column.zone) for value in values], dtype=object)
    kinds = told.map(type)
    for kind in kinds.unique():
        places = np.flatnonzero(kinds == kind)
        own = told.iloc[places]
        if issubclass(kind, datetime.date | datetime.time | datetime.timedelta) and kind is not type(pd.NaT):
            moments = pl.Series(column.name, own.infer_objects())
            cells[places] = spell_moments(moments, column, findings).to_list()
        else:
            spelt = [value if isinstance(value, Refusal) else speller.spell(value) for value in own]
            cells[places] = write_cells(column.name, spelt, np.arange(len(spelt)), findings).to_list()
    return pl.Series(cells.tolist(), dtype=pl.String)


def _tell_by_clock(value: Any, zone: str | None) -> Any:
    """A moment with a zone as local time, in its own or another zone; anything else as it is.

    To the microsecond: pandas would cut off what is finer where a moment of another row is beyond its nanoseconds.
    """
    import pandas as pd

    try:
        if isinstance(value, datetime.datetime) and value.tzinfo is not None:
            value = (value if zone is None else value.astimezone(zoneinfo.ZoneInfo(zone))).replace(tzinfo=None)
        if isinstance(value, pd.Timestamp):
            value = value.as_unit("us", round_ok=False).to_pydatetime()
        if isinstance(value, datetime.timedelta) and value is not pd.NaT:
            value = pd.Timedelta(value).as_unit("us", round_ok=False).to_pytimedelta()
    except (OverflowError, ValueError):  # beyond all calendars, or finer
        return NO_MOMENT
    return value


def _drop_zone(values: pd.Series, column: CalendarColumn) -> pl.Series:
    """The moments of a pandas column; those with a zone, which polars may not know, as clocks show them."""
    import pandas as pd

    if isinstance(values.dtype, pd.DatetimeTZDtype):
        values = (values if column.zone is None else values.dt.tz_convert(column.zone)).dt.tz_localize(None)
    moments: pl.Series = pl.Series(column.name, values)
    return moments


def _write_column(cells: pl.Series, column: Column, schema: Schema, given: Any) -> pd.Series:
    import pandas as pd

    kind, may_be_empty = column.choose_type(schema)
    is_chosen = given is not None and _is_chosen_by_pandas(given, column)
    dtypes = [] if given is None or is_chosen else [given]
    if isinstance(column, CalendarColumn):
        # A single text makes objects of a column that is numbers where it is empty, as does a single moment beyond
        # nanoseconds of 64 bits.
        if is_chosen and (kind == "time" or holds_all(column, pl.Datetime("ns"))):
            kind = "text"
        elif kind in ("date", "datetime"):
            dtypes.append(pd.Series([], dtype="datetime64[us]").dt.tz_localize(column.zone).dtype)
    for dtype in dtypes:
        made = _write_given(cells, column, schema, dtype, may_be_empty=may_be_empty)
        if made is not None:
            return made
    typed = give_type(cells, column, pl.String() if kind == "text" else choose_type(column, schema))
    if kind in ("whole", "truth") and may_be_empty:
        make = pd.arrays.BooleanArray if kind == "truth" else pd.arrays.IntegerArray
        filled = typed.fill_null(False if kind == "truth" else 0)
        return pd.Series(make(filled.to_numpy().copy(), typed.is_null().to_numpy().copy()))
    return pd.Series(typed.to_list(), dtype=object) if kind in ("text", "time") else pd.Series(typed.to_numpy())


def _is_chosen_by_pandas(dtype: Any, column: Column) -> bool:
    """Whether pandas infers a dtype from the rows, as for an empty column."""
    if dtype == np.dtype(bool):
        return not isinstance(column, BooleanColumn) or bool(column.missing)
    return dtype in map(np.dtype, ("object", "int64", "uint64", "float64"))  # unsigned where one is 2^63 or more


def _write_given(cells: pl.Series, column: Column, schema: Schema, dtype: Any, *, may_be_empty: bool) -> Any:
    """The cells in a dtype, or None if it does not hold all legal ones."""
    import pandas as pd

    if isinstance(dtype, pd.CategoricalDtype):
        return _write_category(cells, column, schema, ordered=dtype.ordered)
    zone = dtype.tz if isinstance(dtype, pd.DatetimeTZDtype) else None
    own_zone = column.zone if isinstance(column, CalendarColumn) else None
    try:
        wanted = pl.Series(pd.Series([], dtype=dtype)).dtype if zone is None else pl.Datetime("us", own_zone)
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        return None
    lacks_empty = may_be_empty and isinstance(dtype, np.dtype) and dtype.kind in "iu"
    if lacks_empty or (wanted != choose_type(column, schema) and not holds_all(column, wanted)):
        return None
    values = give_type(cells, column, wanted).to_pandas(use_pyarrow_extension_array=zone is None)
    if zone is not None and own_zone is None:
        # As `give_zone`, also for zones that are a number of hours.
        first = np.ones(len(values), dtype=bool)
        values = values.dt.tz_localize(zone, ambiguous=first, nonexistent=pd.Timedelta(hours=1))
    return values.astype(dtype).rename(None)


def _write_category(cells: pl.Series, column: Column, schema: Schema, *, ordered: bool) -> pd.Series:
    """Categories as the specs list them: those of the frame, and their dtype, may depend on a single row."""
    import pandas as pd

    listed = column.listed if isinstance(column, CategoricalColumn) else cells.unique(maintain_order=True)
    known = pl.Series([cell for cell in listed if cell], dtype=pl.String)
    values, categories = (_write_column(texts, column, schema, None) for texts in (cells, known))
    return pd.Series(pd.Categorical(values, categories=categories, ordered=ordered))
