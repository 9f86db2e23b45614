"""Columns of dates, times of day and both, as whole numbers of steps, or as the day and the steps within it."""

from collections.abc import Mapping

import numpy as np
import polars as pl

from dpwgan.array_types import Flags, Integers, Integers32
from dpwgan.table.calendar import DAY, CalendarColumn
from dpwgan.table.codecs.codec import EMPTY, EncodedCells, TrainedCodec
from dpwgan.table.codecs.numbers import FreeSteps, NumberCodec
from dpwgan.table.moments import MOMENT, read_moments, write_moments
from dpwgan.table.numerals import BLANKS

OFF_STEP = "is not a whole number of steps from the column's 'min'"


class MomentCodec(TrainedCodec):
    """Moments on a calendar, to the step and, but for capitals, with the same text out as in.

    Where methods see day and time of day, each has a code for not available; the day's decides, and a row whose time
    alone is not available takes the time of another row that is decoded with it.
    """

    fault = "is not a moment of the column's format and range"

    def __init__(self, column: CalendarColumn) -> None:
        super().__init__(column)
        self.column = column
        self._numbers = [NumberCodec(number) for number in column.numbers]
        self._first_month = _number_month(pl.Series([column.first]).cast(MOMENT)).item()
        units, between = self._count(read_moments(pl.Series(column.missing, dtype=pl.String), column).drop_nulls())
        self._free = FreeSteps(column.name, (units[~between] // column.step).tolist(), low=0, high=column.steps)
        self._unwritten = f"is not written as {column.format!r} says"
        self._outside = "is not between {} and {}".format(*self.write_steps(np.array([0, column.steps])))

    def encode_distinct(self, cells: list[str]) -> tuple[EncodedCells, Mapping[str, Flags]]:
        """Reads (k,) moments and missing codes."""
        missing, steps, illegal = self.read(pl.Series(cells, dtype=pl.String))
        return self.encode_steps(missing, steps), illegal

    def encode_steps(self, missing: Integers32, steps: Integers) -> EncodedCells:
        """Encodes (n,) moments, in steps after the first one."""
        parts = [
            codec.encode_values(missing, numbers.astype(np.float64))
            for codec, numbers in zip(self._numbers, self.split(steps), strict=True)
        ]
        if len(parts) == 1:
            return parts[0]
        codes = [part.codes for part in parts if part.codes is not None]
        numbers = [part.numbers for part in parts if part.numbers is not None]
        return EncodedCells(codes=np.stack(codes) if codes else None, numbers=np.stack(numbers))

    def split(self, steps: Integers) -> list[Integers]:
        """The numbers that methods see of moments, of each one (n,): steps, or days and steps of the time of day."""
        column = self.column
        if not column.by_day:
            return [steps]
        moments = column.first + steps * column.step
        return [moments // DAY - column.first // DAY, moments % DAY // column.step]

    def decode(self, encoded: EncodedCells, rng: np.random.Generator) -> pl.Series:
        """Writes (n,) moments, or the missing codes where the codes say so; `rng` chooses times that are not there."""
        missing, steps = self.decode_steps(encoded, rng)
        return self.put_missing(self.write_steps(self._free.keep_to(steps)), missing)

    def decode_steps(self, encoded: EncodedCells, rng: np.random.Generator) -> tuple[Integers32 | None, Integers]:
        """Which missing codes (n,) rows have, and how many steps after the first one the moments of the others lie."""
        column = self.column
        if not column.by_day:
            return self._numbers[0].decode_steps(encoded, rng)
        (missing, days), (no_time, times) = (
            codec.decode_steps(
                EncodedCells(
                    codes=None if encoded.codes is None else encoded.codes[part],
                    numbers=None if encoded.numbers is None else encoded.numbers[part],
                ),
                rng,
            )
            for part, codec in enumerate(self._numbers)
        )
        if missing is not None and no_time is not None:
            known, unknown = times[no_time < 0], (no_time >= 0) & (missing < 0)
            times = np.where(unknown, rng.choice(known, len(times)), times) if len(known) and unknown.any() else times
        moments = (days + column.first // DAY) * DAY + times * column.step + column.first % column.step
        steps = (moments - column.first) // column.step
        # A time that its day, the first or the last one, does not have is that of the day beside it: cut to the range
        # all of them would be its first or last moment.
        return missing, steps + DAY // column.step * ((steps < 0).astype(np.int64) - (steps > column.steps))

    def read(self, cells: pl.Series) -> tuple[Integers32, Integers, Mapping[str, Flags]]:
        """(n,) indices into the missing codes, -1 where available; (n,) steps from the first moment, 0 elsewhere; and
        by each rule that is told which cells break it.
        """
        column = self.column
        text = cells.cast(pl.String).str.strip_chars(BLANKS)
        missing = np.full(len(cells), -1, dtype=np.int32)
        for index, token in enumerate(column.missing):
            missing[(text == token.strip(BLANKS)).to_numpy()] = index
        moments = read_moments(text, column)
        is_moment = moments.is_not_null().to_numpy()
        units, is_between = self._count(moments.cast(pl.Int64).fill_null(column.first).cast(MOMENT))
        steps = units // column.step
        legal = (missing < 0) & is_moment
        blank = (text == "").to_numpy()
        illegal = {
            EMPTY: (missing < 0) & blank,
            self._unwritten: (missing < 0) & ~is_moment & ~blank,
            self._outside: legal & ((steps < 0) | (steps > column.steps)),
        }
        illegal[OFF_STEP] = legal & ~illegal[self._outside] & is_between
        if column.out_of_domain == "missing":
            for rows in illegal.values():
                missing[rows] = 0
            illegal = {}
        elif column.out_of_domain == "clamp":
            illegal = {rule: illegal[rule] for rule in (EMPTY, self._unwritten)}
            steps = (units + column.step // 2) // column.step
        return missing, np.where(missing < 0, steps.clip(0, column.steps), 0), illegal

    def read_values(self, cells: list[str]) -> pl.Series:
        """What rules between columns see of (k,) different cells: dates, times of day, or both; NULL if illegal."""
        missing, steps, illegal = self.read(pl.Series(cells, dtype=pl.String))
        kind = {"date": pl.Date(), "datetime": MOMENT, "time": pl.Time()}[self.column.written]
        is_null = pl.Series(np.logical_or.reduce([missing >= 0, *illegal.values()]))
        values: pl.Series = self._place(steps).cast(kind).set(is_null, None)
        return values

    def write_steps(self, steps: Integers) -> pl.Series:
        """Writes (n,) moments, in steps after the first one."""
        return write_moments(self._place(steps), self.column)

    def add_steps(self, steps: Integers) -> Integers:
        """(n,) moments, from steps after the first one. Units: microseconds since the beginning of 1970."""
        moments: Integers = self._place(steps).cast(pl.Int64).to_numpy()
        return moments

    def _place(self, steps: Integers) -> pl.Series:
        units = pl.Series(steps * self.column.step)
        if not self.column.in_months:
            return (units + self.column.first).cast(MOMENT)
        months = units + self._first_month
        return pl.select(pl.datetime(months // 12, months % 12 + 1, 1, time_unit="us")).to_series()

    def _count(self, moments: pl.Series) -> tuple[Integers, Flags]:
        """Microseconds or months from the first moment, and which moments lie between two steps."""
        if self.column.in_months:
            months = _number_month(moments) - self._first_month
            is_later = (moments != moments.dt.truncate("1mo")).to_numpy()
            return months, is_later | (months % self.column.step != 0)
        counted: Integers = moments.cast(pl.Int64).to_numpy() - self.column.first
        return counted, counted % self.column.step != 0

    def get_canonical(self, cell: str) -> str | None:
        """The moment or the missing code that a cell stands for."""
        missing, steps, illegal = self.read(pl.Series([cell]))
        if any(broken.any() for broken in illegal.values()):
            return None
        written: str = self.write_steps(steps)[0]
        return self.missing[missing[0]] if missing[0] >= 0 else written

    def are_legal(self, cells: pl.Series) -> pl.Series:
        """Looks for moments in range, a whole number of steps from the first one, and for missing codes."""
        column = self.column
        moments = read_moments(cells, column)
        ends = read_moments(self.write_steps(np.array([0, column.steps])), column)
        legal = moments.is_between(*ends)
        if column.in_months:
            legal &= moments.is_in(pl.datetime_range(ends[0], ends[1], f"{column.step}mo", eager=True).implode())
        else:
            legal &= (moments.cast(pl.Int64) - column.first) % column.step == 0
        return legal.fill_null(False) | cells.is_in(list(column.missing))


def _number_month(moments: pl.Series) -> Integers:
    numbered: Integers = (moments.dt.year().cast(pl.Int64) * 12 + moments.dt.month() - 1).to_numpy()
    return numbered
