"""Whole runs on tiny tables: legal cells, a valid claim, and the same road from the command line and from Python."""

import csv
import gc
import gzip
import hashlib
import json
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pandas as pd
import polars as pl
import pytest

import dpwgan
from dpwgan.__main__ import main as every_command
from dpwgan.app import pipeline
from dpwgan.app.claim import NOT_PRIVATE, ROWS_USE, Claim, read_claim
from dpwgan.errors import DataError, TransferError, UsageError
from dpwgan.methods.dp_wgan import DpWgan
from dpwgan.privacy.ledger import Ledger
from dpwgan.table.files import writer
from tests.end_to_end.bad_inputs import FAST, HEADER, SETTINGS, SPECS, run_inside, write_good
from tests.keys import write_keys

pytestmark = pytest.mark.slow

COLOURS = {"red", "green", "blue, dark"}
Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    write_good(tmp_path)
    return partial(run_inside, tmp_path)


def read_rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def check_rows(text: str, *, count: int) -> None:
    """Makes sure that a table is a legal one of as many rows."""
    rows = read_rows(text)
    assert len(rows) == count
    for row in rows:
        assert list(row) == HEADER.split(",")
        assert row["colour"] in COLOURS
        assert row["age"] == str(int(row["age"]))
        assert 0 <= int(row["age"]) <= 120
        assert row["income"] == "" or row["income"] == f"{float(row['income']):.1f}"
        assert row["income"] == "" or 0 <= float(row["income"]) <= 1000
        assert row["member"] in {"0", "1"}


@pytest.mark.parametrize(("epsilon", "neighbours"), [(8.0, "zero-out"), (1.0, "replace-one")])
def test_run_writes_legal_rows_and_a_valid_claim_when_all_is_well(run, tmp_path, epsilon, neighbours):
    arguments = ("data.csv", "out.csv", "specs.json", str(epsilon), "--neighbours", neighbours, *FAST)
    assert run(*arguments) == 0
    check_rows((tmp_path / "out.csv").read_text(), count=60)
    document = read_claim(tmp_path / "out.csv.privacy.json").document
    assert document["budget"]["epsilon_asked"] == epsilon
    assert document["guarantee"]["epsilon"] <= epsilon
    assert document["guarantee"]["delta"] == 1 / 60**2
    assert document["guarantee"]["neighbouring_relation"]["name"] == neighbours.replace("-", "_")
    assert document["public"]["records"] == document["output"]["rows"] == 60
    assert document["randomness"]["seeded"] is False
    assert all(item["charged"] == item["reserved"] for item in document["ledger"])


def test_run_says_the_five_lines_of_its_claim_when_it_is_short_and_nothing_more_is_asked(run, tmp_path, capfd):
    words = ("data.csv", "out.csv", "specs.json", "8.0", "--method", "independent")
    assert run(*words) == 0
    summary = read_claim(tmp_path / "out.csv.privacy.json").document["summary"]
    assert len(summary) == 5
    assert capfd.readouterr().err.splitlines() == [f"dpwgan: {line}" for line in summary]
    assert run(*words, "--verbose") == 0
    said = capfd.readouterr().err
    assert said.index("dpwgan: 60 rows of ") < said.index("dpwgan: step ")
    assert said.count("needs least noise") == 1
    assert said.index("(100%)") < said.index("dpwgan: sampling and writing 60 rows\n") < said.index("Privacy claim")
    digest = read_claim(tmp_path / "out.csv.privacy.json").document["output"]["sha256"]
    assert f"dpwgan: output SHA-256: {digest}\n" in said


def test_seeded_run_repeats_and_is_stamped_when_the_seed_is_the_same(run, tmp_path, capfd):
    for name, seed in (("one.csv", "7"), ("two.csv", "7"), ("three.csv", "8")):
        assert run("data.csv", name, "specs.json", "1.0", "--seed", seed, *FAST) == 0
        assert f"warning: {NOT_PRIVATE}" in capfd.readouterr().err
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    assert (tmp_path / "one.csv").read_bytes() != (tmp_path / "three.csv").read_bytes()
    document = read_claim(tmp_path / "one.csv.privacy.json").document
    assert document["guarantee"] is None
    assert document["why_no_guarantee"].startswith(NOT_PRIVATE)


def test_python_gives_what_the_command_line_gives_when_the_seed_is_the_same(run, tmp_path):
    assert run("data.csv", "out.csv", "specs.json", "1.0", "--seed", "7", *FAST) == 0
    frame = pd.read_csv(tmp_path / "data.csv")
    synthetic, claim = dpwgan.synthesize(frame, tmp_path / "specs.json", 1.0, seed=7, settings=SETTINGS)
    written = pd.read_csv(tmp_path / "out.csv")
    pd.testing.assert_frame_equal(synthetic, written, check_dtype=False)
    from_file = dict(read_claim(tmp_path / "out.csv.privacy.json").document)
    from_python = dict(claim.document)
    assert from_file.pop("output")["rows"] == from_python.pop("output")["rows"] == 60
    assert from_file == from_python


def test_python_takes_a_document_and_keeps_types_when_given_a_frame():
    frame = pd.DataFrame(
        {
            "colour": pd.Categorical(["red", "green", "blue, dark"] * 20),
            "age": range(60),
            "income": [None if row % 7 == 0 else row * 3.5 for row in range(60)],
            "member": [0, 1] * 30,
        }
    )
    kept = frame.copy(deep=True)
    synthetic, claim = dpwgan.synthesize(frame, SPECS, 1.0, rows=9, settings=SETTINGS)
    assert isinstance(claim, Claim)
    assert len(synthetic) == claim.rows == 9
    assert list(synthetic.columns) == list(frame.columns)
    assert synthetic["age"].dtype.kind == "i"
    assert synthetic["income"].dtype.kind == "f"
    assert set(synthetic["colour"]) <= COLOURS
    pd.testing.assert_frame_equal(frame, kept)


@pytest.mark.parametrize(("free", "code"), [(180, 0), (179, 73)])
def test_room_is_asked_for_the_columns_of_the_output_alone(run, tmp_path, monkeypatch, free, code):
    (tmp_path / "specs.json").write_text(json.dumps({**SPECS, "income": {"type": "drop"}}))
    monkeypatch.setattr(pipeline.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert run("data.csv", "out.csv", "specs.json", "8.0", "--method", "independent", "--check") == code


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        (lambda frame: frame.assign(age=999), "age"),
        (lambda frame: frame.drop(columns="age"), "age"),
        (lambda frame: frame.iloc[:0], "row"),
    ],
)
def test_python_raises_one_of_the_tools_errors_when_the_frame_does_not_fit(tmp_path, change, fragment):
    write_good(tmp_path)
    with pytest.raises(DataError, match=fragment) as caught:
        dpwgan.synthesize(change(pd.read_csv(tmp_path / "data.csv")), SPECS, 1.0, settings=SETTINGS)
    assert "999" not in str(caught.value)


def test_synthesizer_refuses_when_used_out_of_order(tmp_path):
    write_good(tmp_path)
    frame = pd.read_csv(tmp_path / "data.csv")
    synthesizer = dpwgan.Synthesizer(SPECS, 1.0, settings=SETTINGS)
    for early in (synthesizer.sample, synthesizer.claim, lambda: synthesizer.save(tmp_path / "model")):
        with pytest.raises(UsageError, match="not fitted"):
            early()
    synthesizer.fit(frame)
    with pytest.raises(UsageError, match="second release"):
        synthesizer.fit(frame)
    with pytest.raises(UsageError, match="no option"):
        dpwgan.Synthesizer(SPECS, 1.0, epochs=3)


def test_saved_model_gives_more_rows_under_the_same_claim_when_loaded(run, tmp_path):
    assert run("data.csv", "out.csv", "specs.json", "1.0", "--save-model", "model", *FAST) == 0
    (tmp_path / "data.csv").unlink()
    assert run("--from-model", "model", "more.csv.gz", "--rows", "500") == 0
    check_rows(gzip.decompress((tmp_path / "more.csv.gz").read_bytes()).decode(), count=500)
    assert run("--from-model", "model", "endless.csv", "--rows", str(10**15)) == 73
    first = read_claim(tmp_path / "out.csv.privacy.json").document
    more = read_claim(tmp_path / "more.csv.gz.privacy.json").document
    for key in ("guarantee", "budget", "ledger", "accountant", "method"):
        assert first[key] == more[key]
    assert more["output"]["rows"] == 500
    assert more["output"]["from_saved_model"] is True
    assert "no privacy" in more["output"]["note"]

    loaded = dpwgan.Synthesizer.load(tmp_path / "model", seed=3)
    again = dpwgan.Synthesizer.load(tmp_path / "model", seed=3)
    pd.testing.assert_frame_equal(loaded.sample(11), again.sample(11))
    assert loaded.claim().rows == 60
    assert loaded.claim().private
    assert ROWS_USE in loaded.claim().document["public"]["uses_of_records"]
    assert ROWS_USE in first["public"]["uses_of_records"]
    assert ROWS_USE not in more["public"]["uses_of_records"]


def test_saved_model_holds_no_row_and_no_pickle_when_looked_into(run, tmp_path):
    assert run("data.csv", "out.csv", "specs.json", "1.0", "--save-model", "model", *FAST) == 0
    files = sorted(path for path in (tmp_path / "model").rglob("*") if path.is_file())
    assert {path.suffix for path in files} <= {".json", ".npz"}
    assert sum(path.stat().st_size for path in files) < 200_000


def test_text_of_the_table_is_let_go_of_when_training_begins(run, monkeypatch):
    texts: list[Any] = []
    held: list[bool] = []
    open_table, fit = pipeline.open_table, DpWgan.fit

    def watched_open(*arguments: Any, **options: Any) -> Any:
        table = open_table(*arguments, **options)
        texts.append(weakref.ref(table))
        return table

    def watched_fit(self: DpWgan, *arguments: Any, **options: Any) -> Any:
        gc.collect()
        held.extend(text() is not None for text in texts)
        return fit(self, *arguments, **options)

    monkeypatch.setattr(pipeline, "open_table", watched_open)
    monkeypatch.setattr(DpWgan, "fit", watched_fit)
    assert run("data.csv", "out.csv", "specs.json", "1.0", *FAST) == 0
    assert held == [False]


def test_check_prints_the_ledger_and_writes_nothing_when_asked(run, tmp_path, capfd):
    before = sorted(tmp_path.iterdir())
    assert run("data.csv", "out.csv", "specs.json", "1.0", "--check", *FAST) == 0
    out = capfd.readouterr().out
    assert "rows: 60" in out
    assert "noise multiplier" in out
    assert "memory: about" in out
    assert "time: about" in out
    assert sorted(tmp_path.iterdir()) == before
    assert run("data.csv", "out.csv", "specs.json", "1.0", "--check", "--log-format", "json", *FAST) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["epsilon_planned"] <= 1.0
    assert all(item["charged"] == 0 for item in document["ledger"])


def test_check_looks_at_no_cell_when_the_cells_are_bad(run, tmp_path):
    rows = "\n".join(f"{row},bad,bad,bad" for row in range(60))
    (tmp_path / "data.csv").write_text(f"{HEADER}\n{rows}\n")
    assert run("data.csv", "out.csv", "specs.json", "1.0", "--check", *FAST) == 0


def test_check_reads_no_cell_of_parquet_when_all_but_the_files_last_part_is_lost(run, tmp_path, capfd):
    pl.read_csv(tmp_path / "data.csv", infer_schema=False).write_parquet(tmp_path / "data.parquet")
    whole = (tmp_path / "data.parquet").read_bytes()
    last = 8 + int.from_bytes(whole[-8:-4], "little")
    (tmp_path / "data.parquet").write_bytes(whole[:4] + bytes(len(whole) - 4 - last) + whole[-last:])
    assert run("data.parquet", "out.csv", "specs.json", "1.0", "--check", *FAST) == 0
    assert "rows: 60" in capfd.readouterr().out
    assert run("data.parquet", "out.csv", "specs.json", "1.0", *FAST) == 65
    assert "not a Parquet file that can be read" in capfd.readouterr().err
    assert not (tmp_path / "out.csv").exists()


def test_check_plans_what_the_run_spends_when_both_are_asked(run, tmp_path, capfd):
    assert run("data.csv", "out.csv", "specs.json", "1.0", "--check", "--log-format", "json", *FAST) == 0
    planned = json.loads(capfd.readouterr().out)
    assert run("data.csv", "out.csv", "specs.json", "1.0", *FAST) == 0
    document = read_claim(tmp_path / "out.csv.privacy.json").document
    assert planned["epsilon_planned"] == document["budget"]["epsilon_spent"]
    assert [item["label"] for item in planned["ledger"]] == [item["label"] for item in document["ledger"]]


def test_claim_is_printed_on_stdout_when_asked(run, tmp_path, capfd):
    assert run("data.csv", "out.csv", "specs.json", "1.0", "--claim", "-", "--quiet", *FAST) == 0
    out, err = capfd.readouterr()
    assert out == read_claim(tmp_path / "out.csv.privacy.json").to_text()
    assert err == ""


def test_run_says_that_the_claim_is_kept_nowhere_when_the_table_goes_to_stdout(run, capfd):
    words = ("data.csv", "-", "specs.json", "8.0", "--method", "independent")
    assert run(*words) == 0
    assert "warning: the claim will be in no file, and cannot be checked later: --claim PATH" in capfd.readouterr().err
    assert run(*words, "--claim", "claim.json") == 0
    assert "warning" not in capfd.readouterr().err
    assert run(*words, "--claim", "claim.json") == 0
    assert "warning: the claim 'claim.json' will be replaced: if its table was given away" in capfd.readouterr().err


def test_claim_is_signed_when_there_is_a_key(run, tmp_path):
    public = write_keys(tmp_path)
    words = ("data.csv", "out.csv", "specs.json", "1.0", "--method", "independent", "--sign", "key.pem")
    assert run(*words, "--save-model", "model") == 0
    assert run("--from-model", "model", "more.csv", "--rows", "5", "--sign", "key.pem") == 0
    for name in ("out.csv", "more.csv"):
        found = (tmp_path / f"{name}.privacy.json").read_bytes()
        public.verify((tmp_path / f"{name}.privacy.json.sig").read_bytes(), found)
        paths = [str(tmp_path / path) for path in (f"{name}.privacy.json", name, "public.pem")]
        assert every_command(["claim", "verify", *paths[:2], "--key", paths[2]]) == 0


def test_signature_is_that_of_the_claim_that_stays_when_a_run_breaks_off(run, tmp_path, monkeypatch):
    def show_and_stop(pending: Any) -> None:
        pending.shows = True
        raise TransferError("stopped")

    public = write_keys(tmp_path)
    words = ("specs.json", "1.0", "--method", "independent", "--sign", "key.pem", "--claim", "claim.json")
    claim, signature = tmp_path / "claim.json", tmp_path / "claim.json.sig"
    for is_old in (False, True):
        with monkeypatch.context() as patched:
            patched.setattr(pipeline, "pass_point_of_no_return", Mock(side_effect=TransferError("stopped")))
            assert run("data.csv", "out.csv", *words) == 74
        assert claim.exists() == signature.exists() == is_old
        assert is_old or run("data.csv", "out.csv", *words) == 0
        public.verify(signature.read_bytes(), old := claim.read_bytes())
    # A claim of rows that were seen stays.
    monkeypatch.setattr(writer._HeldStream, "publish", show_and_stop)
    assert run("data.csv", "-", *words) == 74
    assert claim.read_bytes() != old
    public.verify(signature.read_bytes(), claim.read_bytes())


def test_run_is_refused_when_a_gpu_is_asked_for_and_there_is_none(run, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("tensorflow.config.list_physical_devices", lambda kind=None: [])
    before = sorted(tmp_path.iterdir())
    assert run("data.csv", "out.csv", "specs.json", "1.0", "--device", "gpu", *FAST) == 75
    assert "A GPU was asked for" in capfd.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


def test_no_output_appears_when_the_ledger_says_more_than_was_asked(run, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(Ledger, "epsilon_reserved", lambda self: 1.5)
    guarantee = Ledger.guarantee

    def overspent(self: Ledger) -> Any:
        self._reserved_epsilon = 1.5
        return guarantee(self)

    monkeypatch.setattr(Ledger, "guarantee", overspent)
    before = sorted(tmp_path.iterdir())
    assert run("data.csv", "out.csv", "specs.json", "1.0", "--save-model", "model", *FAST) == 70
    assert "more epsilon than was asked for" in capfd.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


def test_old_output_and_claim_stay_when_a_later_run_fails(run, tmp_path):
    (tmp_path / "out.csv").write_text("old")
    (tmp_path / "out.csv.privacy.json").write_text("old claim")
    rows = "\n".join(f"{row},bad,bad,bad" for row in range(60))
    (tmp_path / "data.csv").write_text(f"{HEADER}\n{rows}\n")
    assert run("data.csv", "out.csv", "specs.json", "1.0", *FAST) == 65
    assert (tmp_path / "out.csv").read_text() == "old"
    assert (tmp_path / "out.csv.privacy.json").read_text() == "old claim"


@pytest.mark.parametrize("privacy", ["private", "waived"])
def test_lists_from_the_data_are_paid_for_or_named_when_the_specs_ask(run, tmp_path, privacy, capfd):
    town = {"type": "enum", "values_from": "data", "domain_privacy": privacy, "optional": True}
    (tmp_path / "specs.json").write_text(json.dumps({**SPECS, "town": town}))
    rows = "\n".join(f"red,3,4.0,1,town{row % 2}" for row in range(2000))
    (tmp_path / "data.csv").write_text(f"{HEADER},town\n{rows}\n")
    assert run("data.csv", "out.csv", "specs.json", "8.0", "--check", *FAST) == 0
    capfd.readouterr()
    assert run("data.csv", "out.csv", "specs.json", "8.0", *FAST) == 0
    document = read_claim(tmp_path / "out.csv.privacy.json").document
    towns = {row["town"] for row in read_rows((tmp_path / "out.csv").read_text())}
    assert towns <= {"town0", "town1", ""}
    paid = [item for item in document["ledger"] if item["label"] == "cells of town"]
    assert document["accountant"]["rule"] == "auto"
    assert "was asked for" not in document["accountant"]["reason"]
    if privacy == "private":
        assert document["columns"]["domains_paid_for"] == ["town"]
        assert paid[0]["charged"] == 1
    else:
        assert document["columns"]["domains_waived"] == ["town"]
        assert any("town" in item for item in document["not_covered"])
        assert paid == []
    assert document["guarantee"]["epsilon"] <= 8.0


def grow(folder: Path, *, rows: int) -> None:
    lines = (folder / "data.csv").read_text().splitlines()
    (folder / "data.csv").write_text("\n".join([lines[0], *(lines[1 + row % 60] for row in range(rows))]) + "\n")


@pytest.mark.parametrize(("epsilon", "noise_multiplier"), [("5.1", 1.0), ("1.0", 3.0)])
def test_preset_stops_within_the_budget_when_its_epochs_would_pass_it(run, tmp_path, epsilon, noise_multiplier, capfd):
    grow(tmp_path, rows=640)  # ten epochs of batches of 64 are 100 steps
    arguments = ("data.csv", "out.csv", "specs.json", epsilon, "--preset", "uclanesl-2019")
    assert run(*arguments, "--check", "--log-format", "json") == 0
    planned = json.loads(capfd.readouterr().out)
    assert planned["epsilon_planned"] <= float(epsilon)
    assert planned["ledger"][0]["noise_multiplier"] == noise_multiplier
    assert planned["ledger"][0]["reserved"] < 100


def test_codebook_gives_the_list_and_is_cited_when_the_specs_ask(run, tmp_path):
    (tmp_path / "codes.cbk").write_text(" member\tMembership\n0\tNo\n1\tYes\n")
    (tmp_path / "specs.json").write_text(json.dumps({**SPECS, "member": {"type": "enum", "domain_from": "codebook"}}))
    assert run("data.csv", "out.csv", "specs.json", "1.0", "--codebook", "codes.cbk", *FAST) == 0
    document = read_claim(tmp_path / "out.csv.privacy.json").document
    assert document["columns"]["domains_from_codebook"] == ["member"]
    digest = hashlib.sha256((tmp_path / "codes.cbk").read_bytes()).hexdigest()
    assert document["public"]["codebook_sha256"] == digest
    check_rows((tmp_path / "out.csv").read_text(), count=60)


def test_nothing_computed_from_rows_is_logged_when_verbose(run, tmp_path, capfd):
    # Two tables with the same header, n and specs must give the same messages: whatever differs came from rows.
    said = []
    for rows in ([f"red,{row % 50},,0" for row in range(60)], [f"green,{row},9.5,1" for row in range(60)]):
        (tmp_path / "data.csv").write_text("\n".join((HEADER, *rows)) + "\n")
        assert run("data.csv", "out.csv", "specs.json", "1.0", "--verbose", *FAST) == 0
        lines = capfd.readouterr().err.splitlines()
        said.append([line.split(", about ")[0] for line in lines if "output SHA-256" not in line])
        (tmp_path / "out.csv.privacy.json").unlink()  # which the next run would name
    assert said[0] == said[1]
