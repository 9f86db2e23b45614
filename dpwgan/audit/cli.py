"""The command `python -m dpwgan.audit`: what a table or a method gives away, measured. NOT private.

Privacy: everything it writes holds statistics of the real rows that no epsilon covers, and says so. It runs apart from
  the job that makes a release, writes nowhere but where it is told to, and its messages on stderr hold no cell.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dpwgan.app.cli import Job, Parser, read_command, run_job
from dpwgan.app.config import Voice
from dpwgan.evaluate.tables import NOTICE

EXIT_CODES = """\
exit codes: 0 done; 2 usage; 65 a table does not fit SPECS; 66 an input is missing; 70 internal error; 73 an output
cannot be created; 74 reading or writing broke off; 75 out of memory; 76 an audit did not see all of the
ledger; 78 bad SPECS or codebook; 130, 143 stopped by
SIGINT, SIGTERM."""


class Command(Protocol):
    """A subcommand: a module of its own, loaded only when it is asked for."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds its arguments."""

    def run(self, arguments: argparse.Namespace) -> None:
        """Does it. Raises: the errors of dpwgan.errors."""


def _ex_post() -> Command:
    from dpwgan.audit import ex_post_command

    return ex_post_command


def _attack() -> Command:
    from dpwgan.audit import attack_command

    return attack_command


def _canaries() -> Command:
    from dpwgan.audit.canaries import command

    return command


@dataclass(frozen=True)
class _Entry:
    summary: str
    usage: str
    load: Callable[[], Command]


COMMANDS: Mapping[str, _Entry] = {
    "ex-post": _Entry(
        "estimate the expected privacy loss of one table: (mu, gamma), which is no guarantee",
        "REAL SYNTHETIC SPECS [options]",
        _ex_post,
    ),
    "attack": _Entry(
        "play attacks against a table, beside the same attacks on rows that were held out",
        "REAL SYNTHETIC SPECS --holdout FILE [options]",
        _attack,
    ),
    "canaries": _Entry(
        "train with and without canaries, and bound a method's epsilon from below",
        "DATA SPECS --epsilon E [options]",
        _canaries,
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
    command = entry.load()
    command.add_arguments(parser)
    return command, parser.parse_intermixed_args(list(argv[1:]))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit code; every failure is one sentence on stderr. Raises: nothing."""

    def prepare() -> Job:
        command, arguments = parse(sys.argv[1:] if argv is None else argv)
        voice = Voice(quiet=arguments.quiet)
        return Job(work=lambda: command.run(arguments), voice=voice, to_stdout=arguments.json == "-")

    return run_job(prepare)
