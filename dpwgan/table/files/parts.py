"""A table in several files: a folder of parts, or a pattern of names, in the order of their names.

A run makes of parts what it would make of one file with all their rows.
"""

import glob
import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpwgan.errors import DataError, InputError, quote

if TYPE_CHECKING:  # imported for its types alone: names of parts are looked at before a run is begun
    from dpwgan.table.source import SourceTable

_ENDS = (".csv", ".csv.gz", ".parquet")


def list_parts(path: str | Path) -> tuple[str, ...] | None:
    """The files of a folder or a pattern in the order of their names; None for the name of one file.

    Left out are folders, names that begin with a dot or an underscore and, of a folder, those that no part has.
    Raises: InputError if the folder may not be read.
    """
    text = str(path)
    if os.path.isdir(text):
        try:
            found = [os.path.join(text, name) for name in os.listdir(text) if name.lower().endswith(_ENDS)]
        except OSError as error:
            raise InputError(f"The folder {text!r} cannot be read: {error.strerror}.") from None
    elif glob.has_magic(text) and not os.path.lexists(text):
        found = glob.glob(text)
    else:
        return None
    shown = (part for part in found if not os.path.basename(part).startswith((".", "_")))
    return tuple(sorted(part for part in shown if not os.path.isdir(part)))


def open_parts(parts: Sequence[str], open_part: Callable[[str], "SourceTable"], *, name: str) -> "SourceTable":
    """Opens all parts of a table as one, which looks as the first of them does.

    Privacy: no file is read twice, so that the rows of none count twice.
    Raises: InputError if there are no parts; DataError, with the place of the part, if one is no table, has another
      header than the first, or is a file that another one is; else as `open_part`.
    """
    if not parts:
        raise InputError(f"{name} has no parts: no file there has the name of a table in CSV or Parquet.")
    tables: list[SourceTable] = []
    files: dict[tuple[int, int], int] = {}
    for place, part in enumerate(parts, 1):
        shown = f"part {place} of the table, {quote(os.path.basename(part))}"
        try:
            table = open_part(part)
        except DataError as error:
            raise DataError(f"In {shown}: {error}") from None
        status = os.stat(part)
        first = files.setdefault((status.st_dev, status.st_ino), place)
        if first != place:
            raise DataError(f"In {shown}: it is the same file as part {first}.")
        tables.append(table)
        _check_header(table.header, tables[0].header, shown=shown)
    return replace(
        tables[0],
        records=sum(table.records for table in tables),
        pieces=lambda: itertools.chain.from_iterable(table.pieces() for table in tables),
        parts=tuple(tables),
    )


def _check_header(header: Sequence[str], first: Sequence[str], *, shown: str) -> None:
    for place, (name, other) in enumerate(itertools.zip_longest(header, first), 1):
        if name != other:
            said = ["no more columns" if each is None else quote(each) for each in (name, other)]
            raise DataError(f"In {shown}: column {place} is {said[0]}, and in part 1 {said[1]}.")
