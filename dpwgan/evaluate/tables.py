"""Real, synthetic and hold-out rows in one form: cells of a public binning, and the numbers behind them.

Privacy: NOT private. What is read here, and everything computed from it, is for whoever may see the real rows.
"""

import functools
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import polars as pl

from dpwgan.array_types import AnyArray, Floats, Integers, Integers32
from dpwgan.errors import DataError, UsageError
from dpwgan.evaluate.links import Link, LinkedRows
from dpwgan.table.calendar import DAY, CalendarColumn, LaterColumn
from dpwgan.table.codecs import make_codec
from dpwgan.table.codecs.codec import list_distinct, require
from dpwgan.table.codecs.moments import MomentCodec
from dpwgan.table.codecs.numbers import BinCodec, NumberCodec, NumericCodec
from dpwgan.table.domains import discover_domains
from dpwgan.table.files.reader import open_table
from dpwgan.table.files.stream import read_bytes
from dpwgan.table.findings import Findings, describe
from dpwgan.table.rules import RuleBook, make_rule
from dpwgan.table.schema import (
    BooleanColumn,
    CategoricalColumn,
    FunctionColumn,
    HigherColumn,
    NumericColumn,
    Schema,
    SizeColumn,
    TrainedColumn,
    name_part,
)
from dpwgan.table.units.units import Units, read_units

BUCKETS = 100
"""Of the range of a number. Source: NIST 2018 challenge, scoring method 1."""

NOTICE = "Contains private statistics, not covered by epsilon."
"""Stands in everything that the evaluation and the audit write."""

MISSING = "missing"

Kind = Literal["categorical", "number", "number_or_missing"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparedColumn:
    """A column's public binning: its kind and one label a cell.

    A categorical column has one cell a category, its missing codes included. A number has `BUCKETS` of equal width over
    the range of the specs, or one a value where whole numbers are fewer; where it may be missing the last cell says so.
    A column of which methods see two parts is two columns here too, as "seen (day)".
    `missing` are the cells that mean not available. `write` puts a moment, as its number, in words; `step` is how much
    of a unit of time one of its steps is, and that unit.
    Units: `minimum` and `maximum` are the public range of a number, in its own unit, or of moments, in steps from the
      first one; NaN for a categorical column.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...] = field(repr=False)
    missing: tuple[int, ...] = field(default=(), repr=False)
    minimum: float = math.nan
    maximum: float = math.nan
    write: Callable[[int], str] | None = field(default=None, repr=False)
    step: tuple[float, str] = (1.0, "")

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.labels)


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparedTable:
    """The rows of a table whose cells are all legal, or some of them.

    `records` counts all rows of the file, `illegal` those with a cell that is not legal, and `broken` says which
    (column, rule, rows), derived columns included, which leave no row out; `rules` has the rows that break each rule
    between columns. `units` are those of all rows of the file, if it says whose each is, and `links` how legal rows of
    one hang together. Identifier and derived columns are not among the columns; derived ones are in `written`.

    Privacy: rows of a real table are private; they do not show in the representation.
    Shapes: `cells` and `numbers` are (n, columns). `cells` holds the cell of the public binning; `numbers` the numeric
      value, NaN where it is missing, and the cell's index for a categorical column. `written` has n rows of text.
    Units: `numbers` is in the unit of the column, as its `minimum` and `maximum`.
    """

    columns: tuple[ComparedColumn, ...]
    cells: Integers32 = field(repr=False)
    numbers: Floats = field(repr=False)
    written: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False)
    records: int = 0
    illegal: int = 0
    broken: tuple[tuple[str, str, int], ...] = field(default=(), repr=False)
    rules: tuple[tuple[str, int], ...] = field(default=(), repr=False)
    units: Units | None = field(default=None, repr=False)
    links: tuple[Link, ...] = field(default=(), repr=False)
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

    @property
    def numeric(self) -> list[int]:
        """Places of the columns that are numbers, moments among them."""
        return [place for place, column in enumerate(self.columns) if column.kind != "categorical"]

    def count_shares(self, place: int) -> Floats:
        """The share of rows in each cell of a column. Shapes: (cells,)."""
        shares: Floats = np.bincount(self.cells[:, place], minlength=self.sizes[place]) / self.rows
        return shares

    def take(self, rows: Integers) -> "ComparedTable":
        """The same table with these rows, in this order; what is counted stays that of the whole table."""
        written = self.written[rows] if self.written.height else self.written
        return replace(self, cells=self.cells[rows], numbers=self.numbers[rows], written=written)

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


def read_tables(
    real: str, synthetic: str, holdout: str | None, *, specs: Schema, most: int | None = None, seed: int = 0
) -> TableSet:
    """Reads the tables; rows of the synthetic one that the specs do not allow are left out and counted.

    Raises: as `read_compared`; UsageError if the hold-out is the real table, by which nothing would seem to leak.
    """
    if holdout is not None and Path(holdout).resolve() == Path(real).resolve():
        raise UsageError("the hold-out rows are the real table: take out rows that are not trained on")
    schema = discover_schema(specs, real, *filter(None, [holdout]))
    return TableSet(
        real=read_compared(real, schema, most=most, seed=seed),
        holdout=None if holdout is None else read_compared(holdout, schema, most=most, seed=seed),
        synthetic=read_compared(synthetic, schema, illegal="leave out", most=most, seed=seed),
        schema=schema,
    )


def digest_file(path: str) -> str:
    """The SHA-256 of a table's bytes, by which a claim and an audit name it."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def discover_schema(schema: Schema, *paths: str | Path) -> Schema:
    """Lists the cells of columns whose list the specs leave to the data, as they occur in tables of real rows.

    Privacy: NOT private.
    Raises: as `read_compared`.
    """
    if not schema.undiscovered:
        return schema
    waived = schema.put(*(replace(column, privacy="waived") for column in schema.undiscovered))
    return discover_domains((frame for path in paths for frame in open_table(path, waived).frames()), waived)


def read_compared(
    path: str | Path,
    schema: Schema,
    *,
    illegal: Literal["refuse", "leave out"] = "refuse",
    most: int | None = None,
    seed: int = 0,
) -> ComparedTable:
    """Reads a table as cells of the public binning; of more than `most` rows a sample of that many, by the seed.

    With `illegal` "refuse" (real rows) the specs' own rules for cells outside the domain hold, and any other illegal
    cell ends the run; with "leave out" (synthetic rows) every illegal cell is counted and its row left out. What is
    counted is counted over all rows.

    Privacy: NOT private. A refusal names columns, rules and counts of rows, never a cell.
    Shapes: n rows whose cells are legal.
    Raises: InputError, TransferError, DataError as `open_table`; DataError for an illegal cell where they are refused,
      or if no row is left.
    """
    kept = [column for column in schema.columns if isinstance(column, TrainedColumn)]
    if illegal == "leave out":
        kept = [replace(cast(Any, column), out_of_domain="reject") for column in kept]
        schema = schema.put(*kept)
    binnings = [(column.name, _BINNINGS[type(column)](column)) for column in kept]
    codecs = {column.name: make_codec(column) for column in kept}
    derived = {c.name: make_rule(c, schema) for c in schema.columns if isinstance(c, FunctionColumn)}
    book = RuleBook(schema.rules, {**codecs, **derived})
    linked = LinkedRows(schema, codecs)
    try:
        source = open_table(path, schema)
        unit = schema.unit
        if unit is not None and unit.name in source.header:
            # All rows, and what those of a unit have in common is not checked.
            source = replace(read_units(source, replace(unit, shared=(), unique=())), records=source.records)
    except DataError as error:
        raise DataError(f"The table {str(path)!r} cannot be compared. {error}") from None
    drawn = np.ones(source.records, dtype=bool)
    if most is not None and source.records > most:
        drawn[np.random.default_rng(seed).permutation(source.records)[most:]] = False
    findings, broken, parts = Findings(), Counter[str](), []
    left_out = first = 0
    for frame in source.frames():
        read = [binning.read(frame.get_column(name), findings) for name, binning in binnings]
        cells, numbers = (np.concatenate([pair[side] for pair in read]).T for side in (0, 1))
        for rule in derived.values():
            rule.check(frame, findings)
        for between, flags in zip(book.rules, book.find_broken(frame), strict=True):
            broken[between.name] += int(np.count_nonzero(flags))
        legal = (cells >= 0).all(axis=1)
        left_out += int(np.count_nonzero(~legal))
        linked.read(frame, legal)
        rows = np.flatnonzero(legal & drawn[first : first + frame.height])
        # Spellings of a truth, and months in capitals, are one cell: which a table has says nothing of its rows.
        truths = [
            pl.Series(column.name, column.tokens).gather(found[0][rows])
            for column, (found, _) in zip(kept, read, strict=True)
            if isinstance(column, BooleanColumn)
        ]
        moments = pl.col([column.name for column in kept if isinstance(column, CalendarColumn)]).str.to_uppercase()
        written = frame[rows].select(*codecs, *derived).with_columns(truths).with_columns(moments).cast(pl.Categorical)
        parts.append((cells[rows].astype(np.int32), numbers[rows].astype(np.float64), written))
        first += frame.height
    for between in book.rules:
        if illegal == "refuse" and between.violations == "reject":
            findings.add_broken(between.name, broken[between.name])
    if findings.rows and illegal == "refuse":
        raise DataError(f"The table {str(path)!r} does not fit the specs: {describe(findings.rows)}.")
    if not any(len(part[0]) for part in parts):
        raise DataError(f"The table {str(path)!r} has no row whose cells are all legal.")
    return ComparedTable(
        columns=tuple(column for _, binning in binnings for column in binning.columns),
        cells=np.concatenate([part[0] for part in parts]),
        numbers=np.concatenate([part[1] for part in parts]),
        written=pl.concat([part[2] for part in parts]),
        records=source.records,
        illegal=left_out,
        broken=tuple((column, rule, count) for (column, rule), count in findings.rows.items()),
        rules=tuple((rule.name, broken[rule.name]) for rule in book.rules),
        units=source.units,
        links=linked.measure(source.units, seed=seed),
        path=str(path),
    )


def count_cells(table: ComparedTable, columns: Sequence[int]) -> Integers:
    """Numbers the cells of a marginal: for each row, which combination of these columns' cells it has.

    Shapes: (n,) keys, each below the product of the columns' sizes.
    """
    shape = tuple(table.columns[column].cells for column in columns)
    keys: Integers = np.ravel_multi_index(tuple(table.cells[:, column] for column in columns), shape)
    return keys


_Read = tuple[AnyArray, AnyArray]
"""Of (n,) rows the cell of each part of a column, -1 where it is illegal, and the number: (parts, n) both."""


class _Categories:
    """A finite list of cells, each by itself."""

    def __init__(self, column: CategoricalColumn) -> None:
        self._codec = make_codec(column)
        absent = tuple(place for place, token in enumerate(column.tokens) if token in column.missing)
        self.columns = (ComparedColumn(name=column.name, kind="categorical", labels=column.tokens, missing=absent),)

    def read(self, cells: pl.Series, findings: Findings) -> _Read:
        """The index of each cell in the list."""
        codes: Integers32 = np.atleast_2d(require(self._codec.encode(cells, findings).codes, cells.name))
        return codes, codes


class _Numbers:
    """Numbers or moments, each part that methods see of them cut into buckets."""

    def __init__(self, codec: NumericCodec | MomentCodec, buckets: Sequence["_Buckets"]) -> None:
        self._codec, self._buckets = codec, buckets
        self.columns = tuple(each.column for each in buckets)

    def read(self, cells: pl.Series, findings: Findings) -> _Read:
        """Of each different cell once: the bucket of each part, and its number, NaN where it is missing."""
        distinct, places = list_distinct(cells)
        missing, values, broken = self._codec.read(pl.Series(distinct, dtype=pl.String))
        illegal = np.zeros(len(distinct), dtype=bool)
        for rule, which in broken.items():
            illegal |= which
            findings.add(cells.name, rule, int(np.count_nonzero(which.take(places))))
        parts = self._codec.split(values.astype(np.int64)) if isinstance(self._codec, MomentCodec) else [values]
        numbers = np.stack([part.astype(np.float64) for part in parts])
        found = np.stack([each.find(part) for each, part in zip(self._buckets, numbers, strict=True)])
        found[:, missing >= 0] = [[each.most] for each in self._buckets]
        found[:, illegal] = -1
        numbers[:, (missing >= 0) | illegal] = np.nan
        return found.take(places, axis=1), numbers.take(places, axis=1)


def _cut_numbers(column: NumericColumn) -> _Numbers:
    codec = (NumberCodec if column.edges is None else BinCodec)(column)
    return _Numbers(codec, [_Buckets(column)])


def _cut_moments(column: CalendarColumn) -> _Numbers:
    codec = MomentCodec(column)

    def write(step: int, part: int) -> str:
        if not column.by_day:
            return str(codec.write_steps(np.array([step]))[0])
        unit, start = (DAY, column.first // DAY * DAY) if part == 0 else (column.step, column.first % column.step)
        moment = datetime(1970, 1, 1) + timedelta(microseconds=start + step * unit)
        return str(moment.date() if part == 0 else moment.time())

    def measure(part: int) -> tuple[float, str]:
        if column.in_months:
            return float(column.step), "months"
        if part == 1 or column.written == "time":
            return 24 * column.step / DAY, "hours"
        return (1.0 if column.by_day else column.step / DAY), "days"

    numbers = [replace(number, name=name_part(column.name, number.name)) for number in column.numbers]
    writers = [functools.partial(write, part=part) for part in range(len(numbers))]
    return _Numbers(codec, [_Buckets(own, writers[part], step=measure(part)) for part, own in enumerate(numbers)])


class _Buckets:
    """A public range cut into pieces of equal width, as the challenge cut it.

    Source: NIST 2018 challenge, match 3, competitor pack: the range is stretched by 1.0001 so that the maximum lies in
      the last bucket. Where whole numbers are no more than the buckets, each lies in a bucket of its own; then the
      empty buckets between them are left out, which is the same binning.
    """

    def __init__(
        self,
        column: NumericColumn,
        write: Callable[[int], str] | None = None,
        *,
        step: tuple[float, str] = (1.0, ""),
    ) -> None:
        self._specs, self._write = column, write or str
        values = int(math.floor(column.maximum) - math.ceil(column.minimum)) + 1 if column.integer else 0
        if 1 <= values <= BUCKETS:
            self._first, self._step, self.most = float(math.ceil(column.minimum)), 1.0, values
        else:
            self._first = column.minimum
            self._step = 1.0001 * (column.maximum - column.minimum) / BUCKETS or 1.0
            self.most = BUCKETS if column.maximum > column.minimum else 1
        labels = [self._label(place) for place in range(self.most)]
        self.column = ComparedColumn(
            name=column.name,
            kind="number_or_missing" if column.missing else "number",
            labels=(*labels, MISSING) if column.missing else tuple(labels),
            missing=(self.most,) if column.missing else (),
            minimum=column.minimum,
            maximum=column.maximum,
            write=write,
            step=step,
        )

    def find(self, values: Floats) -> Integers32:
        """The bucket of each number."""
        return np.clip((values - self._first) / self._step, 0, self.most - 1).astype(np.int32)

    def _label(self, place: int) -> str:
        low = self._first + place * self._step
        high = min(low + self._step, self._specs.maximum)
        if not self._specs.integer:
            return f"{low:.6g} to {high:.6g}"
        first = math.ceil(low)
        last = math.floor(high) if place == self.most - 1 else math.ceil(low + self._step) - 1
        last = min(last, math.floor(self._specs.maximum))
        return self._write(first) if first >= last else f"{self._write(first)} to {self._write(last)}"


_BINNINGS: dict[type[TrainedColumn], Callable[[Any], _Categories | _Numbers]] = {
    CategoricalColumn: _Categories,
    BooleanColumn: _Categories,
    SizeColumn: _Categories,
    NumericColumn: _cut_numbers,
    HigherColumn: _cut_numbers,
    CalendarColumn: _cut_moments,
    LaterColumn: _cut_moments,
}
