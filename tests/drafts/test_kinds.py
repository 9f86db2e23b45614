"""Every kind of dictionary: what is drafted from it, what it leaves open, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from dpwgan.drafts.entry import Entry, format_draft, list_holes, write_draft
from dpwgan.drafts.kinds import KINDS, draft_specs
from dpwgan.errors import SpecsError
from dpwgan.table.specs import Problems, parse_specs, survey_specs

FOLDER = Path(__file__).parent / "dictionaries"

SEX: dict[str, Any] = {"type": "enum", "values": ["f", "m"]}
AGE: dict[str, Any] = {"type": "integer", "min": 0, "max": 120}
BLANK: dict[str, Any] = {"missing": ["NA"], "optional": True}
VISITS: dict[str, Any] = {
    "visit": {"type": "integer", "uuid": True},
    "sex": SEX,
    "age": {**AGE, **BLANK, "description": "Age in years"},
    "ward": {"type": "enum", "values": ["01", "02"], "missing": ["99"]},
    "fee": {"type": "float", "min": 0, "max": 500},
    "smoker": {"type": "boolean", "true": ["yes"], "false": ["no"], **BLANK},
    "seen": {"type": "date", "format": "%d/%m/%Y", "min": "01/01/2024", "max": "31/12/2024"},
    "hour": {"type": "time", "format": "%H:%M:%S"},
    "doctor": {"type": "enum", "values": None},
    "mail": {"type": "text"},
    "place": {"type": None, **BLANK},
}
DRAFTS: dict[str, dict[str, Any]] = {
    "frictionless.json": {**VISITS, "visit": {**VISITS["visit"], "description": "Number of the visit"}},
    "csvw.json": {
        **VISITS,
        "fee": {**VISITS["fee"], "decimals": 2},
        "hour": {"type": "time", "format": None},
        "place": {"type": None},
    },
    "json-schema.json": {
        "visit": {"type": "string", "description": "Number of the visit", "uuid": True},
        "sex": SEX,
        "age": {**AGE, "optional": True, "description": "Age in years"},
        "ward": {"type": "enum", "values": ["01", "02"]},
        "fee": {**VISITS["fee"], "decimals": 2},
        "smoker": {"type": "boolean", "optional": True},
        "seen": {"type": "date", "format": "%Y-%m-%d", "min": None, "max": None},
        "hour": VISITS["hour"],
        "paid": {"type": "datetime", "format": "%Y-%m-%dT%H:%M:%SZ", "min": None, "max": None},
        "doctor": VISITS["doctor"],
        "mail": VISITS["mail"],
        "place": {"type": None, "optional": True},
    },
    "ddi.xml": {
        "sex": {**SEX, "description": "Sex of the patient"},
        "age": {**AGE, "missing": ["999", "996", "997", "998"], "description": "Age in years"},
        "ward": {"type": "enum", "values": [1, 2], "missing": ["99"]},
        "fee": {"type": "float", "min": None, "max": None, "decimals": 2},
        "smoker": {"type": "enum", "values": [1, 2], "optional": True},
        "weight": {"type": "integer", "min": 0, "max": None},
        "doctor": {"type": "enum", "values": None},
    },
    "sdv.json": {
        "visit": {"type": "string", "uuid": True},
        "sex": {"type": "enum", "values": None},
        "age": {"type": "integer", "min": None, "max": None},
        "fee": {"type": "float", "min": None, "max": None},
        "score": {"type": None},
        "smoker": {"type": "boolean"},
        "seen": {"type": "date", "format": "%d/%m/%Y", "min": None, "max": None},
        "paid": {"type": "datetime", "format": None, "min": None, "max": None},
        "mail": {"type": "text"},
        "other": {"type": None},
    },
    "dpsynth.yaml": {
        "sex": SEX,
        "age": {**AGE, "out_of_domain": "missing", "optional": True, "description": "Age in years"},
        "fee": {"type": "float", "min": 0, "max": 500, "out_of_domain": "clamp"},
        "smoker": {"type": "boolean"},
        "doctor": {"type": "enum", "values_from": "data", "domain_privacy": "private", "missing": ["<OOD>"]},
        "note": {"type": "text"},
    },
    "redcap.csv": {
        "visit": {"type": "string", "uuid": True, "description": "Number of the visit"},
        "sex": SEX,
        "age": {**AGE, "optional": True, "description": "Age in years"},
        "ward": {"type": "enum", "values": ["01", "02"], "optional": True, "description": "if [sex] = 'f'"},
        "fee": {**VISITS["fee"], "decimals": 2},
        "smoker": {"type": "enum", "values": ["1", "0"]},
        "heard___1": {"type": "enum", "values": [0, 1]},
        "heard____9": {"type": "enum", "values": [0, 1]},
        "seen": {"type": "date", "format": "%Y-%m-%d", "min": "2024-01-01", "max": None},
        "hour": {"type": "time", "format": "%H:%M"},
        "came": {"type": "datetime", "format": "%Y-%m-%d %H:%M:%S", "min": None, "max": None},
        "total": {"type": None},
        "name": {"type": "text"},
        "note": {"type": "text"},
        "place": {"type": None, "optional": True},
    },
    "private-pgm.json": {
        "sex": {"type": "enum", "count": 2},
        "age": {"type": "enum", "count": 121},
        "ward": {"type": "enum", "values": ["01", "02"]},
        "income": {"type": "integer", "min": 0, "max": 999_999},
    },
    "sdnist.json": {
        "AGEP": {"type": "integer", "min": 0, "max": 99, "description": "Person's age"},
        "SEX": {"type": "enum", "values": ["1", "2"], "description": "Person's gender"},
        "MSP": {"type": "enum", "values": [*"123456"], "missing": ["N"], "description": "Marital Status"},
        "NOC": {
            **{"type": "integer", "min": 0, "max": 19, "missing": ["N"]},
            "description": "Number of own children in household (unweighted)",
        },
        "DENSITY": {
            **{"type": "float", "min": 16.3, "max": 52864.7},
            "description": "Population density among residents of each PUMA",
        },
        "INDP": {"type": "enum", "values": None, "description": "Industry codes"},
        "PINCP": {
            **{"type": "integer", "min": -9000, "max": 1341000, "missing": ["N"]},
            "description": "Person's total income in dollars",
        },
    },
    "sheet.csv": {
        "visit": {"type": "string", "uuid": True, "description": "Number of the visit"},
        "sex": SEX,
        "age": {**AGE, **BLANK, "description": "Age in years"},
        "ward": VISITS["ward"],
        "fee": {**VISITS["fee"], "decimals": 2},
        "smoker": {"type": "boolean"},
        "seen": VISITS["seen"],
        "hour": {"type": "time", "format": "%H:%M"},
        "children": {"type": "integer", "min": 0, "max": 10, "missing": ["98"]},
        "mark": {"type": "enum", "values": [*"12345"], "ordered": True},
        "doctor": VISITS["doctor"],
        "mail": {"type": "text"},
        "place": {"type": None, "optional": True},
    },
    "ipums.cbk": {
        "SEX": {"type": "enum", "values": [1, 2], "description": "Sex"},
        "INCWAGE": {"type": "integer", "min": None, "max": None},
        "METRO": {"type": "enum", "values": ["0", "02", "B3"], "description": "Metropolitan status"},
    },
    "variables.txt": {
        "SEX": {"type": None, "description": "reports whether the person was male or female."},
        "AGE": {"type": None, "description": "reports the age in years"},
    },
}


def draft(name: str) -> tuple[str, dict[str, dict[str, Any]]]:
    return draft_specs((FOLDER / name).read_bytes())


def survey(specs: dict[str, Any]) -> Problems:
    survey_specs(specs, problems := Problems(), sha256="")
    return problems


def test_every_kind_has_a_dictionary_here_when_counted():
    assert {Path(name).stem for name in DRAFTS} == set(KINDS)
    assert {path.name for path in FOLDER.iterdir()} == {*DRAFTS, "README.md"}


@pytest.mark.parametrize("name", DRAFTS)
def test_dictionary_is_recognised_and_drafted_column_by_column(name):
    kind, specs = draft(name)
    assert kind == Path(name).stem
    assert list(specs.items()) == list(DRAFTS[name].items())


@pytest.mark.parametrize("name", DRAFTS)
def test_nulls_are_all_that_is_wrong_with_a_draft_when_it_is_read_as_specs(name):
    _, specs = draft(name)
    problems = survey(json.loads(format_draft(specs)))
    assert problems.columns == {name for name, keys in specs.items() if list_holes(keys)}
    assert all("still to be filled in" in str(error) for error in problems.found)


@pytest.mark.parametrize("kind", [None, "variables"])
def test_list_has_every_name_when_they_are_in_any_case(kind):
    lines = "ID: number\r\nage: in years\r\nMarital status : s\r\nhttps://a.org/b\r\nbmi.2:\r\n  see: there\r\n"
    found, specs = draft_specs(lines.encode(), kind=kind)
    assert found == "variables"
    told = {"ID": "number", "age": "in years", "Marital status": "s", "bmi.2": None}
    assert {name: keys.get("description") for name, keys in specs.items()} == told


def test_list_has_names_without_marks_when_it_is_one_of_markdown():
    lines = ("- a: x", "* `b_`: x", "\u2022 **c**: x", "1. d: x", "12) e: x", "-f: x", "2.5 g: x")
    _, specs = draft_specs("\n".join(lines).encode())
    assert list(specs) == ["a", "b_", "c", "d", "e", "-f", "2.5 g"]


def test_table_is_chosen_by_name_when_a_package_describes_several():
    package = json.loads((FOLDER / "frictionless.json").read_text())
    package["resources"][0]["schema"] = {"fields": [{"name": "code", "type": "integer"}]}
    content = json.dumps(package).encode()
    assert list(draft_specs(content, table="codes")[1]) == ["code"]
    for table, words in ((None, r"2 tables: say which by --table \('codes', 'visits'\)"), ("x", "no table 'x'")):
        with pytest.raises(SpecsError, match=words):
            draft_specs(content, table=table)


BAD: dict[str, tuple[bytes, str | None, str]] = {
    "binary": (b"PK\x03\x04\0\0", None, "binary"),
    "unknown": (b"once upon a time", None, "of no form that is known"),
    "no JSON": (b'{"fields": [', None, "not JSON that can be read: Expecting value at line 1"),
    "another kind": (b'{"fields": []}', "sdv", "is no SDV metadata"),
    "no columns": (b'{"fields": []}', None, "names no column"),
    "a column twice": (b'{"fields": [{"name": "a"}, {"name": "a"}]}', None, "column 'a' twice"),
    "a field without a name": (b'{"fields": [{}]}', None, "breaks the rules of its form"),
    "a schema elsewhere": (b'{"resources": [{"name": "a", "schema": "a.json"}]}', None, "draft from that one"),
    "no columns in CSVW": (b'{"tableSchema": "a.json"}', None, "is another file"),
    "no XML": (b"<codeBook><var>", None, "not well-formed XML"),
    "no YAML": (b"a: [possible_values: }", None, "not YAML that can be read"),
    "no attributes": (b"- possible_values: 3", None, "attributes by their name are missing"),
}


@pytest.mark.parametrize("case", BAD)
def test_dictionary_is_refused_in_one_sentence_when(case):
    content, kind, words = BAD[case]
    with pytest.raises(SpecsError, match=words):
        draft_specs(content, kind=kind)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_document_type_is_refused_when_a_codebook_declares_entities(encoding, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("Zq7secret")
    bomb = f'<?xml version="1.0"?><!DOCTYPE codeBook [<!ENTITY a SYSTEM "{secret}">]><codeBook>&a;</codeBook>'
    with pytest.raises(SpecsError, match="document type declaration"):
        draft_specs(bomb.encode(encoding), kind="ddi" if encoding == "utf-8" else None)


def test_statistics_of_the_rows_are_not_read_when_a_codebook_has_them():
    _, specs = draft("ddi.xml")
    assert list_holes(specs["fee"]) == ["min", "max"]
    assert "17" not in json.dumps(specs["age"])


def test_number_of_which_a_codebook_says_nothing_may_be_whole_or_not():
    book = '<codeBook><var name="a" intrvl="contin"/><var name="b" intrvl="contin" dcml="0"/></codeBook>'
    _, specs = draft_specs(book.encode())
    assert specs == {"a": {"type": None}, "b": {"type": "integer", "min": None, "max": None}}


def test_spellings_count_once_when_they_differ_in_case_alone():
    keys = Entry(name="a", type="boolean", true=["true", "True", "1"], false=["0"], missing=["NaN", "nan"]).write()
    assert keys == {"type": "boolean", "true": ["true", "1"], "false": ["0"], "missing": ["NaN"]}


@pytest.mark.parametrize(
    ("said", "drafted"),
    [
        ({"type": "boolean", "true": ["x"], "false": [""]}, {"type": "enum", "values": ["x"], "optional": True}),
        (
            {"type": "boolean", "true": ["1"], "false": ["9"], "missing": ["9"]},
            {"type": "enum", "values": ["1"], "missing": ["9"]},
        ),
        ({"type": "boolean", "true": ["J"]}, {"type": "boolean", "true": ["J"], "false": ["false", "0"]}),
        (
            {"type": "boolean", "false": ["N", ""]},
            {"type": "boolean", "true": ["true", "1"], "false": ["N"], "optional": True},
        ),
        (
            {"type": "enum", "values": ["a", "", 9], "missing": ["9"]},
            {"type": "enum", "values": ["a"], "missing": ["9"], "optional": True},
        ),
    ],
)
def test_what_means_not_available_is_no_value_as_well(said, drafted):
    keys = Entry(name="a", **said).write()
    assert keys == drafted
    assert not survey({"a": keys}).found


@pytest.mark.parametrize(
    ("pattern", "style"),
    [
        ("M/d/yyyy", "%-m/%-d/%Y"),
        ("yyyy-MM-dd'T'HH:mm:ss", "%Y-%m-%dT%H:%M:%S"),
        ("d MMM yyyy", None),
        ("HH:mmX", None),
    ],
)
def test_date_patterns_of_csvw_are_told_or_left_open(pattern, style):
    column = {"name": "a", "datatype": {"base": "datetime", "format": pattern}}
    _, specs = draft_specs(json.dumps({"tableSchema": {"columns": [column]}}).encode())
    assert specs["a"]["format"] == style


def test_moments_of_csvw_are_in_utc_where_their_range_is():
    told = {"base": "dateTime", "minimum": "2020-01-01T00:00:00Z", "maximum": "2020-12-31T00:00:00Z"}
    columns = [{"name": "a", "datatype": told, "required": True}]
    _, specs = draft_specs(json.dumps({"tableSchema": {"columns": columns}}).encode())
    assert specs["a"]["format"] == "%Y-%m-%dT%H:%M:%SZ"
    assert not survey(specs).found


def test_month_of_frictionless_is_a_date():
    field = {"name": "a", "type": "yearmonth", "constraints": {"minimum": "2020-01", "maximum": "2021-12"}}
    _, specs = draft_specs(json.dumps({"fields": [field]}).encode())
    assert specs["a"] == {"type": "date", "format": "%Y-%m", "min": "2020-01", "max": "2021-12", "optional": True}
    assert not survey(specs).found


def test_json_schema_that_refers_to_itself_is_refused():
    with pytest.raises(SpecsError, match="breaks the rules of its form, JSON Schema"):
        draft_specs(b'{"properties": {"a": {"$ref": "#/properties/a"}}}')


def test_property_of_a_json_schema_that_may_be_anything_is_left_open():
    _, specs = draft_specs(b'{"properties": {"a": true, "b": {"type": "boolean", "allOf": [true]}}, "required": ["b"]}')
    assert specs == {"a": {"type": None, "optional": True}, "b": {"type": "boolean"}}


def test_bounds_of_a_dictionary_are_left_open_when_they_are_no_numbers():
    _, specs = draft_specs(b'{"properties": {"a": {"type": "number", "minimum": NaN, "maximum": 1e999}}}')
    assert specs == {"a": {"type": "float", "min": None, "max": None, "optional": True}}
    _, specs = draft_specs(b"name,type,min,max\na,float,0,1e999\n")
    assert specs == {"a": {"type": "float", "min": 0, "max": None, "optional": True}}


def test_bounds_of_a_json_schema_are_left_out_where_openapi_says_that_they_are():
    bounds = {"minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False}
    document = {"properties": {"a": {"type": "integer", **bounds}}, "required": ["a"]}
    assert draft_specs(json.dumps(document).encode())[1] == {"a": {"type": "integer", "min": 1, "max": 9}}


def test_order_of_categories_of_frictionless_is_said():
    field = {"name": "pain", "type": "string", "categories": ["none", "some", "much"], "categoriesOrdered": True}
    _, specs = draft_specs(json.dumps({"fields": [field]}).encode())
    assert specs["pain"] == {"type": "enum", "values": field["categories"], "ordered": True, "optional": True}
    assert not survey(specs).found
    (column,) = parse_specs(specs, sha256="0" * 64).columns
    assert column.parts[0].ordered


def test_draft_is_json_with_a_column_a_line_when_written():
    specs = write_draft([Entry(name="a"), Entry(name="b", type="enum", values=list(range(100)))])
    text = format_draft(specs)
    assert json.loads(text) == specs
    assert text.splitlines()[:4] == ["{", '  "a": {"type": null},', '  "b": {', '    "type": "enum",']


def _draft_sheet(*rows: str) -> dict[str, Any]:
    kind, specs = draft_specs("\n".join(rows).encode())
    assert kind == "sheet"
    return specs


SHEETS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "a code a row": (
        ("Variable,Value,Value label,Nullable", "a,1,Male,no", ",2,Female,", "b,0-97,,no", "b,98,Don't know,no"),
        {"a": {"type": "enum", "values": ["1", "2"]}, "b": {"type": "integer", "min": 0, "max": 97, "missing": ["98"]}},
    ),
    "labels with commas": (
        ("name;values;required", "a;1=yes, now, 2=no;x", "b;1-yes, 2-no, 3-other;x"),
        {"a": {"type": "enum", "values": ["1", "2"]}, "b": {"type": "enum", "values": [*"123"]}},
    ),
    "bounds": (
        (
            "Column\tType\tMin\tMax\tMandatory",
            "a\tnumber\t0\t9.5\tY",
            "b\tdate\t2020-01-01\t\tY",
            "c\tnumeric(4)\t\t\tY",
            "d\tdatetime\t2020-01-01 00:00\t\tY",
            "e\tdatetime\t2020-01-01T00:00:00\t\tY",
        ),
        {
            "a": {"type": "float", "min": 0, "max": 9.5},
            "b": {"type": "date", "format": "%Y-%m-%d", "min": "2020-01-01", "max": None},
            "c": {"type": "integer", "min": None, "max": None},
            "d": {"type": "datetime", "format": "%Y-%m-%d %H:%M", "min": "2020-01-01 00:00", "max": None},
            "e": {"type": "datetime", "format": "%Y-%m-%dT%H:%M:%S", "min": "2020-01-01T00:00:00", "max": None},
        },
    ),
    "words": (
        (
            "field|values|required",
            "a|M/F|x",
            "b|N/A|x",
            "c|Yes|x",
            "d|01, 02, ...|x",
            "e|>= 0|x",
            "f|1.5 to 3 mm|x",
            "g|[1, 5]|x",
            "h|0,1|x",
            "i|0-100%|x",
            "j|0-9 mm|x",
        ),
        {
            "a": {"type": "enum", "values": ["M", "F"]},
            **{name: {"type": None} for name in "bcd"},
            "e": {"type": "integer", "min": 0, "max": None},
            "f": {"type": "float", "min": 1.5, "max": 3},
            "g": {"type": "integer", "min": 1, "max": 5},
            "h": {"type": "enum", "values": ["0", "1"]},
            "i": {"type": "integer", "min": 0, "max": 100},
            "j": {"type": "integer", "min": 0, "max": 9},
        },
    ),
    "codes that mean nothing alone": (
        (
            "name,type,values,required",
            "a,Numeric,-9 = Missing,x",
            'b,Numeric,"0 = no, 1 = yes",x',
            'c,Int,"any, above 0",x',
        ),
        {
            "a": {"type": "integer", "min": None, "max": None, "missing": ["-9"]},
            "b": {"type": "enum", "values": ["0", "1"]},
            "c": {"type": "integer", "min": None, "max": None},
        },
    ),
    "types as they are called": (
        ("name,type,format,required", "a,Country code,,x", "b,smallint,,x", "c,Date,%-d.%-m.%y,x"),
        {
            "a": {"type": "enum", "values": None},
            "b": {"type": "integer", "min": None, "max": None},
            "c": {"type": "date", "format": "%-d.%-m.%y", "min": None, "max": None},
        },
    ),
    "names of one thing beside each other": (
        (
            "Variable (short),Label / description,Type,Range / codes,Field length,Required?",
            "a,How old,integer,0-99,2,x",
            "b,,integer,1=yes; 2=no,1,x",
            "c,,YYYY-MM,2023-01 to 2023-06,7,x",
        ),
        {
            "a": {"type": "integer", "min": 0, "max": 99, "description": "How old"},
            "b": {"type": "enum", "values": ["1", "2"]},
            "c": {"type": "date", "format": "%Y-%m", "min": "2023-01", "max": "2023-06"},
        },
    ),
    "a table in Markdown": (
        (
            "# Codebook",
            "",
            "| Variable | Type | Values | Required |",
            "|---|:--|:-:|---|",
            "| a | code | m = male; w = female | x |",
            "| b | date (DD/MM/YYYY) | 01/01/2005 - 31/12/2022 | x |",
        ),
        {
            "a": {"type": "enum", "values": ["m", "w"]},
            "b": {"type": "date", "format": "%d/%m/%Y", "min": "01/01/2005", "max": "31/12/2022"},
        },
    ),
    "a list in JSON": (
        (
            '{"table": "visits", "columns": [',
            '{"name": "a", "label": "Sex", "codes": [{"code": 1, "label": "male"}, {"code": 2, "label": null}]},',
            '{"name": "b", "type": "ordinal", "values": {"01": "mild", "02": "bad"}, "nullable": false},',
            '{"name": "c", "values": ["x", "y"], "codes": "z", "required": true, "min": null},',
            '{"name": "d", "type": "int", "min": 0, "max": 99, "missing": [98, 99], "nullable": false},',
            '{"name": "e"}]}',
        ),
        {
            "a": {"type": "enum", "values": ["1", "2"], "optional": True, "description": "Sex"},
            "b": {"type": "enum", "values": ["01", "02"], "ordered": True},
            "c": {"type": "enum", "values": ["x", "y"]},
            "d": {"type": "integer", "min": 0, "max": 99, "missing": ["98", "99"]},
            "e": {"type": None, "optional": True},
        },
    ),
    "columns by name in JSON": (
        (
            '{"about": {"title": "visits"}, "columns": {',
            '"a": {"description": "Age", "type": "int", "range": [0, 120], "required": true},',
            '"b": {"description": "Sex", "type": "coded", "values": {"1": "male", "2": "female"}, "missing": ["9"]},',
            '"c": {"1": "north", "2": "south"}}}',
        ),
        {
            "a": {"type": "integer", "min": 0, "max": 120, "description": "Age"},
            "b": {
                "type": "enum",
                "values": ["1", "2"],
                "missing": ["9"],
                "optional": True,
                "description": "Sex",
            },
            "c": {"type": "enum", "values": ["1", "2"], "optional": True},
        },
    ),
    "columns by name in JSON, each with a description and a type": (
        ('{"a": {"description": "Age", "type": "int", "min": 0, "max": 9, "nullable": false}}',),
        {"a": {"type": "integer", "min": 0, "max": 9, "description": "Age"}},
    ),
    "a blank that is missing, in words": (
        (
            "name;type;min;max;missing;required",
            "a;float;0;1;blank = sensor error, 9 = refused;x",
            "b;float;0;1;(empty);x",
            "c;float;0;1;half-empty;x",
        ),
        {
            "a": {"type": "float", "min": 0, "max": 1, "missing": ["9"], "optional": True},
            "b": {"type": "float", "min": 0, "max": 1, "optional": True},
            "c": {"type": "float", "min": 0, "max": 1, "missing": ["half-empty"]},
        },
    ),
    "codes between two with labels": (
        (
            "name|type|values|required",
            "a|integer|1 = disagree ... 5 = agree; 9 = refused|x",
            "b|ordinal|0 = no pain, \u2026, 3 = much, 9 = refused|x",
            "c|integer|1 = a; 2 = b; ...; 5 = e|x",
            "d|integer|1 = a, 2 = b, ..., 5 = e|x",
            "f|integer|1 = a ... 3 = c ... 5 = e|x",
            "e|integer|1 = yes, since ...; 3 = no|x",
        ),
        {
            "a": {"type": "integer", "min": 1, "max": 5, "missing": ["9"]},
            "b": {"type": "enum", "values": ["0", "1", "2", "3", "9"], "ordered": True},
            "c": {"type": "integer", "min": None, "max": None},
            "d": {"type": "integer", "min": None, "max": None},
            "e": {"type": "enum", "values": ["1", "3"]},
            "f": {"type": "integer", "min": None, "max": None},
        },
    ),
    "codes that are many": (
        ("name,type,values,required", "a,Categorical,1-12,x", "b,Categorical,1-99999,x"),
        {"a": {"type": "enum", "values": [*map(str, range(1, 13))]}, "b": {"type": "enum", "values": None}},
    ),
}


@pytest.mark.parametrize("case", SHEETS)
def test_sheet_is_read_as_agencies_write_it(case):
    rows, specs = SHEETS[case]
    assert _draft_sheet(*rows) == specs


def test_sheet_of_a_database_has_its_tables_when_one_is_chosen():
    rows = (
        "table_name,column_name,is_nullable,data_type,numeric_precision,numeric_scale,column_key",
        "visits,visit,NO,integer,32,0,PRI",
        "visits,seen,NO,timestamp without time zone,,,",
        "visits,fee,YES,numeric,10,2,",
        "wards,ward,NO,character varying,,,",
    )
    with pytest.raises(SpecsError, match="say which by --table"):
        _draft_sheet(*rows)
    _, specs = draft_specs("\n".join(rows).encode(), table="visits")
    assert specs == {
        "visit": {"type": "string", "uuid": True},
        "seen": {"type": "datetime", "format": None, "min": None, "max": None},
        "fee": {"type": "float", "min": None, "max": None, "decimals": 2, "optional": True},
    }


@pytest.mark.parametrize(
    "text",
    [
        "name,place\na,b\n",
        "x,type\na,int\n",
        "name,type and range\na,int\n",
        "\n" * 10 + "name,type\na,int\n",
        '"' + "a" * 2**18,
    ],
)
def test_no_sheet_is_seen_where_no_header_is(text):
    with pytest.raises(SpecsError, match="of no form that is known"):
        draft_specs(text.encode())
