"""Runs cases, each from one number, in children that a library may end: `python -m tests.fuzz [TARGET ...]`.

The oracle: a documented exit code that is no internal error, one sentence, no cell in it, no output, within a minute,
and in the memory that a process has before its first row. A case is made again by its target and number (--first).
"""

import argparse
import io
import json
import mmap
import os
import random
import resource
import secrets
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from dpwgan import stages
from dpwgan.app.commands import Job, run_job
from dpwgan.app.delivery import Voice
from dpwgan.app.memory import BASE_BYTES
from dpwgan.app.process import _judge
from tests.end_to_end.bad_inputs import MEANINGS, SECRET, inside
from tests.fuzz.targets import TARGETS, Trial

_LONGEST = 60
_BROKEN = 99


def judge(code: int, said: str, *, may_tell: bool, left: Sequence[str]) -> str | None:
    """What is wrong with an answer, or None."""
    errors = [line for line in said.splitlines() if "error: " in line or '"error"' in line]
    if code not in MEANINGS or code == 70:
        return f"exit code {code}"
    if len(errors) != (code != 0) or "Traceback" in said:
        return f"{len(errors)} sentences"
    if code and not (errors[0].isprintable() and errors[0].rstrip('"}').endswith((".", "?", "!"))):
        return "no sentence"
    if SECRET in said and not may_tell:
        return "a cell is shown"
    return f"left over: {left}" if code and left else None


def try_case(target: str, number: int) -> tuple[int, str | None, str]:
    """Runs a case in an empty folder: its exit code, what is wrong with it, and what was said."""
    rng = random.Random(f"{target} {number}")
    with tempfile.TemporaryDirectory() as name, inside(Path(name)):
        said = io.StringIO()
        trial: Trial = TARGETS[target][0](rng)
        job = Job(work=lambda: trial.work() and None, voice=Voice(quiet=True), to_stdout=False)  # type: ignore[call-arg]
        with redirect_stderr(said), redirect_stdout(io.StringIO()):
            code = run_job(lambda: job)
        left = sorted(str(path) for pattern in ("out.csv*", "*.tmp") for path in Path().rglob(pattern))
    return code, judge(code, said.getvalue(), may_tell=trial.may_tell, left=left), said.getvalue()


def work_through(target: str, numbers: range, place: mmap.mmap, answers: Path) -> None:
    """Runs cases in this process, noting each before it is begun."""
    with answers.open("a") as file:
        for number in numbers:
            place[:8] = struct.pack("q", number)
            stages.note(stages.STARTING)
            signal.alarm(_LONGEST)
            told = try_case(target, number)
            signal.alarm(0)
            file.write(json.dumps(told) + "\n")
        file.write(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024) + "\n")


def run_target(target: str, numbers: range) -> Iterator[tuple[int, int, str | None, str]]:
    """Runs cases in children: number, exit code, what is wrong, what was said."""
    place = mmap.mmap(-1, 8)
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder) / "answers"
        while numbers:
            answers.write_text("")
            child = os.fork()
            if child == 0:
                own = os.dup(2)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what a library says reaches nobody in a run either
                tempfile.tempdir = folder  # what a child leaves behind goes with it
                try:
                    work_through(target, numbers, place, answers)
                except BaseException:
                    os.write(own, f"{place[:8].hex()} {traceback.format_exc()}".encode())
                    os._exit(_BROKEN)
                os._exit(0)
            end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert end != _BROKEN
            last = struct.unpack("q", place[:8])[0]
            *told, tail = [json.loads(line) for line in answers.read_text().splitlines()] or [None]
            if end == 0 and tail > BASE_BYTES:
                yield last, 75, f"{tail >> 20} MB", ""
            told += [] if end == 0 or tail is None else [tail]
            for number, answer in zip(numbers, told, strict=False):
                yield number, *answer
            if end:
                with redirect_stderr(io.StringIO()) as said:
                    code = _judge(end, limited=False)
                yield last, code, judge(code, said.getvalue(), may_tell=False, left=()), f"ended by {-end}"
            numbers = range(last + 1, numbers.stop)


def main() -> int:
    """Prints what was run and what was found; gives 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--cases", type=int, default=20_000, help="of all targets, by their shares")
    parser.add_argument("--first", type=int, default=0, help="number of the first case of each target")
    parser.add_argument("--minutes", type=float, help="fresh cases for so long, instead of the first ones")
    arguments = parser.parse_args()
    stages.share()
    first = secrets.randbits(40) if arguments.minutes else arguments.first
    end = time.monotonic() + 60 * (arguments.minutes or 0)
    asked = {name: TARGETS[name] for name in arguments.targets or TARGETS}
    share = arguments.cases / sum(cases for _, cases in asked.values())
    codes: dict[str, Counter[Any]] = {name: Counter() for name in asked}
    seconds: Counter[str] = Counter()
    wrong = 0
    while True:
        for name, (_, cases) in asked.items():
            started = time.monotonic()
            for number, code, problem, said in run_target(name, range(first, first + max(1, round(cases * share)))):
                codes[name][code] += 1
                if problem:
                    wrong += 1
                    sys.stdout.write(f"{name} {number}: {problem}: {said.strip()[-300:]!r}\n")
            seconds[name] += time.monotonic() - started  # type: ignore[assignment]
        first += arguments.cases
        if time.monotonic() >= end:
            break
    for name, found in codes.items():
        sys.stdout.write(
            f"{name}: {found.total()} cases in {seconds[name]:.0f} s, exit codes {dict(sorted(found.items()))}\n"
        )
    sys.stdout.write(f"{sum(found.total() for found in codes.values())} cases, {wrong} wrong\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
