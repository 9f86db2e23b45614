"""The script that makes the Makefile's virtual environment, with a stand-in for Python that writes down its calls."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.programs import ROOT, call

# As a system Python it makes "environments"; as the environment's own it plays pip, and fails where fail-pip stands.
STAND_IN = """#!/bin/sh
case "$*" in
    "-I -c"*) echo "$0" ;;
    "-m venv "*) mkdir -p "$3/bin" && touch "$3/pyvenv.cfg" && cp "$0" "$3/bin/python" ;;
    "-m pip install "*) echo pip "$@" >>calls.log; [ ! -e fail-pip ] ;;
esac
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the script, three requirements files and the stand-in."""
    (tmp_path / "scripts").mkdir()
    for name in ("find-python.sh", "setup-venv.sh"):
        shutil.copyfile(ROOT / "scripts" / name, tmp_path / "scripts" / name)
    (tmp_path / "requirements.txt").write_text("one==1\n")
    (tmp_path / "requirements-evaluation.txt").write_text("-r requirements.txt\ntwo==2\n")
    (tmp_path / "requirements-dev.txt").write_text("-r requirements-evaluation.txt\nthree==3\n")
    python = tmp_path / "python"
    python.write_text(STAND_IN)
    python.chmod(0o755)
    return tmp_path


def set_up(project: Path, kind: str, directory: str = ".venv") -> subprocess.CompletedProcess[str]:
    paths = {"PATH": "/usr/bin:/bin", "PYTHON": str(project / "python")}
    return call("/bin/sh", "scripts/setup-venv.sh", kind, directory, cwd=project, env=paths)


def installed(project: Path) -> list[str]:
    """Returns the requirements files that pip was given, in order."""
    log = project / "calls.log"
    return [line.split()[-1] for line in log.read_text().splitlines()] if log.exists() else []


def test_environment_is_made_once_when_asked_for_twice(project):
    assert set_up(project, "run").returncode == 0
    again = set_up(project, "run")
    assert (again.returncode, again.stderr) == (0, "")
    assert installed(project) == ["requirements.txt"]


def test_environment_is_added_to_when_the_tools_are_asked_for(project):
    for kind in ("run", "dev", "dev", "evaluation", "run"):
        assert set_up(project, kind).returncode == 0
    assert installed(project) == ["requirements.txt", "requirements-evaluation.txt", "requirements-dev.txt"]


def test_environment_has_no_tools_when_only_the_evaluation_is_asked_for(project):
    for _ in range(2):
        assert set_up(project, "evaluation").returncode == 0
    assert installed(project) == ["requirements.txt", "requirements-evaluation.txt"]


def test_tools_are_added_anew_when_what_the_evaluation_needs_changes(project):
    set_up(project, "dev")
    (project / "requirements-evaluation.txt").write_text("-r requirements.txt\ntwo==3\n")
    assert set_up(project, "run").returncode == 0
    assert len(installed(project)) == 3
    assert set_up(project, "dev").returncode == 0
    assert installed(project)[3:] == ["requirements-evaluation.txt", "requirements-dev.txt"]


def test_environment_is_made_anew_when_the_requirements_change(project):
    set_up(project, "dev")
    (project / "requirements.txt").write_text("one==2\n")
    (project / ".venv" / "old").touch()
    assert set_up(project, "run").returncode == 0
    assert not (project / ".venv" / "old").exists()
    both = ["requirements.txt", "requirements-evaluation.txt", "requirements-dev.txt"]
    assert installed(project) == [*both, "requirements.txt"]


def test_environment_is_made_anew_when_the_install_broke_off(project):
    (project / "fail-pip").touch()
    assert set_up(project, "run").returncode != 0
    (project / "fail-pip").unlink()
    assert set_up(project, "run").returncode == 0
    assert installed(project) == ["requirements.txt", "requirements.txt"]


def test_environment_is_made_anew_when_the_project_has_moved(project):
    set_up(project, "run")
    moved = project.rename(project.with_name("moved"))
    assert set_up(moved, "run").returncode == 0
    assert installed(moved) == ["requirements.txt", "requirements.txt"]


def test_environment_is_refused_when_its_folder_holds_something_else(project):
    (project / "mine").mkdir()
    (project / "mine" / "thesis.txt").touch()
    refused = set_up(project, "run", "mine")
    assert refused.returncode != 0
    assert "mine is there and is not a virtual environment" in refused.stderr
    assert (project / "mine" / "thesis.txt").exists()
