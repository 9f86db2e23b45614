"""Which numbers a column may write, and their text: the public range cut to the digits that the specs allow."""

from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np
import numpy.typing as npt
import polars as pl

from dpwgan.errors import SpecsError
from dpwgan.table.schema import NumericColumn

# Steps are counted in int64, and doubles are cast to it.
_MOST_STEPS = 1 << 62


@dataclass(frozen=True)
class WrittenNumbers:
    """The numbers that a column may write: whole multiples of a step, `low` to `high` of them.

    The step is 1 for a column of whole numbers, else 10 to the power of minus `decimals`. Whole numbers stay exact in
    training up to 2^24 numbers in the range, as a float32 carries them; beyond that they are rounded to its precision.
    Raises: SpecsError if no such number lies in the range, or the range has too many of them to count.
    """

    column: NumericColumn
    low: int = field(init=False)
    high: int = field(init=False)

    def __post_init__(self) -> None:
        low = self._count_steps(self.column.minimum, ROUND_CEILING)
        high = self._count_steps(self.column.maximum, ROUND_FLOOR)
        if low > high:
            raise SpecsError(f"Column {self.column.name!r}: no number with the digits it may have lies in its range.")
        if max(abs(low), abs(high)) > _MOST_STEPS:
            raise SpecsError(f"Column {self.column.name!r}: its range holds more numbers than can be counted.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def steps_per_unit(self) -> int:
        """How many steps make 1."""
        return 1 if self.column.integer else int(10**self.column.decimals)

    def find_nearest(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Gives the nearest number that may be written, in steps; half a step goes to the even one.

        Shapes: (n,) finite values to (n,) steps.
        """
        nearest = np.clip(np.rint(values * self.steps_per_unit), float(self.low), float(self.high))
        steps: npt.NDArray[np.int64] = nearest.astype(np.int64)
        # A double may be no end itself but the number beside it.
        return (
            steps if self.low == float(self.low) and self.high == float(self.high) else steps.clip(self.low, self.high)
        )

    def find_between(self, lower: float, upper: float, *, closed: bool) -> tuple[int, int]:
        """Gives the first and last number, in steps, of [lower, upper), or of [lower, upper] if `closed`.

        Where none lies between, both are the number nearest to the middle.
        """
        first = max(self._count_steps(lower, ROUND_CEILING), self.low)
        last = self._count_steps(upper, ROUND_FLOOR) if closed else self._count_steps(upper, ROUND_CEILING) - 1
        last = min(last, self.high)
        if first > last:
            middle = self.find_nearest(np.array([lower / 2 + upper / 2]))
            return int(middle[0]), int(middle[0])
        return first, last

    def write(self, steps: npt.NDArray[np.int64]) -> pl.Series:
        """Writes numbers, given in steps, with exactly `decimals` digits behind the point."""
        decimals = self.column.decimals
        cells: pl.Series = pl.Series(steps).cast(pl.String)
        if decimals and self.column.integer:
            cells = cells + ("." + "0" * decimals)
        elif decimals:
            digits = pl.Series(np.abs(steps)).cast(pl.String).str.zfill(decimals + 1)
            sign = pl.Series(np.where(steps < 0, "-", ""), dtype=pl.String)
            cells = sign + digits.str.head(-decimals) + "." + digits.str.tail(decimals)
        return cells

    def _count_steps(self, value: float, rounding: str) -> int:
        # Through the decimal text of the double: 1.1 is then 11 tenths, not a hair more.
        return int((Decimal(repr(float(value))) * self.steps_per_unit).to_integral_value(rounding=rounding))
