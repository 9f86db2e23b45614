"""CSV a piece at a time: the same rows and the same refusals wherever the pieces end."""

import csv
import gzip
import io
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpwgan.errors import DataError, DpwganError, TransferError
from dpwgan.table import csv as csv_module
from dpwgan.table import stream
from dpwgan.table.reader import open_table
from dpwgan.table.schema import Schema
from tests.table.test_reader import AB, FAULTS, make_schema, put, quote_if_needed

ABC = make_schema("a", "b", "c")


def read(path: Path, schema: Schema) -> list[list[str]]:
    return [list(row) for row in open_table(path, schema).frame().rows()]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(
    rows=st.lists(st.lists(st.text(alphabet='ab,"\n\r é1', max_size=4), min_size=3, max_size=3), min_size=1),
    crlf=st.booleans(),
    blank=st.integers(0, 3),
    piece=st.integers(1, 40),
    packed=st.booleans(),
)
def test_rows_are_those_of_pythons_reader_when_pieces_end_anywhere(
    tmp_path, monkeypatch, rows, crlf, blank, piece, packed
):
    ending = "\r\n" if crlf else "\n"
    text = "".join(",".join(map(quote_if_needed, row)) + ending for row in [["a", "b", "c"], *rows])
    data = (text + blank * ending).encode()
    monkeypatch.setattr(stream, "PIECE", piece)
    monkeypatch.setattr(csv_module, "SEGMENT", piece)
    path = put(tmp_path, gzip.compress(data) if packed else data)
    assert list(csv.reader(io.StringIO(text, newline="")))[1:] == rows
    table = open_table(path, ABC)
    assert table.records == len(rows)
    assert sum(part.records for part in table.pieces()) == len(rows)
    assert read(path, ABC) == rows
    assert [list(row) for row in table.part(1, len(rows)).frames() for row in row.rows()] == rows[1:]


@pytest.mark.parametrize("piece", [1, 5, 64])
@pytest.mark.parametrize("name", FAULTS)
def test_refusal_is_the_same_when_pieces_are_small(tmp_path, monkeypatch, name, piece):
    data, error, words = FAULTS[name]
    path = put(tmp_path, data)
    monkeypatch.setattr(stream, "PIECE", piece)
    monkeypatch.setattr(csv_module, "SEGMENT", piece)
    with pytest.raises(DpwganError) as raised:
        open_table(path, AB)
    assert isinstance(raised.value, error)
    assert words in str(raised.value)


def test_record_is_refused_when_it_has_no_end_in_sight(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "PIECE", 16)
    monkeypatch.setattr(csv_module, "SEGMENT", 16)
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
    import os
    import threading

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
    monkeypatch.setattr(stream, "PIECE", 64)
    monkeypatch.setattr(csv_module, "SEGMENT", 64)
    whole = gzip.compress(b"a,b\n" + b"1,2\n" * 1_000)
    with pytest.raises(TransferError, match="cut short or damaged"):
        open_table(put(tmp_path, whole[:-4]), AB)
    both = put(tmp_path, gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"2,1\n"))
    assert open_table(both, AB).frame().equals(pl.DataFrame({"a": ["1", "2"], "b": ["2", "1"]}))


@pytest.mark.parametrize("width", [2, 3, 256, 257, 300])
@pytest.mark.parametrize("more", [-1, 1, 256, 65_536])
def test_record_is_found_ragged_when_it_has_any_number_of_cells_more(tmp_path, width, more):
    header = ",".join(f"c{number}" for number in range(width))
    sound, ragged = "," * (width - 1), "," * (width - 1 + more)
    found = csv_module.find_records(
        stream.ByteStream(put(tmp_path, "\n".join([header, sound, ragged, sound]).encode()))
    )
    assert (found.count, found.ragged) == (4, 1)
    found = csv_module.find_records(stream.ByteStream(put(tmp_path, "\n".join([header, sound, sound]).encode())))
    assert (found.count, found.ragged) == (3, 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'a"b,c\n', "ends inside"),
        (b'a""b,c\n', "2 quotes inside"),
        (b'"a"b,c\n', "1 quotes inside"),
        (b'"a" ,"c\n"\n', "1 quotes inside"),
        (b' "a",c\n', "1 quotes inside"),
        (b'"a","b\n', "ends inside"),
        (b"a\rb\n", "1 carriage"),
        (b'"a"\rb\n', "1 quotes inside"),
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
