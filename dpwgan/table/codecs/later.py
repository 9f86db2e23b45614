"""Dates and times encoded as the time since another column's, so that their order and distance are kept."""

from typing import TypeVar

import polars as pl

from dpwgan.table.calendar import DAY, LaterColumn
from dpwgan.table.codecs.moments import MomentCodec
from dpwgan.table.codecs.numbers import Steps
from dpwgan.table.codecs.relative import Read, RelativeCodec
from dpwgan.table.moments import MOMENT, read_moments, write_moments

Values = TypeVar("Values", Steps, pl.Series)


class LaterCodec(RelativeCodec, MomentCodec):
    """Moments as the time since those of another column. Units: places are microseconds since the beginning of 1970."""

    fault = "is not as long after the other column's moment as the specs say"
    astray = "is not as long after {} as the specs say"

    def __init__(self, column: LaterColumn, earlier: MomentCodec) -> None:
        super().__init__(column)
        self._later, self._earlier = column, earlier
        self.sources, self.out_of_domain = (column.since,), column.out_of_domain
        self.lag, self.least, self.most = MomentCodec(column.lag), 0, column.lag.steps

    def read_places(self, cells: pl.Series) -> Read:
        """Reads moments."""
        missing, steps, illegal = self.read(cells)
        return missing, self.add_steps(steps), illegal

    def read_starts(self, cells: pl.Series) -> Read:
        """Reads moments, or the days that they lie in."""
        missing, steps, illegal = self._earlier.read(cells)
        starts = self._earlier.add_steps(steps)
        return missing, starts // DAY * DAY if self._later.by_days else starts, illegal

    def count_steps(self, places: Steps, starts: Steps) -> Steps:
        """The time between."""
        return (self._turn(places - starts) - self._later.least) // self._later.step

    def write_places(self, starts: Steps, steps: Steps) -> pl.Series:
        """Writes moments."""
        moments = self._turn(starts + self._later.least + steps * self._later.step)
        return write_moments(pl.Series(moments).cast(MOMENT), self._later)

    def lie_right(self, frame: pl.DataFrame) -> pl.Series:
        """Looks at the time between."""
        own, start = (read_moments(frame.get_column(codec.name), codec.column) for codec in (self, self._earlier))
        between = (own.dt.date() - start.dt.date() if self._later.by_days else own - start).dt.total_microseconds()
        return self._turn(between).is_between(self._later.least, self._later.most)

    def _turn(self, values: Values) -> Values:
        """Across midnight, where there are no dates."""
        return values % DAY if self._later.written == "time" else values
