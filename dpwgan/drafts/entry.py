"""What a public dictionary says of one column, in no format's own words, and the specs that come of it.

What a dictionary leaves open stays open in the draft: the key is there, and its value is null. A run refuses such
specs, and `python -m dpwgan specs check` lists every null. So nobody guesses a range, and no row is asked.
"""

import functools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dpwgan.errors import SpecsError, quote
from dpwgan.table.files.stream import decode_public
from dpwgan.table.numerals import NUMERAL

Type = Literal["enum", "integer", "float", "boolean", "date", "datetime", "time", "string", "text"]
Number = int | float

KEYS = (
    *("type", "uuid", "count", "values", "ordered", "values_from", "maxval", "domain_privacy", "true", "false"),
    *("format", "min", "max", "width", "decimals", "out_of_domain", "missing", "optional", "description"),
)
"""The keys that a draft may have, in the order in which it has them."""

_WIDTH = 118
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(NUMERAL)
_TIMED = re.compile(r"%[HIMSfpTXcr]")
_DATED = re.compile(r"%[YymdbBjDFxcG]")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a dictionary says of a column; None for what it leaves open.

    `type` "string" is a row name. `minimum` and `maximum` are numbers, or texts in the column's `format`. `true` and
    `false` are the spellings of a boolean. `missing` are the cells that mean not available, "" among them.
    `more` are keys of the specs as they are.
    """

    name: str
    type: Type | None = None
    description: str = ""
    values: Sequence[str | int | float] | None = None
    true: Sequence[str] = ()
    false: Sequence[str] = ()
    minimum: Number | str | None = None
    maximum: Number | str | None = None
    decimals: int | None = None
    format: str | None = None
    missing: Sequence[str] = ()
    more: Mapping[str, Any] = field(default_factory=dict)

    def write(self) -> dict[str, Any]:
        """The column's keys in the order of docs/specs.md, null where the dictionary leaves one open."""
        kind, given, nothing = self.type, self.values, {"", *self.missing}
        true, false = self.true or (self.false and ("true", "1")), self.false or (self.true and ("false", "0"))
        if kind == "boolean" and (nothing >= {*true} or nothing >= {*false}) and (true or false):
            kind, given = "enum", (*true, *false)  # a mark, or nothing
        optional = "" in (*self.missing, *true, *false, *(given or ()))
        # What means not available is no value, whatever a dictionary calls it as well.
        true, false = ([cell for cell in cells if cell not in nothing] for cells in (true, false))
        listed = (str(cell) if isinstance(cell, float) else cell for cell in given or ())
        values = [cell for cell in listed if str(cell) not in nothing]
        keys: dict[str, Any] = {"type": kind, "description": self.description or (), **self.more}
        if self.type == "string":
            keys["uuid"] = True
        elif kind == "enum" and not keys.keys() & {"values_from", "count"}:
            keys["values"] = list(dict.fromkeys(values)) or None
        elif kind == "boolean":
            keys.update(true=_fold(true), false=_fold(false))
        elif self.type in ("date", "datetime"):
            keys.update(format=self.format, min=self.minimum, max=self.maximum)
        elif self.type == "time":
            keys.update(format=self.format, min=self.minimum or (), max=self.maximum or ())
        elif self.type in ("integer", "float") and "uuid" not in keys:
            keys.update(min=self.minimum, max=self.maximum, decimals=() if self.decimals is None else self.decimals)
        if self.type != "text" and "uuid" not in keys:
            cells = _fold(self.missing) if kind == "boolean" else dict.fromkeys(self.missing)
            keys["missing"] = [cell for cell in cells if cell != ""]
            keys["optional"] = True if optional else ()
        return {key: keys[key] for key in KEYS if key in keys and keys[key] not in ((), [])}


def _fold(spellings: Iterable[str]) -> list[str]:
    """The first of those that differ in case alone, which booleans ignore."""
    first: dict[str, str] = {}
    for spelling in spellings:
        first.setdefault(spelling.lower(), spelling)
    return list(first.values())


def write_draft(entries: Iterable[Entry]) -> dict[str, dict[str, Any]]:
    """Specs of these columns, in their order. Raises: SpecsError if two have one name, or there is none."""
    draft: dict[str, dict[str, Any]] = {}
    for entry in entries:
        if entry.name in draft:
            raise SpecsError(f"The dictionary names the column {quote(entry.name)} twice.")
        draft[entry.name] = entry.write()
    if not draft:
        raise SpecsError("The dictionary names no column.")
    return draft


def format_draft(draft: Mapping[str, Mapping[str, Any]]) -> str:
    """The draft as JSON to be read and edited: a column on one line where that is short, else a key on a line."""
    write = functools.partial(json.dumps, ensure_ascii=False)
    columns = []
    for name, keys in draft.items():
        line = f"  {write(name)}: {write(keys)}"
        inner = ",\n".join(f"    {write(key)}: {write(value)}" for key, value in keys.items())
        columns.append(line if len(line) <= _WIDTH else f"  {write(name)}: {{\n{inner}\n  }}")
    return "{\n" + ",\n".join(columns) + "\n}\n"


def list_holes(keys: Mapping[str, Any]) -> list[str]:
    """The keys of a drafted column that are to be filled in."""
    return [key for key, value in keys.items() if value is None]


def read_number(text: object) -> Number | None:
    """The number that a dictionary writes, as a number or as text; None where it is none, or none that is finite."""
    if isinstance(text, bool):
        return None
    if isinstance(text, int | float):
        found = int(text) if float(text).is_integer() else text
    else:
        words = str(text).strip() if text is not None else ""
        if _WHOLE_NUMBER.fullmatch(words):
            return int(words)
        found = float(words) if _NUMBER.fullmatch(words) else math.nan
    return found if math.isfinite(found) else None


def extend_range(low: Number, high: Number, code: Number | None) -> tuple[Number, Number, bool]:
    """The range with a code that lies in it or goes on where it ends, and whether it does."""
    if not isinstance(code, int) or not low - 1 <= code <= high + 1:
        return low, high, False
    return min(low, code), max(high, code), True


def are_whole(codes: Iterable[object]) -> bool:
    """Says whether all codes are whole numbers."""
    return all(isinstance(read_number(code), int) for code in codes)


def drop_zeros(codes: Iterable[str]) -> list[str | int]:
    """Whole numbers as tables hold them, without the zeros in front that fixed-width files have; else as they are."""
    codes = list(codes)
    return [int(code) for code in codes] if are_whole(codes) else [*codes]


def split_words(name: str) -> str:
    """A column's name in small letters, with a mark where a word began with a capital: patientId is patient_id."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()


def choose_calendar(pattern: str) -> Literal["date", "datetime", "time"]:
    """Whether a strftime pattern writes a date, a time of day or both."""
    if not _TIMED.search(pattern):
        return "date"
    return "datetime" if _DATED.search(pattern) else "time"


def join_words(*texts: object) -> str:
    """One line of text of what is there."""
    return " ".join(" ".join(str(text).split()) for text in texts if text)


@dataclass(frozen=True, kw_only=True)
class Source:
    """The bytes and the text of a dictionary; `document` is None unless the text is JSON.

    `table` is the table that was asked for, of a dictionary of several.
    """

    content: bytes
    text: str
    document: Any = None
    table: str | None = None

    @property
    def members(self) -> Mapping[str, Any]:
        """Those of the JSON object; none of anything else."""
        return self.document if isinstance(self.document, Mapping) else {}

    def choose(self, tables: dict[str, Any]) -> Any:
        """The table that was asked for, or the only one. Raises: SpecsError, naming those that there are."""
        if self.table is None and len(tables) == 1:
            return next(iter(tables.values()))
        names = ", ".join(map(repr, tables))
        if not tables:
            raise SpecsError("The dictionary describes no table.")
        if self.table is None:
            raise SpecsError(f"The dictionary describes {len(tables)} tables: say which by --table ({names}).")
        if self.table not in tables:
            raise SpecsError(f"The dictionary describes no table {quote(self.table)}, but {names}.")
        return tables[self.table]


def open_source(content: bytes, *, table: str | None = None) -> Source:
    """Reads a dictionary's bytes as text, and as JSON where it begins as JSON does.

    Raises: SpecsError if it is binary or not the JSON that it begins as.
    """
    text = decode_public(content)
    if text is None:
        raise SpecsError(
            "The dictionary is a binary file, and none of the known formats is one; a spreadsheet may be saved as CSV."
        )
    document = None
    if text.lstrip()[:1] in ("{", "["):
        try:
            document = json.loads(text, parse_constant=lambda _: None)  # NaN and Infinity say nothing
        except (ValueError, RecursionError) as error:
            where = f": {error.msg} at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
            raise SpecsError(f"The dictionary is not JSON that can be read{where}.") from error
    return Source(content=content, text=text, document=document, table=table)
