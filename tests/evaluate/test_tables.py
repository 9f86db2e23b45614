"""Reading tables for comparison: the public binning, its labels, and what is refused or left out."""

import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpwgan.errors import DataError
from dpwgan.evaluate import tables
from dpwgan.evaluate.tables import ComparedTable, discover_schema, read_compared, read_tables
from dpwgan.table.specs import parse_specs
from tests.evaluate.samples import SPECS, draw_rows, read_rows, write_rows

SCHEMA = parse_specs(SPECS, sha256="")


def read_one(folder: Path, spec: dict[str, Any], cells: list[str], **more: Any) -> ComparedTable:
    specs = {"x": spec, "other": {"type": "enum", "count": 1}}
    return read_rows(folder / "one.csv", [[cell, "0"] for cell in cells], specs, **more)


def test_table_holds_cells_numbers_and_kinds_when_it_is_read(tmp_path):
    rows = draw_rows(1, rows=40)
    table = read_rows(tmp_path / "a.csv", rows)
    assert table.names == ("SEX", "CITY", "INCWAGE", "job", "age", "weight", "flat")
    kinds = " ".join(column.kind for column in table.columns)
    assert kinds == "categorical categorical number_or_missing categorical number number_or_missing categorical"
    assert table.sizes == (2, 5, 101, 4, 17, 101, 1)
    assert table.rows == 40
    assert table.illegal == 0
    for row, cells, numbers in zip(rows, table.cells, table.numbers, strict=True):
        assert table.columns[3].labels[cells[3]] == row[3]
        assert numbers[3] == cells[3]
        assert numbers[4] == float(row[4]) == cells[4]
        assert (math.isnan(numbers[5]) and cells[5] == 100) if row[5] == "" else numbers[5] == float(row[5])
        assert math.isnan(numbers[2]) == (row[2] == "999998") == (cells[2] == 100)
    assert table.columns[3].missing == (3,)
    assert table.columns[2].missing == (100,)
    assert (table.columns[2].minimum, table.columns[2].maximum) == (0.0, 4000.0)
    assert math.isnan(table.columns[0].minimum)


def test_table_is_the_same_when_the_columns_come_in_another_order_and_packed(tmp_path):
    rows = draw_rows(2, rows=30)
    table = read_rows(tmp_path / "a.csv", rows)
    order = [3, 0, 7, 5, 1, 2, 6, 4]
    header = [list(SPECS)[place] for place in order]
    turned = write_rows(tmp_path / "b.csv", [[row[place] for place in order] for row in rows], header=header)
    packed = tmp_path / "b.csv.gz"
    packed.write_bytes(gzip.compress(turned.read_bytes()))
    other = read_compared(packed, SCHEMA)
    np.testing.assert_array_equal(table.cells, other.cells)
    np.testing.assert_array_equal(table.numbers, other.numbers)


@pytest.mark.parametrize("form", ["integer", "float"])
def test_number_is_cut_as_the_challenge_cuts_it_when_it_has_many_values(tmp_path, form):
    values = [0, 1, 2, 39, 40, 41, 3999, 4000, 1999, 2000]
    spec = {"type": form, "min": 0, "max": 4000, "decimals": 0}
    table = read_one(tmp_path, spec, [str(value) for value in values])
    assert table.cells[:, 0].tolist() == [int(value / (1.0001 * 4000 / 100)) for value in values]
    assert table.columns[0].cells == 100


@pytest.mark.parametrize(("minimum", "maximum", "buckets"), [(0, 250, 100), (-7, 12, 3), (5, 5, 100), (0, 1000, 7)])
def test_labels_name_the_whole_numbers_of_their_bucket_when_a_number_is_whole(
    tmp_path, monkeypatch, minimum, maximum, buckets
):
    monkeypatch.setattr(tables, "BUCKETS", buckets)
    values = range(minimum, maximum + 1)
    spec = {"type": "integer", "min": minimum, "max": maximum}
    table = read_one(tmp_path, spec, [str(value) for value in values])
    for value, cell in zip(values, table.cells[:, 0], strict=True):
        first, _, last = table.columns[0].labels[cell].partition(" to ")
        assert int(first) <= value <= int(last or first)


def test_labels_meet_at_the_borders_when_a_number_is_not_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BUCKETS", 4)
    table = read_one(tmp_path, {"type": "float", "min": 0, "max": 1}, ["0.5"])
    assert table.columns[0].labels == ("0 to 0.250025", "0.250025 to 0.50005", "0.50005 to 0.750075", "0.750075 to 1")


def test_real_table_is_refused_without_its_cell_when_a_cell_is_illegal(tmp_path):
    rows = draw_rows(1, rows=20)
    rows[3][3] = "SECRET"
    with pytest.raises(DataError, match="column 'job': 1 row with a cell that is not one of its legal cells") as caught:
        read_rows(tmp_path / "a.csv", rows)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "cell", "rule"),
    [
        (4, "17", "is not between 0 and 16"),
        (4, "2.5", "is not a whole number"),
        (4, "many", "is not a number"),
        (4, "", 'is empty, which only "optional": true allows'),
        (3, "d", "is not one of its legal cells"),
        (7, "999", "does not follow from 'age' by its rule"),
    ],
)
def test_synthetic_rows_are_counted_and_left_out_when_a_cell_is_illegal(tmp_path, column, cell, rule):
    rows = draw_rows(1, rows=20)
    legal = read_rows(tmp_path / "a.csv", rows)
    for place in (2, 5):
        rows[place][column] = cell
        if column == 4:
            rows[place][7] = "0"
    table = read_rows(tmp_path / "b.csv", rows, illegal="leave out")
    name = list(SPECS)[column]
    assert (name, rule, 2) in table.broken
    kept = column == 7  # a derived cell is counted, and its row stays
    assert table.illegal == (0 if kept else 2)
    others = [place for place in range(20) if kept or place not in (2, 5)]
    np.testing.assert_array_equal(table.cells, legal.cells[others])


def test_table_is_refused_when_no_row_is_legal(tmp_path):
    rows = draw_rows(1, rows=3)
    for row in rows:
        row[3] = "d"
    with pytest.raises(DataError, match="has no row whose cells are all legal"):
        read_rows(tmp_path / "a.csv", rows, illegal="leave out")


def test_real_cells_follow_the_specs_own_rule_when_they_are_outside_the_domain(tmp_path):
    clamp = {"type": "integer", "min": 0, "max": 10, "out_of_domain": "clamp"}
    assert read_one(tmp_path, clamp, ["12", "-1", "3"]).numbers[:, 0].tolist() == [10.0, 0.0, 3.0]
    blank = {"type": "integer", "min": 0, "max": 10, "missing": ["N"], "out_of_domain": "missing"}
    table = read_one(tmp_path, blank, ["12", "x", "3"])
    assert np.isnan(table.numbers[:2, 0]).all()
    assert table.cells[:, 0].tolist() == [11, 11, 3]
    # The rule is for private rows; a release that needs it is wrong.
    assert read_one(tmp_path, clamp, ["12", "3"], illegal="leave out").illegal == 1
    assert read_one(tmp_path, blank, ["12", "3"], illegal="leave out").illegal == 1


def test_domain_is_taken_from_the_real_table_when_the_specs_leave_it_to_the_data(tmp_path):
    specs = {
        "town": {"type": "enum", "values_from": "data", "domain_privacy": "private", "missing": ["?"]},
        "sex": {"type": "enum", "count": 2},
    }
    schema = parse_specs(specs, sha256="")
    real = write_rows(tmp_path / "a.csv", [["b", "0"], ["a", "1"], ["?", "1"]], header=list(specs))
    found = discover_schema(schema, real)
    assert read_compared(real, found).columns[0].labels == ("a", "b", "?")
    other = write_rows(tmp_path / "b.csv", [["c", "0"], ["a", "1"]], header=list(specs))
    assert read_compared(other, found, illegal="leave out").illegal == 1
    assert discover_schema(SCHEMA, real) is SCHEMA
    # Rows that were held out have rare cells of their own.
    tables = read_tables(str(real), str(real), str(other), specs=schema)
    assert tables.holdout is not None
    assert tables.real.columns[0].labels == tables.holdout.columns[0].labels == ("a", "b", "c", "?")


def test_table_shows_no_row_when_it_is_printed(tmp_path):
    table = read_rows(tmp_path / "a.csv", draw_rows(1, rows=20))
    assert "array" not in repr(table)


def test_moments_are_cut_by_day_and_by_time_of_day_when_methods_see_them_so(tmp_path):
    specs = {
        "born": {"type": "date", "format": "%d.%m.%Y", "min": "1920-01-01", "max": "2010-12-31", "optional": True},
        "seen": {"type": "datetime", "min": "2021-01-01T00:05:00", "max": "2021-12-31", "step": "15 minutes"},
        "alive": {"type": "boolean"},
        "name": {"type": "drop"},
    }
    rows = ["01.01.1920,2021-01-01T00:05:00,true", ",2021-12-31T23:50:00,FALSE", "31.12.2010,2021-06-30T12:05:00,0"]
    (tmp_path / "made.csv").write_text("\n".join(["born,seen,alive", *rows, "1.1.1920,2021-06-30T12:06:00,1"]) + "\n")
    table = read_compared(tmp_path / "made.csv", parse_specs(specs, sha256="0"), illegal="leave out")
    assert {column.name: column.labels[1] for column in table.columns} == {
        "born": "29.11.1920 to 26.10.1921",
        "seen (day)": "2021-01-05 to 2021-01-08",
        "seen (time of day)": "00:20:00",
        "alive": "false",
    }
    assert table.cells.tolist() == [[0, 0, 0, 0], [100, 99, 95, 1], [99, 49, 48, 1]]
    np.testing.assert_equal(table.numbers[:, 0], [0.0, math.nan, 33237.0])
    assert (table.illegal, [rows for _, _, rows in table.broken]) == (1, [1, 1])


def test_truths_are_written_alike_when_two_tables_spell_them_differently(tmp_path):
    spec = {"type": "boolean", "missing": ["?"]}
    tables = [read_one(tmp_path, spec, cells) for cells in (["1", "0", "?", "1"], ["true", "FALSE", "?", "True"])]
    assert [table.written["x"].to_list() for table in tables] == [["true", "false", "?", "true"]] * 2


def test_months_are_written_alike_when_one_table_has_them_in_capitals(tmp_path):
    spec = {"type": "date", "format": "%d%b%Y", "min": "2022-01-01", "max": "2022-12-31"}
    real, synthetic = [
        read_one(tmp_path, spec, cells) for cells in (["17OCT2022", "01may2022"], ["17Oct2022", "01May2022"])
    ]
    assert real.written.equals(synthetic.written)
