"""What a span says about its column."""

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from dpwgan.table.codecs.numbers import WrittenNumbers
from dpwgan.table.encoded import EncodedTable, Span, join, lay_out_spans
from dpwgan.table.schema import MOST_LEVELS, MOST_SINGLE_LEVELS, CategoricalColumn, Column, NumericColumn, Schema
from tests.marginals.tables import COLUMNS, SPANS


def span_of(column: Column) -> Span:
    return lay_out_spans(Schema(columns=(column,), sha256="0" * 64))[-1]


@pytest.mark.parametrize("column", [column for column in COLUMNS if isinstance(column, NumericColumn)], ids=str)
def test_levels_are_the_numbers_that_the_writer_may_write_when_they_are_counted(column: NumericColumn) -> None:
    written = WrittenNumbers(column)
    span = span_of(column)
    if column.edges is not None:
        assert span.levels == 0
        return
    assert span.levels == min(written.high - written.low + 1, MOST_LEVELS)
    if span.levels > MOST_SINGLE_LEVELS:
        assert (span.levels - 1) / (span.last_level - span.first_level) == 2.0 ** (span.levels - 1).bit_length()
        return
    ends = column.minimum + np.array([span.first_level, span.last_level]) * (column.maximum - column.minimum)
    assert ends == pytest.approx(np.array([written.low, written.high]) / column.steps_per_unit)


@pytest.mark.parametrize(
    ("minimum", "maximum", "decimals", "levels", "first_level", "last_level"),
    [
        (0, 1_000_000, 0, 1_000_001, 0.0, 1.0),
        (0, 1, 6, 1_000_001, 0.0, 1.0),
        (0, 2**20 - 1, 0, 2**20, 0.0, 1.0),
        (0, 2**20, 0, 2**20 + 1, 0.0, 0.5),
        (0, 5e9, 0, 5_000_000_001, 0.0, 5e9 / 2**33),
        (0, 2**53 - 1, 0, 2**53, 0.0, (2**53 - 1) / 2**53),
        (-(2**53), 2**53, 0, MOST_LEVELS, 0.0, 1.0),
        (0.1, 1.1, 1, 11, 0.0, 1.0),
        (0.25, 1.25, 1, 10, 0.05, 0.95),
        (3, 3, 0, 1, 0.0, 0.0),
        (0.2, 0.8, 0, 1, 0.0, 0.0),
    ],
)
def test_levels_follow_range_and_digits_when_column_is_a_number(
    minimum: float, maximum: float, decimals: int, levels: int, first_level: float, last_level: float
) -> None:
    column = NumericColumn(name="x", minimum=minimum, maximum=maximum, integer=False, decimals=decimals)
    span = span_of(column)
    assert (span.levels, span.first_level, span.last_level) == (levels, first_level, last_level)


@pytest.mark.parametrize(
    ("tokens", "missing", "ordered"),
    [
        *((tokens, (), True) for tokens in (("1", "2", "10"), ("-1", "0", "3.0"), ("1.5", "2"), ("0-4", "5-9", "10+"))),
        *((tokens, (), False) for tokens in (("2", "1"), ("1", "01"), ("1", "2", "N"), ("1 a", "1 b"), ("a",))),
        (("01", "02", "N"), ("N",), True),
    ],
)
def test_categories_are_ordered_when_they_begin_with_rising_numbers(
    tokens: tuple[str, ...], missing: tuple[str, ...], ordered: bool
) -> None:
    span = span_of(CategoricalColumn(name="x", tokens=tokens, missing=missing))
    assert (span.ordered, span.missing, span.levels) == (ordered, len(missing), 0)
    for said in (True, False):
        assert span_of(CategoricalColumn(name="x", tokens=tokens, missing=missing, ordered=said)).ordered is said


@pytest.mark.parametrize("borders", [{"edges": 5}, {"edges": 0}, {"borders": "12"}, {"cuts": (None,)}])
def test_borders_are_numbers(borders: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        NumericColumn(name="x", minimum=0, maximum=9, integer=True, **borders)


def test_bins_are_ordered_when_column_has_edges() -> None:
    span = span_of(NumericColumn(name="x", minimum=0, maximum=9, integer=True, edges=(0, 5, 9), missing=("N",)))
    assert (span.ordered, span.missing, span.categories) == (True, 1, 3)


def test_spans_come_back_when_they_are_saved_with_or_without_the_newer_facts() -> None:
    saved = json.loads(json.dumps([asdict(span) for span in SPANS]))
    loaded = tuple(Span(**span) for span in saved)
    assert [asdict(span) for span in loaded] == [asdict(span) for span in SPANS]
    for span in saved:
        for name in ("levels", "first_level", "last_level", "ordered", "missing"):
            del span[name]
    assert tuple(Span(**span) for span in saved) == SPANS


def test_tables_are_joined_in_order_and_one_alone_is_given_as_it_is():
    parts = [EncodedTable.make_empty(SPANS, records) for records in (2, 0, 3)]
    for number, part in enumerate(parts):
        part.codes[:] = number
    joined = join(parts)
    assert joined.codes[:, 0].tolist() == [0, 0, 2, 2, 2]
    assert (joined.numbers.shape, joined.numbers.dtype) == ((5, parts[0].numbers.shape[1]), parts[0].numbers.dtype)
    assert join(parts[:1]) is parts[0]
