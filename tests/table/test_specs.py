"""Specs: every dialect and key, and the sentence that each bad one gets."""

import itertools
import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpwgan.errors import SpecsError
from dpwgan.table.codebook import Codebook
from dpwgan.table.schema import (
    CategoricalColumn,
    DerivedColumn,
    IdentifierColumn,
    ImageLayout,
    NumericColumn,
    Schema,
    UndiscoveredColumn,
)
from dpwgan.table.specs import load_document, parse_specs, read_specs
from dpwgan.table.specs.form import SCHEMA_FILE
from dpwgan.table.specs.keys import MAX_CATEGORIES
from dpwgan.table.specs.layout import MAX_PIXELS
from tests.programs import ROOT

CODEBOOK = Codebook(
    labels={"C": {"000": "N/A", "001": "one", "010": "ten", "999": "missing"}, "L": {"A1": "a", "2": "b"}, "R": {}}
)


def parse(columns: Any, *, codebook: Codebook | None = None) -> Schema:
    return parse_specs(columns, sha256="0", codebook=codebook)


def parse_one(keys: dict[str, Any], *, name: str = "C", codebook: Codebook | None = None) -> Any:
    return parse({name: keys}, codebook=codebook).columns[0]


def parse_enum(keys: dict[str, Any], **other: Any) -> CategoricalColumn:
    return parse_one({"type": "enum"} | keys, **other)


def parse_number(keys: dict[str, Any]) -> NumericColumn:
    return parse_one({"type": "integer"} | keys)


def parse_derived(source: dict[str, Any], keys: dict[str, Any]) -> Any:
    return parse({"D": keys, "S": source}).columns[0]


# --- what is read -----------------------------------------------------------------------------------------------------


def test_schema_file_is_valid_and_documents_every_key():
    from jsonschema import Draft202012Validator

    form = json.loads(SCHEMA_FILE.read_text())
    Draft202012Validator.check_schema(form)
    keys = form["$defs"]["column"]["properties"]
    assert all(keys[key]["description"] for key in keys)
    assert all(part["description"] for part in keys["derived"]["properties"].values())
    layout = form["$defs"]["layout"]["properties"]
    assert all(part["description"] for part in (*layout.values(), *layout["pixels"]["properties"].values()))


@pytest.mark.parametrize(
    ("keys", "tokens", "missing"),
    [
        ({"maxval": 2}, ("0", "1", "2"), ()),
        ({"count": 3}, ("0", "1", "2"), ()),
        ({"values": ["b", "a", 7], "missing": ["?"], "optional": True}, ("b", "a", "7", "?", ""), ("?", "")),
        ({"maxval": 3, "missing": [0, 9]}, ("1", "2", "3", "0", "9"), ("0", "9")),
        ({"count": 3, "width": 2, "missing": [2]}, ("00", "01", "02"), ("02",)),
    ],
)
def test_enum_lists_its_cells_with_the_missing_ones_last(keys, tokens, missing):
    integer = "values" not in keys
    assert parse_enum(keys) == CategoricalColumn(name="C", tokens=tokens, missing=missing, integer=integer)


@pytest.mark.parametrize(
    ("values", "integer"),
    [([1, 2], True), (["01", "02"], True), (["1", "01"], False), (["1", "x"], False), (["1.0"], False), ([-1], True)],
)
def test_enum_is_integer_when_its_values_are_distinct_whole_numbers(values, integer):
    assert parse_enum({"values": values}).integer is integer


def test_codebook_enum_drops_only_codes_above_when_maxval():
    whole = parse_enum({"domain_from": "codebook"}, codebook=CODEBOOK)
    assert whole.tokens == ("0", "1", "10", "999")
    assert whole.domain == "codebook"
    assert parse_enum({"domain_from": "codebook", "maxval": 50}, codebook=CODEBOOK).tokens == ("0", "1", "10", "50")
    assert parse_enum({"domain_from": "codebook", "width": 3}, codebook=CODEBOOK).tokens[1] == "001"
    letters = parse_enum({"domain_from": "codebook"}, name="L", codebook=CODEBOOK)
    assert letters.tokens == ("A1", "2")
    assert not letters.integer


def test_codebook_enum_reads_file_when_given(tmp_path):
    (tmp_path / "c.cbk").write_text(" SEX\t\tSex\n1\t\tMale\n2\t\tFemale\n")
    (tmp_path / "s.json").write_text('\ufeff{"SEX": {"type": "enum", "domain_from": "codebook"}}', encoding="utf-8")
    schema = read_specs(tmp_path / "s.json", codebook=tmp_path / "c.cbk")
    assert schema.by_name["SEX"] == CategoricalColumn(name="SEX", tokens=("1", "2"), integer=True, domain="codebook")
    assert re.fullmatch("[0-9a-f]{64}", schema.sha256)


def test_number_reads_range_when_nist_2018():
    column = parse_number({"optional": True, "min": 0, "max": 9})
    assert column == NumericColumn(name="C", minimum=0.0, maximum=9.0, integer=True, missing=("",))
    assert parse_number({"optional": False, "min": -3, "max": -3}).missing == ()


@pytest.mark.parametrize(
    ("low", "high", "decimals"), [(0, 1, 6), (0, 0, 6), (16, 53000, 2), (-2e7, 5, 0), (0, 1e-3, 9), (0, 1e-300, 17)]
)
def test_float_has_six_digits_when_decimals_are_not_given(low, high, decimals):
    assert parse_number({"type": "float", "min": low, "max": high}).decimals == decimals


@pytest.mark.parametrize(
    ("keys", "missing"),
    [
        ({"missing": [9998, "N"], "decimals": 1}, ("9998.0", "N")),
        ({"type": "float", "missing": [-1, 99.5]}, ("-1.000000", "99.500000")),
        ({"missing": ["", "N"], "optional": True}, ("N", "")),
    ],
)
def test_missing_codes_are_written_as_the_column_once_with_empty_last(keys, missing):
    assert parse_number({"min": 0, "max": 9} | keys).missing == missing


def test_wide_enum_is_number_or_missing_when_treated_as():
    column = parse_one(TREATED | {"maxval": 9_999_999, "missing": [9_999_998]})
    missing = ("9999998", "9999999")
    assert column == NumericColumn(name="C", minimum=0.0, maximum=9_999_998.0, integer=True, missing=missing)


def test_enum_is_taken_at_its_word_when_at_the_limit_or_listed():
    assert len(parse_enum({"count": MAX_CATEGORIES}).tokens) == MAX_CATEGORIES
    assert len(parse_enum({"values": list(range(MAX_CATEGORIES + 1))}).tokens) == MAX_CATEGORIES + 1


def test_bins_span_the_range_when_given_as_borders_or_count():
    assert parse_number({"min": 0, "max": 9, "bins": [0, 3, 9]}).edges == (0.0, 3.0, 9.0)
    assert parse_number({"min": 0, "max": 9, "bins": [0, 3, 9, 9]}).edges == (0.0, 3.0, 9.0, 9.0)
    assert parse_number({"min": 0, "max": 9, "bins": 3}).edges == (0.0, 3.0, 6.0, 9.0)
    assert parse_number({"type": "float", "min": 0, "max": 1, "bins": 4}).edges == (0.0, 0.25, 0.5, 0.75, 1.0)


@given(st.integers(-1000, 1000), st.integers(1, 500), st.data())
def test_bins_each_hold_a_whole_number_when_integer(low, span, data):
    bins = data.draw(st.integers(1, span))
    edges = parse_number({"min": low, "max": low + span, "bins": bins}).edges
    assert edges is not None
    assert len(edges) == bins + 1
    assert (edges[0], edges[-1]) == (low, low + span)
    assert all(right - left >= 1 for left, right in itertools.pairwise(edges))
    held = np.diff([*edges[:-1], edges[-1] + 1])
    assert max(held) - min(held) <= 1


@pytest.mark.parametrize(
    ("keys", "start"),
    [
        ({"type": "integer", "optional": False, "min": 5, "max": 9}, 5),
        ({"type": "enum", "maxval": 10**9}, 0),
        ({"type": "string"}, None),
        ({"type": "float", "min": 0, "max": 1}, None),
    ],
)
def test_uuid_column_is_a_row_name_when_any_type(keys, start):
    schema = parse({"id": keys | {"uuid": True}, "x": {"type": "enum", "count": 2}})
    assert schema.by_name["id"] == IdentifierColumn(name="id", start=start)


@pytest.mark.parametrize("privacy", ["private", "waived"])
def test_values_from_data_stays_open_when_terms_are_given(privacy):
    keys = {"type": "enum", "values_from": "data", "domain_privacy": privacy}
    assert parse_one(keys | {"missing": ["?"]}) == UndiscoveredColumn(name="C", privacy=privacy, missing=("?",))
    whole = UndiscoveredColumn(name="C", privacy=privacy, missing=("",), integer=True)
    assert parse_one(keys | {"maxval": 10**6, "optional": True}) == whole


def test_out_of_domain_is_kept_when_it_can_be_obeyed():
    assert parse_enum({"count": 3, "out_of_domain": "clamp"}).out_of_domain == "clamp"
    assert parse_number({"min": 0, "max": 3, "out_of_domain": "clamp"}).out_of_domain == "clamp"
    assert parse_enum({"values": ["a"], "missing": ["?"], "out_of_domain": "missing"}).out_of_domain == "missing"


def test_columns_keep_the_order_of_the_file_when_one_is_derived_from_a_later_one():
    schema = parse({"D": {"derived": {"from": "S", "floordiv": 10}}, "S": {"type": "enum", "count": 30}})
    assert [column.name for column in schema.columns] == ["D", "S"]


@pytest.mark.parametrize(
    ("rule", "cell", "derived"),
    [
        ({"floordiv": 100}, "90021", "900"),
        ({"floordiv": 100}, "15400.0", "154"),
        ({"floordiv": 10}, "-5", "-1"),
        ({"multiply": 3}, "007", "21"),
        ({"multiply": 10}, "9007199254740993", "90071992547409930"),
    ],
)
def test_derived_column_computes_whole_numbers_when_multiply_or_floordiv(rule, cell, derived):
    column = parse_derived({"type": "integer", "min": -9, "max": 99999}, {"derived": {"from": "S"} | rule})
    assert column.derive(cell, available=True) == derived


def test_derived_column_writes_its_own_style_when_width_or_decimals():
    source = {"type": "integer", "min": -9, "max": 99999, "missing": ["N"]}
    column = parse_derived(source, {"derived": {"from": "S", "floordiv": 10, "missing": 99}, "width": 3})
    assert [column.derive(cell, available=cell != "N") for cell in ("75", "-5", "N")] == ["007", "-001", "099"]
    column = parse_derived(source, {"derived": {"from": "S", "multiply": 2}, "decimals": 1})
    assert [column.derive(cell, available=cell != "N") for cell in ("75", "N")] == ["150.0", "N"]


def test_derived_column_maps_cells_when_map():
    source = {"type": "enum", "values": ["a", "b"], "missing": ["?"]}
    column = parse_derived(source, {"type": "enum", "derived": {"from": "S", "map": {"a": 1, "b": "x", "?": ""}}})
    assert [column.derive(cell, available=cell != "?") for cell in ("a", "b", "?")] == ["1", "x", ""]
    column = parse_derived(source, {"derived": {"from": "S", "map": {"a": 1, "b": 2}, "missing": "?"}})
    assert column.derive("?", available=False) == "?"


@pytest.mark.parametrize(
    ("source", "own", "floordiv"),
    [
        ({"type": "integer", "min": 0, "max": 99999}, {"type": "integer", "min": 0, "max": 999}, 100),
        ({"type": "enum", "count": 40}, {"type": "enum", "maxval": 3}, 10),
    ],
)
def test_derived_column_may_keep_its_own_domain_when_it_holds_the_image(source, own, floordiv):
    column = parse_derived(source, own | {"derived": {"from": "S", "floordiv": floordiv}})
    assert (column.floordiv, column.width) == (floordiv, 0)


def test_derived_column_follows_an_open_domain_when_its_cells_are_whole_numbers():
    source = {"type": "enum", "maxval": 6560, "values_from": "data", "domain_privacy": "waived"}
    assert parse_derived(source, {"derived": {"from": "S", "floordiv": 10}}).source == "S"


# All but NUL and halves of characters, which no table can hold.
CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0")


@pytest.mark.slow
@given(
    st.dictionaries(
        st.text(CHARACTERS, max_size=8).filter(lambda name: not name.startswith("\ufeff")),
        st.fixed_dictionaries(
            {
                "type": st.just("enum"),
                "values": st.lists(st.text(CHARACTERS, min_size=1, max_size=5), min_size=1, unique=True),
            }
        ),
        min_size=1,
        max_size=5,
    )
)
def test_any_names_and_cells_survive_when_written_as_json(document):
    schema = parse(load_document(json.dumps(document).encode()))
    assert {column.name: list(column.tokens) for column in schema.columns} == {
        name: keys["values"] for name, keys in document.items()
    }


def test_documentation_shows_specs_that_are_read():
    text = (ROOT / "docs" / "specs.md").read_text()
    example = text.split("```json\n")[1].split("```")[0]
    codebook = Codebook(labels={"born": {"00100": "Alabama", "45300": "Germany"}})
    schema = parse(load_document(example.encode()), codebook=codebook)
    assert [type(column).__name__[0] for column in schema.columns] == list("ICCNNNCLBFCD")
    form = json.loads(SCHEMA_FILE.read_text())["$defs"]["column"]["properties"]
    assert all(f"`{key}`" in text for key in form)
    assert f"{MAX_CATEGORIES:,}" in text


# --- what is refused --------------------------------------------------------------------------------------------------


def refuse(document: dict[str, Any], sentence: str, *, of: str = "Column 'BAD' in the specs: ") -> None:
    """Checks that a document gets one sentence that begins and holds what it should."""
    with pytest.raises(SpecsError) as caught:
        parse(document)
    said = str(caught.value)
    assert said.startswith(of)
    assert sentence in said
    assert said.endswith(".")
    assert "\n" not in said
    assert caught.value.exit_code == 78


DATA = {"type": "enum", "values_from": "data", "domain_privacy": "waived"}
INTEGER = {"type": "integer", "min": 0, "max": 9}
TREATED = {"type": "enum", "treat_as": "number-or-missing"}
DATE = {"type": "date", "min": "2020-01-01", "max": "2021-01-01"}

REFUSED_COLUMNS: dict[str, tuple[dict[str, Any], str]] = {
    "no type": ({"count": 3}, "the key 'type' is missing"),
    "unknown key": ({"type": "enum", "count": 3, "zzz": 1}, "unknown key 'zzz'"),
    "wrong type of count": ({"type": "enum", "count": "3"}, "'count' must be a whole number"),
    "boolean count": ({"type": "enum", "count": True}, "'count' must be a whole number"),
    "count 0": ({"type": "enum", "count": 0}, "'count' must be at least 1"),
    "negative maxval": ({"type": "enum", "maxval": -1}, "'maxval' must be at least 0"),
    "two domains": ({"type": "enum", "count": 3, "maxval": 2}, "'count' and 'maxval' are both given"),
    "count and values": ({"type": "enum", "count": 1, "values": [0]}, "'count' and 'values' are both given"),
    "empty values": ({"type": "enum", "values": []}, "'values' must have at least 1 item"),
    "values no list": ({"type": "enum", "values": "abc"}, "'values' must be a list"),
    "values twice": ({"type": "enum", "values": ["a", "b", "a"]}, "'values' lists a cell twice"),
    "values twice in two types": ({"type": "enum", "values": ["1", 1]}, "'values' lists a cell twice"),
    "real value": ({"type": "enum", "values": ["a", 1.5]}, "'values' (each item) must be a string or a whole number"),
    "null value": ({"type": "enum", "values": ["a", None]}, "'values' (each item) must be a string or"),
    "empty cell as value": ({"type": "enum", "values": ["a", ""]}, 'say "optional": true'),
    "missing is a value": ({"type": "enum", "values": ["a", "b"], "missing": ["b"]}, "are also in 'values'"),
    "missing is a value spelt differently": ({"type": "enum", "values": ["1"], "missing": ["01"]}, "also in 'values'"),
    "nothing but missing": ({"type": "enum", "count": 1, "missing": [0]}, "every one of its codes is in 'missing'"),
    "empty missing": (INTEGER | {"missing": []}, "'missing' must have at least 1 item"),
    "boolean missing": (INTEGER | {"missing": [True]}, "'missing' (each item) must be a string or a number"),
    "infinite missing": (INTEGER | {"missing": [float("inf")]}, "'missing' must be finite"),
    "missing twice": (INTEGER | {"missing": ["N", "N"]}, "'missing' lists a cell twice"),
    "width of values": ({"type": "enum", "values": ["1"], "width": 2}, "'values' and 'width' are both given"),
    "optional no flag": (INTEGER | {"optional": 1}, "'optional' must be true or false"),
    "range on enum": ({"type": "enum", "count": 3, "min": 0}, "'min' does not go with the type 'enum'"),
    "values on integer": (INTEGER | {"values": [1]}, "'values' does not go with the type 'integer'"),
    "no min": ({"type": "integer", "max": 3}, "'min' is missing: the range of a number must be public"),
    "no max": ({"type": "float", "min": 3}, "'max' is missing: the range of a number must be public"),
    "min nan": ({"type": "float", "min": float("nan"), "max": 3}, "'min' must be finite"),
    "max inf": ({"type": "float", "min": 0, "max": float("inf")}, "'max' must be finite"),
    "max of 400 digits": ({"type": "integer", "min": 0, "max": 10**400}, "'max' must be finite"),
    "beyond 2^53": ({"type": "integer", "min": 0, "max": 2**53 + 1}, "beyond 2^53"),
    "range overflows": ({"type": "float", "min": -1e308, "max": 1e308}, "too wide for a double"),
    "min no number": ({"type": "integer", "min": "0", "max": 3}, "'min' must be a number"),
    "broken integer range": ({"type": "integer", "min": 0.5, "max": 3}, "must be whole numbers"),
    "decimals negative": (INTEGER | {"decimals": -1}, "'decimals' must be at least 0"),
    "decimals too many": (INTEGER | {"decimals": 18}, "'decimals' must be at most 17"),
    "bins 0": (INTEGER | {"bins": 0}, "'bins' must be at least 1"),
    "one border": (INTEGER | {"bins": [0]}, "'bins' must have at least 2 items"),
    "border no number": (INTEGER | {"bins": [0, "9"]}, "'bins' (each item) must be a number"),
    "border nan": (INTEGER | {"bins": [0, float("nan"), 9]}, "'bins' must be finite"),
    "borders fall": (INTEGER | {"bins": [0, 5, 5, 9]}, "must increase"),
    "border thrice": (INTEGER | {"bins": [0, 9, 9, 9]}, "must increase"),
    "one border twice": (INTEGER | {"bins": [9, 9]}, "must increase"),
    "borders short": (INTEGER | {"bins": [0, 5]}, "must go from the column's 'min' to its 'max'"),
    "borders broken": (INTEGER | {"bins": [0, 4.5, 9]}, "must be whole numbers"),
    "more bins than numbers": (INTEGER | {"bins": 10}, "'bins' must be at most 'max' minus 'min'"),
    "bins of a point": ({"type": "float", "min": 1, "max": 1, "bins": 2}, "'bins' are more than"),
    "bins beyond limit": ({"type": "float", "min": 0, "max": 1, "bins": 10001}, "'bins' must be at most 10000"),
    "bins on enum": ({"type": "enum", "count": 3, "bins": 2}, "'bins' needs 'treat_as'"),
    "treat_as unknown": ({"type": "enum", "count": 3, "treat_as": "x"}, "'treat_as' must be 'number-or-missing'"),
    "treat_as alone": (TREATED, "'treat_as' needs 'count' or 'maxval'"),
    "treat_as of values": (TREATED | {"values": [1]}, "'treat_as' and 'values' are both given"),
    "treat_as of nothing": (TREATED | {"count": 1}, "at least one number"),
    "out_of_domain unknown": (INTEGER | {"out_of_domain": "drop"}, "must be one of reject, clamp, missing"),
    "out_of_domain missing without code": (INTEGER | {"out_of_domain": "missing"}, "needs a 'missing' code"),
    "clamp of words": ({"type": "enum", "values": ["a"], "out_of_domain": "clamp"}, "needs numbers"),
    "string": ({"type": "string"}, 'is for row names ("uuid": true)'),
    "broken first row name": ({"type": "integer", "uuid": True, "min": 0.5}, "'min' must be a whole number"),
    "domain from data": ({"type": "enum", "values_from": "data"}, "'domain_privacy' must say on what terms"),
    "private domain without a cell for the rest": (DATA | {"domain_privacy": "private"}, "that are not released"),
    "terms without domain from data": ({"type": "enum", "count": 3, "domain_privacy": "waived"}, "needs 'values_from'"),
    "domain from data in an order": (DATA | {"ordered": True}, "'values_from' and 'ordered' are both given"),
    "domain from data and values": (DATA | {"values": ["a"]}, "'values_from' and 'values' are both given"),
    "domain from data and rule": (DATA | {"out_of_domain": "clamp"}, "'out_of_domain' are both given; keep one"),
    "domain from elsewhere": (DATA | {"values_from": "web"}, "'values_from' must be 'data'"),
    "codebook and values": ({"type": "enum", "domain_from": "codebook", "values": [1]}, "'values' are both given"),
    "date without a range": ({"type": "date", "min": "2020-01-01"}, "'max' is missing: the range of a date must be"),
    "date with numbers": (
        {"type": "date", "min": 2020, "max": 2021},
        "'min' must be a string, such as \"2024-12-31\", or beside 'since' \"5 days\"",
    ),
    "date in words": (DATE | {"min": "soon"}, "'min' is written neither in its format nor as ISO 8601 has it without"),
    "date upside down": (DATE | {"min": "2021-01-02"}, "'min' is above 'max'"),
    "time of day in a date": (DATE | {"max": "2021-01-01T10:00"}, "'max' says more than its format or its step can"),
    "unknown directive": (DATE | {"format": "%Y-%q"}, "'format' may hold %Y %m %d"),
    "stray percent": (DATE | {"format": "%Y-%m-%d 100%"}, "'format' may hold %Y %m %d"),
    "format twice": (DATE | {"format": "%Y-%m-%d %-d"}, "'format' says something twice"),
    "time in a date's format": (DATE | {"format": "%Y-%m-%d %H"}, "or what a date does not have"),
    "since a column not there": (
        {"type": "date", "since": "hired", "min": "0 days", "max": "9 days"},
        "'since' is 'hired', which the specs do not name",
    ),
    "above a column not there": (INTEGER | {"above": "base"}, "'above' is 'base', which the specs do not name"),
    "type that is a list": ({"type": ["integer"]}, "'type' must be one of enum, "),
    "type of another tool": ({"type": "int", "min": 0}, "place, size, string (did you mean 'integer'?)"),
    "format of letters": (DATE | {"format": "DD.MM.YYYY"}, "'format' says nothing: it is made of %Y %m %d"),
    "format without a year": (DATE | {"format": "%m-%d"}, "'format' does not say the year"),
    "format without a month": (DATE | {"format": "%Y-%d"}, "'format' does not say the month"),
    "datetime without a time": (DATE | {"type": "datetime", "format": "%Y-%m-%d"}, "'format' does not say the hour"),
    "twelve hours": ({"type": "time", "format": "%I:%M"}, "'format' needs both %I and %p"),
    "step of no form": (DATE | {"step": "P1D"}, "'step' must be such as \"15 minutes\", of one of microsecond,"),
    "step finer than the format": (DATE | {"step": "1 hour"}, "'step' is finer than what its format can tell"),
    "step that does not divide": (DATE | {"step": "7 days"}, "'step' does not divide the time from 'min' to 'max'"),
    "months that do not begin": (DATE | {"min": "2020-01-15", "step": "1 month"}, "'min' says more than its format"),
    "too many steps": (
        {"type": "datetime", "format": "%Y-%m-%dT%H:%M:%S.%f", "min": "0001-01-01", "max": "9999-12-31"},
        "its range has 2^53 steps or more",
    ),
    "zone of a date": (DATE | {"zone": "UTC"}, "'zone' goes with a datetime alone"),
    "unknown zone": (DATE | {"type": "datetime", "zone": "Berlin"}, "'zone' is not the name of a time zone"),
    "key of a number on a date": (DATE | {"bins": 3}, "the key 'bins' does not go with the type 'date'"),
    "missing date without a code": (DATE | {"out_of_domain": "missing"}, "needs a 'missing' code"),
    "true alone": ({"type": "boolean", "true": "Y"}, "'true' and 'false' go together"),
    "a spelling twice": ({"type": "boolean", "true": ["Y", "y"], "false": "N"}, "have a spelling in common, or one"),
    "a spelling of both": ({"type": "boolean", "true": "Y", "false": ["N", "y"]}, "have a spelling in common, or one"),
    "an empty spelling": ({"type": "boolean", "true": "Y", "false": ""}, "the empty cell is neither true nor false"),
    "boolean to be clamped": ({"type": "boolean", "out_of_domain": "clamp"}, '"clamp" needs numbers'),
    "constant without a value": ({"type": "constant"}, "the key 'value' is missing"),
    "text with a list": ({"type": "text", "values": ["a"]}, "the key 'values' does not go with the type 'text'"),
    "half of a character": ({"type": "enum", "values": ["a", "\ud800"]}, "it holds half of a character"),
    "half of one in words": (INTEGER | {"description": "\udfff"}, "it holds half of a character"),
    "NUL": ({"type": "enum", "values": ["a"], "missing": ["\0"]}, "it holds a NUL"),
    "NUL in a map": ({"derived": {"from": "GOOD", "map": {"1": "\0"}}}, "it holds a NUL"),
    "missing codes for all": (INTEGER | {"max": 1, "missing": [0, 1]}, "take every number of its range"),
    "missing codes for all days": (
        {"type": "date", "min": "2020-01-01", "max": "2020-01-01", "missing": ["2020-01-01"]},
        "take every number of its range",
    ),
    "no number in the range": ({"type": "float", "min": 0.1, "max": 0.4, "decimals": 0}, "no number with the digits"),
    "no tenth in the range": ({"type": "float", "min": 0.01, "max": 0.04, "decimals": 1}, "no number with the digits"),
    "more numbers than can be counted": ({"type": "float", "min": 0, "max": 1e9, "decimals": 12}, "can be counted"),
    "width beside decimals": (INTEGER | {"width": 3, "decimals": 1}, "'width' and 'decimals' are both given"),
}


@pytest.mark.parametrize("case", REFUSED_COLUMNS)
def test_column_is_refused_by_name_and_key_when(case):
    keys, sentence = REFUSED_COLUMNS[case]
    refuse({"GOOD": {"type": "enum", "count": 2}, "BAD": keys}, sentence)


ENUM = {"type": "enum", "count": 3}
LAYOUT: dict[str, Any] = {"kind": "image", "shape": [2, 3, 1], "pixels": {"prefix": "p", "from": 0}, "label": "y"}
LABEL = {"type": "enum", "count": 10}


def test_layout_gives_pixel_columns_in_its_place_when_specs_have_one():
    schema = parse({"a": ENUM, "layout": LAYOUT, "y": LABEL})
    pixels = ("p0", "p1", "p2", "p3", "p4", "p5")
    assert tuple(schema.by_name) == ("a", *pixels, "y")
    assert schema.by_name["p4"] == NumericColumn(name="p4", minimum=0.0, maximum=255.0, integer=True)
    assert schema.layout == ImageLayout(shape=(2, 3, 1), pixels=pixels, minimum=0, maximum=255, label="y")


def test_layout_counts_channels_and_range_when_it_says_so():
    pixels = {"prefix": "", "from": 7, "min": 1, "max": 16}
    schema = parse({"layout": LAYOUT | {"shape": [1, 2, 3], "pixels": pixels}, "y": LABEL})
    assert schema.layout is not None
    assert schema.layout.pixels == ("7", "8", "9", "10", "11", "12")
    assert schema.by_name["12"] == NumericColumn(name="12", minimum=1.0, maximum=16.0, integer=True)


def test_layout_column_is_a_column_when_it_has_a_type_or_is_derived():
    schema = parse({"layout": ENUM, "x": ENUM})
    assert schema.layout is None
    assert schema.by_name["layout"] == CategoricalColumn(name="layout", tokens=("0", "1", "2"), integer=True)
    derived = parse({"layout": {"derived": {"from": "x", "multiply": 2}}, "x": ENUM})
    assert isinstance(derived.by_name["layout"], DerivedColumn)
    with pytest.raises(SpecsError, match="Column 'layout' in the specs: unknown keys 'kind', 'shape'"):
        parse({"layout": ENUM | LAYOUT})


def test_pixel_is_a_source_when_another_column_is_derived_from_it():
    schema = parse({"layout": LAYOUT, "y": LABEL, "dark": {"derived": {"from": "p3", "floordiv": 128}}})
    assert isinstance(schema.by_name["dark"], DerivedColumn)


REFUSED_LAYOUTS: dict[str, tuple[dict[str, Any], str]] = {
    "no kind": ({"kind": ...}, "the key 'kind' is missing"),
    "other kind": ({"kind": "sound"}, "'kind' must be 'image'"),
    "no shape": ({"shape": ...}, "the key 'shape' is missing"),
    "no pixels": ({"pixels": ...}, "the key 'pixels' is missing"),
    "no label": ({"label": ...}, "the key 'label' is missing"),
    "no prefix": ({"pixels": {}}, "the key 'pixels.prefix' is missing"),
    "misspelt": ({"labels": "y"}, "unknown key 'labels' (did you mean 'label'?)"),
    "misspelt pixels": ({"pixels": {"prefix": "p", "form": 0}}, "unknown key 'pixels.form' (did you mean 'from'?)"),
    "flat": ({"shape": [6]}, "'shape' must have at least 2 items"),
    "deep": ({"shape": [1, 2, 3, 1]}, "'shape' must have at most 3 items"),
    "no list": ({"shape": 6}, "'shape' must be a list"),
    "zero": ({"shape": [0, 6]}, "'shape' (each item) must be at least 1"),
    "fraction": ({"shape": [1.5, 4]}, "'shape' (each item) must be a whole number"),
    "truth": ({"shape": [True, 6]}, "'shape' (each item) must be a whole number"),
    "two channels": ({"shape": [1, 3, 2]}, "the third number of 'shape' must be 1 (gray) or 3 (red, green, blue)"),
    "too many": ({"shape": [257, 256]}, f"65792 columns of pixels, and there may be at most {MAX_PIXELS}"),
    "negative": ({"pixels": {"prefix": "p", "from": -1}}, "'pixels.from' must be at least 0"),
    "beyond a byte": ({"pixels": {"prefix": "p", "max": 256}}, "'pixels.max' must be at most 255"),
    "no range": ({"pixels": {"prefix": "p", "min": 9, "max": 9}}, "'pixels.min' must be below 'pixels.max'"),
    "clash": ({"pixels": {"prefix": "q"}}, "it declares 'q0' as a pixel, and the specs list a column of that name"),
    "clashes": ({"pixels": {"prefix": "r"}}, "(2 such columns)"),
    "pixel as label": ({"label": "p1"}, "its 'label', 'p1', is no column that the specs list"),
    "layout as label": ({"label": "layout"}, "its 'label', 'layout', is no column that the specs list"),
    "number as label": ({"label": "q0"}, "its 'label', 'q0', must be a column of categories"),
    "row name as label": ({"label": "r1"}, "its 'label', 'r1', must be a column of categories"),
}


@pytest.mark.parametrize("case", REFUSED_LAYOUTS)
def test_layout_is_refused_in_one_sentence_when(case):
    changes, sentence = REFUSED_LAYOUTS[case]
    layout = {key: value for key, value in (LAYOUT | changes).items() if value is not ...}
    others = {"q0": {"type": "integer", "min": 0, "max": 9}, "r1": ENUM | {"uuid": True}, "r2": ENUM}
    refuse({"layout": layout, "y": LABEL, **others}, sentence, of="The layout in the specs: ")


MAP = {"0": "a", "1": "b", "2": "c"}
REFUSED_DERIVATIONS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no source": (ENUM, {"floordiv": 2}, "'derived.from' is missing"),
    "itself": (ENUM, {"from": "BAD", "floordiv": 2}, "it is derived from itself"),
    "derived source": (
        {"derived": {"from": "GOOD", "multiply": 2}},
        {"from": "S", "floordiv": 2},
        "derived from 'S', which is derived too",
    ),
    "derived column in SQL": (
        {"derived": {"from": "GOOD", "multiply": 2}},
        {"sql": "GOOD + S"},
        "'derived.sql' reads 'S', which is derived too: name the columns that it is derived from",
    ),
    "itself in SQL": (ENUM, {"sql": "S + BAD"}, "'derived.sql' reads itself"),
    "a time in SQL": (
        {"type": "date", "min": "2024-01-01", "max": "2024-12-31"},
        {"sql": "S - DATE '2024-01-01'"},
        "'derived.sql' gives neither text nor numbers; a time divided by INTERVAL '1 day' is a number",
    ),
    "unknown in SQL": (ENUM, {"sql": "S + T"}, "'derived.sql' names 'T', which the specs do not"),
    "row name": (ENUM | {"uuid": True}, {"from": "S", "floordiv": 2}, "which is a row name"),
    "no rule": (ENUM, {"from": "S"}, "needs exactly one of"),
    "two rules": (ENUM, {"from": "S", "multiply": 2, "floordiv": 2}, "needs exactly one of"),
    "misspelt rule": (ENUM, {"from": "S", "floordivide": 2}, "unknown key 'derived.floordivide'"),
    "decimals within": (ENUM, {"sql": "S", "decimals": 2}, "key 'derived.decimals' (it stands beside 'derived')"),
    "zero": (ENUM, {"from": "S", "floordiv": 0}, "'derived.floordiv' must be at least 1"),
    "fraction": (ENUM, {"from": "S", "multiply": 1.5}, "'derived.multiply' must be a whole number"),
    "words": ({"type": "enum", "values": ["a"]}, {"from": "S", "multiply": 2}, "need whole numbers"),
    "reals": ({"type": "float", "min": 0, "max": 1}, {"from": "S", "multiply": 2}, "need whole numbers"),
    "open words": (DATA, {"from": "S", "multiply": 2}, "need whole numbers"),
    "map of open domain": (DATA, {"from": "S", "map": MAP}, "known list of at most"),
    "map of reals": ({"type": "float", "min": 0, "max": 1}, {"from": "S", "map": MAP}, "known list of at most"),
    "map leaves out": (ENUM, {"from": "S", "map": {"0": "a", "1": "b"}}, "leaves out 1 legal cell of 'S'"),
    "map leaves out missing": (ENUM | {"missing": ["N"]}, {"from": "S", "map": MAP}, "leaves out 1 legal cell of"),
    "map has more": (ENUM, {"from": "S", "map": MAP | {"3": "d"}}, "has 1 key for cells that 'S' does not have"),
    "map empty": (ENUM, {"from": "S", "map": {}}, "'derived.map' must have at least 1 item"),
    "map to list": (ENUM, {"from": "S", "map": MAP | {"2": []}}, "(each item) must be a string or a whole number"),
}


@pytest.mark.parametrize("case", REFUSED_DERIVATIONS)
def test_derived_column_is_refused_by_name_when(case):
    source, derived, sentence = REFUSED_DERIVATIONS[case]
    refuse({"GOOD": {"type": "enum", "count": 2}, "BAD": {"derived": derived}, "S": source}, sentence)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"type": "enum", "maxval": 0}, "gives 1 cell that its own domain does not have"),
        ({"type": "integer", "min": 0, "max": 0}, "gives 1 cell that its own domain does not have"),
        ({"count": 2}, "the key 'type' is missing beside its domain"),
        ({"type": "integer", "uuid": True}, "'uuid' and 'derived' are both given"),
        ({"type": "enum", "values_from": "data", "domain_privacy": "waived"}, "'values_from' and 'derived'"),
        ({"type": "enum", "count": 99, "ordered": True}, "'ordered' is for what is trained"),
    ],
)
def test_derived_column_is_refused_when_its_own_keys_contradict(keys, sentence):
    refuse({"BAD": keys | {"derived": {"from": "S", "floordiv": 2}}, "S": ENUM}, sentence)


def test_wide_column_is_refused_and_the_others_counted_when_enums_pass_the_limit():
    wide = {f"W{index}": {"type": "enum", "count": MAX_CATEGORIES + index} for index in range(8)}
    refuse(wide, "its 10001 codes are more than 10000, which need a list", of="Column 'W1' in the specs: ")
    refuse(wide, "; and 6 more problems: `python -m dpwgan specs check` lists all.", of="Column 'W1' in the specs: ")


def test_first_column_is_named_when_many_are_wrong():
    # By chance, as jsonschema's order has it, in one run of 64.
    refuse({f"C{place}": {"type": "int"} for place in range(64)}, "'type' must be", of="Column 'C0' in the specs: ")


REFUSED_FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not JSON"),
    "binary": (b"\x1f\x8b\x08\0\xff", "not UTF-8"),
    "a table": (b"a,b\n1,2\n", "not JSON: Expecting value at line 1"),
    "null": (b"null", "one JSON object"),
    "infinity": (b'{"A": {"type": "float", "min": 0, "max": Infinity}}', "hold Infinity"),
    "1e999": (b'{"A": {"type": "float", "min": 0, "max": 1e999}}', "too large for a double"),
    "deep": (b'{"A": ' + b"[" * 100_000, "not JSON"),
    "objects in objects": (b'{"A": ' + b'{"B": ' * 600 + b"1" + b"}" * 601, "too deep to be read"),
    "number of 5,000 digits": (b'{"A": {"type": "enum", "count": ' + b"9" * 5000 + b"}}", "not JSON"),
}


@pytest.mark.parametrize("case", REFUSED_FILES)
def test_specs_file_is_refused_when(case, tmp_path):
    content, sentence = REFUSED_FILES[case]
    (tmp_path / "specs.json").write_bytes(content)
    with pytest.raises(SpecsError, match=re.escape(sentence)) as caught:
        read_specs(tmp_path / "specs.json")
    assert caught.value.exit_code == 78


@pytest.mark.parametrize(
    ("keys", "name", "sentence"),
    [
        ({}, "R", "lists no codes for 'R'"),
        ({}, "NOT_THERE", "lists no codes for 'NOT_THERE'"),
        ({"maxval": 3}, "L", "are not whole numbers"),
    ],
)
def test_codebook_domain_is_refused_when_it_does_not_fit(keys, name, sentence):
    with pytest.raises(SpecsError, match=sentence):
        parse_enum({"domain_from": "codebook"} | keys, name=name, codebook=CODEBOOK)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner), max_leaves=8
)
KEYS = tuple(json.loads(SCHEMA_FILE.read_text())["$defs"]["column"]["properties"])


@given(
    st.dictionaries(
        st.sampled_from(["A", "B"]),
        st.dictionaries(
            st.sampled_from(KEYS),
            anything
            | st.sampled_from(["enum", "integer", "float", "string", "codebook", "data", "waived", "missing"])
            | st.integers(0, 9)
            | st.fixed_dictionaries({"from": st.sampled_from(["A", "B"]), "floordiv": st.integers(1, 9)}),
            max_size=5,
        ),
    )
    | anything
)
def test_any_document_is_a_schema_or_a_specs_error_when_made_up(document):
    sentence = "."
    try:
        parse(document)
    except SpecsError as error:
        sentence = str(error)
    assert sentence.endswith(".")


def test_columns_of_as_many_codes_share_them_when_there_are_many():
    schema = parse({f"c{number}": {"type": "enum", "count": 10_000} for number in range(50)})
    assert len({id(column.tokens) for column in schema.columns if isinstance(column, CategoricalColumn)}) == 1


@pytest.mark.parametrize("name", ["\ufeffBAD", "BAD\0", "\ud83d"])
def test_specs_are_refused_when_no_header_can_hold_a_name(name):
    with pytest.raises(SpecsError, match=r"its name begins with|it holds"):
        parse({name: ENUM})


@pytest.mark.parametrize("missing", [["1", "1.0"], ["1", " 1"], ["?", "? "], [1, "01"], [7, 7.0]])
@pytest.mark.parametrize("kind", [{"type": "integer", "min": 0, "max": 9}, {"type": "enum", "values": ["a"]}])
def test_specs_are_refused_when_two_missing_codes_are_one_cell(kind, missing):
    with pytest.raises(SpecsError, match=r"Column 'C'.*(the same cell|the same item twice|a cell twice)"):
        parse_specs({"C": {**kind, "missing": missing}}, sha256="0")
