"""The first cases of each fuzzer, the same in each run, and what judges them; `make fuzz` looks further."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.bad_inputs import SECRET
from tests.fuzz.__main__ import judge

SENTENCE = "dpwgan: error: The table is empty.\n"


@pytest.mark.slow
def test_readers_answer_as_documented_when_inputs_are_changed_at_random():
    # In a process of its own: threads that other tests began would be missed in its children.
    told = subprocess.run(
        [sys.executable, "-m", "tests.fuzz"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout[-5_000:] + told.stderr[-5_000:]
    assert int(told.stdout.splitlines()[-1].split()[0]) >= 20_000


@pytest.mark.parametrize(
    ("code", "said", "left"),
    [
        (70, SENTENCE, []),
        (1, SENTENCE, []),
        (65, "", []),
        (65, SENTENCE * 2, []),
        (65, "Traceback (most recent call last):\n" + SENTENCE, []),
        (65, SENTENCE.replace("empty", f"of {SECRET}"), []),
        (65, SENTENCE.replace("empty", "\x1b[2K"), []),
        (65, SENTENCE, ["out.csv"]),
        (0, SENTENCE, []),
    ],
)
def test_answer_is_wrong_when_it_breaks_one_promise(code, said, left):
    assert judge(code, said, may_tell=False, left=left)
    assert judge(65, SENTENCE, may_tell=False, left=[]) is None
