"""`specs draft` as users run it: drafts that are filled in run to the end, and the claim names what rows said."""

import json
from pathlib import Path
from typing import Any

import pytest

from dpwgan.__main__ import main

DICTIONARIES = Path(__file__).resolve().parents[2] / "drafts" / "dictionaries"

HEADER = ("visit", "sex", "age", "ward", "fee", "smoker", "seen", "hour", "doctor", "mail", "place")
VISITS = [
    (
        *(f"{n}", "fm"[n % 2], "NA" if n % 9 == 0 else f"{n % 90}", ("01", "02", "99")[n % 3], f"{n * 1.25:.2f}"),
        *(("yes", "no", "")[n % 3], f"{n % 28 + 1:02}/03/2024", f"{n % 24:02}:30:00", "AB"[n % 2], f"{n}@x", "here"),
    )
    for n in range(60)
]
PERSONS = [(n % 90, n % 2 + 1, "N123456"[n % 7], n % 5, 20.5 + n, "abc"[n % 3], n * 100) for n in range(60)]


def write_table(path: Path, header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    path.write_text("\n".join(",".join(map(str, row)) for row in (header, *rows)) + "\n")


def draft(folder: Path, name: str, *more: str) -> dict[str, dict[str, Any]]:
    assert main(["specs", "draft", "--from", str(DICTIONARIES / name), "-o", str(folder / "specs.json"), *more]) == 0
    specs: dict[str, dict[str, Any]] = json.loads((folder / "specs.json").read_text())
    return specs


def run(folder: Path) -> dict[str, Any]:
    files = [str(folder / name) for name in ("data.csv", "out.csv", "specs.json")]
    assert main(["specs", "check", files[2], files[0]]) == 0
    assert main(["run", *files, "2", "--method", "independent", "--seed", "1", "--quiet"]) == 0
    claim: dict[str, Any] = json.loads((folder / "out.csv.privacy.json").read_text())
    return claim


@pytest.mark.slow
@pytest.mark.parametrize("name", ["frictionless.json", "csvw.json"])
def test_draft_runs_when_its_nulls_are_filled_in_by_hand(name, tmp_path):
    specs = draft(tmp_path, name, *(("--table", "visits") if name == "frictionless.json" else ()))
    specs["doctor"]["values"] = ["A", "B"]
    specs["hour"]["format"] = "%H:%M:%S"
    specs["place"] = {"type": "drop"}
    (tmp_path / "specs.json").write_text(json.dumps(specs))
    write_table(tmp_path / "data.csv", HEADER, VISITS)
    claim = run(tmp_path)
    assert claim["columns"]["domains_waived"] == []
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0].split(",") == [*HEADER[:-1]]
    assert len(lines) == 61


def test_claim_names_the_columns_that_rows_filled_when_asked(tmp_path, capfd):
    write_table(tmp_path / "data.csv", ("AGEP", "SEX", "MSP", "NOC", "DENSITY", "INDP", "EXTRA"), PERSONS)
    specs = draft(tmp_path, "sdnist.json", "--from-rows", str(tmp_path / "data.csv"))
    said = capfd.readouterr().err
    assert "named by every claim as not covered: 'INDP', 'EXTRA'" in said
    del specs["PINCP"]
    (tmp_path / "specs.json").write_text(json.dumps(specs))
    claim = run(tmp_path)
    assert claim["columns"]["domains_waived"] == ["EXTRA", "INDP"]
    assert any("EXTRA, INDP: their lists or ranges were read from the rows" in item for item in claim["not_covered"])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--from", "none.json"], 66, "does not exist"),
        ([], 2, "--from FILE names the dictionary"),
        (["--from", "{sdv}", "--kind", "xls"], 2, "--kind must be one of"),
        (["--from", "{sdv}", "-o", "{sdv}"], 2, "--output would write over a file that is read"),
        (["--from-rows", "-"], 2, "--from-rows must be a file"),
        (["--from-rows", "a.npz"], 2, "--from-rows reads CSV and Parquet"),
    ],
)
def test_command_is_refused_when(arguments, code, words, capfd):
    filled = [word.format(sdv=DICTIONARIES / "sdv.json") for word in arguments]
    assert main(["specs", "draft", *filled]) == code
    assert words in capfd.readouterr().err
