"""Reading CSV: what is accepted verbatim, and the sentence and exit code for each thing that is not."""

import csv
import gzip
import io
import os
import random
import sys
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpwgan.errors import DataError, InputError, TransferError
from dpwgan.table.reader import open_table
from dpwgan.table.schema import CategoricalColumn, Column, NumericColumn, Schema

SECRET = "S3CRET"


def make_schema(*names: str, **columns: Column) -> Schema:
    plain = [CategoricalColumn(name=name, tokens=("1", "2")) for name in names]
    return Schema(columns=(*plain, *columns.values()), sha256="0")


AB = make_schema("a", "b")


def put(folder: Path, data: bytes, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def quote_if_needed(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if set(cell) & set(',"\r\n') else cell


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (b"a,b\n1,2\n", [("1", "2")]),
        (b"a,b\n1,2", [("1", "2")]),
        (b"\xef\xbb\xbfa,b\n1,2\n", [("1", "2")]),
        (b"a,b\r\n1,2\r\n3,\r\n", [("1", "2"), ("3", "")]),
        (b"a,b\n1,2\n\n\n", [("1", "2")]),
        (b"a,b\r\n1,2\r\n\r\n", [("1", "2")]),
        (b'"a","b"\n"x,y","p""q"\n"l1\nl2",z\n', [("x,y", 'p"q'), ("l1\nl2", "z")]),
        (b'a,b\n"",\n,""\n', [("", ""), ("", "")]),
        (b"b,a\n1,2\n", [("1", "2")]),
        (b"a,b\n NA ,null\nnan,007\n#x,15400.0\n", [(" NA ", "null"), ("nan", "007"), ("#x", "15400.0")]),
        ("a,b\nä,\ufeff\n\ufeff,1\n".encode(), [("ä", "\ufeff"), ("\ufeff", "1")]),
        (b'a,b\n"x\ry","x\r\ny"\r\n', [("x\ry", "x\r\ny")]),
    ],
)
def test_table_keeps_every_cell_as_it_stands_when_the_form_is_sound(tmp_path, data, rows):
    for path in (put(tmp_path, data), put(tmp_path, gzip.compress(data), "packed.bin")):
        assert open_table(path, AB).frame().rows() == rows
        assert open_table(path, AB).records == len(rows)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    rows=st.lists(st.lists(st.text(alphabet='ab,"\n\r é\ufeff#', max_size=4), min_size=2, max_size=2), min_size=1),
    crlf=st.booleans(),
)
def test_table_equals_what_pythons_reader_gives_when_cells_are_any_text(tmp_path, rows, crlf):
    ending = "\r\n" if crlf else "\n"
    text = "".join(",".join(map(quote_if_needed, row)) + ending for row in [["a", "b"], *rows])
    table = open_table(put(tmp_path, text.encode()), AB)
    assert list(csv.reader(io.StringIO(text, newline="")))[1:] == rows
    assert table.line_ending == ("\r\n" if crlf else "\n")
    assert [list(row) for row in table.frame().rows()] == rows


def test_header_is_read_when_names_are_quoted(tmp_path):
    path = put(tmp_path, b'\xef\xbb\xbf"a b","c,d"\r\n1,2\r\n')
    assert open_table(path, make_schema("a b", "c,d")).header == ("a b", "c,d")


def test_blank_lines_are_cells_when_the_only_column_may_be_empty(tmp_path):
    path = put(tmp_path, b'a\n1\n\n""\n\n')
    may = make_schema(a=CategoricalColumn(name="a", tokens=("1", ""), missing=("",)))
    assert open_table(path, may).frame().rows() == [("1",), ("",), ("",), ("",)]
    may_number = make_schema(a=NumericColumn(name="a", minimum=0, maximum=1, integer=True, missing=("",)))
    assert open_table(path, may_number).records == 4
    assert open_table(path, make_schema("a")).frame().rows() == [("1",), ("",), ("",)]


def test_standard_input_is_read_once_when_the_path_is_a_dash(monkeypatch):
    for data in (b"a,b\n1,2\n", gzip.compress(b"a,b\n1,2\n")):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        table = open_table("-", AB)
        assert table.header == ("a", "b")
        assert table.frame().rows() == [("1", "2")]


def test_table_equals_what_pythons_reader_gives_when_it_is_long_and_full_of_line_endings(tmp_path):
    # Long enough for the parser to cut it up among its threads.
    rng = random.Random(1)
    rows = [["".join(rng.choices('ab,"\n\r é', k=rng.randrange(12))) for _ in range(2)] for _ in range(60_000)]
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([["a", "b"], *rows])
    table = open_table(put(tmp_path, text.getvalue().encode()), AB)
    assert list(map(list, table.frame().rows())) == rows


FAULTS = {
    "empty": (b"", DataError, "is empty"),
    "blank": (b"\n\n", DataError, "is empty"),
    "header_only": (b"a,b\n", DataError, "no rows"),
    "header_and_blank_lines": (b"a,b\n\n\r\n", DataError, "no rows"),
    "zeros": (b"a,b\n1,\0\n", DataError, "not a text in UTF-8"),
    "binary": (bytes(range(256)) * 9, DataError, "not a text in UTF-8"),
    "latin_1": ("a,b\nS3CRETé,1\n".encode("latin-1"), DataError, "not a text in UTF-8"),
    "utf_16": ("a,b\n1,2\n".encode("utf-16"), DataError, "not a text in UTF-8"),
    "long_row": (b"a,b\n1,2\nS3CRET,2,3\n", DataError, "1 row without exactly 2 cells"),
    "short_rows": (b"a,b\nS3CRET\n1,2\nS3CRET\n", DataError, "2 rows without exactly 2 cells"),
    "blank_line_inside": (b"a,b\n1,2\n\nS3CRET,2\n", DataError, "1 row without exactly 2 cells"),
    "open_quote": (b'a,b\n1,"S3CRET\n1,2\n', DataError, "ends inside a quoted cell"),
    "stray_quote": (b'a,b\nS3CRET"x"y,2\n', DataError, "2 quotes inside cells"),
    "stray_return": (b"a,b\nS3CRET\rx,2\n", DataError, "1 carriage returns"),
    "old_line_endings": (b"a,b\r1,S3CRET\r", DataError, "carriage returns"),
    "repeated_name": (b"a,b,a\n1,2,3\n", DataError, "repeats 'a'"),
    "unknown_name": (b"a,b,c\n1,2,3\n", DataError, "the specs do not have 'c'"),
    "absent_name": (b"a\n1\n", DataError, "the header does not have 'b'"),
    "no_header": (b"S3CRET,1\n1,2\n", DataError, "is it a header?"),
    "half_a_header": (b"a,S3CRET\n1,2\n", DataError, "do not have 1 of the names in the first line"),
    "semicolons": (b"a;b\nS3CRET;2\n", DataError, "is it a header?"),
    "cut_gzip": (gzip.compress(b"a,b\nS3CRET,2\n" * 99)[:-20], TransferError, "cut short or damaged"),
    "damaged_gzip": (gzip.compress(b"a,b\n1,2\n")[:12] + b"????????????", TransferError, "cut short or damaged"),
}


@pytest.mark.parametrize(("data", "error", "words"), FAULTS.values(), ids=FAULTS)
def test_table_is_refused_in_one_sentence_when_its_form_is_not_sound(tmp_path, data, error, words):
    path = put(tmp_path, data)
    with pytest.raises(error) as raised:
        open_table(path, AB).frame()
    assert words in str(raised.value)
    assert SECRET not in str(raised.value)
    assert raised.value.__cause__ is None
    with pytest.raises(error):
        open_table(path, AB)


def test_all_faults_of_a_header_are_named_in_one_sentence_when_there_are_several(tmp_path):
    with pytest.raises(DataError) as raised:
        open_table(put(tmp_path, b"a,b,a,x\n1,2,3,4\n"), make_schema("a", "b", "c"))
    assert str(raised.value) == (
        "The header and the specs differ: the header repeats 'a'; the specs do not have 'x'; "
        "the header does not have 'c'."
    )


def test_input_is_refused_when_it_cannot_be_opened(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="does not exist"):
        open_table(tmp_path / "none.csv", AB)
    with pytest.raises(InputError, match="is a directory"):
        open_table(tmp_path, AB)
    path = put(tmp_path, b"a,b\n1,2\n")

    def refuse(self: Path, mode: str) -> bytes:
        raise PermissionError(13, "no")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match="may not be read"):
        open_table(path, AB)


def test_input_is_refused_when_standard_input_is_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="closed"):
        open_table("-", AB)


def test_reading_is_told_to_break_off_when_the_disk_fails(tmp_path, monkeypatch):
    def fail(self: Path, mode: str) -> bytes:
        raise OSError(5, os.strerror(5))

    path = put(tmp_path, b"a,b\n1,2\n")
    monkeypatch.setattr(Path, "open", fail)
    with pytest.raises(TransferError, match="could not be read to its end"):
        open_table(path, AB)


def test_parser_words_never_reach_the_user_when_it_fails(tmp_path, monkeypatch):
    table = open_table(put(tmp_path, b"a,b\n1,2\n"), AB)

    def fail(*args: object, **keys: object) -> None:
        raise pl.exceptions.ComputeError(f"could not parse `{SECRET}`")

    monkeypatch.setattr(pl, "read_csv", fail)
    with pytest.raises(DataError) as raised:
        table.frame()
    assert SECRET not in str(raised.value)
    assert raised.value.__suppress_context__


def test_source_table_shows_no_rows_when_it_is_printed(tmp_path):
    assert SECRET not in repr(open_table(put(tmp_path, b"a,b\nS3CRET,2\n"), AB))
