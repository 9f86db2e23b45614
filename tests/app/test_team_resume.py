"""Runs of several workers that lose one and go on: nothing is read before it is charged, by anybody, in any life."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dpwgan.app import fitting
from dpwgan.app.checkpoint import JOURNAL_FILE, Checkpoint
from dpwgan.app.claim import Claim
from dpwgan.app.claims.verification import find_faults
from dpwgan.errors import ResourceError
from dpwgan.privacy.journal import Journal
from dpwgan.privacy.ledger import LOST
from dpwgan.table.workers import Task, Team
from tests.app.test_resume import add_up, write_late
from tests.end_to_end.bad_inputs import ROWS, write_good
from tests.lives import ASKED, Killed
from tests.programs import read_claim
from tests.team_lives import MortalWorkers, TeamLives, live
from tests.teams import make_workers, run_threads

QUERIES: dict[str, Any] = {"method": "query-gan", "settings": {"rounds": 2, "fit_steps": 6, "codes": 20, "ways": 3}}
NETWORKS: dict[str, Any] = {"method": "query-gan", "settings": {"oracle": "one-layer", "rounds": 2, "codes": 20}}
CRITIC: dict[str, Any] = {
    "settings": {
        "anchor": "none",
        "steps": 6,
        "expected_batch_size": 8,
        "hidden_critic": (4,),
        "hidden_generator": (4,),
    }
}
# Facts, readiness twice, the journal in two, readiness, charges, a question in two: then first counts are added up.
FIRST_SUM = 9


def check(folder: Path, lives: TeamLives) -> dict[str, Any]:
    """What must hold of a run whichever worker was killed, and when."""
    assert lives.ends == [None] * len(lives.ends), lives.ends
    assert lives.too_early == []
    claim = read_claim(folder)
    charged = add_up(claim, "charged")
    looks = sum(charged[label] for label in charged if label.startswith("one-way counts"))
    assert lives.reads["one-ways"] <= looks
    assert lives.reads["gradients"] <= charged["critic steps"]
    assert lives.reads["marginals"] <= charged["query answers"]
    assert lives.reads["one-layer scores"] <= charged["one-layer answer"]
    assert lives.reads["one-layer counts"] <= charged["one-layer certificate"]
    # A network that was lost in its training is asked nothing.
    unasked = charged["one-layer weights"] - charged["one-layer answer"]
    assert unasked <= add_up(claim, LOST)["one-layer weights"]
    # So is a marginal whose selection was lost; of a plan that was given up only what was charged is reserved.
    last = Counter({line["label"]: line["charged"] for line in claim["ledger"]})
    unanswered = last["query selections"] - last["query answers"]
    assert 0 <= unanswered <= add_up(claim, LOST)["query selections"]
    left = Counter({"one-layer answer": unasked, "query answers": unanswered})
    assert add_up(claim, "reserved") == charged + left
    if not claim["randomness"]["seeded"]:
        assert 0.9 * ASKED < claim["guarantee"]["epsilon"] <= ASKED
        assert list(find_faults(Claim(document=claim))) == []
    assert len((folder / "out.csv").read_text().splitlines()) == len(ROWS) + 1
    return claim


def prepare(folder: Path) -> Path:
    folder.mkdir()
    write_good(folder)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return prepare(tmp_path / "run")


def count_moments(folder: Path, **asked: Any) -> int:
    lives = live(prepare(folder), [], **asked)
    check(folder, lives)
    return lives.added[1]


@pytest.mark.slow
def test_ledgers_hold_every_read_of_every_worker_when_one_is_killed_at_any_moment(tmp_path):
    moments = count_moments(tmp_path / "whole", **QUERIES)
    assert moments >= 19  # noise decides whether a round asks the others
    lost = Counter[str]()
    for moment in range(0, moments, 2):
        folder = prepare(tmp_path / str(moment))
        lives = live(folder, [(moment // 2 % 2, moment)], **QUERIES)
        lost.update(add_up(check(folder, lives), LOST))
    assert {"one-way counts", "query selections"} <= set(+lost)


@pytest.mark.slow
def test_ledgers_hold_every_read_when_a_worker_is_killed_while_a_network_is_trained(tmp_path):
    moments = count_moments(tmp_path / "whole", **NETWORKS)
    lost = Counter[str]()
    for rank, share in ((0, 0.2), (1, 0.4), (0, 0.6), (1, 0.8), (0, 0.99)):
        folder = prepare(tmp_path / str(share))
        lives = live(folder, [(rank, FIRST_SUM + int(share * (moments - FIRST_SUM)))], **NETWORKS)
        lost.update(add_up(check(folder, lives), LOST))
    # A network that was lost in its training is one less.
    assert lost["one-layer weights"] >= 2


@pytest.mark.slow
def test_critic_steps_are_lost_and_counted_when_a_worker_is_killed_in_them(tmp_path):
    moments = count_moments(tmp_path / "whole", **CRITIC)
    kills = [(1, moments - 5), (0, moments // 2)]
    folder = prepare(tmp_path / "killed")
    lives = live(folder, kills, **CRITIC)
    claim = check(folder, lives)
    lost = add_up(claim, LOST)["critic steps"]
    assert 1 <= lost <= len(kills)
    assert lives.reads["gradients"] >= claim["method"]["settings"]["steps"] - lost


@pytest.mark.parametrize("sizes", [(2, 3), (3, 2), (2, 1)])
def test_run_goes_on_when_there_are_more_or_fewer_workers(folder, sizes):
    claim = check(folder, live(folder, [(0, 15)], sizes=sizes, **QUERIES))
    assert claim["method"]["settings"].get("workers", 1) == sizes[-1]


def test_run_of_one_machine_goes_on_when_it_gets_workers(folder, monkeypatch):
    keep = Checkpoint.keep

    def keep_or_die(self: Checkpoint, name: str, arrays: Mapping[str, Any]) -> None:
        if name == "round 1":
            raise Killed
        keep(self, name, arrays)

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "keep", keep_or_die)
        ends = run_threads(folder, 1, checkpoint=folder / "kept", epsilons=[ASKED], **QUERIES)
    assert [type(end) for end in ends] == [Killed]
    claim = check(folder, live(folder, [], **QUERIES))
    assert +add_up(claim, LOST) == {"query selections": 1, "query answers": 1}


def test_streams_of_every_worker_are_other_ones_when_a_seeded_run_goes_on(folder, monkeypatch):
    made: list[tuple[int, int]] = []
    make = fitting.make_streams

    def watch(seed: int | None, *, life: int, worker: int) -> Any:
        made.append((life, worker))
        return make(seed, life=life, worker=worker)

    monkeypatch.setattr(fitting, "make_streams", watch)
    check(folder, live(folder, [(1, 12)], seed=3, **QUERIES))
    assert sorted(made) == [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize("lost", [0, 1])
def test_rest_of_the_budget_is_planned_anew_by_all_when_the_first_release_is_lost(folder, lost):
    claim = check(folder, live(folder, [(lost, FIRST_SUM)], **QUERIES))
    labels = [line["label"] for line in claim["ledger"]]
    assert labels[:2] == ["one-way counts (plan 1)", "one-way counts"]


def test_all_refuse_when_one_is_to_resume_and_the_other_to_begin(folder):
    kept = folder / "kept"
    ends = run_threads(folder, 2, checkpoint=kept, more=[{}, {"resume": True}], **QUERIES)
    sentence = "the workers do not agree on whether there is a checkpoint, and to be resumed: give all of them the same"
    assert {str(end) for end in ends} == {sentence}
    assert not kept.exists()


def test_all_refuse_and_leave_no_run_behind_when_one_share_breaks_the_specs(folder):
    whole = (folder / "data.csv").read_text()
    (folder / "data.csv").write_text(whole.rpartition("\n")[0].rpartition("\n")[0] + "\nmauve,1,1.0,0\n")
    ends = run_threads(folder, 2, checkpoint=folder / "kept", **QUERIES)
    assert [end.exit_code for end in ends] == [65, 65]
    assert not (folder / "kept" / JOURNAL_FILE).exists()


def test_only_the_chief_needs_the_folder_when_a_run_is_kept(folder):
    more = [{"checkpoint": folder / "kept"}, {"checkpoint": folder / "none" / "elsewhere"}]
    assert run_threads(folder, 2, more=more, **QUERIES) == [None, None]
    assert not (folder / "none").exists()


# ------------------------------------------------------------------------------------------------------ broken twins


def test_check_fails_when_the_chief_asks_before_its_charge_is_on_the_disk(folder, monkeypatch):
    write_late(monkeypatch)
    lives = live(folder, [], **QUERIES)
    assert lives.ends == [None, None]
    assert {"one-ways of worker 0", "one-ways of worker 1"} <= set(lives.too_early)


def test_check_fails_when_a_worker_charges_after_it_has_read(folder, monkeypatch):
    serve = Team.serve

    def serve_late(self: Team, do: Task, *, charge: Callable[[str, int], None], **more: Any) -> None:
        owed: list[tuple[str, int]] = []

        def read(*asked: Any) -> Any:
            given = do(*asked)
            while owed:
                charge(*owed.pop(0))
            return given

        serve(self, read, charge=lambda label, count: owed.append((label, count)), **more)

    monkeypatch.setattr(Team, "serve", serve_late)
    lives = live(folder, [], **QUERIES)
    assert lives.ends == [None, None]
    assert lives.too_early
    assert {said.rpartition(" ")[2] for said in lives.too_early} == {"1"}


def test_all_refuse_when_a_worker_forgets_what_earlier_lives_charged(folder, monkeypatch):
    monkeypatch.setattr(Journal, "charged", {})
    lives = live(folder, [(1, 17)], **QUERIES)
    sentence = "the workers do not agree on the plan of what is released: give all of them the same"
    assert {str(end) for end in lives.ends} == {sentence}
    assert not (folder / "out.csv").exists()


def test_life_ends_for_all_when_one_is_killed(folder):
    workers = make_workers(3, kind=MortalWorkers)
    workers[2].left = 15
    ends = run_threads(folder, 3, workers=workers, checkpoint=folder / "kept", **QUERIES)
    assert [type(end) for end in ends] == [ResourceError, ResourceError, Killed]
    assert not (folder / "out.csv").exists()
    assert json.loads((folder / "kept" / JOURNAL_FILE).read_text().partition("\n")[2])["acts"]
