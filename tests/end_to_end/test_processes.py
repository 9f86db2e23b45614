"""What only a process of its own can show: signals, a full disk, pipes, and the entry point itself."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.end_to_end.bad_inputs import FAST, write_good
from tests.programs import RUN, list_variables

pytestmark = pytest.mark.slow

LONG = ("--anchor", "none", "--steps", "8000", "--batch-size", "8", "--hidden-critic", "8", "--hidden-generator", "8")


@pytest.fixture(autouse=True)
def good_table(tmp_path):
    write_good(tmp_path)


def start(folder: Path, *arguments: str, **more: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, RUN, *arguments],
        cwd=folder,
        env=list_variables(),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **more,  # type: ignore[call-overload]
    )


@pytest.mark.parametrize(
    ("number", "code", "sign"),
    [
        # Training is under way when its first tenth is done; TensorFlow is being imported after the plan was told.
        pytest.param(signal.SIGTERM, 143, '"progress"', id="SIGTERM-in-training"),
        pytest.param(signal.SIGINT, 130, '"plan"', id="SIGINT-before-training"),
    ],
)
def test_run_stops_and_leaves_nothing_when_a_signal_comes(tmp_path, number, code, sign):
    before = sorted(path.name for path in tmp_path.iterdir())
    process = start(tmp_path, "data.csv", "out.csv", "specs.json", "1", *LONG, "--log-format", "json")
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if sign in line:
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, "".join(said) + err
    assert out == ""
    assert f"Stopped by {number.name}; no output was written." in err
    assert "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_run_succeeds_when_a_signal_comes_after_its_output_is_in_place(tmp_path):
    process = start(tmp_path, "data.csv", "out.csv", "specs.json", "1", "--method", "independent")
    while not (tmp_path / "out.csv").exists() and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "Stopped" not in err


def test_run_says_so_when_it_may_not_use_the_memory_that_it_needs(tmp_path):

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1_000_000 << 10, resource.RLIM_INFINITY))

    arguments = ("data.csv", "out.csv", "specs.json", "8", "--method", "independent", "--quiet")
    process = start(tmp_path, *arguments, preexec_fn=limit)
    _, err = process.communicate(timeout=120)
    # How much is enough depends on the machine; that it ends, and how, does not.
    assert process.returncode in (0, 75), err
    assert err.count("\n") == bool(process.returncode), err


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_run_leaves_nothing_when_the_disk_is_full(tmp_path, name):
    before = sorted(path.name for path in tmp_path.iterdir())

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then a write past the limit fails as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    quick = ("--method", "independent")
    process = start(tmp_path, "data.csv", name, "specs.json", "1.0", *quick, preexec_fn=limit)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 74, err
    assert f"Writing {name!r} broke off: File too large." in err
    assert "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_run_says_so_when_the_reader_of_stdout_goes_away(tmp_path):
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = subprocess.Popen(
        [sys.executable, RUN, "data.csv", "-", "specs.json", "1.0", "--method", "independent"],
        cwd=tmp_path,
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write_end)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 74, err
    assert "Whoever was reading standard output has stopped." in err
    assert "Traceback" not in err


def test_run_reads_stdin_and_writes_stdout_when_both_are_dashes(tmp_path):
    process = start(tmp_path, "-", "-", "specs.json", "1.0", *FAST, "--claim", "claim.json", "--rows", "7")
    out, err = process.communicate(input=(tmp_path / "data.csv").read_text(), timeout=120)
    assert process.returncode == 0, err
    assert out.splitlines()[0] == "colour,age,income,member"
    assert len(out.splitlines()) == 8
    assert (tmp_path / "claim.json").exists()
    assert "--claim" not in err
    # Nothing but the tool itself speaks on stderr.
    assert [line for line in err.splitlines() if not line.startswith("dpwgan: ")] == []
