"""Settings declared once, on the field that holds them: flags, TOML keys, variables, checks and --help are made of it.

class FitSettings(MethodSettings):
    codes: int | None = setting(None, "latent codes of the generator", at_least=2, at_most=1_000_000)

is the flag --codes, the key `codes`, the variable DPWGAN_CODES, a line of --help, and the rule that each of them, and
the keyword of Python, is held to. Nothing heavy is imported here: --help needs it.
"""

import math
import operator
import os
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from dpwgan.errors import UsageError

ENVIRONMENT_PREFIX = "DPWGAN_"

_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def _not_empty(text: str) -> str:
    if not text:
        raise ValueError
    return text


def read_number(text: str) -> float:
    """Reads a number that is written as everywhere, and not as in Python alone: 1_0 is none. Raises: ValueError."""
    return float(_plain(text))


def _plain(text: str) -> str:
    if "_" in text or not text.isascii():
        raise ValueError
    return text


@dataclass(frozen=True, kw_only=True)
class Kind:
    """The type of a setting: its words, how text is parsed, and which values are of it already."""

    one: str
    many: str = ""
    metavar: str = ""
    example: tuple[str, str] = ("", "")
    parse: Callable[[str], Any]
    types: tuple[type, ...]


_KINDS: Mapping[type, Kind] = {
    bool: Kind(one="true or false", parse=lambda text: _TRUTH[text.strip().lower()], types=(bool,)),
    int: Kind(
        one="a whole number",
        many="whole numbers",
        metavar="N",
        example=("256", "128"),
        parse=lambda text: int(_plain(text)),
        types=(Integral,),
    ),
    float: Kind(one="a number", many="numbers", metavar="X", example=("0.5", "1"), parse=read_number, types=(Real,)),
    str: Kind(one="a text", many="names", metavar="NAME", example=("age", "sex"), parse=_not_empty, types=(str,)),
    Path: Kind(one="a path", metavar="PATH", parse=lambda text: Path(_not_empty(text)), types=(str, os.PathLike)),
}


# What a bound is called, and what it asks of a number.
_BOUNDS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "at_least": ("of at least", operator.ge),
    "above": ("above", operator.gt),
    "at_most": ("at most", operator.le),
    "below": ("below", operator.lt),
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting: its name without dashes, its type and bounds, and the heading of --help that it stands under.

    `key` is the keyword of Python. `depth` is 1 for a list of values and 2 for a list of lists. `flag_only` ones change
    what a run means, so that a forgotten line in a file or variable must not switch them on. Of a setting and the one
    that it `excludes` at most one is given, and the later layer wins.
    """

    key: str
    name: str
    help: str
    heading: str
    kind: Kind
    depth: int
    choices: tuple[str, ...]
    bounds: Mapping[str, float]
    form: str
    metavar: str
    flag_only: bool
    excludes: str

    @property
    def variable(self) -> str:
        """Name in the environment."""
        return ENVIRONMENT_PREFIX + self.name.replace("-", "_").upper()

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return bool in self.kind.types

    def read(self, value: object, *, origin: str) -> Any:
        """Reads a text, or what TOML says, and checks it.

        Raises: UsageError that names `origin`, which is a flag, a key or a variable, and what is expected.
        """
        if isinstance(value, str) and "\0" in value:
            raise UsageError(f"{origin} holds a NUL character")
        try:
            read = self._read(value, self.depth)
        except (ValueError, KeyError, OverflowError):
            raise self._refusal(origin) from None
        self.check(read, origin=origin)
        return read

    def check(self, value: object, *, origin: str) -> None:
        """Raises: UsageError that names `origin` and what is expected, unless the value can be acted on."""
        try:
            holds = self._holds(value, self.depth)
        except OverflowError:  # a whole number that no double holds
            holds = False
        if not holds:
            raise self._refusal(origin)

    def _refusal(self, origin: str) -> UsageError:
        return UsageError(f"{origin} must be {self.form}")

    def _read(self, value: object, depth: int) -> Any:
        if isinstance(value, list) and depth:
            return tuple(self._read(item, depth - 1) for item in value)
        if isinstance(value, str):
            if depth:
                return tuple(self._read(item, depth - 1) for item in value.split(",;"[depth - 1]))
            return self.kind.parse(value)
        if isinstance(value, bool) and self.is_switch:
            return value
        if isinstance(value, (bool, list)) or not isinstance(value, (int, float)) or self.is_switch:
            raise ValueError
        return self._read(str(value), depth)

    def _holds(self, value: Any, depth: int) -> bool:
        if depth:
            return isinstance(value, (tuple, list)) and bool(value) and all(self._holds(v, depth - 1) for v in value)
        if not isinstance(value, self.kind.types) or (isinstance(value, bool) and not self.is_switch):
            return False
        if isinstance(value, Real) and not math.isfinite(value):
            return False
        within = all(_BOUNDS[name][1](value, bound) for name, bound in self.bounds.items())
        return within and (not self.choices or value in self.choices)


def setting(
    default: Any,
    help: str,
    *,
    flag: str = "",
    heading: str = "",
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] = (),
    form: str = "",
    metavar: str = "",
    parse: Callable[[str], Any] | None = None,
    flag_only: bool = False,
    excludes: str = "",
) -> Any:
    """Declares a setting on a field of a `Settings` class; its type is that of the field.

    `flag` is for a name that is not the field's; `heading` for one that is not the class's. Bounds are of each number
    in a list. `choices` are for a text that its type does not list. `form`, `metavar` and `parse` are for a form of its
    own.
    """
    return field(default=default, metadata={key: value for key, value in locals().items() if key != "default"})


def again(owner: type["Settings"], name: str, default: Any = MISSING, **changes: Any) -> Any:
    """Declares the setting that another class has already, with another default, or a narrower bound."""
    declared = owner.__dataclass_fields__[name]
    own_heading = {"heading": declared.metadata["heading"] or owner.heading}
    return field(
        default=declared.default if default is MISSING else default,
        metadata={**declared.metadata, **own_heading, **changes},
    )


def asked_of(owner: type["Settings"], *, but: tuple[str, ...] = ()) -> Any:
    """Declares a field of those settings of another class, by name, that were asked for; the rest is chosen later."""
    return field(metadata={"owner": owner, "but": but})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that are checked when they are made. `heading` is what they stand under in --help.

    Raises: UsageError that names the keyword of a value that cannot be acted on.
    """

    heading = ""

    def __post_init__(self) -> None:
        for part, member in _members(type(self)).items():
            value = getattr(self, part)
            if isinstance(member, Setting):
                # None stands for a choice that is made later, where it is the default.
                if value is not None or type(self).__dataclass_fields__[part].default is not None:
                    member.check(value, origin=member.key)
            elif isinstance(value, Mapping):
                check_values(value, member)
        refuse_both(vars(self), declared(type(self)))


Own = TypeVar("Own", bound="MethodSettings")


class MethodSettings(Settings):
    """The settings of a method."""

    @classmethod
    def make(cls: type[Own], method: str, asked: Mapping[str, Any]) -> Own:
        """Makes the settings of a method of what was asked for, by name.

        Raises: UsageError for a setting that the method does not have, or a value that cannot be acted on.
        """
        known = declared(cls)
        for name in asked:
            if name not in known:
                raise UsageError(f"the method {method} has no setting {name.replace('_', '-')}")
        chosen = cls.complete(method, asked)
        values: dict[str, Any] = {}
        for part, member in _members(cls).items():
            if isinstance(member, Setting):
                values.update({part: chosen[part]} if part in chosen else {})
            else:
                owner = get_type_hints(cls)[part]
                own = {name: value for name, value in chosen.items() if name in member}
                values[part] = owner(**own) if isinstance(owner, type) else own
        return cls(**values)

    @classmethod
    def complete(cls, method: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """What was asked for with its defaults. Raises: UsageError for what does not go together."""
        return asked


def check_values(values: Mapping[str, Any], known: Mapping[str, Setting]) -> None:
    """Raises: UsageError for a value that cannot be acted on, or two that exclude each other."""
    for key, value in values.items():
        known[key].check(value, origin=key)
    refuse_both(values, known)


def refuse_both(values: Mapping[str, Any], known: Mapping[str, Setting]) -> None:
    """Raises: UsageError if two settings are given that exclude each other."""
    for key, value in values.items():
        other = known[key].excludes if key in known else ""
        if other and value not in (None, False) and values.get(other) not in (None, False):
            raise UsageError(f"{key} and {other} exclude each other: give one of them")


def declared(owner: type[Settings]) -> Mapping[str, Setting]:
    """Lists the settings of a class by keyword, those of the classes that it holds among them."""
    found: dict[str, Setting] = {}
    for member in _members(owner).values():
        found.update({member.key: member} if isinstance(member, Setting) else member)
    return found


_MEMBERS: dict[type[Settings], Mapping[str, Setting | Mapping[str, Setting]]] = {}


def _members(owner: type[Settings]) -> Mapping[str, Setting | Mapping[str, Setting]]:
    """What each field of a class declares: a setting, or those of another class. They are found once."""
    if owner not in _MEMBERS:
        hints = get_type_hints(owner)
        found: dict[str, Setting | Mapping[str, Setting]] = {}
        for part in fields(owner):
            hint, more = hints[part.name], part.metadata
            if "help" in more:
                found[part.name] = _make_setting(part.name, hint, owner, **more)
            elif "owner" in more:
                found[part.name] = {key: one for key, one in declared(more["owner"]).items() if key not in more["but"]}
            elif isinstance(hint, type) and issubclass(hint, Settings):
                found[part.name] = declared(hint)
        _MEMBERS[owner] = found
    return _MEMBERS[owner]


def _make_setting(
    key: str,
    hint: Any,
    owner: type[Settings],
    *,
    flag: str,
    heading: str,
    parse: Callable[[str], Any] | None,
    **more: Any,
) -> Setting:
    """Adds what the name and the type of the field say to what was declared."""
    if get_origin(hint) in (Union, types.UnionType):
        options = [part for part in get_args(hint) if part is not type(None)]
        hint = options[0] if len(options) == 1 else Path  # a path, or a text that says one
    depth = 0
    while get_origin(hint) is tuple:
        hint, depth = get_args(hint)[0], depth + 1
    if get_origin(hint) is Literal:
        hint, more["choices"] = str, get_args(hint)
    kind = _KINDS[hint]
    bounds = {name: more.pop(name) for name in _BOUNDS}
    bounds = {name: bound for name, bound in bounds.items() if bound is not None}
    form, metavar = more.pop("form"), more.pop("metavar")
    pattern = ("{0}", "{0}[,{0}...]", "{0},{0}[;...]")[depth]
    return Setting(
        key=key,
        name=flag or key.replace("_", "-"),
        heading=heading or owner.heading,
        kind=kind if parse is None else replace(kind, parse=parse),
        depth=depth,
        bounds=bounds,
        form=form or _describe(kind, depth, choices=more["choices"], bounds=bounds),
        metavar=metavar or "|".join(more["choices"]) or pattern.format(kind.metavar),
        **more,
    )


def _describe(kind: Kind, depth: int, *, choices: tuple[str, ...], bounds: Mapping[str, float]) -> str:
    """Says in words what is expected, after "must be"."""
    if choices:
        return f"one of {', '.join(choices)}"
    said = {name: f"{bound:,}" if isinstance(bound, int) else f"{bound:g}" for name, bound in bounds.items()}
    if said.keys() == {"at_least", "at_most"}:
        within = f" from {said['at_least']} to {said['at_most']}"
    else:
        within = "".join(f" and {_BOUNDS[name][0]} {bound}" for name, bound in said.items()).removeprefix(" and")
    if depth:
        one = ",".join(kind.example)
        lists, example = ("lists of ", f"{one};{kind.example[0]}") if depth > 1 else ("", one)
        return f"one or more {lists}{kind.many}{within}, such as {example}"
    unbounded = Real in kind.types and not {"at_most", "below"} & said.keys()
    return ("a finite number" if unbounded else kind.one) + within
