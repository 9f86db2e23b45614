"""pandas frames in and out."""

import datetime
import io
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpwgan.errors import DataError
from dpwgan.table.frames import from_pandas, from_polars, to_pandas
from dpwgan.table.numerals import read_number
from dpwgan.table.schema import (
    CategoricalColumn,
    Column,
    DerivedColumn,
    IdentifierColumn,
    NumericColumn,
    Schema,
    UndiscoveredColumn,
    UnitColumn,
)
from tests.programs import ROOT, call


def make_schema(*columns: Column) -> Schema:
    return Schema(columns=columns, sha256="0")


WORDS = CategoricalColumn(name="c", tokens=("x", ""), missing=("",))
WHOLE = NumericColumn(name="c", minimum=0, maximum=99, integer=True, missing=("",))
FLAG = CategoricalColumn(name="c", tokens=("true", "false"))
FREE = UndiscoveredColumn(name="c", privacy="private", missing=("NA",))
NAMES = IdentifierColumn(name="c")
REAL = NumericColumn(name="c", minimum=0, maximum=9, integer=False, decimals=1, missing=("",))
BITS = CategoricalColumn(name="c", tokens=("0", "1", ""), missing=("",))


@pytest.mark.parametrize(
    ("values", "column", "cells"),
    [
        (["x", None, float("nan"), pd.NA, pd.NaT], WORDS, ["x", "", "", "", ""]),
        (pd.array(["x", None], dtype="string"), WORDS, ["x", ""]),
        (pd.Categorical(["x", None, "y"]), WORDS, ["x", "", "y"]),
        (np.array([1, 2], dtype=np.uint8), WHOLE, ["1", "2"]),
        (pd.array([1, None], dtype="Int64"), WHOLE, ["1", ""]),
        ([1.0, np.nan, 2.5, np.inf, 1e-7], WHOLE, ["1", "", "2.5", "inf", "1e-07"]),
        (np.array([0.1], dtype=np.float32), WHOLE, ["0.1"]),
        (pd.array([0.1, None], dtype="Float32"), WHOLE, ["0.1", ""]),
        ([Decimal("1.50"), Decimal("nan")], WHOLE, ["1.50", ""]),
        ([True, False], WHOLE, ["1", "0"]),
        ([True, False], FLAG, ["true", "false"]),
        (pd.array([True, None], dtype="boolean"), BITS, ["1", ""]),
        ([1.0, np.nan], BITS, ["1", ""]),
        ([1, True, "x"], BITS, ["1", "1", "x"]),
        (pd.to_datetime(["2020-01-02", None]), NAMES, ["2020-01-02 00:00:00", ""]),
        ([datetime.date(2020, 1, 2)], WORDS, ["2020-01-02"]),
        (pd.to_timedelta(["1D"]), NAMES, ["1 days 00:00:00"]),
        (["01", "x", "0.50", " 7", "-0.0"], FREE, ["1", "x", "0.5", "7", "0"]),
        (["1e3", "TRUE", "1_0", ""], FREE, ["1000", "1", "1_0", ""]),
        (["9007199254740993", "NaN", "inf", "1e999"], FREE, ["9007199254740993", "NaN", "inf", "1e999"]),
        (np.array([2**63 + 1], dtype=np.uint64), FREE, [str(2**63 + 1)]),
        (["7", 7.0, "07", 8], CategoricalColumn(name="c", tokens=("07", "x")), ["07", "07", "07", "8"]),
        (["07", "7"], CategoricalColumn(name="c", tokens=("07", "7")), ["07", "7"]),
        ([1.5, "1.5", Decimal("1.500")], CategoricalColumn(name="c", tokens=("1.50",)), ["1.50"] * 3),
        ([2.0**60], NumericColumn(name="c", minimum=0, maximum=1e20, integer=False), [str(2**60)]),
    ],
)
def test_values_become_the_cells_of_a_file_when_a_frame_comes_in(values, column, cells):
    frame = from_pandas(pd.DataFrame({"c": values}), make_schema(column))
    assert frame.schema == {"c": pl.String}
    assert frame["c"].to_list() == cells


@pytest.mark.parametrize(
    ("values", "column", "rule"),
    [
        ([2.0**53, 1.0], FREE, "too large"),
        ([-(2.0**53), np.inf], FREE, "too large"),
        ([2.0**53], CategoricalColumn(name="c", tokens=("9007199254740993",)), "too large"),
        (np.array([2**24], dtype=np.float32), FREE, "too large"),
        ([0.1 + 0.2], FREE, "more than 15 digits"),
        (["0.30000000000000000001"], FREE, "more than 15 digits"),
        ([7.0], CategoricalColumn(name="c", tokens=("07", "7")), "several listed cells"),
        (["7.0"], CategoricalColumn(name="c", tokens=("07", "7")), "several listed cells"),
        ([True], CategoricalColumn(name="c", tokens=("True", "true")), "several listed cells"),
        (pd.to_datetime(["2020-01-02"]), FREE, "is a time"),
        (pd.to_timedelta(["1D"]), WORDS, "is a time"),
        (pd.Series([np.timedelta64(5, "ns"), np.timedelta64(5, "s")], dtype=object), WHOLE, "neither text"),
    ],
)
def test_frame_is_refused_when_a_value_does_not_say_which_cell_it_was(values, column, rule):
    with pytest.raises(DataError, match=f"column 'c': [12] rows? with a cell that .*{rule}") as raised:
        from_pandas(pd.DataFrame({"c": values}), make_schema(column))
    assert "9007" not in str(raised.value)


# What one more cell of a file does to its column: nothing, float64, object, or float64 with an infinity.
OTHERS = ("", "NA", "x", "2.5", "inf", "TRUE", "007")
COLUMNS = (
    FREE,
    UndiscoveredColumn(name="c", privacy="private", missing=("07", "1.50", "true")),
    CategoricalColumn(name="c", tokens=("1", "2.50", "007", "9007199254740993", "TRUE", "x", ""), missing=("",)),
    CategoricalColumn(name="c", tokens=("1", "01", "2.0", "true", "True"), out_of_domain="missing"),
    CategoricalColumn(name="c", tokens=("0", "1", "007", "NA"), integer=True, missing=("NA",)),
    NumericColumn(name="c", minimum=-9, maximum=2**53, integer=False, missing=("TRUE", "999", "Infinity")),
    NumericColumn(name="c", minimum=-9, maximum=2**53, integer=True, out_of_domain="missing", missing=("01", "x")),
)
CELLS = st.one_of(
    st.sampled_from(
        ["1", "01", "1.0", "+1", "1e3", "2.50", "2.5", "007", "0", "-0.0", "TRUE", "true", "False", "x", ""]
    ),
    st.sampled_from(
        ["inf", "Infinity", "-inf", "9007199254740993", "9007199254740992", "0.1234567890123456789", "1e400"]
    ),
    st.integers(-(2**64), 2**64).map(str),
    st.decimals(-1000, 1000, places=3).map(str),
    st.floats(allow_nan=False).map(repr),
)


def read_file(cells: list[str]) -> pd.DataFrame:
    return pd.read_csv(io.StringIO("\n".join(["c", *cells]) + "\n"), skip_blank_lines=False)


def give_cells(cells: list[str], column: Column) -> list[str] | None:
    """Gives what a file's cells become on their way through pandas, None if they are refused."""
    try:
        written = from_pandas(read_file(cells), make_schema(column))["c"].to_list()
    except DataError:
        return None
    # In a numeric column all spellings of a number are one cell to the encoder.
    if isinstance(column, NumericColumn):
        return [
            cell if number is None else str(float(number)) for cell, number in ((c, read_number(c)) for c in written)
        ]
    return written


@given(st.lists(CELLS, min_size=1, max_size=4), st.sampled_from(OTHERS), st.sampled_from(OTHERS), st.data())
def test_other_rows_keep_their_cells_when_one_row_changes_the_type_of_the_column(cells, one, other, data):
    column = data.draw(st.sampled_from(COLUMNS))
    if isinstance(column, NumericColumn):
        # pandas is an ulp off for such numerals, in some columns and not in others; a double is all that is kept here.
        cells = [cell for cell in cells if len(cell) <= 15] or ["1"]
    before, after = give_cells([*cells, one], column), give_cells([*cells, other], column)
    if before is not None and after is not None:
        assert before[:-1] == after[:-1]


@pytest.mark.parametrize("column", [FREE, COLUMNS[2], COLUMNS[5]])
@pytest.mark.parametrize("cells", [["1", "1", "3"], ["2.50", "1", "1"], ["TRUE", "TRUE", "TRUE"], ["007", "1", "1"]])
def test_nothing_is_refused_when_a_cell_is_empty_or_text(column, cells):
    tables = [give_cells([*cells, other], column) for other in (cells[0], "", "x")]
    assert None not in tables
    assert len({tuple(table[:-1]) for table in tables if table is not None}) == 1


@pytest.mark.parametrize("last", [1, np.nan, None, "x", 2.5, pd.NA, True])
@pytest.mark.parametrize("column", [FREE, BITS, WHOLE])
def test_whole_numbers_stay_whole_when_a_frame_made_in_memory_has_another_value(last, column):
    frame = pd.DataFrame({"c": [*range(20), last]})
    assert from_pandas(frame, make_schema(column))["c"].to_list()[:-1] == [str(number) for number in range(20)]


@pytest.mark.parametrize(
    ("names", "is_sound"),
    [
        ([7, "7", "A7", 7.0], True),
        ([8, "007", "7", None], True),
        (["007", "7", "7.0"], True),
        ([7, "007"], False),
        ([7, "7", "007"], False),
        ([7.5, "7.50"], False),
        ([Decimal("7"), " 7"], False),
    ],
)
def test_one_unit_is_not_taken_for_two_when_pandas_has_made_numbers_of_some_rows(names, is_sound):
    """As `read_csv` does of a long file, some thousand rows at a time. Text alone is compared to the letter."""
    frame = pd.DataFrame({"c": pd.Series(names, dtype=object)})
    if is_sound:
        assert from_pandas(frame, make_schema(UnitColumn(name="c", max_rows=2))).height == len(names)
        return
    with pytest.raises(DataError, match=r"^Column 'c': of numbers, and of text that writes some of them otherwise"):
        from_pandas(frame, make_schema(UnitColumn(name="c", max_rows=2)))
    # Names that nobody is protected by are let go, however they are written.
    assert from_pandas(frame, make_schema(NAMES)).height == len(names)


@pytest.mark.parametrize("value", [b"S3CRET", ["S3CRET"], {"S3CRET": 1}, 1 + 2j, "S3CRET\ud800"])
def test_frame_is_refused_when_a_value_is_of_another_kind(value):
    with pytest.raises(DataError, match="'c'") as raised:
        from_pandas(pd.DataFrame({"c": pd.Series(["x", value], dtype=object)}), make_schema(WORDS))
    assert "S3CRET" not in str(raised.value)


def test_frame_is_refused_when_its_columns_are_not_those_of_the_specs():
    for frame in (
        pd.DataFrame({"d": ["x"]}),
        pd.DataFrame({0: ["x"]}),
        pd.DataFrame([["x", "x"]], columns=["c", "c"]),
        pd.DataFrame({"c": []}),
    ):
        with pytest.raises(DataError):
            from_pandas(frame, make_schema(WORDS))


@pytest.mark.parametrize(
    ("column", "cells", "dtype", "values"),
    [
        (NumericColumn(name="c", minimum=0, maximum=9, integer=True), ["1", "9"], "int64", [1, 9]),
        (WHOLE, ["1", ""], "Int64", [1, pd.NA]),
        (WHOLE, ["1", "2"], "Int64", [1, 2]),
        (NumericColumn(name="c", minimum=0, maximum=9, integer=True, missing=("99",)), ["1", "99"], "int64", [1, 99]),
        (NumericColumn(name="c", minimum=0, maximum=9, integer=True, missing=("N",)), ["1", "N"], "object", ["1", "N"]),
        (NumericColumn(name="c", minimum=0, maximum=9, integer=True, decimals=1), ["1.0"], "float64", [1.0]),
        (REAL, ["1.5", ""], "float64", [1.5, np.nan]),
        (CategoricalColumn(name="c", tokens=("1", "2"), integer=True), ["2"], "int64", [2]),
        (CategoricalColumn(name="c", tokens=("01", "02"), integer=True), ["02"], "object", ["02"]),
        (CategoricalColumn(name="c", tokens=("1", "")), ["1", ""], "Int64", [1, pd.NA]),
        (WORDS, ["x", ""], "object", ["x", None]),
        (IdentifierColumn(name="c", start=1), ["1"], "int64", [1]),
        (IdentifierColumn(name="c"), ["u"], "object", ["u"]),
    ],
)
def test_cells_get_the_type_of_the_specs_when_a_frame_goes_out(column, cells, dtype, values):
    frame = to_pandas(pl.DataFrame({"c": cells}), make_schema(column))
    pd.testing.assert_series_equal(frame["c"], pd.Series(values, dtype=dtype, name="c"))


@pytest.mark.parametrize(
    ("column", "cell", "dtype"),
    [
        (DerivedColumn(name="d", source="c", multiply=2), "4", "Int64"),
        (DerivedColumn(name="d", source="c", multiply=2, missing="0"), "4", "int64"),
        (DerivedColumn(name="d", source="c", multiply=2, missing="N"), "4", "object"),
        (DerivedColumn(name="d", source="c", multiply=2, decimals=1), "4.0", "float64"),
        (DerivedColumn(name="d", source="c", multiply=2, width=3), "004", "object"),
        (DerivedColumn(name="d", source="c", mapping={"2": "7"}, missing="8"), "7", "int64"),
        (DerivedColumn(name="d", source="c", mapping={"2": "x"}, missing=""), "x", "object"),
    ],
)
def test_derived_cells_get_the_type_of_all_they_can_be_when_a_frame_goes_out(column, cell, dtype):
    frame = to_pandas(pl.DataFrame({"c": ["2"], "d": [cell]}), make_schema(WHOLE, column))
    assert str(frame["d"].dtype) == dtype


def test_column_is_refused_when_polars_holds_objects():
    town = Schema(columns=(UndiscoveredColumn(name="town", privacy="waived"),), sha256="0")
    with pytest.raises(DataError, match="column 'town': 2 rows with a cell that is of type object"):
        from_polars(pl.DataFrame({"town": pl.Series([object(), 1], dtype=pl.Object)}), town)


def test_pandas_is_not_imported_when_a_csv_is_read_and_written():
    code = (
        "import sys; import dpwgan.table.files.reader, dpwgan.table.encoder, dpwgan.table.files.writer;"
        " import dpwgan.table.frames; sys.exit('pandas' in sys.modules)"
    )
    assert call(sys.executable, "-c", code, cwd=ROOT).returncode == 0
