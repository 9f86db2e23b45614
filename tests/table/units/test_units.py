"""Whose rows are whose, and which are kept: by places and randomness alone, and each choice as likely as another."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpwgan.errors import DataError, SpecsError
from dpwgan.table.files.reader import open_table
from dpwgan.table.schema import UnitColumn
from dpwgan.table.source import make_piece, make_table
from dpwgan.table.specs import parse_specs
from dpwgan.table.units.forms import list_forms
from dpwgan.table.units.units import Units, keep_rows, read_units
from dpwgan.table.workers import Team
from tests.teams import make_workers

NAMED = {"person": {"type": "string", "uuid": True}}
AGE = {"type": "integer", "min": 0, "max": 120}
ROLE = {"type": "enum", "count": 5}
BORN = {"type": "date", "min": "2000-01-01", "max": "2020-01-01", "of": "unit"}
MOVED = {"type": "date", "since": "born", "min": "0 days", "max": "9 days"}
UNIT = {"column": "person", "max_rows": 2}
WITH_ROLE, UNIQUE, OF_ROLES = {**NAMED, "role": ROLE}, {**UNIT, "unique": ["role"]}, {**UNIT, "kind": "role"}


def _cut(frame, pieces):
    """The table of these rows, so many at a time that there are so many pieces."""
    step = -(-frame.height // pieces)
    return replace(make_table(frame), pieces=lambda: map(make_piece, frame.iter_slices(step)))


def _read(names, *, most, pieces=1):
    frame = pl.DataFrame({"name": names, "age": [str(i) for i in range(len(names))]}, schema={"name": str, "age": str})
    return read_units(_cut(frame, pieces), UnitColumn(name="name", max_rows=most))


@given(
    names=st.lists(st.sampled_from(["a", "b", "1", "01", " 1", "ä", "1.0"]), min_size=1, max_size=40),
    most=st.integers(1, 6),
    pieces=st.integers(1, 4),
    seed=st.integers(0, 2**32),
)
def test_each_unit_keeps_its_share_of_rows_when_it_has_too_many(names, most, pieces, seed):
    table = _read(names, most=most, pieces=pieces)
    kept = keep_rows(table, most, rng=np.random.default_rng(seed))
    frame = pl.concat(kept.frames())
    left = Counter(frame.get_column("name").to_list())
    assert left == {name: min(count, most) for name, count in Counter(names).items()}
    ages = [int(age) for age in frame.get_column("age")]
    assert frame.get_column("name").to_list() == [names[age] for age in ages]
    assert ages == sorted(ages)
    assert kept.records == table.records == len(ages)
    # The units of rows that are left are those that they had.
    of_rows = kept.units.of_rows
    assert [of_rows[i] == of_rows[0] for i in range(len(ages))] == [names[age] == names[ages[0]] for age in ages]
    rows, starts = kept.units.list_rows()
    for unit, (first, last) in enumerate(pairwise(starts)):
        np.testing.assert_array_equal(rows[first:last], np.flatnonzero(of_rows == unit))
    assert len(starts) == len(left) + 1


@pytest.mark.parametrize("pieces", [1, 3])
def test_rows_say_how_many_their_unit_keeps_when_units_are_written(pieces):
    unit = UnitColumn(name="name", max_rows=3, written=True)
    table = read_units(_cut(pl.DataFrame({"name": list("abcbbcdbdd")}), pieces), unit)
    sizes = dict(zip("abcd", "1323", strict=True))
    for rows, count in ((table, 10), (keep_rows(table, 3, rng=np.random.default_rng(1)), 9)):
        frame = pl.concat(rows.frames())
        assert frame.height == count
        assert frame.get_column("name (rows)").to_list() == [sizes[name] for name in frame.get_column("name")]
    # Whatever the specs say, the largest share one: a promise of any length is read at once.
    assert replace(unit, max_rows=10**15).size_column.tokens[-2:] == ("999", "1000")
    for other in (replace(unit, max_rows=1), replace(unit, written=False)):
        assert pl.concat(read_units(make_table(pl.DataFrame({"name": ["a"]})), other).frames()).columns == ["name"]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_each_unit_lies_with_one_worker_who_keeps_its_share_of_rows(size):
    names = [str(name) for name in np.random.default_rng(size).integers(0, 20, 90)]
    table, lies_with = _read(names, most=3, pieces=4), {}
    whole = keep_rows(table, 3, rng=np.random.default_rng(1))
    parts = []
    for rank in range(size):
        team = Team(make_workers(size)[rank])
        part = keep_rows(table, 3, rng=np.random.default_rng(1), own=team.get_rows(table.units.count))
        frame = pl.concat(part.frames())
        assert part.records == frame.height == len(part.units.of_rows)
        assert part.units.count == whole.units.count == len(set(names))
        own = set(frame.get_column("name"))
        assert not own & set(lies_with)
        lies_with |= dict.fromkeys(own, rank)
        # Its own units have numbers from 0 up, and no other has any.
        assert set(part.units.of_rows) == set(range(len(own)))
        parts.append(frame)
    assert set(lies_with) == set(names)
    assert pl.concat(parts).sort("age").equals(pl.concat(whole.frames()).sort("age"))


def test_which_rows_are_kept_is_a_matter_of_places_when_cells_are_others():
    names = ["a"] * 5 + ["b"] * 7 + ["c"]
    chosen = _read(names, most=2).units.choose(2, rng=np.random.default_rng(3))
    # Another name, and other cells, for the unit in the same places.
    again = _read(["x"] * 5 + names[5:], most=2).units.choose(2, rng=np.random.default_rng(3))
    np.testing.assert_array_equal(chosen, again)


def test_each_choice_of_a_units_rows_is_as_likely_as_another():
    units, rng = Units(np.array([0, 1, 0, 0, 1, 0], np.int32)), np.random.default_rng(5)
    drawn = Counter(tuple(np.flatnonzero(units.choose(2, rng=rng))) for _ in range(3_000))
    pairs = Counter(tuple(place for place in rows if place not in (1, 4)) for rows in drawn.elements())
    # A chance of one in a million of a false alarm; the first rows of a unit, say, would fail.
    assert len(pairs) == 6
    assert stats.chisquare(list(pairs.values())).pvalue > 1e-6


def test_a_large_table_is_read_when_units_are_many():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 200_000, 661_968).astype(np.int32)
    units = Units(codes)
    kept = units.choose(5, rng=rng)
    assert np.count_nonzero(kept) == units.count_kept(5)
    assert np.bincount(codes[kept]).max() == 5


def test_a_row_that_is_nobodys_is_refused_without_its_place():
    with pytest.raises(DataError, match="Column 'name': 2 rows with an empty cell, which does not say whose it is"):
        _read(["a", "", "b", ""], most=2)
    with pytest.raises(DataError, match="does not have 'name'"):
        read_units(make_table(pl.DataFrame({"age": ["1"]})), UnitColumn(name="name", max_rows=1))


def test_a_unit_that_is_not_alike_is_refused_by_column_and_count():
    columns = {"name": list("abcab"), "rent": ["5", "6", "7", "5", "06"], "age": list("12345")}
    table, rent = make_table(pl.DataFrame(columns)), UnitColumn(name="name", max_rows=1, written=True, shared=("rent",))
    with pytest.raises(DataError, match=r"Column 'rent': not the same cell .* in 1 of 3 units\.$"):
        read_units(table, rent)
    assert read_units(table, UnitColumn(name="name", max_rows=1, written=True)).records == 3
    read_units(make_table(pl.DataFrame({**columns, "rent": ["5", "6", "7", "5", "6"]})), rent)


@pytest.mark.parametrize("pieces", [1, 3])
def test_a_unit_with_rows_alike_in_its_unique_columns_is_refused_by_their_names_and_count(pieces):
    columns = {"name": list("abcab"), "year": list("12312"), "month": list("12334")}
    whole = pl.DataFrame(columns)
    table = _cut(whole, pieces)
    unit = UnitColumn(name="name", max_rows=2, written=True, unique=("year",))
    with pytest.raises(DataError, match=r"^Column 'year': alike in two rows of a unit, .* in 2 of 3 units\.$"):
        read_units(table, unit)
    # Both of a's rows are of year 1, and of months 1 and 3.
    assert read_units(table, replace(unit, unique=("year", "month"))).records == 5
    again = make_table(whole.with_columns(month=pl.Series(list("12314"))))
    with pytest.raises(DataError, match=r"^Columns 'year', 'month': alike in two rows of a unit, .* in 1 of 3 units"):
        read_units(again, replace(unit, unique=("year", "month")))


@pytest.mark.parametrize("role", [ROLE, {"type": "integer", "min": 0, "max": 4}, {"type": "boolean", "missing": ["?"]}])
def test_a_unit_may_have_as_many_rows_as_its_unique_columns_have_cells(role):
    cells = 3 if role["type"] == "boolean" else 5
    for most, sound in ((cells, True), (cells + 1, False)):
        specs = {"unit": {**UNIT, "max_rows": most, "unique": ["role"]}, **NAMED, "role": role}
        with nullcontext() if sound else pytest.raises(SpecsError, match=f"have {cells} different rows"):
            parse_specs(specs, sha256="0" * 64)


def test_a_unit_has_each_kind_at_most_once_where_kinds_are_unique():
    document = {"unit": {**UNIT, "max_rows": 3, "unique": ["role"], "kind": "role"}, **NAMED, "role": ROLE}
    forms = list_forms(parse_specs(document, sha256="0" * 64))
    assert {tuple(form) for form in forms} == {form for form in product((0, 1), repeat=5) if 0 < sum(form) <= 3}
    assert len(forms) == 5 + 10 + 10


@pytest.mark.parametrize(
    ("others", "sound"),
    [(pl.Int32, True), (pl.String, True), (pl.Float64, False), (pl.Decimal(10, 2), False)],
    ids=str,
)
def test_parts_that_write_a_units_name_otherwise_are_refused(tmp_path, others, sound):
    frame = pl.DataFrame({"name": [1, 2, 2], "age": [1, 2, 3]})
    frame.write_parquet(tmp_path / "a.parquet")
    frame.cast({"name": others}).write_parquet(tmp_path / "b.parquet")
    schema = parse_specs({"unit": {"column": "name", "max_rows": 2}, "age": AGE}, sha256="0" * 64)
    with nullcontext() if sound else pytest.raises(DataError, match=r"'name': of types .* write one name in several"):
        units = read_units(open_table(tmp_path, schema), schema.unit).units
        assert sorted(units.sizes) == [2, 4]


def test_a_table_that_grew_is_refused():
    table = _read(["a", "a", "b"], most=1)
    longer = replace(make_table(pl.DataFrame({"name": list("aabb"), "age": list("1234")})), units=table.units)
    with pytest.raises(DataError, match="number of rows"):
        keep_rows(longer, 1, rng=np.random.default_rng(1)).frame()


@pytest.mark.parametrize(
    ("unit", "more", "sentence"),
    [
        ({"column": "person"}, {}, "The unit in the specs: the key 'max_rows' is missing"),
        ({**UNIT, "max_rows": 0}, {}, "'max_rows' must be at least 1"),
        ({**UNIT, "maximum": 3}, {}, "unknown key 'maximum'"),
        ({**UNIT, "column": "age"}, {}, "'age', is listed as another type"),
        (UNIT, {**NAMED, "person (rows)": AGE}, r"its number of rows is called 'person \(rows\)': rename the column"),
        (UNIT, {"person": {"type": "enum", "count": 2}}, "'person', is listed as"),
        (UNIT, {"rent": {**AGE, "of": "unit"}}, "list 'person' with \"uuid\": true"),
        (UNIT, {**NAMED, "rent": {"type": "drop", "of": "unit"}}, "'rent' is \"of\" it, and is not"),
        (
            UNIT,
            {**NAMED, "born": BORN, "moved": MOVED},
            "'moved' is told since or above another column: both are of it, or",
        ),
        (OF_ROLES, {}, "'role'.* the output names no units"),
        ({**UNIT, "kind": "age"}, NAMED, "'kind' must name an enum"),
        ({**OF_ROLES, "max_rows": 30}, WITH_ROLE, "make 324,631 forms of it, and 10,000 are the most: lower"),
        ({**OF_ROLES, "of_kind": {"9": 1}}, WITH_ROLE, "its 'of_kind' has '9', which 'role' does not"),
        ({**UNIT, "of_kind": {"0": 1}}, NAMED, "its 'of_kind' says how many .* no 'kind' which"),
        (
            {**OF_ROLES, "of_kind": {"0": [2, 3], "1": 1}},
            WITH_ROLE,
            "no unit of at most 2 rows has as many of each kind as its 'of_kind' says",
        ),
        ({**UNIQUE, "rules": ["previous.agee < age"]}, WITH_ROLE, "its rule 1, 'previous.agee < age', names 'agee'"),
        ({**UNIQUE, "rules": ["age < 9"]}, WITH_ROLE, "rule 1, 'age < 9', reads one row by itself"),
        ({**UNIQUE, "rules": ["first.age"]}, WITH_ROLE, "rule 1, 'first.age', is no condition"),
        ({**UNIQUE, "rules": ["next.age < age"]}, WITH_ROLE, "rule 1, .* other rows are 'previous' and 'first'"),
        ({**UNIQUE, "rules": ["first.role = 'x'"]}, WITH_ROLE, "rule 1, .* kinds that do not go"),
        (
            {**UNIQUE, "rules": ["previous.age < first"]},
            {**NAMED, "role": ROLE, "first": AGE},
            "rule 1 reads a column 'first', as another row is called: rename it",
        ),
        ({**UNIT, "rules": ["previous.age < age"]}, NAMED, "'rules' speak of the row before, and nothing says which"),
        ({**UNIT, "max_rows": 1, "rules": ["previous.age < age"]}, NAMED, "one row, .* no 'rules' hold between rows"),
        ({**OF_ROLES, "of_kind": {"0": [1]}}, NAMED, "'of_kind' .* must have at least 2"),
        ({**UNIT, "kindd": "role"}, {}, r"unknown key 'kindd' \(did you mean 'kind'\?\)\."),
        (UNIQUE, {"role": ROLE}, "'role'.* the output names no units"),
        ({**UNIT, "unique": ["wave"]}, NAMED, "'unique' names 'wave', which must be a column that is trained"),
        ({**UNIT, "unique": ["person"]}, NAMED, "'unique' names 'person', which must be"),
        (
            {**UNIT, "unique": ["born"]},
            {**NAMED, "born": BORN},
            "'unique' names 'born', which must be .* not \"of\": \"unit\"",
        ),
        ({**UNIT, "unique": []}, NAMED, "'unique' must have at least 1"),
        ({**UNIT, "unique": ["role"] * 2}, WITH_ROLE, "'unique' has the same item twice"),
        ({**UNIQUE, "max_rows": 6}, WITH_ROLE, "have 5 different rows, .* to keep 6"),
        (
            {**OF_ROLES, "max_rows": 14, "unique": ["role"]},
            {**NAMED, "role": {**ROLE, "count": 14}},
            "make 16,383 forms of it, and 10,000 are the most: lower",
        ),
        (UNIT, {"line": {"type": "place", "of": "unit"}}, "'line'.* the output names no units"),
        (UNIT, {**NAMED, "line": {"type": "size"}}, "'line' in the specs: the type 'size' tells of a unit"),
        (UNIT, {**NAMED, "line": {"type": "size", "of": "unit", "min": 2}}, "the key 'min' does not go with"),
        (UNIT, {**NAMED, "line": {"type": "place", "of": "unit", "min": 0.5}}, "'min' must be a whole number"),
        (AGE, {"line": {"type": "place", "of": "unit"}}, "'line' in the specs: 'of' says whose it is"),
        (AGE, {"rent": {**AGE, "of": "unit"}}, "'rent' in the specs: 'of' says whose it is"),
        (UNIT, {**NAMED, "rent": {**AGE, "of": "rows"}}, "'of' must be 'unit'"),
    ],
)
def test_a_unit_is_refused_when_its_form_is_wrong(unit, more, sentence):
    with pytest.raises(SpecsError, match=sentence):
        parse_specs({"unit": unit, "age": AGE, **more}, sha256="0" * 64)


def test_a_unit_may_be_listed_as_left_out_and_a_column_may_be_called_so():
    for more in ({}, {"person": {"type": "drop"}}):
        schema = parse_specs({"unit": UNIT, "age": AGE, **more}, sha256="0" * 64)
        assert schema.unit == UnitColumn(name="person", max_rows=2)
        assert [column.name for column in schema.columns] == ["age", "person"]
        assert not schema.is_written("person")
    named = {"unit": UNIT, "age": {**AGE, "of": "unit"}, **NAMED}
    schema = parse_specs(named, sha256="0" * 64)
    assert schema.unit == UnitColumn(name="person", max_rows=2, written=True, shared=("age",))
    assert schema.is_written("person")
    column = parse_specs({"unit": AGE}, sha256="0" * 64)
    assert column.unit is None
    assert [c.name for c in column.columns] == ["unit"]
