"""The encoded table as attributes with finitely many cells each: what methods that count can work with."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpwgan.array_types import AnyFloats, Flags, Floats, Integers
from dpwgan.errors import DpwganError, quote
from dpwgan.table.encoded import EncodedTable, Span
from dpwgan.table.schema import FEW_LEVELS

NUMBERS = "1"
"""The kind of plain numbers, whatever their decimals."""


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """One trained column as a list of cells: first its category codes, then the levels of its number.

    A number-or-not-available column is one attribute: its missing codes, then the levels (the code "available" is not
    a cell). `codes`: number of category codes among the cells; `missing`: how many of them mean not available.
    `levels`: number of levels, 0 without a number; `borders`, `cuts`: levels at which an interval of them begins,
    rising, and those of them beyond which none may be merged. `ordered`: the cells that are not missing have an order.
    `zero_level`, `round_steps`, `first_day`, `unit`: as `Span` has them.
    """

    column: str
    code_span: Span | None
    number_span: Span | None = None
    codes: int
    missing: int
    levels: int = 0
    ordered: bool
    borders: tuple[int, ...] = ()
    cuts: tuple[int, ...] = ()
    zero_level: int = 0
    round_steps: tuple[int, ...] = ()
    first_day: int | None = None
    unit: str = ""

    @property
    def cells(self) -> int:
        """Number of cells: codes and levels."""
        return self.codes + self.levels

    @property
    def has_many_days(self) -> bool:
        """Whether its levels are days on end, and too many to be counted one by one."""
        return self.first_day is not None and self.levels > FEW_LEVELS

    @property
    def origin(self) -> int:
        """The level of the number 0, or of the first day of 1970."""
        return self.zero_level if self.first_day is None else -self.first_day

    @property
    def kind(self) -> str:
        """What its numbers may be compared with: `NUMBERS`, or days, or times of day by their step."""
        return self.unit.partition("/")[0]

    @property
    def is_moment(self) -> bool:
        """Whether its numbers are days or times of day that may be compared."""
        return bool(self.unit) and self.kind != NUMBERS

    @property
    def steps(self) -> int:
        """How many steps of its numbers make 1; of all other kinds a step is what is counted."""
        return int(self.unit.partition("/")[2] or 1)

    @property
    def is_missing(self) -> Flags:
        """Which of the codes mean not available. Shapes: (codes,)."""
        codes = np.arange(self.codes)
        return codes < self.missing if self.number_span is not None else codes >= self.codes - self.missing

    def find_cells(self, encoded: EncodedTable, rows: slice = slice(None)) -> Integers:
        """The cell of every row: each row has exactly one, whatever was made of its number.

        A number goes to the nearest level and, outside [0, 1] or not a number at all, to an end; so rounding can move
        a row to a neighbouring cell, which concerns fidelity alone: the cell is a function of the row by itself.
        Shapes: (n,).
        Raises: DpwganError, an internal error, if a code lies beyond the column's categories.
        """
        if self.code_span is None:
            return self.find_levels(encoded.numbers[rows, self._number.source])
        codes: Integers = encoded.codes[rows, self.code_span.source].astype(np.int64)
        if len(codes) and not (codes.min() >= 0 and codes.max() < self.code_span.categories):
            raise DpwganError(f"Internal error: a code for column {quote(self.column)} is beyond its categories.")
        if self.number_span is None:
            return codes
        levels = self.find_levels(encoded.numbers[rows, self._number.source])
        return np.where(codes < self.codes, codes, self.codes + levels)

    def put_cells(self, cells: Integers, *, into: EncodedTable) -> None:
        """Writes the cell of every row into the arrays of an encoded table; the inverse of `find_cells`.

        Shapes: (n,) cells.
        """
        if self.code_span is not None:
            into.codes[:, self.code_span.source] = np.minimum(cells, self.codes) if self.number_span else cells
        if self.number_span is not None:
            numbers = self.scale_levels(np.maximum(cells - self.codes, 0))
            into.numbers[:, self.number_span.source] = np.where(cells < self.codes, 0.0, numbers)

    def scale_levels(self, levels: Integers) -> Floats:
        """Where levels lie in the column's range, as fractions of it. Shapes: (n,)."""
        first, last = self._number.first_level, self._number.last_level
        return first + levels * ((last - first) / max(self.levels - 1, 1))

    @property
    def _number(self) -> Span:
        if self.number_span is None:
            raise DpwganError(f"Internal error: column {quote(self.column)} has no number.")
        return self.number_span

    def find_levels(self, numbers: AnyFloats) -> Integers:
        """The level nearest to each number of [0, 1]. Shapes: (n,)."""
        if self.levels == 1:
            return np.zeros(len(numbers), np.int64)
        first, last = self._number.first_level, self._number.last_level
        # A float32 in [0, 1] is off by 2^-25 at most, a 32nd of the distance of two among 2^20 levels; more levels are
        # multiples of a power of 2, exact in a double.
        within = np.clip(np.nan_to_num(numbers.astype(np.float64), nan=0.0), 0.0, 1.0)
        scaled = (within - first) * ((self.levels - 1) / (last - first))
        found: Integers = np.clip(np.rint(scaled), 0, self.levels - 1).astype(np.int64)
        return found


def lay_out_attributes(spans: Sequence[Span]) -> tuple[Attribute, ...]:
    """One attribute per trained column, in the order of the spans.

    Privacy: reads public facts only.
    Raises: DpwganError, an internal error, if a number's span does not say how many levels it has.
    """
    attributes: list[Attribute] = []
    available: Span | None = None
    for span in spans:
        if span.role == "available":
            available = span
        elif span.role != "number":
            codes, missing, ordered = span.categories, span.missing, span.ordered
            attributes.append(
                Attribute(column=span.column, code_span=span, codes=codes, missing=missing, ordered=ordered)
            )
        else:
            if span.levels < 1 or (available is not None and available.column != span.column):
                raise DpwganError(f"Internal error: the levels of column {quote(span.column)} are not known.")
            missing = 0 if available is None else available.categories - 1
            attributes.append(
                Attribute(
                    column=span.column,
                    code_span=available,
                    number_span=span,
                    codes=missing,
                    missing=missing,
                    levels=span.levels,
                    ordered=True,
                    borders=tuple(sorted({*span.borders, *span.cuts})),
                    cuts=span.cuts,
                    zero_level=span.zero_level,
                    round_steps=span.round_steps,
                    first_day=span.first_day,
                    unit=span.unit,
                )
            )
            available = None
    return tuple(attributes)
