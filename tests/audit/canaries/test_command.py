"""The command: one small run from file to figures, refusals, and twins that it cannot reach."""

import json
from pathlib import Path

import pytest

from dpwgan.audit.canaries import command
from dpwgan.audit.cli import main
from tests.evaluate.samples import write_rows, write_specs

SPECS = {
    "letter": {"type": "enum", "values": ["a", "b", "c"]},
    "age": {"type": "integer", "min": 0, "max": 99},
    "late": {"type": "enum", "values_from": "data", "domain_privacy": "waived"},
}
QUICK = ("--method", "independent", "--noise", "gaussian", "--epsilon", "2", "--quiet")


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    rows = [["abc"[i % 3], str(i % 70), "xy"[i % 2]] for i in range(150)]
    data = write_rows(tmp_path / "data.csv", rows, header=list(SPECS))
    return str(data), str(write_specs(tmp_path / "specs.json", SPECS))


@pytest.fixture
def data_of_units(tmp_path: Path) -> str:
    """The same rows, five of each of thirty units."""
    rows = [["abc"[i % 3], str(i % 70), "xy"[i % 2], f"P{i // 5}"] for i in range(150)]
    return str(write_rows(tmp_path / "units.csv", rows, header=[*SPECS, "who"]))


def test_command_says_claim_and_bounds_when_a_method_is_audited(files, tmp_path, capfd):
    target = tmp_path / "audit.json"
    assert main(["canaries", *files, *QUICK, "--canaries", "30", "--seed", "2", "--json", str(target)]) == 0
    printed = capfd.readouterr().out
    assert printed.startswith("Contains private statistics, not covered by epsilon.")
    assert "No bound passes its claim." in printed
    assert "NOT A GUARANTEE" in printed
    document = json.loads(target.read_text())
    assert document["notice"] == "Contains private statistics, not covered by epsilon."
    assert document["guarantee"] is None
    assert (document["records"], document["canaries"]) == (180, 30)
    assert 0 < document["releases"]["found"] <= document["claimed_epsilon"] <= 2
    assert document["guesses"]["from_output"]["canaries"] == 60
    assert document["largest_bound"] <= document["claimed_epsilon"]
    assert not document["passes_the_claim"]


def test_canaries_are_units_when_the_specs_name_one(data_of_units, tmp_path, capfd):
    unit = {"unit": {"column": "who", "max_rows": 3}}
    options = (*QUICK, "--canaries", "20")
    specs = write_specs(tmp_path / "specs.json", SPECS | unit)
    assert main(["canaries", data_of_units, str(specs), *options, "--seed", "2", "--json", "-"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["records"], document["rows_of_a_canary"]) == (30 * 3 + 20 * 3, 3)
    assert 0.5 < document["releases"]["found"] <= document["claimed_epsilon"] <= 2
    assert document["releases"]["lines"][0]["influence"] == pytest.approx(1.0)
    assert document["guesses"]["from_output"]["canaries"] == 40
    assert not document["passes_the_claim"]
    named = SPECS | unit | {"who": {"type": "integer", "uuid": True}}
    assert main(["canaries", data_of_units, str(write_specs(tmp_path / "specs.json", named)), *options]) == 2
    assert "how many rows units have" in capfd.readouterr().err


def test_canaries_stand_beside_the_units_that_are_left_when_a_rule_drops_rows(data_of_units, tmp_path, capfd):
    # Of four units no row is left.
    rules = {"unit": {"column": "who", "max_rows": 5}, "rules": [{"sql": "age < 60", "violations": "drop"}]}
    specs = write_specs(tmp_path / "specs.json", SPECS | {"late": {"type": "enum", "values": ["x", "y"]}} | rules)
    assert main(["canaries", data_of_units, str(specs), *QUICK, "--canaries", "20", "--seed", "2", "--json", "-"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["records"] == 26 * 5 + 20 * 5
    assert document["releases"]["lines"][0]["influence"] == pytest.approx(1.0)
    assert 0.5 < document["releases"]["found"] <= document["claimed_epsilon"] <= 2


def test_command_audits_releases_alone_when_there_are_no_runs(files, capfd):
    arguments = ["canaries", *files, "--method", "query-gan", "--rounds", "1", "--codes", "20", "--fit-steps", "2"]
    assert main([*arguments, "--epsilon", "1", "--runs", "0", "--canaries", "1", "--json", "-", "--quiet"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["guesses"] is None
    assert {line["label"] for line in document["releases"]["lines"]} == {
        "one-way counts",
        "one-way counts, look 2",
        "query selections",
        "query answers",
        "certificate",
    }


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--epsilon", "0"], 2, "psilon"),
        ([], 2, "--epsilon"),
        (["--epsilon", "1", "--canaries", "0"], 2, "--canaries must be at least 1"),
        (["--epsilon", "1", "--runs", "-1"], 2, "--runs"),
        (["--epsilon", "1", "--runs", "1", "--canaries", "1"], 2, "two canaries"),
        (["--epsilon", "1", "--method", "nonsense"], 2, "Method must be one of"),
        (["--epsilon", "1", "--method", "independent", "--rounds", "3"], 2, "no setting rounds"),
        (["--epsilon", "1", "--seed", "-1"], 2, "--seed"),
        (["--epsilon", "1", "--method", "bootstrap"], 2, "Method must be one of"),
        (["--epsilon", "1", "--method", "ron-gauss"], 2, "--noise gaussian"),
        (["--epsilon", "1", "--method", "ron-gauss", "--label", "letter"], 2, "--noise gaussian"),
    ],
)
def test_command_refuses_what_it_cannot_act_on(files, capfd, arguments, code, words):
    assert main(["canaries", *files, *arguments]) == code
    assert words in capfd.readouterr().err


def test_command_refuses_to_write_over_what_it_reads(files, capfd):
    assert main(["canaries", *files, "--epsilon", "1", "--json", files[0]]) == 2
    assert main(["canaries", "-", files[1], "--epsilon", "1"]) == 2
    assert main(["canaries", "/nowhere.csv", files[1], "--epsilon", "1", "--quiet"]) == 66
    assert "write over" in capfd.readouterr().err


def test_bounds_and_lines_say_whether_they_pass_their_claims():
    line = {"label": "l", "releases": 2, "found": 0.5, "claimed_epsilon": 0.4, "passes_the_claim": True}
    document = {
        **{"method": "m", "claimed_epsilon": 1.0, "delta": 1e-6, "neighbours": "zero-out", "accountant": "moments"},
        **{"records": 5, "canaries": 1, "rows_of_a_canary": 1, "guesses": None, "passes_the_claim": True},
        "releases": {"found": 0.9, "lines": [line]},
    }
    text = "\n".join(command.write_lines(document))
    assert "<- passes its claim" in text
    assert "A BOUND PASSES ITS CLAIM" in text
    document["passes_the_claim"] = False
    assert "No bound passes its claim." in "\n".join(command.write_lines(document))
    assert "seen, not bounded" in command.write_line(line | {"found": None, "passes_the_claim": False})


def test_nothing_is_patched_in_the_package():
    sources = Path(command.__file__).resolve().parents[2].rglob("*.py")
    assert [path.name for path in sources if "mock" in path.read_text()] == []
