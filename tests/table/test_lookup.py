"""Whole rows of digits, looked up at once: the same codes, numbers and refusals as by way of text."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpwgan.table import digits, records, stream
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.lookup import NumberLookup
from dpwgan.table.reader import open_table
from dpwgan.table.schema import IdentifierColumn, Schema
from tests.table import test_numeric
from tests.table.test_numeric import COLUMNS, NUMBERS, WHOLE, check, encode, halve

# All columns but the one of fractions, and one that is not trained.
SCHEMA = Schema(columns=(*(c for c in COLUMNS if c.name != "pay"), IdentifierColumn(name="row", start=1)), sha256="0")
NAMES = [column.name for column in SCHEMA.columns]
DIGITS = {name: [cell for cell in cells if "-" not in cell] for name, cells in WHOLE.items() if name != "pay"}


@pytest.fixture(autouse=True)
def _use_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_numeric, "SCHEMA", SCHEMA)


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Notes of each piece whether it could be looked up."""
    notes: list[bool] = []
    encode_text = NumberLookup.encode

    def note(self: NumberLookup, *parts: object) -> bool:
        notes.append(encode_text(self, *parts))  # type: ignore[arg-type]
        return notes[-1]

    monkeypatch.setattr(NumberLookup, "encode", note)
    return notes


def complete(row: dict[str, str]) -> dict[str, str]:
    """Adds what follows from the trained columns of a row."""
    return {"row": "1", "halved": halve(row["age"]), "doubled": str(2 * int(row["listed"])), **row}


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text(
        "\n".join(",".join(line) for line in [NAMES, *([row[name] for name in NAMES] for row in rows)]) + "\n"
    )
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(draws=st.data(), piece=st.integers(20, 500), block=st.integers(10, 200))
def test_legal_rows_are_encoded_as_their_text_is_when_cells_are_digits(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    looked_up: list[bool],
    draws: st.DataObject,
    piece: int,
    block: int,
) -> None:
    monkeypatch.setattr(stream, "PIECE", piece)
    monkeypatch.setattr(records, "SEGMENT", piece)
    monkeypatch.setattr(digits, "_BLOCK", block)
    # What is clamped is left to the codecs.
    legal = {
        **DIGITS,
        "clamped": ["1", "9"],
        "cut": ["0", "5"],
        "other": ["1", "5", "99", ""],
        "gapped": ["1", "5", ""],
    }
    rows = draws.draw(st.lists(st.fixed_dictionaries({k: st.sampled_from(v) for k, v in legal.items()}), min_size=1))
    path = write(tmp_path / "data.csv", list(map(complete, rows)))
    assert isinstance(encode(path, "text"), EncodedTable)
    looked_up.clear()
    check(path)
    assert looked_up
    assert all(looked_up)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(draws=st.data(), piece=st.integers(20, 500))
def test_rows_are_encoded_or_refused_as_their_text_is_when_a_cell_is_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draws: st.DataObject, piece: int
) -> None:
    monkeypatch.setattr(stream, "PIECE", piece)
    monkeypatch.setattr(records, "SEGMENT", piece)
    any_cells = (*NUMBERS, "007", "1234567890", "5.0", " 5", "x")
    legal = st.fixed_dictionaries({name: st.sampled_from(cells) for name, cells in WHOLE.items() if name != "pay"})
    rows = list(map(complete, draws.draw(st.lists(legal, min_size=1, max_size=8))))
    for _ in range(draws.draw(st.integers(0, 3))):
        row = draws.draw(st.sampled_from(rows))
        row[draws.draw(st.sampled_from(NAMES[:-1]))] = draws.draw(st.sampled_from(any_cells))
    check(write(tmp_path / "data.csv", rows))


LEGAL_ROW = complete({name: next(cell for cell in cells if cell) for name, cells in DIGITS.items()})


@pytest.mark.parametrize(
    ("column", "cell"), [("listed", "2"), ("listed", "-3"), ("age", "10"), ("cut", "8"), ("row", "x"), ("age", "5.0")]
)
def test_rows_are_left_to_the_codecs_when_a_cell_is_no_listed_number(
    tmp_path: Path, looked_up: list[bool], column: str, cell: str
) -> None:
    path = write(tmp_path / "data.csv", [LEGAL_ROW, LEGAL_ROW | {column: cell}])
    check(path)
    assert looked_up == [False, False]  # in memory, and on disk


@pytest.mark.parametrize(("column", "cell"), [("wide", "9999998"), ("halved", "9"), ("doubled", "3")])
def test_rows_are_refused_as_their_text_is_when_a_column_without_a_table_or_a_rule_is_broken(
    tmp_path: Path, looked_up: list[bool], column: str, cell: str
) -> None:
    path = write(tmp_path / "data.csv", [LEGAL_ROW, LEGAL_ROW | {column: cell}])
    assert isinstance(encode(path, "numbers"), str)
    check(path)
    assert all(looked_up)


def test_pieces_have_no_text_to_look_up_when_some_column_is_none_of_whole_numbers(tmp_path: Path) -> None:
    whole = open_table(write(tmp_path / "data.csv", [LEGAL_ROW]), SCHEMA)
    assert [piece.text is not None for piece in whole.pieces()] == [True]
    mixed = Schema(columns=COLUMNS, sha256="0")
    path = tmp_path / "mixed.csv"
    path.write_text(",".join(column.name for column in COLUMNS) + "\n" + ",".join("1" for _ in COLUMNS) + "\n")
    assert [piece.text for piece in open_table(path, mixed).pieces()] == [None]
