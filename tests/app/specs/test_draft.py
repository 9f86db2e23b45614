"""`specs draft` as users run it: drafts that are filled in run to the end, and the claim names what rows said."""

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dpwgan.__main__ import main
from dpwgan.drafts.entry import list_holes
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.specs import read_specs
from tests.marginals.tables import make_encoded
from tests.programs import ROOT, TABLES, read_claim

DICTIONARIES = ROOT / "tests" / "drafts" / "dictionaries"
REAL = TABLES / "nist-1940-census"

VISITS = (
    "visit,sex,age,ward,fee,smoker,seen,hour,doctor,mail,place",
    ["1,f,NA,01,3.50,yes,01/03/2024,00:30:00,A,a@x,here", "2,m,120,99,500.00,,31/12/2024,23:59:59,B,,here"],
)
PERSONS = [f"{n % 90},{n % 2 + 1},{'N123456'[n % 7]},{n % 5},{20.5 + n},{'abc'[n % 3]},{n * 100}" for n in range(60)]


def draft(folder: Path, *words: str | Path) -> dict[str, dict[str, Any]]:
    assert main(["specs", "draft", *map(str, words), "-o", str(folder / "specs.json")]) == 0
    specs: dict[str, dict[str, Any]] = json.loads((folder / "specs.json").read_text())
    return specs


def run(folder: Path) -> dict[str, Any]:
    files = [str(folder / name) for name in ("data.csv", "out.csv", "specs.json")]
    assert main(["specs", "check", files[2], files[0]]) == 0
    assert main(["run", *files, "2", "--method", "independent", "--seed", "1", "--quiet"]) == 0
    return read_claim(folder)


# Of each dictionary: what its draft leaves open, filled in by hand, and cells of rows that it describes.
DOCTOR = {"doctor": {"values": ["A", "B"]}}
PLACE = {"place": {"type": "enum", "values": ["here"]}}
FEE = {"fee": {"min": 0, "max": 500}}
NUMBER = {"min": 0, "max": 120}
YEAR = {"min": "2024-01-01", "max": "2024-12-31"}
DRAFTED: dict[str, tuple[dict[str, dict[str, Any]], str, list[str]]] = {
    "frictionless.json": ({**DOCTOR, **PLACE}, *VISITS),
    "csvw.json": ({**DOCTOR, **PLACE, "hour": {"format": "%H:%M:%S"}}, *VISITS),
    "json-schema.json": (
        {**DOCTOR, **PLACE, "seen": YEAR, "paid": YEAR},
        "visit,sex,age,ward,fee,smoker,seen,hour,paid,doctor,mail,place",
        [
            "a1,f,30,01,3.50,true,2024-03-01,00:30:00,2024-02-03T10:30:15Z,A,a@x,here",
            "a2,m,,02,17.25,,2024-02-29,23:59:59,2024-12-31T23:59:00Z,A,,",
        ],
    ),
    "ddi.xml": (
        {**DOCTOR, **FEE, "weight": {"max": 300}},
        "sex,age,ward,fee,smoker,weight,doctor",
        ["f,17,01,3.50,1,60,A", "m,999,99,17.25,,81,B", "m,120,2,0.00,2,0,A"],
    ),
    "sdv.json": (
        {
            **{**FEE, "sex": {"values": ["f", "m"]}, "age": NUMBER, "score": {"type": "float", **NUMBER}},
            **{"seen": YEAR, "paid": {**YEAR, "format": "%Y-%m-%d %H:%M"}, "other": {"type": "drop"}},
        },
        "visit,sex,age,fee,score,smoker,seen,paid,mail,other",
        [
            "V0001,f,30,3.5,.5,true,01/02/2024,2024-02-03 10:30,a@x,p",
            "V0002,m,9,12,7,False,29/02/2024,2024-12-31 23:59,,q",
        ],
    ),
    "dpsynth.yaml": ({}, "sex,age,fee,smoker,doctor,note", ["f,30,3.5,true,A,x", "m,,499,false,A,y"]),
    "private-pgm.json": ({}, "sex,age,ward,income", ["0,120,01,999999", "1,0,02,0"]),
    "redcap.csv": (
        {**PLACE, "seen": {"max": "2024-12-31"}, "came": YEAR, "total": {"type": "float", "min": 0, "max": 1000}},
        "visit,sex,age,ward,fee,smoker,heard___1,heard____9,seen,hour,came,total,name,note,place",
        [
            "1,f,30,01,3.50,1,0,1,2024-03-01,00:30,2024-02-03 10:30:15,7,Ann Lee,a note,here",
            "2,m,,,500.00,0,1,0,2024-12-31,23:59,2024-12-31 23:59:59,1000,Bo Ek,,",
        ],
    ),
    "sdnist.json": (
        {"INDP": {"values": ["170", "N"]}},
        "AGEP,SEX,MSP,NOC,DENSITY,INDP,PINCP",
        ["99,1,6,19,16.3,170,1341000", "0,2,N,N,52864.7,N,N", "40,2,1,0,300.5,170,-9000"],
    ),
    "sheet.csv": (
        {**DOCTOR, **PLACE},
        "visit,sex,age,ward,fee,smoker,seen,hour,children,mark,doctor,mail,place",
        ["1,f,NA,01,3.50,true,01/03/2024,00:30,98,1,A,a@x,here", "2,m,120,99,500.00,false,31/12/2024,23:59,10,5,B,,"],
    ),
    "ipums.cbk": ({"INCWAGE": {"min": 0, "max": 999998}}, "SEX,INCWAGE,METRO", ["1,0,02", "2,999998,B3", "1,5,0"]),
    "variables.txt": (
        {"SEX": {"type": "enum", "count": 3}, "AGE": {"type": "integer", **NUMBER}},
        "SEX,AGE",
        ["1,120", "2,0"],
    ),
}


@pytest.mark.parametrize("name", DRAFTED)
def test_draft_fits_its_table_and_is_released_when_its_nulls_are_filled_in_by_hand(name, tmp_path):
    fills, header, rows = DRAFTED[name]
    table = ("--table", "visits") if name == "frictionless.json" else ()
    specs = draft(tmp_path, "--from", DICTIONARIES / name, *table)
    assert fills.keys() == {column for column, keys in specs.items() if list_holes(keys)}
    for column, keys in fills.items():
        specs[column].update(keys)
    (tmp_path / "specs.json").write_text(json.dumps(specs))
    (tmp_path / "data.csv").write_text("\n".join([header, *(rows * 60)[:60]]) + "\n")
    assert run(tmp_path)["columns"]["domains_waived"] == []
    made = pl.read_csv(tmp_path / "out.csv", infer_schema=False)
    dropped = {column for column, keys in specs.items() if keys["type"] == "drop"}
    assert (made.height, made.columns) == (60, [name for name in header.split(",") if name not in dropped])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "columns"), [("colorado-domain.json", 99), ("codebook.cbk", 107)])
def test_real_dictionary_is_released_when_legal_rows_are_drawn_for_its_complete_columns(name, columns, tmp_path):
    path = REAL / name
    if not path.is_file():
        pytest.skip(f"the public dictionary {name!r} is not here; PUBLIC_TABLES can name the folder that has it")
    specs = {column: keys for column, keys in draft(tmp_path, "--from", path).items() if not list_holes(keys)}
    assert len(specs) == columns
    (tmp_path / "specs.json").write_text(json.dumps(specs))
    encoder = TableEncoder(schema := read_specs(tmp_path / "specs.json"), list(specs))
    drawn = make_encoded(60, seed=1, columns=schema.columns)
    encoder.decode(drawn, np.random.default_rng(1)).write_csv(tmp_path / "data.csv")
    assert run(tmp_path)["columns"]["domains_waived"] == []


def test_every_dictionary_has_a_table_when_counted():
    assert DRAFTED.keys() == {path.name for path in DICTIONARIES.iterdir()} - {"README.md"}


def test_claim_names_the_columns_that_rows_filled_when_asked(tmp_path, capfd):
    (tmp_path / "data.csv").write_text("\n".join(["AGEP,SEX,MSP,NOC,DENSITY,INDP,EXTRA", *PERSONS]) + "\n")
    specs = draft(tmp_path, "--from", DICTIONARIES / "sdnist.json", "--from-rows", tmp_path / "data.csv")
    said = capfd.readouterr().err
    assert "named by every claim as not covered: 'INDP', 'EXTRA'" in said
    del specs["PINCP"]
    (tmp_path / "specs.json").write_text(json.dumps(specs))
    claim = run(tmp_path)
    assert claim["columns"]["domains_waived"] == ["EXTRA", "INDP"]
    assert any(
        "the lists or ranges of EXTRA, INDP, which were read from the rows" in item for item in claim["not_covered"]
    )


def test_why_columns_stay_open_and_which_may_be_codes_is_told_when_rows_fill_the_rest(tmp_path, capfd):
    rows = [f"{row % 150 * 331 + 1000:05d},{row % 150:02d}-Jun-24" for row in range(300)]
    (tmp_path / "data.csv").write_text("\n".join(["zip,day", *rows]) + "\n")
    draft(tmp_path, "--from-rows", tmp_path / "data.csv")
    said = capfd.readouterr().err
    assert "drafted, and to be looked at again: 'zip' (codes? list those that there are, for others come" in said
    assert "null in the draft: 'day' (type: names or free text? too many for a list)\n" in said


@pytest.mark.parametrize("rows", ["1;2\n", "1,5;2\n"])
def test_rows_are_refused_when_other_marks_than_commas_part_their_cells(rows, tmp_path, capfd):
    (tmp_path / "data.csv").write_text(f"wage;age\n{rows}")
    path = tmp_path / "specs.json"
    assert main(["specs", "draft", "--from-rows", str(tmp_path / "data.csv"), "-o", str(path)]) == 65
    assert "has one name, with other marks in it: cells must be separated by commas" in capfd.readouterr().err
    assert not path.exists()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("2450,", "'wage' (the last is the sum of all others: is there a row of totals?)"),
        ("2451,", "2 of 2 columns are complete"),
    ],
)
def test_row_of_totals_is_told_when_it_is_the_last_of_a_sheet(row, words, tmp_path, capfd):
    rows = [*(f"{wage % 50},a{wage}" for wage in range(100)), row]
    (tmp_path / "data.csv").write_text("\n".join(["wage,name", *rows]) + "\n")
    draft(tmp_path, "--from-rows", tmp_path / "data.csv")
    said = capfd.readouterr().err
    assert words in said
    assert ("totals" in said) == ("totals" in words)


def test_what_a_dictionary_leaves_to_defaults_is_told_when_the_output_would_show_it(tmp_path, capfd):
    (tmp_path / "data.csv").write_text("sex,mark\nf,1\nm,\n")
    fields = [{"name": "sex", "type": "string"}, {"name": "mark", "type": "number", "constraints": {"minimum": 1}}]
    (tmp_path / "schema.json").write_text(json.dumps({"fields": fields}))
    paths = [str(tmp_path / name) for name in ("schema.json", "data.csv", "specs.json")]
    assert main(["specs", "draft", "--from", paths[0], "--from-rows", paths[1], "-o", paths[2]]) == 0
    said = capfd.readouterr().err
    assert "dpwgan: optional by the dictionary, and never empty in the rows: 'sex'; where" in said
    assert "decimals" not in said
    assert main(["specs", "draft", "--from", paths[0], "-o", paths[2]]) == 0
    assert "dpwgan: without \"decimals\": 'mark'; say how many" in capfd.readouterr().err


def test_single_floats_are_drafted_and_written_with_the_digits_that_were_meant(tmp_path):
    cells = [repr(float(np.float32(row % 90 / 10))) for row in range(200)]
    (tmp_path / "data.csv").write_text("\n".join(["share", *cells]) + "\n")
    assert draft(tmp_path, "--from-rows", tmp_path / "data.csv")["share"]["decimals"] == 1
    run(tmp_path)
    assert {len(cell) for cell in pl.read_csv(tmp_path / "out.csv", infer_schema=False)["share"]} == {3}


def test_what_is_true_in_every_row_is_told_when_rows_are_read(tmp_path, capfd):
    rows = [
        f"0{row % 7},0{row % 7}{row % 5}0,0{day}.06.2024,1{row * row % 8}.06.2024,{day in (1, 2, 8, 9)}"
        for row in range(200)
        for day in [row * row % 9 + 1]
    ]
    rows += ["00,0000,02.06.2024,02.06.2024,True"]
    (tmp_path / "data.csv").write_text("\n".join(["state,town,begin,end,day", *rows]) + "\n")
    path = tmp_path / "specs.json"
    assert main(["specs", "draft", "--from-rows", str(tmp_path / "data.csv"), "-o", str(path)]) == 0
    said = capfd.readouterr().err
    for tie in (
        "'end' is not before 'begin'",
        "'state' follows from 'town'",
        "'day' follows from the weekday of 'begin'",
    ):
        assert tie in said
    assert "since" not in path.read_text()


def test_unit_is_asked_for_when_a_column_of_the_rows_may_say_whose_they_are(tmp_path, capfd):
    data, path = tmp_path / "data.csv", tmp_path / "specs.json"
    data.write_text("\n".join(["patient,value", *(f"{row // 4},{row % 7}" for row in range(400))]) + "\n")
    specs = draft(tmp_path, "--from-rows", data)
    said = capfd.readouterr().err
    assert "column 'patient' may say whose a row is: many of its values have several rows." in said
    assert '"unit": {"column": "patient", "max_rows": K}' in said
    assert '"linked" columns for what lasts from row to row' in said
    assert "null in the draft: 'patient' (type: whose a row is?)\n" in said
    assert specs["patient"] == {"type": None}
    path.write_text(json.dumps({**specs, "unit": {"column": "patient", "max_rows": 4}, "patient": {"type": "drop"}}))
    assert main(["specs", "check", str(path), str(data)]) == 0
    data.write_text("\n".join(["patient,value", *(f"{row},{row % 7}" for row in range(400))]) + "\n")
    draft(tmp_path, "--from-rows", data)
    assert "whose a row is" not in capfd.readouterr().err
    data.write_text("\n".join(["patient,unit", *(f"{row // 4},mg" for row in range(400))]) + "\n")
    draft(tmp_path, "--from-rows", data)
    assert 'Unit); an entry "unit" is either the unit or' in capfd.readouterr().err


def test_moments_of_parquet_are_drafted_from_rows_and_are_no_problem_while_they_are_open(tmp_path, capfd):
    moments = [datetime.datetime(2024, 3, day, 7, 30) for day in (1, 31)]
    times = [datetime.time(7, 30), datetime.time(23)]
    fine = [moment.replace(microsecond=500) for moment in moments]
    pl.DataFrame({"seen": moments, "hour": times, "fine": fine}).write_parquet(tmp_path / "data.parquet")
    data, path = str(tmp_path / "data.parquet"), str(tmp_path / "specs.json")
    specs = draft(tmp_path, "--from-rows", data)
    assert [(keys["type"], keys["min"], keys["max"]) for keys in specs.values()] == [
        ("datetime", "2024-03-01T07:30:00", "2024-03-31T07:30:00"),
        ("time", "07:30:00", "23:00:00"),
        ("datetime", "2024-03-01T07:30:00.000500", "2024-03-31T07:30:00.000500"),
    ]
    assert main(["specs", "check", path, data]) == 0
    specs["seen"]["min"] = None
    Path(path).write_text(json.dumps(specs))
    capfd.readouterr()
    assert main(["specs", "check", path, data]) == 78
    assert capfd.readouterr().err == "dpwgan: error: The specs have 1 problem.\n"


def test_doubles_of_parquet_are_drafted_with_as_many_digits_as_they_have(tmp_path):
    frame = pl.DataFrame({"score": [1 / 3, -200.0, None], "third": pl.Series([1 / 3, 1.5, 2.0], dtype=pl.Float32)})
    frame.write_parquet(tmp_path / "data.parquet")
    specs = draft(tmp_path, "--from-rows", tmp_path / "data.parquet")
    found = [(keys["type"], keys["min"], keys["max"]) for keys in specs.values()]
    assert found == [("float", -200.0, 1 / 3), ("float", 0.33333334, 2.0)]
    assert main(["specs", "check", str(tmp_path / "specs.json"), str(tmp_path / "data.parquet")]) == 0


def test_column_of_parquet_stays_open_when_its_type_has_no_cells(tmp_path, capfd):
    frame = pl.DataFrame({"a": [1, 2], "tags": [["x"], []], "b": [1, 2], "stay": [datetime.timedelta(1)] * 2})
    frame.write_parquet(tmp_path / "data.parquet")
    specs = draft(tmp_path, "--from-rows", tmp_path / "data.parquet")
    assert [(name, keys["type"]) for name, keys in specs.items()] == [
        ("a", "integer"), ("tags", None), ("b", "integer"), ("stay", None)
    ]  # fmt: skip
    said = capfd.readouterr().err
    assert "'tags' (type: list? make numbers or text of it), 'stay' (type: duration? make" in said


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--from", "none.json"], 66, "does not exist"),
        ([], 2, "--from FILE names the dictionary"),
        (["{sdv}"], 2, "usage: dpwgan specs draft --from FILE"),
        (["--from", "{sdv}", "--kind", "xls"], 2, "--kind must be one of sdv, csvw,"),
        (["--from", "{sdv}", "-o", "{sdv}"], 2, "--output would write over a file that is read"),
        (["--from-rows", "-"], 2, "--from-rows must be a file"),
        (["--from-rows", "a.npz"], 2, "--from-rows reads CSV and Parquet"),
    ],
)
def test_command_is_refused_when(arguments, code, words, capfd):
    filled = [word.format(sdv=DICTIONARIES / "sdv.json") for word in arguments]
    assert main(["specs", "draft", *filled]) == code
    assert words in capfd.readouterr().err
