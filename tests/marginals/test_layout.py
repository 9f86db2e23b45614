"""Rows as cells: every row has one, and every cell is a row."""

import numpy as np
import pytest

from dpwgan.errors import DpwganError
from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.table.encoded import EncodedTable, Span
from tests.marginals.tables import COLUMNS, SPANS, make_encoded


def make_empty(records: int) -> EncodedTable:
    linear = sum(span.head == "linear" for span in SPANS)
    codes = np.full((records, len(SPANS) - linear), 99, np.int32)
    return EncodedTable(codes=codes, numbers=np.full((records, linear), np.nan, np.float32), spans=SPANS)


def test_each_column_is_one_attribute_when_laid_out():
    attributes = {attribute.column: attribute for attribute in lay_out_attributes(SPANS)}
    assert list(attributes) == [column.name for column in COLUMNS]
    assert (attributes["pay"].codes, attributes["pay"].levels, attributes["pay"].cells) == (2, 100_501, 100_503)
    assert attributes["pay"].is_missing.tolist() == [True, True]
    assert attributes["letters"].is_missing.tolist() == [False] * 4 + [True] * 2
    assert attributes["hours"].is_missing.tolist() == [False] * 3 + [True]
    assert (attributes["age"].codes, attributes["age"].levels) == (0, 121)
    assert [name for name, attribute in attributes.items() if not attribute.ordered] == ["letters", "two", "same"]


@pytest.mark.parametrize("column", [column.name for column in COLUMNS])
def test_cell_comes_back_when_it_is_written_into_a_row(column):
    attribute = next(attribute for attribute in lay_out_attributes(SPANS) if attribute.column == column)
    cells = np.unique(np.linspace(0, attribute.cells - 1, 200_000).astype(np.int64))
    encoded = make_empty(len(cells))
    attribute.put_cells(cells, into=encoded)
    assert np.array_equal(attribute.find_cells(encoded), cells)
    if attribute.number_span is not None:
        numbers = encoded.numbers[:, attribute.number_span.source]
        assert numbers.min() >= 0
        assert numbers.max() <= 1


def test_every_row_has_a_legal_cell_when_numbers_are_beyond_their_range():
    encoded = make_encoded(5, seed=1)
    encoded.numbers[:] = np.array([[-3.0], [np.nan], [np.inf], [-np.inf], [7.0]], np.float32)
    for attribute in lay_out_attributes(SPANS):
        cells = attribute.find_cells(encoded)
        assert cells.min() >= 0
        assert cells.max() < attribute.cells


def test_layout_is_refused_when_a_number_does_not_say_its_levels():
    span = Span(column="x", role="number", head="linear", start=0, width=1, source=0, categories=0)
    with pytest.raises(DpwganError, match="the levels of column 'x'"):
        lay_out_attributes([span])


def test_cells_are_refused_when_a_code_is_beyond_the_categories():
    encoded = make_empty(2)
    with pytest.raises(DpwganError, match="'letters' is beyond"):
        lay_out_attributes(SPANS)[0].find_cells(encoded)
