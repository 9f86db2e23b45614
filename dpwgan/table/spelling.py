"""How a typed value of a pandas frame or Parquet file is written as a cell, each value by itself.

What type pandas gives to a column depends on all its rows: one empty cell turns 1 into 1.0, one word turns 1.50 into
text. So a cell is written by what its own value means, never by the type of its column: 1, 1.0, "01", "1.0", "+1" and
True are the same cell, and so are 1.5 and "1.50". Where a value no longer says which cell it was (a float from 2^53 up,
more than 15 digits, one number for two listed cells, a time in a list of cells), the table is refused.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np
import polars as pl

from dpwgan.array_types import AnyIntegers
from dpwgan.errors import DataError, quote
from dpwgan.table.calendar import CalendarColumn
from dpwgan.table.findings import Findings
from dpwgan.table.moments import drop_zone, read_moments, write_moments
from dpwgan.table.numerals import read_number
from dpwgan.table.schema import BooleanColumn, Column, FunctionColumn, IdentifierColumn

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True)
class Refusal:
    """A value that has no cell, and the rule that says so."""

    rule: str


Cell = str | Refusal

_NO_CELL = Refusal("is neither text nor a number, truth value or date")
_IS_TIME = Refusal("is a time, which has to be given as text or a number here")
NO_MOMENT = Refusal("is no moment that the column's format can write")
_TOO_LARGE = Refusal("is a float too large to be one exact whole number (integers or text are exact)")
_TOO_LONG = Refusal("is a fraction of more than 15 digits, which no list of cells can hold")
_AMBIGUOUS = Refusal("may be any of several listed cells (give them as listed, as text)")

# The words and the blanks that pandas takes for truth values, infinity and nothing when it reads a file.
_TRUTHS = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}
_INFINITIES = {sign + word: float(sign + word) for sign in ("", "+", "-") for word in ("inf", "infinity")}
_SPACES = " \t\n\r\v\f"

# Doubles and whole numbers that `Speller` writes as polars does but for a ".0" at the end, thirty times as fast.
_DIGITS = r"^(|0|-?[1-9]\d*|-?[1-9]\d*\.\d*[1-9]|-?0\.\d{0,3}[1-9](\d*[1-9])?)$"

# numpy has no such numbers.
_WIDE = (pl.Int128, pl.UInt128)

_A_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_FIRST_DAY, _LAST_DAY = ((day - datetime.date(1970, 1, 1)).days for day in (datetime.date.min, datetime.date.max))

# Up to here pandas reads a fraction as the nearest double, and its digits can be had back from the double.
_MOST_DIGITS = 15


def write_cells(column: str, distinct: Sequence[Cell], places: AnyIntegers, findings: Findings) -> pl.Series:
    """Writes a column of which these are the different cells; refusals are counted, and empty here.

    Shapes: k cells and the place of each row's among them, (n,) whole numbers, below 0 for an empty cell.
    Raises: DataError if a cell cannot be written.
    """
    counts = np.bincount(places[places >= 0], minlength=len(distinct))
    for cell, rows in zip(distinct, counts.tolist(), strict=True):
        if isinstance(cell, Refusal):
            findings.add(column, cell.rule, rows)
    try:
        # The last one is the empty cell.
        texts = pl.Series([*("" if isinstance(cell, Refusal) else cell for cell in distinct), ""], dtype=pl.String)
    except UnicodeEncodeError:
        raise DataError(f"Column {quote(column)} has a cell that cannot be written in UTF-8.") from None
    return texts.gather(np.where(places < 0, len(distinct), places))


def spell_values(values: pl.Series, speller: Speller, findings: Findings) -> pl.Series:
    """Writes a column of typed values as cells; refusals are counted, and empty here. Raises: as `write_cells`."""
    kind, column = values.dtype, speller.column
    if kind in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        return values.cast(pl.String).fill_null("")
    if kind == pl.Date or isinstance(kind, pl.Datetime | pl.Duration):
        is_beyond = _lie_beyond_calendar(values).fill_null(False)
        findings.add(column.name, NO_MOMENT.rule, int(is_beyond.sum()))
        values = values.set(is_beyond, None)
    if isinstance(column, CalendarColumn) and kind.is_temporal():
        return spell_moments(values, column, findings)
    if column.by_spelling or not (kind.is_integer() or kind in (pl.Float32, pl.Float64)):
        return _spell_distinct(values, speller, findings)
    digits = values.cast(pl.String).fill_null("").str.strip_suffix(".0")
    # By each row alone; of singles from 2^24 up, and of all halves, polars has digits of its own.
    is_plain = digits.str.contains(_DIGITS)
    if kind == pl.Float32:
        is_plain &= (values.abs() < 1 << 24).fill_null(True)
    if is_plain.all():
        return digits
    others = _spell_distinct(values.filter(~is_plain), speller, findings)
    return digits.scatter((~is_plain).arg_true(), others)


def has_no_cells(kind: pl.DataType) -> bool:
    """Whether values of a type are no cells: lists, durations (but for those that the specs call times), bytes."""
    return kind.is_nested() or kind in (pl.Object, pl.Duration, pl.Binary)


def name_type(kind: pl.DataType) -> str:
    """The name of a type, without its parameters."""
    return str(kind.base_type()).lower()


def _spell_distinct(values: pl.Series, speller: Speller, findings: Findings) -> pl.Series:
    """Writes each different value once. As `spell_values`."""
    kind = values.dtype
    cells: list[Cell]
    if has_no_cells(kind):
        rule = f'is of type {name_type(kind)}: make numbers or text of the column, or list it as "drop"'
        cells, places = [Refusal(rule)], np.zeros(len(values), np.int64)
    elif kind.is_float() or kind == pl.Boolean or (kind.is_integer() and kind not in _WIDE):
        # As an array, so that a float32 is written with its own digits and not with those of the double it becomes.
        filled = values.fill_null(False if kind == pl.Boolean else 0).to_numpy()
        distinct, places = np.unique(filled, return_inverse=True)
        cells = [speller.spell(value) for value in distinct]
    else:
        # In Python two moments are one where they differ by nanoseconds.
        distinct_values = dict.fromkeys(values.drop_nulls().unique(maintain_order=True))
        place_of = {value: place for place, value in enumerate(distinct_values)}
        places = np.array([place_of.get(value, -1) for value in values.to_list()], np.int64)
        cells = [speller.spell(value) for value in place_of]
    return write_cells(values.name, cells, np.where(values.is_null().to_numpy(), -1, places), findings)


def _lie_beyond_calendar(values: pl.Series) -> pl.Series:
    """Which dates, times or durations lie before year 1 or after year 9999, or that long from 1970; null for null."""
    kind = values.dtype
    a_day = 86_400 * _A_SECOND[kind.time_unit] if isinstance(kind, pl.Datetime | pl.Duration) else 1
    days = values.to_physical() // a_day
    return (days < _FIRST_DAY) | (days > _LAST_DAY)


def spell_moments(values: pl.Series, column: CalendarColumn, findings: Findings) -> pl.Series:
    """Writes dates, times of day, both, or durations since midnight; what the format cannot say in full is refused."""
    moments = drop_zone(values, column)
    cells = write_moments(moments, column)
    exact = (read_moments(cells, column) == moments).fill_null(False)
    findings.add(column.name, NO_MOMENT.rule, int((~exact & values.is_not_null()).sum()))
    return cells.set(~exact, "").rename(values.name)


class Speller:
    """Writes one column's values as cells, each by itself.

    A cell of a file may come as text or as the number that pandas made of it. For every cell both ways lead to the same
    spelling, or one of them is refused.
    """

    def __init__(self, column: Column) -> None:
        self.column = column
        self._listed = frozenset(column.listed)
        # The encoder takes a numeric column's cells and missing codes as doubles, in any spelling; it compares derived
        # cells as numbers, and drops row names. Only a list of cells goes by its spelling.
        self._as_it_stands = isinstance(column, FunctionColumn | IdentifierColumn | BooleanColumn | CalendarColumn)
        self._by_number = _index((_read_numeral(cell), cell) for cell in self._listed)
        self._by_truth = _index((_TRUTHS.get(cell), cell) for cell in self._listed)
        if isinstance(column, BooleanColumn):
            self._by_truth = dict(zip((True, False), column.tokens, strict=False))

    def spell(self, value: object) -> Cell:
        """Writes one value as a cell, or says why it has none."""
        import pandas as pd

        if isinstance(value, str):
            return self._spell_text(value)
        if value is None or value is pd.NA or value is pd.NaT:
            return ""
        if isinstance(value, bool | np.bool_):
            return self._spell_truth(bool(value))
        if isinstance(value, float | np.floating):
            return self._spell_float(value)
        if isinstance(value, np.timedelta64):  # a whole number to numpy
            return _NO_CELL
        if isinstance(value, int | np.integer):
            return self._spell_number(int(value))
        if isinstance(value, Decimal):
            return "" if value.is_nan() else self._spell_text(str(value))
        if isinstance(value, datetime.datetime | pd.Timedelta | pd.Period):
            return str(value) if isinstance(self.column, IdentifierColumn) else _IS_TIME
        return str(value) if hasattr(value, "isoformat") else _NO_CELL

    def _spell_text(self, text: str) -> Cell:
        if self._as_it_stands or text in self._listed:
            return text
        if text in _TRUTHS:
            return self._spell_truth(_TRUTHS[text])
        stripped = text.strip(_SPACES)
        if not self.column.by_spelling:
            infinity = _INFINITIES.get(stripped.lower())
            return stripped if infinity is None else self._spell_number(infinity)
        number = _read_numeral(stripped)
        if number is None or math.isinf(number):
            return text
        if isinstance(number, float) and _count_digits(stripped) > _MOST_DIGITS:
            return _TOO_LONG
        return self._spell_number(number)

    def _spell_truth(self, value: bool) -> Cell:
        if value in self._by_truth:
            return self._by_truth[value]
        return self._spell_number(int(value))

    def _spell_float(self, value: float | np.floating[Any]) -> Cell:
        if math.isnan(value):
            return ""
        if math.isinf(value):
            return _TOO_LARGE if self.column.by_spelling else self._spell_number(float(value))
        if value == int(value):
            # From 2^53 up (2^24 in single precision) the float may stand for its neighbours too.
            exact = abs(int(value)) < 1 << (np.finfo(type(value)).nmant + 1)
            return self._spell_number(int(value)) if exact or not self.column.by_spelling else _TOO_LARGE
        # By its own digits: a float32 of 0.1 is 0.1, not the double nearest to the float32.
        if self.column.by_spelling and _count_digits(str(value)) > _MOST_DIGITS:
            return _TOO_LONG
        return self._spell_number(float(str(value)))

    def _spell_number(self, number: int | float) -> Cell:
        if number in self._by_number and (self.column.by_spelling or math.isinf(number)):
            return self._by_number[number]
        return str(number) if isinstance(number, int) else repr(number)


def _index(pairs: Iterable[tuple[_Key | None, str]]) -> dict[_Key, Cell]:
    """The one cell of each key; a key with more of them is ambiguous."""
    cells: dict[_Key, Cell] = {}
    for key, cell in pairs:
        if key is not None:
            cells[key] = _AMBIGUOUS if key in cells else cell
    return cells


def _read_numeral(text: str) -> int | float | None:
    """Reads text as pandas would, exactly: a whole number as an int, a fraction or infinity as a float, or None.

    A whole number from 2^53 up counts only if it is written in digits alone; pandas has no exact number for the others.
    """
    numeral = text.strip(_SPACES)
    if numeral.lower() in _INFINITIES:
        return _INFINITIES[numeral.lower()]
    number = read_number(numeral)
    if number is None:
        return None
    if number == number.to_integral_value():
        return int(number) if numeral.lstrip("+-").isdigit() or abs(number) < 1 << 53 else None
    nearest = float(number)
    return int(nearest) if nearest.is_integer() and _count_digits(numeral) <= _MOST_DIGITS else nearest


def _count_digits(numeral: str) -> int:
    return len(Decimal(numeral).as_tuple().digits)
