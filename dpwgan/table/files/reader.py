"""A table as it stands, checked against the specs' column names: every cell a string, nothing interpreted.

The end of the name says what kind of file it is: .npz (`dpwgan.table.files.arrays`), .parquet
(`dpwgan.table.files.parquet`), and CSV (`dpwgan.table.files.csv`) for every other name and for standard input. A folder
or a pattern is a table in parts (`dpwgan.table.files.parts`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import polars as pl
from polars import selectors

from dpwgan.errors import DataError, UsageError, quote
from dpwgan.stages import reading
from dpwgan.table.calendar import CalendarColumn
from dpwgan.table.files.arrays import find_misfit, open_arrays
from dpwgan.table.files.csv import find_records, open_csv
from dpwgan.table.files.parquet import open_parquet, telling
from dpwgan.table.files.parts import list_parts, open_parts
from dpwgan.table.files.stream import ByteStream, read_bytes, say
from dpwgan.table.findings import is_unseparated
from dpwgan.table.schema import Column, FixedColumn, Schema, UndiscoveredColumn
from dpwgan.table.source import SourceTable
from dpwgan.table.specs.columns import parse_column
from dpwgan.table.specs.keys import Keys

Format = Literal["csv", "npz", "parquet"]
_MOMENTS = selectors.datetime() | selectors.time()


def get_format(path: str | Path) -> Format:
    """The kind of file: .npz and .parquet by their names, CSV for every other name and for "-"."""
    name = str(path).lower()
    if name.endswith(".npz"):
        return "npz"
    return "parquet" if name.endswith(".parquet") else "csv"


def check_format(path: str | Path, schema: Schema) -> None:
    """Makes sure that a table with these columns can be written in the kind of file that the name asks for.

    Raises: UsageError if it cannot.
    """
    misfit = find_misfit(schema) if get_format(path) == "npz" else None
    if misfit is not None:
        raise UsageError(f"the output {str(path)!r} cannot be written: {misfit}")


def open_table(path: str | Path, schema: Schema) -> SourceTable:
    """Reads a file, or parts in several, and checks form and header, without parsing a cell.

    Privacy: of the rows only their number is used, which is public, and whether each has as many cells as the header.
    Raises: InputError if the file is missing or cannot be opened; TransferError if reading breaks off or the archive is
      damaged; DataError if it is no such table, has no rows, its header and the specs differ, or parts have moments
      in several zones.
    """

    def open_file(path: str | Path) -> SourceTable:
        form = get_format(path)
        if form == "npz":
            return open_arrays(read_bytes(path), schema, name=say(path))
        if form == "parquet":
            return open_parquet(path, schema, name=say(path))
        return open_csv(path, schema)

    parts = list_parts(path)
    if {get_format(part) for part in parts or ()} not in (set(), {"csv"}, {"parquet"}):
        raise DataError(f"The table {str(path)!r} has parts of several kinds: all must be CSV, or all Parquet.")
    with reading():
        table = open_file(path) if parts is None else open_parts(parts, open_file, name=f"The table {str(path)!r}")
    if not table.records:
        raise DataError("The table has a header but no rows.")
    for column in schema.columns:
        kinds = (part.types.get(column.name) for part in table.parts)
        zones = {kind.time_zone for kind in kinds if isinstance(kind, pl.Datetime)}  # one without moments has none
        if len(zones) > 1 and isinstance(column, CalendarColumn) and column.zone is None:
            raise DataError(
                f"Column {quote(column.name)}: in several time zones in parts of the table; 'zone' in the specs says "
                "by whose clock moments are told."
            )
    return replace(table, types=_join_types([part.types for part in table.parts or (table,)]))


def _join_types(parts: Sequence[Mapping[str, pl.DataType]]) -> Mapping[str, pl.DataType]:
    """The types of the first part's columns, or another's of one that has no cell there, and so no type."""
    return {
        name: next((own[name] for own in parts if own.get(name, pl.Null()) != pl.Null()), kind)
        for name, kind in parts[0].items()
    }


def read_types(path: str | Path) -> Mapping[str, pl.DataType | None]:
    """The columns that a CSV or Parquet file, or the first of its parts, names, and of Parquet their types.

    Raises: as `open_table`, but for rows that do not fit the header.
    """
    parts = list_parts(path) or (path,)
    if get_format(parts[0]) == "csv":
        return dict.fromkeys(find_records(ByteStream(parts[0])).header)
    types = []
    for part in (part for part in parts if get_format(part) == "parquet"):
        with telling(say(part)), reading():
            types.append(pl.read_parquet_schema(part))
    return _join_types(types)


def open_undescribed(
    path: str | Path,
    columns: Mapping[str, Column],
    *,
    types: Mapping[str, pl.DataType | None] | None = None,
    read: bool = False,
) -> SourceTable:
    """Opens a CSV or Parquet file whatever its header is; a column that is not described is skipped.

    With `read` it is read as text that may be any, typed moments as ISO 8601 has them. `types` are those of
    `read_types`, if they are known.
    Raises: as `open_table`, also if the header names a column twice, or is read and not parted by commas.
    """
    types = read_types(path) if types is None else types
    if read and is_unseparated(types):
        raise DataError(
            "The first line has one name, with other marks in it: cells must be separated by commas; docs/specs.md "
            "(CSV) says how such a table is turned."
        )
    fine = _find_fine(path, types) if read else set()
    told = (
        columns.get(name) or _choose_reader(name, kind, read=read, fine=name in fine) for name, kind in types.items()
    )
    return open_table(path, Schema(columns=tuple(told), sha256=""))


def _find_fine(path: str | Path, types: Mapping[str, pl.DataType | None]) -> set[str]:
    """The columns of Parquet with fractions of seconds. Raises: DataError."""
    moments = [name for name, kind in types.items() if isinstance(kind, pl.Datetime) or kind == pl.Time]
    if not moments:
        return set()
    with telling(say(path)), reading():
        # One by one, for their zones and units may differ.
        parts = [pl.scan_parquet(str(part), glob=False) for part in list_parts(path) or (path,)]
        fine = [part.select((_MOMENTS.dt.nanosecond() != 0).any()).collect() for part in parts]
    return {name for name in moments if any(name in part.columns and part[name].item() for part in fine)}


def _choose_reader(name: str, kind: pl.DataType | None, *, read: bool, fine: bool) -> Column:
    """A column whose cells are spelt as the type's are; its range is not looked at then."""
    if not read:
        return FixedColumn(name=name, cell="")
    if isinstance(kind, pl.Datetime):
        form = "%Y-%m-%dT%H:%M:%S" + ".%f" * fine
        return parse_column(Keys(name, {"type": "datetime", "format": form, "min": "2000-01-01", "max": "2000-01-02"}))
    if kind == pl.Time:
        return parse_column(Keys(name, {"type": "time", "format": "%H:%M:%S" + ".%f" * fine}))
    if kind is not None and (kind.is_float() or kind.is_decimal()):  # lists have 15 digits at most
        return parse_column(Keys(name, {"type": "float", "min": 0, "max": 1}))
    return UndiscoveredColumn(name=name, privacy="waived")
