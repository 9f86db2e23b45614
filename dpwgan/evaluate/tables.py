"""Real, synthetic and hold-out rows in one form: cells of a public binning, and the numbers behind them.

Privacy: NOT private. What is read here, and everything computed from it, is for whoever may see the real rows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from dpwgan.errors import DataError
from dpwgan.table.calendar import DAY, CalendarColumn
from dpwgan.table.codecs import NOT_LISTED, NOT_NUMBER, NOT_WHOLE, MomentCodec, make_codec, read_numbers
from dpwgan.table.domains import discover_domains
from dpwgan.table.findings import Findings, describe
from dpwgan.table.numerals import BLANKS, read_number
from dpwgan.table.reader import open_table
from dpwgan.table.rules import RuleBook, make_rule
from dpwgan.table.schema import (
    BooleanColumn,
    CategoricalColumn,
    ComputedColumn,
    DerivedColumn,
    NumericColumn,
    Schema,
    TrainedColumn,
    UndiscoveredColumn,
    name_part,
)

BUCKETS = 100
"""Of the range of a number. Source: NIST 2018 challenge, scoring method 1."""

NOTICE = "Contains private statistics, not covered by epsilon."
"""Stands in everything that the evaluation and the audit write."""

MISSING = "missing"
OUTSIDE = "is not in the range of the specs"

Kind = Literal["categorical", "number", "number_or_missing"]
Illegal = Literal["refuse", "leave out"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparedColumn:
    """A column's public binning: its kind and one label a cell.

    A categorical column has one cell a category, its missing codes included. A number has `BUCKETS` of equal width over
    the range of the specs, or one a value where whole numbers are fewer; where it may be missing the last cell says so.
    A column of which methods see two parts is two columns here too, as "seen (day)".
    `missing` are the cells that mean not available.
    Units: `minimum` and `maximum` are the public range of a number, in its own unit, or of moments, in steps from the
      first one; NaN for a categorical column.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...] = field(repr=False)
    missing: tuple[int, ...] = field(default=(), repr=False)
    minimum: float = math.nan
    maximum: float = math.nan

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.labels)


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparedTable:
    """The rows of a table whose cells are all legal.

    `illegal` counts the rows that were left out because a cell is not legal; `broken` says which (column, rule, rows),
    derived columns included, which leave no row out. Identifier and derived columns are not among the columns.

    Privacy: rows of a real table are private; they do not show in the representation.
    Shapes: `cells` and `numbers` are (n, columns). `cells` holds the cell of the public binning; `numbers` the numeric
      value, NaN where it is missing, and the cell's index for a categorical column.
    Units: `numbers` is in the unit of the column, as its `minimum` and `maximum`.
    """

    columns: tuple[ComparedColumn, ...]
    cells: npt.NDArray[np.int32] = field(repr=False)
    numbers: npt.NDArray[np.float64] = field(repr=False)
    illegal: int = 0
    broken: tuple[tuple[str, str, int], ...] = field(default=(), repr=False)
    path: str = ""

    @property
    def rows(self) -> int:
        """Number of rows n."""
        return int(self.cells.shape[0])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each column."""
        return tuple(column.cells for column in self.columns)

    def take(self, rows: npt.NDArray[np.int64]) -> "ComparedTable":
        """The same table with these rows, in this order; `illegal` and `broken` stay those of the whole table."""
        return replace(self, cells=self.cells[rows], numbers=self.numbers[rows])

    def draw(self, rows: int, rng: np.random.Generator) -> "ComparedTable":
        """As many rows, drawn without replacement; the whole table if it has no more."""
        return self if self.rows <= rows else self.take(rng.choice(self.rows, size=rows, replace=False))


@dataclass(frozen=True, kw_only=True, eq=False)
class TableSet:
    """Rows trained on, rows made from them, rows held out (or None), and the public facts about their columns."""

    real: ComparedTable
    synthetic: ComparedTable
    holdout: ComparedTable | None
    schema: Schema


def read_tables(real: str, synthetic: str, holdout: str | None, *, specs: Schema) -> TableSet:
    """Reads the tables; rows of the synthetic one that the specs do not allow are left out and counted.

    Raises: as `read_compared`.
    """
    schema = discover_schema(real, specs)
    return TableSet(
        real=read_compared(real, schema),
        holdout=None if holdout is None else read_compared(holdout, schema),
        synthetic=read_compared(synthetic, schema, illegal="leave out"),
        schema=schema,
    )


def discover_schema(path: str | Path, schema: Schema) -> Schema:
    """Lists the cells of columns whose list the specs leave to the data, as they occur in this, the real table.

    Privacy: NOT private.
    Raises: as `read_compared`.
    """
    if not any(isinstance(column, UndiscoveredColumn) for column in schema.columns):
        return schema
    waived = _change_columns(schema, UndiscoveredColumn, privacy="waived")
    return discover_domains(open_table(path, waived).frames(), waived)


def _change_columns(schema: Schema, kind: Any, **changes: Any) -> Schema:
    """The schema with these changes in every column of a kind."""
    columns = (replace(column, **changes) if isinstance(column, kind) else column for column in schema.columns)
    return replace(schema, columns=tuple(columns))


def read_compared(
    path: str | Path, schema: Schema, *, buckets: int = BUCKETS, illegal: Illegal = "refuse"
) -> ComparedTable:
    """Reads a table as cells of the public binning.

    With `illegal` "refuse" (real rows) the specs' own rules for cells outside the domain hold, and any other illegal
    cell ends the run; with "leave out" (synthetic rows) every illegal cell is counted and its row left out.

    Privacy: NOT private. A refusal names columns, rules and counts of rows, never a cell.
    Shapes: n rows whose cells are legal.
    Raises: InputError, TransferError, DataError as `open_table`; DataError for an illegal cell where they are refused,
      or if no row is left.
    """
    if illegal == "leave out":
        schema = _change_columns(schema, TrainedColumn, out_of_domain="reject")
    kept = [column for column in schema.columns if isinstance(column, TrainedColumn)]
    binnings = [(column.name, each) for column in kept for each in _BINNINGS[type(column)](column, buckets)]
    codecs = {column.name: make_codec(column) for column in kept}
    derived = {c.name: make_rule(c, schema) for c in schema.columns if isinstance(c, DerivedColumn | ComputedColumn)}
    # Real rows may break a rule that the specs say does not stop a run.
    rules = [rule for rule in schema.rules if illegal == "leave out" or rule.violations == "reject"]
    book = RuleBook(rules, {**codecs, **derived})
    try:
        source = open_table(path, schema)
    except DataError as error:
        raise DataError(f"The table {str(path)!r} cannot be compared. {error}") from None
    cells = np.empty((source.records, len(binnings)), dtype=np.int32)
    numbers = np.empty((source.records, len(binnings)), dtype=np.float64)
    findings = Findings()
    first = 0
    for frame in source.frames():
        rows = slice(first, first + frame.height)
        first += frame.height
        for place, (name, binning) in enumerate(binnings):
            _fill(frame.get_column(name), binning, findings, cells[rows, place], numbers[rows, place])
        for rule in derived.values():
            rule.check(frame, findings)
        for between, broken in zip(book.rules, book.find_broken(book.read(frame)), strict=True):
            findings.add_broken(between.name, int(np.count_nonzero(broken)))
    if findings.rows and illegal == "refuse":
        raise DataError(f"The table {str(path)!r} does not fit the specs: {describe(findings.rows)}.")
    legal = (cells >= 0).all(axis=1)
    left_out = int(np.count_nonzero(~legal))
    if left_out == len(legal):
        raise DataError(f"The table {str(path)!r} has no row whose cells are all legal.")
    if left_out:
        cells, numbers = cells[legal], numbers[legal]
    return ComparedTable(
        columns=tuple(binning.column for _, binning in binnings),
        cells=cells,
        numbers=numbers,
        illegal=left_out,
        broken=tuple((column, rule, count) for (column, rule), count in findings.rows.items()),
        path=str(path),
    )


def count_cells(table: ComparedTable, columns: Sequence[int]) -> npt.NDArray[np.int64]:
    """Numbers the cells of a marginal: for each row, which combination of these columns' cells it has.

    Shapes: (n,) keys, each below the product of the columns' sizes.
    """
    shape = tuple(table.columns[column].cells for column in columns)
    keys: npt.NDArray[np.int64] = np.ravel_multi_index(tuple(table.cells[:, column] for column in columns), shape)
    return keys


def _fill(
    column: pl.Series,
    binning: "_Categories | _Buckets | _Steps",
    findings: Findings,
    cells: npt.NDArray[np.int32],
    numbers: npt.NDArray[np.float64],
) -> None:
    # Each distinct cell is looked at once: columns have far fewer of them than rows.
    seen = column.unique()
    cell_of, number_of, broken = binning.read(seen)
    listed = seen.to_list()
    cells[:] = column.replace_strict(listed, cell_of.tolist(), return_dtype=pl.Int32).to_numpy()
    numbers[:] = column.replace_strict(listed, number_of.tolist(), return_dtype=pl.Float64).to_numpy()
    for rule, which in broken.items():
        if which.any():
            bad = column.is_in(seen.filter(pl.Series(which)).to_list())
            findings.add(binning.column.name, rule, int(bad.sum()))


_Read = tuple[npt.NDArray[np.int32], npt.NDArray[np.float64], dict[str, npt.NDArray[np.bool_]]]


class _Categories:
    """A finite list of cells, each by itself."""

    def __init__(self, column: CategoricalColumn) -> None:
        self._codec = make_codec(column)
        absent = tuple(place for place, token in enumerate(column.tokens) if token in column.missing)
        self.column = ComparedColumn(name=column.name, kind="categorical", labels=column.tokens, missing=absent)

    def read(self, seen: pl.Series) -> _Read:
        """For each distinct cell its index, or -1, its number, and which rules it breaks."""
        codes = self._codec.encode(seen, Findings()).codes
        places = np.full(len(seen), -1, dtype=np.int32) if codes is None else codes
        return places, places.astype(np.float64), {NOT_LISTED: places < 0}


class _Buckets:
    """A public range cut into pieces of equal width, as the challenge cut it.

    Source: NIST 2018 challenge, match 3, competitor pack: the range is stretched by 1.0001 so that the maximum lies in
      the last bucket. Where whole numbers are no more than the buckets, each lies in a bucket of its own; then the
      empty buckets between them are left out, which is the same binning.
    """

    def __init__(self, column: NumericColumn, buckets: int, write: Callable[[int], str] = str) -> None:
        self._specs, self._write = column, write
        values = int(math.floor(column.maximum) - math.ceil(column.minimum)) + 1 if column.integer else 0
        if 1 <= values <= buckets:
            self._first, self._step, self._buckets = float(math.ceil(column.minimum)), 1.0, values
        else:
            self._first = column.minimum
            self._step = 1.0001 * (column.maximum - column.minimum) / buckets or 1.0
            self._buckets = buckets if column.maximum > column.minimum else 1
        self._missing = [(token.strip(BLANKS), read_number(token)) for token in column.missing]
        labels = [self._label(place) for place in range(self._buckets)]
        self.column = ComparedColumn(
            name=column.name,
            kind="number_or_missing" if column.missing else "number",
            labels=(*labels, MISSING) if column.missing else tuple(labels),
            missing=(self._buckets,) if column.missing else (),
            minimum=column.minimum,
            maximum=column.maximum,
        )

    def read(self, seen: pl.Series) -> _Read:
        """For each distinct cell its bucket, or -1, its number, or NaN, and which rules it breaks."""
        column = self._specs
        text = seen.str.strip_chars(BLANKS)
        is_number, values = read_numbers(text)
        missing = np.zeros(len(seen), dtype=bool)
        for token, number in self._missing:
            missing |= (text == token).to_numpy()
            if number is not None:
                missing |= is_number & (values == float(number))
        whole = np.floor(values) == values if column.integer else np.ones(len(seen), dtype=bool)
        inside = (values >= column.minimum) & (values <= column.maximum)
        if column.out_of_domain == "missing":
            missing |= ~(is_number & whole & inside)
        elif column.out_of_domain == "clamp":
            values = np.clip(np.rint(values) if column.integer else values, column.minimum, column.maximum)
            whole[:], inside[:] = True, True
        broken = {
            NOT_NUMBER: ~missing & ~is_number,
            NOT_WHOLE: ~missing & is_number & ~whole,
            OUTSIDE: ~missing & is_number & whole & ~inside,
        }
        return *self.place(values, missing=missing, legal=is_number & whole & inside & ~missing), broken

    def place(
        self, values: npt.NDArray[np.float64], *, missing: npt.NDArray[np.bool_], legal: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
        """The bucket of each legal number, or -1, and the number, or NaN."""
        places = np.full(len(values), -1, dtype=np.int32)
        found = np.where(legal, values, self._specs.minimum)
        places[legal] = np.clip((found - self._first) / self._step, 0, self._buckets - 1).astype(np.int32)[legal]
        places[missing] = self._buckets
        return places, np.where(legal, values, np.nan)

    def _label(self, place: int) -> str:
        low = self._first + place * self._step
        high = min(low + self._step, self._specs.maximum)
        if not self._specs.integer:
            return f"{low:.6g} to {high:.6g}"
        first = math.ceil(low)
        last = math.floor(high) if place == self._buckets - 1 else math.ceil(low + self._step) - 1
        last = min(last, math.floor(self._specs.maximum))
        return self._write(first) if first >= last else f"{self._write(first)} to {self._write(last)}"


class _Steps:
    """The steps of a calendar, or days and times of day by themselves, as whole numbers are cut into buckets."""

    def __init__(self, column: CalendarColumn, buckets: int, part: int) -> None:
        self._codec, self._part = MomentCodec(column), part
        number = column.numbers[part]

        def write(step: int) -> str:
            if not column.by_day:
                return str(self._codec.write_steps(np.array([step]))[0])
            unit, start = (DAY, column.first // DAY * DAY) if part == 0 else (column.step, column.first % column.step)
            moment = datetime(1970, 1, 1) + timedelta(microseconds=start + step * unit)
            return str(moment.date() if part == 0 else moment.time())

        self._buckets = _Buckets(replace(number, name=name_part(column.name, number.name)), buckets, write)
        self.column = self._buckets.column

    def read(self, seen: pl.Series) -> _Read:
        """As of numbers; what is wrong is said of the first part alone."""
        missing, steps, broken = self._codec.read(seen)
        illegal = np.logical_or.reduce([np.zeros(len(seen), bool), *broken.values()])
        values = self._codec.split(steps)[self._part].astype(np.float64)
        placed = self._buckets.place(values, missing=missing >= 0, legal=~illegal & (missing < 0))
        return *placed, dict(broken) if self._part == 0 else {}


_BINNINGS: dict[type[TrainedColumn], Callable[[Any, int], Sequence[_Categories | _Buckets | _Steps]]] = {
    CategoricalColumn: lambda column, buckets: [_Categories(column)],
    BooleanColumn: lambda column, buckets: [_Categories(column)],
    NumericColumn: lambda column, buckets: [_Buckets(column, buckets)],
    CalendarColumn: lambda column, buckets: [_Steps(column, buckets, part) for part in range(len(column.numbers))],
}
