"""Columns that may say whose a row is, told from codes, numbers and dates that repeat as well."""

import numpy as np
import polars as pl
import pytest

from dpwgan.drafts.owners import find_owners

DRAFTED = {"type": "integer", "min": 0, "max": 9}


def find(table: dict[str, list[str]], *, pieces: int = 2, **draft: dict[str, object]) -> list[str]:
    frame = pl.DataFrame(table)
    size = -(-frame.height // pieces)
    return [*find_owners({name: DRAFTED for name in table} | draft, lambda: frame.iter_slices(size))]


def make_visits(*, each: int) -> dict[str, list[str]]:
    """Rows of 300 owners in no order, each with a sex and a first letter of its own, and a ward of the visit."""
    generator = np.random.default_rng(1)
    sexes, of_row = generator.choice(["f", "m"], 300), generator.permutation(np.repeat(np.arange(300), each))
    wards = generator.choice(["a", "b"], len(of_row))
    numbers = [str(1000 + owner) for owner in of_row]
    return {"x": numbers, "sex": [*sexes[of_row]], "ward": [*wards], "tens": [number[:3] for number in numbers]}


@pytest.mark.parametrize("pieces", [1, 7])
def test_column_is_found_when_another_is_the_same_in_all_rows_of_each_of_its_values(pieces):
    assert find(make_visits(each=6), pieces=pieces) == ["x"]


def test_what_is_the_same_in_all_rows_of_an_owner_is_told():
    visits = make_visits(each=6)
    visits["year"] = ["2024"] * len(visits["x"])
    own = ["'sex'", "'tens'"]
    for size in (["6"], ["6", "7"], ["6", "x"]):
        visits["size"] = [size[int(owner) % len(size)] for owner in visits["x"]]
        frame = pl.DataFrame(visits)
        others = own if size == ["6"] else [*own, "'size'"]
        assert find_owners(dict.fromkeys(visits, DRAFTED), lambda frame=frame: frame.iter_slices(400)) == {"x": others}


def test_how_many_rows_an_owner_has_is_told_of_the_column_that_says_it():
    rows = [owner for owner in range(300) for _ in range(1 + owner % 5)]
    table = {"hh": [str(owner) for owner in rows], "members": [str(1 + owner % 5) for owner in rows]}
    frame = pl.DataFrame(table)
    found = find_owners(dict.fromkeys(table, DRAFTED), lambda: frame.iter_slices(200))
    assert found == {"hh": ["'members' (how many these are: of the type 'size')"]}


@pytest.mark.parametrize("first", ["sample_id", "patient"])
def test_patient_comes_before_the_samples_but_not_the_physician_of_many(first):
    rows = np.arange(1800)
    names = sorted(("sample_id", "patient", "physician"), key=lambda name: name != first)
    table = {name: [*map(str, rows // {"sample_id": 2, "patient": 6, "physician": 60}[name])] for name in names}
    assert find(table) == ["patient", "sample_id", "physician"]


def test_column_is_not_found_when_what_hangs_on_it_is_read_off_its_codes():
    visits = make_visits(each=6)
    del visits["sex"]
    assert find(visits) == []
    codes = visits["x"]
    assert find({"zip": codes, "town": [f"town {code}" for code in codes]}) == []


@pytest.mark.parametrize("each", [1, 60])
def test_column_is_not_found_when_its_values_have_one_row_or_very_many(each):
    assert find(make_visits(each=each)) == []


def test_column_is_not_found_when_one_row_breaks_what_hangs_on_it_in_another_piece():
    visits = make_visits(each=6)
    first = visits["x"].index(visits["x"][-1])
    visits["sex"][-1] = {"f": "m", "m": "f"}[visits["sex"][first]]
    assert find(visits, pieces=7) == []


@pytest.mark.parametrize("kind", ["date", "float", "drop"])
def test_column_is_not_found_when_its_type_names_nobody(kind):
    assert find(make_visits(each=6), x={"type": kind}) == []


@pytest.mark.parametrize(
    ("name", "is_found"),
    [
        *(
            (name, True)
            for name in (
                *("patient", "Patient ID", "customerId", "HH_NO", "pid", "visit.id", "user_no", "uid"),
                *("Name", "LastName", "first name", "attending_physician", "judge", "home_phone", "email", "MSISDN"),
            )
        ),
        *(
            (name, False)
            for name in (
                *("paid", "valid", "patient_age", "customer_city", "members", "code", "number", "idle"),
                *("company_name", "doctor_visits", "phone_plan", "filename"),
            )
        ),
    ],
)
def test_name_of_a_column_is_enough_when_it_is_that_of_an_owner(name, is_found):
    assert find({name: [str(row // 3) for row in range(90)]}) == [name] * is_found


def test_few_owners_with_several_rows_are_enough_when_the_name_is_that_of_an_owner():
    rows = [str(row) for row in (*range(1000), *range(30))]
    assert find({"patient": rows, "x": rows}) == ["patient"]
    assert find({"patient": rows[:1005]}) == []
    assert find({"subject": rows[:25] * 200, "x": rows[:25] * 200}) == ["subject"]


def test_row_names_of_a_dictionary_are_found_when_they_repeat():
    rows = [str(row // 3) for row in range(90)]
    assert find({"x": rows, "y": rows}, x={"type": "string", "uuid": True}) == ["x"]


def make_panel(units: int = 48, years: int = 7) -> dict[str, list[str]]:
    """Rows of units in their order, one a year, of which nothing lasts that goes up and down from unit to unit."""
    rows = range(units * years)
    numbers = [str(1000 + 10 * (row // years)) for row in rows]
    return {"x": numbers, "of": [number[:2] for number in numbers], "y": [str(1992 + row % years) for row in rows]}


@pytest.mark.parametrize(("units", "years"), [(48, 25), (550, 7), (300, 2)])
def test_column_is_found_when_its_values_have_one_row_a_year(units, years):
    assert find(make_panel(units, years)) == ["x"]
    some = [place for place in range(units * years) if place % 7]
    assert find({name: [cells[place] for place in some] for name, cells in make_panel(units, years).items()}) == ["x"]


@pytest.mark.parametrize(
    ("name", "is_found"),
    [("wave", True), ("Visit No", True), ("surveyMonth", True), ("town", False), ("z", False), ("holiday", False)],
)
def test_column_is_found_when_its_values_have_one_row_a_turn_by_its_name(name, is_found):
    panel = make_panel()
    assert find({"x": panel["x"], name: [str(int(year) - 1991) for year in panel["y"]]}) == ["x"] * is_found


@pytest.mark.parametrize("pieces", [1, 7])
def test_column_is_not_found_when_two_rows_are_of_one_year(pieces):
    panel = make_panel()
    assert find({**panel, "x": [*panel["x"][:-7], *panel["x"][:7]]}, pieces=pieces) == []
    assert find({**panel, "y": ["1992", "1992", *panel["y"][2:]]}, pieces=pieces) == []


def test_column_is_not_found_when_it_is_a_turn_itself_or_few_rows_would_be_of_one_year_by_chance():
    panel = make_panel()
    assert find({"day_of_year": [str(int(cell) // 10 - 99) for cell in panel["x"]], "y": panel["y"]}) == []
    rows = range(90)
    assert find({"x": [str(row // 2) for row in rows], "y": [str(1900 + row % 60) for row in rows]}) == []


def test_empty_cells_are_nobody_s():
    assert find({"pid": [*map(str, range(90)), *[""] * 200]}) == []
    panel = make_panel()
    assert find({"x": [*panel["x"], *[""] * 90], "y": [*panel["y"], *["1992"] * 90]}) == ["x"]


def test_column_without_a_name_hinders_nothing():
    assert find({"": [*map(str, range(1800))], **make_visits(each=6)}) == ["x"]
