"""The tutorial: what it types does what it shows, up to the release, whose noise nobody can type again."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from dpwgan.app import cli
from dpwgan.evaluate.cli import COMMAND as EVALUATE
from tests.programs import ROOT, call

BLOCK = re.compile(r"^```\n(\$ .*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = [
    part.partition("\n")[::2]
    for block in BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
]
COMMANDS = [shlex.split(command) for command, _ in SHOWN]
RELEASE = next(place for place, words in enumerate(COMMANDS) if words[3:4] == ["run"])


@pytest.mark.slow
def test_commands_show_what_the_page_shows_when_typed_up_to_the_release(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    programs = {"python": sys.executable}
    for words, (_, shown) in zip(COMMANDS[:RELEASE], SHOWN, strict=False):
        streams = {"capture_output": False, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        variables = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = call(programs.get(words[0], words[0]), *words[1:], cwd=tmp_path, env=variables, **streams)
        assert done.stdout == shown
        assert done.returncode in (0, 78)


def test_release_and_evaluation_are_asked_for_as_the_programs_expect_when_parsed():
    assert cli.parse(COMMANDS[RELEASE][4:], environment={}).data == "visits.csv"
    asked = next(words for words in COMMANDS if words[3:4] == ["evaluate"])
    assert EVALUATE.parse(asked[4:]).synthetic == ["synthetic.csv"]
