"""One trained column, both ways: cells to category codes and scaled numbers, and back.

`out_of_domain` says what becomes of an illegal cell, by a public rule applied to each row by itself:
"reject" counts it and the run ends; "clamp" takes the nearest legal number, and rejects what is no number;
"missing" takes the first of the column's missing codes. Neither clamp nor missing tells how often it was used.
"""

import bisect
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from dpwgan.errors import DpwganError, SpecsError
from dpwgan.table.encoded import EncodedTable, Span
from dpwgan.table.findings import Findings
from dpwgan.table.numerals import BLANKS, are_same_cell, read_number, read_numbers
from dpwgan.table.schema import CategoricalColumn, NumericColumn

Codes = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.float32]
Missing = npt.NDArray[np.int32]
Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Array = TypeVar("Array", bound=npt.NDArray[Any])

# Steps are counted in int64, and doubles are cast to it.
_MOST_STEPS = 1 << 62

NOT_LISTED = "is not one of its legal cells"
NOT_NUMBER = "is not a number"
NOT_WHOLE = "is not a whole number"


@dataclass(frozen=True, kw_only=True)
class EncodedCells:
    """A column after encoding, or a method's output for it: (n,) codes, (n,) numbers, or both."""

    codes: Codes | None = None
    numbers: Numbers | None = None


def take_column(encoded: EncodedTable, spans: Iterable[Span]) -> EncodedCells:
    """Gives the codes and the numbers of one column, of which these are the spans."""
    part = EncodedCells()
    for span in spans:
        if span.head == "linear":
            part = replace(part, numbers=encoded.numbers[:, span.source])
        else:
            part = replace(part, codes=encoded.codes[:, span.source])
    return part


class Codec(Protocol):
    """One trained column both ways."""

    def encode(self, cells: pl.Series, findings: Findings) -> EncodedCells:
        """Encodes (n,) cells; illegal ones are counted in `findings` and get any code."""

    def decode(self, encoded: EncodedCells, rng: np.random.Generator) -> pl.Series:
        """Writes (n,) cells as text, each of them legal whatever the codes and numbers are."""

    def get_canonical(self, cell: str) -> str | None:
        """Gives the legal cell that this one stands for, or None if it is illegal."""


def list_distinct(cells: pl.Series) -> tuple[list[str], npt.NDArray[np.uint32]]:
    """Gives the different cells of a column of text, and the place of each row's cell among them.

    Shapes: (n,) cells to k different ones and (n,) places; cells of the type `pl.Enum` give every cell of their list.
    """
    kind = cells.dtype
    if not isinstance(kind, pl.Enum | pl.Categorical):
        kind = pl.Categorical(pl.Categories.random())
        cells = cells.cast(kind)
    # polars may keep a place for a cell that none has come to; no row points there.
    return [cell or "" for cell in kind.categories], cells.to_physical().to_numpy()


def make_codec(column: CategoricalColumn | NumericColumn) -> Codec:
    """Chooses the codec of a column.

    Raises: SpecsError if the column's `out_of_domain` rule, range or digits cannot be acted on.
    """
    if column.out_of_domain == "missing" and not column.missing:
        raise SpecsError(f'Column {column.name!r}: "out_of_domain": "missing" needs a missing code.')
    if isinstance(column, CategoricalColumn):
        return CategoricalCodec(column)
    return BinCodec(column) if column.edges is not None else NumberCodec(column)


class CategoricalCodec:
    """A finite list of cells as their index in the list.

    A cell is first looked up as it stands. In an integer column a cell that is not found so is then looked up by the
    number it writes: "3", "03", " 3" and "3.0" are one cell, and the list's own spelling is what is written.
    Source: Srivastava and Alzantot 2019, section 7.1, "Categorical".
    """

    def __init__(self, column: CategoricalColumn) -> None:
        if column.out_of_domain == "clamp" and not column.integer:
            raise SpecsError(f'Column {column.name!r}: "out_of_domain": "clamp" needs numbers, not a list of cells.')
        self._column = column
        self._tokens = pl.Series(column.tokens, dtype=pl.Enum(column.tokens))
        self._by_text = {token: code for code, token in enumerate(column.tokens)}
        self._by_number: dict[Decimal, int] = {}
        if column.integer:
            for code, token in enumerate(column.tokens):
                number = read_number(token)
                if number is not None:
                    self._by_number.setdefault(number, code)

    @functools.cached_property
    def _clampable(self) -> list[tuple[Decimal, int]]:
        """The listed numbers that a cell may be clamped to, and their codes."""
        column = self._column
        return sorted(
            (number, code) for number, code in self._by_number.items() if column.tokens[code] not in column.missing
        )

    def encode(self, cells: pl.Series, findings: Findings) -> EncodedCells:
        """Encodes (n,) cells as (n,) codes."""
        distinct, places = list_distinct(cells)
        codes = np.array([self._find(cell) for cell in distinct], np.int32).take(places)
        if len(codes) and codes.min() < 0:
            findings.add(self._column.name, NOT_LISTED, int(np.count_nonzero(codes < 0)))
        return EncodedCells(codes=codes)

    def decode(self, encoded: EncodedCells, rng: np.random.Generator) -> pl.Series:
        """Writes (n,) codes as the listed cells, of the type `pl.Enum`."""
        return self._tokens.gather(_check_codes(encoded.codes, self._column.name, len(self._tokens)))

    def get_canonical(self, cell: str) -> str | None:
        """Gives the listed cell that this one stands for, or None if it is illegal."""
        code = self._look_up(cell)
        return None if code is None else self._column.tokens[code]

    def _look_up(self, cell: str) -> int | None:
        code = self._by_text.get(cell)
        if code is None and self._by_number:
            number = read_number(cell)
            code = None if number is None else self._by_number.get(number)
        return code

    def _find(self, cell: str) -> int:
        code = self._look_up(cell)
        if code is not None:
            return code
        if self._column.out_of_domain == "missing":
            return self._by_text[self._column.missing[0]]
        if self._column.out_of_domain == "clamp":
            return self._find_nearest(cell)
        return -1

    def _find_nearest(self, cell: str) -> int:
        """Gives the code of the nearest listed number, the lower of two; -1 if the cell is no number."""
        number = read_number(cell)
        if number is None or not self._clampable:
            return -1
        above = bisect.bisect_left(self._clampable, (number, -1))
        around = self._clampable[max(above - 1, 0) : above + 1]
        return min(around, key=lambda listed: (abs(listed[0] - number), listed[0]))[1]


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


class _NumberReader:
    """Cells of a numeric column as which missing code they are, or else which number in the range."""

    def __init__(self, column: NumericColumn, written: WrittenNumbers) -> None:
        self._column = column
        self._written = written
        self._missing_text = [token.strip(BLANKS) for token in column.missing]
        self._missing_numbers = [read_number(token) for token in column.missing]
        self._outside = f"is not between {_write_bound(column.minimum)} and {_write_bound(column.maximum)}"

    def read(self, cells: pl.Series) -> tuple[Missing, Values, Mapping[str, Flags]]:
        """Gives (n,) indices into the missing codes, -1 where available; (n,) numbers, the minimum elsewhere; and by
        each rule that is told which cells break it.
        """
        column = self._column
        text = cells.str.strip_chars(BLANKS)
        is_number, values = read_numbers(text)
        missing = np.full(len(cells), -1, dtype=np.int32)
        # Backwards, so that the first of two codes for one cell wins.
        for index in reversed(range(len(column.missing))):
            missing[(text == self._missing_text[index]).to_numpy()] = index
            number = self._missing_numbers[index]
            if number is not None:
                missing[is_number & (values == float(number))] = index
        available = missing < 0
        illegal = {NOT_NUMBER: available & ~is_number}
        legal = available & is_number
        if column.integer:
            illegal[NOT_WHOLE] = legal & (np.floor(values) != values)
            legal &= ~illegal[NOT_WHOLE]
        illegal[self._outside] = legal & ((values < column.minimum) | (values > column.maximum))
        if column.out_of_domain == "missing":
            for rows in illegal.values():
                missing[rows] = 0
            illegal = {}
        elif column.out_of_domain == "clamp":
            illegal = {NOT_NUMBER: illegal[NOT_NUMBER]}
            values = np.clip(np.rint(values) if column.integer else values, column.minimum, column.maximum)
            if column.integer:
                values = np.clip(values, float(self._written.low), float(self._written.high))
        usable = (missing < 0) & (values >= column.minimum) & (values <= column.maximum)
        return missing, np.where(usable, values, column.minimum), illegal

    def get_canonical(self, cell: str) -> str | None:
        """Gives the missing code or the number, spelt as it is written, that a cell stands for; None if illegal."""
        text = cell.strip(BLANKS)
        for token in self._column.missing:
            if are_same_cell(text, token.strip(BLANKS)):
                return token
        number = read_number(text)
        if number is None or not self._column.minimum <= float(number) <= self._column.maximum:
            return None
        if self._column.integer:
            point = "." + "0" * self._column.decimals if self._column.decimals else ""
            return None if number != number.to_integral_value() else f"{int(number)}{point}"
        return text


class NumericCodec:
    """What the codecs of numeric columns have in common: how a cell is read."""

    def __init__(self, column: NumericColumn) -> None:
        self._column = column
        self._written = WrittenNumbers(column)
        self._reader = _NumberReader(column, self._written)

    def encode(self, cells: pl.Series, findings: Findings) -> EncodedCells:
        """Encodes (n,) cells."""
        distinct, places = list_distinct(cells)
        missing, values, illegal = self._reader.read(pl.Series(distinct, dtype=pl.String))
        for rule, rows in illegal.items():
            findings.add(self._column.name, rule, int(np.count_nonzero(rows.take(places))))
        encoded = self._encode(missing, values)
        return EncodedCells(
            codes=None if encoded.codes is None else encoded.codes.take(places),
            numbers=None if encoded.numbers is None else encoded.numbers.take(places),
        )

    def get_canonical(self, cell: str) -> str | None:
        """Gives the legal cell that this one stands for, or None if it is illegal."""
        return self._reader.get_canonical(cell)

    def decode(self, encoded: EncodedCells, rng: np.random.Generator) -> pl.Series:
        """Writes (n,) numbers, or the missing codes where the codes say so."""
        missing, steps = self._decode(encoded, rng)
        cells = self._written.write(steps)
        if missing is None:
            return cells
        tokens = pl.Series(self._column.missing, dtype=pl.String).gather(np.maximum(missing, 0))
        written: pl.Series = tokens.zip_with(pl.Series(missing >= 0), cells)
        return written

    def _encode(self, missing: Missing, values: Values) -> EncodedCells:
        """Encodes (n,) cells, each of which is a missing code, by its index, or with -1 a number."""
        raise NotImplementedError

    def _decode(self, encoded: EncodedCells, rng: np.random.Generator) -> tuple[Missing | None, npt.NDArray[np.int64]]:
        """Gives (n,) indices into the missing codes, below 0 where there is a number, if any; and (n,) steps."""
        raise NotImplementedError


class NumberCodec(NumericCodec):
    """A number scaled by its public range to [0, 1], with a code beside it where it may be not available.

    Decoding clips to the range (a number that is not finite counts as the nearest end, and one that is no number as
    the minimum), rounds to the digits that the column may have without leaving the range, and writes them all.
    Source: Srivastava and Alzantot 2019, section 7.1, "numeric" and "numeric or not-available".
    """

    def __init__(self, column: NumericColumn) -> None:
        super().__init__(column)
        self._range = column.maximum - column.minimum
        if not np.isfinite(self._range):
            raise SpecsError(f"Column {column.name!r}: its range is wider than a double can hold.")

    def _encode(self, missing: Missing, values: Values) -> EncodedCells:
        """Gives (n,) numbers and, if the column may be not available, (n,) codes."""
        scaled = (values - self._column.minimum) / self._range if self._range else np.zeros(len(values))
        numbers = scaled.astype(np.float32)
        if not self._column.missing:
            return EncodedCells(numbers=numbers)
        codes = np.where(missing < 0, len(self._column.missing), missing).astype(np.int32)
        return EncodedCells(codes=codes, numbers=numbers)

    def _decode(self, encoded: EncodedCells, rng: np.random.Generator) -> tuple[Missing | None, npt.NDArray[np.int64]]:
        """Gives which cells are missing codes, and the nearest numbers that may be written."""
        # Of these two, unlike of clipping, what is no number comes out as 0.
        scaled = np.fmin(np.fmax(_require(encoded.numbers, self._column.name).astype(np.float64), 0.0), 1.0)
        values = self._column.minimum + scaled * self._range
        steps = self._written.find_nearest(values)
        count = len(self._column.missing)
        if not count:
            return None, steps
        codes = _check_codes(encoded.codes, self._column.name, count + 1)
        return np.where(codes < count, codes, -1).astype(np.int32), steps


class BinCodec(NumericCodec):
    """A number as the public bin it lies in; the missing codes follow the bins.

    A bin holds its lower edge, the last one both. Decoding draws one of the numbers that may be written in the bin,
    each as likely as the others.
    """

    def __init__(self, column: NumericColumn) -> None:
        if column.edges is None or len(column.edges) < 2 or list(column.edges) != sorted(set(column.edges)):
            raise SpecsError(f"Column {column.name!r}: the edges of its bins have to rise.")
        super().__init__(column)
        self._inner = np.array(column.edges[1:-1], dtype=np.float64)
        self._bins = len(column.edges) - 1
        ends = [
            self._written.find_between(lower, upper, closed=index == self._bins - 1)
            for index, (lower, upper) in enumerate(zip(column.edges[:-1], column.edges[1:], strict=True))
        ]
        self._first, self._last = np.array(ends, dtype=np.int64).T

    def _encode(self, missing: Missing, values: Values) -> EncodedCells:
        """Gives (n,) codes."""
        bins = np.searchsorted(self._inner, values, side="right").astype(np.int32)
        return EncodedCells(codes=np.where(missing < 0, bins, self._bins + missing).astype(np.int32))

    def _decode(self, encoded: EncodedCells, rng: np.random.Generator) -> tuple[Missing | None, npt.NDArray[np.int64]]:
        """Gives which cells are missing codes, and numbers drawn from the bins."""
        codes = _check_codes(encoded.codes, self._column.name, self._bins + len(self._column.missing))
        bins = np.minimum(codes, self._bins - 1)
        steps = rng.integers(self._first[bins], self._last[bins], endpoint=True)
        return (codes - self._bins if self._column.missing else None), steps


def _check_codes(codes: Codes | None, column: str, limit: int) -> Codes:
    # Of rows that lie side by side a column's codes are far apart, and slow to go over more than once.
    checked = np.ascontiguousarray(_require(codes, column))
    if len(checked) and not (checked.min() >= 0 and checked.max() < limit):
        raise DpwganError(f"Internal error: a code for column {column!r} is beyond its {limit} categories.")
    return checked


def _require(values: Array | None, column: str) -> Array:
    if values is None:
        raise DpwganError(f"Internal error: no values were given for column {column!r}.")
    return values


def _write_bound(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
