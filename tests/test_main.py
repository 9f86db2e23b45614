"""`python -m dpwgan`: one name for every command, and nothing loaded before it is asked for."""

import subprocess
import sys

import pytest

from dpwgan import __main__ as program
from dpwgan.version import __version__


def test_commands_are_listed_when_none_is_named(capfd):
    assert program.main([]) == 0
    out = capfd.readouterr().out
    assert all(f"\n  {name:<10}" in out for name in program.COMMANDS)


@pytest.mark.parametrize("name", program.COMMANDS)
def test_each_command_answers_with_its_own_help_when_asked(name, capfd):
    assert program.main([name, "--help"]) == 0
    assert "usage: " in capfd.readouterr().out


def test_command_is_refused_when_it_is_unknown_or_not_installed(capfd, monkeypatch):
    assert program.main(["train"]) == 2
    assert "The first argument must be one of run, specs," in capfd.readouterr().err
    monkeypatch.setitem(program.COMMANDS, "evaluate", ("dpwgan.absent", ""))
    assert program.main(["evaluate"]) == 2
    assert "The command evaluate is not in this installation." in capfd.readouterr().err


@pytest.mark.slow
def test_program_loads_no_frame_and_no_network_when_asked_for_its_version():
    code = "import sys, dpwgan.__main__ as m; m.main(['--version']); print({'polars', 'tensorflow'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"dpwgan {__version__}\nset()\n"
