"""The frame of every command: which one is asked for, its arguments, its files, one exit code.

Privacy: as the command line of a run: messages on stderr hold no cell. What a command writes is its own affair.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from threadpoolctl import threadpool_limits

from dpwgan.app.cli import Job, Parser, run_job
from dpwgan.app.delivery import Voice
from dpwgan.app.interruption import complete
from dpwgan.app.logs import print_out
from dpwgan.app.progress import show_stages
from dpwgan.errors import UsageError, suggest
from dpwgan.table.files.parts import list_parts
from dpwgan.version import __version__

# Each command with its package, whose cli.py is loaded when the command is asked for.
COMMANDS = {
    "run": ("dpwgan.app", "make a synthetic table and its claim: DATA OUTPUT SPECS EPSILON [DELTA]; may be left out"),
    "specs": ("dpwgan.app.specs", "draft specs from a public dictionary; list all that is wrong with specs or a table"),
    "claim": (
        "dpwgan.app.claims",
        "check a claim, or write it as a registry's record, an attestation, a catalogue's metadata",
    ),
    "images": ("dpwgan.app.images", "make tables of images, and show them"),
    "book": ("dpwgan.app.book", "the budget of all releases from one table: begin it, show it, add it up anew"),
    "completion": ("dpwgan.app.completion", "print the script by which bash or zsh completes words and flags"),
    "evaluate": ("dpwgan.evaluate", "say how good a synthetic table is (reads the real rows: not private)"),
    "audit": ("dpwgan.audit", "attack a release, or test the claim (reads the real rows: not private)"),
}


@dataclass(frozen=True, kw_only=True)
class Command:
    """One thing that a program does, and which of its arguments, named as in --help, are files.

    `check` refuses what can be refused before a file is looked at; what is written may be "-", for stdout. Where it
    `shows_stages`, what it says on the way is one line of a terminal that is redrawn.
    """

    usage: str
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]
    check: Callable[[argparse.Namespace], None] = lambda arguments: None
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ("--json",)
    shows_stages: bool = False

    def parse(self, argv: Sequence[str], **more: Any) -> argparse.Namespace:
        """Turns the words after the command's name into checked arguments; `more` is for the parser.

        Raises: UsageError, also if it would write over what it reads; SystemExit after --help.
        """
        parser = Parser(**more)
        self.add_arguments(parser)
        arguments = parser.parse_intermixed_args(list(argv))
        self.check(arguments)
        for name, least in (("seed", 0), ("threads", 1)):
            if (number := getattr(arguments, name, None)) is not None and number < least:
                raise UsageError(f"--{name} must be a whole number of at least {least}")
        read = {
            os.path.realpath(part)
            for name in self.reads
            for path in list_paths(arguments, name)
            for part in (path, *(list_parts(path) or ()))
        }
        for name in self.writes:
            if any(path != "-" and os.path.realpath(path) in read for path in list_paths(arguments, name)):
                raise UsageError(f"{name} would write over a file that is read")
        return arguments

    def make_job(self, arguments: argparse.Namespace) -> Job:
        """The work that these arguments ask for."""
        written = [path for name in self.writes for path in list_paths(arguments, name)]
        voice = Voice(quiet=getattr(arguments, "quiet", False))
        threads: int | None = getattr(arguments, "threads", None)
        if threads is not None:
            # For libraries that are loaded later; the others are told below.
            os.environ["OMP_NUM_THREADS"] = str(threads)

        def work() -> None:
            from dpwgan.table.files.writer import check_writable  # here, because --help is without

            for path in written:
                check_writable(path)
            stages = show_stages(voice) if self.shows_stages else nullcontext()
            with threadpool_limits(limits=threads), stages:
                self.run(arguments)
            complete()

        return Job(work=work, voice=voice, to_stdout="-" in written)


def list_paths(arguments: argparse.Namespace, name: str) -> list[str]:
    """The files that the argument of this name in --help was given: none, one or several."""
    value = getattr(arguments, name.lstrip("-").lower(), None)
    return [path for path in (value if isinstance(value, list) else [value]) if path]


@dataclass(frozen=True, kw_only=True)
class Program:
    """Several commands under one name. `notice` stands in every --help, at the end of which `epilog` does."""

    name: str
    commands: Mapping[str, Command]
    notice: str = ""
    epilog: str

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Runs a command and gives its exit code; every failure is one sentence on stderr. Raises: nothing."""
        return run_job(lambda: self._prepare(sys.argv[1:] if argv is None else argv))

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds every command with its arguments; for completion: a command line loads the one that it names."""
        commands = parser.add_subparsers()
        for name, command in self.commands.items():
            command.add_arguments(commands.add_parser(name, help=command.summary))

    def _prepare(self, argv: Sequence[str]) -> Job:
        summaries = {name: command.summary for name, command in self.commands.items()}
        first = choose(argv, summaries, name=self.name, notice=self.notice, closing=f".\n\n{self.epilog}")
        command = self.commands[first]
        arguments = command.parse(
            argv[1:],
            prog=f"{self.name} {first}",
            usage=f"{self.name} {first} {command.usage}",
            description=f"{command.summary[0].upper()}{command.summary[1:]}. {self.notice}".rstrip(),
            epilog=self.epilog,
        )
        return command.make_job(arguments)


def choose(
    argv: Sequence[str], summaries: Mapping[str, str], *, name: str, notice: str = "", closing: str = "."
) -> str:
    """The command that the first word names.

    Raises: SystemExit after --help and --version, UsageError if there is no such command; OutputError.
    """
    first = argv[0] if argv else "--help"
    if first in summaries:
        return first
    if first not in ("-h", "--help", "--version"):
        known = ", ".join(summaries)
        raise UsageError(f"the first argument must be one of {known}{suggest(first, summaries)}; --help says more")
    commands = [f"  {command:<12}{summary}" for command, summary in summaries.items()]
    usage = [f"usage: {name} COMMAND ...", "", *([notice, ""] if notice else []), "commands:", *commands, ""]
    lines = [*usage, f"{name} COMMAND --help says more{closing}"]
    print_out((f"dpwgan {__version__}" if first == "--version" else "\n".join(lines)) + "\n")
    raise SystemExit


def write_json(path: str, document: Mapping[str, Any]) -> None:
    """Writes a document of figures of private rows, for this user alone; "-" is stdout.

    Raises: OutputError, TransferError.
    """
    from dpwgan.table.files.writer import write_bytes

    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    write_bytes(path, text.encode(), private=True)
