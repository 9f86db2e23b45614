"""The command as users run it: what it writes, what it refuses, and that every output says what it is."""

import hashlib
import json
import re
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpwgan.audit.cli import main as audit
from dpwgan.evaluate import classifiers, cli, scores
from dpwgan.evaluate.apart import Telling
from dpwgan.evaluate.tables import NOTICE
from tests import programs
from tests.evaluate.samples import SPECS, draw_rows, write_rows, write_specs
from tests.table.images import draw_images, make_specs

KEYS = {
    *("notice", "tables", "claim", "claim_matches", "seed", "scores", "columns", "triples", "legality", "match"),
    *("audit", "seconds", "rows_per_second", "best_and_worst", "told_apart_by", "numbers", "weights", "groups"),
    *("intervals", "units", "links"),
}
SCORES = {
    *("nist2018", "kway_1", "kway_2", "kway_3", "pc1_distance", "correlations", "classifier_auc"),
    *("classifier_auc_real", "classifiers", "detection_auc", "interval_overlap"),
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    # The other two and detection have tests of their own, and run in the program of its own below.
    monkeypatch.setattr(classifiers, "CLASSIFIERS", ("naive_bayes",))
    monkeypatch.setattr(scores, "tell_apart", lambda *_, by_column: Telling(auc=0.5, columns={"job": 0.1, "age": -0.1}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a real table, three synthetic ones, a hold-out table and specs."""
    write_specs(tmp_path / "specs.json")
    for seed, name in enumerate(("real", "one", "two", "three", "holdout")):
        write_rows(tmp_path / f"{name}.csv", draw_rows(seed, rows=120))
    return tmp_path


def write_few(folder: Path, *names: str) -> None:
    """Writes a table of these columns alone, few.csv, and its specs."""
    write_specs(folder / "few.json", {name: SPECS[name] for name in names})
    places = [list(SPECS).index(name) for name in names]
    rows = [[row[place] for place in places] for row in draw_rows(1, rows=60)]
    write_rows(folder / "few.csv", rows, header=list(names))


FILES = ("real.csv", "one.csv", "specs.json")


def call(folder: Path, *arguments: str) -> int:
    """Runs the command on `FILES`, or where the first word is no flag on others, in the folder."""
    words = arguments if arguments and not arguments[0].startswith("-") else (*FILES, *arguments)
    files = [str(folder / word) if "." in word and not word.startswith("-") else word for word in words]
    return cli.main([*files, "--quiet"])


def read_scores(folder: Path, *arguments: str) -> dict[str, Any]:
    assert call(folder, *arguments, "--json", "scores.json") == 0
    assert stat.S_IMODE((folder / "scores.json").stat().st_mode) == 0o600
    document: dict[str, Any] = json.loads((folder / "scores.json").read_text())
    return document


def test_datetime_is_one_column_when_its_day_and_its_time_are_compared(folder):
    seen = {"type": "datetime", "min": "2024-01-01", "max": "2024-01-30", "step": "12 hours"}
    write_specs(folder / "specs.json", {"SEX": SPECS["SEX"], "job": SPECS["job"], "seen": seen})
    rows = [[str(1 + n % 2), "abc"[n % 3], f"2024-01-{1 + n % 30:02}T{n % 2 * 12:02}:00:00"] for n in range(60)]
    for name in FILES[:2]:
        write_rows(folder / name, rows, header=["SEX", "job", "seen"])
    document = read_scores(folder)
    assert document["tables"]["real"]["columns"] == 3
    assert len(document["columns"]) == 4
    assert "60 rows, 3 columns compared" in "".join(cli.write_summary(document))


def test_document_holds_every_score_beside_floor_and_ceiling_when_written(folder):
    document = read_scores(folder, "--holdout", "holdout.csv")
    assert set(document) == KEYS
    assert document["notice"] == NOTICE
    assert set(document["scores"]) == {"synthetic", "floor", "ceiling"}
    ceiling = document["scores"]["ceiling"]
    assert ceiling["classifier_auc"] == ceiling["classifier_auc_real"]
    for found in document["scores"].values():
        assert set(found) == SCORES
        assert set(found["nist2018"]) == {"marginals", "conjunctions", "gini_and_pay_gap", "mean"}
        assert all(0.0 <= value <= 1e6 for value in found["nist2018"].values())
        assert {row["target"] for row in found["classifiers"]} == {"SEX", "CITY", "job"}
    assert document["tables"]["holdout"]["rows"] == 120
    sizes = {"rows": 120, "compared": 120, "sampled": False, "columns": 7}
    assert document["tables"]["real"] == {"file": "real.csv", **sizes}
    assert [column["name"] for column in document["columns"]] == [name for name in SPECS if name != "next"]
    assert document["told_apart_by"] == [{"column": "job", "importance": 0.1}]
    for entries in document["best_and_worst"].values():
        lacks = [entry["ceiling"] - entry["agreement"] for entry in entries["best"] + entries["worst"][::-1]]
        assert lacks == sorted(lacks)
    assert len(document["best_and_worst"]["pairs"]["worst"]) == 5
    assert [number["name"] for number in document["numbers"]] == ["INCWAGE", "age", "weight"]
    agreements = [triple["agreement"] for triple in document["triples"]]
    assert agreements == sorted(agreements)
    assert len(agreements) == 10
    assert document["claim"] is None
    assert document["match"] is None
    assert document["legality"]["illegal_rows"] == 0
    assert document["rows_per_second"] > 0


def test_scores_are_the_same_when_the_seed_is(folder):
    first, again, other = (read_scores(folder, "--seed", seed)["scores"] for seed in ("3", "3", "4"))
    assert first == again
    assert first["synthetic"]["nist2018"] != other["synthetic"]["nist2018"]
    # What draws nothing does not depend on the seed.
    for name in ("kway_1", "kway_2", "kway_3", "pc1_distance", "correlations"):
        assert first["synthetic"][name] == other["synthetic"][name]


def test_scores_are_perfect_when_the_table_is_the_real_one(folder):
    scores = read_scores(folder, "real.csv", "real.csv", "specs.json")["scores"]["synthetic"]
    assert scores["nist2018"] == {"marginals": 1e6, "conjunctions": 1e6, "gini_and_pay_gap": 1e6, "mean": 1e6}
    assert scores["kway_3"] == pytest.approx(1000.0)
    assert scores["correlations"]["all"] == 0.0


def test_summary_says_first_what_it_is_when_printed(folder, capsys):
    assert call(folder) == 0
    out, err = capsys.readouterr()
    assert out.startswith(NOTICE)
    assert "NIST 2018: mean" in out
    assert err == ""
    assert sorted(path.name for path in folder.iterdir()) == [
        *("holdout.csv", "one.csv", "real.csv", "specs.json", "three.csv", "two.csv")
    ]


def test_stdout_holds_the_document_alone_when_json_goes_there(folder, capfdbinary):
    assert call(folder, "--json", "-") == 0
    assert set(json.loads(capfdbinary.readouterr().out)) == KEYS


def test_mean_is_that_of_every_table_when_three_are_given(folder):
    match = read_scores(folder, "real.csv", "one.csv", "two.csv", "three.csv", "specs.json")["match"]
    found = [table["nist2018"] for table in match["tables"]]
    alone = read_scores(folder, "real.csv", "three.csv", "specs.json")["scores"]["synthetic"]["nist2018"]
    assert found[2] == alone
    assert match["mean"] == pytest.approx(sum(scores["mean"] for scores in found) / 3)


def test_claim_is_quoted_and_held_against_the_table_when_it_lies_beside(folder, capsys):
    digest = hashlib.sha256((folder / "one.csv").read_bytes()).hexdigest()
    claim = folder / "one.csv.privacy.json"
    for named, matches in ((digest, True), ("0" * 64, False)):
        claim.write_text(json.dumps({"statement": "A promise.", "output": {"sha256": named}}))
        document = read_scores(folder)
        assert document["claim"]["statement"] == "A promise."
        assert document["claim_matches"] is matches
    assert "It does NOT belong to this file" in capsys.readouterr().out
    claim.write_text(json.dumps({"statement": "A promise."}))
    assert read_scores(folder)["claim_matches"] is None


def test_report_holds_what_the_audit_found_when_it_is_of_this_table(folder, capsys):
    copy = write_rows(folder / "copy.csv", draw_rows(0, rows=120))
    files = [str(folder / name) for name in ("real.csv", "copy.csv", "specs.json", "holdout.csv", "audit.json")]
    few = ("--only", "exact copies", "--rows", "120", "--quiet")
    assert audit(["attack", *files[:3], "--holdout", files[3], "--json", files[4], *few]) == 0
    arguments = ["real.csv", "copy.csv", "specs.json", "--audit", "audit.json", "--html", "report.html"]
    document = read_scores(folder, *arguments)
    assert document["audit"]["attacks"][0]["headline"]["beats_baseline"]
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "The synthetic table gives people away." in text
    assert re.search(r"exact copies.*leak</strong>.*1\.000", text)
    capsys.readouterr()
    copy.write_text(copy.read_text() + ",".join(draw_rows(0, rows=1)[0]) + "\n")
    assert call(folder, *arguments) == 65
    assert "of another table" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{", "[1]", pytest.param("[" * 100_000, id="deep")])
def test_run_ends_with_65_when_the_claim_is_no_json_object(folder, text, capsys):
    (folder / "one.csv.privacy.json").write_text(text)
    assert call(folder) == 65
    assert "one.csv.privacy.json" in capsys.readouterr().err


def test_illegal_rows_are_counted_when_the_synthetic_table_has_them(folder):
    rows = draw_rows(1, rows=120)
    rows[0][3], rows[1][7] = "nobody", "99"
    write_rows(folder / "one.csv", rows)
    legality = read_scores(folder)["legality"]
    assert legality["illegal_rows"] == 1
    assert legality["rows"] == 120
    assert legality["derived_columns"] == 1
    assert legality["derived_broken"] == 1
    assert {(found["column"], found["rows"]) for found in legality["broken"]} == {("job", 1), ("next", 1)}


def test_rules_are_counted_in_both_tables_when_only_the_synthetic_one_has_to_keep_them(folder):
    rules = [{"sql": "age < 16", "violations": "keep"}, "SEX IS NOT NULL"]
    write_specs(folder / "specs.json", {**SPECS, "rules": rules})
    legality = read_scores(folder)["legality"]
    old = [sum(row[4] == "16" for row in draw_rows(seed, rows=120)) for seed in (0, 1)]
    assert [(rule["real"], rule["synthetic"]) for rule in legality["rules"]] == [tuple(old), (0, 0)]
    assert min(old) > 0


def test_units_are_compared_by_their_number_of_rows_and_the_total_of_dates_is_refused(tmp_path, capsys):
    day = {"type": "date", "min": "2020-01-01", "max": "2020-01-09"}
    unit = {"column": "id", "max_rows": 3}
    write_specs(tmp_path / "specs.json", {"unit": unit, "id": {"type": "integer", "uuid": True}, "day": day})
    for name, units in (("real", "aabbbbc"), ("synthetic", "1122333")):
        rows = [[cell, f"2020-01-0{place + 1}"] for place, cell in enumerate(units)]
        write_rows(tmp_path / f"{name}.csv", rows, header=["id", "day"])
    files = ("real.csv", "synthetic.csv", "specs.json")
    document = read_scores(tmp_path, *files, "--html", "report.html")
    third = pytest.approx(1 / 3)
    # Rows are compared by how many their unit has as well: of seven two are of pairs in both, three of triples.
    assert [(column["name"], column["agreement"]) for column in document["columns"]][1:] == [
        ("id (rows)", pytest.approx(5 / 7))
    ]
    assert document["tables"]["real"]["columns"] == 1
    assert document["units"] == {"real": [third, third, third], "synthetic": [0.0, pytest.approx(2 / 3), third]}
    assert "Units by their number of rows, agreement 0.667." in capsys.readouterr().out
    assert "Units by their number of rows" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert call(tmp_path, *files, "--weight", "day") == 2
    assert "--weight names 'day', which is no number" in capsys.readouterr().err


def test_linked_columns_are_told_beside_units_in_text_document_and_report(tmp_path, capsys):
    unit = {"column": "id", "max_rows": 3, "linked": ["pay", "rare", "job"]}
    number = {"type": "integer", "min": 0, "max": 99, "optional": True}
    specs = {"id": {"type": "integer", "uuid": True}, "pay": number, "rare": number, "job": SPECS["job"]}
    write_specs(tmp_path / "specs.json", {"unit": unit, **specs})
    for name, step in (("real", 3), ("synthetic", 1)):
        # Each unit has three rows, alike in the real table, and in the other one each row has the next number.
        rows = [[str(row // 3), str(row // step % 50), "", "abc"[row // step % 3]] for row in range(300)]
        write_rows(tmp_path / f"{name}.csv", rows, header=["id", "pay", "rare", "job"])
    document = read_scores(tmp_path, "real.csv", "synthetic.csv", "specs.json", "--html", "report.html")
    pay, rare, job = document["links"]
    assert (pay["column"], pay["measure"]) == ("pay", "rank correlation with the row before")
    assert (pay["real"], pay["pairs"]) == (pytest.approx(1.0), {"real": 200, "synthetic": 200})
    assert (rare["real"], rare["synthetic"], rare["pairs"]) == (None, None, {"real": 0, "synthetic": 0})
    assert (job["real"], job["synthetic"]) == (1.0, 0.0)
    lines = capsys.readouterr().out.splitlines()
    first = lines.index("Units by their number of rows, agreement 1.000.") + 1
    assert lines[first : first + 3] == [
        f"Linked pay, rank correlation with the row before: real 1.000, synthetic {pay['synthetic']:.3f}.",
        "Linked rare: not measured, as fewer than 100 pairs of rows of a unit have it (real 0, synthetic 0).",
        "Linked job, share of rows equal to the row before: real 1.000, synthetic 0.000.",
    ]
    page = re.sub(r"<[^>]*>", " ", (tmp_path / "report.html").read_text(encoding="utf-8"))
    assert re.search(r"Linked columns.*job\s+share of rows equal to the row before\s+1\.000\s+0\.000", page, re.DOTALL)
    assert re.search(r"rare\s+not measured: too few pairs of rows\s+\N{EN DASH}\s+\N{EN DASH}", page)


def test_groups_and_totals_are_written_when_columns_are_named(folder):
    named = ["--by", "SEX", "--by", "age", "--by", "SEX", "--weight", "INCWAGE"]
    document = read_scores(folder, *named)
    assert [grouping["column"] for grouping in document["groups"]] == ["SEX", "age"]
    assert [weight["column"] for weight in document["weights"]] == ["INCWAGE"]
    assert call(folder, *named, "--html", "report.html") == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Totals of weights" in page
    assert "Mean of INCWAGE" in page


def test_longer_tables_are_compared_by_rows_that_are_drawn_and_all_outputs_say_so(folder, capsys):
    document = read_scores(folder, "--rows", "50")
    for name in ("real", "synthetic"):
        table = document["tables"][name]
        assert (table["rows"], table["compared"], table["sampled"]) == (120, 50, True)
    assert "Of the real table 50 rows are compared" in capsys.readouterr().out
    assert call(folder, "--rows", "50", "--html", "report.html") == 0
    assert "Of the real rows 50 were drawn" in (folder / "report.html").read_text(encoding="utf-8")


def test_third_score_is_none_when_no_column_has_the_role(folder):
    write_few(folder, "job", "age", "flat")
    nist = read_scores(folder, "few.csv", "few.csv", "few.json")["scores"]["synthetic"]["nist2018"]
    assert nist == {"marginals": 1e6, "conjunctions": 1e6, "gini_and_pay_gap": None, "mean": 1e6}


@pytest.mark.slow
def test_third_score_uses_the_columns_named_when_roles_are_given(folder):
    default = read_scores(folder)["scores"]["synthetic"]["nist2018"]
    named = read_scores(folder, "--city", "job")["scores"]["synthetic"]["nist2018"]
    assert named["gini_and_pay_gap"] != default["gini_and_pay_gap"]
    assert named["marginals"] == default["marginals"]


@pytest.mark.parametrize("columns", [("job",), ("job", "age")])
def test_table_is_scored_when_it_has_hardly_any_columns(folder, columns):
    write_few(folder, *columns)
    document = read_scores(folder, "few.csv", "few.csv", "few.json")
    assert document["scores"]["synthetic"]["kway_3"] is None
    assert document["triples"] == []
    assert call(folder, "few.csv", "few.csv", "few.json", "--html", "report.html") == 0
    assert stat.S_IMODE((folder / "report.html").stat().st_mode) == 0o600
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert NOTICE in page
    assert "<html" in page


def test_table_is_scored_when_it_has_one_row(folder):
    write_rows(folder / "one.csv", draw_rows(1, rows=1))
    assert read_scores(folder)["tables"]["synthetic"]["rows"] == 1
    assert read_scores(folder, "one.csv", "real.csv", "specs.json")["tables"]["real"]["rows"] == 1


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["real.csv", "one.csv"], 2, "three arguments or more"),
        (["--frobnicate"], 2, "--frobnicate"),
        (["--seed", "-1"], 2, "--seed"),
        (["--seed", "x"], 2, "--seed"),
        (["--json", "real.csv"], 2, "--json would write over"),
        (["--html", "one.csv.privacy.json"], 2, "--html would write over"),
        (["--html", "a.out", "--json", "a.out"], 2, "the same file"),
        (["--sex", "gender"], 2, "--sex names 'gender'"),
        (["--wage", "job"], 2, "third NIST score"),
        (["--by", "gender"], 2, "--by names 'gender'"),
        (["--weight", "job"], 2, "--weight names 'job'"),
        (["--rows", "0"], 2, "--rows"),
        (["--threads", "0"], 2, "--threads"),
        (["none.csv", "one.csv", "specs.json"], 66, "none.csv"),
        (["real.csv", "none.csv", "specs.json"], 66, "none.csv"),
        (["real.csv", "one.csv", "none.json"], 66, "none.json"),
        (["real.csv", "one.csv", "real.csv"], 78, "JSON"),
        (["--json", "no/such/folder.json"], 73, "folder"),
    ],
)
def test_run_ends_with_its_code_and_one_sentence_when_refused(folder, arguments, exit_code, words, capsys):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert call(folder, *arguments) == exit_code
    out, err = capsys.readouterr()
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_run_ends_with_65_and_no_cell_when_a_real_cell_is_illegal(folder, capsys):
    rows = draw_rows(0, rows=120)
    rows[7][3] = "SECRET"
    write_rows(folder / "real.csv", rows)
    assert call(folder, "--json", "scores.json") == 65
    err = capsys.readouterr().err
    assert "real.csv" in err
    assert "column 'job'" in err
    assert "SECRET" not in err
    assert not (folder / "scores.json").exists()


def test_run_ends_with_70_and_no_cell_when_something_unforeseen_happens(folder, capsys, monkeypatch):
    def break_down(*arguments: object) -> None:
        raise ValueError("SECRET")

    monkeypatch.setattr(cli, "read_claim", break_down)
    assert call(folder, "--json", "scores.json") == 70
    err = capsys.readouterr().err
    assert "internal error: valueerror" in err.lower()
    assert "SECRET" not in err
    assert not (folder / "scores.json").exists()


@pytest.mark.slow
def test_module_runs_and_speaks_on_stderr_when_started_as_a_program(folder):
    files = (folder / name for name in FILES)
    done = programs.call(sys.executable, "-m", "dpwgan.evaluate", *files, check=True)
    assert done.stdout.startswith(NOTICE)
    assert "measuring: the floor" in done.stderr


def test_run_job_never_imports_the_evaluation_when_it_runs():
    code = (
        "import sys, dpwgan.app.cli, dpwgan.app.pipeline, dpwgan.methods.registry\n"
        "names = [name for name in sys.modules if name.startswith(('dpwgan.evaluate', 'dpwgan.audit'))]\n"
        "sys.exit(' '.join(names) or 0)"
    )
    programs.call(sys.executable, "-c", code, check=True)


def test_report_is_refused_before_anything_is_read_when_its_packages_are_missing(folder, monkeypatch, capsys):
    monkeypatch.setattr(cli.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(cli, "read_specs", lambda *_, **__: pytest.fail("something was read"))
    assert call(folder, "--html", "report.html") == 2
    assert "requirements-evaluation.txt" in capsys.readouterr().err
    assert not (folder / "report.html").exists()


@pytest.mark.slow
def test_every_score_is_given_when_tables_are_images(tmp_path):
    (tmp_path / "specs.json").write_text(json.dumps(make_specs(6, 6, 1)))
    for seed, name in enumerate(("real", "made", "holdout")):
        images, labels = draw_images(200, 6, 6, seed=seed)
        np.savez(tmp_path / f"{name}.npz", images=images, labels=labels)
    document = read_scores(tmp_path, "real.npz", "made.npz", "specs.json", "--holdout", "holdout.npz")
    sizes = {"rows": 200, "compared": 200, "sampled": False, "columns": 37}
    assert document["tables"]["real"] == {"file": "real.npz", **sizes}
    scores = document["scores"]["synthetic"]
    assert {trial["target"] for trial in scores["classifiers"]} == {"y"}
    assert scores["classifier_auc"] > 0.99  # which row is bright says what the label is
    assert document["scores"]["floor"]["classifier_auc"] < 0.7
    assert 0 <= scores["pc1_distance"] < 1.5
