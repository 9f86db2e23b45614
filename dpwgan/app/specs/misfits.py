"""All that is wrong with a table against specs, of which some columns may be wrong themselves.

Privacy: every cell is read, and rows are counted by column and rule. No cell gets into a sentence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dpwgan.errors import DataError, quote
from dpwgan.table.domains import discover_domains
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.findings import compare_header, describe
from dpwgan.table.reader import get_format, open_table, open_undescribed
from dpwgan.table.schema import ComputedColumn, DerivedColumn, Schema, UndiscoveredColumn
from dpwgan.table.source import SourceTable
from dpwgan.table.units import read_units

Misfit = tuple[str | None, int | None, str]
"""Column, rows and a sentence without its full stop."""


def find_misfits(path: str, schema: Schema, *, names: Sequence[str]) -> Iterator[Misfit]:
    """What is wrong with a table's form, its header against `names`, and its cells against the columns of the schema.

    Raises: InputError if the file is missing; TransferError if reading breaks off.
    """
    try:
        is_image = get_format(path) == "npz"
        table = open_table(path, schema) if is_image else open_undescribed(path, schema.by_name)
        left_out = [column.name for column in schema.columns if not column.is_written]
        faults = compare_header(table.header, names, may_lack=left_out)
        for name in faults.absent:
            yield name, None, f"the header of the table does not have the column {quote(name)}"
        for name in faults.unknown:
            yield None, None, f"the specs do not have the column {quote(name)} of the table"
        if faults.untold:
            yield None, None, f"the specs do not have {faults.untold} of the names in the first line"
        yield from _find_illegal_cells(table, schema)
        if schema.unit is not None:
            read_units(table, schema.unit)
    except DataError as error:
        yield None, None, str(error).rstrip(".")


def _find_illegal_cells(table: SourceTable, schema: Schema) -> Iterator[Misfit]:
    columns = [column for column in schema.columns if column.name in table.header]
    waived = [column for column in columns if isinstance(column, UndiscoveredColumn) and column.privacy == "waived"]
    found = discover_domains(table.frames(), replace(schema, columns=tuple(waived), layout=None)).by_name
    known = {
        column.name: found.get(column.name, column)
        for column in columns
        if column.name in found or not isinstance(column, UndiscoveredColumn)
    }
    judged = {
        name: column
        for name, column in known.items()
        if not isinstance(column, DerivedColumn | ComputedColumn) or known.keys() >= {*column.sources}
    }
    rules = tuple(rule for rule in schema.rules if judged.keys() >= {*rule.columns})
    part = replace(schema, columns=tuple(judged.values()), layout=None, rules=rules)
    for (name, rule), rows in TableEncoder(part, tuple(part.by_name)).find_misfits(table.pieces()).rows.items():
        yield name or None, rows, describe({(name, rule): rows})
