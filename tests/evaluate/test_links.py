"""Linked columns: by hand, in the order of units, of a twin that is shuffled, and where pairs are too few."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpwgan.evaluate.links import LISTED, ORDERED, Link, describe_links, write_link
from dpwgan.evaluate.tables import ComparedTable, read_compared
from dpwgan.table.specs import parse_specs
from tests.evaluate.samples import Row, write_rows

SPECS: dict[str, Any] = {
    "unit": {"column": "id", "max_rows": 5, "unique": ["wave"], "linked": ["pay", "status"]},
    "id": {"type": "integer", "uuid": True},
    "wave": {"type": "integer", "min": 0, "max": 9},
    "pay": {"type": "integer", "min": 0, "max": 999, "optional": True},
    "status": {"type": "enum", "values": ["x", "y"], "optional": True},
}
ROWS = "b 2 30 ,a 3 40 y,a 1 10 x,c 2  ,b 1 50 y,a 2 20 x,c 1 10 "


def read(
    path: Path, rows: list[Row], unit: dict[str, Any] | None = None, specs: dict[str, Any] = SPECS, **more: Any
) -> ComparedTable:
    specs = specs if unit is None else {**specs, "unit": {"column": "id", "max_rows": 5} | unit}
    table = write_rows(path / "table.csv", rows, header=["id", "wave", "pay", "status"])
    return read_compared(table, parse_specs(specs, sha256=""), **more)


def draw_panel(*, units: int, rows: int) -> list[Row]:
    """Draws units whose pay and status hardly change from wave to wave."""
    rng = np.random.default_rng(1)
    table = []
    for unit in range(units):
        pay, status = int(rng.integers(100, 900)), rng.choice(["x", "y"])
        table += [[str(unit), str(wave), str(pay + int(rng.integers(0, 9))), status] for wave in range(rows)]
    return table


def test_each_row_is_held_against_the_one_before_it_by_hand(tmp_path):
    rows = [row.split(" ") for row in ROWS.split(",")]
    # In the order of waves: (10, 20), (20, 40), (50, 30) have ranks (1, 1), (2, 3), (3, 2), and of c one is missing.
    # Of x to x, x to y, y to missing and missing to missing two are equal.
    pay, status = read(tmp_path, rows).links
    assert pay == Link(column="pay", measure=ORDERED, pairs=3, value=pytest.approx(0.5))
    assert status == Link(column="status", measure=LISTED, pairs=4, value=0.5)
    # Without the row that is not legal 10 is before 40: ranks (1, 2), (2, 1).
    rows[5] = ["a", "2", "20", "z"]
    pay, status = read(tmp_path, rows, illegal="leave out").links
    assert (pay.pairs, pay.value) == (2, pytest.approx(-1.0))
    assert (status.pairs, status.value) == (3, pytest.approx(1 / 3))


@pytest.mark.parametrize(("more", "equal"), [({}, 0.0), ({"kind": "wave"}, 0.5)])
def test_order_is_that_of_kinds_and_else_of_the_file(tmp_path, more, equal):
    rows = [["a", "3", "1", "x"], ["a", "1", "1", "y"], ["a", "2", "1", "x"]]
    rows += [["b", *row[1:]] for row in rows]
    specs = {**SPECS, "wave": {"type": "enum", "values": ["1", "2", "3"]}}
    (status,) = read(tmp_path, rows, {"linked": ["status"], "max_rows": 3, **more}, specs=specs).links
    assert (status.pairs, status.value) == (4, equal)


def test_linked_moments_are_ranked_and_say_the_order_themselves(tmp_path):
    day = {"type": "date", "format": "%d.%m.%Y", "min": "01.01.2020", "max": "31.12.2020"}
    days = ["05.03.2020", "01.02.2020", "01.04.2020", "09.01.2020"]
    specs = {**SPECS, "wave": day}
    found = read(tmp_path, [["a", cell, "1", "x"] for cell in days], {"linked": ["wave"]}, specs=specs).links
    assert found == (Link(column="wave", measure=ORDERED, pairs=3, value=pytest.approx(1.0)),)


def test_shuffled_twin_hangs_together_by_chance_alone(tmp_path):
    rows = draw_panel(units=500, rows=5)
    pay, status = read(tmp_path, rows).links
    assert (pay.pairs, status.value) == (2000, 1.0)
    assert pay.value == pytest.approx(1.0, abs=0.01)
    rng = np.random.default_rng(2)
    columns = [*zip(*rows, strict=True)]
    shuffled = [*columns[:2], *(rng.permutation(column).tolist() for column in columns[2:])]
    pay, status = read(tmp_path, [list(row) for row in zip(*shuffled, strict=True)]).links
    # Seven standard deviations of 2,000 pairs by chance: false alarms are below 1e-9.
    assert pay.value == pytest.approx(0.0, abs=0.16)
    assert status.value == pytest.approx(0.5, abs=0.08)


def test_of_long_units_so_many_rows_are_drawn_as_the_specs_keep(tmp_path):
    rows = draw_panel(units=9, rows=10)
    unit = {"unique": ["wave"], "linked": ["pay"], "max_rows": 3}
    assert [link.pairs for link in read(tmp_path, rows, unit).links] == [18]
    assert read(tmp_path, rows, unit, seed=1).links == read(tmp_path, rows, unit, seed=1).links


def test_little_is_said_where_nothing_is_linked_pairs_are_few_or_numbers_alike(tmp_path):
    rows = [[str(row // 2), str(row % 2), "7", "x"] for row in range(200)]
    table = read(tmp_path, rows)
    assert [link.value for link in table.links] == [0.0, 1.0]
    few = read(tmp_path, rows[2:])
    assert [link.pairs for link in few.links] == [99, 99]
    assert [entry["real"] for entry in describe_links(table.links, table.links) or ()] == [0.0, 1.0]
    entry, _ = describe_links(table.links, few.links) or ()
    assert (entry["real"], entry["synthetic"], entry["pairs"]) == (None, None, {"real": 100, "synthetic": 99})
    assert write_link(entry) == (
        "Linked pay: not measured, as fewer than 100 pairs of rows of a unit have it (real 100, synthetic 99)."
    )
    alone = read(tmp_path, [[str(row), "1", "7", "x"] for row in range(9)])
    assert [link.pairs for link in alone.links] == [0, 0]
    assert describe_links((), ()) is None
    assert read(tmp_path, rows, {}).links == ()
