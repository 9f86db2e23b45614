"""The program `dpwgan`, or `python -m dpwgan`: every command under one name, each loaded when asked for."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit code; without one the words are those of a run. Raises: nothing."""
    import importlib.util

    from dpwgan.app.commands import COMMANDS, Job, choose, run_job
    from dpwgan.errors import UsageError

    words = list(sys.argv[1:] if argv is None else argv)
    if words and begins_run(words[0]):
        words.insert(0, "run")
    package, _ = COMMANDS.get(words[0] if words else "", ("", ""))
    if package and importlib.util.find_spec(package) is not None:
        return int(importlib.import_module(f"{package}.cli").main(words[1:]))

    def refuse() -> Job:
        name = choose(words, {command: summary for command, (_, summary) in COMMANDS.items()}, name="dpwgan")
        # The image goes without what reads real rows to judge a release.
        raise UsageError(f"the command {name} is not in this installation")

    return run_job(refuse)


def begins_run(word: str) -> bool:
    """Whether a first word is that of a run: a flag that only a run has, or a file; a lone name is a command."""
    from dpwgan.app.commands import COMMANDS

    if word in COMMANDS or word in ("-h", "--help", "--version"):
        return False
    return word.startswith("-") or not word.isidentifier() or os.path.exists(word)


def start() -> NoReturn:
    """Runs the program apart, watched, as run.py does, and ends with its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):  # until there is more of the tool to answer them
        signal.signal(number, lambda number, frame: os._exit(128 + number))

    from dpwgan.app.process import run_watched

    run_watched("dpwgan.__main__")


if __name__ == "__main__":
    start()
