"""What is wrong with a table by the specs: its form, its header and its cells, as far as the specs are right.

Privacy: reads every cell, and counts rows by column and rule. No cell is shown; the counts are for whoever holds the
  table, and no epsilon covers them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from dpwgan.app.logs import LOGGER
from dpwgan.errors import DataError, list_some, quote, say_both
from dpwgan.table.codecs import make_codec
from dpwgan.table.codecs.codec import TrainedCodec
from dpwgan.table.domains import discover_domains
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.files.reader import get_format, open_table, open_undescribed, read_types
from dpwgan.table.findings import NAMELESS, compare_header, describe
from dpwgan.table.schema import CategoricalColumn, FunctionColumn, NumericColumn, Schema, UndiscoveredColumn, UnitColumn
from dpwgan.table.source import Piece, SourceTable
from dpwgan.table.specs import Problems
from dpwgan.table.specs.form import RULES
from dpwgan.table.specs.keys import LAYOUT, UNIT, declares
from dpwgan.table.units.units import read_units

Misfit = tuple[str | None, int | None, str]
"""A column and a number of rows, where it is of such, and a sentence without its full stop."""


def find_misfits(path: str, schema: Schema, *, document: Mapping[str, Any], problems: Problems) -> Iterator[Misfit]:
    """What is wrong with a table: all of its header, and of its cells what the columns of the schema say.

    `problems` are those of the specs, which are the `document`.
    Raises: InputError if the file is missing; TransferError if reading breaks off.
    """
    if LAYOUT in problems.columns:
        return  # nobody knows the names of the pixels
    entries = {key: document[key] for key in (LAYOUT, UNIT) if isinstance(document.get(key), dict)}
    is_entry = {name: not isinstance(document.get(name), dict) for name in (RULES, UNIT)}
    wrong = dict.fromkeys(name for name in (*problems.skipped, *sorted(problems.columns)) if not is_entry.get(name))
    column = entries.get(UNIT, {}).get("column")
    if UNIT in wrong and isinstance(column, str):
        del wrong[UNIT]  # an entry that names one
        wrong[column] = None
    try:
        image = open_table(path, schema) if get_format(path) == "npz" else None
        types = read_types(path) if image is None else {}
        faults = compare_header([*types] if image is None else image.header, schema, besides=wrong)
        for name in faults.absent:
            yield name, None, f"the header of the table does not have the column {quote(name)}"
        for name in faults.unknown:
            why = say_both(name) if declares(entries, name) else "" if name else NAMELESS
            yield None, None, f"the specs do not have the column {quote(name)} of the table{': ' if why else ''}{why}"
        if faults.untold:
            yield None, None, f"the specs do not have {faults.untold} of the names in the first line"
        # Behind the header: where that is none, rows do not fit it, and would be all that is told.
        table = image or open_undescribed(path, schema.by_name, types=types)
        yield from _find_illegal_cells(table, schema)
        if schema.unit is not None:
            read_units(table, _keep_known(schema.unit, schema))
    except DataError as error:
        yield None, None, str(error).rstrip(".")


def _keep_known(unit: UnitColumn, schema: Schema) -> UnitColumn:
    """A unit without what it says of columns that are described wrongly, and so not read."""
    shared = tuple(name for name in unit.shared if name in schema.by_name)
    return replace(unit, shared=shared, unique=unit.unique if schema.by_name.keys() >= {*unit.unique} else ())


def _find_illegal_cells(table: SourceTable, schema: Schema) -> Iterator[Misfit]:
    """Rows that break a rule, by column and rule.

    Columns whose leading zeros a run drops are named, too: a run does so in silence, as its word would tell of rows.
    """
    columns = [column for column in schema.columns if column.name in table.header]
    # What lists that are paid for hold is not known here.
    seen = [column for column in columns if not isinstance(column, UndiscoveredColumn) or column.privacy == "waived"]
    known = discover_domains(table.frames(), replace(schema, columns=tuple(seen), layout=None)).by_name
    judged = {
        name: column
        for name, column in known.items()
        if not isinstance(column, FunctionColumn) or known.keys() >= {*column.sources}
    }
    if not judged:
        return
    whole = [
        make_codec(column)
        for column in columns
        if isinstance(column, CategoricalColumn | NumericColumn) and column.integer
    ]
    dropping: set[str] = set()

    def parse(piece: Piece) -> pl.DataFrame:
        frame = piece.parse()
        dropping.update(codec.name for codec in whole if _drops_zeros(codec, frame[codec.name]))
        return frame

    pieces = (replace(piece, parse=partial(parse, piece)) for piece in table.pieces())
    rules = tuple(rule for rule in schema.rules if judged.keys() >= {*rule.columns})
    part = replace(schema, columns=tuple(judged.values()), layout=None, rules=rules)
    for (name, rule), rows in TableEncoder(part, tuple(part.by_name)).find_misfits(pieces).rows.items():
        yield name or None, rows, describe({(name, rule): rows})
    if dropping:
        LOGGER.warning(
            "the table has leading zeros in %s, which the output drops: 'width', or an enum's 'values' as text, keep "
            "them",
            list_some(quote(codec.name) for codec in whole if codec.name in dropping),
        )


def _drops_zeros(codec: TrainedCodec, cells: pl.Series) -> bool:
    zeros = cells.unique().str.extract(r"^(0\d.*)$").drop_nulls()
    return any(not (codec.get_canonical(cell) or cell).startswith(cell.partition(".")[0]) for cell in zeros)
