"""Finds columns of a table that may say whose a row is, so that its custodian can declare the unit of privacy.

Privacy: goes over the rows, at the request of whoever holds them, and tells names of columns alone; nothing of it gets
  into the draft.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

import polars as pl

from dpwgan.drafts.dependence import KEY, ROWS, narrow
from dpwgan.drafts.entry import split_words
from dpwgan.drafts.rows import MOMENT
from dpwgan.errors import quote

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
    "judge|lawyer|officer|badge|agent|tenant|"
    "(sur|first|last|full)[ _]?name|phone|msisdn|imei|iban|e?mail"
)
_NAME = re.compile(rf"name|(.*[^a-z])?(({_OWNER})([ _.-]?(id|no|nr|num|number|key|code))?|[pu]?id|key|mrn|ssn)")


def find_owners(draft: Mapping[str, Mapping[str, Any]], frames: Frames) -> dict[str, list[str]]:
    """The columns with several rows of many values that are named like a person's, or that others hang on.

    `frames` goes over the rows, as string cells, each time anew. Of each, in words, those that have one cell in all its
    rows, but not in all rows of the table, and which is how many these are. A patient comes before the samples taken,
    which protect fewer of the same rows.
    """
    names = [name for name, keys in draft.items() if keys.get("type") not in _OTHER_TYPES and "derived" not in keys]
    named = {name for name in names if _NAME.fullmatch(split_words(name)) or draft[name].get("uuid")}
    repeated = _find_repeated(names, frames, named=named)
    told = _find_told(repeated, frames)
    found = {
        name: [other for other in told[name].columns[2:] if told[name][other].n_unique() > 1]
        for name in names
        if name in told and (name in named or _is_bearer(repeated[name], told[name]))
    }
    persons = {name for name in found if told[name][ROWS].sum() <= _MOST_ROWS * told[name].height}
    ordered = sorted(found, key=lambda name: (name not in persons, len(persons.intersection(found[name]))))
    return {name: [_say(other, told[name]) for other in found[name] if other not in found] for name in ordered}


def _find_repeated(names: list[str], frames: Frames, *, named: Set[str]) -> dict[str, pl.Series]:
    """The values with several rows of each column; unless it is `named` so, if few each and most in all."""
    counts: dict[str, pl.DataFrame] = {}
    rows = 0
    for frame in frames():
        rows += frame.height
        for name in set(names).intersection(frame.columns):
            counts[name] = narrow(counts.get(name), frame.select(), frame[name].replace("", None))
    repeated = {}
    for name, own in counts.items():
        several = own.filter(pl.col(ROWS) > 1)
        are_few = rows / 2 <= several[ROWS].sum() <= _MOST_ROWS * several.height
        if several.height >= _FEWEST_NAMED and (name in named or are_few):
            repeated[name] = several[KEY]
    return repeated


def _find_told(repeated: Mapping[str, pl.Series], frames: Frames) -> dict[str, pl.DataFrame]:
    """What each value of those columns tells of others, which have one cell in all its rows."""
    told: dict[str, pl.DataFrame] = {}
    for frame in frames() if repeated else ():
        for name, cells in repeated.items():
            own = frame.filter(pl.col(name).is_in(cells.implode()))
            told[name] = narrow(told.get(name), own.drop(name), own[name])
    return told


def _say(name: str, told: pl.DataFrame) -> str:
    is_size = told[name].cast(pl.Int64, strict=False).eq_missing(told[ROWS]).all()
    return quote(name) + " (how many these are: of the type 'size')" * is_size


def _is_bearer(cells: pl.Series, told: pl.DataFrame) -> bool:
    """Whether many values, which are no moments, tell a column that goes up and down from value to value."""
    if len(cells) <= _FEWEST_VALUES or all(map(MOMENT.fullmatch, cells)):
        return False
    columns = told.sort(pl.col(KEY).str.len_bytes(), KEY).get_columns()[2:]
    return any((own != own.shift()).sum() > _CHANGES_OF_A_VALUE * own.n_unique() for own in columns)
