"""A public table that a fit begins with: read, encoded and cited, and protected by nothing."""

import hashlib
import os
from dataclasses import dataclass, field, replace
from typing import Any

from dpwgan.app.memory import BASE_BYTES, check_memory, choose_limit
from dpwgan.errors import DataError, InputError, UsageError, say_why
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.files.reader import open_table
from dpwgan.table.files.stream import PIECE
from dpwgan.table.schema import Schema
from dpwgan.table.units.units import read_units

# Encoded, in groups, and one-hot for the counts of its pairs, in rows with weights and without.
_BYTES_A_CELL = 48


@dataclass(frozen=True, kw_only=True)
class PublicTable:
    """Encoded public rows, and the digest of the file that they came from."""

    rows: EncodedTable = field(repr=False)
    sha256: str

    def describe(self) -> dict[str, Any]:
        """What the claim says of it."""
        return {"sha256": self.sha256, "records": self.rows.records}


def read_public_table(path: str | os.PathLike[str], schema: Schema, *, memory: int | None) -> PublicTable:
    """Reads a public table of the same specs as the private one.

    Privacy: it is taken as known to everybody: nothing of it is protected, and no ledger knows of it.
    Units: `memory` is in bytes, None for what there is; the plan of the run does not know of the table.
    Raises: UsageError where lists of cells are left to the private table; InputError if it cannot be read, DataError if
      it does not fit the specs, ResourceError if it is too large.
    """
    if schema.undiscovered:
        raise UsageError(
            "--public needs specs that list all cells: lists found in the private table need not hold there"
        )
    name = os.fspath(path)
    if os.path.exists(name) and not os.path.isfile(name):  # a pipe could not be read twice, for its digest as well
        raise InputError(f"the public table {name!r} is not a file")
    try:
        digest = hashlib.sha256()
        with open(name, "rb") as file:
            while content := file.read(PIECE):
                digest.update(content)
    except FileNotFoundError:
        raise InputError(f"the public table {name!r} does not exist") from None
    except OSError as error:
        raise InputError(f"the public table {name!r} cannot be read: {say_why(error)}") from None
    try:
        table = open_table(name, schema)
        if schema.unit is not None and schema.unit.has_sizes:
            table = replace(read_units(table, schema.unit), records=table.records)
        needed = BASE_BYTES + _BYTES_A_CELL * table.records * len(table.header)
        check_memory(needed, limit=choose_limit(memory))
        rows = TableEncoder(schema, table.header).encode_pieces(table.pieces(), records=table.records)
        if not rows.records:
            raise DataError("The rules between columns drop all of its rows.")
    except DataError as error:
        raise DataError(f"of the public table: {error}") from None
    return PublicTable(rows=rows, sha256=digest.hexdigest())
