"""Listed cells that the parser tells apart: the same codes and refusals as by way of text, and any line ending."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpwgan.table import records, stream
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.schema import CategoricalColumn, DerivedColumn, NumericColumn, Schema
from tests.table import test_lookup, test_numeric
from tests.table.test_numeric import check, encode
from tests.table.test_reader import quote_if_needed

WORDS = ("Private", "?", "", "x,y", 'say "so"', "two\nlines", "two\r\nlines", "é", "\ufeff", " x ", "1", "NA", "null")
COLUMNS = (
    CategoricalColumn(name="word", tokens=WORDS),
    CategoricalColumn(name="never_empty", tokens=("a", "b")),
    CategoricalColumn(name="spelt", tokens=("1", "01", "N"), integer=True),
    CategoricalColumn(name="replaced", tokens=("a", "b", "n/a"), missing=("n/a",), out_of_domain="missing"),
    NumericColumn(name="age", minimum=0, maximum=99, integer=True, missing=("",)),
    NumericColumn(name="pay", minimum=0, maximum=9, integer=False, decimals=1),
    DerivedColumn(name="twin", source="never_empty", mapping={"a": "A", "b": ""}),
)
SCHEMA = Schema(columns=COLUMNS, sha256="0")
LEGAL = {
    "word": WORDS,
    "never_empty": ("a", "b"),
    "spelt": ("1", "01", "N"),
    "replaced": ("a", "b", "n/a"),
    "age": ("7", "42", ""),
    "pay": ("0.5", "9"),
}
ILLEGAL = ("", " ", "zz", " a", "a ", "A", "\ufeffa", "001", "1.0", "nan", "-1", "x\ny", '"', "Private\t")


@pytest.fixture(autouse=True)
def _use_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_numeric, "SCHEMA", SCHEMA)


def write(path: Path, rows: list[dict[str, str]], *, line_ending: str, quote_all: bool) -> Path:
    names = [column.name for column in test_numeric.SCHEMA.columns]

    def quote(cell: str) -> str:
        return '"' + cell.replace('"', '""') + '"' if quote_all else quote_if_needed(cell)

    lines = [names, *([row[name] for name in names] for row in rows)]
    path.write_bytes("".join(",".join(map(quote, line)) + line_ending for line in lines).encode())
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    draws=st.data(),
    piece=st.integers(20, 500),
    faults=st.integers(0, 2),
    line_ending=st.sampled_from(["\n", "\r\n"]),
    quote_all=st.booleans(),
)
def test_rows_are_encoded_or_refused_as_their_text_is_when_columns_list_their_cells(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    draws: st.DataObject,
    piece: int,
    faults: int,
    line_ending: str,
    quote_all: bool,
) -> None:
    monkeypatch.setattr(stream, "PIECE", piece)
    monkeypatch.setattr(records, "SEGMENT", piece)
    legal = st.fixed_dictionaries({name: st.sampled_from(cells) for name, cells in LEGAL.items()})
    rows = draws.draw(st.lists(legal, min_size=1, max_size=8))
    rows = [{**row, "twin": "A" if row["never_empty"] == "a" else ""} for row in rows]
    for _ in range(faults):
        row = draws.draw(st.sampled_from(rows))
        row[draws.draw(st.sampled_from([*LEGAL, "twin"]))] = draws.draw(st.sampled_from(ILLEGAL))
    path = write(tmp_path / "data.csv", rows, line_ending=line_ending, quote_all=quote_all)
    if not faults:
        assert isinstance(encode(path, "text"), EncodedTable)
    check(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(
    cells=st.lists(st.sampled_from([*WORDS, "zz"]), min_size=1, max_size=8),
    piece=st.integers(1, 60),
    quote_all=st.booleans(),
    line_ending=st.sampled_from(["\n", "\r\n"]),
)
def test_rows_are_encoded_or_refused_as_their_text_is_when_the_only_column_lists_its_cells(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cells: list[str],
    piece: int,
    quote_all: bool,
    line_ending: str,
) -> None:
    monkeypatch.setattr(test_numeric, "SCHEMA", Schema(columns=COLUMNS[:1], sha256="0"))
    monkeypatch.setattr(stream, "PIECE", piece)
    monkeypatch.setattr(records, "SEGMENT", piece)
    rows = [{"word": cell} for cell in cells]
    check(write(tmp_path / "data.csv", rows, line_ending=line_ending, quote_all=quote_all))


looked_up = test_lookup.looked_up


def test_rows_of_digits_are_looked_up_when_lines_end_in_any_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looked_up: list[bool]
) -> None:
    monkeypatch.setattr(test_numeric, "SCHEMA", test_lookup.SCHEMA)
    for line_ending in ("\n", "\r\n"):
        rows = [test_lookup.LEGAL_ROW] * 3
        path = write(tmp_path / "data.csv", rows, line_ending=line_ending, quote_all=False)
        check(path)
        path.write_bytes(path.read_bytes().removesuffix(b"\n"))
        check(path)
    # In memory and on disk; a lone return at the end of the file is left to the parser.
    assert looked_up == [True] * 6 + [False] * 2
