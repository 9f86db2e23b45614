"""A real SIGKILL in writes, fsyncs, renames and unlinks of runs with a book: it never holds less than what was read."""

import hashlib
import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpwgan.app import pipeline
from dpwgan.app.api import Synthesizer
from dpwgan.app.book.book import read_book
from dpwgan.app.config import RunConfig, SynthesisConfig
from dpwgan.app.delivery import Voice
from dpwgan.errors import InputError, PrivacyError
from dpwgan.privacy.ledger import Ledger
from tests.forks import do_in_child
from tests.lives import ASKED, QUERIES, RECORDS, SPECS, make_frame
from tests.programs import begin_book, call_module

SEEN = ("write", "fsync", "rename", "unlink")
RUNS: dict[str, dict[str, Any]] = {
    "independent": {"method": "independent", "accountant": "moments"},
    "query-gan": {**QUERIES, "settings": {"rounds": 2, "codes": 10, "fit_steps": 2}, "accountant": "moments"},
}
# In which of its calls a run is killed: every so many-th, for the time it takes. All of them, by hand:
# python -m tests.app.book.test_killed FOLDER METHOD 1
EVERY = {"independent": 3, "query-gan": 9}


def run_and_die(folder: Path, name: str, moment: int, *, resume: bool = False) -> int:
    """Runs in a child that kills itself in the middle of its so many-th call; gives its exit code."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            log = os.open(folder / "reads", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            left, write = moment, os.write

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

            def noted(release: Callable[..., Any]) -> Callable[..., Any]:
                def do(self: Ledger, label: str, compute: Callable[[], Any]) -> Any:
                    def read() -> Any:
                        write(log, label.encode() + b"\n")
                        return compute()

                    return release(self, label, read)

                return do

            for way in ("release_all", "select"):
                setattr(Ledger, way, noted(getattr(Ledger, way)))
            for call in SEEN:
                setattr(os, call, dying(getattr(os, call)))
            options = {**RUNS[name], "book": folder / "b.book", "checkpoint": folder / "kept", "resume": resume}
            pipeline.run(
                RunConfig(
                    data=str(folder.parent / "data.csv"),
                    output=str(folder / "out.csv"),
                    specs=folder.parent / "specs.json",
                    synthesis=SynthesisConfig(epsilon=ASKED, threads=1, **options),
                    save_model=folder / "model",
                    voice=Voice(quiet=True),
                )
            )
            os._exit(0)
        except BaseException as error:
            write(2, repr(error).encode())
            os._exit(error.exit_code if isinstance(error, PrivacyError) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check_output(folder: Path) -> bool:
    """Whether there is an output; if so it is whole, has its claim, and the book had it before."""
    output, claim = folder / "out.csv", folder / "out.csv.privacy.json"
    if not output.exists():
        return False
    digest = hashlib.sha256(output.read_bytes()).hexdigest()
    assert json.loads(claim.read_text())["output"]["sha256"] == digest
    assert digest in {sha256 for entry in read_book(folder / "b.book").entries.values() for sha256 in entry.outputs}
    assert output.read_text().count("\n") == RECORDS + 1
    return True


def check_book(folder: Path) -> float:
    """What the book holds, after somebody has looked at it where it is cut: all that was read at least."""
    path = folder / "b.book"
    try:
        read_book(path)
    except InputError:
        assert not path.read_bytes().endswith(b"\n")
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    held = Counter[str]()
    for line in lines:
        if "charges" in line:
            held = Counter[str]()
            for one in line["charges"]:  # those of a plan that was given up say so
                held[one["label"].split(" (plan ")[0]] += one["times"]
    reads = Counter((folder / "reads").read_text().splitlines())
    assert not reads - held
    return read_book(path).spent[-1]


def sweep(folder: Path, name: str, *, every: int) -> list[int]:
    """How often a run had read rows at each moment at which it was killed, the last of which is its end."""
    make_frame().to_csv(folder / "data.csv", index=False)
    (folder / "specs.json").write_text(json.dumps(SPECS))
    begin_book(folder, 2 * ASKED)
    reads: list[int] = []
    moment, ended = 0, False
    while not ended:
        own = folder / str(moment)
        own.mkdir()
        shutil.copy(folder / "b.book", own)
        code = run_and_die(own, name, moment)
        assert code in (0, -signal.SIGKILL)
        ended = code == 0
        before = check_book(own)
        whole = check_output(own)
        assert whole or not ended
        if (own / "model").exists():
            # In a child: loading starts threads, which later children of this process would miss.
            assert do_in_child(lambda model=own / "model": Synthesizer.load(model).claim().private) is True
        reads.append((own / "reads").read_text().count("\n"))
        assert before > ASKED / 2 or not reads[-1]
        if reads[-1] and not whole:
            # What the run may still charge stays set aside, and when it goes on it is not counted twice; where its
            # only release is lost it cannot.
            shutil.rmtree(own / "model", ignore_errors=True)
            again = run_and_die(own, name, 10**9, resume=True)
            assert again in (0, PrivacyError.exit_code)
            assert check_output(own) is (again == 0)
            after = check_book(own)
            assert len(read_book(own / "b.book").entries) == 1
            # A marginal whose selection was lost is not asked for.
            assert before * 0.9 < after < 1.5 * before
        moment += every
    return reads


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_book_holds_all_that_was_read_when_a_run_is_killed_at_any_moment(tmp_path, name):
    told = call_module("tests.app.book.test_killed", tmp_path, name, str(EVERY[name]))
    assert told.returncode == 0, told.stderr
    reads = json.loads(told.stdout)
    # 30 kills and more in both runs.
    assert len(reads) > 14
    assert {0, 1} <= set(reads)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(sweep(Path(sys.argv[1]), sys.argv[2], every=int(sys.argv[3]))))
