"""The frame of every command: which one is asked for, its arguments, its files, one exit code for each kind of failure.

Privacy: exit codes and messages are not covered by the guarantee. They name columns, rules and at most a count of rows;
  an unexpected exception is told by its type and place, never by its text, which may hold a cell. What a command writes
  is its own affair.
"""

import argparse
import difflib
import errno
import itertools
import json
import logging
import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from threadpoolctl import threadpool_limits

from dpwgan.app.delivery import Voice
from dpwgan.app.interruption import Interrupted, Watch, complete, interruptible
from dpwgan.app.logs import LOGGER, print_out, speak
from dpwgan.app.process import is_out_of_memory
from dpwgan.app.progress import show_stages
from dpwgan.errors import DataError, DpwganError, ResourceError, TransferError, UsageError, suggest
from dpwgan.stages import DONE, WORKING, get_stage, note
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


class Parser(argparse.ArgumentParser):
    """Raises instead of printing the whole usage and leaving, and shows its texts line by line as they are.

    Flags are not to be abbreviated: an abbreviation of today is another flag tomorrow.
    """

    def __init__(self, **more: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **more)

    def error(self, message: str) -> NoReturn:
        """Raises: UsageError, always; a flag that is not there is named, with the one that may have been meant."""
        unknown = re.match(r"unrecognized arguments: (-[^ =]+)", message)
        if unknown:
            name = unknown[1]
            message = f"there is no flag {name}{suggest(name, self._option_string_actions)}; --help lists all"
            typed, places = name[2:].upper(), ("DATA", "OUTPUT", "SPECS", "EPSILON", "DELTA")
            meant = difflib.get_close_matches(typed, places, cutoff=0.8)
            meant += [place for place in places if len(typed) > 2 and place.startswith(typed)]
            if meant and self.usage:
                message = f"there is no flag {name}: {meant[0]} goes without a name: {self.usage.splitlines()[0]}"
        elif self.usage and message.startswith(("unrecognized arguments", "the following arguments are required")):
            message += f"; usage: {self.usage.splitlines()[0]}"
        raise UsageError(message)


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a command line asks for: the work, how to speak of it, and whether an output goes to stdout."""

    work: Callable[[], None]
    voice: Voice
    to_stdout: bool


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

        Raises: UsageError, also for an empty name, or if it would write over what it reads; SystemExit after --help.
        """
        parser = Parser(**more)
        self.add_arguments(parser)
        arguments = parser.parse_intermixed_args(list(argv))
        places = {str(action.metavar): action.dest for action in parser._actions if not action.option_strings}
        if any(getattr(arguments, key) == "" for key in places.values()):
            *others, last = places
            raise UsageError(f"{', '.join(others)}{' and ' * bool(others)}{last} must not be empty")
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


def run_job(prepare: Callable[[], Job], *, log_format: str = "text") -> int:
    """Does what a command line asks for and gives the exit code; every failure is one sentence on stderr.

    `prepare` reads the command line; `log_format` is for telling that it could not.
    Raises: nothing.
    """
    if sys.stderr is None:  # closed by whoever started the tool: speak to nobody rather than fail over it
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    job = Job(work=lambda: None, voice=Voice(quiet=True, log_format=log_format), to_stdout=False)  # type: ignore[arg-type]
    with interruptible() as watch:
        note(WORKING)
        try:
            job = prepare()
            with speak(**vars(job.voice)), quiet_packages():
                job.work()
            return 0
        except BaseException as error:
            watch.ignore_more()
            if get_stage() == DONE:  # all outputs are in place: another run would spend another budget
                return 0
            with speak(**vars(job.voice)):
                return _tell(error, watch, job)


def _tell(error: BaseException, watch: Watch, job: Job) -> int:
    """Gives the exit code of whatever went wrong, and says it in one sentence that holds no cell."""
    if isinstance(error, SystemExit) and error.code in (None, 0):  # --help and --version
        return 0
    if watch.number is not None or isinstance(error, (Interrupted, KeyboardInterrupt)):
        number = watch.number or signal.SIGINT
        name = signal.Signals(number).name
        what = "what stdout received is not complete" if job.to_stdout else "no output was written"
        return fail(128 + number, f"stopped by {name}; {what}", event="stopped")
    return _report(error, verbose=job.voice.verbose)


def _report(error: BaseException, *, verbose: bool) -> int:
    if is_out_of_memory(error):
        return fail(ResourceError.exit_code, "out of memory; no output was written")
    if isinstance(error, DpwganError) and type(error) is not DpwganError:
        return fail(error.exit_code, str(error))
    if isinstance(error, BrokenPipeError):
        # Python flushes stdout once more when it leaves, which would end in a second complaint.
        with open(os.devnull, "w") as sink:
            os.dup2(sink.fileno(), sys.stdout.fileno())
        return fail(TransferError.exit_code, "whoever reads stdout closed it before the table was written")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
        return fail(TransferError.exit_code, f"reading or writing broke off: {os.strerror(error.errno)}")
    if isinstance(error, DpwganError):  # a rule of the tool's own that did not hold, in its own words
        return fail(error.exit_code, f"Internal error: {str(error).removeprefix('Internal error: ')}")
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).parent.is_relative_to(Path(__file__).parents[1])]
    places = [f"{Path(frame.filename).name} line {frame.lineno}" for frame in (*own[-1:], *frames[-1:])]
    place = " from ".join(dict.fromkeys(places)) or "an unknown place"
    if verbose:
        for frame in frames:
            LOGGER.debug("at %s line %s in %s", frame.filename, frame.lineno, frame.name)
    return fail(
        DpwganError.exit_code,
        f"internal error: {type(error).__name__} at {place}; its text is kept back because it may hold a cell; "
        "no output was written",
    )


def fail(exit_code: int, sentence: str, *, event: str = "error") -> int:
    """Says why on stderr, in one sentence, and gives the exit code back."""
    # Sentences come from here and from argparse; on the screen they look alike.
    said = sentence[:1].upper() + sentence[1:] + ("" if sentence.endswith((".", "?", "!")) else ".")
    LOGGER.error("%s", said, extra={"fields": {"event": event, "exit_code": exit_code}})
    return exit_code


def ask_format(words: Sequence[str]) -> str:
    """The form that stderr is to have, where the flags cannot be parsed: this one is looked for alone."""
    asked = "--log-format=json" in words or ("--log-format", "json") in itertools.pairwise(words)
    return "json" if asked else "text"


@contextmanager
def quiet_packages() -> Iterator[None]:
    """Keeps TensorFlow's chatter, and warnings that may quote a value, off stderr; set before its import."""
    for name, value in {"TF_CPP_MIN_LOG_LEVEL": "3", "AUTOGRAPH_VERBOSITY": "0"}.items():
        os.environ.setdefault(name, value)
    for name in ("tensorflow", "absl"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def read_object(content: bytes, *, refusal: str) -> dict[str, Any]:
    """Reads a JSON object. Raises: DataError with that sentence if the content is none."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise DataError(refusal)
    return document


def write_json(path: str, document: Mapping[str, Any], *, private: bool = True) -> None:
    """Writes a document; one of figures of private rows is for this user alone. "-" is stdout.

    Raises: OutputError, TransferError.
    """
    from dpwgan.table.files.writer import write_bytes

    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    write_bytes(path, text.encode(), private=private)
