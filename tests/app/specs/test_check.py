"""`specs check`: every problem in one list, with its column and its line, and no cell."""

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.__main__ import main
from dpwgan.app.specs.lines import find_line, find_lines

SPECS = """\
{
  "age": {"type": "integer", "min": 9,
          "max": 0},
  "sex": {"type": "enum", "values": null},
  "kind": {
    "type": "enum", "count": 3,
    "foo": 1},
  "x": {"type": "float", "min": 0, "max": 9},
  "y": {"derived": {"from": "age", "multiply": 2}},
  "z": {"derived": {"from": "x2", "multiply": 2}},
  "town": {"type": "enum", "values": ["a", "b"]},
  "x": {"type": "integer", "min": 0, "max": 5},
  "late": {"type": "enum", "count": 2}
}
"""
DATA = "age,sex,kind,x,y,z,town,more\n" + "1,f,2,3,2,2,a,\n" + "4,m,7,77,1,1,Zq7secret,\n" * 3
GOOD = {"x": {"type": "integer", "min": 0, "max": 5}, "y": {"type": "enum", "count": 2}}
OF_UNITS = {"unit": {"column": "who", "max_rows": 2}, "x": {"type": "boolean"}}


def check(folder: Path, *arguments: str) -> int:
    return main(["specs", "check", *(str(folder / word) if "." in word else word for word in arguments)])


def judge(folder: Path, specs: str | dict[str, object], table: str) -> int:
    """Checks a table, e.csv, by specs, e.json."""
    (folder / "e.json").write_text(specs if isinstance(specs, str) else json.dumps(specs))
    (folder / "e.csv").write_text(table)
    return check(folder, "e.json", "e.csv")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.json").write_text(SPECS)
    (tmp_path / "d.csv").write_text(DATA)
    return tmp_path


def test_files_that_rules_name_lie_beside_the_specs(tmp_path):
    (tmp_path / "pairs.csv").write_text("x,y\n1,0\n1,1\n")
    rule = {"columns": ["x", "y"], "allowed_from": "pairs.csv"}
    assert judge(tmp_path, json.dumps({**GOOD, "rules": [rule]}), "x,y\n1,1\n") == 0


def test_every_problem_is_listed_with_its_line_when_specs_and_table_are_wrong(folder, capfd):
    assert check(folder, "s.json", "d.csv") == 78
    out, err = capfd.readouterr()
    assert out.replace(f"{folder}/", "").splitlines() == [
        "s.json:2: Column 'age' in the specs: 'min' is above 'max'.",
        "s.json:4: Column 'sex' in the specs: 'values' is null, as a draft leaves it: it is still to be filled in.",
        "s.json:7: Column 'kind' in the specs: unknown key 'foo'.",
        "s.json:10: Column 'z' in the specs: it is derived from 'x2', which the specs do not name.",
        "s.json:12: The specs name 'x' twice in one object.",
        "s.json:13: d.csv: the header of the table does not have the column 'late'.",
        "s.json: d.csv: the specs do not have the column 'more' of the table.",
        "s.json:12: d.csv: column 'x': 3 rows with a cell that is not between 0 and 5.",
        "s.json:11: d.csv: column 'town': 3 rows with a cell that is not one of its legal cells.",
    ]
    assert err == "dpwgan: error: The specs have 5 problems, and the table 4 problems.\n"
    assert "Zq7secret" not in out + err


def test_list_is_json_when_asked(folder, capfd):
    assert check(folder, "s.json", "d.csv", "--json", "-") == 78
    document = json.loads(capfd.readouterr().out)
    assert document["problems"]["specs"][1] == {
        **{"line": 4, "column": "sex", "key": "values", "rows": None},
        "problem": "Column 'sex' in the specs: 'values' is null, as a draft leaves it: it is still to be filled in.",
    }
    assert [problem["rows"] for problem in document["problems"]["data"]] == [None, None, 3, 3]


def test_code_says_whether_specs_or_table_are_wrong_when_only_one_is(folder, capfd):
    good = {"x": {"type": "integer", "min": 0, "max": 5}, "y": {"derived": {"from": "x", "floordiv": 2}}}
    (folder / "good.json").write_text(json.dumps(good))
    assert check(folder, "good.json") == 0
    assert capfd.readouterr().out.endswith("good.json: nothing is wrong\n")
    (folder / "e.csv").write_text("x,y\n" + "3,1\n" * 4 + "3,0\n9,4\n")
    assert check(folder, "good.json", "e.csv") == 65
    assert "column 'y': 1 row" in capfd.readouterr().out
    (folder / "bad.json").write_text("{")
    assert check(folder, "bad.json", "e.csv") == 78
    assert check(folder, "good.json", "none.csv") == 66
    assert check(folder, "good.json", "-") == 2


def test_constant_is_checked_and_text_is_not_read_when_specs_have_them(folder, capfd):
    types = {"x": {"type": "boolean"}, "k": {"type": "constant", "value": "a"}, "t": {"type": "text"}}
    assert judge(folder, types, "x,k,t\n1,a,Zq7secret\n0,b,\nyes,a,\n") == 65
    assert [line.partition("csv: ")[2] for line in capfd.readouterr().out.splitlines()] == [
        "column 'x': 1 row with a cell that is not one of its legal cells.",
        "column 'k': 1 row with a cell that is not the column's one cell.",
    ]


@pytest.mark.parametrize("name", ["rules", "unit"])
def test_table_is_not_asked_for_what_is_no_column_when_its_entry_is_of_another_form(name, folder, capfd):
    assert judge(folder, {"x": {"type": "boolean"}, name: "x"}, "x\ntrue\n") == 78
    assert "header" not in capfd.readouterr().out


def test_what_to_do_with_a_column_without_a_name_is_said(folder, capfd):
    assert judge(folder, {"x": {"type": "boolean"}, "y": {"type": "boolean"}}, ",x,y\n1,true,true\n") == 65
    told = capfd.readouterr().out
    assert 'table: name it, take it out of the table, or list it in the specs, as "": {"type": "drop"}.' in told


def test_rules_are_counted_by_their_line_and_skipped_when_a_column_of_theirs_is_wrong(folder, capfd):
    specs = (
        '{"x": {"type": "integer", "min": 0, "max": 9},\n "y": {"type": "integer", "min": 0, "max": 9},\n'
        ' "z": {"type": "integer", "min": 9, "max": 0},\n "s": {"derived": {"sql": "x + y"}},\n'
        ' "t": {"derived": {"sql": "x + z"}},\n "rules": [\n  "x <= y",\n  "x <= z",\n  "x <= q",\n  "s <= 6"\n ]}'
    )
    assert judge(folder, specs, "x,y,z,s,t\n1,2,3,3,9\n3,2,1,5,9\n4,3,1,9,9\n") == 78
    assert capfd.readouterr().out.replace(f"{folder}/", "").splitlines() == [
        "e.json:3: Column 'z' in the specs: 'min' is above 'max'.",
        "e.json:9: Rule 3 in the specs, 'x <= q': it names 'q', which the specs do not; texts have single quotes, "
        "names with blanks, - or . double.",
        "e.json:4: e.csv: column 's': 1 row with a cell that does not follow from its expression.",
        "e.json:7: e.csv: rule 1 ('x <= y'): 2 rows against it.",
        "e.json:10: e.csv: rule 4 ('s <= 6'): 1 row against it.",
    ]


@pytest.mark.parametrize(
    ("specs", "table", "words"),
    [
        (GOOD, "x,y\n3\n", "1 row without exactly 2 cells"),
        (GOOD, "x,x\n3,4\n", "the header repeats 'x'"),
        (GOOD, "3,1\n3,1\n", "names none of the columns in the specs"),
        (OF_UNITS, "x,who\n1,a\n0,\n", "'who': 1 row with an empty cell, which does not say whose it is"),
    ],
)
def test_form_of_a_table_is_one_problem_when_it_is_wrong(specs, table, words, folder, capfd):
    assert judge(folder, specs, table) == 65
    assert words in capfd.readouterr().out


@pytest.mark.parametrize("above", ["", "Zq7secret of 2024", "sep=,"])
def test_header_is_judged_before_rows_when_it_is_not_the_first_line(above, folder, capfd):
    assert judge(folder, GOOD, f"{above}\nx,y\n3,1\n") == 65
    out = capfd.readouterr().out
    assert "The first line names none of the columns in the specs ('x', 'y'): is it a header?\n" in out
    assert "Zq7secret" not in out


def test_header_and_rows_are_both_problems_when_a_column_has_a_name_alone(folder, capfd):
    assert judge(folder, GOOD, "x,y,note\n3,1\n4,0\n") == 65
    assert [line.partition("csv: ")[2] for line in capfd.readouterr().out.splitlines()] == [
        "the specs do not have the column 'note' of the table.",
        "The table has 2 rows without exactly 3 cells.",
    ]


def test_table_is_not_blamed_when_all_columns_of_the_specs_are_wrong(folder, capfd):
    bad = {"x": {"type": "constant"}, "y": {"type": "string"}}
    assert judge(folder, bad, "x,y\n1,a\n") == 78
    assert capfd.readouterr().err == "dpwgan: error: The specs have 2 problems.\n"
    assert judge(folder, bad, "1,a\n2,b\n") == 78
    assert capfd.readouterr().out.endswith("in the specs ('x', 'y'): is it a header?\n")


@pytest.mark.parametrize("place", ["of", "unique", "linked"])
def test_unit_is_judged_without_its_columns_that_are_themselves_wrong(folder, capfd, place):
    wrong = {"type": "enum", "values": None, **({"of": "unit"} if place == "of" else {})}
    told = {place: ["y"]} if place != "of" else {}
    specs = {"who": {"type": "string", "uuid": True}, "x": {"type": "boolean", "of": "unit"}, "y": wrong}
    assert judge(folder, {**specs, "unit": {**OF_UNITS["unit"], **told}}, "who,x,y\n1,0,a\n1,1,b\n") == 78
    out = capfd.readouterr().out
    assert "Column 'y' in the specs: 'values' is null" in out
    assert "Column 'x': not the same cell in all rows of a unit" in out


def test_unit_is_no_column_that_a_table_lacks_when_something_is_wrong_with_it(folder, capfd):
    specs = {**OF_UNITS, "unit": {**OF_UNITS["unit"], "kind": "y"}}
    assert judge(folder, specs, "x,who\n1,a\n0,b\n") == 78
    assert capfd.readouterr().err == "dpwgan: error: The specs have 1 problem.\n"


def test_unit_that_is_written_wrongly_is_not_said_to_be_missing_when_columns_are_of_it(folder, capfd):
    specs = {"unit": {**OF_UNITS["unit"], "unique": [["x", "y"]]}, "x": {"type": "boolean", "of": "unit"}}
    assert judge(folder, specs, "who,x\na,1\n") == 78
    assert capfd.readouterr().out.partition("json:1: ")[2].splitlines() == [
        "The unit in the specs: 'unique' (each item) must be a string."
    ]


BOTH = (
    "an entry \"unit\" is either the unit or, with 'type' or 'derived', a column of that name; to have both, give the "
    "column another name in the table."
)


def test_way_out_is_told_when_a_table_has_a_column_named_unit_and_a_unit(folder, capfd):
    entry = {"type": "enum", "values": ["mg", "g"]}
    specs = {**OF_UNITS, "who": {"type": "string", "uuid": True}, "x": {"type": "boolean", "of": "unit"}}
    table = "who,x,unit\na,1,mg\n"
    assert judge(folder, specs, table) == 65
    assert f"the specs do not have the column 'unit' of the table: {BOTH}" in capfd.readouterr().out
    assert main(["run", *(str(folder / name) for name in ("e.csv", "out.csv", "e.json")), "1"]) == 65
    assert f"the specs do not have 'unit', and {BOTH}" in capfd.readouterr().err
    assert judge(folder, {**specs, "unit": entry}, table) == 78
    said = capfd.readouterr().out
    assert f"Column 'x' in the specs: 'of' says whose it is, and the specs name no \"unit\"; {BOTH}" in said
    assert judge(folder, f'{json.dumps(specs)[:-1]}, "unit": {json.dumps(entry)}}}', table) == 78
    assert f"The specs name 'unit' twice in one object: {BOTH}" in capfd.readouterr().out


def test_leading_zeros_are_told_when_a_run_drops_them(folder, capfd):
    number = {"type": "integer", "min": 0, "max": 99, "missing": ["099"]}
    specs = {
        "plain": number,
        "wide": {**number, "width": 2},
        "code": {"type": "enum", "count": 9},
        "text": {"type": "enum", "values": ["01", "02"]},
    }
    assert judge(folder, specs, "plain,wide,code,text\n07,07,1,01\n0,007,02,02\n") == 0
    assert "leading zeros in 'plain', 'wide', 'code', which the output drops: 'width', or" in capfd.readouterr().err
    assert judge(folder, specs, "plain,wide,code,text\n7,07,1,01\n099,099,2,03\n") == 65
    assert "zeros" not in capfd.readouterr().err


def test_column_is_not_in_the_specs_when_it_is_called_as_the_number_of_a_units_rows(folder, capfd):
    specs = {**OF_UNITS, "who": {"type": "string", "uuid": True}}
    assert judge(folder, specs, "who,x,who (rows)\na,1,1\n") == 65
    assert "the specs do not have the column 'who (rows)' of the table.\n" in capfd.readouterr().out
    assert main(["run", *(str(folder / name) for name in ("e.csv", "out.csv", "e.json")), "1"]) == 65
    assert "the specs do not have 'who (rows)'" in capfd.readouterr().err


def test_parquet_is_checked_as_csv_when_given(folder, capfd):
    (folder / "good.json").write_text(json.dumps(GOOD))
    pl.DataFrame({"x": [1, 9, 9], "more": ["Zq7secret"] * 3}).write_parquet(folder / "e.parquet")
    assert check(folder, "good.json", "e.parquet") == 65
    out = capfd.readouterr().out
    assert [line.partition("parquet: ")[2] for line in out.splitlines()] == [
        "the header of the table does not have the column 'y'.",
        "the specs do not have 1 of the names in the first line.",
        "column 'x': 2 rows with a cell that is not between 0 and 5.",
    ]


keys = st.text('ab"\\{[:,\n', max_size=3)
documents = st.recursive(
    st.none() | st.integers() | keys,
    lambda inner: (
        st.dictionaries(keys, inner, max_size=4) | st.lists(st.dictionaries(keys, inner, max_size=2), max_size=2)
    ),
    max_leaves=12,
)


@settings(max_examples=40)
@given(document=st.dictionaries(keys, documents, max_size=4))
def test_lines_are_those_of_the_keys_when_any_document_is_written(document):
    text = json.dumps(document, indent=1)
    lines = find_lines(text)
    written = text.splitlines()
    assert {place[0] for place in lines if len(place) == 1} >= set(document)
    for place, line in lines.items():
        value = document
        for key in place:
            value = value[int(key)] if isinstance(value, list) else value[key]
        shown = written[line - 1].strip()
        start = "{" if isinstance(value, dict) else "[" if isinstance(value, list) else json.dumps(value)
        assert shown.startswith(start if place[-1].isdigit() else json.dumps(place[-1]) + ": ")


def test_rules_are_found_by_their_number_when_a_sentence_names_one():
    text = '{"a": {},\n "rules": [\n  "a = 1",\n  {"columns": ["a"],\n   "allowed": [["1"]]}\n ]}'
    lines = find_lines(text)
    sentences = {"Rule 1 in the specs, 'a = 1': it": 3, "Rule 2 in the specs: it": 4, "Rule 9 in the specs: it": None}
    for sentence, line in sentences.items():
        assert find_line(lines, column=None, sentence=sentence) == (None, line)
