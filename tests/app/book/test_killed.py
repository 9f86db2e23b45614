"""A real SIGKILL at each write, fsync and rename of a run with a book: it never holds less than what was read."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpwgan.app.api import Synthesizer
from dpwgan.app.book.book import new_book, read_book
from dpwgan.errors import InputError, PrivacyError
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.ledger import Ledger
from tests.lives import SPECS, make_frame

SEEN = ("write", "fsync", "rename")
INDEPENDENT: dict[str, Any] = {"method": "independent", "accountant": "moments"}


def run_and_die(folder: Path, moment: int, *, resume: bool = False) -> int:
    """Runs in a child that kills itself in the middle of its so many-th call; gives its exit code."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            log = os.open(folder / "reads", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            left, write, release = moment, os.write, Ledger.release_all

            def dying(act: Callable[..., Any]) -> Callable[..., Any]:
                def do(first: Any, *others: Any, **more: Any) -> Any:
                    nonlocal left
                    left -= 1
                    if left < 0:
                        if act is write:
                            write(first, others[0][: len(others[0]) // 2])
                        os.kill(os.getpid(), signal.SIGKILL)
                    return act(first, *others, **more)

                return do

            def noted(self: Ledger, label: str, compute: Callable[[], Any]) -> Any:
                write(log, label.encode() + b"\n")
                return release(self, label, compute)

            Ledger.release_all = noted  # type: ignore[method-assign]
            for name in SEEN:
                setattr(os, name, dying(getattr(os, name)))
            options = {**INDEPENDENT, "book": folder / "b.book", "checkpoint": folder / "kept", "resume": resume}
            Synthesizer(SPECS, 1.0, **options).fit(make_frame())
            os._exit(0)
        except BaseException as error:
            os._exit(error.exit_code if isinstance(error, PrivacyError) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def sweep(folder: Path) -> list[int]:
    """How many acts had read rows at each moment at which a run was killed, the last of which is its end."""
    limit = Budget(epsilon=2.0, delta=1e-3)
    new_book(folder / "new.book", name="b", limit=limit, relation=NeighboringRelation.ZERO_OUT)
    reads: list[int] = []
    ended = False
    while not ended:
        own = folder / str(len(reads))
        own.mkdir()
        path = Path(shutil.copy(folder / "new.book", own / "b.book"))
        code = run_and_die(own, len(reads))
        assert code in (0, -signal.SIGKILL)
        ended = code == 0
        reads.append((own / "reads").read_text().count("\n"))
        try:
            read_book(path)
        except InputError:  # cut: nobody goes on before somebody has looked at it
            assert not path.read_bytes().endswith(b"\n")
            path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
        before = read_book(path).spent[-1]
        assert before > 0.5 or not reads[-1]
        if reads[-1]:
            # What the run may still charge stays set aside, and when it goes on it is not counted twice; where its
            # only release is lost it cannot.
            assert run_and_die(own, 10**9, resume=True) in (0, PrivacyError.exit_code)
            after = read_book(path)
            assert len(after.entries) == 1
            assert before * 0.99 < after.spent[-1] < 1.5 * before
    return reads


@pytest.mark.slow
def test_book_holds_all_that_was_read_when_a_run_is_killed_at_any_moment(tmp_path):
    # In a process of its own: threads that other tests began would be missed in its children.
    told = subprocess.run(
        [sys.executable, "-m", "tests.app.book.test_killed", str(tmp_path)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    reads = json.loads(told.stdout)
    assert len(reads) >= 12
    assert {0, 1} <= set(reads)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(sweep(Path(sys.argv[1]))))
