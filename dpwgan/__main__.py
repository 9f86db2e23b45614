"""`python -m dpwgan COMMAND`: every command under one name, each a program of its own, loaded when asked for."""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from typing import NoReturn

from dpwgan.app.cli import run_job
from dpwgan.app.logs import print_out
from dpwgan.app.process import run_watched
from dpwgan.errors import UsageError
from dpwgan.version import __version__

COMMANDS = {
    "run": ("dpwgan.app", "make a synthetic table and its claim, as run.py: DATA OUTPUT SPECS EPSILON [DELTA]"),
    "specs": ("dpwgan.app.specs", "draft specs from a public dictionary; list all that is wrong with specs or a table"),
    "images": ("dpwgan.app.images", "make tables of images, and show them"),
    "book": ("dpwgan.app.book", "the budget of all releases from one table: begin it, show it, add it up anew"),
    "evaluate": ("dpwgan.evaluate", "say how good a synthetic table is (reads the real rows: not private)"),
    "audit": ("dpwgan.audit", "attack a release, or test the claim (reads the real rows: not private)"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit code. Raises: nothing."""
    first, *others = (sys.argv[1:] if argv is None else argv) or ["--help"]
    package, _ = COMMANDS.get(first, ("", ""))
    # The image goes without what reads real rows to judge a release.
    if not package or importlib.util.find_spec(package) is None:
        return run_job(lambda: answer(first))
    return int(importlib.import_module(f"{package}.cli").main(others))


def describe() -> str:
    """The commands, a line each."""
    lines = [f"  {name:<10}{summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join(["usage: python -m dpwgan COMMAND ...", "", "commands:", *lines, "", "COMMAND --help says more."])


def answer(name: str) -> NoReturn:
    """Prints what --help and --version ask for. Raises: SystemExit then, else UsageError; OutputError."""
    if name in ("-h", "--help", "--version"):
        print_out((f"dpwgan {__version__}" if name == "--version" else describe()) + "\n")
        raise SystemExit
    if name in COMMANDS:
        raise UsageError(f"the command {name} is not in this installation")
    raise UsageError(f"the first argument must be one of {', '.join(COMMANDS)}; --help says more")


if __name__ == "__main__":
    run_watched("dpwgan.__main__")
