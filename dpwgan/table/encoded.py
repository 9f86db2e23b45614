"""The only form of the data that a method sees: category codes, scaled numbers, and spans that say what they are."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpwgan.table.schema import CategoricalColumn, Column, ImageLayout, NumericColumn, Schema
from dpwgan.table.storage import cut, is_on_disk, let_go

Head = Literal["softmax", "sigmoid", "linear"]
Role = Literal["category", "bin", "available", "number"]

MOST_LEVELS = 1 << 20
"""The most levels that a number span is given; a column with more numbers has this many, evenly spaced."""

# Rows that are fetched from disk at a time. Each brings its surroundings with it, up to a fifth of a megabyte of pages.
_FETCHED = 512

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+(\.0*)?", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Span:
    """A column's slice of the encoded width.

    `start`, `width`: positions in a dense encoded row. `source`: index into `EncodedTable.codes` (softmax and
    sigmoid) or `EncodedTable.numbers` (linear). `categories`: number of codes; 0 for a number.
    A column with two categories takes one position (sigmoid): the position holds the code, 0 or 1.
    Role "available": the codes of a number-or-not-available column, its missing codes first, "available" last;
    its number is the next span, 0 where not available. Role "bin": bins first, then the missing codes.
    `levels`: of a number, how many numbers the column may write (at most `MOST_LEVELS`); else 0. Level i stands at
    `first_level` + i / (levels - 1) * (`last_level` - `first_level`) of [0, 1]: those two are 0 and 1 unless an end of
    the range cannot be written itself. `ordered`: the codes that are not missing have an order, because they are
    bins or rising whole numbers. `missing`: how many of the codes mean not available (of "available" the first ones,
    else the last ones). The last five are facts about the same layout, and take no part in comparing two of them.
    """

    column: str
    role: Role
    head: Head
    start: int
    width: int
    source: int
    categories: int
    levels: int = field(default=0, compare=False)
    first_level: float = field(default=0.0, compare=False)
    last_level: float = field(default=1.0, compare=False)
    ordered: bool = field(default=False, compare=False)
    missing: int = field(default=0, compare=False)


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """What a method may know when it plans: the public number of records and the spans.

    `image` says which columns make up an image; None for a table that is no table of images.
    """

    records: int
    spans: tuple[Span, ...]
    image: ImageLayout | None = None

    @property
    def width(self) -> int:
        """Width of a dense encoded row."""
        return sum(span.width for span in self.spans)


@dataclass(frozen=True, kw_only=True)
class EncodedTable:
    """Rows as int32 codes (n, number of softmax and sigmoid spans) and float32 numbers in [0, 1] (n, linear spans).

    Both may be mapped from files (`dpwgan.table.storage`): what goes over all rows takes a chunk at a time.
    """

    codes: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.float32]
    spans: tuple[Span, ...]

    @property
    def records(self) -> int:
        """Number of rows n."""
        return int(self.codes.shape[0])

    @property
    def shape(self) -> TableShape:
        """The public shape of this table."""
        return TableShape(records=self.records, spans=self.spans)

    def take(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.integer[Any]]) -> "EncodedTable":
        """Gives some of the rows, by a flag for each or by their places: as arrays in memory, wherever these lie."""
        if not self.on_disk:
            return replace(self, codes=np.array(self.codes[rows]), numbers=np.array(self.numbers[rows]))
        places = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        codes = np.empty((len(places), self.codes.shape[1]), self.codes.dtype)
        numbers = np.empty((len(places), self.numbers.shape[1]), self.numbers.dtype)
        for part in cut(len(places), size=_FETCHED):
            codes[part], numbers[part] = self.codes[places[part]], self.numbers[places[part]]
            let_go(self.codes, self.numbers)
        return replace(self, codes=codes, numbers=numbers)

    @property
    def on_disk(self) -> bool:
        """Whether the rows lie in a file, of which a part at a time is to be held in memory."""
        return is_on_disk(self.codes) or is_on_disk(self.numbers)


def lay_out_spans(schema: Schema) -> tuple[Span, ...]:
    """Gives every trained column its slice of the encoded width, in the order of the schema.

    Privacy: reads public facts only. Derived and identifier columns take no slice.
    Source: Srivastava and Alzantot 2019, section 7.1 (one-hot, number, number or not available).
    """
    spans: list[Span] = []
    start = codes = numbers = 0
    for column in schema.columns:
        for span in _lay_out(column):
            is_number = span.head == "linear"
            spans.append(replace(span, start=start, source=numbers if is_number else codes))
            start, codes, numbers = start + span.width, codes + (not is_number), numbers + is_number
    return tuple(spans)


def _lay_out(column: Column) -> Iterator[Span]:
    """Gives a column's spans, each still at the place 0."""
    if isinstance(column, CategoricalColumn):
        missing = sum(token in column.missing for token in column.tokens)
        ordered = _are_rising(column.tokens[: len(column.tokens) - missing])
        yield _make_codes(column.name, "category", len(column.tokens), missing=missing, ordered=ordered)
    elif isinstance(column, NumericColumn) and column.edges is not None:
        missing = len(column.missing)
        yield _make_codes(column.name, "bin", len(column.edges) - 1 + missing, missing=missing, ordered=True)
    elif isinstance(column, NumericColumn):
        if column.missing:
            missing = len(column.missing)
            yield _make_codes(column.name, "available", missing + 1, missing=missing)
        levels, first, last = _count_levels(column)
        yield Span(
            column=column.name,
            role="number",
            head="linear",
            start=0,
            width=1,
            source=0,
            categories=0,
            levels=levels,
            first_level=first,
            last_level=last,
        )


def _make_codes(column: str, role: Role, categories: int, *, missing: int, ordered: bool = False) -> Span:
    return Span(
        column=column,
        role=role,
        head="sigmoid" if categories == 2 else "softmax",
        start=0,
        width=1 if categories == 2 else categories,
        source=0,
        categories=categories,
        ordered=ordered,
        missing=missing,
    )


def _are_rising(tokens: tuple[str, ...]) -> bool:
    """Says whether the tokens are whole numbers, each one above the one before it."""
    if not all(_WHOLE_NUMBER.fullmatch(token.strip(" \t")) for token in tokens):
        return False
    numbers = [Decimal(token.strip(" \t")) for token in tokens]
    return all(lower < upper for lower, upper in itertools.pairwise(numbers))


def _count_levels(column: NumericColumn) -> tuple[int, float, float]:
    """Gives how many numbers a column may write, and where in its range, as fractions, the first and last one lie."""
    minimum, maximum = Decimal(repr(float(column.minimum))), Decimal(repr(float(column.maximum)))
    if not (minimum.is_finite() and maximum.is_finite() and minimum < maximum):
        return 1, 0.0, 0.0
    low, high = column.count_steps(column.minimum, up=True), column.count_steps(column.maximum, up=False)
    if low > high:
        return 1, 0.0, 0.0
    first, last = ((Decimal(number) / column.steps_per_unit - minimum) / (maximum - minimum) for number in (low, high))
    return min(high - low + 1, MOST_LEVELS), float(first), float(last)
