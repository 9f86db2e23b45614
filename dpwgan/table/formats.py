"""Which kind of file a table is kept in, told by the end of its name."""

from pathlib import Path
from typing import Literal

from dpwgan.errors import UsageError
from dpwgan.table.arrays import find_misfit
from dpwgan.table.schema import Schema

Format = Literal["csv", "npz", "parquet"]


def get_format(path: str | Path) -> Format:
    """Gives the kind of file: .npz and .parquet by their names, CSV for every other name and for "-"."""
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
