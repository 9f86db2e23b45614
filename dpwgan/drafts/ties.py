"""Finds what two columns have in common in every row of a table, so that its custodian can say it in the specs.

Privacy: goes over the rows, at the request of whoever holds them, and tells names of columns alone; nothing of it gets
  into the draft.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import permutations
from typing import Any, cast

import polars as pl

from dpwgan.drafts.entry import list_holes
from dpwgan.errors import SpecsError
from dpwgan.table.calendar import CalendarColumn
from dpwgan.table.moments import read_moments
from dpwgan.table.specs.columns import parse_column
from dpwgan.table.specs.keys import Keys

Pairs = Sequence[tuple[str, str]]
# Of a column, what is told and the column of moments that tells it: which cells come with which.
Told = dict[tuple[str, str, str], pl.DataFrame]

# In fewer rows much is true by chance, and in fewer of each year or weekday.
_FEWEST_ROWS = 100
_FEWEST_EACH = 5
# How much less the time between two moments varies than they do, where the one is made of the other.
_TIMES_LESS = 4
# What a moment tells, and how that is written.
_TELLING = {"year": "%Y", "month": "%m", "weekday": "%u", "hour": "%H"}
# Rows that drop most of what is not so.
_SOME = 1_000
_ALWAYS = {"min": "0001-01-01", "max": "9999-01-01"}


def find_ties(
    draft: Mapping[str, Mapping[str, Any]], frames: Iterable[pl.DataFrame]
) -> tuple[dict[str, str], dict[str, str], dict[str, tuple[str, str]]]:
    """The columns of codes with which all longer codes of another begin, those of moments never before another's, and
    those that moments of another tell.

    `frames` goes over the rows, as string cells, and has all columns. Of each column found, the other one, and of the
    last ones what it is of these moments: their year, month, weekday or hour.
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
    parts = [(part, of) for part, of in permutations(codes, 2) if not digits[part] or digits[part] != digits[of]]
    every = [*permutations(days, 2)]
    orders = every
    few = [name for name, keys in known.items() if keys["type"] in ("enum", "integer", "boolean")]
    told: Told = {(name, what, day): pl.DataFrame() for name in few for day in days for what in _TELLING}
    ends: list[pl.DataFrame] = []
    rows = 0
    for frame in frames:
        rows += frame.height
        moments = pl.DataFrame([read_moments(frame[name], column) for name, column in days.items()])
        parts = _keep(frame, parts, lambda part, whole: whole.str.starts_with(part))
        orders = _keep(moments, orders, lambda late, soon: late >= soon)
        _drop_untold(told, frame, moments)
        between = moments.select((pl.col(late) - pl.col(soon)).alias(f"{late}\0{soon}") for late, soon in every)
        values = pl.concat([frame.select(pl.col(codes).str.len_chars()), moments, between], how="horizontal")
        ends += [values.min(), values.max()]
    if rows < _FEWEST_ROWS:
        return {}, {}, {}
    whole = pl.concat(ends)
    low, high = whole.min().row(0, named=True), whole.max().row(0, named=True)
    # A column of nothing, or as long as the other, is no part; what lies before all of the other says nothing, unless
    # it is about as long before it in every row.
    parts = [(part, of) for part, of in parts if 0 < low[part] == high[part] < low[of]]
    spans = {name: high[name] - low[name] for name in low if low[name] is not None}
    orders = [
        (late, soon)
        for late, soon in orders
        if (soon, late) not in orders
        and (low[late] < high[soon] or _TIMES_LESS * spans[f"{late}\0{soon}"] < min(spans[late], spans[soon]))
    ]
    behind = Counter(late for late, _ in orders)
    # Of several others the last one stays: the longest, and the one that is itself behind most.
    begun, ordered = sorted(parts, key=lambda pair: high[pair[1]]), sorted(orders, key=lambda pair: behind[pair[1]])
    follow = {
        name: (what, day)
        for (name, what, day), pairs in told.items()
        if pairs["cell"].n_unique() > 1 and _FEWEST_EACH * pairs.height <= rows
    }
    return dict(begun), dict(ordered), follow


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


def _keep(frame: pl.DataFrame, pairs: Pairs, test: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> list[tuple[str, str]]:
    """The pairs of which something is true in all rows that have both."""
    for some in (frame.head(_SOME), frame):
        tests = [test(pl.col(one), pl.col(other)).all().alias(str(index)) for index, (one, other) in enumerate(pairs)]
        pairs = [pair for pair, holds in zip(pairs, some.select(tests).row(0), strict=True) if holds] if tests else []
    return [*pairs]


def _count_digits(keys: Mapping[str, Any]) -> int | None:
    """How many digits all whole numbers of a column have; 0 for codes of any length, None for other numbers."""
    if keys["type"] == "enum":
        return 0
    least, most = (max(keys.get("width", 1), len(str(keys[end]))) for end in ("min", "max"))
    return most if least == most and keys["min"] >= 0 else None
