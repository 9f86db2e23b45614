"""The command `dpwgan completion`: the script by which bash or zsh completes commands, flags, choices and files.

It is made of the parsers that read the command line, so that it knows what they know.
"""

import argparse
import functools
import importlib
import importlib.util

import shtab

from dpwgan.app import cli
from dpwgan.app.commands import COMMANDS, Command, Parser, Program
from dpwgan.app.config import OPTIONS
from dpwgan.app.logs import print_out

EPILOG = """\
For this shell alone:  eval "$(dpwgan completion bash)"
For every one: the same line in ~/.bashrc; for zsh in ~/.zshrc, after compinit, with zsh in place of bash.

exit codes: 0 done; 2 usage; 70 internal error; 73 stdout is closed; 130, 143 stopped by a signal."""

PLACES = {"FILE": shtab.FILE, "PATH": shtab.FILE, "KEY": shtab.FILE, "DIR": shtab.DIRECTORY}


def build_parser() -> argparse.ArgumentParser:
    """Builds one parser of every command in this installation."""
    whole = Parser(prog="dpwgan")
    commands = whole.add_subparsers()
    for name, (package, summary) in COMMANDS.items():
        if importlib.util.find_spec(package) is not None:
            importlib.import_module(f"{package}.cli").add_arguments(commands.add_parser(name, help=summary))
    cli.add_flags(whole)  # a run may go without its name
    _say_what_fits(whole)
    return whole


def _say_what_fits(parser: argparse.ArgumentParser) -> None:
    """Marks files, folders and choices, which the tool checks by itself and argparse does not know."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _say_what_fits(command)
        elif not action.option_strings:
            action.help = "file"
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar in PLACES:
            action.complete = PLACES[str(action.metavar)]  # type: ignore[attr-defined]
        elif action.dest in OPTIONS:
            action.choices = action.choices or OPTIONS[action.dest].choices


def _print_script(arguments: argparse.Namespace, *, shell: str) -> None:
    print_out(shtab.complete(build_parser(), shell) + "\n")


PROGRAM = Program(
    name="dpwgan completion",
    commands={
        shell: Command(
            usage="",
            summary=f"print the script for {shell}",
            add_arguments=lambda parser: None,
            run=functools.partial(_print_script, shell=shell),
        )
        for shell in ("bash", "zsh")
    },
    epilog=EPILOG,
)
main = PROGRAM.main
add_arguments = PROGRAM.add_arguments
