"""The command `python -m dpwgan.audit`: what a table or a method gives away, measured. NOT private.

Privacy: everything it writes holds statistics of the real rows that no epsilon covers, and says so. It runs apart from
  the job that makes a release, writes nowhere but where it is told to, and its messages on stderr hold no cell.
"""

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, cast

from dpwgan.app.cli import Job, Parser, read_command, run_job
from dpwgan.app.config import Voice
from dpwgan.evaluate.cli import EXIT_CODES
from dpwgan.evaluate.tables import NOTICE


class Command(Protocol):
    """A subcommand: a module of its own, loaded only when it is asked for."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds its arguments."""

    def run(self, arguments: argparse.Namespace) -> None:
        """Does it. Raises: the errors of dpwgan.errors."""


class _Entry(NamedTuple):
    module: str
    usage: str
    summary: str


COMMANDS: Mapping[str, _Entry] = {
    "ex-post": _Entry(
        "dpwgan.audit.ex_post_command",
        "REAL SYNTHETIC SPECS [options]",
        "estimate the expected privacy loss of one table: (mu, gamma), which is no guarantee",
    ),
    "attack": _Entry(
        "dpwgan.audit.attack_command",
        "REAL SYNTHETIC SPECS --holdout FILE [options]",
        "play attacks against a table, beside the same attacks on rows that were held out",
    ),
    "canaries": _Entry(
        "dpwgan.audit.canaries.command",
        "DATA SPECS --epsilon E [options]",
        "train with and without canaries, and bound a method's epsilon from below",
    ),
}

PROGRAM = "python -m dpwgan.audit"


def describe() -> str:
    """Writes the help of the whole command."""
    lines = [f"usage: {PROGRAM} COMMAND ...", "", f"NOT private: {NOTICE[0].lower() + NOTICE[1:]}", "", "commands:"]
    lines += [f"  {name:<10}{entry.summary}" for name, entry in COMMANDS.items()]
    return "\n".join([*lines, "", f"{PROGRAM} COMMAND --help says more; docs/audit.md says how to read each figure."])


def parse(argv: Sequence[str]) -> tuple[Command, argparse.Namespace]:
    """Turns the command line into a command and its arguments.

    Raises: UsageError; SystemExit after --help and --version.
    """
    first = read_command(argv, commands=COMMANDS, describe=describe)
    entry = COMMANDS[first]
    parser = Parser(
        prog=f"{PROGRAM} {first}",
        usage=f"{PROGRAM} {first} {entry.usage}",
        description=f"{entry.summary[0].upper()}{entry.summary[1:]}. NOT private: {NOTICE[0].lower() + NOTICE[1:]}",
        epilog=EXIT_CODES,
    )
    command = cast(Command, importlib.import_module(entry.module))
    command.add_arguments(parser)
    return command, parser.parse_intermixed_args(list(argv[1:]))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit code; every failure is one sentence on stderr. Raises: nothing."""

    def prepare() -> Job:
        command, arguments = parse(sys.argv[1:] if argv is None else argv)
        voice = Voice(quiet=arguments.quiet)
        return Job(work=lambda: command.run(arguments), voice=voice, to_stdout=arguments.json == "-")

    return run_job(prepare)
