"""Parquet: every legal table comes back as its CSV would, typed columns are spelt by value, and faults are told."""

import datetime
import hashlib
import io
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from dpwgan.errors import DataError
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.files import writer
from dpwgan.table.files.reader import open_table
from dpwgan.table.files.writer import WrittenTable, write_table
from dpwgan.table.schema import Schema
from dpwgan.table.specs import parse_specs
from tests.marginals.tables import make_encoded
from tests.rows import encode_table
from tests.table.images import make_schema

SPECS: dict[str, Any] = {
    "id": {"type": "string", "uuid": True},
    "town": {"type": "enum", "values": ["01", "x, y"], "optional": True},
    "flag": {"type": "enum", "count": 2},
    "age": {"type": "integer", "min": 0, "max": 120, "optional": True},
    "code": {"type": "integer", "min": 0, "max": 99, "missing": ["N"]},
    "wage": {"type": "integer", "min": 0, "max": 99999, "decimals": 1},
    "share": {"type": "float", "min": -1, "max": 1, "decimals": 2, "optional": True},
    "decade": {"derived": {"from": "age", "floordiv": 10}},
}
SCHEMA = parse_specs(SPECS, sha256="0")
TYPES = [pl.String, pl.String, pl.Int64, pl.Int64, pl.String, pl.Float64, pl.Float64, pl.Int64]


def write(path: Path, frame: pl.DataFrame) -> Path:
    frame.write_parquet(path)
    return path


def draw_table(*, rows: int, seed: int) -> tuple[TableEncoder, pl.DataFrame]:
    """Draws rows that are legal by the specs, as the tool itself writes them."""
    encoder = TableEncoder(SCHEMA, list(SPECS))
    encoded = make_encoded(rows, seed=seed, columns=SCHEMA.columns)
    return encoder, encoder.decode(encoded, np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(5))
def test_table_encodes_the_same_when_it_went_through_parquet_and_not_csv(tmp_path, seed):
    encoder, frame = draw_table(rows=40, seed=seed)
    for name in ("out.csv", "out.parquet"):
        written = write_table(tmp_path / name, [frame[:7], frame[7:]], header=frame.columns, schema=SCHEMA)
        assert written.records == 40
    assert pl.read_parquet(tmp_path / "out.parquet").dtypes == TYPES
    table = open_table(tmp_path / "out.parquet", SCHEMA)
    assert (table.header, table.records) == (tuple(SPECS), 40)
    one, other = (
        encode_table(encoder, open_table(tmp_path / name, SCHEMA).frame()) for name in ("out.csv", "out.parquet")
    )
    assert (one.codes == other.codes).all()
    assert (one.numbers == other.numbers).all()


def test_pandas_reads_what_is_written_when_the_table_had_categories(tmp_path):
    _, frame = draw_table(rows=9, seed=0)
    given = {"town": pl.Categorical(), "flag": pl.Enum(["0", "1"])}
    write_table(tmp_path / "out.parquet", [frame], header=frame.columns, schema=SCHEMA, types=given)
    assert list(pd.read_parquet(tmp_path / "out.parquet")["flag"].fillna("")) == frame["flag"].cast(pl.String).to_list()


@pytest.mark.parametrize(
    ("values", "column", "cells"),
    [
        (pl.Series(["x", None, "", " 1 "]), "town", ["x", "", "", " 1 "]),
        (pl.Series(["01", None], dtype=pl.Categorical), "town", ["01", ""]),
        (pl.Series([1, None, 2]), "town", ["01", "", "2"]),
        (pl.Series([True, False, None]), "flag", ["1", "0", ""]),
        (pl.Series([3, None], dtype=pl.UInt8), "age", ["3", ""]),
        (pl.Series([2**63, 1], dtype=pl.UInt64), "age", [str(2**63), "1"]),
        (pl.Series([2, None, 1], dtype=pl.Int128), "town", ["2", "", "01"]),
        (pl.Series([3.0, None, float("nan"), 2.5]), "age", ["3", "", "", "2.5"]),
        (pl.Series([0.1], dtype=pl.Float32), "share", ["0.1"]),
        (pl.Series([Decimal("1.50"), None]), "share", ["1.50", ""]),
        (pl.Series([None, None]), "age", ["", ""]),
        (pl.Series([datetime.date(2020, 1, 2), None]), "town", ["2020-01-02", ""]),
    ],
)
def test_typed_column_is_spelt_by_its_values_when_read(tmp_path, values, column, cells):
    schema = Schema(columns=(SCHEMA.by_name[column],), sha256="0")
    path = write(tmp_path / "data.parquet", pl.DataFrame({column: values}))
    assert open_table(path, schema).frame()[column].to_list() == cells


def test_file_is_refused_when_a_column_has_a_type_without_cells(tmp_path):
    town = Schema(columns=(SCHEMA.by_name["town"],), sha256="0")
    for values, words in (
        ([[1], [2], None], "2 rows with a cell that is of type list: make numbers or text"),
        ([datetime.datetime(2020, 1, 2, 3), None, None], "1 row with a cell that is a time"),
        ([{"a": 1}, None, None], "1 row with a cell that is of type struct"),
        ([datetime.timedelta(1), None], "1 row with a cell that is of type duration"),
        ([b"a", b"a", None], "2 rows with a cell that is of type binary"),
        ([2.0**60, 1.0, None], "1 row with a cell that is a float too large"),
    ):
        path = write(tmp_path / "data.parquet", pl.DataFrame({"town": pl.Series(values)}))
        with pytest.raises(DataError) as caught:
            open_table(path, town).frame()
        assert words in str(caught.value)


@pytest.mark.parametrize("coded", [False, True])
def test_times_of_day_in_seconds_are_refused_as_polars_misreads_them_and_those_in_milliseconds_are_read(
    tmp_path, coded
):
    time = parse_specs({"at": {"type": "time", "optional": True}}, sha256="0")
    for unit in ("s", "ms"):
        cells = pa.array([datetime.time(0, 0, 7), datetime.time(22), None], pa.time32(unit))
        pa.parquet.write_table(
            pa.table({"at": cells.dictionary_encode() if coded else cells}), tmp_path / f"{unit}.parquet"
        )
    assert open_table(tmp_path / "ms.parquet", time).frame()["at"].to_list() == ["00:00:07", "22:00:00", ""]
    with pytest.raises(DataError, match="Column 'at': times in whole seconds, which polars misreads"):
        open_table(tmp_path / "s.parquet", time)
    junk = pa.table({"at": cells}).replace_schema_metadata({"ARROW:schema": "AAAA"})
    pa.parquet.write_table(junk, tmp_path / "junk.parquet", store_schema=False)
    assert open_table(tmp_path / "junk.parquet", time).frame()["at"].to_list() == ["00:00:07", "22:00:00", ""]


def test_file_is_refused_when_its_header_or_rows_do_not_fit(tmp_path):
    _, frame = draw_table(rows=3, seed=0)
    with pytest.raises(DataError, match="the header does not have 'town'"):
        open_table(write(tmp_path / "data.parquet", frame.drop("town")), SCHEMA)
    with pytest.raises(DataError, match="the specs do not have 'more'"):
        open_table(write(tmp_path / "data.parquet", frame.with_columns(more=pl.lit("S3CRET"))), SCHEMA)
    with pytest.raises(DataError, match="no rows"):
        open_table(write(tmp_path / "data.parquet", frame[:0]), SCHEMA)


def test_file_is_refused_without_a_cell_when_it_is_no_parquet_or_damaged(tmp_path):
    _, frame = draw_table(rows=300, seed=0)
    packed = io.BytesIO()
    frame.with_columns(town=pl.lit("S3CRET")).write_parquet(packed)
    whole = packed.getvalue()
    for data in (b"", b"town\nS3CRET\n", whole[:-20], whole[:9] + bytes(200) + whole[209:], whole[: len(whole) // 2]):
        (tmp_path / "bad.parquet").write_bytes(data)
        with pytest.raises(DataError) as caught:
            open_table(tmp_path / "bad.parquet", SCHEMA).frame()
        assert "not a Parquet file that can be read" in str(caught.value)
        assert "S3CRET" not in str(caught.value)


IMAGE = pl.DataFrame({"p0": ["1"], "y": ["2"]})


def break_off() -> Iterator[pl.DataFrame]:
    yield IMAGE
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["out.parquet", "out.npz"])
def test_file_is_left_as_it_was_when_the_rows_break_off(tmp_path, name):
    schema = make_schema(1, 1)
    (tmp_path / name).write_bytes(b"before")
    with pytest.raises(KeyboardInterrupt):
        write_table(tmp_path / name, break_off(), header=IMAGE.columns, schema=schema)
    assert (tmp_path / name).read_bytes() == b"before"
    written = write_table(tmp_path / name, [IMAGE], header=IMAGE.columns, schema=schema)
    assert written == WrittenTable(records=1, sha256=hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_late_bytes_go_nowhere_when_the_rows_broke_off(monkeypatch, tmp_path):
    streams: list[Any] = []

    class Kept(writer.ParquetWriter):
        def __init__(self, stream: Any, *more: Any) -> None:
            streams.append(stream)
            super().__init__(stream, *more)

    monkeypatch.setattr(writer, "ParquetWriter", Kept)

    with pytest.raises(KeyboardInterrupt):
        write_table(tmp_path / "out.parquet", break_off(), header=IMAGE.columns, schema=make_schema(1, 1))
    # The number of the file that was closed is taken by the next one.
    with (tmp_path / "other").open("wb") as other:
        with pytest.raises(ValueError, match="closed"):
            streams[0].write(b"late")
        other.flush()
        assert (tmp_path / "other").read_bytes() == b""
