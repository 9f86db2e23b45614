"""CSV: what is read verbatim wherever the pieces end, and the sentence and exit code for each thing that is not."""

import csv
import gzip
import io
import os
import random
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpwgan.errors import DataError, InputError, TransferError
from dpwgan.table.files import csv as csv_module
from dpwgan.table.files import stream
from dpwgan.table.files.reader import open_table
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


def read(path: Path, schema: Schema = AB) -> list[tuple[str, ...]]:
    return open_table(path, schema).frame().rows()


def read_in_pieces(monkeypatch: pytest.MonkeyPatch, size: int | None) -> None:
    """Reads and parses so many bytes at a time; None leaves both as they are."""
    if size is not None:
        monkeypatch.setattr(stream, "PIECE", size)
        monkeypatch.setattr(csv_module, "SEGMENT", size)


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
        table = open_table(path, AB)
        assert (table.records, table.frame().rows()) == (len(rows), rows)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=140)
@given(
    rows=st.lists(st.lists(st.text(alphabet='ab,"\n\r é\ufeff#1', max_size=4), min_size=3, max_size=3), min_size=1),
    crlf=st.booleans(),
    blank=st.integers(0, 3),
    piece=st.none() | st.integers(1, 40),
    packed=st.booleans(),
)
def test_rows_are_those_of_pythons_reader_when_pieces_end_anywhere(
    tmp_path, monkeypatch, rows, crlf, blank, piece, packed
):
    ending = "\r\n" if crlf else "\n"
    text = "".join(",".join(map(quote_if_needed, row)) + ending for row in [["a", "b", "c"], *rows])
    data = (text + blank * ending).encode()
    with monkeypatch.context() as patched:
        read_in_pieces(patched, piece)
        table = open_table(put(tmp_path, gzip.compress(data) if packed else data), make_schema("a", "b", "c"))
        assert list(csv.reader(io.StringIO(text, newline="")))[1:] == rows
        assert (table.records, table.line_ending) == (len(rows), ending)
        assert sum(part.records for part in table.pieces()) == len(rows)
        assert [list(row) for row in table.frame().rows()] == rows
        assert [list(row) for row in table.part(1, len(rows)).frames() for row in row.rows()] == rows[1:]


def test_header_is_read_when_names_are_quoted(tmp_path):
    path = put(tmp_path, b'\xef\xbb\xbf"a b","c,d"\r\n1,2\r\n')
    assert open_table(path, make_schema("a b", "c,d")).header == ("a b", "c,d")


def test_blank_lines_are_cells_when_the_only_column_may_be_empty(tmp_path):
    path = put(tmp_path, b'a\n1\n\n""\n\n')
    may = make_schema(a=CategoricalColumn(name="a", tokens=("1", ""), missing=("",)))
    assert read(path, may) == [("1",), ("",), ("",), ("",)]
    may_number = make_schema(a=NumericColumn(name="a", minimum=0, maximum=1, integer=True, missing=("",)))
    assert open_table(path, may_number).records == 4
    assert read(path, make_schema("a")) == [("1",), ("",), ("",)]


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
    "utf_16": ("a,b\n1,2\n".encode("utf-16"), DataError, "is a text in UTF-16: save it in UTF-8"),
    "workbook": (b"PK\x03\x04" + bytes(range(256)), DataError, "is a workbook or another archive, not a text: save"),
    "long_row": (b"a,b\n1,2\nS3CRET,2,3\n", DataError, "1 row without exactly 2 cells"),
    "short_rows": (b"a,b\nS3CRET\n1,2\nS3CRET\n", DataError, "2 rows without exactly 2 cells"),
    "blank_line_inside": (b"a,b\n1,2\n\nS3CRET,2\n", DataError, "1 row without exactly 2 cells"),
    "open_quote": (b'a,b\n1,"S3CRET\n1,2\n', DataError, "ends inside a quoted cell"),
    "stray_quote": (b'a,b\nS3CRET"x"y,2\n', DataError, "2 quotes inside cells"),
    "stray_return": (b"a,b\nS3CRET\rx,2\n", DataError, "1 carriage return "),
    "old_line_endings": (b"a,b\r1,S3CRET\r", DataError, "1 carriage return "),
    "repeated_name": (b"a,b,a\n1,2,3\n", DataError, "repeats 'a'"),
    "unknown_name": (b"a,b,c\n1,2,3\n", DataError, "the specs do not have 'c'"),
    "absent_name": (b"a\n1\n", DataError, "the header does not have 'b'"),
    "no_header": (b"S3CRET,1\n1,2\n", DataError, "is it a header?"),
    "open_header": (b'a,b,"c\nS3CRET,1,"\n1,2,3\n', DataError, "do not have 1 of the names in the first line"),
    "half_a_header": (b"a,S3CRET\n1,2\n", DataError, "do not have 1 of the names in the first line"),
    "semicolons": (b"a;b\nS3CRET;2\n", DataError, "cells must be separated by commas (docs/specs.md"),
    "tabs": (b"a\tb\nS3CRET\t2\n", DataError, "cells must be separated by commas (docs/specs.md"),
    "cut_gzip": (gzip.compress(b"a,b\nS3CRET,2\n" * 99)[:-20], TransferError, "cut short or damaged"),
    "damaged_gzip": (gzip.compress(b"a,b\n1,2\n")[:12] + b"????????????", TransferError, "cut short or damaged"),
}


@pytest.mark.parametrize("piece", [None, 1, 5, 64])
@pytest.mark.parametrize(("data", "error", "words"), FAULTS.values(), ids=FAULTS)
def test_table_is_refused_in_one_sentence_when_its_form_is_not_sound(tmp_path, monkeypatch, data, error, words, piece):
    read_in_pieces(monkeypatch, piece)
    with pytest.raises(error) as raised:
        open_table(put(tmp_path, data), AB)
    assert words in str(raised.value)
    assert SECRET not in str(raised.value)
    assert raised.value.__cause__ is None


def test_all_faults_of_a_header_are_named_in_one_sentence_when_there_are_several(tmp_path):
    with pytest.raises(DataError) as raised:
        open_table(put(tmp_path, b"a,b,a,x\n1,2,3,4\n"), make_schema("a", "b", "c"))
    assert str(raised.value) == (
        "The header and the specs differ: the header repeats 'a'; the specs do not have 'x'; "
        "the header does not have 'c'."
    )


def test_input_is_refused_when_it_cannot_be_opened(tmp_path, monkeypatch):
    path = put(tmp_path, b"a,b\n1,2\n")
    with pytest.raises(InputError, match="does not exist"):
        open_table(tmp_path / "none.csv", AB)
    with pytest.raises(InputError, match="is a directory"):
        stream.read_bytes(tmp_path)
    for error, kind, words in (
        (PermissionError(13, "no"), InputError, "may not be read"),
        (OSError(5, os.strerror(5)), TransferError, "could not be read to its end"),
    ):

        def fail(self: Path, mode: str, error: OSError = error) -> bytes:
            raise error

        monkeypatch.setattr(Path, "open", fail)
        with pytest.raises(kind, match=words):
            open_table(path, AB)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="closed"):
        open_table("-", AB)


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


def test_record_is_refused_when_it_has_no_end_in_sight(tmp_path, monkeypatch):
    read_in_pieces(monkeypatch, 16)
    monkeypatch.setattr(csv_module, "LONGEST_RECORD", 1 << 10)
    with pytest.raises(DataError, match="is a quote not closed"):
        open_table(put(tmp_path, b'a,b\n1,"' + b"1,2\n" * 1_000), AB)


def test_table_is_refused_when_it_changes_between_counting_and_parsing(tmp_path):
    path = put(tmp_path, b"a,b\n1,2\n1,2\n")
    table = open_table(path, AB)
    path.write_bytes(b"a,b\n1,2\n")
    with pytest.raises(DataError, match="was changed while it was read"):
        table.frame()


def test_pipe_is_read_twice_when_it_can_be_read_once(tmp_path):
    for number, data in enumerate((b"a,b\n1,2\n2,1\n", gzip.compress(b"a,b\n1,2\n2,1\n"))):
        path = tmp_path / f"pipe{number}"
        os.mkfifo(path)
        writer = threading.Thread(target=path.write_bytes, args=(data,))
        writer.start()
        table = open_table(path, AB)
        writer.join()
        for _ in range(2):
            assert table.frame().rows() == [("1", "2"), ("2", "1")]


def test_damage_is_told_when_it_is_found_late_in_an_archive(tmp_path, monkeypatch):
    read_in_pieces(monkeypatch, 64)
    whole = gzip.compress(b"a,b\n" + b"1,2\n" * 1_000)
    with pytest.raises(TransferError, match="cut short or damaged"):
        open_table(put(tmp_path, whole[:-4]), AB)
    both = put(tmp_path, gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"2,1\n"))
    assert read(both) == [("1", "2"), ("2", "1")]


@pytest.mark.parametrize("width", [2, 3, 256, 257, 300])
@pytest.mark.parametrize("more", [-1, 1, 256, 65_536])
def test_record_is_found_ragged_when_it_has_any_number_of_cells_more(tmp_path, width, more):
    header = ",".join(f"c{number}" for number in range(width))
    sound, ragged = "," * (width - 1), "," * (width - 1 + more)
    for lines, wrong in (([header, sound, ragged, sound], 1), ([header, sound, sound], 0)):
        found = csv_module.find_records(stream.ByteStream(put(tmp_path, "\n".join(lines).encode())))
        assert (found.count, found.ragged) == (len(lines), wrong)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'a"b,c\n', "ends inside"),
        (b'a""b,c\n', "2 quotes inside"),
        (b'"a"b,c\n', "1 quote inside"),
        (b'"a" ,"c\n"\n', "1 quote inside"),
        (b' "a",c\n', "1 quote inside"),
        (b'"a","b\n', "ends inside"),
        (b"a\rb\n", "1 carriage"),
        (b'"a"\rb\n', "1 quote inside"),
        (b'"a\rb"\n', ""),
        (b"a\r", ""),
        (b'"""",""\n', ""),
    ],
)
def test_text_is_refused_when_quotes_or_returns_stand_alone(tmp_path, text, words):
    source = stream.ByteStream(put(tmp_path, text))
    if not words:
        assert csv_module.find_records(source).count == 1
        return
    with pytest.raises(DataError, match=words):
        csv_module.find_records(source)


@given(st.text('"\n,', max_size=40), st.booleans())
def test_last_record_ends_outside_of_quotes_wherever_it_is_in_a_piece(text, inside):
    ends = [place + 1 for place, sign in enumerate(text) if sign == "\n" and text.count('"', place) % 2 == inside]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_module, "_NEAR", 8)
        assert csv_module._find_end(text.encode(), inside=inside) == max(ends, default=0)


def test_each_piece_is_looked_at_once_when_a_record_has_no_end(tmp_path, monkeypatch):
    read_in_pieces(monkeypatch, 64)
    looked: list[int] = []
    find_end = csv_module._find_end

    def watch(piece: bytes, *, inside: bool) -> int:
        looked.append(len(piece))
        return find_end(piece, inside=inside)

    monkeypatch.setattr(csv_module, "_find_end", watch)
    text = b'a,b\n1,"' + b'1,"",2\n' * 1_000
    with pytest.raises(DataError, match="ends inside a quoted cell"):
        open_table(put(tmp_path, text), AB)
    assert 0 < sum(looked) <= len(text)
