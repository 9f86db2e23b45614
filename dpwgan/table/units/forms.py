"""The forms that units of the output may have: how many rows of each kind."""

import itertools
import math

import numpy as np
import polars as pl

from dpwgan.array_types import Flags, Floats, Integers, Integers32
from dpwgan.table.codecs import make_codec, make_codecs
from dpwgan.table.codecs.codec import require
from dpwgan.table.codecs.numbers import WrittenNumbers
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.findings import Findings
from dpwgan.table.rules import RuleBook
from dpwgan.table.schema import CategoricalColumn, Column, HigherColumn, NumericColumn, Schema
from dpwgan.table.source import SourceTable
from dpwgan.table.specs.unit import count_different
from dpwgan.table.units.units import Units

# The most kinds of rows whose pairs are counted separately.
_MOST_KINDS = 4
# The most combinations of cells for which a rule's forbidden forms are found.
_MOST_COMBINATIONS = 1 << 18
# Iterations of the fit, and a negligible share.
_FITS, _TINY = 500, 1e-9


def list_forms(schema: Schema) -> Integers:
    """The forms of a unit: its possible numbers of rows of each kind, from 1 in all to the most it keeps.

    They respect the specs' bounds for each kind. Without a column of kinds there is one. Shapes: (forms, kinds).
    """
    column, unit = _find_kind(schema), schema.unit
    most = 0 if unit is None else unit.max_rows
    if column is None or unit is None:
        return np.arange(1, most + 1)[:, np.newaxis]
    forms: list[tuple[int, ...]] = [()]
    for least, upper in unit.list_bounds(column.tokens):
        counts = range(upper, least - 1, -1)
        forms = [(*form, rows) for form in forms for rows in counts if sum(form) + rows <= most]
    forms = [form for form in forms if any(form)]
    return np.array(sorted(forms, key=sum) if unit.has_kinds_once else forms, np.int64)


def find_possible(schema: Schema) -> Flags:
    """Which forms are possible with some cells of the unit's own columns, by each rule on these and the kind.

    A unit has no more rows than its unique columns have combinations.
    Shapes: (forms,). Privacy: of public facts and released lists of cells alone.
    """
    forms, kind, unit = list_forms(schema), _find_kind(schema), schema.unit
    possible: Flags = forms.sum(axis=1) <= (math.inf if unit is None else count_different(unit, schema.by_name))
    if kind is None or unit is None:
        return possible
    for rule in schema.rules:
        names = [kind.name, *(name for name in rule.columns if name != kind.name)]
        columns = [schema.by_name[name] for name in names]
        lists = [_list_cells(column) for column in columns]
        is_told = kind.name in rule.columns and {*names[1:]} <= {*unit.shared} and all(lists)
        if not is_told or math.prod(map(len, lists)) > _MOST_COMBINATIONS:
            continue
        book = RuleBook([rule], make_codecs(columns))
        cells = pl.DataFrame([*itertools.product(*lists)], schema=dict.fromkeys(names, pl.String), orient="row")
        broken = book.find_broken(cells)[0].reshape(len(kind.tokens), -1)
        possible &= ((forms > 0).astype(np.float32) @ broken == 0).any(axis=1)
    return possible


def _list_cells(column: Column) -> list[str]:
    """All legal cells of a column; empty if they are many or not known."""
    if isinstance(column, CategoricalColumn):
        return list(column.tokens)
    if not isinstance(column, NumericColumn) or isinstance(column, HigherColumn):
        return []
    written = WrittenNumbers(column)
    if written.high - written.low >= _MOST_COMBINATIONS:
        return []
    return [*column.listed, *written.write(np.arange(written.low, written.high + 1))]


def fit_shares(forms: Integers, shares: Floats, *, sizes: Floats, kinds: Floats) -> Floats:
    """The shares of units of each form, changed as little as possible to fit the rows.

    Noise on many forms adds up. So the numbers of rows of each kind are those of the drawn rows, which units are made
    of, and the shares of units by size are the mean of what forms and rows say.
    Shapes: (forms, kinds), (forms,); numbers of rows by the size of their unit (sizes,) and by their kind (kinds,), to
      (forms,), of which the sum is 1.
    Source: Deming and Stephan 1940; Darroch and Ratcliff 1972 (generalized iterative scaling).
    """
    counts, members, by_rows = forms.astype(np.float64), forms.sum(axis=1), sizes / np.arange(1, len(sizes) + 1)
    by_forms = np.bincount(members - 1, shares, len(sizes))
    units = (by_forms / by_forms.sum() + by_rows / by_rows.sum()) / 2
    wanted = kinds / kinds.sum() * (units @ np.arange(1, len(sizes) + 1))
    for _ in range(_FITS):
        steps = np.log((wanted + _TINY) / (shares @ counts + _TINY))
        shares = shares * np.exp(counts @ steps / len(sizes))
        of_size = np.bincount(members - 1, shares, len(sizes))
        shares = shares * (units / np.maximum(of_size, _TINY))[members - 1]
    fitted: Floats = shares / shares.sum()
    return fitted


def read_kinds(frame: pl.DataFrame, schema: Schema) -> Integers32:
    """The kind of each row of cells. Shapes: (n,)."""
    column = _find_kind(schema)
    if column is None:
        return np.zeros(frame.height, np.int32)
    return require(make_codec(column).encode(frame.get_column(column.name), Findings()).codes, column.name)


def count_kinds(schema: Schema) -> int:
    """Number of kinds that counts of pairs of rows distinguish."""
    column = _find_kind(schema)
    return 1 if column is None or len(column.tokens) > _MOST_KINDS else len(column.tokens)


def count_forms(table: SourceTable, units: Units, encoder: TableEncoder) -> Integers:
    """Counts units by form: by their rows of each kind that no rule drops. Shapes: (forms,).

    Privacy: a unit is in one cell, or, with no row left or of a form that is none, in none. One that is taken out
      leaves it; one with other rows, or of another number of them, moves to another. Rows that end the run, for a cell
      that is not legal, are in none.
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
