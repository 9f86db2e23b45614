"""Runs that are killed and go on: nothing is charged after it happened, nothing is drawn twice, all of it is told."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpwgan.app.api import Synthesizer
from dpwgan.app.checkpoint import Checkpoint
from dpwgan.app.claim import Claim
from dpwgan.app.claims.verification import find_faults
from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import Event
from dpwgan.privacy.ledger import LOST
from tests.lives import ASKED, QUERIES, RECORDS, SPECS, Lives, die, live, make_frame, read_journal


def add_up(claim: Claim | Mapping[str, Any], key: str) -> Counter[str]:
    """Adds up a number of the ledger's lines by what they were reserved for, whichever plan reserved it."""
    total: Counter[str] = Counter()
    for line in (claim.document if isinstance(claim, Claim) else claim)["ledger"]:
        number = line.get("details", {}).get(LOST, 0) if key == LOST else line[key]
        total[line["label"].partition(" (plan")[0]] += number
    return total


def check(claim: Claim, lives: Lives) -> None:
    """What must hold of a run however often it was killed."""
    charged, lost = add_up(claim, "charged"), add_up(claim, LOST)
    assert lives.reads <= charged, (lives.reads, charged)
    for line in claim.document["ledger"]:
        assert line["charged"] <= line["reserved"]
    if not claim.document["randomness"]["seeded"]:
        assert list(find_faults(claim)) == []
        assert 0.9 * ASKED < claim.document["guarantee"]["epsilon"] <= ASKED
    assert len(set(lives.noise)) == len(lives.noise)
    # What is lost was charged, and what was read and gave nothing is lost.
    assert lost <= charged
    useful = charged - lost
    assert useful["one-way counts"] == 1
    assert lives.reads <= useful + lost


def count_ticks(folder: Path) -> int:
    _, _, lives = live(folder, [])
    return lives.ticks[0]


@pytest.mark.slow
def test_claim_counts_every_act_that_read_rows_when_a_run_is_killed_at_any_moment(tmp_path):
    ticks = count_ticks(tmp_path / "whole")
    refused, rows = [], set()
    for kill in range(0, ticks, 3):
        claim, sampled, lives = live(tmp_path / str(kill), [kill])
        check(claim, lives)
        rows.add(len(sampled))
        refused.append(lives.count)
    assert ticks > 60
    assert set(refused) == {2}
    assert rows == {RECORDS}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_claim_counts_every_act_that_read_rows_when_a_run_is_killed_again_and_again(tmp_path, seed):
    draw = random.Random(seed)
    kills = [draw.randrange(4, 40) for _ in range(draw.randrange(2, 6))]
    try:
        claim, _, lives = live(tmp_path, kills)
    except PrivacyError:  # what it cannot do without was lost so often that nothing is left
        return
    check(claim, lives)


def charge_late(self: Checkpoint, label: str, count: int, *, event: Event) -> None:
    """Notes a charge in memory alone; `keep_late` writes it down, after the act."""
    name, dispensable = self._under_way[-1]
    act = self._find(name) or {"name": name, "dispensable": dispensable, "charges": {}}
    if act not in self._acts:
        self._acts.append(act)
    act["charges"][label] = act["charges"].get(label, 0) + count
    self._document["events"][label] = event.describe()


def write_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has each charge written after its act."""
    keep = Checkpoint.keep

    def keep_late(self: Checkpoint, name: str, arrays: Mapping[str, Any]) -> None:
        self._write_journal()
        keep(self, name, arrays)

    monkeypatch.setattr(Checkpoint, "charge", charge_late)
    monkeypatch.setattr(Checkpoint, "keep", keep_late)


@pytest.mark.slow
def test_check_fails_when_the_journal_is_written_after_the_act(tmp_path, monkeypatch):
    write_late(monkeypatch)
    _, _, whole = live(tmp_path / "whole", [])
    assert len(whole.moments) == 14
    for kill in whole.moments:
        claim, _, lives = live(tmp_path / str(kill), [kill])
        assert not lives.reads <= add_up(claim, "charged")


def test_noise_is_another_when_a_seeded_run_goes_on(tmp_path):
    for kill in (9, 12, 20, 31):
        claim, _, lives = live(tmp_path / str(kill), [kill], seed=3)
        assert claim.document["randomness"]["seeded"]
        check(claim, lives)
    _, _, whole = live(tmp_path / "whole", [], seed=3)
    _, _, again = live(tmp_path / "again", [], seed=3)
    assert whole.noise == again.noise


def test_table_is_of_the_same_quality_of_bookkeeping_when_nothing_was_lost(tmp_path):
    """A run that is killed once its model is kept gives the epsilon and the ledger of one that was not."""
    ticks = count_ticks(tmp_path / "whole")
    whole, _, _ = live(tmp_path / "other", [])
    claim, _, lives = live(tmp_path / "late", [ticks - 1])
    assert claim.document["guarantee"] == whole.document["guarantee"]
    assert claim.document["ledger"] == whole.document["ledger"]
    assert claim.document["certificate"]["kind"] == "two-way marginals"
    assert lives.reads == add_up(claim, "charged")


# Which read of the run is the first of each act: a join of the tree and a round are a selection and an answer each.
READS = {"one-way counts": 0, "tree": 1, "selection of round 2": 9, "answer of round 2": 10, "certificate": 13}


def lose(folder: Path, what: str) -> Claim:
    """Runs, is killed while the act of that name reads rows, and goes on."""
    _, _, whole = live(folder / "whole", [])
    claim, _, lives = live(folder / "killed", [whole.moments[READS[what]]])
    assert sum(lives.reads.values()) > sum(whole.reads.values()) or what not in ("one-way counts", "tree")
    return claim


@pytest.mark.parametrize(("what", "answers"), [("selection of round 2", 5), ("answer of round 2", 6)])
def test_round_is_left_out_when_its_selection_or_answer_was_lost(tmp_path, what, answers):
    ledger = {line["label"]: line for line in lose(tmp_path, what).document["ledger"]}
    assert ledger["query selections"]["details"][LOST] == 1
    assert ledger["query answers"].get("details", {}).get(LOST, 0) == answers - 5
    assert (ledger["query answers"]["charged"], ledger["query answers"]["reserved"]) == (answers, 6)
    assert LOST not in ledger["one-way counts"].get("details", {})


def test_certificate_is_left_out_when_it_was_lost(tmp_path):
    document = lose(tmp_path, "certificate").document
    assert document["certificate"] is None
    assert not any("planned anew" in said for said in document["accountant"]["assumptions"])
    assert document["ledger"][-1]["details"][LOST] == 1


@pytest.mark.parametrize("what", ["one-way counts", "tree"])
def test_rest_of_the_budget_is_planned_anew_when_what_is_needed_was_lost(tmp_path, what):
    document = lose(tmp_path, what).document
    labels = [line["label"] for line in document["ledger"]]
    assert labels[0] == "one-way counts (plan 1)"
    assert labels[-4:] == ["one-way counts", "query selections", "query answers", "certificate"]
    first, again = (line for line in document["ledger"] if line["label"].startswith("one-way counts"))
    assert again["stddev"] > first["stddev"]
    assert document["guarantee"]["epsilon"] <= ASKED
    assert any("planned anew" in said for said in document["accountant"]["assumptions"])


def test_run_is_refused_when_its_only_release_was_lost(tmp_path):
    lives = die(tmp_path, 4, method="independent", settings={})
    assert lives.reads == {"one-way counts": 1}
    for _ in range(2):
        with pytest.raises(PrivacyError, match=r"too little of the budget is left to release it again"):
            Synthesizer(SPECS, ASKED, checkpoint=tmp_path, resume=True, method="independent").fit(make_frame())


# Every array that may be kept by this method, and how large it may be: no axis is as long as the table.
KEPT: Mapping[str, Sequence[str]] = {
    "one-way-counts": ("counts", "stddev"),
    "tree": ("marginal", "shares", "weights"),
    "round-1": ("marginal", "shares", "weights"),
    "round-2": ("marginal", "shares", "weights"),
    "round-3": ("marginal", "shares", "weights"),
    "codes": ("logits", "turn"),
    "generator": ("table", "mean", "square", "steps", "fitted"),
    "certificate": ("probabilities", "certificate"),
    "model": ("mixture.npz", "groups.json", "certificate"),
}
JOURNAL_KEYS = {"format", "run", "lives", "plan", "facts", "spent", "events", "acts"}


def test_folder_holds_releases_and_public_facts_alone_when_a_run_is_complete(tmp_path):
    live(tmp_path, [])
    files = {path.name for path in tmp_path.iterdir()} - {"lock", "journal.json"}
    slugs = {name.removeprefix("plan-1-").rpartition("-")[0] for name in files}
    assert slugs == set(KEPT)
    assert set(read_journal(tmp_path)) == JOURNAL_KEYS
    for name in files:
        body = (tmp_path / name).read_bytes().partition(b"\n")[2].partition(b"\n")[2]
        (tmp_path / "body.npz").write_bytes(body)
        allowed = KEPT[name.removeprefix("plan-1-").rpartition("-")[0]]
        with np.load(tmp_path / "body.npz", allow_pickle=False) as arrays:
            for key in arrays.files:
                assert any(key == one or key.startswith(f"{one} ") for one in allowed), (name, key)
                assert RECORDS not in arrays[key].shape


def test_folder_is_of_the_same_form_when_the_rows_are_others(tmp_path):
    sizes = []
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        options = {**QUERIES, "method": "independent", "settings": {}}
        Synthesizer(SPECS, ASKED, checkpoint=folder, **options).fit(make_frame(seed))
        names = {path.name for path in folder.iterdir() if "model" not in path.name}  # cells merge by the release
        sizes.append({name: (folder / name).stat().st_size for name in names})
    assert sizes[0] == sizes[1]
