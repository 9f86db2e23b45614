"""Real processes and a real SIGKILL: the run goes on, and its claim is that of a run that was left alone.

At every moment it is killed in tests/app/test_resume.py.
"""

import csv
import signal
import sys
from pathlib import Path

import pytest

from dpwgan.app import cli
from dpwgan.privacy.ledger import LOST
from tests.end_to_end.bad_inputs import ROWS, SPECS, inside, write_paid
from tests.programs import ROOT, call, list_variables, read_claim

pytestmark = pytest.mark.slow

QUERIES = ("--method", "query-gan", "--rounds", "3", "--codes", "20", "--fit-steps", "8")
CRITIC = ("--rounds", "1", "--codes", "20", "--fit-steps", "4", "--steps", "12", "--batch-size", "8")

# Runs the command line, and kills itself in the middle of a write: once so many others of files of that name are done.
KILLED = """
import os, signal, sys
from pathlib import Path
from dpwgan.app import checkpoint
from dpwgan.app import cli

name, left = sys.argv[1], int(sys.argv[2])
rename = Path.rename

def rename_or_die(self, target):
    global left
    if name in self.name and self.name.endswith(".tmp"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return rename(self, target)

Path.rename = rename_or_die
sys.exit(cli.main(sys.argv[3:]))
"""


WORDS = ("data.csv", "out.csv", "specs.json", "1", "--checkpoint", "kept")


def run_and_die(folder: Path, *arguments: str, name: str, after: int) -> int:
    variables = {**list_variables(), "PYTHONPATH": str(ROOT)}
    words = ("-c", KILLED, name, str(after), *WORDS, *arguments)
    return call(sys.executable, *words, cwd=folder, env=variables, timeout=300).returncode


def run(folder: Path, *arguments: str) -> int:
    """Runs in this process: another one than that which was killed, and TensorFlow is there already."""
    with inside(folder):
        return cli.main((*WORDS, *arguments), environment={})


@pytest.mark.parametrize(
    ("arguments", "name", "after", "lost"),
    [
        # The first write is the empty journal, then come two charges and a release for each round.
        pytest.param(QUERIES, "journal", 1, {}, id="before-the-first-release"),
        pytest.param(
            *(QUERIES, "comparisons", 0, {"comparison selections": 2, "comparison answers": 2}), id="in-a-comparison"
        ),
        pytest.param(CRITIC, "critic-steps", 5, {"critic steps": 1}, id="in-a-critic-step"),
    ],
)
def test_run_goes_on_when_it_was_killed(tmp_path, arguments, name, after, lost):
    write_paid(tmp_path)
    assert run_and_die(tmp_path, *arguments, name=name, after=after) == -signal.SIGKILL
    assert not (tmp_path / "out.csv").exists()
    if name == "journal":
        assert run(tmp_path, *arguments) == 2  # there is a run already
    assert run(tmp_path, *arguments, "--resume") == 0
    claim = read_claim(tmp_path)
    assert claim["guarantee"]["epsilon"] <= 1.0
    found = {line["label"]: line.get("details", {}).get(LOST, 0) for line in claim["ledger"]}
    assert {label: count for label, count in found.items() if count} == lost
    assert all(line["charged"] == line["reserved"] for line in claim["ledger"])
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(ROWS)
    assert {row["colour"] for row in rows} <= set(SPECS["colour"]["values"])
    assert not list((tmp_path / "kept").glob("*.tmp"))
