"""What a user downloads: pinned requirements, one version, make targets that exist, no path of one machine."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from dpwgan.version import __version__
from tests.programs import ROOT, call

PINNED = re.compile(r"^[a-z0-9-]+(\[[a-z,]+\])?==[0-9][^ ;]*( ; [^\\]+)? \\$")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def list_files() -> list[Path]:
    """Returns the files that git tracks, or, in a tree without git, all outside of what the Makefile makes."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        # A checkout may belong to another user than the one who tests it.
        done = call("git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", cwd=ROOT, check=True)
        return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]
    made = {".venv", "build", "__pycache__"}
    return [path for path in ROOT.rglob("*") if path.is_file() and not made & set(path.relative_to(ROOT).parts)]


@pytest.mark.parametrize("name", [path.name for path in ROOT.glob("requirements*.txt")])
def test_requirements_pin_every_package_with_hashes_when_read_line_by_line(name):
    blocks = re.split(r"^(?=[^ #])", read(name), flags=re.MULTILINE)[1:]
    packages = [block for block in blocks if not block.startswith("-r ")]
    assert len(packages) > 1
    for block in packages:
        first, *hashes = block.strip().splitlines()
        assert PINNED.match(first), first
        assert hashes
        assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in hashes), first


def test_requirements_hold_the_versions_of_pyproject_when_compared():
    asked = re.search(r"^dependencies = \[\n(.*?)^\]", read("pyproject.toml"), flags=re.MULTILINE | re.DOTALL)
    assert asked is not None
    direct = [Requirement(line) for line in re.findall(r'^    "([^"]+)"', asked[1], flags=re.MULTILINE)]
    locked = [Requirement(line) for line in re.findall(r"^([a-z].*) \\$", read("requirements.txt"), flags=re.MULTILINE)]
    assert len(direct) >= 12
    for python in ("3.10", "3.11", "3.12", "3.13"):
        place = {"python_version": python, "python_full_version": f"{python}.1", "sys_platform": "linux"}
        pinned = {
            one.name: str(one.specifier)[2:] for one in locked if one.marker is None or one.marker.evaluate(place)
        }
        for one in direct:
            if one.marker is None or one.marker.evaluate(place):
                assert one.specifier.contains(pinned[one.name]), (python, str(one))


def test_version_is_the_same_when_read_from_each_file_that_states_it():
    assert re.search(r"^version: (\S+)$", read("CITATION.cff"), flags=re.MULTILINE)[1] == __version__
    assert re.search(r"^ARG VERSION=(\S+)$", read("Dockerfile"), flags=re.MULTILINE)[1] == __version__
    releases = re.findall(r"^## \[([0-9][^\]]*)\]", read("CHANGELOG.md"), flags=re.MULTILINE)
    assert releases[0] == __version__
    assert 'attr = "dpwgan.version.__version__"' in read("pyproject.toml")


def test_make_lists_its_targets_when_asked_for_help():
    done = call("make", "help", cwd=ROOT, check=True)
    listed = set(re.findall(r"^make ([a-z-]+) ", done.stdout, flags=re.MULTILINE))
    assert {"run", "test", "check", "lint", "format", "container-test", "clean", "help"} <= listed


def find_python(directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the search for a Python where `directory` is the whole path and there is no home."""
    paths = {"PATH": str(directory), "HOME": str(directory)}
    return call("/bin/sh", ROOT / "scripts" / "find-python.sh", env={**paths, **environment})


def write_command(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("script", "python", "words"),
    [
        (None, {}, "Python 3.10, 3.11, 3.12 or 3.13"),
        ("echo /somewhere/python3.11", {"PYTHON": "/no/such/python"}, "PYTHON=/no/such/python"),
        ("exit 5", {}, "python3-venv"),  # environments cannot be made
    ],
)
def test_find_python_says_one_sentence_when_there_is_none_that_will_do(tmp_path, script, python, words):
    if script is not None:
        write_command(tmp_path / "python3.11", script)
    done = find_python(tmp_path, **python)
    assert done.returncode != 0
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert words in done.stderr


def test_find_python_passes_over_a_command_when_it_does_not_run(tmp_path):
    write_command(tmp_path / "python3.11", "echo 'python3.11: command not found' >&2; exit 127")
    write_command(tmp_path / "python3.10", "exit 0")
    write_command(tmp_path / "python3", "echo /somewhere/python3")
    done = find_python(tmp_path)
    assert (done.returncode, done.stdout) == (0, "/somewhere/python3\n")


def test_dockerignore_lets_nothing_in_when_it_is_not_named():
    lines = [line for line in read(".dockerignore").splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", read("Dockerfile"), flags=re.MULTILINE)
    assert {f"!{name}" for line in copied for name in line.split()} == {line for line in lines if line[0] == "!"}


def test_example_specs_name_the_columns_of_its_table_when_compared():
    specs = json.loads(read("examples/rand-hie/data-specs.json"))
    with (ROOT / "examples/rand-hie/data.csv").open(encoding="utf-8") as table:
        header = next(table).rstrip("\n").split(",")
        assert sum(1 for _ in table) == 20_190
    assert [*header, "rules"] == list(specs)


def test_files_name_no_machine_when_searched():
    # Written in pieces, so that this file does not hold what it looks for.
    hosts = (
        "pypi" + ".org",
        "pythonhosted" + ".org",
        "deb.debian" + ".org",
        "registry.npmjs" + ".org",
        "/opt" + "/pypi",
    )
    forbidden = [*hosts, "/" + "work/", "/" + "root/.pyenv", "/tmp" + "/w/"]
    home = os.path.expanduser("~")
    if home not in ("/", "/root"):
        forbidden.append(home + "/")
    pattern = re.compile("|".join(re.escape(text) for text in forbidden).encode())
    guilty = [str(path.relative_to(ROOT)) for path in list_files() if pattern.search(path.read_bytes())]
    assert guilty == []
