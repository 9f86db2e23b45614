"""Finds columns of a table that may say whose a row is, so that its custodian can declare the unit of privacy.

Privacy: goes over the rows, at the request of whoever holds them, and tells names of columns alone; nothing of it gets
  into the draft.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

import polars as pl

from dpwgan.drafts.rows import MOMENT

Frames = Callable[[], Iterable[pl.DataFrame]]

# Rows of one value, in the mean, from which on it is a group rather than a person.
_MOST_ROWS = 50
# Different values below which a column whose name says nothing is a short list.
_FEWEST_VALUES = 100
_FEWEST_NAMED = 20
# An owner's columns go up and down from owner to owner; what is read off a code, or a number, comes in runs.
_CHANGES_OF_A_VALUE = 3

_OTHER_TYPES = ("date", "datetime", "time", "float", "boolean", "constant", "text", "drop")
_OWNER = (
    "person|patient|customer|client|member|household|hh|family|user|account|card|subject|participant|respondent|"
    "student|pupil|employee|worker|owner|holder|donor|policy|case|device|physician|doctor|surgeon|nurse|teacher|driver|"
    "judge|lawyer|officer|agent|tenant|"
    "(sur|first|last|full)[ _]?name|phone|msisdn|imei|iban|e?mail"
)
_NAME = re.compile(rf"name|(.*[^a-z])?(({_OWNER})([ _.-]?(id|no|nr|num|number|key|code))?|[pu]?id|key|mrn|ssn)")


def find_owners(draft: Mapping[str, Mapping[str, Any]], frames: Frames) -> list[str]:
    """The columns with several rows of many values that are named like a person's, or that others hang on.

    `frames` goes over the rows, as string cells, each time anew.
    """
    names = [name for name, keys in draft.items() if keys.get("type") not in _OTHER_TYPES and "derived" not in keys]
    named = {name for name in names if _is_named_so(name) or draft[name].get("uuid")}
    repeated = _find_repeated(names, frames, named=named)
    others = {
        name: cells
        for name, cells in repeated.items()
        if name not in named and len(cells) > _FEWEST_VALUES and not all(map(MOMENT.fullmatch, cells))
    }
    found = (named & repeated.keys()) | _find_bearers(others, frames)
    return [name for name in draft if name in found]


def _is_named_so(name: str) -> bool:
    words = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return _NAME.fullmatch(words) is not None


def _find_repeated(names: list[str], frames: Frames, *, named: Set[str]) -> dict[str, pl.Series]:
    """The values with several rows of each column; unless it is `named` so, if few each and most in all."""
    counts: dict[str, pl.DataFrame] = {}
    rows = 0
    for frame in frames():
        rows += frame.height
        for name in set(names).intersection(frame.columns):
            own = frame.select(cell=name).group_by("cell").len()
            both = pl.concat([counts[name], own]) if name in counts else own
            counts[name] = both.group_by("cell").agg(pl.col("len").sum())
    repeated = {}
    for name, own in counts.items():
        several = own.filter(pl.col("cell") != "", pl.col("len") > 1)
        are_few = rows / 2 <= several["len"].sum() <= _MOST_ROWS * several.height
        if several.height >= _FEWEST_NAMED and (name in named or are_few):
            repeated[name] = several["cell"]
    return repeated


def _find_bearers(repeated: Mapping[str, pl.Series], frames: Frames) -> set[str]:
    """Those on which another column hangs: it has one cell in all rows of a value, and changes from value to value."""
    told: dict[str, pl.DataFrame] = {}
    for frame in frames() if repeated else ():
        for name, cells in repeated.items():
            others = [other for other in told.get(name, frame).columns if other != name]
            if not others:
                continue
            own = frame.select(name, *others).filter(pl.col(name).is_in(cells.implode()))
            both = pl.concat([told[name], own]) if name in told else own
            groups = both.group_by(name, maintain_order=True)
            low, high = groups.agg(pl.col(others).min()), groups.agg(pl.col(others).max())
            told[name] = low.select(name, *(other for other in others if low[other].equals(high[other])))
    return {
        name for name, table in told.items() if _go_up_and_down(table.sort(pl.col(name).str.len_bytes(), name), name)
    }


def _go_up_and_down(table: pl.DataFrame, name: str) -> bool:
    columns = (table[other] for other in table.columns if other != name)
    return any((cells != cells.shift()).sum() > _CHANGES_OF_A_VALUE * cells.n_unique() for cells in columns)
