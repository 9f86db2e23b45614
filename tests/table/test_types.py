"""A table of awkward columns from pandas, CSV and Parquet: the same types and the same spellings come out."""

import datetime
import io
import zoneinfo
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpwgan
from dpwgan.errors import DataError
from dpwgan.evaluate.tables import read_compared
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.files.reader import open_table
from dpwgan.table.files.writer import write_table
from dpwgan.table.frames import from_pandas, from_polars, to_pandas
from dpwgan.table.specs import parse_specs
from dpwgan.table.types import choose_type, holds_all
from tests.rows import round_trip

SPECS: dict[str, Any] = {
    "key": {"type": "integer", "uuid": True, "min": 1},
    "born": {"type": "date", "format": "%d.%m.%Y", "min": "1920-01-01", "max": "2010-12-31", "optional": True},
    "seen": {"type": "datetime", "format": "%Y-%m-%dT%H:%M:%SZ", "min": "2021-01-01", "max": "2021-12-31"},
    "slot": {"type": "time", "format": "%H:%M", "min": "08:00", "max": "18:00", "step": "15 minutes"},
    "month": {"type": "date", "format": "%Y-%m", "min": "2018-01", "max": "2023-12"},
    "paid": {"type": "float", "min": -500, "max": 100000, "decimals": 2, "optional": True},
    "zip": {"type": "enum", "values": ["01067", "80331", "NA"], "optional": True},
    "ward": {"type": "integer", "min": 0, "max": 999, "width": 3},
    "alive": {"type": "boolean", "optional": True},
    "smoker": {"type": "boolean", "true": ["Y", "yes"], "false": ["N", "no"]},
    "urgent": {"type": "boolean", "true": 1, "false": 0, "missing": ["NA"]},
    "note": {"type": "text", "write": "-"},
    "name": {"type": "drop"},
    "land": {"type": "constant", "value": "DE"},
}
SCHEMA = parse_specs(SPECS, sha256="0")
ROWS = {
    "key": ["17", "3", "8"],
    "born": ["01.02.1965", "", "31.12.2010"],
    "seen": ["2021-01-01T00:00:00Z", "2021-06-30T23:59:59Z", "2021-12-31T12:00:00Z"],
    "slot": ["08:00", "12:15", "18:00"],
    "month": ["2018-01", "2020-02", "2023-12"],
    "paid": ["-500.00", "", "99999.99"],
    "zip": ["01067", "NA", ""],
    "ward": ["000", "007", "999"],
    "alive": ["true", "", "false"],
    "smoker": ["Y", "N", "Y"],
    "urgent": ["1", "0", "NA"],
    "note": ['free, "text"', "", "Zq7secret"],
    "name": ["Ann", "Zq7secret", ""],
    "land": ["DE", "DE", "DE"],
}
TEXT = pd.DataFrame(ROWS)
OUT = TEXT.drop(columns="name").assign(key=["1", "2", "3"], note="-")


def make_typed() -> pd.DataFrame:
    """The same rows in the dtypes that pandas has for them."""
    truths = {"true": True, "Y": True, "1": True, "false": False, "N": False, "0": False}
    return TEXT.assign(
        key=TEXT["key"].astype("Int64"),
        born=pd.to_datetime(TEXT["born"], format="%d.%m.%Y"),
        seen=pd.to_datetime(TEXT["seen"]).dt.as_unit("ms"),
        slot=pd.to_timedelta(TEXT["slot"] + ":00"),
        month=pd.to_datetime(TEXT["month"]).astype("datetime64[s]"),
        paid=pd.to_numeric(TEXT["paid"]).astype("Float64"),
        zip=pd.Categorical(TEXT["zip"], categories=["80331", "NA", "01067", "never"]),
        ward=TEXT["ward"].astype("Int16"),
        alive=TEXT["alive"].map(truths).astype("boolean"),
        smoker=TEXT["smoker"].map(truths).astype(bool),
        urgent=TEXT["urgent"].astype("string"),
        note=TEXT["note"].astype("string[pyarrow]"),
    )


def release_without_noise(frame: pl.DataFrame) -> pl.DataFrame:
    """Encodes cells and decodes them again."""
    encoder = TableEncoder(SCHEMA, list(SPECS))
    decoded = round_trip(encoder, frame)
    encoder.validate(decoded)
    return decoded


def test_frame_of_text_comes_back_as_it_was_when_nothing_is_added():
    again = to_pandas(release_without_noise(from_pandas(TEXT, SCHEMA)), SCHEMA, dict(TEXT.dtypes))
    wanted = OUT.assign(
        key=[1, 2, 3],
        zip=OUT["zip"].replace({"": None}),
        born=OUT["born"].replace({"": None}),
        paid=pd.to_numeric(OUT["paid"]),
        alive=pd.array([True, None, False], dtype="boolean"),
    )
    pd.testing.assert_frame_equal(again, wanted)


def test_frame_of_types_comes_back_with_its_types_when_nothing_is_added():
    typed = make_typed()
    again = to_pandas(release_without_noise(from_pandas(typed, SCHEMA)), SCHEMA, dict(typed.dtypes))
    wanted = typed.drop(columns="name").assign(
        key=pd.array([1, 2, 3], "Int64"), note=OUT["note"].astype("string[pyarrow]")
    )
    # The categories are those of the specs, and not those that the frame happened to have.
    wanted["zip"] = pd.Categorical(wanted["zip"], categories=["01067", "80331", "NA"])
    pd.testing.assert_frame_equal(again, wanted)


def test_objects_are_read_by_their_values_when_a_column_mixes_them():
    zoned = datetime.timezone(datetime.timedelta(hours=2))
    mixed = TEXT.assign(
        born=[datetime.date(1965, 2, 1), None, "31.12.2010"],
        seen=[datetime.datetime(2021, 1, 1), datetime.datetime(2021, 6, 30, 23, 59, 59, tzinfo=zoned), ROWS["seen"][2]],
        slot=[datetime.time(8), pd.Timedelta(hours=12, minutes=15), "18:00"],
        alive=[True, None, 0],
    )
    assert release_without_noise(from_pandas(mixed, SCHEMA)).cast(pl.String).to_dict(as_series=False) == {
        name: cells.to_list() for name, cells in OUT.items()
    }


def in_hours(hours: float) -> datetime.datetime:
    return datetime.datetime(2021, 6, 30, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=hours)))


LONG_AGO = datetime.datetime(1500, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))


@pytest.mark.parametrize(("zone", "cells"), [(None, ["12", "12", "00"]), ("Europe/Berlin", ["10", "09", "00"])])
@pytest.mark.parametrize("first", [in_hours(-1.5), in_hours(5), LONG_AGO, datetime.datetime(2021, 1, 1), None])
def test_objects_are_told_by_clocks_of_their_own_when_another_row_has_another_zone(first, zone, cells):
    keys = {"type": "datetime", "min": "2021-01-01", "max": "2021-12-31", "optional": True, "zone": zone}
    schema = parse_specs({"seen": {key: value for key, value in keys.items() if value}}, sha256="0")
    values = [first, in_hours(4), pd.Timestamp(in_hours(5)), datetime.datetime(2021, 6, 30)]
    written = from_pandas(pd.DataFrame({"seen": pd.Series(values, dtype=object)}), schema)["seen"].to_list()
    assert written[1:] == [f"2021-06-30T{hour}:00:00" for hour in cells]


FINER = pd.Timestamp("2021-06-30T12:00:00.000000001")


@pytest.mark.parametrize("other", [pd.Timestamp(1, 1, 1), datetime.datetime(1500, 1, 1), pd.Timestamp("2021-06-30")])
def test_object_is_refused_for_its_nanoseconds_when_another_row_is_beyond_those_of_pandas(other):
    schema = parse_specs({"seen": {"type": "datetime", "min": "2021-01-01", "max": "2021-12-31"}}, sha256="0")
    with pytest.raises(DataError, match="'seen': 1 row with a cell that is no moment"):
        from_pandas(pd.DataFrame({"seen": pd.Series([other, FINER], dtype=object)}), schema)


@pytest.mark.parametrize(
    "value",
    [
        datetime.datetime(9999, 12, 31, 23, tzinfo=datetime.timezone.utc),
        pd.Timestamp(np.datetime64("20000-01-01", "s")),
        datetime.timedelta.max,
        datetime.timedelta(days=200_000),
    ],
)
def test_object_is_counted_and_not_shown_when_it_lies_beyond_all_calendars(value):
    keys = {"type": "datetime", "min": "2021-01-01", "max": "2021-12-31", "zone": "Asia/Tokyo"}
    frame = pd.DataFrame({"seen": pd.Series([datetime.datetime(2021, 6, 30), value], dtype=object)})
    with pytest.raises(
        DataError, match="'seen': 1 row with a cell that is no moment that the column's format can write"
    ):
        from_pandas(frame, parse_specs({"seen": keys}, sha256="0"))


@pytest.mark.parametrize("kind", [pl.Date(), pl.Datetime("ms"), pl.Datetime("us", "Asia/Tokyo"), pl.Duration("ms")])
@pytest.mark.parametrize("column", ["born", "key"])
def test_moment_is_counted_and_not_shown_when_polars_has_it_beyond_all_calendars(column, kind):
    bits = 32 if kind == pl.Date() else 64
    last = pl.Series([2 ** (bits - 1) - 1], dtype=pl.Int32 if bits == 32 else pl.Int64)
    schema = parse_specs({column: SPECS[column], "ward": SPECS["ward"]}, sha256="0")
    with pytest.raises(DataError, match=f"'{column}': 1 row with a cell that is no moment that the column's format"):
        from_polars(pl.DataFrame({column: last.cast(kind), "ward": ["001"]}), schema)


@pytest.mark.parametrize("other", [0.00001, -0.0, float("nan"), 1.5, None])
@pytest.mark.parametrize(("kind", "value", "cell"), [(pl.Float32, 2e9 / 3, "666666688"), (pl.Float16, 0.1, "0.1")])
def test_float_is_written_with_the_same_digits_whatever_another_row_holds(kind, value, cell, other, tmp_path):
    """In a column of numbers, and in that of a unit, whose cells are compared to the letter."""
    sold = {"type": "float", "min": 0, "max": 1e10, "decimals": 2, "optional": True}
    schema = parse_specs({"sold": sold, "unit": {"column": "who", "max_rows": 2}}, sha256="0")
    frame = pl.DataFrame({"sold": pl.Series([other, value], dtype=pl.Float64).cast(kind)})
    frame = frame.with_columns(pl.col("sold").alias("who"))
    frame.write_parquet(tmp_path / "in.parquet")
    for cells in (from_polars(frame, schema), open_table(tmp_path / "in.parquet", schema).frame()):
        assert cells.row(1) == (cell, cell)


@pytest.mark.parametrize("kind", [pl.Time(), pl.Datetime("ns")])
def test_row_names_are_read_when_two_of_them_are_nanoseconds_apart(kind):
    frame = pl.DataFrame({"key": pl.Series([0, 1, 2000], dtype=pl.Int64).cast(kind)}).with_columns(ward=pl.lit("001"))
    cells = from_polars(frame, parse_specs({name: SPECS[name] for name in frame.columns}, sha256="0"))["key"]
    assert (cells[0] == cells[1], cells[2][-6:]) == (True, "000002")


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("born", [datetime.datetime(1965, 2, 1, 12), datetime.date(1965, 2, 1)]),
        ("slot", [datetime.time(8, 0, 1), datetime.date(1965, 2, 1)]),
        ("seen", pd.to_datetime(["2021-01-01T00:00:00.5", "2021-01-01T00:00:00.000000001"])),
    ],
)
def test_frame_is_refused_when_a_moment_says_more_than_its_column_can(column, values):
    frame = TEXT[:2].assign(**{column: values})
    with pytest.raises(DataError, match=f"'{column}': [12] rows? with a cell that is no moment that .* can write"):
        from_pandas(frame, SCHEMA)


def test_dtype_is_that_of_the_specs_when_pandas_may_have_chosen_it_by_looking_at_rows():
    """One empty cell more or less must not show in the dtype."""
    texts = pl.DataFrame(OUT[:1])
    full = TEXT[:1].assign(paid=-500, ward=0, alive=True, urgent=True, zip=pd.Categorical([1067.0]))
    empty = full.assign(paid=[float("nan")], alive=[None], urgent=["NA"], zip=pd.Categorical([1067]))
    one, other = (to_pandas(texts, SCHEMA, dict(frame.dtypes)) for frame in (full, empty))
    pd.testing.assert_frame_equal(one, other)
    assert (one["paid"].dtype, one["alive"].dtype, one["ward"].dtype) == ("float64", "boolean", "object")
    assert one["zip"].cat.categories.to_list() == ["01067", "80331", "NA"]


@pytest.mark.parametrize("kind", ["date", "datetime"])
@pytest.mark.parametrize(("most", "told"), [("2262", ("object", "datetime64[ns]")), ("9999", ("datetime64[us]",) * 2)])
def test_dtype_is_that_of_the_specs_when_one_moment_may_have_made_objects_of_all(kind, most, told):
    """Whoever is in a table without an end must not show in the dtype of all others' ends."""
    ends = {"min": "1999-12-31", "max": f"{most}-01-01"}
    schema = parse_specs({"end": {"type": kind, **ends}}, sha256="0")
    texts = pl.DataFrame({"end": ["2021-06-30" + "T08:00:00" * (kind == "datetime")]})
    frames = [to_pandas(texts, schema, {"end": np.dtype(given)}) for given in ("object", "datetime64[ns]")]
    assert tuple(str(frame["end"].dtype) for frame in frames) == told


@pytest.mark.parametrize(
    ("least", "most", "decimals", "kept"),
    [
        (0, 1 << 24, 0, True),
        (0, 1 << 25, 0, False),
        (-(1 << 25), 0, 0, False),
        (0, 1000, 2, True),
        (0, 1 << 20, 2, False),
    ],
)
def test_single_precision_is_kept_when_it_holds_every_number_and_not_only_the_ends(least, most, decimals, kept):
    keys = {"type": "float", "min": least, "max": most, "decimals": decimals}
    column = parse_specs({"paid": keys}, sha256="0").by_name["paid"]
    assert holds_all(column, pl.Float32()) is kept


def test_frame_has_the_types_of_the_specs_when_nothing_is_known_of_another():
    kinds = {name: str(dtype) for name, dtype in to_pandas(pl.DataFrame(OUT), SCHEMA).dtypes.items()}
    assert kinds == dict.fromkeys(OUT, "object") | {
        **dict.fromkeys(("born", "seen", "month"), "datetime64[us]"),
        "key": "int64",
        "paid": "float64",
        "alive": "boolean",
    }


def test_csv_comes_back_as_it_was_when_nothing_is_added(tmp_path):
    TEXT.to_csv(tmp_path / "in.csv", index=False)
    table = open_table(tmp_path / "in.csv", SCHEMA)
    cells = table.frame()
    assert not {"note", "name"} & set(cells.columns)
    header = [name for name in table.header if name != "name"]
    write_table(tmp_path / "out.csv", [release_without_noise(cells)], header=header, schema=SCHEMA)
    OUT.to_csv(tmp_path / "wanted.csv", index=False)
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "wanted.csv").read_bytes()


def write_parquet(path: Path) -> pa.Table:
    table = pa.table(
        {
            "key": [17, 3, 8],
            "born": pa.array([datetime.date(1965, 2, 1), None, datetime.date(2010, 12, 31)]),
            "seen": pa.array(make_typed()["seen"], pa.timestamp("us", "UTC")),
            "slot": pa.array([datetime.time(8), datetime.time(12, 15), datetime.time(18)], pa.time64("ns")),
            "month": pa.array(make_typed()["month"], pa.timestamp("ms")),
            "paid": pa.array([Decimal("-500"), None, Decimal("99999.99")], pa.decimal128(38, 2)),
            "zip": pa.array(ROWS["zip"]).dictionary_encode(),
            "ward": pa.array([0, 7, 999], pa.int16()),
            "alive": pa.array([True, None, False]),
            "smoker": pa.array([True, False, True]),
            "urgent": pa.array(ROWS["urgent"], pa.large_string()),
            "note": ROWS["note"],
            "name": ROWS["name"],
            "land": ROWS["land"],
        }
    )
    pq.write_table(table, path)
    return table


def test_parquet_comes_back_with_its_types_when_nothing_is_added(tmp_path):
    given = write_parquet(tmp_path / "in.parquet")
    table = open_table(tmp_path / "in.parquet", SCHEMA)
    header = [name for name in table.header if name != "name"]
    made = release_without_noise(table.frame())
    assert made.cast(pl.String).to_dict(as_series=False) == {name: cells.to_list() for name, cells in OUT.items()}
    write_table(tmp_path / "out.parquet", [made], header=header, schema=SCHEMA, types=table.types)
    again = pq.read_table(tmp_path / "out.parquet")
    assert again.column_names == header
    for name in header:
        if name == "key":
            assert again[name].equals(pa.chunked_array([[1, 2, 3]]))
        elif name in ("zip", "urgent", "note", "land"):
            assert again[name].to_pylist() == OUT[name].replace({"": None}).to_list()
            assert not pa.types.is_dictionary(again[name].type)  # pandas could not read polars' own
        else:
            assert again[name].equals(given[name]), name


def test_parquet_has_the_types_of_the_specs_when_the_table_was_csv(tmp_path):
    write_table(tmp_path / "out.parquet", [pl.DataFrame(OUT)], header=list(OUT), schema=SCHEMA)
    types = dict(pl.read_parquet_schema(tmp_path / "out.parquet"))
    moments = {"born": pl.Date, "seen": pl.Datetime("us"), "slot": pl.Time, "month": pl.Date}
    assert types == dict.fromkeys(OUT, pl.String) | moments | {"paid": pl.Float64, "alive": pl.Boolean, "key": pl.Int64}


def test_clocks_show_the_zone_of_the_specs_when_the_type_has_another():
    keys = {"type": "datetime", "min": "2021-01-01", "max": "2021-12-31", "zone": "Europe/Berlin"}
    schema = parse_specs({"seen": keys}, sha256="0")
    given = pd.DataFrame({"seen": pd.to_datetime(["2021-03-28T01:00:00Z", "2021-10-31T00:30:00Z"])})
    cells = from_pandas(given, schema)
    assert cells["seen"].to_list() == ["2021-03-28T03:00:00", "2021-10-31T02:30:00"]
    pd.testing.assert_frame_equal(to_pandas(cells, schema, dict(given.dtypes)), given)
    # An hour that the clocks leave out.
    (moment,) = to_pandas(pl.DataFrame({"seen": ["2021-03-28T02:30:00"]}), schema)["seen"]
    assert moment.isoformat() == "2021-03-28T03:30:00+02:00"


@pytest.mark.slow
def test_release_has_types_and_legal_cells_when_it_is_made_from_end_to_end(tmp_path):
    typed = pd.concat([make_typed()] * 40, ignore_index=True)
    made, _ = dpwgan.synthesize(typed, SPECS, 1.0, method="independent", seed=1, threads=1)
    assert dict(made.dtypes.drop("zip")) == dict(typed.dtypes.drop(["name", "zip"]))
    assert made["zip"].cat.categories.to_list() == ["01067", "80331", "NA"]
    write_table(
        tmp_path / "made.csv", [from_pandas(made, SCHEMA)], header=[c for c in made if c != "note"], schema=SCHEMA
    )
    trained = parse_specs({name: keys for name, keys in SPECS.items() if name != "note"}, sha256="0")
    compared = read_compared(tmp_path / "made.csv", trained, illegal="leave out")
    assert (compared.rows, compared.illegal) == (120, 0)


@pytest.mark.parametrize(
    ("keys", "cell"),
    [
        ({"type": "date", "min": "2020-01-01", "max": "2021-12-31"}, "2020-05-05"),
        ({"type": "date", "format": "%Y%m%d", "min": "2020-01-01", "max": "2021-12-31"}, "20200505"),
        ({"type": "datetime", "min": "1500-01-01", "max": "2021-12-31"}, "2020-05-05T00:00:00"),
        ({"type": "time"}, "10:00:00"),
    ],
)
def test_one_moment_does_not_tell_by_the_type_that_its_column_is_not_empty(keys: dict[str, str], cell: str) -> None:
    schema = parse_specs({"at": {**keys, "optional": True}}, sha256="0" * 64)
    read = [pd.read_csv(io.StringIO("at,c\n" + 3 * ",1\n" + last)) for last in (",1\n", f"{cell},1\n")]
    left = [to_pandas(pl.DataFrame({"at": [cell, ""]}), schema, dict(frame.dtypes))["at"] for frame in read]
    pd.testing.assert_series_equal(*left)
    stored = [pl.from_arrow(pa.Table.from_pandas(frame)).schema["at"] for frame in read]
    assert len({choose_type(schema.by_name["at"], schema, kind) for kind in stored}) == 1


@pytest.mark.parametrize(
    ("keys", "read_as"),
    [
        ({"out_of_domain": "clamp"}, {7: "int64", 2**64 - 1: "uint64"}),
        (
            {"out_of_domain": "missing", "optional": True},
            {7: "int64", 2**64 - 1: "uint64", "x": "object", "": "float64"},
        ),
    ],
)
def test_one_odd_cell_among_numbers_does_not_tell_by_the_type_that_it_is_there(
    keys: dict[str, str], read_as: dict[int | str, str]
) -> None:
    schema = parse_specs({"n": {"type": "integer", "min": 0, "max": 99, **keys}}, sha256="0" * 64)
    read = [pd.read_csv(io.StringIO(f"n,c\n5,1\n{cell},1\n")) for cell in read_as]
    assert [str(frame["n"].dtype) for frame in read] == [*read_as.values()]
    left = [to_pandas(pl.DataFrame({"n": ["7"]}), schema, dict(frame.dtypes))["n"].dtype for frame in read]
    stored = [pl.from_arrow(pa.Table.from_pandas(frame)).schema["n"] for frame in read]
    kinds = [choose_type(schema.by_name["n"], schema, kind) for kind in stored]
    assert (len({*left}), {*kinds}) == (1, {pl.Int64()})


def test_one_text_does_not_tell_by_the_type_that_its_column_is_not_empty() -> None:
    schema = parse_specs({"note": {"type": "text"}, "c": {"type": "boolean"}}, sha256="0" * 64)
    assert choose_type(schema.by_name["note"], schema, pl.Null()) == choose_type(schema.by_name["note"], schema)
