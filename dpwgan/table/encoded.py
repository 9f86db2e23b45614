"""The only form of the data that a method sees: category codes, scaled numbers, and spans that say what they are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from dpwgan.array_types import AnyFloats, AnyIntegers, Flags
from dpwgan.table.schema import MOST_SINGLE_LEVELS, ImageLayout, Schema, name_part
from dpwgan.table.schema import Head as Head
from dpwgan.table.schema import Span as Span
from dpwgan.table.storage import cut, is_on_disk, let_go

# Rows fetched from disk at a time. Each may bring up to a fifth of a megabyte of pages with it.
_FETCHED = 512


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """What a method may know when it plans: the public number of records and the spans.

    `image`: which columns make up an image, if it is a table of images. `rules` between columns are for methods that
    use them in the fit; in any case rows that break one are never written.
    """

    records: int
    spans: tuple[Span, ...]
    image: ImageLayout | None = None
    rules: "tuple[RowRule, ...]" = field(default=(), compare=False, repr=False)

    @property
    def row_bytes(self) -> int:
        """Bytes of all encoded rows."""
        of_number = choose_number_type(self.spans).itemsize
        return self.records * sum(of_number if span.head == "linear" else 4 for span in self.spans)

    @property
    def width(self) -> int:
        """Width of a dense encoded row."""
        return sum(span.width for span in self.spans)


@dataclass(frozen=True, kw_only=True)
class EncodedTable:
    """Rows as codes, int32 or shorter (n, softmax and sigmoid spans), and numbers in [0, 1] (n, linear spans).

    Numbers are of the type that `choose_number_type` gives, or less exact if a network wrote them. Both may be mapped
    from files (`dpwgan.table.storage`): loops over all rows take a chunk at a time.
    """

    codes: AnyIntegers
    numbers: AnyFloats
    spans: tuple[Span, ...]

    @classmethod
    def make_empty(cls, spans: tuple[Span, ...], records: int, *, order: Literal["C", "F"] = "C") -> "EncodedTable":
        """Rows of zeros, to be filled; with order "F", column-major."""
        numbers = sum(span.head == "linear" for span in spans)
        return cls(
            codes=np.zeros((records, len(spans) - numbers), np.int32, order=order),
            numbers=np.zeros((records, numbers), choose_number_type(spans), order=order),
            spans=spans,
        )

    @property
    def records(self) -> int:
        """Number of rows n."""
        return int(self.codes.shape[0])

    @property
    def shape(self) -> TableShape:
        """The public shape of this table."""
        return TableShape(records=self.records, spans=self.spans)

    def take(self, rows: Flags | AnyIntegers) -> "EncodedTable":
        """A copy in memory of some of the rows, by a flag for each or by their places."""
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
        """Whether the rows lie in a file, to be read in chunks."""
        return is_on_disk(self.codes) or is_on_disk(self.numbers)


def join(parts: Sequence[EncodedTable]) -> EncodedTable:
    """The rows of tables of the same spans, concatenated; a single table as it is."""
    if len(parts) == 1:
        return parts[0]
    codes, numbers = np.concatenate([part.codes for part in parts]), np.concatenate([part.numbers for part in parts])
    return replace(parts[0], codes=codes, numbers=numbers)


@dataclass(frozen=True, kw_only=True)
class RowRule:
    """A public rule between columns, as methods see it.

    `columns`: the trained ones that it reads; `ranges`: of those that are numbers, which the encoded table has as 0 to
    1; `numbers`: the constants it compares columns with; `opaque`: the columns in anything but comparisons, for which
    the two ends of an interval do not represent what lies between. `break_rows` says which of (n,) made-up rows break
    it. If it `drops` rows, there are fewer than the public n; only a release may say how many.
    A derived column is a rule that no row breaks: `tell_apart` numbers its cells, equal ones alike.
    """

    columns: tuple[str, ...]
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    numbers: tuple[float, ...] = ()
    opaque: frozenset[str]
    break_rows: Callable[[EncodedTable], Flags]
    drops: bool = False
    tell_apart: Callable[[EncodedTable], AnyIntegers] | None = None


def choose_number_type(spans: Sequence[Span]) -> np.dtype[Any]:
    """The type of a table's numbers, exact enough for the nearest level to be the right one.

    Privacy: reads public facts only.
    """
    return np.dtype(np.float64 if any(span.levels > MOST_SINGLE_LEVELS for span in spans) else np.float32)


def lay_out_spans(schema: Schema) -> tuple[Span, ...]:
    """Gives every trained column its slice of the encoded width, in the order of the schema.

    Privacy: reads public facts only. Derived and identifier columns take no slice.
    Source: Srivastava and Alzantot 2019, section 7.1 (one-hot, number, number or not available).
    """
    spans: list[Span] = []
    start = codes = numbers = 0
    for column in schema.columns:
        for part in column.parts:
            is_number = part.role == "number"
            head: Head = "linear" if is_number else "sigmoid" if part.categories == 2 else "softmax"
            width = part.categories if head == "softmax" else 1
            source = numbers if is_number else codes
            name = name_part(column.name, part.column)
            spans.append(replace(part, column=name, head=head, start=start, width=width, source=source))
            start, codes, numbers = start + width, codes + (not is_number), numbers + is_number
    return tuple(spans)
