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


RUN, EVALUATION, DEV = (f"requirements{kind}.txt" for kind in ("", "-evaluation", "-dev"))


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["run", "run"], [RUN]),
        (["run", "dev", "dev", "evaluation", "run"], [RUN, EVALUATION, DEV]),
        (["evaluation", "evaluation"], [RUN, EVALUATION]),
    ],
)
def test_environment_is_made_once_and_added_to_when_more_is_asked_for(project, kinds, expected):
    for kind in kinds:
        done = set_up(project, kind)
        assert done.returncode == 0
    assert done.stderr == ""  # nothing was left to do
    assert installed(project) == expected


def test_tools_are_added_anew_when_what_the_evaluation_needs_changes(project):
    set_up(project, "dev")
    (project / EVALUATION).write_text("-r requirements.txt\ntwo==3\n")
    assert set_up(project, "run").returncode == 0
    assert len(installed(project)) == 3
    assert set_up(project, "dev").returncode == 0
    assert installed(project)[3:] == [EVALUATION, DEV]


def change_requirements(project: Path) -> Path:
    (project / RUN).write_text("one==2\n")
    return project


def move(project: Path) -> Path:
    return project.rename(project.with_name("moved"))


@pytest.mark.parametrize("change", [change_requirements, move])
def test_environment_is_made_anew_when_the_requirements_change_or_the_project_has_moved(project, change):
    set_up(project, "dev")
    (project / ".venv" / "old").touch()
    project = change(project)
    assert set_up(project, "run").returncode == 0
    assert not (project / ".venv" / "old").exists()
    assert installed(project) == [RUN, EVALUATION, DEV, RUN]


def test_environment_is_made_anew_when_the_install_broke_off(project):
    (project / "fail-pip").touch()
    assert set_up(project, "run").returncode != 0
    (project / "fail-pip").unlink()
    assert set_up(project, "run").returncode == 0
    assert installed(project) == [RUN, RUN]


def test_environment_is_refused_when_its_folder_holds_something_else(project):
    (project / "mine").mkdir()
    (project / "mine" / "thesis.txt").touch()
    refused = set_up(project, "run", "mine")
    assert refused.returncode != 0
    assert "mine is there and is not a virtual environment" in refused.stderr
    assert (project / "mine" / "thesis.txt").exists()
