"""Numbers parsed at once: for every table the same codes, numbers and refusals as by way of text."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpwgan.errors import DataError
from dpwgan.table import records, stream
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.numeric import find_number_columns
from dpwgan.table.reader import open_table
from dpwgan.table.schema import CategoricalColumn, DerivedColumn, NumericColumn, Schema

LISTED = CategoricalColumn(name="listed", tokens=("1", "5", "-3", "07"), integer=True)
CLAMPED = CategoricalColumn(name="clamped", tokens=("1", "9"), integer=True, out_of_domain="clamp")
GAPPED = CategoricalColumn(
    name="gapped", tokens=("1", "5", "99", ""), missing=("99", ""), integer=True, out_of_domain="missing"
)
EMPTY = CategoricalColumn(name="empty", tokens=("1", "2", ""), integer=True)
AGE = NumericColumn(name="age", minimum=0, maximum=9, integer=True, missing=("99", ""))
PAY = NumericColumn(name="pay", minimum=-1, maximum=9.5, integer=False, decimals=1, missing=("",))
CUT = NumericColumn(name="cut", minimum=0, maximum=5, integer=True, out_of_domain="clamp")
# One with more whole numbers than are tabulated, one with bins, one of which what is no number of its own is missing.
WIDE = NumericColumn(name="wide", minimum=-1, maximum=9_999_997, integer=True, missing=("0", "9999999"))
BINNED = NumericColumn(name="binned", minimum=0, maximum=9, integer=True, missing=("7", ""), edges=(0, 1, 5, 9))
OTHER = NumericColumn(name="other", minimum=1, maximum=5, integer=True, missing=("99",), out_of_domain="missing")
HALVED = DerivedColumn(name="halved", source="age", floordiv=2)
DOUBLED = DerivedColumn(name="doubled", source="listed", multiply=2)
COLUMNS = (LISTED, CLAMPED, GAPPED, EMPTY, AGE, PAY, CUT, WIDE, BINNED, OTHER, HALVED, DOUBLED)
SCHEMA = Schema(columns=COLUMNS, sha256="0")
NAMES = [column.name for column in SCHEMA.columns]

SPELLINGS = st.sampled_from(
    (
        *(
            "1",
            "5",
            "01",
            "+5",
            "-3",
            " 1",
            "1 ",
            "7",
            "99",
            "",
            " ",
            "\t",
            "5.0",
            "1e0",
            "-0",
            "nan",
            "inf",
            "x",
            "1_0",
        ),
        *("99999999999", "-99999999999999999999", "0.1", ".5", "2.", "9.5", "1e400", "0x1", '"5"', '""', '" 5"'),
    )
)


def encode(path: Path, way: str) -> EncodedTable | str:
    """Gives the encoded table, or the sentence with which it was refused."""
    table = open_table(path, SCHEMA)
    encoder = TableEncoder(SCHEMA, table.header)
    try:
        if way == "text":
            return encoder.encode_frames((piece.parse() for piece in table.pieces()), records=table.records)
        return encoder.encode_pieces(table.pieces(), records=table.records, on_disk=way == "disk", threads=2)
    except DataError as error:
        return ";".join(sorted(str(error).removeprefix("The table does not fit the specs: ").rstrip(".").split("; ")))


def halve(age: str) -> str:
    return age if age in AGE.missing else str(int(age) // 2)


def check(path: Path) -> None:
    expected = encode(path, "text")
    for way in ("numbers", "disk"):
        found = encode(path, way)
        if isinstance(expected, str) or isinstance(found, str):
            assert found == expected
            continue
        assert found.codes.dtype == np.int32
        assert found.numbers.dtype == np.float32
        assert np.array_equal(found.codes, expected.codes)
        assert np.array_equal(found.numbers, expected.numbers)
        assert found.on_disk is (way == "disk")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(
    rows=st.lists(st.lists(SPELLINGS, min_size=len(NAMES), max_size=len(NAMES)), min_size=1, max_size=5),
    piece=st.integers(20, 200),
)
def test_any_spelling_is_encoded_as_its_text_is_when_it_may_be_parsed_as_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[list[str]], piece: int
) -> None:
    monkeypatch.setattr(stream, "PIECE", piece)
    monkeypatch.setattr(records, "SEGMENT", piece)
    path = tmp_path / "data.csv"
    path.write_text("\n".join(map(",".join, [NAMES, *rows])) + "\n")
    check(path)


NUMBERS = (*map(str, range(-3, 11)), "99", "100", "9999997", "9999999", "2147483647", "")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(
    choices=st.lists(st.lists(st.integers(0, 99), min_size=len(NAMES), max_size=len(NAMES)), min_size=1, max_size=5),
    illegal=st.sets(st.sampled_from(NAMES), max_size=2),
    piece=st.integers(20, 200),
)
def test_whole_numbers_are_encoded_or_refused_as_their_text_is_when_nothing_else_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choices: list[list[int]], illegal: set[str], piece: int
) -> None:
    """All columns but a few hold legal cells, so that each way to be illegal is met by itself."""
    monkeypatch.setattr(stream, "PIECE", piece)
    monkeypatch.setattr(records, "SEGMENT", piece)
    lines = [NAMES]
    for row in choices:
        lists = {**WHOLE, **dict.fromkeys(illegal, NUMBERS)}
        cells = {
            name: lists[name][choice % len(lists[name])]
            for name, choice in zip(NAMES, row, strict=True)
            if name in lists
        }
        if "halved" not in cells:
            cells["halved"] = halve(cells["age"])
        if "doubled" not in cells:
            cells["doubled"] = str(2 * int(cells["listed"] or "0"))
        lines.append([cells[name] for name in NAMES])
    path = tmp_path / "data.csv"
    path.write_text("\n".join(map(",".join, lines)) + "\n")
    check(path)


LEGAL = {
    "listed": ["1", "5", "-3", "7", "07", "05"],
    "clamped": ["1", "9", "5", "-4", "100"],
    "gapped": ["1", "5", "99", "", "3"],
    "empty": ["1", "2", ""],
    "age": ["0", "9", "99", "", "05"],
    "pay": ["-1", "9.5", "0.1", "", "1e-1", "3"],
    "cut": ["0", "5", "8", "-2"],
    "wide": ["0", "-1", "17", "9999997", "9999999"],
    "binned": ["0", "1", "4", "5", "7", "9", ""],
    "other": ["1", "5", "99", "6", ""],
}
WHOLE = {name: [cell for cell in cells if cell.lstrip("-").isdecimal() or not cell] for name, cells in LEGAL.items()}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(draws=st.data(), piece=st.integers(20, 500))
def test_legal_table_is_encoded_alike_on_every_road_when_pieces_end_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draws: st.DataObject, piece: int
) -> None:
    monkeypatch.setattr(stream, "PIECE", piece)
    monkeypatch.setattr(records, "SEGMENT", piece)
    rows = draws.draw(st.lists(st.tuples(*map(st.sampled_from, LEGAL.values())), min_size=1, max_size=30))
    path = tmp_path / "data.csv"
    lines = [NAMES, *([*row, halve(row[NAMES.index("age")]), str(2 * int(row[0]))] for row in rows)]
    path.write_text("\n".join(map(",".join, lines)) + "\n")
    assert isinstance(encode(path, "text"), EncodedTable)
    check(path)


def test_columns_are_parsed_as_numbers_when_their_spelling_makes_no_difference() -> None:
    kinds = find_number_columns(SCHEMA)
    assert {name: type(kind) for name, kind in kinds.items()} == {
        **dict.fromkeys((name for name in NAMES if name != "pay"), pl.Int32),
        "pay": pl.Float64,
    }
    for column in (
        CategoricalColumn(name="a", tokens=("1", "01"), integer=True),
        CategoricalColumn(name="a", tokens=("1", "N"), integer=True),
        CategoricalColumn(name="a", tokens=("1", "2")),
    ):
        assert find_number_columns(Schema(columns=(column,), sha256="0")) == {"a": pl.Enum(column.tokens)}
    for column in (
        NumericColumn(name="a", minimum=0, maximum=1, integer=True, missing=("N",)),
        NumericColumn(name="a", minimum=0, maximum=1, integer=False, missing=("N",)),
        CategoricalColumn(name="a", tokens=("1", str(1 << 63)), integer=True),
    ):
        assert find_number_columns(Schema(columns=(column,), sha256="0")) == {}
    large = CategoricalColumn(name="a", tokens=("1", str(1 << 40)), integer=True)
    assert find_number_columns(Schema(columns=(large,), sha256="0")) == {"a": pl.Int64()}
