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

# In fewer rows much is true by chance.
_FEWEST_ROWS = 100
_ALWAYS = {"min": "0001-01-01", "max": "9999-01-01"}


def find_ties(
    draft: Mapping[str, Mapping[str, Any]], frames: Iterable[pl.DataFrame]
) -> tuple[dict[str, str], dict[str, str]]:
    """The columns of codes with which all longer codes of another begin, and those of moments never before another's.

    `frames` goes over the rows, as string cells, and has all columns. Of each column found, the other one.
    """
    known = {name: keys for name, keys in draft.items() if "derived" not in keys and not list_holes(keys)}
    codes = [name for name, keys in known.items() if keys["type"] == "enum" or "width" in keys]
    dated = {name: keys for name, keys in known.items() if keys["type"] in ("date", "datetime")}
    days = {name: column for name, keys in dated.items() if (column := _choose_reader(name, keys)) is not None}
    parts, orders = [*permutations(codes, 2)], [*permutations(days, 2)]
    ends: list[pl.DataFrame] = []
    rows = 0
    for frame in frames:
        rows += frame.height
        moments = pl.DataFrame([read_moments(frame[name], column) for name, column in days.items()])
        parts = _keep(frame, parts, lambda part, whole: whole.str.starts_with(part))
        orders = _keep(moments, orders, lambda late, soon: late >= soon)
        values = pl.concat([frame.select(pl.col(codes).str.len_chars()), moments], how="horizontal")
        ends += [values.min(), values.max()]
    if rows < _FEWEST_ROWS:
        return {}, {}
    whole = pl.concat(ends)
    low, high = whole.min().row(0, named=True), whole.max().row(0, named=True)
    # A column of nothing, or as long as the other, is no part; what lies before all of the other says nothing.
    parts = [(part, of) for part, of in parts if 0 < low[part] == high[part] < low[of]]
    orders = [(late, soon) for late, soon in orders if (soon, late) not in orders and low[late] < high[soon]]
    behind = Counter(late for late, _ in orders)
    # Of several others the last one stays: the longest, and the one that is itself behind most.
    return dict(sorted(parts, key=lambda pair: high[pair[1]])), dict(sorted(orders, key=lambda pair: behind[pair[1]]))


def _choose_reader(name: str, keys: Mapping[str, Any]) -> CalendarColumn | None:
    """A column of moments in that format, whenever they are; None where the format is none that can be read."""
    form = {key: keys[key] for key in ("type", "format") if key in keys}
    with suppress(SpecsError):
        return cast("CalendarColumn", parse_column(Keys(name, form | _ALWAYS)))
    return None


def _keep(frame: pl.DataFrame, pairs: Pairs, test: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> list[tuple[str, str]]:
    """The pairs of which something is true in all rows that have both."""
    tests = [test(pl.col(one), pl.col(other)).all().alias(str(index)) for index, (one, other) in enumerate(pairs)]
    return [pair for pair, holds in zip(pairs, frame.select(tests).row(0), strict=True) if holds] if tests else []
