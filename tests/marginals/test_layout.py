"""Rows as cells: every row has one, and every cell is a row."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from dpwgan.errors import DpwganError
from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.table.encoded import EncodedTable, Span, choose_number_type, lay_out_spans
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.schema import NumericColumn, Schema
from tests.marginals.tables import COLUMNS, SPANS, make_encoded
from tests.rows import encode_table


def make_empty(records: int) -> EncodedTable:
    linear = sum(span.head == "linear" for span in SPANS)
    codes = np.full((records, len(SPANS) - linear), 99, np.int32)
    return EncodedTable(codes=codes, numbers=np.full((records, linear), np.nan, choose_number_type(SPANS)), spans=SPANS)


def test_each_column_is_one_attribute_when_laid_out():
    attributes = {attribute.column: attribute for attribute in lay_out_attributes(SPANS)}
    assert list(attributes) == [column.name for column in COLUMNS]
    assert (attributes["pay"].codes, attributes["pay"].levels, attributes["pay"].cells) == (2, 100_501, 100_503)
    assert attributes["pay"].is_missing.tolist() == [True, True]
    assert attributes["letters"].is_missing.tolist() == [False] * 4 + [True] * 2
    assert attributes["hours"].is_missing.tolist() == [False] * 3 + [True]
    assert (attributes["age"].codes, attributes["age"].levels) == (0, 16)
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


@pytest.mark.parametrize(
    ("minimum", "levels", "decimals"),
    [
        (0, 2**20 - 1, 0),
        (-7, 2**20, 0),
        (-4_600, 1_345_601, 0),
        (-5, 2**31, 2),
        (0, 2**40 + 3, 6),
        (-(2**52), 2**53 - 1, 0),
        (0, 2**53, 0),
    ],
)
def test_every_number_comes_back_exactly_when_its_column_has_as_many_as_can_be(minimum, levels, decimals):
    maximum = minimum + (levels - 1) / 10**decimals
    kind = {"integer": not decimals, "decimals": decimals, "missing": ("",)}
    column = NumericColumn(name="x", minimum=float(minimum), maximum=maximum, **kind)
    encoder = TableEncoder(Schema(columns=(column,), sha256="0" * 64), ["x"])
    attribute = lay_out_attributes(encoder.spans)[0]
    assert attribute.levels == levels
    rng = np.random.default_rng(levels)
    ends = np.array([0, 1, 2, 3, levels // 2, levels - 3, levels - 2, levels - 1])
    wanted = np.concatenate((ends, rng.integers(0, levels, 500)))
    steps = minimum * 10**decimals + wanted
    cells = [f"{int(step):d}" if not decimals else f"{int(step) / 10**decimals:.{decimals}f}" for step in steps]
    encoded = encode_table(encoder, pl.DataFrame({"x": cells}))
    found = attribute.find_cells(encoded)
    assert np.array_equal(found - 1, wanted)
    again = replace(encoded, codes=np.zeros_like(encoded.codes), numbers=np.zeros_like(encoded.numbers))
    attribute.put_cells(found, into=again)
    assert np.array_equal(again.numbers.astype(np.float32), encoded.numbers.astype(np.float32))
    assert encoder.decode(again, rng)["x"].to_list() == cells
    assert encoder.decode(encoded, rng)["x"].to_list() == cells


def test_numbers_stay_in_single_precision_when_no_column_has_too_many_levels():
    narrow = NumericColumn(name="x", minimum=0, maximum=2**20 - 1, integer=True)
    wide = NumericColumn(name="y", minimum=0, maximum=2**20, integer=True)
    for columns, kind in (((narrow,), np.float32), ((narrow, wide), np.float64)):
        encoder = TableEncoder(Schema(columns=columns, sha256="0" * 64), [column.name for column in columns])
        encoded = encode_table(encoder, pl.DataFrame({column.name: ["0", "7"] for column in columns}))
        assert encoded.numbers.dtype == choose_number_type(lay_out_spans(encoder.schema)) == kind
        assert encoded.shape.row_bytes == encoded.codes.nbytes + encoded.numbers.nbytes


def test_every_row_has_a_legal_cell_when_numbers_are_beyond_their_range():
    encoded = make_encoded(5, seed=1)
    encoded.numbers[:] = np.array([[-3.0], [np.nan], [np.inf], [-np.inf], [7.0]], np.float32)
    for attribute in lay_out_attributes(SPANS):
        cells = attribute.find_cells(encoded)
        assert cells.min() >= 0
        assert cells.max() < attribute.cells


def test_layout_is_refused_when_a_number_does_not_say_its_levels_and_cells_when_a_code_is_beyond_the_categories():
    span = Span(column="x", role="number", head="linear", start=0, width=1, source=0, categories=0)
    with pytest.raises(DpwganError, match="the levels of column 'x'"):
        lay_out_attributes([span])
    with pytest.raises(DpwganError, match="'letters' is beyond"):
        lay_out_attributes(SPANS)[0].find_cells(make_empty(2))
