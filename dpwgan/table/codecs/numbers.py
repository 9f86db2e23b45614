"""Columns of numbers in a public range: scaled, or as public bins, with codes that mean not available."""

import itertools
from abc import abstractmethod
from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl

from dpwgan.array_types import AnyFloats, Flags, Floats, Integers, Integers32
from dpwgan.errors import SpecsError, quote
from dpwgan.table.codecs.codec import EMPTY, EncodedCells, TrainedCodec, check_codes, require
from dpwgan.table.numerals import BLANKS, NUMERAL, are_same_cell, read_number
from dpwgan.table.schema import MOST_SINGLE_LEVELS, NumericColumn, write_whole

NOT_NUMBER = "is not a number"
NOT_WHOLE = "is not a whole number"


def read_numbers(cells: pl.Series) -> tuple[Flags, Floats]:
    """Reads a column of cells as numbers, by the rule of `dpwgan.table.numerals`.

    Shapes: (n,) whether the cell is a number, and (n,) its nearest double: infinite where the numeral is beyond the
      doubles, 0 where the cell is no number.
    """
    text = cells.str.strip_chars(BLANKS)
    is_number = text.str.contains(NUMERAL)
    values = text.set(~is_number, "0").cast(pl.Float64)
    return is_number.to_numpy(), values.to_numpy()


class FreeSteps:
    """Steps from `low` to `high` without those that are `taken` by codes that mean not available.

    Raises: SpecsError if they take all of them.
    """

    def __init__(self, name: str, taken: Iterable[int], *, low: int, high: int) -> None:
        inside = {step for step in taken if low <= step <= high}
        if len(inside) > high - low:
            reason = "its 'missing' codes take every number of its range"
            raise SpecsError(f"Column {quote(name)} in the specs: {reason}.", column=name)

        def find_free(step: int) -> int:
            near = (step + sign * distance for distance in range(1, len(inside) + 1) for sign in (1, -1))
            return next(other for other in near if low <= other <= high and other not in inside)

        self._taken = np.array(sorted(inside), dtype=np.int64)
        self._free = np.array([find_free(step) for step in sorted(inside)], dtype=np.int64)

    def keep_to(self, steps: Integers) -> Integers:
        """The nearest steps that are free: a number that is generated never says that there is none."""
        if not len(self._taken):
            return steps
        places = np.searchsorted(self._taken, steps).clip(max=len(self._taken) - 1)
        return np.where(self._taken[places] == steps, self._free[places], steps)


class WrittenNumbers:
    """The numbers that a column may write: whole multiples of a step, `low` to `high` of them.

    The step is 1 for a column of whole numbers, else 10 to the power of minus `decimals`.
    """

    def __init__(self, column: NumericColumn) -> None:
        self.column = column
        self.low, self.high = column.find_ends()

    def find_nearest(self, values: Floats) -> Integers:
        """The nearest number that may be written, in steps; half a step goes to the even one.

        Shapes: (n,) finite values to (n,) steps.
        """
        nearest = np.clip(np.rint(values * self.column.steps_per_unit), float(self.low), float(self.high))
        steps: Integers = nearest.astype(np.int64)
        # A double may be no end itself but the number beside it.
        are_doubles = self.low == float(self.low) and self.high == float(self.high)
        return steps if are_doubles else steps.clip(self.low, self.high)

    def find_between(self, lower: float, upper: float, *, closed: bool) -> tuple[int, int]:
        """The first and last number, in steps, of [lower, upper), or of [lower, upper] if `closed`.

        Where none lies between, both are the number nearest to the middle.
        """
        count = self.column.count_steps
        first = max(count(lower, up=True), self.low)
        last = min(count(upper, up=False) if closed else count(upper, up=True) - 1, self.high)
        if first > last:
            middle = self.find_nearest(np.array([lower / 2 + upper / 2]))
            return int(middle[0]), int(middle[0])
        return first, last

    def write(self, steps: Integers) -> pl.Series:
        """Writes numbers, given in steps, with exactly `decimals` digits behind the point."""
        decimals = self.column.decimals
        digits = self.column.width if self.column.integer else decimals + 1
        cells: pl.Series = pl.Series(steps).cast(pl.String)
        if digits > 1:
            cells = cells.str.zfill(pl.Series(digits + (steps < 0)))  # a sign is no digit
        if decimals and self.column.integer:
            return cells + ("." + "0" * decimals)
        return cells.str.head(-decimals) + "." + cells.str.tail(decimals) if decimals else cells


class NumericCodec(TrainedCodec):
    """What columns of numbers have in common: how cells are read, written and checked."""

    fault = "is not a number of the column's form and range"

    def __init__(self, column: NumericColumn) -> None:
        super().__init__(column)
        self.column = column
        self._written = WrittenNumbers(column)
        self._missing_text = [token.strip(BLANKS) for token in column.missing]
        self._missing_numbers = [read_number(token) for token in column.missing]
        taken = [number * column.steps_per_unit for number in self._missing_numbers if number is not None]
        whole = (int(step) for step in taken if step == step.to_integral_value())
        self._free = FreeSteps(column.name, whole, low=self._written.low, high=self._written.high)
        self._outside = f"is not between {_write_bound(column.minimum)} and {_write_bound(column.maximum)}"

    def encode_distinct(self, cells: list[str]) -> tuple[EncodedCells, Mapping[str, Flags]]:
        """Reads (k,) numbers and missing codes."""
        missing, values, illegal = self.read(pl.Series(cells, dtype=pl.String))
        return self.encode_values(missing, values), illegal

    def decode(self, encoded: EncodedCells, rng: np.random.Generator) -> pl.Series:
        """Writes (n,) numbers, or the missing codes where the codes say so."""
        missing, steps = self.decode_steps(encoded, rng)
        return self.put_missing(self._written.write(self._free.keep_to(steps)), missing)

    @abstractmethod
    def encode_values(self, missing: Integers32, values: Floats) -> EncodedCells:
        """Encodes (n,) cells, each of which is a missing code, by its index, or with -1 a number."""

    @abstractmethod
    def decode_steps(self, encoded: EncodedCells, rng: np.random.Generator) -> tuple[Integers32 | None, Integers]:
        """(n,) indices into the missing codes, below 0 where there is a number, if any; and (n,) steps."""

    def read(self, cells: pl.Series) -> tuple[Integers32, Floats, Mapping[str, Flags]]:
        """(n,) indices into the missing codes, -1 where available; (n,) numbers, the minimum elsewhere; and by
        each rule that is told which cells break it.
        """
        column = self.column
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
        blank = (text == "").to_numpy()
        illegal = {EMPTY: available & blank, NOT_NUMBER: available & ~is_number & ~blank}
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
            illegal = {rule: illegal[rule] for rule in (EMPTY, NOT_NUMBER)}
            values = np.clip(np.rint(values) if column.integer else values, column.minimum, column.maximum)
            if column.integer:
                values = np.clip(values, float(self._written.low), float(self._written.high))
        usable = (missing < 0) & (values >= column.minimum) & (values <= column.maximum)
        return missing, np.where(usable, values, column.minimum), illegal

    def read_steps(self, cells: pl.Series) -> tuple[Integers32, Integers, Mapping[str, Flags]]:
        """As `read`, with the nearest numbers that may be written, in steps."""
        missing, values, illegal = self.read(cells)
        return missing, self._written.find_nearest(values), illegal

    def read_values(self, cells: list[str]) -> pl.Series:
        """Numbers; NULL for an illegal cell as well, which breaks no rule but its own column's."""
        missing, numbers, illegal = self.read(pl.Series(cells, dtype=pl.String))
        values = pl.Series(numbers).set(pl.Series(np.logical_or.reduce([missing >= 0, *illegal.values()])), None)
        return values.cast(pl.Int64) if self.column.integer else values

    def get_canonical(self, cell: str) -> str | None:
        """The missing code or the number, spelt as it is written, that a cell stands for."""
        column = self.column
        text = cell.strip(BLANKS)
        for token, stripped in zip(column.missing, self._missing_text, strict=True):
            if are_same_cell(text, stripped):
                return token
        number = read_number(text)
        if number is None or not column.minimum <= float(number) <= column.maximum:
            return None
        if column.integer:
            whole = number == number.to_integral_value()
            return write_whole(int(number), width=column.width, decimals=column.decimals) if whole else None
        return text

    def are_legal(self, cells: pl.Series) -> pl.Series:
        """Looks for numbers written plainly, with the column's digits and in its range, and for missing codes."""
        column = self.column
        form = (
            rf"^-?([0-9]{{{column.width}}}|[1-9][0-9]{{{column.width},}})$" if column.width else r"^-?(0|[1-9][0-9]*)$"
        )
        if column.decimals:
            behind_point = f"0{{{column.decimals}}}" if column.integer else f"[0-9]{{{column.decimals}}}"
            form = rf"^-?(0|[1-9][0-9]*)\.{behind_point}$"
        values = cells.cast(pl.Float64, strict=False)
        in_range = (values >= column.minimum) & (values <= column.maximum)
        legal = cells.str.contains(form) & in_range.fill_null(False)
        return legal | cells.is_in(list(column.missing)) if column.missing else legal


class NumberCodec(NumericCodec):
    """A number scaled by its public range to [0, 1], with a code beside it where it may be not available.

    Decoding clips to the range (a number that is not finite counts as the nearest end, and one that is no number as
    the minimum), rounds to the digits that the column may have without leaving the range, and writes them all.
    Source: Srivastava and Alzantot 2019, section 7.1, "numeric" and "numeric or not-available".
    """

    def __init__(self, column: NumericColumn) -> None:
        super().__init__(column)
        self._range = column.maximum - column.minimum
        levels = column.parts[-1].levels
        exact = MOST_SINGLE_LEVELS < levels == self._written.high - self._written.low + 1
        # Of a number of many levels, what is carried is the level itself over a power of 2.
        self._scale = 2.0 ** (levels - 1).bit_length() if exact else 0.0

    def encode_values(self, missing: Integers32, values: Floats) -> EncodedCells:
        """Scales them."""
        numbers: AnyFloats
        if self._scale:
            numbers = (self._written.find_nearest(values) - self._written.low) / self._scale
        else:
            scaled = (values - self.column.minimum) / self._range if self._range else np.zeros(len(values))
            numbers = scaled.astype(np.float32)
        if not self.missing:
            return EncodedCells(numbers=numbers)
        codes = np.where(missing < 0, len(self.missing), missing).astype(np.int32)
        return EncodedCells(codes=codes, numbers=numbers)

    def encode_steps(self, missing: Integers32, steps: Integers) -> EncodedCells:
        """As `encode_values`, of numbers in steps."""
        return self.encode_values(missing, steps / self.column.steps_per_unit)

    def decode_steps(self, encoded: EncodedCells, rng: np.random.Generator) -> tuple[Integers32 | None, Integers]:
        """The numbers nearest to the scaled ones."""
        # Of these two, unlike of clipping, what is no number comes out as 0.
        scaled = np.fmin(np.fmax(require(encoded.numbers, self.name).astype(np.float64), 0.0), 1.0)
        if self._scale:
            level = np.rint(scaled * self._scale).astype(np.int64)
            steps = np.minimum(self._written.low + level, self._written.high)
        else:
            steps = self._written.find_nearest(self.column.minimum + scaled * self._range)
        count = len(self.missing)
        if not count:
            return None, steps
        codes = check_codes(encoded.codes, self.name, count + 1)
        return np.where(codes < count, codes, -1).astype(np.int32), steps


class BinCodec(NumericCodec):
    """A number as the public bin it lies in; the missing codes follow the bins.

    A bin holds its lower edge, the last one both; that one is a single number where its edges are the same. Decoding
    draws one of the numbers that may be written in the bin, each as likely as the others.
    """

    def __init__(self, column: NumericColumn) -> None:
        super().__init__(column)
        edges = column.edges or ()
        self._inner = np.array(edges[1:-1], dtype=np.float64)
        self._bins = len(edges) - 1
        ends = [
            self._written.find_between(lower, upper, closed=index == self._bins - 1)
            for index, (lower, upper) in enumerate(itertools.pairwise(edges))
        ]
        self._first, self._last = np.array(ends, dtype=np.int64).T

    def encode_values(self, missing: Integers32, values: Floats) -> EncodedCells:
        """Finds their bins."""
        bins: Integers32 = np.searchsorted(self._inner, values, side="right").astype(np.int32)
        return EncodedCells(codes=np.where(missing < 0, bins, self._bins + missing).astype(np.int32))

    def decode_steps(self, encoded: EncodedCells, rng: np.random.Generator) -> tuple[Integers32 | None, Integers]:
        """Draws numbers from bins."""
        codes = check_codes(encoded.codes, self.name, self._bins + len(self.missing))
        bins = np.minimum(codes, self._bins - 1)
        steps = rng.integers(self._first[bins], self._last[bins], endpoint=True)
        return (codes - self._bins if self.missing else None), steps


def _write_bound(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
