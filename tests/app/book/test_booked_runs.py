"""Runs that share a book: all of them together keep its limit, and past it no row is read."""

import json
from pathlib import Path
from typing import Any

import pytest

from dpwgan.app import cli
from dpwgan.app.api import Synthesizer
from dpwgan.app.book.book import read_book
from dpwgan.app.claim import Claim
from dpwgan.app.claims.verification import find_faults
from dpwgan.errors import DataError, PrivacyError, UsageError
from dpwgan.privacy.budget import NeighboringRelation
from tests.end_to_end.bad_inputs import HEADER, ROWS, write_good
from tests.lives import ASKED, QUERIES, SPECS, die, make_frame, read_journal
from tests.programs import begin_book, read_claim

FAST = ("--method", "independent", "--accountant", "moments")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_good(tmp_path)
    monkeypatch.chdir(tmp_path)
    begin_book(tmp_path, 4.0)
    return tmp_path


def run(output: str, *more: str, epsilon: str = "1", data: str = "data.csv") -> int:
    return cli.main([data, output, "specs.json", epsilon, *FAST, "--book", "b.book", *more], environment={})


def test_eight_releases_cost_less_than_their_sum_and_the_next_is_refused_before_a_row_is_read(folder, capfd):
    for number in range(8):
        assert run(f"{number}.csv") == 0
        book = read_book("b.book")
        assert read_claim(Path(), f"{number}.csv")["book"] == {
            "name": "cases",
            "line": book.seals[-2],  # the last one notes the output
            "epsilon": book.spent[-1],
            "epsilon_limit": 4.0,
            "delta_limit": 1e-3,
        }
    alone = [float(entry.about["epsilon"]) for entry in book.entries.values()]
    assert all(entry.settled and len(entry.outputs) == 1 for entry in book.entries.values())
    assert sum(alone) > 7.8
    assert 2.0 < book.spent[-1] <= 4.0
    capfd.readouterr()
    before = (folder / "b.book").read_bytes()
    # This table's first row is none: reading it would end with 65.
    (folder / "bad.csv").write_text("\n".join((HEADER, "no colour,-5,x,7", *ROWS)) + "\n")
    assert run("9.csv", data="bad.csv", epsilon="3") == 69
    assert "has no room for this release" in capfd.readouterr().err
    assert run("9.csv", "--check", epsilon="3") == 69
    assert run("9.csv", "--check", epsilon="0.01") == 0
    assert "book 'cases': all releases in it together" in capfd.readouterr().out
    assert (folder / "b.book").read_bytes() == before
    assert not list(folder.glob("9.csv*"))


def test_run_that_ends_before_its_first_release_costs_nothing(folder):
    (folder / "bad.csv").write_text("\n".join((HEADER, "no colour,-5,x,7", *ROWS)) + "\n")
    assert run("out.csv", data="bad.csv") == 65
    book = read_book("b.book")
    assert [entry.settled for entry in book.entries.values()] == [True]
    assert book.spent[-1] == 0.0


def test_output_does_not_appear_when_the_book_cannot_note_it(folder, monkeypatch):
    from dpwgan.app.book import book as module

    write = module._write
    lines: list[str] = []

    def fail_at_last(descriptor: int, line: dict[str, Any], *, shown: str) -> None:
        lines.append(line["kind"])
        if line["kind"] == "output":
            (folder / "b.book").unlink()
            raise module.TransferError("the disk is full")
        write(descriptor, line, shown=shown)

    monkeypatch.setattr(module, "_write", fail_at_last)
    assert run("out.csv") == 74
    assert lines == ["reserve", "settle", "output"]
    assert not list(folder.glob("out.csv*"))


def test_more_rows_of_a_model_cost_nothing_and_leave_the_book_as_it_was(folder):
    assert run("out.csv", "--save-model", "model") == 0
    before = (folder / "b.book").read_bytes()
    assert cli.main(["--from-model", "model", "more.csv"], environment={"DPWGAN_BOOK": "b.book"}) == 0
    assert (folder / "b.book").read_bytes() == before
    assert read_claim(Path(), "more.csv")["book"] == read_claim(Path(), "out.csv")["book"]


def test_claim_says_which_releases_it_stands_beside_and_holds(folder):
    assert run("out.csv") == 0
    claim = Claim(document=read_claim(Path(), "out.csv"))
    assert list(find_faults(claim)) == []
    text = claim.to_text()
    assert "book 'cases': all releases in it together, however each was chosen in the light of those before" in text
    assert "not covered: releases from the same rows that are not in the book 'cases'" in text
    assert "a second run of this tool" not in text
    assert "releases from the same rows that are not in the book 'cases', which add up" in text


# ------------------------------------------------------------------------------------------------------------ in Python


def make(path: Path, checkpoint: Path | None = None, *, specs: dict[str, Any] = SPECS, **more: Any) -> Synthesizer:
    epsilon = ASKED if checkpoint is not None else 1.0
    return Synthesizer(specs, epsilon, book=path, checkpoint=checkpoint, **{**QUERIES, **more})


def ledger_of(claim: Claim) -> list[tuple[str, int]]:
    return [(line["label"], line["charged"]) for line in claim.document["ledger"] if line["charged"]]


def last_charges(book: Path) -> list[tuple[str, int]]:
    last = json.loads(book.read_text().splitlines()[-1])
    return [(one["label"], one["times"]) for one in last["charges"]]


def test_run_that_was_killed_stays_charged_and_is_not_charged_twice_when_it_goes_on(tmp_path):
    path, kept = begin_book(tmp_path, epsilon=3 * ASKED), tmp_path / "kept"
    die(kept, 45, book=path)
    reserved = read_book(path)
    assert [entry.settled for entry in reserved.entries.values()] == [False]
    assert list(reserved.entries) == [read_journal(kept)["run"]]
    claim = make(path, kept, resume=True).fit(make_frame()).claim()
    settled = read_book(path)
    assert list(settled.entries) == list(reserved.entries)
    assert settled.spent[-1] <= reserved.spent[-1] * (1 + 1e-12)
    assert claim.document["book"]["epsilon"] == settled.spent[-1]
    # Written once more from what was kept: free.
    make(path, kept, resume=True).fit(make_frame())
    assert read_book(path).spent[-1] == settled.spent[-1]


def test_run_whose_first_release_was_lost_is_charged_for_both_plans(tmp_path):
    path, kept = begin_book(tmp_path, epsilon=3 * ASKED), tmp_path / "kept"
    die(kept, 4, book=path)
    before = read_book(path).spent[-1]
    claim = make(path, kept, resume=True).fit(make_frame()).claim()
    assert any("(plan 1)" in line["label"] for line in claim.document["ledger"])
    after = read_book(path)
    assert last_charges(path) == ledger_of(claim)
    assert 0.5 * before < after.spent[-1] < 1.5 * before


def test_run_goes_on_with_its_own_book_only(tmp_path):
    kept = tmp_path / "kept"
    die(kept, 12, book=begin_book(tmp_path, epsilon=3 * ASKED))
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match="has another book"):
        make(begin_book(tmp_path / "other"), kept, resume=True).fit(make_frame())
    with pytest.raises(UsageError, match="has another book"):
        Synthesizer(SPECS, ASKED, checkpoint=kept, resume=True, **QUERIES).fit(make_frame())


def test_lists_that_are_paid_for_count_and_their_plan_is_set_aside_anew(tmp_path):
    path = begin_book(tmp_path)
    specs = {**SPECS, "a": {"type": "enum", "values_from": "data", "domain_privacy": "private", "missing": ["-"]}}
    claim = make(path, specs=specs, method="independent", settings={}).fit(make_frame()).claim()
    kinds = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["kind"] for line in kinds] == ["book", "reserve", "reserve", "settle"]
    assert last_charges(path) == ledger_of(claim)
    assert kinds[1]["charges"][0]["event"]["event"] == "stable_selection"


@pytest.mark.parametrize("privacy", ["private", "waived"])
def test_run_with_lists_from_the_data_goes_on_with_the_plan_that_they_gave(tmp_path, privacy):
    path, kept = begin_book(tmp_path, epsilon=3 * ASKED), tmp_path / "kept"
    column = {"type": "enum", "values_from": "data", "domain_privacy": privacy, "missing": ["-"]}
    specs = {**SPECS, "a": column}
    die(kept, 45, specs=specs, book=path)
    before = read_book(path).spent[-1]
    claim = make(path, kept, specs=specs, resume=True).fit(make_frame()).claim()
    after = read_book(path)
    assert len(after.entries) == 1
    assert 0.9 * before < after.spent[-1] <= before * (1 + 1e-12)
    assert last_charges(path) == ledger_of(claim)


def test_rows_are_not_read_when_the_book_is_full(tmp_path):
    path = begin_book(tmp_path, epsilon=0.9)
    make(path).fit(make_frame())
    broken = make_frame()
    broken.loc[0, "a"] = "none of them"
    with pytest.raises(PrivacyError, match="has no room"):
        make(path).fit(broken)
    with pytest.raises(DataError):
        Synthesizer(SPECS, 1.0, **QUERIES).fit(broken)


@pytest.mark.parametrize("option", [{"seed": 1}, {"method": "loss-noise-gan", "no_guarantee": True, "settings": {}}])
def test_run_without_a_guarantee_has_no_place_in_a_book(tmp_path, option):
    with pytest.raises(UsageError, match="has no place in a book"):
        make(begin_book(tmp_path), **option)


@pytest.mark.parametrize(
    ("relation", "rows_per_unit", "words"),
    [
        (NeighboringRelation.REPLACE_ONE, 1, "is for neighbours replace-one, and this run's are zero-out"),
        (NeighboringRelation.ZERO_OUT, 3, "is for the unit one row, and this run's is any 3 rows"),
    ],
)
def test_run_of_other_neighbours_or_another_unit_is_refused(tmp_path, relation, rows_per_unit, words):
    path = begin_book(tmp_path, relation=relation)
    with pytest.raises(UsageError, match=words):
        make(path, rows_per_unit=rows_per_unit).fit(make_frame())
    assert len(read_book(path).seals) == 1
