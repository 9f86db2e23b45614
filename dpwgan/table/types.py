"""Types of columns in frames and Parquet: those of the input where they hold every legal cell, else the specs' own.

Privacy: a type is what whoever made the table gave to a column, which the claim names as public, or what the specs say;
  no row is looked at for it. What programs choose by looking at rows unasked, because one empty cell makes a double of
  a whole number, does not count.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl

from dpwgan.errors import DpwganError
from dpwgan.table.calendar import CalendarColumn
from dpwgan.table.codecs.moments import MomentCodec
from dpwgan.table.codecs.numbers import WrittenNumbers
from dpwgan.table.findings import Findings
from dpwgan.table.moments import give_zone, read_moments
from dpwgan.table.numerals import are_same_cell
from dpwgan.table.schema import Column, DerivedColumn, NumericColumn, Schema
from dpwgan.table.spelling import Speller, spell_values

_TYPES: dict[str, pl.DataType] = {
    "whole": pl.Int64(),
    "real": pl.Float64(),
    "text": pl.String(),
    "truth": pl.Boolean(),
    "date": pl.Date(),
    "time": pl.Time(),
}

# One cell that is no number, or too large for one, makes text of a column.
_NUMBERS = ("whole", "real", "truth")
# Whole numbers are unsigned where one is 2^63 or more.
_CHOSEN_BY_ROWS = (pl.Int64(), pl.UInt64(), pl.Float64())


def choose_type(column: Column, schema: Schema, given: pl.DataType | None = None) -> pl.DataType:
    """The type that a column had, if it was chosen and every legal cell can be had back from it; else the specs'."""
    kind, _ = column.choose_type(schema)
    zone = column.zone if isinstance(column, CalendarColumn) else None
    usual = pl.Datetime("us", zone) if kind == "datetime" else _TYPES[kind]
    if given is None or given == pl.Null():  # which a column without any cell has
        return usual
    if given in _CHOSEN_BY_ROWS or (given == pl.String() and kind in _NUMBERS):
        # Of moments, one that is text makes text of a column that is doubles where it is empty.
        return pl.String() if isinstance(column, CalendarColumn) else usual
    if isinstance(given, pl.Enum):
        given = pl.Categorical()  # its own categories would be those of the table
    if isinstance(given, pl.Decimal):
        given = pl.Decimal(38, column.decimals if isinstance(column, NumericColumn) else 0)
    return given if holds_all(column, given) else usual


def holds_all(column: Column, kind: pl.DataType) -> bool:
    """Says whether a type holds every legal cell so that it can be had back."""
    if kind in (pl.String, pl.Categorical):
        return True
    cells, findings = list_extremes(column), Findings()
    try:
        typed = give_type(pl.Series(column.name, cells, dtype=pl.String), column, kind)
        again = spell_values(typed, Speller(column), findings)
    except (pl.exceptions.PolarsError, DpwganError, ValueError, TypeError, OverflowError):
        return False
    return bool(cells) and not findings.rows and all(map(are_same_cell, cells, again))


def give_type(cells: pl.Series, column: Column, kind: pl.DataType) -> pl.Series:
    """Turns legal cells into a type that holds them; an empty cell is null. Raises: PolarsError if it does not."""
    texts = cells.cast(pl.String).replace({"": None})
    if isinstance(column, CalendarColumn) and kind.is_temporal():
        return give_zone(read_moments(texts, column), column, kind)
    if kind == pl.Boolean:
        speller = Speller(column)
        truths = {speller.spell(truth): truth for truth in (True, False)}
        return texts.replace_strict({None: None, **truths}, return_dtype=kind)
    return texts.cast(kind)


def list_extremes(column: Column) -> Sequence[str]:
    """Legal cells that any type must hold to hold them all; none where they are not known."""
    if isinstance(column, NumericColumn):
        written = WrittenNumbers(column)
        # Those next to the ends as well, because a float of few digits may hold the ends alone.
        steps = np.array([written.low, written.low + 1, written.high - 1, written.high])
        return [*column.listed, *written.write(steps.clip(written.low, written.high))]
    if isinstance(column, CalendarColumn):
        # The last but one as well, because a coarser type may hold the ends.
        steps = np.array([0, column.steps, max(column.steps - 1, 0)])
        return [*column.listed, *MomentCodec(column).write_steps(steps)]
    if isinstance(column, DerivedColumn):
        return list(dict.fromkeys((column.mapping or {}).values()))
    return column.listed
