"""The forms that units of the output may have: how many rows of each kind."""

import itertools

import numpy as np
import polars as pl

from dpwgan.table.codecs import make_codec
from dpwgan.table.codecs.codec import require
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.findings import Findings
from dpwgan.table.schema import CategoricalColumn, Schema
from dpwgan.table.source import SourceTable
from dpwgan.table.units import Codes, Places, Units


def list_forms(schema: Schema) -> Places:
    """The forms of a unit: how many rows of each kind it may have, from 1 in all to as many as it keeps.

    All rows are of one kind where no column says of which. Shapes: (forms, kinds).
    """
    column = _find_kind(schema)
    most = 0 if schema.unit is None else schema.unit.max_rows
    if column is None:
        return np.arange(1, most + 1)[:, np.newaxis]
    kinds = len(column.tokens)
    drawn = itertools.combinations_with_replacement(range(kinds + 1), most)
    # The last of them stands for no row.
    return np.array([np.bincount(own, minlength=kinds + 1)[:-1] for own in drawn if own[0] < kinds], np.int64)


def read_kinds(frame: pl.DataFrame, schema: Schema) -> Codes:
    """Of which kind each row of cells is. Shapes: (n,)."""
    column = _find_kind(schema)
    if column is None:
        return np.zeros(frame.height, np.int32)
    return require(make_codec(column).encode(frame.get_column(column.name), Findings()).codes, column.name)


def count_forms(table: SourceTable, units: Units, encoder: TableEncoder) -> Places:
    """How many units are of each form: have so many rows of each kind that no rule drops. Shapes: (forms,).

    Privacy: a unit is in one cell, or, with no row left, in none. One that is taken out leaves it; one with other rows,
      or of another number of them, moves to another. Rows that end the run, for a cell that is not legal, are in none.
    """
    schema = encoder.schema
    forms = list_forms(schema)
    width = forms.shape[1]
    cells, kept = units.of_rows * np.int64(width), np.ones(len(units.of_rows), np.bool_)
    if width > 1 or schema.drops_rows:
        read = [(read_kinds(frame, schema), encoder.find_kept(frame, Findings())) for frame in table.frames()]
        kinds, kept = (np.concatenate(parts) for parts in zip(*read, strict=True))
        cells, kept = cells + kinds, kept & (kinds >= 0)
    own = np.bincount(cells[kept], minlength=len(units.sizes) * width)
    found, times = np.unique(own.reshape(-1, width), axis=0, return_counts=True)
    counts = dict(zip(map(tuple, found.tolist()), times.tolist(), strict=True))
    return np.array([counts.get(tuple(form), 0) for form in forms.tolist()], np.int64)


def _find_kind(schema: Schema) -> CategoricalColumn | None:
    named = None if schema.unit is None else schema.unit.kind_of_row
    column = None if named is None else schema.by_name[named]
    return column if isinstance(column, CategoricalColumn) else None
