"""The folder of a run: charges outlive the process, what is damaged or another run's is refused."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpwgan import version
from dpwgan.app import checkpoint, fitting
from dpwgan.app.api import Synthesizer
from dpwgan.app.checkpoint import JOURNAL_FILE, Checkpoint, open_checkpoint
from dpwgan.array_types import Arrays
from dpwgan.errors import InputError, OutputError, PrivacyError, TransferError, UsageError
from dpwgan.privacy.events import Event, Gaussian
from dpwgan.privacy.ledger import LOST, Ledger
from tests import ledgers
from tests.ledgers import make_release
from tests.lives import ASKED, QUERIES, SPECS, Killed, die, live, make_frame, read_journal

FACTS = {"epsilon": 1.0, "header": ["a", "b"]}
EVENT = Gaussian(noise_multiplier=50.0)


def begin(folder: Path, **facts: Any) -> Checkpoint:
    return open_checkpoint(folder, facts={**FACTS, **facts}, resume=False)


def resume(folder: Path, **facts: Any) -> Checkpoint:
    return open_checkpoint(folder, facts={**FACTS, **facts}, resume=True)


def open_ledger(journal: Checkpoint, *, event: Event = EVENT, count: int = 5) -> Ledger:
    return ledgers.open_ledger([make_release("counts", event, count)], journal=journal)


def note_act(name: str, **charges: int) -> dict[str, Any]:
    """What the journal says of an act."""
    return {"name": name, "dispensable": False, "charges": charges}


def keep_acts(folder: Path, **counts: int) -> None:
    """Does acts of so many counts in one life of a run."""
    journal = begin(folder)
    ledger = open_ledger(journal)
    for name, count in counts.items():
        ledger.keep(name, act(ledger, count=count))
    journal.close()


def act(ledger: Ledger, value: float = 1.0, count: int = 1) -> Callable[[], Arrays]:
    def count_rows() -> Arrays:
        ledger.charge("counts", count)
        return {"value": np.array(value)}

    return count_rows


def test_charge_is_on_the_disk_when_the_act_begins(tmp_path):
    ledger = open_ledger(begin(tmp_path / "run"))

    def look() -> Arrays:
        ledger.charge("counts", 2)
        assert read_journal(tmp_path / "run")["acts"] == [note_act("first", counts=2)]
        return {}

    ledger.keep("first", look)


def test_release_is_given_again_and_not_done_again_when_it_was_kept(tmp_path):
    first = begin(tmp_path)
    ledger = open_ledger(first)
    assert float(ledger.keep("first", act(ledger, 3.5))["value"]) == 3.5
    first.close()
    again = open_ledger(resume(tmp_path))
    assert float(again.keep("first", act(again, 9.9))["value"]) == 3.5
    assert again.itemise()[0]["charged"] == 1
    assert "details" not in again.itemise()[0]


def test_release_is_refused_when_it_was_begun_and_lost(tmp_path):
    first = begin(tmp_path)
    ledger = open_ledger(first)

    def die() -> Arrays:
        ledger.charge("counts")
        raise Killed

    with pytest.raises(Killed):
        ledger.keep("first", die)
    first.close()
    journal = resume(tmp_path)
    again = open_ledger(journal)
    assert journal.has_lost("first")
    assert journal.missing == ["first"]
    with pytest.raises(PrivacyError, match="not done twice"):
        again.keep("first", act(again))
    line = again.itemise()[0]
    assert (line["charged"], line["details"]) == (1, {LOST: 1})


def test_ledger_refuses_more_than_was_reserved_when_earlier_lives_charged_some(tmp_path):
    keep_acts(tmp_path, first=4)
    again = open_ledger(resume(tmp_path))
    assert again.charged == {"counts": 4}
    again.charge("counts")
    with pytest.raises(PrivacyError, match="5 of 5"):
        again.charge("counts")


def test_checkpoint_is_refused_when_the_plan_is_another(tmp_path):
    keep_acts(tmp_path, first=4)
    journal = resume(tmp_path)
    with pytest.raises(UsageError, match="planned other noise for its counts"):
        open_ledger(journal, event=Gaussian(noise_multiplier=51.0))
    with pytest.raises(PrivacyError, match="only 3 are reserved"):
        open_ledger(journal, count=3)


def test_start_over_counts_all_charges_as_spent_when_a_plan_is_given_up(tmp_path):
    keep_acts(tmp_path, first=2, second=1)
    given_up = resume(tmp_path)
    given_up.start_over()
    given_up.close()
    journal = resume(tmp_path)
    assert [(line.label, line.event, line.count) for line in journal.spent] == [("counts (plan 1)", EVENT, 3)]
    assert journal.recall("first") is None
    assert journal.count_charged("counts (plan 1)", event=EVENT) == journal.count_lost("counts (plan 1)") == 3
    assert journal.count_charged("counts", event=EVENT) == 0


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"epsilon": 2.0}, r"has another epsilon: "),
        ({"epsilon": 2.0, "seed": 1}, r"has another epsilon and seed: "),
        ({"header": ["b", "a"], "seed": 1, "rows": 3}, r"has another header, seed and rows: "),
    ],
)
def test_checkpoint_names_what_differs_when_another_run_is_to_go_on(tmp_path, facts, sentence):
    keep_acts(tmp_path, first=1)
    with pytest.raises(UsageError, match=sentence):
        resume(tmp_path, **facts)
    assert resume(tmp_path).life == 1


def test_checkpoint_is_refused_when_another_process_has_it(tmp_path):
    first = begin(tmp_path)
    first.charge("counts", 1, event=EVENT)
    with pytest.raises(UsageError, match="another process is working on the run"):
        resume(tmp_path)
    first.close()
    assert resume(tmp_path).life == 1


def test_checkpoint_is_refused_when_the_folder_is_no_place_for_it(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").write_text("")
    (tmp_path / "empty").mkdir()
    keep_acts(tmp_path / "taken", first=1)
    for name, error, sentence in (
        ("file", OutputError, "cannot be created: File exists"),
        ("full", OutputError, "is not empty"),
        ("none/run", OutputError, "cannot be created: No such file"),
        ("taken", UsageError, "holds a run already: add --resume"),
    ):
        with pytest.raises(error, match=sentence):
            begin(tmp_path / name)
    for name in ("none", "empty", "file"):
        with pytest.raises(UsageError, match="holds no run to resume"):
            resume(tmp_path / name)
    begin(tmp_path / "empty").close()


def test_nothing_is_charged_when_the_folder_was_let_go_of(tmp_path):
    journal = begin(tmp_path)
    ledger = open_ledger(journal)
    ledger.keep("first", act(ledger))
    journal.close()
    resume(tmp_path)
    written = read_journal(tmp_path)
    with pytest.raises(UsageError, match="resume it to go on"):
        ledger.keep("second", act(ledger))
    assert read_journal(tmp_path) == written


def test_folder_can_be_used_again_when_a_run_failed_before_it_charged_anything(tmp_path):
    begin(tmp_path).close()
    begin(tmp_path).close()


def test_files_are_for_the_owner_alone_when_a_run_is_kept(tmp_path):
    live(tmp_path / "run", [])
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "run").iterdir()} == {0o600}


def test_checkpoint_says_so_when_it_cannot_be_written(tmp_path, monkeypatch):
    ledger = open_ledger(begin(tmp_path))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TransferError, match="the checkpoint cannot be written: No space left on device"):
        ledger.keep("first", act(ledger))


def make_killed(folder: Path) -> None:
    """Leaves a run that was killed in its last fit: every kind of file is there, and all are needed."""
    die(folder, 75)
    assert {"generator", "codes", "tree"} <= {path.name.split("-")[2] for path in folder.glob("plan-1-*")}


def go_on(folder: Path, **more: Any) -> Synthesizer:
    return Synthesizer(SPECS, ASKED, checkpoint=folder, resume=True, **more, **QUERIES).fit(make_frame())


@pytest.mark.parametrize("damage", ["flip", "half", "empty"])
def test_run_is_refused_when_a_file_is_damaged(tmp_path, damage):
    make_killed(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir() if path.name != "lock")
    assert len(names) == 8
    for name in names:
        whole = (tmp_path / name).read_bytes()
        place = len(whole) * 2 // 3
        broken = {
            "flip": whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :],
            "half": whole[: len(whole) // 2],
            "empty": b"",
        }[damage]
        journal = (tmp_path / JOURNAL_FILE).read_bytes()
        (tmp_path / name).write_bytes(broken)
        with pytest.raises(InputError, match="is damaged: what it released cannot be told, and counts as spent"):
            go_on(tmp_path)
        (tmp_path / JOURNAL_FILE).write_bytes(journal)
        (tmp_path / name).write_bytes(whole)


def test_run_is_refused_when_a_release_is_put_in_place_of_another(tmp_path):
    make_killed(tmp_path)
    one, other = sorted(tmp_path.glob("plan-1-round-*"))[:2]
    other.write_bytes(one.read_bytes())
    with pytest.raises(InputError, match="is damaged"):
        go_on(tmp_path)


def test_release_counts_as_lost_when_its_file_is_gone(tmp_path):
    make_killed(tmp_path)
    next(tmp_path.glob("plan-1-round-2-*")).unlink()
    (line,) = [line for line in go_on(tmp_path).claim().document["ledger"] if line["label"] == "query answers"]
    assert line["details"][LOST] == 1
    assert line["charged"] == line["reserved"]


def test_what_was_lost_stays_lost_when_more_of_the_same_act_is_kept_in_later_lives(tmp_path):
    for life in range(3):
        journal = begin(tmp_path) if life == 0 else resume(tmp_path)
        assert journal.count_lost("counts") == life
        journal.begin("steps", dispensable=True)
        journal.charge("counts", 2, event=EVENT)
        journal.keep("steps", {"weights": np.zeros(1)})
        journal.charge("counts", 1, event=EVENT)
        journal.close()
    assert resume(tmp_path).count_charged("counts", event=EVENT) == 9


def test_run_is_refused_when_the_journal_is_gone(tmp_path):
    make_killed(tmp_path)
    (tmp_path / JOURNAL_FILE).unlink()
    with pytest.raises(InputError, match="is damaged"):
        go_on(tmp_path)
    with pytest.raises(OutputError, match="is not empty"):
        Synthesizer(SPECS, ASKED, checkpoint=tmp_path, **QUERIES).fit(make_frame())


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"epsilon": 2.0}, "epsilon"),
        ({"delta": 1e-7}, "delta"),
        ({"method": "independent", "settings": {}}, "method, rounds, codes and fit-steps"),
        ({"neighbours": "replace-one"}, "neighbours"),
        ({"accountant": "moments"}, "accountant"),
        ({"rows_per_unit": 2}, "rows per unit"),
        ({"settings": {**QUERIES["settings"], "rounds": 2}}, "rounds"),
        ({"seed": 1}, "seed"),
        ({"specs": {**SPECS, "d": {"type": "enum", "count": 3}}}, "specs file"),
        ({"rows_left": 200}, "number of rows"),
    ],
)
def test_run_is_refused_when_the_command_line_is_another(tmp_path, changed, words):
    die(tmp_path, 12)
    options = {"specs": SPECS, "epsilon": ASKED, **QUERIES, **changed}
    frame = make_frame().head(options.pop("rows_left", None) or len(make_frame()))
    with pytest.raises(UsageError, match=rf"has another {words}: resume it with"):
        Synthesizer(**options, checkpoint=tmp_path, resume=True).fit(frame)


def test_run_is_refused_when_the_code_is_other_than_it_was(tmp_path, monkeypatch):
    die(tmp_path, 12)
    monkeypatch.setattr(fitting, "digest_code", lambda: "00")
    with pytest.raises(UsageError, match="has another code of the tool: resume it with the tool, the command line, "):
        go_on(tmp_path)


def test_code_has_another_digest_when_a_line_is_added_and_when_a_module_moves(tmp_path, monkeypatch):
    monkeypatch.setattr(version, "__file__", str(tmp_path / "version.py"))
    found = []
    for name, body in (("a.py", "x\n"), ("a.py", "x\ny\n"), ("b.py", "x\ny\n")):
        (tmp_path / name).write_text(body)
        found.append(version.digest_code())
        (tmp_path / name).unlink()
    assert len(set(found)) == 3


def test_run_goes_on_when_threads_device_and_rows_are_others(tmp_path):
    live(tmp_path, [])
    again = go_on(tmp_path, threads=1, device="cpu", rows=7)
    assert len(again.sample()) == again.claim().rows == 7


TOWN = {"type": "enum", "values_from": "data", "domain_privacy": "private", "optional": True}
LISTS = {**SPECS, "town": TOWN}


def test_lists_of_cells_are_not_released_again_when_a_run_goes_on(tmp_path):
    frame = make_frame().assign(town=["north"] * 150 + ["south"] * 61)
    options: dict[str, Any] = {"checkpoint": tmp_path, **QUERIES}
    first = Synthesizer(LISTS, 8.0, **options).fit(frame)
    again = Synthesizer(LISTS, 8.0, resume=True, **options).fit(frame)
    assert again.schema == first.schema
    assert again.claim().document["ledger"] == first.claim().document["ledger"]
    assert set(again.sample()["town"].fillna("")) <= {"north", "south", ""}


@pytest.mark.parametrize(
    ("spoil", "fragment"),
    [
        (lambda folder: folder.chmod(0o770), "others can write to"),
        (lambda folder: folder.chmod(0o702), "others can write to"),
        (lambda folder: (folder / JOURNAL_FILE).chmod(0o666), "others can write to"),
        (lambda folder: next(folder.glob("plan-1-first-*")).chmod(0o620), "others can write to"),
        (lambda folder: move_away(folder / JOURNAL_FILE), "cannot be read: Too many levels"),
        (lambda folder: move_away(next(folder.glob("plan-1-first-*"))), "cannot be read: Too many levels"),
        (lambda folder: seal(folder, plan="../../x"), "is damaged"),
        (lambda folder: seal(folder, acts=None), "is damaged"),
        (lambda folder: seal(folder, "[" * 100_000), "is damaged"),
        (lambda folder: seal(folder, "[]"), "is damaged"),
        (lambda folder: seal(folder, acts=[None]), "is damaged"),
        (lambda folder: seal(folder, acts=[note_act("first", x=-1)]), "is damaged"),
        (lambda folder: seal(folder, events={}), "is damaged"),
        (lambda folder: seal(folder, acts=[note_act("\ud800")]), "is damaged"),
        (lambda folder: seal(folder, run="no number"), "is damaged"),
        (lambda folder: seal(folder, lives=["no number"]), "is damaged"),
    ],
)
def test_checkpoint_is_refused_when_others_could_have_written_it(tmp_path, spoil, fragment):
    folder = tmp_path / "run"
    keep_acts(folder, first=1)
    spoil(folder)
    with pytest.raises(InputError, match=fragment):
        resume(folder)


@pytest.mark.parametrize("resumes", [True, False])
def test_checkpoint_is_refused_when_it_belongs_to_another_user(tmp_path, monkeypatch, resumes):
    if resumes:
        keep_acts(tmp_path, first=1)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr(
        os, "fstat", lambda descriptor: os.stat_result((stat.S_IFDIR | 0o700, 0, 0, 1, 54321, *[0] * 5))
    )
    with pytest.raises(InputError, match="belongs to another user"):
        (resume if resumes else begin)(tmp_path)


def test_nothing_is_written_elsewhere_when_a_link_lies_where_a_file_is_to_be(tmp_path):
    (tmp_path / "mine").write_text("mine")
    folder = tmp_path / "run"
    keep_acts(folder, first=1)
    (folder / f"{JOURNAL_FILE}.tmp").symlink_to(tmp_path / "mine")
    journal = resume(folder)
    (folder / f"{JOURNAL_FILE}.tmp").symlink_to(tmp_path / "mine")
    open_ledger(journal).charge("counts")
    journal.close()
    (folder / "lock").unlink()
    (folder / "lock").symlink_to(tmp_path / "new")
    with pytest.raises(OutputError, match="cannot be written to"):
        resume(folder)
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (tmp_path / "new").exists()
    assert not (folder / JOURNAL_FILE).is_symlink()


def move_away(path: Path) -> None:
    """Leaves a link to a file in its place."""
    other = path.parent.parent / "elsewhere"
    path.rename(other)
    path.symlink_to(other)


def seal(folder: Path, text: str | None = None, **changes: Any) -> None:
    """Forges the journal, whose seal anybody can make who can write there."""
    body = (text or json.dumps({**read_journal(folder), **changes})).encode()
    (folder / JOURNAL_FILE).write_bytes(checkpoint._seal(JOURNAL_FILE, body, key=""))
