"""The layers that settings are gathered from: a TOML file, then the environment, then flags; the later one wins."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpwgan.app.config import OPTIONS, lay_over
from dpwgan.errors import InputError, UsageError, show_name, suggest
from dpwgan.methods.registry import METHODS
from dpwgan.settings import ENVIRONMENT_PREFIX, Setting, declared
from dpwgan.table.stream import read_public

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
        document = tomllib.loads(read_public(path).decode())
    except OSError as error:
        raise InputError(f"the config file cannot be read: {error.strerror or type(error).__name__}") from None
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
