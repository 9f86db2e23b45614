"""`dpwgan`: one name for every command, nothing loaded before it is asked for, and all of it in the wheel."""

import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from dpwgan import __main__ as program
from dpwgan.app.commands import COMMANDS
from dpwgan.version import __version__
from tests.programs import ROOT, call


def test_commands_are_listed_when_none_is_named(capfd):
    assert program.main([]) == 0
    out = capfd.readouterr().out
    assert all(f"\n  {name:<12}" in out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_answers_with_its_own_help_when_asked(name, capfd):
    assert program.main([name, "--help"]) == 0
    assert "usage: " in capfd.readouterr().out


def test_command_is_refused_when_it_is_unknown_or_not_installed(capfd, monkeypatch):
    assert program.main(["evalute"]) == 2
    said = capfd.readouterr().err
    assert "The first argument must be one of run, specs," in said
    assert "(did you mean evaluate?)" in said
    monkeypatch.setitem(COMMANDS, "evaluate", ("dpwgan.absent", ""))
    assert program.main(["evaluate"]) == 2
    assert "The command evaluate is not in this installation." in capfd.readouterr().err


@pytest.mark.parametrize("words", [["data.csv"], ["/x/data"], ["-"], ["--rows", "3"], ["here"]])
def test_words_are_those_of_a_run_when_no_command_is_named(words, capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").touch()
    assert program.main(words) == 2
    assert "DATA OUTPUT SPECS EPSILON [DELTA] are 4 or 5 arguments" in capfd.readouterr().err


@pytest.mark.slow
def test_program_loads_no_frame_and_no_network_when_asked_for_its_version():
    code = "import sys, dpwgan.__main__ as m; m.main(['--version']); print({'polars', 'tensorflow'} & {*sys.modules})"
    done = call(sys.executable, "-c", code, check=True)
    assert done.stdout == f"dpwgan {__version__}\nset()\n"


@pytest.mark.slow
def test_wheel_holds_all_that_a_run_needs_when_it_is_unpacked_elsewhere(tmp_path):
    source, place = tmp_path / "source", tmp_path / "place"
    leave_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "dpwgan", source / "dpwgan", ignore=leave_out)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(source)], check=True)
    wheel = zipfile.ZipFile(next(tmp_path.glob("dpwgan-*.whl")))
    ours = {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "dpwgan").rglob("*.*") if "__pycache__" not in str(path)
    }
    assert {name for name in wheel.namelist() if name.startswith("dpwgan/")} == ours
    wheel.extractall(place)
    example = ROOT / "examples" / "rand-hie"
    words = ["data.csv", "out.csv", "data-specs.json", "1.0", "--check"]
    for word in (words[0], words[2]):
        shutil.copy(example / word, tmp_path)
    code = f"import sys; sys.argv[1:] = {words}; from dpwgan.__main__ import start; start()"
    done = call(sys.executable, "-c", code, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(place)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("rows: 20190; ")
