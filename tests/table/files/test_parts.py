"""A table in parts: the same bytes come out as of one file, and each thing that is wrong is told with its part."""

import gzip
import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dpwgan.app import pipeline
from dpwgan.app.teamwork import _digest
from dpwgan.errors import DataError, InputError, UsageError
from dpwgan.table.files import csv as csv_module
from dpwgan.table.files import stream
from dpwgan.table.files.parts import list_parts
from dpwgan.table.files.reader import open_table, open_undescribed, read_types
from dpwgan.table.schema import CategoricalColumn, Schema
from dpwgan.table.specs import parse_specs
from tests.end_to_end.bad_inputs import HEADER, ROWS, SPECS, write_good
from tests.teams import make_config

AB = Schema(columns=tuple(CategoricalColumn(name=name, tokens=("1", "2", "3")) for name in "ab"), sha256="0")


def put(folder: Path, **parts: str) -> Path:
    folder.mkdir()
    for name, text in parts.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def run(folder: Path, data: str, *, output: str = "out.csv", **options: Any) -> bytes:
    pipeline.run(make_config(folder, data=data, output=output, method="independent", seed=1, **options))
    return (folder / output).read_bytes()


@pytest.mark.parametrize("unit", [False, True])
def test_parts_give_the_bytes_of_one_file_when_they_are_a_folder_or_a_pattern(tmp_path, unit):
    write_good(tmp_path)
    header, rows = (f"{HEADER},person", [f"{row},{n % 9}" for n, row in enumerate(ROWS)]) if unit else (HEADER, ROWS)
    named = {"unit": {"column": "person", "max_rows": 3}, "person": {"type": "integer", "uuid": True, "min": 0}}
    (tmp_path / "specs.json").write_text(json.dumps({**SPECS, **(named if unit else {})}))
    (tmp_path / "data.csv").write_text("\n".join((header, *rows)) + "\n")
    whole = run(tmp_path, "data.csv")
    put(tmp_path / "one", a=(tmp_path / "data.csv").read_text())
    put(tmp_path / "three", a="\n".join((header, *rows[:7])), b=f"{header}\n", c="\n".join((header, *rows[7:30])))
    (tmp_path / "three" / "d.csv.gz").write_bytes(gzip.compress("\n".join((header, *rows[30:])).encode()))
    for ignored in ("_SUCCESS", "._c.csv", "notes.txt", "_more.csv"):
        (tmp_path / "three" / ignored).write_text("no table")
    (tmp_path / "three" / "folder.csv").mkdir()
    (tmp_path / "linked").symlink_to("three")
    for data in ("one", "three", "linked", "th?ee/*.csv*"):
        assert run(tmp_path, data) == whole, data


def test_typed_parts_give_the_bytes_of_one_file(tmp_path):
    frame = pl.DataFrame({"a": [1, 2, 3, 1, 2], "b": ["1", "1", "2", "3", "3"]})
    spec = {"type": "enum", "values": ["1", "2", "3"]}
    (tmp_path / "specs.json").write_text(json.dumps({"a": spec, "b": spec}))
    frame.write_parquet(tmp_path / "data.parquet")
    (tmp_path / "parts").mkdir()
    for place, rows in enumerate((frame[:3], frame[3:3], frame[3:])):
        rows.write_parquet(tmp_path / "parts" / f"{place}.parquet")
    whole = run(tmp_path, "data.parquet", output="out.parquet")
    assert run(tmp_path, "parts", output="out.parquet") == whole


@pytest.mark.parametrize("first", [True, False])
def test_parts_have_the_types_of_those_with_cells_when_specs_are_drafted(tmp_path, first):
    moments = pl.DataFrame({"t": [datetime(2024, 6, 1, 12)], "x": [2.5]})
    moments.write_parquet(tmp_path / "b.parquet")
    pl.DataFrame({"t": [None], "x": [None]}).write_parquet(tmp_path / ("a.parquet" if first else "c.parquet"))
    schema = parse_specs(
        {"x": {"type": "float", "min": 0, "max": 9, "optional": True}, "t": {"type": "drop"}}, sha256=""
    )
    assert read_types(tmp_path) == open_table(tmp_path, schema).types == moments.schema
    cells = open_undescribed(tmp_path, {}, read=True).frame()
    assert {name: set(cells[name]) for name in "tx"} == {"t": {"2024-06-01T12:00:00", ""}, "x": {"2.5", ""}}


def test_parts_are_told_in_one_zone_or_refused(tmp_path):
    """By their own clocks one moment would be several."""
    noon = pl.Series("t", [datetime(2024, 6, 1, 12)]).dt.replace_time_zone("UTC")
    for zone in ("UTC", "Asia/Tokyo"):
        noon.dt.convert_time_zone(zone).to_frame().write_parquet(tmp_path / f"{zone[:3]}.parquet")
    column = {"type": "datetime", "min": "2024-06-01", "max": "2024-06-01"}
    with pytest.raises(DataError, match=r"Column 't': in several time zones in parts of the table"):
        open_table(tmp_path, parse_specs({"t": column}, sha256=""))
    with pytest.raises(DataError, match=r"Column 't': in several time zones in parts of the table"):
        open_undescribed(tmp_path, {}, read=True)
    table = open_table(tmp_path, parse_specs({"t": column | {"zone": "UTC"}}, sha256=""))
    assert set(table.frame()["t"]) == {"2024-06-01T12:00:00"}
    (tmp_path / "Asi.parquet").unlink()
    pl.DataFrame({"t": [None]}).write_parquet(tmp_path / "empty.parquet")
    assert open_table(tmp_path, parse_specs({"t": column | {"optional": True}}, sha256="")).records == 2


@pytest.mark.parametrize(
    ("parts", "error", "sentence"),
    [
        ({}, InputError, "has no parts"),
        ({"x": "a,b\n1,2\n", "y": "a,b\n1\n"}, DataError, r"^In part 2 of the table, 'y.csv': The table has 1 row"),
        ({"x": "a,b\n1,2\n", "y": "b,a\n1,1\n"}, DataError, r"'y.csv': column 1 is 'b', and in part 1 'a'\.$"),
        ({"x": "a,b\n1,2\n", "y": "a\n1\n"}, DataError, r"'y.csv': The header and the specs differ: .* 'b'"),
        ({"x": "a,b\n", "y": "a,b\n"}, DataError, "^The table has a header but no rows"),
    ],
)
def test_parts_are_refused_in_one_sentence_when(tmp_path, parts, error, sentence):
    with pytest.raises(error, match=sentence):
        open_table(put(tmp_path / "data", **parts), AB)


def test_parts_are_refused_when_they_are_of_two_kinds_or_one_has_two_names(tmp_path):
    folder = put(tmp_path / "data", x="a,b\n1,2\n")
    for link in (os.link, os.symlink):
        link(folder / "x.csv", folder / "y.csv")
        with pytest.raises(DataError, match=r"'y\.csv': it is the same file as part 1"):
            open_table(folder, AB)
        (folder / "y.csv").unlink()
    (folder / "y.parquet").write_bytes(b"")
    with pytest.raises(DataError, match="parts of several kinds"):
        open_table(folder, AB)


def test_a_file_is_one_file_when_its_name_looks_like_a_pattern(tmp_path):
    (tmp_path / "data[1].csv").write_text("a,b\n1,2\n")
    (tmp_path / "data1.csv").write_text("a,b\n3,3\n")
    assert list_parts(tmp_path / "data[1].csv") is None
    assert open_table(tmp_path / "data[1].csv", AB).frame().rows() == [("1", "2")]
    assert list_parts(tmp_path / "data[2].csv") == ()


def test_a_folder_is_refused_when_it_may_not_be_read(tmp_path, monkeypatch):
    def refuse(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(InputError, match=r"cannot be read: Permission denied\.$"):
        list_parts(tmp_path)


@pytest.mark.parametrize("size", [4, csv_module.SEGMENT])
def test_each_worker_reads_its_own_parts_alone(tmp_path, monkeypatch, size):
    monkeypatch.setattr(csv_module, "SEGMENT", size)
    monkeypatch.setattr(stream, "PIECE", size)
    texts = {name: "a,b\n" + f"{place},{place}\n" * 2 for place, name in enumerate("wxyz", 1)}
    table = open_table(put(tmp_path / "data", **texts), AB)
    shares = [table.part(first, last) for first, last in ((0, 3), (3, 6), (6, 8))]
    assert [share.frame()["a"].to_list() for share in shares] == [["1", "1", "2"], ["2", "3", "3"], ["4", "4"]]
    for name in "wxy":
        (tmp_path / "data" / f"{name}.csv").unlink()
    assert shares[2].frame().rows() == [("4", "4")] * 2


def test_workers_differ_when_one_part_does(tmp_path):
    # The same bytes in all, cut at another place.
    same = [put(tmp_path / name, x="a,b\n1,2\n", y="a,b\n3,1\n") for name in "pq"]
    other = put(tmp_path / "r", x="a,b\n1,2\na,", y="b\n3,1\n")
    digests = [_digest(str(folder)) for folder in (*same, other)]
    assert digests[0] == digests[1] != digests[2]


def test_no_part_is_written_over_and_none_added(tmp_path):
    write_good(tmp_path)
    put(tmp_path / "data", x="\n".join((HEADER, *ROWS)))
    (tmp_path / "link.csv").symlink_to("data/x.csv")
    for output in ("data/x.csv", "link.csv"):
        with pytest.raises(UsageError, match="same file as an input"):
            run(tmp_path, "data", output=output)
    with pytest.raises(UsageError, match="same file as an input"):
        run(tmp_path, "data/*.csv", output="data/x.csv")
    with pytest.raises(UsageError, match="would lie in the folder of the table's parts"):
        run(tmp_path, "data", output="data/out.csv")
    with pytest.raises(UsageError, match="checkpoint is the same file as an input"):
        run(tmp_path, "data", checkpoint=str(tmp_path / "data"))
