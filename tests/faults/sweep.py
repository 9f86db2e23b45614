"""A short run with checkpoint, book, model and claim, on a file system that fails at each of its calls in turn.

Afterwards there is all of a release or nothing of it, the exit code is a documented one, and neither the journal nor
the book holds less than what was read; the run then goes on, or is refused. Needs `shim.c`, loaded before libc.
"""

import argparse
import ctypes
import errno
import hashlib
import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dpwgan.app.pipeline  # noqa: F401 - loaded once, for all children
from dpwgan.app.book.book import read_book
from dpwgan.app.cli import main
from dpwgan.errors import InputError
from dpwgan.privacy.ledger import Ledger
from tests.end_to_end.bad_inputs import MEANINGS, inside, write_good
from tests.lives import read_journal
from tests.programs import begin_book, read_claim

KINDS = ("open", "write", "fsync", "rename", "unlink")
SHORT, PAUSE = 0, -1
# The error, and whether it stays. A write that a full disk breaks off is first short.
MODES = {
    "open": ((errno.EIO, False), (errno.ENOSPC, True), (errno.EINTR, False)),
    "write": ((errno.ENOSPC, True), (SHORT, False), (errno.EIO, False), (errno.EINTR, False)),
    "fsync": ((errno.EIO, False), (errno.ENOSPC, True), (errno.EINTR, False)),
    "rename": ((errno.EIO, False), (errno.ENOSPC, True), (errno.EINTR, False)),
    "unlink": ((errno.EIO, False), (errno.ENOSPC, True), (errno.EINTR, False)),
}
# What Python asks for again by itself.
HARMLESS = {(kind, errno.EINTR) for kind in ("open", "write", "fsync")} | {("write", SHORT)}
RUN = (
    *("data.csv", "out.csv", "specs.json", "1", "--method", "independent", "--accountant", "moments", "--quiet"),
    *("--checkpoint", "kept", "--book", "b.book", "--save-model", "model", "--threads", "1"),
)
OUTPUTS = ("out.csv", "out.csv.privacy.json", "model")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Which call fails, and with what."""

    kind: str
    number: int
    code: int
    stays: bool


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run came to: its exit code, what it said, which releases read rows, and its calls of each kind."""

    code: int
    said: str
    reads: Counter[str]
    calls: Sequence[int]


def start(folder: Path, words: Sequence[str], fault: Fault | None, *, log: Path) -> int:
    """Begins a run in a child, which tells at its end in a log and `.err` beside it."""
    shim = ctypes.CDLL(None)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        reads: Counter[str] = Counter()
        release: Callable[..., Any] = vars(Ledger)["release_all"]

        def noted(self: Ledger, label: str, compute: Callable[[], Any]) -> Any:
            def read() -> Any:
                reads[label] += 1
                return compute()

            return release(self, label, read)

        Ledger.release_all = noted  # type: ignore[method-assign]
        with inside(folder), log.with_suffix(".err").open("w") as sys.stderr:
            if fault is not None:
                shim.arm(os.fsencode(folder), KINDS.index(fault.kind), fault.number, fault.code, fault.stays)
            code = main(words, environment={})
            calls = [shim.count_calls(kind) for kind in range(len(KINDS))]
            shim.disarm()
        log.write_text(json.dumps([reads, calls]))
        os._exit(code)
    return child


def finish(child: int, log: Path) -> Outcome:
    """Waits for a run."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    reads, calls = json.loads(log.read_text()) if code >= 0 else ({}, ())
    return Outcome(code=code, said=log.with_suffix(".err").read_text(), reads=Counter(reads), calls=calls)


def run(folder: Path, fault: Fault | None, *words: str) -> Outcome:
    """Runs in a child, with more words on its command line."""
    log = folder.parent / "log"
    return finish(start(folder, (*RUN, *words), fault, log=log), log)


def find_violations(folder: Path, fault: Fault, found: Outcome, *, cost: float) -> Iterator[str]:
    """What a run on a failing file system did that it must not do; `cost` is what the book says of a whole run."""
    errors = [line for line in found.said.splitlines() if line.startswith("dpwgan: error: ")]
    if found.code not in MEANINGS or found.code == 70 or len(errors) != (found.code != 0):
        yield f"exit code {found.code}, {found.said!r}"
        return
    if (fault.kind, fault.code) in HARMLESS and not fault.stays and found.code:
        yield f"a fault that is none ended the run: {found.said!r}"
    there = [name for name in OUTPUTS if (folder / name).exists()]
    if found.code and there:
        yield f"exit code {found.code}, and there are {there}"
    # Who cannot take away a file leaves it for the next run, which can.
    if fault.kind != "unlink" and not fault.stays and (left := sorted(map(str, folder.rglob("*.tmp")))):
        yield f"left over: {left}"
    try:
        spent = read_book(folder / "b.book").spent[-1]
    except InputError as error:
        yield f"the book: {error}"
        return
    if found.reads and spent < 0.99 * cost:
        yield f"the book says {spent} of {cost}"
    begun = (folder / "kept" / "journal.json").exists()
    charged = Counter[str]()
    for act in read_journal(folder / "kept")["acts"] if begun else ():
        charged.update(act["charges"])
    if found.reads - charged:
        yield f"read {found.reads}, and charged {charged}"
    if not found.code:
        if len(there) < len(OUTPUTS):
            yield f"exit code 0, and there are only {there}"
        return
    after = run(folder, None, *["--resume"] * begun)
    if after.code not in ((0, 69) if found.reads else (0,)):
        yield f"afterwards: exit code {after.code}, {after.said!r}"
    elif after.code == 0:
        ledger = read_claim(folder)["ledger"]
        claimed = Counter[str]()
        for line in ledger:
            claimed[line["label"].partition(" (plan ")[0]] += line["charged"]
        if (found.reads + after.reads) - claimed:
            yield f"read {found.reads} and {after.reads}, and the claim says {ledger}"
        if list(folder.rglob("*.tmp")):
            yield "left over after the next run"


def find_clashes(folder: Path, number: int, *, same: bool) -> Iterator[str]:
    """What is wrong when a run stops before a rename until another one has ended, into the `same` output or beside it.

    They have one book.
    """
    log = folder.parent / "first"
    first = start(folder, RUN, Fault(kind="rename", number=number, code=PAUSE, stays=False), log=log)
    assert os.WIFSTOPPED(os.waitpid(first, os.WUNTRACED)[1])
    other = {"out.csv": "other.csv", "kept": "other-kept", "model": "other-model"}
    words = RUN if same else [other.get(word, word) for word in RUN]
    second = finish(start(folder, words, None, log=folder.parent / "log"), folder.parent / "log")
    os.kill(first, signal.SIGCONT)
    codes = finish(first, log).code, second.code
    if codes != (0, 73 if same else 0):
        yield f"exit codes {codes}: {second.said}"
    tables = ["out.csv"] if same else ["out.csv", "other.csv"]
    digests = [hashlib.sha256((folder / table).read_bytes()).hexdigest() for table in tables]
    claims = [read_claim(folder, table) for table in tables]
    if digests != [claim["output"]["sha256"] for claim in claims]:
        yield "a claim is beside another's table"
    book = read_book(folder / "b.book")
    if sorted(digests) != sorted(output for entry in book.entries.values() for output in entry.outputs):
        yield f"the book has other outputs: {book.entries}"
    if not all(entry.settled for entry in book.entries.values()):
        yield f"the book is not settled: {book.entries}"


def sweep(folder: Path, *, whole_sweep: bool) -> dict[str, Any]:
    """Runs once whole, and then once for each call and error, or for each third call with one of the errors in turn.

    Then two runs at once. Gives how many, and what was wrong.
    """
    good = folder / "good"
    good.mkdir()
    write_good(good)
    begin_book(good)
    whole = Path(shutil.copytree(good, folder / "whole"))
    first = run(whole, Fault(kind="open", number=10**6, code=0, stays=False))
    assert first.code == 0, first.said
    cost = read_book(whole / "b.book").spent[-1]
    told: dict[str, Any] = {
        "calls": dict(zip(KINDS, first.calls, strict=True)),
        "runs": 0,
        "pairs": 0,
        "violations": [],
    }
    codes: Counter[int] = Counter()
    for kind, calls in told["calls"].items():
        for number in range(calls):
            for index, (code, stays) in enumerate(MODES[kind]):
                if not whole_sweep and number % 3 + abs(index - number // 3 % len(MODES[kind])):
                    continue
                fault = Fault(kind=kind, number=number, code=code, stays=stays)
                own = Path(shutil.copytree(good, folder / "own"))
                found = run(own, fault)
                told["violations"] += [f"{fault}: {wrong}" for wrong in find_violations(own, fault, found, cost=cost)]
                told["runs"] += 1
                codes[found.code] += 1
                shutil.rmtree(own)
    for number in range(0, told["calls"]["rename"], 1 if whole_sweep else 3):
        for same in (True, False):
            own = Path(shutil.copytree(good, folder / "own"))
            told["violations"] += [
                f"two runs, {number}, {same}: {wrong}" for wrong in find_clashes(own, number, same=same)
            ]
            told["pairs"] += 1
            shutil.rmtree(own)
    return {**told, "codes": codes}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    json.dump(sweep(arguments.folder.resolve(), whole_sweep=arguments.all), sys.stdout, indent=1)
