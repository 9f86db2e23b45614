"""Numbers encoded as the difference from another column's, so that order is kept, and where the two are equal."""

from decimal import Decimal

import polars as pl

from dpwgan.table.codecs.numbers import NumberCodec, Steps
from dpwgan.table.codecs.relative import Read, RelativeCodec
from dpwgan.table.schema import HigherColumn


class HigherCodec(RelativeCodec, NumberCodec):
    """Numbers as the difference from those of another column. Units: places are steps of this column."""

    fault = "is not as far above the other column's number as the specs say"
    astray = "is not as far above {} as the specs say"

    def __init__(self, column: HigherColumn, base: NumberCodec) -> None:
        super().__init__(column)
        self._base, self._bounds = base, (Decimal(repr(column.least)), Decimal(repr(column.most)))
        self._steps_of_base = column.steps_per_unit // base.column.steps_per_unit
        self.sources, self.out_of_domain = (column.above,), column.out_of_domain
        self.lag, (self.least, self.most) = NumberCodec(column.difference), column.difference.find_ends()

    def read_places(self, cells: pl.Series) -> Read:
        """Reads numbers."""
        return self.read_steps(cells)

    def read_starts(self, cells: pl.Series) -> Read:
        """Reads numbers of as many digits, or of fewer."""
        missing, steps, illegal = self._base.read_steps(cells)
        return missing, steps * self._steps_of_base, illegal

    def count_steps(self, places: Steps, starts: Steps) -> Steps:
        """The difference."""
        return places - starts

    def write_places(self, starts: Steps, steps: Steps) -> pl.Series:
        """Writes numbers."""
        return self._written.write(starts + steps)

    def lie_right(self, frame: pl.DataFrame) -> pl.Series:
        """Subtracts the numbers as they are written, digit by digit."""
        kind = pl.Decimal(38, 17)
        own, base = (
            frame.get_column(name).cast(pl.String).cast(kind, strict=False) for name in (self.name, *self.sources)
        )
        return (own - base).is_between(*self._bounds)
