"""Columns of dates, times of day and both: moments on a calendar, counted in whole steps. Public facts alone."""

import datetime
import re
from dataclasses import dataclass, replace
from typing import Literal

from dpwgan.table.schema import (
    DAYS,
    CellType,
    NumericColumn,
    OutOfDomain,
    Schema,
    Span,
    TrainedColumn,
    choose_round_steps,
)

CalendarKind = Literal["date", "datetime", "time"]

SECOND = 1_000_000
"""Microseconds, in which all moments are counted: from the beginning of 1970, or of the day for times of day."""
DAY = 86_400 * SECOND
EPOCH = datetime.datetime(1970, 1, 1)

_CLOCK = (1, 5, 15, 30, 60, 300, 900, 1_800, 3_600, 21_600)
"""To how many seconds people round times; each divides the next."""

DIRECTIVE = re.compile(r"%(-?[a-zA-Z]|[36]f)")
"""What stands for a part of a moment in a format. "%-d" is a number without a leading zero, "%3f" are milliseconds."""


@dataclass(frozen=True, kw_only=True)
class CalendarColumn(TrainedColumn, kind="calendar"):
    """A column of moments in one format: from the first one, in whole steps, to the last.

    Units: `first` and `step` are in microseconds, `first` from 1970 on; with `in_months` a step is so many months.
    `zone`: in which one typed moments with a time zone are told; by default in their own. `cuts` are the public steps
    at which an interval begins that has none before it.
    """

    written: CalendarKind
    format: str
    first: int
    step: int
    steps: int
    in_months: bool = False
    zone: str | None = None
    cuts: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()
    out_of_domain: OutOfDomain = "reject"

    integer = False

    @property
    def by_day(self) -> bool:
        """Whether methods see two numbers, the day and the time of day, so that each has a shape of its own.

        Of a day that ends past midnight the time says all.
        """
        whole_days = DAY % self.step == 0 and self.step < DAY
        return self.written == "datetime" and not self.in_months and whole_days and self.steps * self.step > DAY

    @property
    def days(self) -> int:
        """How many days the range touches."""
        return (self.first + self.steps * self.step) // DAY - self.first // DAY + 1

    @property
    def ends(self) -> tuple[float, float] | None:
        """The first and the last moment, unless methods see day and time, or months, which are not equally long."""
        return None if self.by_day or self.in_months else (self.first, self.first + self.steps * self.step)

    def find_step(self, moment: float, *, behind: bool) -> int:
        """The first step at a moment or later, or with `behind` later than it."""
        first, least = self.first, max(self.first, int(moment) + behind)
        if self.in_months:
            # The month after that of the microsecond before.
            before = [EPOCH + datetime.timedelta(microseconds=end - 1) for end in (first, least)]
            first, least = (date.year * 12 + date.month for date in before)
        return -((first - least) // self.step)

    @property
    def numbers(self) -> tuple[NumericColumn, ...]:
        """The whole numbers that methods see in its place."""
        ends = {"day": self.days - 1, "time of day": DAY // self.step - 1} if self.by_day else {"": self.steps}
        return tuple(
            NumericColumn(name=name, minimum=0, maximum=end, integer=True, missing=self.missing)
            for name, end in ends.items()
        )

    @property
    def parts(self) -> tuple[Span, ...]:
        """Those of its numbers; people round times of day by the clock, and choose days by the calendar."""
        parts = (replace(part, column=number.name) for number in self.numbers for part in number.parts)
        by_date = self.written == "date" and self.step == DAY and not self.in_months
        first = 0 if self.by_day else self.first
        step = f"{self.step} {'months' if self.in_months else 'microseconds'}"
        clock = [seconds * SECOND // self.step for seconds in _CLOCK if seconds * SECOND % self.step == 0]
        if self.in_months or first % self.step or self.written == "date":
            clock = []
        return tuple(
            replace(
                part,
                cuts=() if self.by_day else self.cuts,
                zero_level=-(first // self.step),
                round_steps=() if part.column == "day" else choose_round_steps(part.levels, sorted({1, *clock})),
                first_day=self.first // DAY if by_date or part.column == "day" else None,
                unit=DAYS if by_date or part.column == "day" else f"{part.column or self.written} by {step}",
            )
            for part in parts
        )

    def choose_type(self, schema: Schema) -> CellType:
        """A date, time or both, unless a code that means not available is none."""
        return ("text" if any(self.missing) else self.written), "" in self.missing


@dataclass(frozen=True, kw_only=True)
class LaterColumn(CalendarColumn, kind="later"):
    """A column of moments that lie `least` to `most` after those of the column `since`: methods see the time between.

    `first`, `step` and `steps` are of the moments themselves, wherever those of the other column lie. With `by_days`
    what is counted is days from date to date, and a time of day has a shape of its own.
    Units: `least` and `most` are microseconds; with `by_days` whole days.
    """

    since: str
    least: int
    most: int
    by_days: bool

    @property
    def lag(self) -> CalendarColumn:
        """The time between, as a moment so long after the beginning of 1970."""
        rest = DAY - self.step if self.by_days and self.written == "datetime" else 0
        return CalendarColumn(
            name=self.name,
            written=self.written if self.by_days else "time",
            format=self.format,
            first=self.least,
            step=self.step,
            steps=(self.most + rest - self.least) // self.step,
            missing=self.missing,
        )

    @property
    def parts(self) -> tuple[Span, ...]:
        """Those of the time between, which is no day of the calendar."""
        return tuple(replace(part, first_day=None, unit="") for part in self.lag.parts)
