"""The commands on tables as users run them, and every subcommand's refusals and help."""

import json
from pathlib import Path

import numpy as np
import pytest

from dpwgan.audit.cli import PROGRAM, main
from dpwgan.audit.ex_post import NO_GUARANTEE
from dpwgan.evaluate.tables import NOTICE
from tests.audit.populations import SPECS, draw_table
from tests.evaluate.samples import write_rows, write_specs

QUICK = ["--only", "exact copies", "--only", "membership by distance", "--quiet"]


def write_csv(path, table):
    def write(value, spec):
        return "N" if np.isnan(value) else str(int(value)) if spec["type"] == "enum" else f"{value:.6f}"

    rows = [[write(*pair) for pair in zip(row, SPECS.values(), strict=True)] for row in table.numbers]
    return str(write_rows(path, rows, header=list(SPECS)))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    rng = np.random.default_rng(1)
    write_specs(folder / "specs.json", SPECS)
    names = {name: write_csv(folder / f"{name}.csv", draw_table(200, rng)) for name in ("real", "holdout", "fresh")}
    return {**names, "specs": str(folder / "specs.json"), "folder": folder}


def run(*arguments, capfd):
    code = main([str(argument) for argument in arguments])
    out, err = capfd.readouterr()
    return code, out, err


def measure(*arguments, capfd):
    """Runs a command for its document."""
    code, out, _ = run(*arguments, "--json", "-", "--quiet", capfd=capfd)
    assert code == 0
    return json.loads(out)


def tables(files, synthetic="fresh"):
    return files["real"], files[synthetic], files["specs"], "--holdout", files["holdout"]


def test_attack_writes_the_notice_and_every_attack_when_it_is_run(files, tmp_path, capfd):
    target = tmp_path / "attacks.json"
    code, out, _ = run("attack", *tables(files), "--rows", 50, "--json", target, capfd=capfd)
    assert (code, out.splitlines()[0]) == (0, NOTICE)
    document = json.loads(target.read_text())
    assert next(iter(document)) == "notice"
    assert document["notice"] == NOTICE
    played = {attack["name"] for attack in document["attacks"]} | {skipped["name"] for skipped in document["skipped"]}
    assert len(played) == 8
    for name in played:
        assert name in out
    for attack in document["attacks"]:
        for found in (attack["headline"], *attack["parts"].values()):
            assert found["excess"]["lower"] <= found["excess"]["value"] <= found["excess"]["upper"]
            assert found["beats_baseline"] == (found["adjusted_p_value"] <= 0.025)
    assert document["false_alarm_rate"] == pytest.approx(0.025)
    assert document["reading"] in out
    assert [path.name for path in tmp_path.iterdir()] == ["attacks.json"]


def test_attack_raises_the_alarm_when_the_table_is_a_copy_and_not_when_it_is_fresh(files, capfd):
    options = ["--rows", 200, "--confidence", 0.999998, *QUICK]
    _, out, _ = run("attack", *tables(files, "real"), *options, capfd=capfd)
    assert out.count("BEATS ITS BASELINE") == 3  # membership at few false alarms too
    _, out, _ = run("attack", *tables(files), *options, capfd=capfd)
    assert "BEATS ITS BASELINE" not in out


def test_attack_takes_one_row_of_each_unit_for_by_the_others_of_its_unit_all_would_seem_to_leak(tmp_path, capfd):
    rng = np.random.default_rng(5)

    def write(name):  # none of the three tables knows anything of another
        people = [(f"{name}{unit}", rng.integers(1000), rng.integers(1000)) for unit in range(150)]
        rows = [[*map(str, person), str(rng.integers(3))] for person in people for _ in range(4)]
        return write_rows(tmp_path / f"{name}.csv", rows, header=["id", "born", "place", "day"])

    number = {"type": "integer", "min": 0, "max": 999}
    columns = {"id": {"type": "drop"}, "born": number, "place": number, "day": {"type": "enum", "count": 3}}
    for unit, beats in (({}, True), ({"unit": {"column": "id", "max_rows": 4}}, False)):
        specs = write_specs(tmp_path / "specs.json", {**columns, **unit})
        found = measure(
            *("attack", write("real"), write("fresh"), specs, "--holdout", write("holdout")),
            *("--only", "membership by density ratio"),
            capfd=capfd,
        )
        assert found["tables"]["real"]["rows"] == (150 if unit else 600)
        assert found["attacks"][0]["headline"]["beats_baseline"] == beats
    rows = [[str(unit), "5", "0"] for unit in range(100)]
    unnamed = write_rows(tmp_path / "unnamed.csv", rows, header=["born", "place", "day"])
    _, _, err = run("attack", tmp_path / "real.csv", unnamed, specs, "--holdout", unnamed, capfd=capfd)
    assert "unnamed.csv' lacks the column of the specs' unit" in err


def test_hold_out_rows_are_refused_when_they_are_the_real_table(files, capfd):
    code, _, err = run("attack", *tables(files)[:3], "--holdout", files["real"], capfd=capfd)
    assert code == 2
    assert "hold-out rows are the real table" in err


def test_attack_gives_one_document_when_the_seed_is_the_same_whatever_else_is_played(files, capfd):
    def play(*options):
        document = measure("attack", *tables(files), "--rows", 50, *options, capfd=capfd)
        return {attack["name"]: attack for attack in document["attacks"]}

    alone = play("--only", "membership by distance", "--seed", 3)
    beside = play(*QUICK, "--seed", 3)
    assert alone["membership by distance"] == beside["membership by distance"]
    assert play("--only", "membership by distance", "--seed", 4) != alone


def test_attack_plays_what_it_can_when_the_table_has_one_column(tmp_path, capfd):
    specs = write_specs(tmp_path / "specs.json", {"kind": SPECS["kind"]})
    data, more = (
        write_rows(tmp_path / name, [[str(n % 3)] for n in range(40)], header=["kind"]) for name in ("a.csv", "b.csv")
    )
    document = measure("attack", data, data, specs, "--holdout", more, capfd=capfd)
    assert "membership by distance" in [attack["name"] for attack in document["attacks"]]
    assert "attribute inference" in [skipped["name"] for skipped in document["skipped"]]


def test_ex_post_says_that_it_is_no_guarantee_when_it_is_run(files, tmp_path, capfd):
    target = tmp_path / "estimate.json"
    code, out, _ = run("ex-post", *tables(files), "--samples", 40, "--json", target, capfd=capfd)
    assert (code, out.splitlines()[0]) == (0, NOTICE)
    assert NO_GUARANTEE in out
    assert "epsilon" not in out.replace(NOTICE, "")
    document = json.loads(target.read_text())
    assert document["notice"] == NOTICE
    for key in ("estimate", "holdout_estimate"):
        assert document[key]["guarantee"] is None
        assert document[key]["kind"] == "estimate"
        assert document[key]["measured"]["real_rows_looked_at"] == 40
    assert "epsilon" not in target.read_text().replace(NOTICE, "")


def test_ex_post_shows_a_copy_in_the_divergences_when_hold_out_rows_stand_beside(files, capfd):
    """The limit and its remedy: mu alone says nothing of a copy, the two divergences do."""
    document = measure("ex-post", *tables(files, "real"), capfd=capfd)
    key = "divergence_of_real_from_artificial"
    of_real, of_holdout = (document[which]["measured"][key] for which in ("estimate", "holdout_estimate"))
    assert of_real < of_holdout - 1.0


def test_ex_post_works_when_there_are_no_hold_out_rows_and_tables_are_thinned(files, capfd):
    options = ["--rows", 100, "--samples", 30, "--removed", 3]
    document = measure("ex-post", *tables(files)[:3], *options, capfd=capfd)
    assert document["holdout_estimate"] is None
    assert document["estimate"]["measured"]["artificial_rows"] == 100
    assert document["estimate"]["measured"]["rows_removed_for_each"] == 3


SO = ["{real}", "{fresh}", "{specs}", "--holdout", "{holdout}"]
REFUSALS = [
    (["attack", "{real}", "{fresh}", "{specs}"], 2, "--holdout is needed"),
    (["attack", "{real}", "{fresh}"], 2, "specs"),
    (["attack", *SO, "--only", "magic"], 2, "--only must be one of"),
    (["attack", *SO, "--rows", "3"], 2, "at least 20 rows"),
    (["attack", *SO, "--confidence", "1"], 2, "confidence"),
    (["attack", *SO, "--secret", "x", "--only", "attribute inference"], 2, "'x'"),
    (["attack", "{real}", "{fresh}", "{specs}", "--holdout", "{missing}"], 66, "does not exist"),
    (["attack", *SO, "--json", "{real}"], 2, "write over a file"),
    (["attack", *SO, "--json", "{missing}/a"], 73, "folder"),
    (["attack", *SO, "--seed", "-1"], 2, "--seed"),
    (["ex-post", "{bad}", "{fresh}", "{specs}"], 65, "'region'"),
    (["ex-post", "{real}", "{fresh}", "{specs}", "--gamma", "0"], 2, "gamma"),
    (["ex-post", "{real}", "{fresh}", "{specs}", "--rows", "1"], 2, "2 rows"),
    (["ex-post", "{real}", "{fresh}", "{specs}", "--dimensions", "0"], 2, "dimensions"),
    (["ex-post", "{real}", "{fresh}", "{specs}", "--removed", "199"], 2, "too few"),
    (["nothing"], 2, "attack"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "exit_code", "words"), REFUSALS)
def test_command_is_refused_in_one_sentence_when_it_cannot_be_done(arguments, exit_code, words, files, tmp_path, capfd):
    bad = tmp_path / "bad.csv"
    lines = Path(files["real"]).read_text().splitlines()
    bad.write_text("\n".join([lines[0], "secret" + lines[1][1:], *lines[2:]]) + "\n")
    places = {**files, "missing": str(tmp_path / "missing"), "bad": str(bad)}
    code, out, err = run(*(argument.format(**places) for argument in arguments), "--quiet", capfd=capfd)
    assert (code, out) == (exit_code, "")
    assert words in err.lower()
    assert len(err.splitlines()) == 1
    assert "secret" not in err


@pytest.mark.parametrize("name", PROGRAM.commands)
def test_command_has_help_that_says_it_is_not_private_when_asked(name, capfd):
    code, out, _ = run(name, "--help", capfd=capfd)
    assert code == 0
    assert "NOT private" in out
    code, out, _ = run("--help", capfd=capfd)
    assert code == 0
    assert name in out
    assert "NOT private" in out
