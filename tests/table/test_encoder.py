"""A whole table both ways."""

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpwgan.errors import DataError, DpwganError, SpecsError
from dpwgan.table.codecs.untrained import FreshIdentifiers
from dpwgan.table.encoded import EncodedTable, lay_out_spans
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.files.reader import open_table
from dpwgan.table.files.writer import write_table
from dpwgan.table.schema import (
    CategoricalColumn,
    Column,
    DerivedColumn,
    FixedColumn,
    IdentifierColumn,
    NumericColumn,
    Schema,
    UndiscoveredColumn,
    UnitColumn,
)
from dpwgan.table.source import make_piece
from dpwgan.table.specs import parse_specs
from tests.rows import encode_table, round_trip

COLUMNS: dict[str, Column] = {
    column.name: column
    for column in (
        IdentifierColumn(name="id", start=10),
        CategoricalColumn(name="sex", tokens=("F", "M")),
        CategoricalColumn(name="place", tokens=("100", "150", "0999", ""), missing=("0999", ""), integer=True),
        NumericColumn(name="age", minimum=0, maximum=120, integer=True),
        NumericColumn(name="pay", minimum=0, maximum=1e5, integer=False, decimals=1, missing=("N",)),
        NumericColumn(name="hours", minimum=0, maximum=99, integer=True, edges=(0, 40, 99), missing=("",)),
        CategoricalColumn(name="same", tokens=("x",)),
        DerivedColumn(name="region", source="place", floordiv=100, missing="0"),
        DerivedColumn(name="days", source="age", multiply=365),
        DerivedColumn(name="word", source="sex", mapping={"F": "woman", "M": "man"}),
        IdentifierColumn(name="key"),
    )
}
SCHEMA = Schema(columns=tuple(COLUMNS.values()), sha256="0")
Row = tuple[str, str, int, float | str, int | str]
HEADER = ("word", "key", "pay", "age", "days", "place", "region", "sex", "hours", "same", "id")


ENCODER = TableEncoder(SCHEMA, HEADER)
ROW: Row = ("F", "100", 1, 2.5, 3)


def make_frame(rows: list[Row]) -> pl.DataFrame:
    def write(sex: str, place: str, age: int, pay: float | str, hours: int | str) -> dict[str, str]:
        return {
            "word": "woman" if sex == "F" else "man",
            "key": "secret name",
            "pay": str(pay),
            "age": str(age),
            "days": str(age * 365),
            "place": place,
            "region": "0" if place in ("0999", "") else "1",
            "sex": sex,
            "hours": str(hours),
            "same": "x",
            "id": "",
        }

    return pl.DataFrame([write(*row) for row in rows], schema=dict.fromkeys(HEADER, pl.String))


def make_output(rows: int) -> pl.DataFrame:
    return round_trip(ENCODER, make_frame([ROW] * rows))


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["F", "M"]),
        st.sampled_from(["100", "150", "0999", ""]),
        st.integers(0, 120),
        st.integers(0, 1_000_000).map(lambda tenths: tenths / 10) | st.just("N"),
        st.integers(0, 99) | st.just(""),
    ),
    min_size=1,
)


@pytest.mark.slow
@given(ROWS)
def test_table_comes_back_when_it_is_encoded_and_decoded(rows: list[Row]) -> None:
    frame = make_frame(rows)
    encoded = encode_table(ENCODER, frame)
    assert encoded.spans == lay_out_spans(SCHEMA)
    assert encoded.codes.dtype == np.int32
    assert encoded.numbers.dtype == np.float32
    decoded = ENCODER.decode(encoded, np.random.default_rng(1))
    ENCODER.validate(decoded)
    assert tuple(decoded.columns) == HEADER
    exact = ["word", "age", "days", "place", "region", "sex", "same"]
    assert decoded.select(exact).rows() == frame.select(exact).rows()
    for before, after in zip(frame["pay"], decoded["pay"], strict=True):
        assert before == after if before == "N" else abs(float(before) - float(after)) <= 0.11
    assert decoded["id"].to_list() == [str(10 + row) for row in range(len(rows))]
    assert all(uuid.UUID(key).version == 4 for key in decoded["key"])
    again = encode_table(ENCODER, decoded)
    assert np.array_equal(again.codes, encoded.codes)


def test_chunks_make_the_same_table_when_it_comes_in_pieces() -> None:
    frame = make_frame([("F", "100", age, age * 10.5, "") for age in range(100)])
    whole = encode_table(ENCODER, frame)
    pieces = ENCODER.encode_pieces(map(make_piece, frame.iter_slices(7)), records=100)
    assert np.array_equal(whole.codes, pieces.codes)
    assert np.array_equal(whole.numbers, pieces.numbers)
    decoded = pl.concat(
        ENCODER.decode(whole.take(np.arange(at, min(at + 9, 100))), np.random.default_rng(1), first_record=at)
        for at in range(0, 100, 9)
    )
    assert decoded["id"].to_list() == [str(10 + row) for row in range(100)]
    assert decoded["key"].n_unique() == 100
    assert decoded["age"].to_list() == frame["age"].to_list()


@pytest.mark.parametrize("column", [IdentifierColumn, UnitColumn])
def test_counted_names_keep_their_zeros_when_the_specs_give_a_width(column: type[IdentifierColumn]) -> None:
    more: dict[str, Any] = {"max_rows": 1, "written": True} if column is UnitColumn else {}
    names = column(name="id", start=8, width=3, **more)
    codec = FreshIdentifiers(names)
    cells = codec.make(first_record=0, records=3)
    assert cells.to_list() == ["008", "009", "010"]
    assert codec.count_illegal(cells.alias("id").to_frame()) == 0
    assert codec.count_illegal(pl.DataFrame({"id": ["008", "9", "010"]})) == 3
    assert names.choose_type(SCHEMA)[0] == "text"


def test_no_identifier_is_read_when_a_table_is_encoded() -> None:
    frame = make_frame([ROW])
    other = frame.with_columns(pl.lit("another").alias("key"), pl.lit("7").alias("id"))
    assert np.array_equal(encode_table(ENCODER, frame).codes, encode_table(ENCODER, other).codes)
    assert "secret name" not in round_trip(ENCODER, frame)["key"].to_list()


def test_findings_of_all_columns_and_chunks_are_in_one_sentence_when_there_are_several() -> None:
    good = make_frame([ROW])
    bad = make_frame([("S3CRET", "100", 121, "S3CRET", 3), ("M", "100", 4, 1.0, 3)]).with_columns(
        pl.lit("12345").alias("days")
    )
    with pytest.raises(DataError) as raised:
        ENCODER.encode_pieces(map(make_piece, [bad, good, bad]), records=5)
    assert str(raised.value) == (
        "The table does not fit the specs: column 'sex': 2 rows with a cell that is not one of its legal cells; "
        "column 'age': 2 rows with a cell that is not between 0 and 120; "
        "column 'pay': 2 rows with a cell that is not a number; "
        "column 'days': 2 rows with a cell that does not follow from 'age' by its rule."
    )


@pytest.mark.parametrize(("columns", "words"), [(9, "and 4 more such findings"), (6, "and 1 more such finding")])
def test_sentence_stays_short_when_many_columns_are_wrong(columns: int, words: str) -> None:
    names = [f"c{index}" for index in range(columns)]
    schema = Schema(columns=tuple(CategoricalColumn(name=name, tokens=("1",)) for name in names), sha256="0")
    with pytest.raises(DataError, match=f"; {words}\\.$"):
        encode_table(TableEncoder(schema, names), pl.DataFrame({name: ["2"] for name in names}))


@pytest.mark.parametrize("records", [1, 3])
def test_table_is_refused_when_it_has_another_number_of_rows_than_counted(records: int) -> None:
    frame = make_frame([ROW] * 2)
    with pytest.raises(DataError, match="number of rows"):
        ENCODER.encode_pieces([make_piece(frame)], records=records)


def test_text_that_is_never_read_stays_text_where_nothing_is_written() -> None:
    assert FixedColumn(name="note", cell="").choose_type(SCHEMA) == ("text", True)


def test_columns_are_looked_at_when_none_of_them_is_to_be_trained() -> None:
    """As `specs check` does with those that are right."""
    encoder = TableEncoder(Schema(columns=(FixedColumn(name="a", cell="x", checked=True),), sha256="0"), ["a"])
    assert encoder.find_misfits([make_piece(pl.DataFrame({"a": ["x", "y"]}))]).rows.total() == 1


def test_encoder_is_refused_when_its_specs_cannot_be_acted_on() -> None:
    undiscovered = Schema(columns=(UndiscoveredColumn(name="a", privacy="waived"),), sha256="0")
    with pytest.raises(SpecsError, match="not discovered"):
        TableEncoder(undiscovered, ["a"])
    with pytest.raises(DataError, match="header"):
        TableEncoder(SCHEMA, HEADER[1:])


def test_encoded_table_is_refused_when_it_is_laid_out_otherwise() -> None:
    encoded = encode_table(ENCODER, make_frame([ROW]))
    for wrong in (
        EncodedTable(codes=encoded.codes[:, 1:], numbers=encoded.numbers, spans=encoded.spans),
        EncodedTable(codes=encoded.codes, numbers=encoded.numbers[:0], spans=encoded.spans),
        EncodedTable(codes=encoded.codes, numbers=encoded.numbers, spans=encoded.spans[1:]),
    ):
        with pytest.raises(DpwganError, match="laid out"):
            ENCODER.decode(wrong, np.random.default_rng(1))


def test_derived_cell_agrees_when_it_spells_the_number_otherwise() -> None:
    frame = make_frame([ROW]).with_columns(
        pl.lit("1.0").alias("region"), pl.lit("0365").alias("days"), pl.lit("1.0").alias("age")
    )
    assert round_trip(ENCODER, frame)["region"].to_list() == ["1"]


def test_derived_cell_is_not_checked_when_its_source_is_replaced() -> None:
    schema = Schema(
        columns=(
            NumericColumn(name="s", minimum=0, maximum=9, integer=True, missing=("N",), out_of_domain="missing"),
            DerivedColumn(name="d", source="s", multiply=2, missing="M"),
        ),
        sha256="0",
    )
    encoder = TableEncoder(schema, ["s", "d"])
    encoded = encode_table(encoder, pl.DataFrame({"s": ["10", "4", "N"], "d": ["20", "8", "M"]}))
    assert encoder.decode(encoded, np.random.default_rng(1)).rows() == [("N", "M"), ("4", "8"), ("N", "M")]


ILLEGAL: dict[str, tuple[str | None, ...]] = {
    **{"sex": ("f",), "place": ("99",), "age": ("121", "007", "7.0", "nan", ""), "hours": ("100",), "same": ("",)},
    **{"pay": ("1.25", "inf", "-0.1", "1e3"), "region": ("2",), "days": ("1", "x"), "word": ("man",), "id": ("9", "x")},
    "key": ("1", "fc7f3b7e-e62c-11f1-8a7e-02fc00000001", None),
}


@pytest.mark.parametrize(("column", "cell"), [(column, cell) for column, cells in ILLEGAL.items() for cell in cells])
def test_output_is_refused_as_an_internal_error_when_a_cell_is_illegal(column: str, cell: str | None) -> None:
    frame = make_output(1)
    ENCODER.validate(frame)
    with pytest.raises(DpwganError, match=f"column '{column}': 1 row") as raised:
        ENCODER.validate(frame.with_columns(pl.lit(cell, dtype=pl.String).alias(column)))
    assert raised.value.exit_code == 70


def test_output_is_refused_when_its_columns_or_identifiers_are_not_those_expected() -> None:
    frame = make_output(3)
    with pytest.raises(DpwganError, match="header"):
        ENCODER.validate(frame.select(reversed(HEADER)))
    with pytest.raises(DpwganError, match="identifier"):
        ENCODER.validate(frame.with_columns(pl.lit(frame["key"][0]).alias("key")))
    with pytest.raises(DpwganError, match="identifier"):
        ENCODER.validate(frame.with_columns(pl.Series("id", ["10", "12", "13"])))


@pytest.mark.parametrize(
    "cells",
    [
        pl.Series("sex", ["F", None]),
        pl.Series("age", [1, 2]),
        pl.Series("sex", ["F", "X"], dtype=pl.Enum(["F", "X"])),
        pl.Series("age", ["1", "121"], dtype=pl.Enum(["1", "121"])),
        pl.Series("sex", ["F", "F"], dtype=pl.Categorical),
    ],
    ids=lambda cells: f"{cells.name}, {cells.dtype}",
)
def test_output_is_refused_as_an_internal_error_when_a_cell_is_no_legal_text(cells: pl.Series) -> None:
    good = make_output(2)
    # A list of cells that the column does not have is no fault where none of them is written.
    ENCODER.validate(good.with_columns(pl.Series("sex", ["F", "F"], dtype=pl.Enum(["X", "F"]))))
    with pytest.raises(DpwganError, match=cells.name):
        ENCODER.validate(good.with_columns(cells))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_every_cell_is_legal_when_a_method_gives_any_codes_and_numbers(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    limits = [span.categories for span in ENCODER.spans if span.head != "linear"]
    numbers = rng.normal(0.5, 5, size=(50, 2)).astype(np.float32)
    numbers[rng.random((50, 2)) < 0.1] = np.nan
    numbers[rng.random((50, 2)) < 0.1] = np.inf
    encoded = EncodedTable(
        codes=rng.integers(0, limits, size=(50, len(limits))).astype(np.int32), numbers=numbers, spans=ENCODER.spans
    )
    frame = ENCODER.decode(encoded, rng)
    ENCODER.validate(frame)
    encode_table(ENCODER, frame)
    written = write_table(tmp_path / "out.csv", [frame], header=HEADER, schema=SCHEMA)
    assert written.records == 50
    assert open_table(tmp_path / "out.csv", SCHEMA).frame().equals(frame.cast(pl.String))


@pytest.mark.parametrize("more", [{}, {"missing": ["99"], "max": 2**40}, {"bins": [0, 10, 20, 50]}])
def test_numbers_move_to_the_nearest_that_they_may_be(more):
    encoder = TableEncoder(parse_specs({"a": {"type": "integer", "min": 0, "max": 50, **more}}, sha256=""), ("a",))
    encoded = encode_table(encoder, pl.DataFrame({"a": ["3", "40", "50"]}))
    encoder.move(encoded, pl.Series("a", ["3", "40", "50"]), by=np.array([7.0, 5.0, -60.0]))
    expected = encode_table(encoder, pl.DataFrame({"a": ["10", "45", "0"]}))
    assert (encoded.codes == expected.codes).all()
    assert (encoded.numbers == expected.numbers).all()
