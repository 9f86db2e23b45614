"""pandas frames in and out."""

import datetime
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpwgan.data.encoder import TableEncoder
from dpwgan.data.frames import from_pandas, to_pandas
from dpwgan.errors import DataError
from dpwgan.schema import CategoricalColumn, Column, DerivedColumn, IdentifierColumn, NumericColumn, Schema


def make_schema(*columns: Column) -> Schema:
    return Schema(columns=columns, sha256="0")


WORDS = CategoricalColumn(name="c", tokens=("x", ""), missing=("",))
WHOLE = NumericColumn(name="c", minimum=0, maximum=99, integer=True, missing=("",))
FLAG = CategoricalColumn(name="c", tokens=("true", "false"))
BITS = CategoricalColumn(name="c", tokens=("0", "1", ""), missing=("",))


@pytest.mark.parametrize(
    ("values", "column", "cells"),
    [
        (["x", None, float("nan"), pd.NA, pd.NaT], WORDS, ["x", "", "", "", ""]),
        (pd.array(["x", None], dtype="string"), WORDS, ["x", ""]),
        (pd.Categorical(["x", None, "y"]), WORDS, ["x", "", "y"]),
        (np.array([1, 2], dtype=np.uint8), WHOLE, ["1", "2"]),
        (pd.array([1, None], dtype="Int64"), WHOLE, ["1", ""]),
        ([1.0, np.nan, 2.5, np.inf, 1e-7], WHOLE, ["1.0", "", "2.5", "inf", "1e-07"]),
        (np.array([0.1], dtype=np.float32), WHOLE, ["0.1"]),
        (pd.array([0.1, None], dtype="Float32"), WHOLE, ["0.1", ""]),
        ([Decimal("1.50"), Decimal("nan")], WHOLE, ["1.50", ""]),
        ([True, False], WHOLE, ["1", "0"]),
        ([True, False], FLAG, ["true", "false"]),
        (pd.array([True, None], dtype="boolean"), BITS, ["1", ""]),
        ([1.0, np.nan], BITS, ["1", ""]),
        ([1, True, "x"], BITS, ["1", "1", "x"]),
        (pd.to_datetime(["2020-01-02", None]), WORDS, ["2020-01-02 00:00:00", ""]),
        ([datetime.date(2020, 1, 2)], WORDS, ["2020-01-02"]),
        (pd.to_timedelta(["1D"]), WORDS, ["1 days 00:00:00"]),
    ],
)
def test_values_become_the_cells_of_a_file_when_a_frame_comes_in(
    values: object, column: Column, cells: list[str]
) -> None:
    frame = from_pandas(pd.DataFrame({"c": values}), make_schema(column))
    assert frame.schema == {"c": pl.String}
    assert frame["c"].to_list() == cells


@pytest.mark.parametrize("value", [b"S3CRET", ["S3CRET"], {"S3CRET": 1}, 1 + 2j, "S3CRET\ud800"])
def test_frame_is_refused_when_a_value_is_of_another_kind(value: object) -> None:
    with pytest.raises(DataError, match="'c'") as raised:
        from_pandas(pd.DataFrame({"c": pd.Series(["x", value], dtype=object)}), make_schema(WORDS))
    assert "S3CRET" not in str(raised.value)


def test_frame_is_refused_when_its_columns_are_not_those_of_the_specs() -> None:
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
        (
            NumericColumn(name="c", minimum=0, maximum=9, integer=False, decimals=1, missing=("",)),
            ["1.5", ""],
            "float64",
            [1.5, np.nan],
        ),
        (CategoricalColumn(name="c", tokens=("1", "2"), integer=True), ["2"], "int64", [2]),
        (CategoricalColumn(name="c", tokens=("01", "02"), integer=True), ["02"], "object", ["02"]),
        (CategoricalColumn(name="c", tokens=("1", "")), ["1", ""], "Int64", [1, pd.NA]),
        (WORDS, ["x", ""], "object", ["x", None]),
        (IdentifierColumn(name="c", start=1), ["1"], "int64", [1]),
        (IdentifierColumn(name="c"), ["u"], "object", ["u"]),
    ],
)
def test_cells_get_the_type_of_the_specs_when_a_frame_goes_out(
    column: Column, cells: list[str], dtype: str, values: list[object]
) -> None:
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
def test_derived_cells_get_the_type_of_all_they_can_be_when_a_frame_goes_out(
    column: Column, cell: str, dtype: str
) -> None:
    frame = to_pandas(pl.DataFrame({"c": ["2"], "d": [cell]}), make_schema(WHOLE, column))
    assert str(frame["d"].dtype) == dtype


def test_frame_comes_back_when_it_goes_through_the_encoder() -> None:
    schema = make_schema(
        CategoricalColumn(name="word", tokens=("a", "b", ""), missing=("",)),
        NumericColumn(name="age", minimum=0, maximum=120, integer=True),
        NumericColumn(name="pay", minimum=0, maximum=100, integer=False, decimals=2, missing=("",)),
        NumericColumn(name="count", minimum=0, maximum=9, integer=True, missing=("",)),
        CategoricalColumn(name="flag", tokens=("0", "1"), integer=True),
    )
    before = pd.DataFrame(
        {
            "word": ["a", "b", None],
            "age": [0, 50, 120],
            "pay": [0.0, 99.25, np.nan],
            "count": pd.array([1, None, 9], dtype="Int64"),
            "flag": [0, 1, 1],
        },
        index=[7, 8, 9],
    )
    encoder = TableEncoder(schema, list(before.columns))
    decoded = encoder.decode(encoder.encode(from_pandas(before, schema)), np.random.default_rng(1))
    encoder.validate(decoded)
    pd.testing.assert_frame_equal(to_pandas(decoded, schema), before.reset_index(drop=True))


def test_pandas_is_not_imported_when_a_csv_is_read_and_written() -> None:
    code = (
        "import sys; import dpwgan.data.reader, dpwgan.data.encoder, dpwgan.data.writer, dpwgan.data.frames;"
        " sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False).returncode == 0
