"""Finds what two columns have in common in every row of a table, so that its custodian can say it in the specs.

Privacy: goes over the rows, at the request of whoever holds them, and tells names of columns alone; nothing of it gets
  into the draft.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from itertools import combinations, permutations, product
from typing import Any, TypeVar, cast

import polars as pl

from dpwgan.drafts.entry import list_holes
from dpwgan.errors import SpecsError, quote
from dpwgan.table.calendar import CalendarColumn
from dpwgan.table.moments import read_moments
from dpwgan.table.specs.columns import parse_column
from dpwgan.table.specs.keys import Keys

_Key = TypeVar("_Key", bound=Hashable)
# Of a column, what is told and the column of moments that tells it: which cells come with which.
Told = dict[tuple[str, str, str], pl.DataFrame]

# In fewer rows much is true by chance, and in fewer of each year or weekday.
_FEWEST_ROWS = 100
_FEWEST_EACH = 5
# How much less the time between two moments varies than they do, where the one is made of the other.
_TIMES_LESS = 4
_UNITS = ("days", "hours", "minutes")
# What a moment tells, and how that is written.
_TELLING = {"year": "%Y", "month": "%m", "weekday": "%u", "hour": "%H"}
# Rows that drop most of what is not so.
_SOME = 1_000
_ALWAYS = {"min": "0001-01-01", "max": "9999-01-01"}


def find_ties(
    draft: Mapping[str, Mapping[str, Any]], frames: Iterable[pl.DataFrame]
) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """The columns of codes with which all longer codes of another begin, those of moments never before another's, and
    in words what follows from others: a year, month, weekday or hour, the time between two moments, or a number.

    `frames` goes over the rows, as string cells, and has all columns. Of each of the first columns, the other one.
    """
    known = {name: keys for name, keys in draft.items() if "derived" not in keys and not list_holes(keys)}
    digits = {
        name: _count_digits(keys)
        for name, keys in known.items()
        if keys["type"] in ("enum", "integer") and "uuid" not in keys
    }
    codes = [name for name in digits if digits[name] is not None]
    dated = {name: keys for name, keys in known.items() if keys["type"] in ("date", "datetime")}
    days = {name: column for name, keys in dated.items() if (column := _choose_reader(name, keys)) is not None}
    parts = {
        (part, of): pl.col(of).str.starts_with(pl.col(part)).all()
        for part, of in permutations(codes, 2)
        if not digits[part] or digits[part] != digits[of]
    }
    every = [*permutations(days, 2)]
    orders = {(late, soon): (pl.col(late) >= pl.col(soon)).all() for late, soon in every}
    whole_numbers = [
        name for name in digits if known[name]["type"] == "integer" and known[name]["min"] < known[name]["max"]
    ]
    numbers = _list_numbers(whole_numbers, every)
    few = [name for name, keys in known.items() if keys["type"] in ("enum", "integer", "boolean")]
    told: Told = {(name, what, day): pl.DataFrame() for name in few for day in days for what in _TELLING}
    ends: list[pl.DataFrame] = []
    rows = 0
    for frame in frames:
        rows += frame.height
        moments = pl.DataFrame([read_moments(frame[name], column) for name, column in days.items()])
        parts, orders = _keep(frame, parts), _keep(moments, orders)
        cast_numbers = frame.select(pl.col(whole_numbers).cast(pl.Int64, strict=False))
        numbers = _keep(pl.concat([cast_numbers, moments], how="horizontal"), numbers)
        _drop_untold(told, frame, moments)
        between = moments.select((pl.col(late) - pl.col(soon)).alias(f"{late}\0{soon}") for late, soon in every)
        values = pl.concat([frame.select(pl.col(codes).str.len_chars()), moments, between], how="horizontal")
        ends += [values.min(), values.max()]
    if rows < _FEWEST_ROWS:
        return {}, {}, []
    whole = pl.concat(ends)
    low, high = whole.min().row(0, named=True), whole.max().row(0, named=True)
    # A column of nothing, or as long as the other, is no part; what lies before all of the other says nothing, unless
    # it is about as long before it in every row.
    begun = [(part, of) for part, of in parts if 0 < low[part] == high[part] < low[of]]
    spans = {name: high[name] - low[name] for name in low if low[name] is not None}
    ordered = [
        (late, soon)
        for late, soon in orders
        if (soon, late) not in orders
        and (low[late] < high[soon] or _TIMES_LESS * spans[f"{late}\0{soon}"] < min(spans[late], spans[soon]))
    ]
    behind = Counter(late for late, _ in ordered)
    # Of several others the last one stays: the longest, and the one that is itself behind most.
    begun, ordered = sorted(begun, key=lambda pair: high[pair[1]]), sorted(ordered, key=lambda pair: behind[pair[1]])
    follow = [
        f"{quote(name)} follows from the {what} of {quote(day)}"
        for (name, what, day), pairs in told.items()
        if pairs["cell"].n_unique() > 1 and _FEWEST_EACH * pairs.height <= rows
    ]
    return dict(begun), dict(ordered), [*follow, *numbers]


def _list_numbers(names: list[str], moments: list[tuple[str, str]]) -> dict[str, pl.Expr]:
    """What whole numbers may follow from, in words, and how that is seen."""
    tests = {}
    for late, soon in moments:
        end, begin = pl.col(late).dt, pl.col(soon).dt
        passed = {unit: getattr((pl.col(late) - pl.col(soon)).dt, f"total_{unit}")() for unit in _UNITS}
        passed["full years"] = end.year() - begin.year() - (end.strftime("%m%d") < begin.strftime("%m%d"))
        for unit, name in product(passed, names):
            equal = passed[unit] == pl.col(name)
            tests[f"{quote(name)} is the {unit} from {quote(soon)} to {quote(late)}"] = equal.any() & equal.all()
    for one, other in combinations(names, 2):
        for said, result in (("sum", pl.col(one) + pl.col(other)), ("difference", pl.col(one) - pl.col(other))):
            tests[f"the {said} of {quote(one)} and {quote(other)} is the same"] = result.drop_nulls().n_unique() == 1
    return tests


def _drop_untold(told: Told, frame: pl.DataFrame, moments: pl.DataFrame) -> None:
    """Adds rows to the pairs of what is told and a cell, and drops those in which one has several cells."""
    tellings = {(what, day.name): day.dt.strftime(_TELLING[what]) for what in _TELLING for day in moments}
    for key in [*told]:
        pairs = pl.DataFrame({"told": tellings[key[1:]], "cell": frame[key[0]]})
        for some in (pairs.head(_SOME), pairs):
            own = some.filter(pl.col("told").is_not_null(), pl.col("cell") != "").unique()
            told[key] = pl.concat([told[key], own] if told[key].width else [own]).unique()
            if told[key]["told"].is_duplicated().any():
                del told[key]
                break


def _choose_reader(name: str, keys: Mapping[str, Any]) -> CalendarColumn | None:
    """A column of moments in that format, whenever they are; None where the format is none that can be read."""
    form = {key: keys[key] for key in ("type", "format") if key in keys}
    with suppress(SpecsError):
        return cast("CalendarColumn", parse_column(Keys(name, form | _ALWAYS)))
    return None


def _keep(frame: pl.DataFrame, tests: Mapping[_Key, pl.Expr]) -> dict[_Key, pl.Expr]:
    """Those of the tests that all rows pass that have what is tested."""
    for some in (frame.head(_SOME), frame):
        found = some.select(test.alias(str(place)) for place, test in enumerate(tests.values())).row(0) if tests else ()
        tests = {key: test for (key, test), holds in zip(tests.items(), found, strict=True) if holds}
    return {**tests}


def _count_digits(keys: Mapping[str, Any]) -> int | None:
    """How many digits all whole numbers of a column have; 0 for codes of any length, None for other numbers."""
    if keys["type"] == "enum":
        return 0
    least, most = (max(keys.get("width", 1), len(str(keys[end]))) for end in ("min", "max"))
    return most if least == most and keys["min"] >= 0 else None
