"""`dpwgan completion`: what the scripts offer, asked of a real bash and a real zsh."""

import shutil

import pytest

from dpwgan.__main__ import main
from tests.programs import call

OFFERED = {
    ("",): {"run", "specs", "claim", "images", "book", "completion", "evaluate", "audit"},
    ("specs", ""): {"draft", "check"},
    ("run", "--method", "dp-"): {"dp-wgan", "dp-gan", "dp-critic"},
    ("run", "data.csv", "out.csv", "specs.json", "1.0", "--accoun"): {"--accountant"},
    ("data.csv", "out.csv", "--accountant", "p"): {"paper", "pld"},
    ("data.csv", "out.csv", "specs.json", "1.0", "--save-model", "m"): {"models"},
    ("evaluate", "data.csv", "da"): {"data.csv"},
    ("book", "new", "FILE", "--neighbours", "r"): {"replace-one"},
    ("completion", "z"): {"zsh"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shell")
    (folder / "data.csv").touch()
    (folder / "models").mkdir()
    return folder


def write_script(shell: str, folder, capfd) -> None:
    assert main(["completion", shell]) == 0
    (folder / "script").write_text(capfd.readouterr().out)


def test_bash_offers_what_the_command_line_takes_when_tab_is_pressed(folder, capfd):
    write_script("bash", folder, capfd)
    ask = 'source ./script; COMP_WORDS=(dpwgan "$@"); COMP_CWORD=$#; _shtab_dpwgan; printf "%s\\n" "${COMPREPLY[@]}"'
    for words, expected in OFFERED.items():
        command = ["bash", "--norc", "-c", ask, "bash", *words]
        done = call(*command, cwd=folder, check=True)
        assert (set(done.stdout.split()), done.stderr) == (expected, ""), words


# A terminal of its own, in which TAB lists: zsh completes on a terminal alone.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'autoload -U compinit; compinit -u -D; eval "$(<script)"; bindkey "^I" list-choices; PROMPT="REA""DY"'
zpty -r shell said '*READY*'
zpty -w -n shell "$1"$'\t'
zpty -r shell said "*$2*" && print -r -- "$said"
zpty -d shell
"""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_offers_what_the_command_line_takes_when_tab_is_pressed(folder, capfd):
    write_script("zsh", folder, capfd)
    asked = {
        "dpwgan ": "evaluate",
        "dpwgan run --method ": "query-gan",
        "dpwgan specs ": "draft",
        "dpwgan run d": "ata.csv",
    }
    for line, expected in asked.items():
        command = ["zsh", "-f", "-c", ZSH, "zsh", line, expected]
        done = call(*command, cwd=folder, timeout=30)
        assert expected in done.stdout, line


def test_completion_is_refused_when_the_shell_is_none_of_them(capfd):
    assert main(["completion", "bsh"]) == 2
    assert "(did you mean bash?)" in capfd.readouterr().err
