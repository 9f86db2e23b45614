"""The place of an output: one process at a time has it, and what killed ones left beside it goes."""

import os
import subprocess
import sys
from contextlib import ExitStack

import pytest

from dpwgan.errors import OutputError
from dpwgan.table.files.places import choose_passing_name, hold_place
from tests.programs import ROOT, list_names


def test_place_is_refused_when_another_process_has_it(tmp_path):
    (tmp_path / "linked").symlink_to(tmp_path / "out.csv")
    code = (
        "import sys; from dpwgan.table.files.places import hold_place\n"
        "with hold_place(sys.argv[1]): print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "out.csv")]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        for name in ("out.csv", "linked"):
            with pytest.raises(OutputError, match="another run is about to write"), hold_place(tmp_path / name):
                pass
        with hold_place(tmp_path / "out.csv.privacy.json"):
            pass
        other.communicate("")
    with hold_place(tmp_path / "out.csv"):
        pass
    assert list_names(tmp_path) == ["linked"]


def test_place_is_free_when_whoever_had_it_was_killed(tmp_path):
    for target in (tmp_path / "out.csv", tmp_path / "model"):
        with ExitStack() as places:
            places.enter_context(hold_place(target))
            lock = next(path for path in tmp_path.iterdir() if path.name.endswith("lock"))
        lock.write_text("")  # as a kill leaves it
        with hold_place(target):
            pass
    assert list_names(tmp_path) == []


def test_what_killed_runs_left_is_removed_when_the_place_is_taken_and_nothing_else(tmp_path):
    target, other = tmp_path / ("x" * 40 + "1.csv"), tmp_path / ("x" * 40 + "2.csv")
    choose_passing_name(target).write_text("half")
    (choose_passing_name(target) / "synthesizer").mkdir(parents=True)
    kept = [choose_passing_name(other), tmp_path / ".mine.tmp", target]
    for path in kept:
        path.write_text("whole")
    choose_passing_name(target).symlink_to(tmp_path / ".mine.tmp")
    with hold_place(target):
        assert len(list_names(tmp_path)) == len(kept) + 1
    assert list_names(tmp_path) == sorted(path.name for path in kept)


def test_nothing_is_kept_when_no_lock_can_be_made(tmp_path):
    (tmp_path / "elsewhere").write_text("mine")
    with ExitStack() as places:
        places.enter_context(hold_place(tmp_path / "out.csv"))
        name = next(name for name in list_names(tmp_path) if name.endswith(".lock"))
    os.symlink(tmp_path / "elsewhere", tmp_path / name)
    for path in ("out.csv", "none/out.csv"):
        with hold_place(tmp_path / path):
            pass
    assert list_names(tmp_path) == [name, "elsewhere"]
