"""A file system that fails at each call of a run: there is all of a release or nothing, and all is charged."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.programs import call_module


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc, to build what stands between a run and libc")
def test_release_is_whole_or_not_there_when_any_call_fails(tmp_path):
    shim = tmp_path / "shim.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", shim, Path(__file__).with_name("shim.c"), "-ldl"], check=True)
    (tmp_path / "runs").mkdir()
    told = call_module("tests.faults.sweep", tmp_path / "runs", LD_PRELOAD=str(shim))
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert found["violations"] == []
    assert min(found["calls"].values()) >= 10
    assert len(found["codes"]) >= 3  # else nothing failed
