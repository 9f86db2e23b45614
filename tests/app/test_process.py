"""However a program ends, its exit code is a documented one, and what a library says on the way reaches nobody."""

import os
import resource
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dpwgan.app.process import is_out_of_memory
from dpwgan.errors import DataError
from tests.programs import ROOT

START = "import sys; from dpwgan.app.process import run_watched; run_watched(sys.argv[1])"
HEAD = "import os, signal, sys, time, resource\nfrom dpwgan.stages import *\ndef main():\n    "


def start(folder: Path, body: str, **more: Any) -> "subprocess.Popen[str]":
    """Starts a program whose `main` this is."""
    (folder / "program.py").write_text(HEAD + body)
    return subprocess.Popen(
        [sys.executable, "-c", START, "program"],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{folder}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


limit_memory = partial(resource.setrlimit, resource.RLIMIT_DATA, (2 << 30, resource.RLIM_INFINITY))
starve = partial(resource.setrlimit, resource.RLIMIT_AS, (512 << 20, resource.RLIM_INFINITY))
MEMORY = "Out of memory: the system ended the run; no output was written."


@pytest.mark.parametrize(
    ("body", "limit", "code", "sentence"),
    [
        ("note(WORKING); return 65", None, 65, ""),
        ("note(WORKING); return 143", None, 143, ""),
        (
            "os.write(2, b'SECRET'); os.abort()",
            None,
            70,
            "Internal error: SIGABRT in a library; no output was written.",
        ),
        ("note(READING); os.abort()", None, 65, "The table is damaged: it ended the process that read it; no output"),
        ("note(READING); os.abort()", limit_memory, 75, MEMORY),
        ("note(WORKING); os.kill(os.getpid(), signal.SIGSEGV)", limit_memory, 75, MEMORY),
        ("note(WORKING); os.kill(os.getpid(), signal.SIGKILL)", None, 75, MEMORY),
        ("note(WORKING); os.kill(os.getpid(), signal.SIGHUP)", None, 129, "Stopped by SIGHUP; no output was written."),
        ("note(DONE); os.abort()", None, 0, ""),
        ("note(DONE); os.kill(os.getpid(), signal.SIGKILL)", None, 0, ""),
        ("return 0", starve, 75, "The limit on memory (ulimit) is below the 1280 MB that the libraries need to start."),
    ],
)
def test_program_ends_with_a_documented_code_and_one_sentence_when_its_process_does_not(
    tmp_path, body, limit, code, sentence
):
    out, err = (process := start(tmp_path, body, preexec_fn=limit)).communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert err.startswith(f"dpwgan: error: {sentence}" if sentence else "")
    assert err.count("\n") == bool(sentence)
    assert "SECRET" not in err


WAIT = "print('here', flush=True); time.sleep(60)"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("body", "stopped"),
    [(WAIT, True), ("note(DONE); print('here', flush=True); time.sleep(0.5); return 0", False)],
    ids=["before-the-run-begins", "after-it-is-complete"],
)
def test_signal_stops_a_program_when_it_is_not_complete(tmp_path, number, body, stopped):
    process = start(tmp_path, body)
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (128 + number if stopped else 0)
    assert err == (f"dpwgan: error: Stopped by {number.name}; no output was written.\n" if stopped else "")


def test_program_ends_when_the_process_that_waits_for_it_is_killed(tmp_path):
    process = start(
        tmp_path, "print(os.getpid(), resource.getrlimit(resource.RLIMIT_CORE)[0], flush=True); time.sleep(60)"
    )
    assert process.stdout is not None
    child, core = map(int, process.stdout.readline().split())
    assert (child != process.pid, core) == (True, 0)
    process.kill()
    assert process.communicate(timeout=30) == ("", "")  # its own ends of the pipes are closed


def raise_from(error: BaseException, cause: BaseException) -> None:
    try:
        raise cause
    except BaseException:
        raise error from None


@pytest.mark.parametrize(
    ("error", "limited", "expected"),
    [
        (MemoryError(), False, True),
        (OSError(12, "SECRET"), False, True),
        (OSError(28, "SECRET"), True, False),
        (ImportError("SECRET"), False, False),
        (ImportError("SECRET"), True, True),
        (RuntimeError("can't start new thread"), True, True),
        (RuntimeError("another"), True, False),
        (type("PanicException", (BaseException,), {})(), True, True),
    ],
)
def test_error_is_one_of_memory_when_there_was_too_little(monkeypatch, error, limited, expected):
    monkeypatch.setattr(resource, "prlimit", lambda process, limit: (1 << 30 if limited else resource.RLIM_INFINITY, 0))
    assert is_out_of_memory(error) is expected
    with pytest.raises(DataError) as caught:
        raise_from(DataError("The file is damaged."), error)
    assert is_out_of_memory(caught.value) is expected


@pytest.mark.parametrize("descriptor", [1, 2])
def test_exit_code_is_the_program_s_when_a_stream_was_closed_from_the_start(tmp_path, descriptor):
    process = start(tmp_path, "return 65", preexec_fn=lambda: os.close(descriptor))
    said = process.communicate()
    assert (process.returncode, *said) == (65, "", "")
