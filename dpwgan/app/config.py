"""What one run is asked to do: frozen values that check themselves, and the layers they are gathered from.

Defaults, then a preset, then a TOML file, then the environment, then flags: the later one wins. One table, `OPTIONS`,
names every setting once; the flag `--batch-size`, the TOML key `batch-size` and the variable `DPWGAN_BATCH_SIZE` all
come from it.
Nothing here is read from rows, so every default is independent of the data.
"""

import difflib
import math
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dpwgan.errors import InputError, UsageError
from dpwgan.table.cluster import Cluster

if sys.version_info >= (3, 11):
    import tomllib
else:  # the same parser under its earlier name
    import tomli as tomllib

ACCOUNTANTS = ("auto", "paper", "moments", "amortized", "pld")
NEIGHBOURS = ("zero-out", "replace-one")
DEVICES = ("auto", "cpu", "gpu")
ENGINES = ("fused", "reference")
ANCHORS = ("queries", "moments", "none")
ORACLES = ("marginals", "one-layer")
NOISES = ("laplace", "gaussian")
STEP_NOISES = ("fast", "plain")
PRIVATE_PARTS = ("discriminator", "generator")
PROJECTIONS = ("cosine", "random")
GENERATORS = ("codes", "mlp", "codes+mlp")
LOG_FORMATS = ("text", "json")
ENVIRONMENT_PREFIX = "DPWGAN_"

# Who chose the number of rows, where nobody else did.
RECORDS = "the public number of records"
# What a challenge harness does wrong, in the words that its user needs.
DELTA_IS_FIFTH = (
    "delta must be above 0 and below 1; the fifth argument is delta, and a challenge harness that passes the number of "
    "columns there causes this: leave it out for 1/n^2, or pass the delta that you want"
)


# ---------------------------------------------------------------------------------------------- from text to values


def read_epsilon(text: str) -> float:
    """Reads epsilon from the command line. Raises: UsageError unless it is a finite number above 0."""
    return check_epsilon(_number("epsilon", text))


def read_delta(text: str) -> float:
    """Reads delta from the command line. Raises: UsageError unless it is a number above 0 and below 1."""
    return check_delta(_number("delta", text))


def check_epsilon(epsilon: float) -> float:
    """Passes epsilon through. Raises: UsageError unless it is finite and above 0."""
    if not (math.isfinite(epsilon) and epsilon > 0.0):
        raise UsageError("epsilon must be a finite number above 0")
    return epsilon


def check_delta(delta: float) -> float:
    """Passes delta through. Raises: UsageError unless it is above 0 and below 1; from 1 on it names the usual cause."""
    if math.isfinite(delta) and delta >= 1.0:
        raise UsageError(DELTA_IS_FIFTH)
    if not (math.isfinite(delta) and delta > 0.0):
        raise UsageError("delta must be a finite number above 0 and below 1")
    return delta


def default_delta(records: int) -> float:
    """Gives the delta used when none is asked for: 1/n^2, and for n = 1 that of n = 2 (1 promises nothing).

    Privacy: reads n only, which is public.
    """
    return 1.0 / max(records, 2) ** 2


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{name} must be a number") from None


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


def _int(text: str) -> int:
    return int(text)


def _text(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _widths(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


_UNITS = {"": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_AMOUNT = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+) ?([KMGT]?I?B?)", re.ASCII | re.IGNORECASE)


def _amount(text: str) -> int:
    """Reads an amount of memory. Raises: ValueError."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError
    unit = match[2].upper().replace("I", "").removesuffix("B")
    return int(float(match[1]) * _UNITS[unit + "B" if unit else ""])


def _flag(text: str) -> bool:
    try:
        return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[text.strip().lower()]
    except KeyError:
        raise ValueError from None


@dataclass(frozen=True, kw_only=True)
class Option:
    """One setting: its name without dashes, how its text is read, and where it may be given.

    `training` options are passed on to the method under the name `field`; the rest belong to the run. A method refuses
    those that it does not have. `topic` says which part of a method they set, and heads them in --help.
    `flag_only` ones change what a run means, so that a forgotten line in a file or variable must not switch them on.
    """

    name: str
    group: Literal["privacy", "table", "training", "run", "files"]
    help: str
    parse: Callable[[str], Any] = _text
    form: str = "a text"
    metavar: str | None = None
    choices: tuple[str, ...] | None = None
    field: str = ""
    flag_only: bool = False
    topic: Literal["", "marginals", "critic", "gaussian", "images"] = ""

    @property
    def key(self) -> str:
        """Name of the attribute that holds the value."""
        return self.field or self.name.replace("-", "_")

    @property
    def variable(self) -> str:
        """Name in the environment."""
        return ENVIRONMENT_PREFIX + self.name.replace("-", "_").upper()

    @property
    def training(self) -> bool:
        """Whether the method, not the run, is told."""
        return self.group == "training"

    def read(self, text: str, *, origin: str) -> Any:
        """Reads a value. Raises: UsageError that names `origin` (a flag, a key or a variable) and the form expected."""
        if self.choices is not None:
            if text not in self.choices:
                raise UsageError(f"{origin} must be one of {', '.join(self.choices)}")
            return text
        try:
            return self.parse(text)
        except (ValueError, OverflowError):
            raise UsageError(f"{origin} must be {self.form}") from None


def _whole(name: str, group: Any, help: str, *, metavar: str = "N", **more: Any) -> Option:
    return Option(name=name, group=group, help=help, parse=_int, form="a whole number", metavar=metavar, **more)


def _real(name: str, help: str, *, metavar: str = "X", **more: Any) -> Option:
    return Option(name=name, group="training", help=help, parse=_float, form="a finite number", metavar=metavar, **more)


def _layers(name: str, help: str) -> Option:
    return Option(
        name=name,
        group="training",
        topic="critic",
        help=help,
        parse=_widths,
        form="widths such as 256,256",
        metavar="W[,W...]",
    )


def _switch(name: str, help: str, *, flag_only: bool = False) -> Option:
    return Option(name=name, group="run", help=help, parse=_flag, form="true or false", flag_only=flag_only)


OPTIONS: tuple[Option, ...] = (
    Option(
        name="method",
        group="privacy",
        help="dp-wgan, query-gan, dp-gan, ron-dp-gan, ron-gauss, dp-critic, loss-noise-gan or independent; "
        " docs/methods.md says which when (default: dp-wgan)",
        metavar="NAME",
    ),
    Option(
        name="accountant",
        group="privacy",
        choices=ACCOUNTANTS,
        help="how the loss is added up; auto takes moments or amortized, whichever needs less noise (default: auto)",
    ),
    Option(
        name="neighbours",
        group="privacy",
        choices=NEIGHBOURS,
        help="what counts as one row more or less: a row zeroed out, or replaced by any other (default: zero-out)",
    ),
    _whole("rows", "table", "rows to write (default: as many as the table has)"),
    Option(
        name="codebook", group="table", metavar="FILE", help="IPUMS or NIST .cbk file, for domain_from in the specs"
    ),
    Option(
        name="preset",
        group="training",
        metavar="NAME",
        help="settings of a published entry of dp-wgan: uclanesl-2019; single flags still win",
    ),
    Option(
        name="anchor",
        group="training",
        topic="critic",
        choices=ANCHORS,
        help="what holds the generator beside the critic: marginals asked for one at a time, all pairs at once, or "
        "nothing (default: queries)",
    ),
    _real("critic-share", "share of the budget that the critic gets beside an anchor", topic="critic"),
    _real("critic-weight", "weight of the critic's score beside the anchor's loss", topic="critic"),
    Option(
        name="oracle",
        group="training",
        topic="marginals",
        choices=ORACLES,
        help="query-gan only: what looks for the generator's errors (default: marginals)",
    ),
    _whole(
        "rounds",
        "training",
        "marginals asked for beyond those of the first tree; networks, for one-layer",
        topic="marginals",
    ),
    _whole("ways", "training", "columns in a marginal, at most", topic="marginals"),
    _whole("most-cells", "training", "cells that a marginal may have, at most", topic="marginals"),
    _whole("codes", "training", "latent codes of the generator", topic="marginals"),
    _whole("fit-steps", "training", "steps of the last fit to all that was measured", topic="marginals"),
    _real("fit-learning-rate", "learning rate of that fit", topic="marginals"),
    _real(
        "information-weight", "how much codes are kept from differing beyond what the answers ask", topic="marginals"
    ),
    Option(
        name="generator",
        group="training",
        topic="marginals",
        choices=GENERATORS,
        help="a table of codes, a perceptron over fixed codes, or both added (default: codes)",
    ),
    _layers("hidden-critic", "widths of the critic's hidden layers"),
    _layers("hidden-generator", "widths of the generator's hidden layers"),
    _whole("latent", "training", "width of the generator's random input", topic="critic"),
    _whole(
        "batch-size",
        "training",
        "EXPECTED number of rows a critic step reads",
        field="expected_batch_size",
        topic="critic",
    ),
    _whole(
        "critic-steps",
        "training",
        "critic steps a generator step takes",
        field="critic_steps_per_generator_step",
        topic="critic",
    ),
    _whole("generator-steps", "training", "generator steps in a row, each time it is its turn", topic="critic"),
    _real("generator-learning-rate", "learning rate of the generator", topic="critic"),
    _real("critic-learning-rate", "learning rate of the critic", topic="critic"),
    _real("weight-clip", "bound on each weight of the critic", topic="critic"),
    _real(
        "weight-pull",
        "share of the way back to its first value that each critic weight goes in a step; 0 for none",
        topic="critic",
    ),
    _real("gradient-memory", "weight of the past in the running mean of noisy gradients; 0 for none", topic="critic"),
    _real(
        "generator-average",
        "weight of the past in the average of the generator that is sampled; 0 for none",
        topic="critic",
    ),
    _real("clip-norm", "bound on one row's gradient, over all weights together", field="l2_clip_norm", topic="critic"),
    _real(
        "noise-multiplier",
        "noise as a multiple of the bound; the steps are then as many as the budget allows",
        topic="critic",
    ),
    _real("epochs", "passes over the table that the critic steps make up", topic="critic"),
    _whole("steps", "training", "critic steps, instead of --epochs", topic="critic"),
    Option(
        name="step-noise",
        group="training",
        topic="critic",
        choices=STEP_NOISES,
        help="how a critic step's noise is made of the same cryptographic stream: fast, whole blocks at once; plain, a "
        "number at a time (default: fast)",
    ),
    Option(
        name="engine",
        group="training",
        topic="critic",
        choices=ENGINES,
        help="fused: fast; reference: made of tensorflow-privacy's own parts, slow, for comparison (default: fused)",
    ),
    Option(
        name="formal",
        group="training",
        topic="critic",
        help="dp-critic only: train the critic privately, for a guarantee, and not as published",
        parse=_flag,
        form="true or false",
    ),
    Option(
        name="private-part",
        group="training",
        topic="critic",
        choices=PRIVATE_PARTS,
        help="dp-gan and ron-dp-gan only: whose gradients get noise; generator is as published, and has no guarantee "
        "(default: discriminator)",
    ),
    _real("prior-share", "ron-dp-gan only: share of the budget that the latents' prior gets", topic="gaussian"),
    Option(
        name="label",
        group="training",
        topic="gaussian",
        metavar="COLUMN",
        help="the column of categories whose classes get a Gaussian each (default: one for all rows; of images, the "
        "label in their layout)",
    ),
    _whole("projection-dimension", "training", "dimensions of the orthonormal projection", topic="gaussian"),
    Option(
        name="projection",
        group="training",
        topic="gaussian",
        choices=PROJECTIONS,
        help="cosine: the lowest frequencies of images; random: directions drawn at random, as published (default: "
        "cosine for images, random for all else)",
    ),
    Option(
        name="noise",
        group="training",
        topic="gaussian",
        choices=NOISES,
        help="laplace: pure epsilon, no delta is spent; gaussian: more dimensions for the budget (default: laplace)",
    ),
    _real("mean-share", "share of the budget that the one-way counts, or the means of images, get", topic="gaussian"),
    Option(name="claim", group="files", metavar="PATH", help="where the claim goes; - prints it as text on stdout"),
    Option(name="save-model", group="files", metavar="DIR", help="keep the fitted model, to sample more from later"),
    Option(
        name="checkpoint",
        group="files",
        metavar="DIR",
        help="keep what was released and charged, so that a run that was killed can go on (docs/checkpoint.md)",
    ),
    _switch("resume", "go on with the run that --checkpoint DIR holds; all else as it was begun", flag_only=True),
    Option(
        name="from-model",
        group="files",
        metavar="DIR",
        flag_only=True,
        help="write more rows from a saved model: reads no data and costs no privacy",
    ),
    _switch("check", "plan only: check specs and header, print budget, memory and time; write nothing", flag_only=True),
    _whole(
        "seed",
        "run",
        "repeat a run exactly; FOR TESTS ONLY: the claim is then stamped NOT PRIVATE",
        flag_only=True,
    ),
    _whole("threads", "run", "threads to use (default: all that this process may)"),
    Option(
        name="memory",
        group="run",
        metavar="AMOUNT",
        parse=_amount,
        form="an amount such as 4GB or 800MB",
        help="memory that the run may plan for; rows that do not fit are kept on disk, in the folder of TMPDIR "
        "(default: what the machine or the container gives)",
    ),
    Option(name="device", group="run", choices=DEVICES, help="where to train (default: auto)"),
    Option(
        name="no-guarantee",
        group="privacy",
        help="run a method that has no guarantee, as published; the claim is then stamped NOT PRIVATE",
        parse=_flag,
        form="true or false",
        flag_only=True,
    ),
    _switch("quiet", "only errors and warnings on stderr"),
    _switch("verbose", "say more on stderr, and where an internal error happened"),
    Option(name="log-format", group="run", choices=LOG_FORMATS, help="form of stderr (default: text)"),
)

BY_NAME: Mapping[str, Option] = {option.name: option for option in OPTIONS}

# ------------------------------------------------------------------------------------------------------------ presets


def uclanesl_2019(epsilon: float) -> dict[str, Any]:
    """Gives the hyper-parameters of the UCLANESL entry to the 2018 NIST challenge, Match 3.

    Privacy: they depend on epsilon alone. The step count is still cut to what sound accounting allows at this noise.
    What this tool adds to the published method is switched off: anchor, pull, memory and average.
    Source: Srivastava and Alzantot 2019, and the entry's own program, github.com/nesl/
      nist_differential_privacy_synthetic_data_challenge, tf_gan.py and run_uclanesl.sh (noise 1 above epsilon 5, else
      3; gradients of the mean loss clipped to 1/64, which is 1 for the sum).
    """
    return {
        "anchor": "none",
        "hidden_critic": (1024,),
        "hidden_generator": (1024,),
        "latent": 64,
        "expected_batch_size": 64,
        "critic_steps_per_generator_step": 10,
        "generator_learning_rate": 1e-3,
        "critic_learning_rate": 1e-3,
        "generator_steps": 1,
        "weight_clip": 0.01,
        "weight_pull": 0.0,
        "gradient_memory": 0.0,
        "generator_average": 0.0,
        "l2_clip_norm": 1.0,
        "noise_multiplier": 1.0 if epsilon > 5.0 else 3.0,
        "epochs": 10.0,
    }


# name -> (settings for an epsilon, rows to write)
PRESETS: Mapping[str, tuple[Callable[[float], dict[str, Any]], int | None]] = {
    "uclanesl-2019": (uclanesl_2019, 1_000_000),
}

_PRESET_METHOD = "dp-wgan"

# Settings that say how long to train: naming one of them replaces the preset's choice of the other.
_EXCLUDES = {"steps": "epochs", "epochs": "steps"}


# ------------------------------------------------------------------------------------------------------- checked values


def _at_least(name: str, value: float | None, *, bound: float) -> None:
    if value is not None and not value >= bound:
        raise UsageError(f"{name} must be at least {bound:g}")


def _above_zero(name: str, value: float | None) -> None:
    if value is not None and not (math.isfinite(value) and value > 0.0):
        raise UsageError(f"{name} must be a finite number above 0")


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{name} must be one of {', '.join(choices)}")


@dataclass(frozen=True, kw_only=True)
class SynthesisConfig:
    """What to synthesise and at what price: everything about a run but the files it reads and writes.

    `checkpoint` is a folder that keeps what was released and charged; with `resume` the run that it holds goes on.
    Privacy: no field may be chosen by looking at rows.
    `settings` holds only what was asked for; what is missing is the method's own choice from the public shape.
    Raises: UsageError for a value that cannot be acted on.
    """

    epsilon: float
    delta: float | None = None
    method: str = "dp-wgan"
    accountant: str = "auto"
    neighbours: str = "zero-out"
    no_guarantee: bool = False
    preset: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    rows: int | None = None
    seed: int | None = None
    threads: int | None = None
    memory: int | None = None
    device: str = "auto"
    checkpoint: str | os.PathLike[str] | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.delta is not None:
            check_delta(self.delta)
        _one_of("accountant", self.accountant, ACCOUNTANTS)
        _one_of("neighbours", self.neighbours, NEIGHBOURS)
        _one_of("device", self.device, DEVICES)
        _at_least("rows", self.rows, bound=1)
        _at_least("threads", self.threads, bound=1)
        _at_least("seed", self.seed, bound=0)
        if self.resume and self.checkpoint is None:
            raise UsageError("--resume needs --checkpoint DIR: the folder of the run that is to go on")
        _above_zero("memory", self.memory)
        if self.preset is not None and self.preset not in PRESETS:
            raise UsageError(f"there is no preset of that name; there is {', '.join(PRESETS)}")
        if self.preset is not None and self.method != _PRESET_METHOD:
            raise UsageError(f"the preset {self.preset} is for the method {_PRESET_METHOD}")
        _check_settings(self.settings)

    @property
    def training(self) -> dict[str, Any]:
        """The preset's settings with those asked for laid over them."""
        preset = PRESETS[self.preset][0](self.epsilon) if self.preset is not None else {}
        for asked in self.settings:
            preset.pop(_EXCLUDES.get(asked, ""), None)
        return {**preset, **self.settings}

    @property
    def rows_and_reason(self) -> tuple[int | None, str]:
        """How many rows to write and who chose it; None stands for the public number of records."""
        if self.rows is not None:
            return self.rows, "asked for"
        if self.preset is not None and PRESETS[self.preset][1] is not None:
            return PRESETS[self.preset][1], f"preset {self.preset}"
        return None, RECORDS


_CHOICES = {
    "engine": ENGINES,
    "step_noise": STEP_NOISES,
    "anchor": ANCHORS,
    "oracle": ORACLES,
    "generator": GENERATORS,
    "noise": NOISES,
    "private_part": PRIVATE_PARTS,
    "projection": PROJECTIONS,
}
_LEAST = {
    **dict.fromkeys(("latent", "expected_batch_size", "critic_steps_per_generator_step", "generator_steps"), 1),
    **dict.fromkeys(("steps", "fit_steps"), 1),
    "rounds": 0,
    "projection_dimension": 1,
    "ways": 2,
    "most_cells": 4,
    "codes": 2,
    "critic_weight": 0.0,
    "information_weight": 0.0,
}


def _check_settings(settings: Mapping[str, Any]) -> None:
    known = {option.key: option.name for option in OPTIONS if option.training and option.name != "preset"}
    for key, value in settings.items():
        if key not in known:
            raise UsageError(f"there is no training setting {key}{_hint(key, known)}")
        name = known[key]
        if key in ("hidden_critic", "hidden_generator"):
            if not value or any(width < 1 for width in value):
                raise UsageError(f"{name} must be one or more widths of at least 1")
        elif key in ("weight_pull", "gradient_memory", "generator_average"):
            if not 0.0 <= value < 1.0:
                raise UsageError(f"{name} must be at least 0 and below 1")
        elif key == "formal":
            if not isinstance(value, bool):
                raise UsageError("formal must be true or false")
        elif key == "label":
            if not isinstance(value, str) or not value:
                raise UsageError("label must be the name of a column")
        elif key in ("critic_share", "mean_share", "prior_share"):
            if not 0.0 < value < 1.0:
                raise UsageError(f"{name} must be above 0 and below 1")
        elif key in _CHOICES:
            _one_of(name, value, _CHOICES[key])
        elif key in _LEAST:
            _at_least(name, value, bound=_LEAST[key])
        else:
            _above_zero(name, value)
    if settings.get("steps") is not None and settings.get("epochs") is not None:
        raise UsageError("steps and epochs say the same thing: give one of them")


@dataclass(frozen=True, kw_only=True)
class Voice:
    """How the run speaks on stderr."""

    quiet: bool = False
    verbose: bool = False
    log_format: str = "text"

    def __post_init__(self) -> None:
        _one_of("log-format", self.log_format, LOG_FORMATS)
        if self.quiet and self.verbose:
            raise UsageError("quiet and verbose exclude each other")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One run from a table to a table and its claim.

    `data` and `output` may be "-" for stdin and stdout. `claim` None stands for `output`.privacy.json. `cluster`: the
    workers that share the run, which TF_CONFIG names; only the first of them writes.
    Raises: UsageError for a combination that cannot be acted on, or where a file written would replace a file read.
    """

    data: str
    output: str
    specs: Path
    synthesis: SynthesisConfig
    codebook: Path | None = None
    config_file: Path | None = None
    check: bool = False
    claim: str | None = None
    save_model: Path | None = None
    voice: Voice = field(default_factory=Voice)
    cluster: Cluster | None = None

    def __post_init__(self) -> None:
        if self.cluster is not None and self.data == "-":
            raise UsageError("several workers cannot read one standard input: give all of them the same file")
        read = [Path(self.data)] if self.data != "-" else []
        read += [path for path in (self.specs, self.codebook, self.config_file) if path is not None]
        _refuse_lost_claim(self.output, self.claim, self.voice)
        checkpoint = self.synthesis.checkpoint
        folders = {
            "saved model": self.save_model,
            "checkpoint": None if checkpoint is None else Path(checkpoint),
        }
        _refuse_collisions(read, output=self.output, claim=self.claim, folders=folders)

    @property
    def leads(self) -> bool:
        """Whether this process writes the output: it is alone, or the first of several workers."""
        return self.cluster is None or self.cluster.rank == 0

    @property
    def claim_path(self) -> Path | None:
        """Where the JSON claim goes, or None where the output is stdout and no path was given."""
        return claim_path(self.output, self.claim)


@dataclass(frozen=True, kw_only=True)
class ResampleConfig:
    """More rows from a saved model: reads no data and costs no privacy.

    Raises: UsageError for a combination that cannot be acted on.
    """

    model: Path
    output: str
    rows: int | None = None
    seed: int | None = None
    config_file: Path | None = None
    claim: str | None = None
    voice: Voice = field(default_factory=Voice)

    def __post_init__(self) -> None:
        _at_least("rows", self.rows, bound=1)
        _at_least("seed", self.seed, bound=0)
        read = [] if self.config_file is None else [self.config_file]
        _refuse_lost_claim(self.output, self.claim, self.voice)
        _refuse_collisions(read, output=self.output, claim=self.claim, folders={})
        for name, target in _targets(output=self.output, claim=self.claim):
            if self.model.resolve() in target.resolve().parents:
                raise UsageError(f"the {name} lies inside the saved model, which is only read")

    @property
    def claim_path(self) -> Path | None:
        """Where the JSON claim goes, or None where the output is stdout and no path was given."""
        return claim_path(self.output, self.claim)


def claim_path(output: str, claim: str | None) -> Path | None:
    """Says where the JSON claim is written: `claim`, else beside the output; None for a stream without a path."""
    if claim not in (None, "-"):
        return Path(str(claim))
    return None if goes_to_stream(output) else Path(output + ".privacy.json")


def goes_to_stream(output: str) -> bool:
    """Says whether the output is stdout, a pipe or a device: it is written into, and no file can lie beside it."""
    if output == "-":
        return True
    try:
        mode = Path(output).stat().st_mode
    except (OSError, ValueError):  # not there yet
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _refuse_lost_claim(output: str, claim: str | None, voice: Voice) -> None:
    if claim is None and voice.quiet and goes_to_stream(output):
        raise UsageError("with --quiet and an output that is no file the claim would be lost: give --claim PATH")


def _targets(*, output: str, claim: str | None) -> list[tuple[str, Path]]:
    targets = [("output", Path(output))] if output != "-" else []
    path = claim_path(output, claim)
    return targets + ([("claim", path)] if path is not None else [])


def _refuse_collisions(read: list[Path], *, output: str, claim: str | None, folders: Mapping[str, Path | None]) -> None:
    if output == "-" and claim == "-":
        raise UsageError("output and claim cannot both go to stdout")
    targets = _targets(output=output, claim=claim)
    targets += [(name, folder) for name, folder in folders.items() if folder is not None]
    for name, target in targets:
        if any(_same_file(target, source) for source in read):
            raise UsageError(f"the {name} is the same file as an input, which would be overwritten")
    for index, (name, target) in enumerate(targets):
        for other, earlier in targets[:index]:
            if _same_file(target, earlier):
                raise UsageError(f"{other} and {name} are the same file")


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)  # sees through symbolic and hard links
    except OSError:  # one of them is not there yet, or the name is too long to be
        try:
            return one.resolve() == other.resolve()
        except (OSError, RuntimeError):
            return False


# --------------------------------------------------------------------------------------------------------------- layers


def read_config_file(path: Path) -> dict[str, Any]:
    """Reads settings from a TOML file: one flat table, keys named as the flags.

    Raises: InputError if it cannot be opened, UsageError if it is not TOML or a key is unknown, naming the key.
    """
    try:
        with path.open("rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise InputError(f"the config file cannot be read: {error.strerror or type(error).__name__}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise UsageError("the config file is not TOML") from None
    values: dict[str, Any] = {}
    for key, value in document.items():
        option = BY_NAME.get(key.replace("_", "-"))
        if option is None:
            raise UsageError(f"the config file has an unknown key {key}{_hint(key, BY_NAME)}")
        if option.flag_only:
            raise UsageError(f"{option.name} changes what a run means and can only be given as a flag, not in a file")
        if option.key in values:
            raise UsageError(f"the config file gives {option.name} twice")
        values[option.key] = option.read(_toml_text(value, option), origin=f"{key} in the config file")
    return values


def _toml_text(value: object, option: Option) -> str:
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    if isinstance(value, bool) != (option.parse is _flag) or isinstance(value, dict):
        raise UsageError(f"{option.name} in the config file must be {option.form}")
    return str(value)


def read_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Reads settings from variables named DPWGAN_...; an empty one counts as not set.

    Raises: UsageError for a name that is no setting, or a value of the wrong form, naming the variable.
    """
    known = {option.variable: option for option in OPTIONS}
    values: dict[str, Any] = {}
    for name, text in environment.items():
        if not name.startswith(ENVIRONMENT_PREFIX) or name == ENVIRONMENT_PREFIX + "CONFIG" or not text:
            continue
        option = known.get(name)
        if option is None:
            raise UsageError(f"the environment has an unknown setting {name}{_hint(name, known)}")
        if option.flag_only:
            raise UsageError(f"{name}: {option.name} changes what a run means and can only be given as a flag")
        values[option.key] = option.read(text, origin=name)
    return values


def gather(flags: Mapping[str, Any], *, environment: Mapping[str, str]) -> tuple[dict[str, Any], Path | None]:
    """Lays the layers over each other: config file, then environment, then flags.

    `flags` holds what was given on the command line, by option key, and `config` for the file.
    Returns the settings by option key, and the config file if there was one.
    Raises: InputError and UsageError, see `read_config_file` and `read_environment`.
    """
    name = flags.get("config") or environment.get(ENVIRONMENT_PREFIX + "CONFIG") or None
    path = Path(name) if name is not None else None
    layers = [
        read_config_file(path) if path is not None else {},
        read_environment(environment),
        {key: value for key, value in flags.items() if key != "config"},
    ]
    values: dict[str, Any] = {}
    for layer in layers:
        for key in layer:
            values.pop(_EXCLUDES.get(key, ""), None)  # a later --steps replaces an earlier epochs
            if key in ("quiet", "verbose"):
                values.pop("verbose" if key == "quiet" else "quiet", None)
        values.update(layer)
    return values, path


def _hint(name: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
