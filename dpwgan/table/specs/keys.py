"""What the specs say of one column, its cells as text and numbers, and the sentence that refuses it."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dpwgan.errors import SpecsError, quote
from dpwgan.table.codebook import Codebook
from dpwgan.table.numerals import BLANKS, read_number
from dpwgan.table.schema import Column, write_whole

MAX_CATEGORIES = 10_000
"""Most codes an enum may have without a list. A column that wide is a number in truth, or a slip of the pen, and would
take most of the network; with a written list it is taken at its word."""

MAX_WHOLE_NUMBER = 2**53
"""Whole numbers beyond this are not exact in a double, so a cell could not be restored."""

NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
MISSING_KEYS = {"optional", "missing", "out_of_domain"}

LAYOUT, UNIT = "layout", "unit"
"""The keys of the specs that may be no column. A column always has 'type' or 'derived'; these have neither."""


@dataclass(frozen=True)
class Keys:
    """The specs of one column, the codebook, and the column that it is relative to, if there is one."""

    name: str
    given: Mapping[str, Any]
    codebook: Codebook | None = None
    earlier: Column | None = None

    def __contains__(self, key: object) -> bool:
        return key in self.given

    def __getitem__(self, key: str) -> Any:
        return self.given[key]

    def get(self, key: str, default: Any = None) -> Any:
        """What is given for a key, or the default."""
        return self.given.get(key, default)

    def any_of(self, *keys: str) -> bool:
        """Says whether one of these keys is given."""
        return any(key in self.given for key in keys)

    @property
    def told_by(self) -> str | None:
        """The column since or above whose cells those of this one are told."""
        named: str | None = self.get("since", self.get("above"))
        return named

    @property
    def waives_range(self) -> bool:
        """Says whether the range is one that was read from rows and not paid for."""
        return "domain_privacy" in self and "values_from" not in self

    def refuse(self, reason: str) -> SpecsError:
        """The sentence that refuses the column."""
        return refuse_column(self.name, reason)

    def refuse_beside(self, key: str, *others: str) -> None:
        """Raises: SpecsError if one of the others is given beside a key."""
        for other in others:
            if other in self.given:
                raise self.refuse(f"{key!r} and {other!r} are both given; keep one")

    def read_missing(self, *, width: int = 0, decimals: int = 0, extra: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The cells that mean not available, the empty one last."""
        codes = [write_item(code, width=width, decimals=decimals) for code in self.get("missing", ())]
        cells: dict[str | Decimal, str] = {}
        for code in codes:
            cell = read_number(code)
            twin = cells.setdefault(code.strip(BLANKS) if cell is None else cell, code)
            if twin is not code:
                raise self.refuse(f"{quote(twin)} and {quote(code)} in 'missing' are the same cell")
        empty = self.get("optional", False) or "" in codes
        return (*dict.fromkeys((*(code for code in codes if code), *extra)), *(("",) if empty else ()))

    def read_out_of_domain(self, missing: tuple[str, ...]) -> Any:
        """What an illegal cell does. Raises: SpecsError if there is no missing code for it."""
        choice = self.get("out_of_domain", "reject")
        if choice == "missing" and not missing:
            raise self.refuse('"out_of_domain": "missing" needs a \'missing\' code or "optional": true')
        return choice


def write_item(item: Any, *, width: int = 0, decimals: int = 0) -> str:
    """Writes an item of the specs as the cell it stands for: strings as they are, numbers in the column's style."""
    if isinstance(item, str):
        return item
    if isinstance(item, int) or float(item).is_integer():
        return write_whole(int(item), width=width, decimals=decimals)
    text = format(Decimal(repr(item)), "f")
    behind = len(text.partition(".")[2])
    return text + "0" * max(0, decimals - behind)


def read_item(cell: str) -> str | int | Decimal:
    """The key that cells are compared by: "3", "03" and "3.0" are one number."""
    if cell.isdecimal() and cell.isascii():
        return int(cell)  # most cells by far, and much faster
    return Decimal(cell) if NUMBER.fullmatch(cell) else cell


def is_finite(number: Any) -> bool:
    """Says whether a number is one that a double can hold."""
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number beyond the largest double
        return False


def refuse_column(name: str, reason: str) -> SpecsError:
    """The sentence that refuses a column."""
    return SpecsError(f"Column {quote(name)} in the specs: {reason}.", column=name)


def declares(columns: Mapping[str, Mapping[str, Any]], key: str) -> bool:
    """Says whether LAYOUT or UNIT is among the specs, and is no column of that name."""
    return key in columns and not columns[key].keys() & {"type", "derived"}


def refuse_key(key: str, reason: str) -> SpecsError:
    """The sentence that refuses a LAYOUT or UNIT."""
    return SpecsError(f"The {key} in the specs: {reason}.", column=key)


def refuse_rule(number: int, reason: str, *, text: str | None = None) -> SpecsError:
    """The sentence that refuses a rule between columns, by its number, from 1, and its SQL if it has any."""
    return SpecsError(f"Rule {number} in the specs{'' if text is None else f', {quote(text)}'}: {reason}.")


def count_codes(keys: Keys) -> int:
    """The number of codes that 'count' or 'maxval' asks for, 0 without either."""
    if "count" in keys:
        return int(keys["count"])
    return int(keys["maxval"]) + 1 if "maxval" in keys else 0
