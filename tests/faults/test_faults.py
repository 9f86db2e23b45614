"""A file system that fails at each call of a run: there is all of a release or nothing, and all is charged."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc, to build what stands between a run and libc")
def test_release_is_whole_or_not_there_when_any_call_fails(tmp_path):
    shim = tmp_path / "shim.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", shim, Path(__file__).with_name("shim.c"), "-ldl"], check=True)
    (tmp_path / "runs").mkdir()
    told = subprocess.run(
        # In a process of its own: threads that other tests began would be missed in its children.
        [sys.executable, "-m", "tests.faults.sweep", tmp_path / "runs"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert found["violations"] == []
    assert min(found["calls"].values()) >= 10
    assert len(found["codes"]) >= 3  # else nothing failed
