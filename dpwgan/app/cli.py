"""The command line: one flat list of arguments, one exit code for each kind of failure.

Privacy: exit codes and messages are not covered by the guarantee. They name columns, rules and at most a count of rows;
  an unexpected exception is told by its type and place, never by its text, which may hold a cell.
"""

import argparse
import difflib
import errno
import itertools
import logging
import os
import re
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from dpwgan.app.config import (
    FILES,
    OPTIONS,
    PRIVACY,
    TABLE,
    TRAINING,
    TRAINING_OPTIONS,
    ResampleConfig,
    RunConfig,
    SynthesisConfig,
    gather,
    read_delta,
    read_epsilon,
)
from dpwgan.app.delivery import RUN, Voice
from dpwgan.app.interruption import Interrupted, Watch, interruptible
from dpwgan.app.logs import LOGGER, speak
from dpwgan.app.process import is_out_of_memory
from dpwgan.errors import DpwganError, ResourceError, TransferError, UsageError, suggest
from dpwgan.methods.registry import METHODS
from dpwgan.settings import Settings, declared
from dpwgan.stages import DONE, WORKING, get_stage, note
from dpwgan.table.cluster import read_cluster
from dpwgan.version import __version__

USAGE = """\
{0} DATA OUTPUT SPECS EPSILON [DELTA] [options]
       {0} --from-model DIR OUTPUT [--rows N] [options]"""

DESCRIPTION = """\
Writes a synthetic table with the columns of a private one, and a claim that says what was proved about it:
(epsilon, delta)-differential privacy for one row of DATA.

  DATA     the private table: CSV with a header, .gz too, or .parquet, a folder or 'pattern' of such parts, or images
           as .npz; - for stdin
  OUTPUT   the synthetic table to write, in the same forms; - for stdout, whose claim needs --claim PATH; else its claim
           goes to OUTPUT.privacy.json
  SPECS    data-specs.json: what is public about the columns (docs/specs.md)
  EPSILON  how much one row may show: a finite number above 0; 1 is strong, 10 is weak
  DELTA    how often that may fail: above 0, below 1, and well below 1/n (default: 1/n^2; for n = 1: 1/4)"""

EPILOG = """\
settings: defaults < --preset < --config FILE (TOML, keys named as the flags) < DPWGAN_... variables (DPWGAN_BATCH_SIZE,
DPWGAN_CONFIG, ...) < flags. --check, --from-model, --seed and --no-guarantee are flags only.

--from-model takes one positional, OUTPUT: specs and budget are the model's own, and no data is read. The claim written
beside it is the model's claim; sampling more from a released model costs no privacy, however often.

exit codes: 0 done; 2 usage, also a bad epsilon or delta; 65 DATA does not fit SPECS; 66 an input is missing; 69 the
budget cannot be met; 70 internal error; 73 OUTPUT cannot be created; 74 reading or writing broke off; 75 out of memory,
no such device, or a worker lost; 78 bad SPECS or codebook; 130, 143 stopped by SIGINT, SIGTERM. After any code but 0
there is no new output file.
Several machines share a run where TF_CONFIG names them: docs/scale.md.
docs/errors.md has the sentence for each kind of bad input, docs/claim.md reads the claim line by line."""


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
        raise UsageError(message)


def build_parser() -> argparse.ArgumentParser:
    """Builds the flat list of arguments from the settings, under their headings."""
    name = "run.py" if Path(sys.argv[0]).name == "run.py" else "dpwgan"
    parser = Parser(prog=name, usage=USAGE.format(name), description=DESCRIPTION, epilog=EPILOG)
    add_arguments(parser)
    return parser


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of a run."""
    parser.add_argument("positionals", nargs="*", help=argparse.SUPPRESS)
    add_flags(parser)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of a run."""
    parser.add_argument("--version", action="version", version=f"dpwgan {__version__}")
    groups = {heading: parser.add_argument_group(title) for heading, title in _list_headings().items()}
    groups[FILES].add_argument(
        "--config", metavar="FILE", default=argparse.SUPPRESS, help="TOML file of settings; flags win over it"
    )
    for option in OPTIONS.values():
        more: dict[str, Any] = {"dest": option.key, "default": argparse.SUPPRESS, "help": option.help}
        more.update({"action": "store_const", "const": "true"} if option.is_switch else {"metavar": option.metavar})
        groups[option.heading].add_argument("--" + option.name, **more)


def _list_headings() -> dict[str, str]:
    """Lists the headings with their titles, the longest of the methods' last; these say whose settings they head."""
    sizes = Counter(option.heading for option in TRAINING_OPTIONS.values())
    titles = {heading: heading for heading in (PRIVACY, TABLE, TRAINING, FILES, RUN)}
    for heading in sorted(sizes, key=lambda heading: sizes[heading]):
        methods = [
            name
            for name, entry in METHODS.items()
            if any(option.heading == heading for option in declared(entry.settings).values())
        ]
        titles[heading] = f"{heading} ({', '.join(methods)})"
    return titles


def parse(argv: Sequence[str], *, environment: Mapping[str, str]) -> RunConfig | ResampleConfig:
    """Turns the command line, the environment and a config file into one checked value.

    Raises: UsageError, InputError; SystemExit after --help and --version.
    """
    # A number such as -1e-3 would be taken for a flag; with a space before it, it is a value that float() can read.
    texts = [" " + text if text.startswith("-") and _is_number(text) else text for text in argv]
    flags = vars(build_parser().parse_intermixed_args(texts))
    positionals: list[str] = flags.pop("positionals")
    values, config_file = gather(flags, environment=environment)
    shared: dict[str, Any] = {"voice": Voice(**_take(Voice, values)), "config_file": config_file}
    if "model" in values:
        if len(positionals) != 1 or not positionals[0]:
            raise UsageError(
                "with --from-model there is one positional, OUTPUT: rows, specs and budget are the model's own"
            )
        for key in flags.keys() - {"config"}:
            if key not in declared(ResampleConfig):
                raise UsageError(f"--{OPTIONS[key].name} has no effect with --from-model: the model is fitted already")
        return ResampleConfig(output=positionals[0], **_take(ResampleConfig, values), **shared)
    if not 4 <= len(positionals) <= 5:
        raise UsageError(
            f"DATA OUTPUT SPECS EPSILON [DELTA] are 4 or 5 arguments, not {len(positionals)}; --help says more"
        )
    data, output, specs, epsilon = positionals[:4]
    if not (data and output and specs):
        raise UsageError("DATA, OUTPUT and SPECS must not be empty")
    synthesis = SynthesisConfig(
        epsilon=read_epsilon(epsilon),
        delta=read_delta(positionals[4]) if len(positionals) == 5 else None,
        settings={key: values.pop(key) for key in TRAINING_OPTIONS if key in values},
        **_take(SynthesisConfig, values),
    )
    # A plan is made alone, whatever machines the run is to have.
    cluster = None if values.get("check") else read_cluster(environment)
    return RunConfig(
        data=data,
        output=output,
        specs=Path(specs),
        synthesis=synthesis,
        cluster=cluster,
        **_take(RunConfig, values),
        **shared,
    )


def _take(owner: type[Settings], values: dict[str, Any]) -> dict[str, Any]:
    """Takes out of `values` those that are a class's own."""
    return {key: values.pop(key) for key in declared(owner) if key in values}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def main(argv: Sequence[str] | None = None, *, environment: Mapping[str, str] | None = None) -> int:
    """Runs the tool and gives its exit code; every failure is one sentence on stderr. Raises: nothing."""
    words = sys.argv[1:] if argv is None else argv

    def prepare() -> Job:
        config = parse(words, environment=os.environ if environment is None else environment)
        leads = isinstance(config, ResampleConfig) or config.leads
        voice = config.voice if leads else replace(config.voice, quiet=True, verbose=False)

        def work() -> None:
            from dpwgan.app import pipeline  # here, because --help is without

            if isinstance(config, RunConfig):
                pipeline.run(config)
            else:
                pipeline.resample(config)

        return Job(work=work, voice=voice, to_stdout=leads and config.output == "-")

    return run_job(prepare, log_format=ask_format(words))


def ask_format(words: Sequence[str]) -> str:
    """The form that stderr is to have, where the flags cannot be parsed: this one is looked for alone."""
    asked = "--log-format=json" in words or ("--log-format", "json") in itertools.pairwise(words)
    return "json" if asked else "text"


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a command line asks for: the work, how to speak of it, and whether an output goes to stdout."""

    work: Callable[[], None]
    voice: Voice
    to_stdout: bool


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
