"""Columns encoded as how far they lie from another column's cell, so that order, distance and equality are kept."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import ClassVar, TypeVar

import numpy as np
import polars as pl

from dpwgan.array_types import Flags, Integers, Integers32
from dpwgan.errors import quote
from dpwgan.table.calendar import DAY, LaterColumn
from dpwgan.table.codecs.codec import EncodedCells, TrainedCodec, list_distinct
from dpwgan.table.codecs.moments import MomentCodec
from dpwgan.table.codecs.numbers import NumberCodec
from dpwgan.table.findings import Findings
from dpwgan.table.moments import MOMENT, read_moments, write_moments
from dpwgan.table.schema import HigherColumn

Values = TypeVar("Values", Integers, pl.Series)
Read = tuple[Integers32, Integers, Mapping[str, Flags]]
"""Of (k,) cells the index of the missing code, -1 where there is none; where they lie; and which break which rule."""


class RelativeCodec(TrainedCodec):
    """A column as its distance from another one's cell in the same row; where that is missing, so is this one's.

    `lag` encodes the distance, which is `least` to `most` of its steps; `astray` is the rule that other ones break.
    The claim's "each row by itself" holds: a cell is read beside the other cell of its row.
    """

    astray: ClassVar[str]
    column: HigherColumn | LaterColumn
    lag: NumberCodec | MomentCodec
    least: int
    most: int

    def encode_row(self, frame: pl.DataFrame, findings: Findings) -> EncodedCells:
        """Reads both cells of (n,) rows, and counts those that lie too far apart or the wrong way round."""
        source = self.sources[0]
        missing, places, legal = _read_rows(frame.get_column(self.name), self._read_places, findings, self.name)
        no_start, starts, has_legal_start = _read_rows(frame.get_column(source), self._read_starts, Findings(), source)
        alone = legal & has_legal_start & (missing < 0) & (no_start >= 0)
        steps = self._count_steps(places, starts)
        both = legal & has_legal_start & (missing < 0) & (no_start < 0)
        astray = both & ((steps < self.least) | (steps > self.most))
        if self.column.out_of_domain == "missing":
            missing = np.where(alone | astray, 0, missing).astype(np.int32)
        else:
            findings.add(self.name, f"is there where {quote(source)} is not", int(np.count_nonzero(alone)))
            if self.column.out_of_domain == "reject":
                findings.add(self.name, self.astray.format(quote(source)), int(np.count_nonzero(astray)))
        return self.lag.encode_steps(missing, np.where(missing < 0, steps, self.least).clip(self.least, self.most))

    def decode_row(self, encoded: EncodedCells, rng: np.random.Generator, cells: Mapping[str, pl.Series]) -> pl.Series:
        """Adds (n,) distances to what was decoded already."""
        source = self.sources[0]
        missing, steps = self.lag.decode_steps(encoded, rng)
        no_start, starts, _ = _read_rows(cells[source], self._read_starts, Findings(), source)
        if self.missing:
            own = np.full(len(steps), -1, np.int32) if missing is None else missing
            missing = np.where((own < 0) & (no_start >= 0), 0, own).astype(np.int32)
        return self.put_missing(self._write_places(starts, steps), missing)

    def count_illegal(self, frame: pl.DataFrame) -> int:
        """Looks at both cells as such, one row after the other."""
        lies_right = self._lie_right(frame).fill_null(False)
        lies_right |= frame.get_column(self.name).cast(pl.String).is_in(list(self.missing))
        return max(super().count_illegal(frame), int((~lies_right).sum()))

    @abstractmethod
    def _read_places(self, cells: pl.Series) -> Read:
        """Reads (k,) different cells of this column."""

    @abstractmethod
    def _read_starts(self, cells: pl.Series) -> Read:
        """Reads (k,) different cells of the other column."""

    @abstractmethod
    def _count_steps(self, places: Integers, starts: Integers) -> Integers:
        """How far (n,) places lie from their starts."""

    @abstractmethod
    def _write_places(self, starts: Integers, steps: Integers) -> pl.Series:
        """Writes (n,) cells, in steps from their starts."""

    @abstractmethod
    def _lie_right(self, frame: pl.DataFrame) -> pl.Series:
        """Says of (n,) rows of the output whether the distance is one that may be; NULL where a cell is missing."""


class HigherCodec(RelativeCodec, NumberCodec):
    """Numbers as the difference from those of another column. Units: places are steps of this column."""

    fault = "is not as far above the other column's number as the specs say"
    astray = "is not as far above {} as the specs say"
    column: HigherColumn

    def __init__(self, column: HigherColumn, base: NumberCodec) -> None:
        super().__init__(column)
        self._base, self._bounds = base, (Decimal(repr(column.least)), Decimal(repr(column.most)))
        self._steps_of_base = column.steps_per_unit // base.column.steps_per_unit
        self.sources = (column.above,)
        self.lag, (self.least, self.most) = NumberCodec(column.difference), column.difference.find_ends()

    def _read_places(self, cells: pl.Series) -> Read:
        return self.read_steps(cells)

    def _read_starts(self, cells: pl.Series) -> Read:
        missing, steps, illegal = self._base.read_steps(cells)
        return missing, steps * self._steps_of_base, illegal

    def _count_steps(self, places: Integers, starts: Integers) -> Integers:
        return places - starts

    def _write_places(self, starts: Integers, steps: Integers) -> pl.Series:
        return self._written.write(starts + steps)

    def _lie_right(self, frame: pl.DataFrame) -> pl.Series:
        kind = pl.Decimal(38, 17)  # as they are written, digit by digit
        own, base = (
            frame.get_column(name).cast(pl.String).cast(kind, strict=False) for name in (self.name, *self.sources)
        )
        return (own - base).is_between(*self._bounds)


class LaterCodec(RelativeCodec, MomentCodec):
    """Moments as the time since those of another column. Units: places are microseconds since the beginning of 1970."""

    fault = "is not as long after the other column's moment as the specs say"
    astray = "is not as long after {} as the specs say"
    column: LaterColumn

    def __init__(self, column: LaterColumn, earlier: MomentCodec) -> None:
        super().__init__(column)
        self._earlier, self.sources = earlier, (column.since,)
        self.lag, self.least, self.most = MomentCodec(column.lag), 0, column.lag.steps

    def _read_places(self, cells: pl.Series) -> Read:
        missing, steps, illegal = self.read(cells)
        return missing, self.add_steps(steps), illegal

    def _read_starts(self, cells: pl.Series) -> Read:
        missing, steps, illegal = self._earlier.read(cells)
        starts = self._earlier.add_steps(steps)
        return missing, starts // DAY * DAY if self.column.by_days else starts, illegal

    def _count_steps(self, places: Integers, starts: Integers) -> Integers:
        return (self._turn(places - starts) - self.column.least) // self.column.step

    def _write_places(self, starts: Integers, steps: Integers) -> pl.Series:
        moments = self._turn(starts + self.column.least + steps * self.column.step)
        return write_moments(pl.Series(moments).cast(MOMENT), self.column)

    def _lie_right(self, frame: pl.DataFrame) -> pl.Series:
        own, start = (read_moments(frame.get_column(codec.name), codec.column) for codec in (self, self._earlier))
        between = (own.dt.date() - start.dt.date() if self.column.by_days else own - start).dt.total_microseconds()
        return self._turn(between).is_between(self.column.least, self.column.most)

    def _turn(self, values: Values) -> Values:
        """Across midnight, where there are no dates."""
        return values % DAY if self.column.written == "time" else values


def _read_rows(
    cells: pl.Series, read: Callable[[pl.Series], Read], findings: Findings, name: str
) -> tuple[Integers32, Integers, Flags]:
    """Of (n,) rows which missing code a cell is, or where it lies, and whether it is legal by itself."""
    distinct, rows = list_distinct(cells)
    missing, places, illegal = read(pl.Series(distinct, dtype=pl.String))
    legal = np.ones(len(distinct), np.bool_)
    for rule, broken in illegal.items():
        legal &= ~broken
        if broken.any():
            findings.add(name, rule, int(np.count_nonzero(broken.take(rows))))
    return missing.take(rows), places.take(rows), legal.take(rows)
