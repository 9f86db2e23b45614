"""The only form of the data that a method sees: category codes, scaled numbers, and spans that say what they are."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dpwgan.schema import CategoricalColumn, NumericColumn, Schema

Head = Literal["softmax", "sigmoid", "linear"]
Role = Literal["category", "bin", "available", "number"]


@dataclass(frozen=True, kw_only=True)
class Span:
    """A column's slice of the encoded width.

    `start`, `width`: positions in a dense encoded row. `source`: index into `EncodedTable.codes` (softmax and
    sigmoid) or `EncodedTable.numbers` (linear). `categories`: number of codes; 0 for a number.
    A column with two categories takes one position (sigmoid): the position holds the code, 0 or 1.
    Role "available": the codes of a number-or-not-available column, its missing codes first, "available" last;
    its number is the next span, 0 where not available. Role "bin": bins first, then the missing codes.
    """

    column: str
    role: Role
    head: Head
    start: int
    width: int
    source: int
    categories: int


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """What a method may know when it plans: the public number of records and the spans."""

    records: int
    spans: tuple[Span, ...]

    @property
    def width(self) -> int:
        """Width of a dense encoded row."""
        return sum(span.width for span in self.spans)


@dataclass(frozen=True, kw_only=True)
class EncodedTable:
    """Rows as int32 codes (n, number of softmax and sigmoid spans) and float32 numbers in [0, 1] (n, linear spans)."""

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


def lay_out_spans(schema: Schema) -> tuple[Span, ...]:
    """Gives every trained column its slice of the encoded width, in the order of the schema.

    Privacy: reads public facts only. Derived and identifier columns take no slice.
    Source: Srivastava and Alzantot 2019, section 7.1 (one-hot, number, number or not available).
    """
    spans: list[Span] = []
    start = codes = numbers = 0

    def add_codes(column: str, role: Role, categories: int) -> None:
        nonlocal start, codes
        head: Head = "sigmoid" if categories == 2 else "softmax"
        width = 1 if categories == 2 else categories
        spans.append(
            Span(column=column, role=role, head=head, start=start, width=width, source=codes, categories=categories)
        )
        start, codes = start + width, codes + 1

    for column in schema.columns:
        if isinstance(column, CategoricalColumn):
            add_codes(column.name, "category", len(column.tokens))
        elif isinstance(column, NumericColumn) and column.edges is not None:
            add_codes(column.name, "bin", len(column.edges) - 1 + len(column.missing))
        elif isinstance(column, NumericColumn):
            if column.missing:
                add_codes(column.name, "available", len(column.missing) + 1)
            spans.append(
                Span(
                    column=column.name, role="number", head="linear", start=start, width=1, source=numbers, categories=0
                )
            )
            start, numbers = start + 1, numbers + 1
    return tuple(spans)
