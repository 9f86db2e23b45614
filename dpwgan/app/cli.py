"""The command line of a run: one flat list of arguments, turned into one checked value."""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpwgan.app.commands import Job, Parser, ask_format, run_job
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
from dpwgan.errors import UsageError
from dpwgan.methods.registry import METHODS
from dpwgan.settings import Settings, declared
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
