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
# Pairs of rows of one value that would be of one year as well, were they spread over the years by chance.
_FEWEST_TWICE = 20

_OTHER_TYPES = ("date", "datetime", "time", "float", "boolean", "constant", "text", "drop")
_OWNER = (
    "person|patient|customer|client|member|household|hh|family|user|account|card|subject|participant|respondent|"
    "student|pupil|employee|worker|owner|holder|donor|policy|case|device|physician|doctor|surgeon|nurse|teacher|driver|"
    "judge|lawyer|officer|badge|agent|tenant|"
    "(sur|first|last|full)[ _]?name|phone|msisdn|imei|iban|e?mail"
)
_NAME = re.compile(rf"name|(.*[^a-z])?(({_OWNER})([ _.-]?(id|no|nr|num|number|key|code))?|[pu]?id|key|mrn|ssn)")
_TURN = re.compile(
    r"(.*[^a-z])?(year|yr|quarter|month|week|day|date|time|wave|round|period|occasion|visit|turn|season|semester|"
    r"jahr|quartal|monat|woche|kw|tag|datum|zeit|welle|runde)([^a-z].*)?"
)
_YEAR = re.compile("(1[89]|2[01])[0-9]{2}")


def find_owners(draft: Mapping[str, Mapping[str, Any]], frames: Frames) -> dict[str, list[str]]:
    """The columns with several rows of many values that are named like a person's, that others hang on, or that have
    one row a year, or of another turn.

    `frames` goes over the rows, as string cells, each time anew. Of each, in words, those that have one cell in all its
    rows, but not in all rows of the table, and which is how many these are. A patient comes before the samples taken,
    which protect fewer of the same rows.
    """
    names = [name for name, keys in draft.items() if keys.get("type") not in _OTHER_TYPES and "derived" not in keys]
    named = {name for name in names if _NAME.fullmatch(split_words(name)) or draft[name].get("uuid")}
    repeated = _find_repeated(names, frames, named=named)
    told = _find_told(repeated, frames)
    bearers = {name for name in told if name in named or _is_bearer(repeated[name], told[name])}
    bearers |= _find_panels({name: told[name][ROWS] for name in told if name not in bearers}, frames)
    found = {
        name: [other for other in told[name].columns[2:] if told[name][other].n_unique() > 1]
        for name in names
        if name in bearers
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


def _find_panels(sizes: Mapping[str, pl.Series], frames: Frames) -> set[str]:
    """Those columns, with so many rows of each value, that have no two rows of one value and one year, or other turn.

    Where some would, were the rows spread over the turns by chance.
    """
    lists: dict[str, set[str]] = {}
    for frame in frames() if sizes else ():
        for column in frame.get_columns():
            known = lists.setdefault(column.name, set())
            if len(known) <= _FEWEST_VALUES:
                known.update(column.unique().head(_FEWEST_VALUES + 1))
    turns = {name: len(cells) for name, cells in lists.items() if len(cells) > 1 and _are_turns(name, cells)}
    rows = {
        (name, turn): pl.Series(dtype=pl.UInt64)
        for name, own in sizes.items()
        for turn, count in turns.items()
        if count <= _FEWEST_VALUES
        and (own * (own - 1)).sum() / 2 >= _FEWEST_TWICE * count
        and not _are_turns(name, lists[name])
    }
    for frame in frames() if rows else ():
        for pair, before in [*rows.items()]:  # most of what is not so is seen in few rows
            own = frame.select(pl.struct(pair).hash().filter(pl.col(pair[0]) != "")).to_series()
            rows[pair] = pl.concat([before, own])
            if rows[pair].n_unique() < len(rows[pair]):
                del rows[pair]
    return {name for name, _ in rows}


def _are_turns(name: str, cells: Set[str]) -> bool:
    """Whether a column is when a row is, by its name, or as all cells are years or moments."""
    is_time = all(map(_YEAR.fullmatch, cells)) or all(map(MOMENT.fullmatch, cells))
    return is_time or _TURN.fullmatch(split_words(name)) is not None


def _say(name: str, told: pl.DataFrame) -> str:
    is_size = told[name].cast(pl.Int64, strict=False).eq_missing(told[ROWS]).all()
    return quote(name) + " (how many these are: of the type 'size')" * is_size


def _is_bearer(cells: pl.Series, told: pl.DataFrame) -> bool:
    """Whether many values, which are no moments, tell a column that goes up and down from value to value."""
    if len(cells) <= _FEWEST_VALUES or all(map(MOMENT.fullmatch, cells)):
        return False
    columns = told.sort(pl.col(KEY).str.len_bytes(), KEY).get_columns()[2:]
    return any((own != own.shift()).sum() > _CHANGES_OF_A_VALUE * own.n_unique() for own in columns)
