"""The configuration of a run: frozen values that check themselves, and the layers that they are gathered from.

Each setting is declared on the field that holds it, here or with its method's (`dpwgan.settings`).
Nothing here is read from rows, so every default is independent of the data.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict

from dpwgan.app.delivery import RUN, Delivery, Voice, same_file
from dpwgan.errors import UsageError, show_name, suggest
from dpwgan.methods.registry import METHODS, make_settings, takes_public
from dpwgan.privacy.budget import check_delta, check_epsilon
from dpwgan.settings import ENVIRONMENT_PREFIX, Setting, Settings, again, check_values, declared, read_number, setting
from dpwgan.table.cluster import Cluster
from dpwgan.table.files.parts import list_parts
from dpwgan.table.files.stream import read_public

# The headings of --help, in its order; those of the methods' own settings come after.
PRIVACY = "privacy"
TABLE = "table"
TRAINING = "training (defaults: the method's own, chosen without looking at rows)"
FILES = "files"

# Who chose the number of rows, where nobody else did.
RECORDS = "the public number of records"


# ---------------------------------------------------------------------------------------------- from text to values


def read_epsilon(text: str) -> float:
    """Reads epsilon from the command line. Raises: UsageError unless it is a finite number above 0."""
    return check_epsilon(_number("epsilon", text))


def read_delta(text: str) -> float:
    """Reads delta from the command line. Raises: UsageError unless it is a number above 0 and below 1."""
    return check_delta(_number("delta", text))


def default_delta(records: int) -> float:
    """The delta used when none is asked for: 1/n^2, of the public n; for n = 1 that of n = 2 (1 promises nothing)."""
    return 1.0 / max(records, 2) ** 2


def _number(name: str, text: str) -> float:
    try:
        return read_number(text)
    except ValueError:
        comma = ", with a point in the place of the comma" if "," in text else ""
        raise UsageError(f"{name} must be a number{comma}") from None


_UNITS = {"": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_AMOUNT = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+) ?([KMGT]?I?B?)", re.ASCII | re.IGNORECASE)


def read_amount(text: str) -> int:
    """Reads an amount of memory, in bytes. Raises: ValueError."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError
    unit = match[2].upper().replace("I", "").removesuffix("B")
    return int(float(match[1]) * _UNITS[unit + "B" if unit else ""])


# ---------------------------------------------------------------------------------------- settings of published entries


def uclanesl_2019(epsilon: float) -> dict[str, Any]:
    """The hyper-parameters of the UCLANESL entry to the 2018 NIST challenge, Match 3.

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


class Preset(NamedTuple):
    """Settings of a published entry for an epsilon, the method that they are for, and how many rows it wrote."""

    method: str
    choose: Callable[[float], dict[str, Any]]
    rows: int


PRESETS: Mapping[str, Preset] = {"uclanesl-2019": Preset("dp-wgan", uclanesl_2019, rows=1_000_000)}


# ------------------------------------------------------------------------------------------------------ checked values


@dataclass(frozen=True, kw_only=True)
class SynthesisConfig(Settings):
    """What to synthesise and at what price: everything about a run but the files it reads and writes.

    Privacy: no field may be chosen by looking at rows.
    `settings` holds only what was asked for; what is missing is the method's own choice from the public shape.
    Raises: UsageError for a value that cannot be acted on.
    """

    epsilon: float
    delta: float | None = None
    method: str = setting(
        "dp-wgan",
        f"{', '.join(METHODS)}; docs/methods.md says which when (default: dp-wgan)",
        heading=PRIVACY,
        choices=tuple(METHODS),
        metavar="NAME",
    )
    accountant: Literal["auto", "paper", "moments", "amortized", "pld"] = setting(
        "auto",
        "how the loss is added up; auto takes the one that needs least noise (default: auto)",
        heading=PRIVACY,
    )
    neighbours: Literal["zero-out", "replace-one"] = setting(
        "zero-out",
        "what counts as one row more or less: a row zeroed out, or replaced by any other (default: zero-out)",
        heading=PRIVACY,
    )
    rows_per_unit: int | None = setting(
        None,
        'rows that a person, household or card has at most, where no column of the specs says whose a row is ("unit" '
        "in the specs, which sees to it): a promise that the claim rests on (default: 1)",
        heading=PRIVACY,
        at_least=1,
    )
    no_guarantee: bool = setting(
        False,
        "run a method that has no guarantee, as published; the claim is then stamped NOT PRIVATE",
        heading=PRIVACY,
        flag_only=True,
    )
    preset: str | None = setting(
        None,
        f"settings of a published entry of dp-wgan: {', '.join(PRESETS)}; single flags still win",
        heading=TRAINING,
        choices=tuple(PRESETS),
        metavar="NAME",
    )
    settings: Mapping[str, Any] = field(default_factory=dict)
    rows: int | None = setting(None, "rows to write (default: as many as the table has)", heading=TABLE, at_least=1)
    public: str | os.PathLike[str] | None = setting(
        None,
        "a public table of the same specs that the fit begins with, such as last year's release; NOT protected",
        heading=TABLE,
        metavar="FILE",
        flag_only=True,
    )
    checkpoint: str | os.PathLike[str] | None = setting(
        None,
        "keep what was released and charged, so that a run that was killed can go on (docs/checkpoint.md)",
        heading=FILES,
        metavar="DIR",
    )
    book: str | os.PathLike[str] | None = setting(
        None,
        "the book of the table, which holds the budget of all releases from it; refused where it is spent "
        "(docs/privacy.md)",
        heading=FILES,
        metavar="FILE",
    )
    resume: bool = setting(
        False,
        "go on with the run that --checkpoint DIR holds; all else as it was begun",
        heading=RUN,
        flag_only=True,
    )
    seed: int | None = setting(
        None,
        "repeat a run exactly; FOR TESTS ONLY: the claim is then stamped NOT PRIVATE",
        heading=RUN,
        at_least=0,
        flag_only=True,
    )
    threads: int | None = setting(None, "threads to use (default: all that this process may)", heading=RUN, at_least=1)
    memory: int | None = setting(
        None,
        "memory that the run may plan for; rows that do not fit are kept on disk, in the folder of TMPDIR (default: "
        "what the machine or the container gives)",
        heading=RUN,
        at_least=1,
        parse=read_amount,
        form="an amount such as 4GB or 800MB",
        metavar="AMOUNT",
    )
    device: Literal["auto", "cpu", "gpu"] = setting(
        "auto", "where to train (default: auto, a GPU where steps take a minute)", heading=RUN
    )

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.delta is not None:
            check_delta(self.delta)
        super().__post_init__()
        if self.resume and self.checkpoint is None:
            raise UsageError("--resume needs --checkpoint DIR: the folder of the run that is to go on")
        if self.book is not None and (self.no_guarantee or self.seed is not None):
            flag = "--no-guarantee" if self.no_guarantee else "--seed"
            raise UsageError(f"{flag} has no place in a book: it adds up guarantees, and there is none")
        if self.preset is not None and self.method != PRESETS[self.preset].method:
            raise UsageError(f"the preset {self.preset} is for the method {PRESETS[self.preset].method}")
        if not isinstance(self.settings, Mapping):
            raise UsageError("settings must be a mapping: the training settings by name")
        known = declared(METHODS[self.method].settings)
        for key in self.settings:
            if key not in TRAINING_OPTIONS:
                raise UsageError(f"there is no training setting {key}{suggest(str(key), TRAINING_OPTIONS)}")
            if key not in known:
                raise UsageError(f"the method {self.method} has no setting {TRAINING_OPTIONS[key].name}")
        check_values(self.settings, known)
        if self.public is not None and not takes_public(make_settings(self.method, **self.training)):
            raise UsageError(
                f"--public is for methods that ask for marginals, which {self.method} does not as it is set"
            )

    @property
    def training(self) -> dict[str, Any]:
        """The preset's settings with those asked for laid over them."""
        preset = PRESETS[self.preset].choose(self.epsilon) if self.preset is not None else {}
        return lay_over([preset, self.settings])

    @property
    def rows_and_reason(self) -> tuple[int | None, str]:
        """How many rows to write and who chose it; None stands for the public number of records."""
        if self.rows is not None:
            return self.rows, "asked for"
        if self.preset is not None:
            return PRESETS[self.preset].rows, f"preset {self.preset}"
        return None, RECORDS


class Options(TypedDict, total=False):
    """What the Python interface takes by keyword: a `SynthesisConfig` but for epsilon and delta, which says more."""

    method: str
    accountant: Literal["auto", "paper", "moments", "amortized", "pld"]
    neighbours: Literal["zero-out", "replace-one"]
    rows_per_unit: int | None
    no_guarantee: bool
    preset: str | None
    settings: Mapping[str, Any]
    rows: int | None
    public: str | os.PathLike[str] | None
    checkpoint: str | os.PathLike[str] | None
    book: str | os.PathLike[str] | None
    resume: bool
    seed: int | None
    threads: int | None
    memory: int | None
    device: Literal["auto", "cpu", "gpu"]


@dataclass(frozen=True, kw_only=True)
class RunConfig(Delivery):
    """One run from a table, "-" for stdin, to a table and its claim.

    `cluster`: the workers that share the run, which TF_CONFIG names; only the first of them writes.
    Raises: UsageError for a combination that cannot be acted on, or where a file written would replace a file read.
    """

    data: str
    output: str
    specs: Path
    synthesis: SynthesisConfig
    codebook: Path | None = setting(
        None, "IPUMS or NIST .cbk file, for domain_from in the specs", heading=TABLE, metavar="FILE"
    )
    config_file: Path | None = None
    claim: str | None = setting(
        None, "where the claim goes; - prints it as text on stdout, too", heading=FILES, metavar="PATH"
    )
    sign: Path | None = setting(
        None,
        "sign the claim with this Ed25519 private key (PEM, for its owner's eyes alone): CLAIM.sig",
        heading=FILES,
        metavar="KEY",
        flag_only=True,
    )
    save_model: Path | None = setting(
        None, "keep the fitted model, to sample more from later", heading=FILES, metavar="DIR"
    )
    where: str | None = setting(
        None,
        "an SQL condition that every row written meets, as 'AGEP >= 65': rows are drawn until as many do",
        heading=TABLE,
        metavar="SQL",
        flag_only=True,
    )
    check: bool = setting(
        False,
        "plan only: check specs and header, print budget, memory and time; write nothing",
        heading=RUN,
        flag_only=True,
    )
    voice: Voice = field(default_factory=Voice)
    cluster: Cluster | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cluster is not None and self.data == "-":
            raise UsageError("several workers cannot read one standard input: give all of them the same file")
        data = [Path(part) for part in (self.data, *(list_parts(self.data) or ())) if part != "-"]
        checkpoint, public = self.synthesis.checkpoint, self.synthesis.public
        others = [Path(path) for path in (self.synthesis.book, public) if path is not None]
        if public is not None and any(same_file(path, Path(public)) for path in data):
            raise UsageError("--public names the private table: what is read there is not protected")
        self.refuse_losses(
            (*data, self.specs, self.codebook, self.config_file, self.sign, *others),
            saved_model=self.save_model,
            checkpoint=None if checkpoint is None else Path(checkpoint),
        )
        for name, target in self.list_targets():
            if os.path.isdir(self.data) and same_file(target.parent, Path(self.data)):
                raise UsageError(f"the {name} would lie in the folder of the table's parts: give it another")

    @property
    def leads(self) -> bool:
        """Whether this process writes the output: it is alone, or the first of several workers."""
        return self.cluster is None or self.cluster.rank == 0


@dataclass(frozen=True, kw_only=True)
class ResampleConfig(Delivery):
    """More rows from a saved model: reads no data and costs no privacy.

    Raises: UsageError for a combination that cannot be acted on.
    """

    model: Path = setting(
        MISSING,
        "write more rows from a saved model: reads no data and costs no privacy",
        heading=FILES,
        flag="from-model",
        metavar="DIR",
        flag_only=True,
    )
    output: str
    rows: int | None = again(SynthesisConfig, "rows")
    seed: int | None = again(SynthesisConfig, "seed")
    threads: int | None = again(SynthesisConfig, "threads")
    where: str | None = again(RunConfig, "where")
    config_file: Path | None = None
    claim: str | None = again(RunConfig, "claim")
    sign: Path | None = again(RunConfig, "sign")
    save_model = None
    voice: Voice = field(default_factory=Voice)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_losses([self.config_file, self.sign])
        for name, target in self.list_targets():
            if self.model.resolve() in target.resolve().parents:
                raise UsageError(f"the {name} lies inside the saved model, which is only read")


# --------------------------------------------------------------------------------------------------- all of them


def _list_training() -> dict[str, Setting]:
    """Lists the settings of all methods; one that several have is read by the bounds of the first."""
    found: dict[str, Setting] = {}
    for entry in METHODS.values():
        for key, option in declared(entry.settings).items():
            found.setdefault(key, option)
    return found


TRAINING_OPTIONS: Mapping[str, Setting] = _list_training()
OPTIONS: Mapping[str, Setting] = {**declared(RunConfig), **declared(ResampleConfig), **TRAINING_OPTIONS}
"""Every setting of the command line by keyword."""


def lay_over(layers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Lays values over each other: the later one wins, also where its setting excludes that of an earlier one."""
    values: dict[str, Any] = {}
    for layer in layers:
        for key in layer:
            values.pop(OPTIONS[key].excludes, None)  # a later --steps replaces an earlier epochs
        values.update(layer)
    return values


# ---------------------------------------------------------------------------- from a file, the environment and flags

_BY_NAME: Mapping[str, Setting] = {option.name: option for option in OPTIONS.values()}
_BY_VARIABLE: Mapping[str, Setting] = {option.variable: option for option in OPTIONS.values()}

# What was given for a setting, by keyword, and where: a flag, a key of the config file, a variable.
Given = dict[str, tuple[object, str]]


def read_config_file(path: Path) -> Given:
    """Reads settings from a TOML file: one flat table, keys named as the flags.

    Raises: InputError if it cannot be opened, UsageError if it is not TOML or a key is unknown, naming the key.
    """
    # Imported where it is needed: --help and most runs are without.
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # the same parser under its earlier name
        import tomli as tomllib

    try:
        document = tomllib.loads(read_public(path, name="the config file").decode())
    except (ValueError, RecursionError):  # of the parser, or of a number too long for it
        raise UsageError("the config file is not TOML") from None
    given: Given = {}
    for key, value in document.items():
        option = _BY_NAME.get(key.replace("_", "-"))
        if option is None:
            raise UsageError(f"the config file has an unknown key {show_name(key)}{suggest(key, _BY_NAME)}")
        if option.flag_only:
            raise UsageError(f"{option.name} changes what a run means and can only be given as a flag, not in a file")
        if option.key in given:
            raise UsageError(f"the config file gives {option.name} twice")
        given[option.key] = value, f"{key} in the config file"
    return given


def read_environment(environment: Mapping[str, str]) -> Given:
    """Reads settings from variables named DPWGAN_...; an empty one counts as not set.

    Raises: UsageError for a name that is no setting, naming the variable.
    """
    given: Given = {}
    for name, text in environment.items():
        if not name.startswith(ENVIRONMENT_PREFIX) or name == ENVIRONMENT_PREFIX + "CONFIG" or not text:
            continue
        option = _BY_VARIABLE.get(name)
        if option is None:
            raise UsageError(f"the environment has an unknown setting {name}{suggest(name, _BY_VARIABLE)}")
        if option.flag_only:
            raise UsageError(f"{name}: {option.name} changes what a run means and can only be given as a flag")
        given[option.key] = text, name
    return given


def gather(flags: Mapping[str, Any], *, environment: Mapping[str, str]) -> tuple[dict[str, Any], Path | None]:
    """Lays config file, environment and flags over each other; gives settings by keyword, and the file if there is one.

    `flags` holds what was given on the command line, by keyword, and `config` for the file.
    Raises: as `read_config_file` and `read_environment`; UsageError that names the flag, key or variable whose value
      cannot be acted on.
    """
    name = flags.get("config") or environment.get(ENVIRONMENT_PREFIX + "CONFIG") or None
    path = Path(name) if name is not None else None
    layers = [
        read_config_file(path) if path is not None else {},
        read_environment(environment),
        {key: (value, f"--{OPTIONS[key].name}") for key, value in flags.items() if key != "config"},
    ]
    # What a later layer replaces is read as well, so that a wrong line is found when it is written.
    given = lay_over(
        [{key: (OPTIONS[key].read(value, origin=at), at) for key, (value, at) in layer.items()} for layer in layers]
    )
    values = {key: value for key, (value, _) in given.items()}
    # A method may have narrower bounds than another one's setting of the same name.
    for key, option in declared(METHODS[values.get("method", "dp-wgan")].settings).items():
        if key in given:
            option.check(values[key], origin=given[key][1])
    return values, path
