"""Finds what two columns have in common in every row of a table, so that its custodian can say it in the specs.

Privacy: goes over the rows, at the request of whoever holds them, and tells names of columns alone; nothing of it gets
  into the draft.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from itertools import combinations, permutations, product
from typing import Any, TypeVar, cast

import polars as pl

from dpwgan.drafts.dependence import count_others, narrow
from dpwgan.drafts.entry import list_holes
from dpwgan.errors import SpecsError, quote
from dpwgan.table.calendar import CalendarColumn
from dpwgan.table.moments import read_moments
from dpwgan.table.specs.columns import parse_column
from dpwgan.table.specs.keys import Keys

_Key = TypeVar("_Key", bound=Hashable)
# In fewer rows much is true by chance, in fewer of each year or code, and where fewer could have been otherwise.
_FEWEST_ROWS = 100
_FEWEST_EACH = 2
_FEWEST_OTHERS = 20
# How much less the time between two moments varies than they do, where the one is made of the other.
_TIMES_LESS = 4
_CODES, _NUMBERS = ("enum", "integer", "boolean"), ("integer", "float")
_UNITS = ("days", "hours", "minutes")
# What a moment tells, and how that is written.
_TELLING = {"year": "%Y", "month": "%m", "weekday": "%u", "hour": "%H", "day": "%Y-%m-%d"}
_MOST_PARTS = 12
# Of more numbers there are too many sums and products.
_MOST_NUMBERS = 20
# Values of a column that are looked at: of so many, two are neither 0 nor 1.
_SOME_VALUES = 4
# Rows that drop most of what is not so.
_SOME = 1_000
_ALWAYS = {"min": "0001-01-01", "max": "9999-01-01"}


def find_ties(draft: Mapping[str, Mapping[str, Any]], frames: Iterable[pl.DataFrame]) -> list[str]:
    """What holds in all rows, a sentence each: which moments are never before others, which cells follow from others.

    They may be the same, follow from part of a moment, from a code, or from whether a cell is blank; or be the time
    between two moments, or a sum, difference, product or ratio. `frames` goes over the rows, as string cells, and has
    all columns.
    """
    known = {name: keys for name, keys in draft.items() if "derived" not in keys and not list_holes(keys)}
    timed = {name: keys for name, keys in known.items() if keys["type"] in ("date", "datetime", "time")}
    readers = {name: column for name, keys in timed.items() if (column := _choose_reader(name, keys)) is not None}
    days = [name for name in readers if known[name]["type"] != "time"]
    clocks = [name for name in readers if name not in days]
    every = [*permutations(days, 2)]
    orders = {(late, soon): (pl.col(late) >= pl.col(soon)).all() for late, soon in every}
    codes = [name for name, keys in known.items() if keys["type"] in _CODES and "uuid" not in keys]
    # Long lists, as of diagnoses, are left open, and tell others none the less.
    long = [name for name, keys in draft.items() if name not in known and keys.get("type", "") in (None, "enum")]
    varied = [name for name, keys in known.items() if keys["type"] in _NUMBERS and keys.get("min") != keys.get("max")]
    whole = [name for name in varied if name in codes]
    others = [name for name in dict.fromkeys((*codes, *long, *timed)) if name not in varied]
    same = {
        (first, name): pl.col(first).eq_missing(pl.col(name)).all()
        for first, name in (*combinations(varied, 2), *combinations(others, 2))
    }
    distinct: dict[str, set[Any]] = {name: set() for name in (*varied, *others)}
    numbers = {**_list_times(codes, every, [*permutations(clocks, 2)]), **_list_sums(whole, varied)}
    made = _list_made(
        {name: known[name].get("decimals", 0) for name in varied if name in whole or "decimals" in known[name]}
    )
    listed = {name: draft[name].get("missing") or () for name in (*known, *long)}
    blank = {name: pl.col(name).is_in(["", *map(str, missing)]) for name, missing in listed.items()}
    seen = [pl.when(~blank[name]).then(name).alias(quote(name)) for name in (*codes, *long, *days)]
    may_be = [name for name, keys in known.items() if "missing" in keys or "optional" in keys]
    seen += [blank[name].cast(pl.String).alias(f"whether {quote(name)} is blank") for name in may_be]
    told: dict[str, pl.DataFrame] | None = None
    ends: list[pl.DataFrame] = []
    rows = 0
    for frame in frames:
        rows += frame.height
        moments = pl.DataFrame([read_moments(frame[name], column) for name, column in readers.items()])
        orders = _keep(moments, orders)
        cast_numbers = frame.select(pl.col({*codes, *varied}).cast(pl.Float64, strict=False))
        numbers = _keep(pl.concat([cast_numbers, moments], how="horizontal"), numbers)
        made = _keep(cast_numbers, made)
        cells = pl.DataFrame([*cast_numbers.select(varied), *frame.select(others)])
        same = _keep(cells, same)
        for name, some in distinct.items():
            some.update(cells[name].drop_nulls().unique().head(_SOME_VALUES))
        parts = [
            moments[day].dt.strftime(form).alias(f"the {part} of {quote(day)}")
            for day, (part, form) in product(days, _TELLING.items())
        ]
        told = _keep_told(told, frame.select(seen), parts, dates=[*map(quote, days)], rows=rows)
        values = moments.with_columns((pl.col(late) - pl.col(soon)).alias(f"{late}\0{soon}") for late, soon in every)
        ends += [values.min(), values.max()]
    if rows < _FEWEST_ROWS:
        return []
    both = pl.concat(ends)
    low, high = both.min().row(0, named=True), both.max().row(0, named=True)
    # What lies before all of the other says nothing, unless it is about as long before it in every row.
    spans = {name: high[name] - low[name] for name in low if low[name] is not None}
    ordered = [
        (late, soon)
        for late, soon in orders
        if (soon, late) not in orders
        and (low[late] < high[soon] or _TIMES_LESS * spans[f"{late}\0{soon}"] < min(spans[late], spans[soon]))
    ]
    behind = Counter(late for late, _ in ordered)
    # Of several others the last one stays, which is itself behind most.
    last = dict(sorted(ordered, key=lambda pair: behind[pair[1]]))
    said = [f"{quote(late)} is not before {quote(soon)}" for late, soon in last.items()]
    pairs = {frozenset(pair) for pair in same if len(distinct[pair[0]]) > 1}
    # Of several that are the same, each is told of with the first of them.
    firsts = {name: first for first, name in reversed(same) if {first, name} in pairs}
    alike = [f"{quote(name)} is the same as {quote(first)}" for name, first in reversed(firsts.items())]
    # A flag divides by 1 alone, is soon the product of two others, and a ratio where it is not 0.
    amounts = {name for name, some in distinct.items() if len(some - {0, 1}) > 1}
    # Of the same numbers the last is told of, as what is computed mostly stands behind.
    once = {
        names: line
        for line, names, no_flags in made
        if no_flags <= amounts and not any(pair <= names for pair in pairs)
    }
    sums = [line for line, names in numbers if names not in pairs]
    return [*alike, *said, *_say_told(told or {}, {*map(quote, firsts)}), *sums, *once.values()]


def _list_times(
    names: list[str], moments: list[tuple[str, str]], clocks: list[tuple[str, str]]
) -> dict[tuple[str, frozenset[str]], pl.Expr]:
    """Between which moments, or times of day, numbers may be the time, and how that is seen.

    The keys are that in words, and the names of all these columns.
    """
    tests = {}
    for late, soon in (*moments, *clocks):
        end, begin = pl.col(late).dt, pl.col(soon).dt
        passed = {unit: getattr((pl.col(late) - pl.col(soon)).dt, f"total_{unit}")() for unit in _UNITS}
        passed["full years"] = end.year() - begin.year() - (end.strftime("%m%d") < begin.strftime("%m%d"))
        if (late, soon) in clocks:
            passed = {"minutes": passed["minutes"] % 1440}
        for unit, name in product(passed, names):
            equal = passed[unit] == pl.col(name)
            said = f"{quote(name)} is the {unit} from {quote(soon)} to {quote(late)}"
            tests[said, frozenset((name, soon, late))] = equal.any() & equal.all()
    return tests


def _list_sums(whole: list[str], numbers: list[str]) -> dict[tuple[str, frozenset[str]], pl.Expr]:
    """Which whole numbers two by two, or numbers side by side, may make one sum or difference, and how that is seen.

    The keys are that in words, and the names of all these numbers.
    """
    tests = {}
    for one, other in combinations(whole, 2):
        for said, result in (("sum", pl.col(one) + pl.col(other)), ("difference", pl.col(one) - pl.col(other))):
            line = f"the {said} of {quote(one)} and {quote(other)} is the same"
            tests[line, frozenset((one, other))] = result.drop_nulls().n_unique() == 1
    for size in range(3, _MOST_PARTS + 1):
        for parts in zip(*(numbers[place:] for place in range(size)), strict=False):
            result = pl.sum_horizontal(parts, ignore_nulls=False)
            line = f"the sum of {', '.join(map(quote, parts))} is the same"
            tests[line, frozenset(parts)] = result.max() - result.min() < 1e-6
    return tests


def _list_made(decimals: Mapping[str, int]) -> dict[tuple[str, frozenset[str], frozenset[str]], pl.Expr]:
    """Which numbers may be made of two others, or be the sum of some side by side, and how that is seen.

    To the digits that they have. The keys are that in words, the names of all these numbers, and of those that must be
    no flags for it to mean anything: products, ratios and divisors.
    """
    names = list(decimals) if len(decimals) <= _MOST_NUMBERS else []
    runs = [names[at : at + size] for size in range(3, _MOST_PARTS + 1) for at in range(len(names) - size + 1)]
    tests = {}
    for own in names:
        others = [name for name in names if name != own]
        made: dict[tuple[str, frozenset[str], frozenset[str]], pl.Expr] = {}
        for parts in (*combinations(others, 2), *(run for run in runs if own not in run)):
            said = f"the sum of {', '.join(map(quote, parts))}"
            made[said, frozenset(parts), frozenset()] = pl.sum_horizontal(parts, ignore_nulls=False)
        for one, other in combinations(others, 2):
            said = f"the product of {quote(one)} and {quote(other)}"
            made[said, frozenset((one, other)), frozenset((own,))] = pl.col(one) * pl.col(other)
        for one, other in permutations(others, 2) if decimals[own] else ():
            ratio = pl.when(pl.col(other) != 0).then(pl.col(one) / pl.col(other))
            for said, result in ((f"{quote(one)} /", ratio), (f"{quote(one)} in percent of", 100 * ratio)):
                made[f"{said} {quote(other)}", frozenset((one, other)), frozenset((own, other))] = result
        for (said, parts_of_it, no_flags), result in made.items():
            off = (result - pl.col(own)).abs()
            is_near = (off < 0.5001 * 10.0 ** -decimals[own]).all()
            tests[f"{quote(own)} is {said}", parts_of_it | {own}, no_flags] = off.count().gt(0) & is_near
    return tests


def _keep_told(
    told: Mapping[str, pl.DataFrame] | None, cells: pl.DataFrame, parts: list[pl.Series], *, dates: list[str], rows: int
) -> dict[str, pl.DataFrame]:
    """By key, a part of a moment or a code with several rows of each, the cells that it tells so far (`narrow`)."""
    kept = {}
    codes = cells.drop(dates)
    for key in (*parts, *codes):
        if (told is not None and key.name not in told) or _FEWEST_EACH * key.n_unique() > max(rows, _SOME):
            continue
        others = codes.drop(key.name) if key.name in codes.columns else cells
        if told is None:  # most of what is not so is seen in few rows
            others = others.select(narrow(None, others.head(_SOME), key.head(_SOME)).columns[2:])
        found = narrow(None if told is None else told[key.name], others, key)
        if found.width > 2:
            kept[key.name] = found
    return kept


def _say_told(told: Mapping[str, pl.DataFrame], again: Set[str]) -> Iterator[str]:
    """What follows from others, in words: from part of a moment, and from the code of fewest values.

    Nothing of columns that are others `again`.
    """
    found: dict[tuple[str, bool], str] = {}
    for key, table in sorted(told.items(), key=lambda item: item[1].height):
        for name in table.columns[2:]:
            is_own = name in again or key.endswith((f" {name}", *again)) or found.get((key, False)) == name
            if not is_own and count_others(table, name) >= _FEWEST_OTHERS:
                found.setdefault((name, key.startswith("the ")), key)
    for (name, _), key in found.items():
        yield f"{name} follows from {key}"


def _choose_reader(name: str, keys: Mapping[str, Any]) -> CalendarColumn | None:
    """A column of moments in that format, whenever they are; None where the format is none that can be read."""
    form = {key: keys[key] for key in ("type", "format") if key in keys}
    ends = {} if keys["type"] == "time" else _ALWAYS
    with suppress(SpecsError):
        return cast("CalendarColumn", parse_column(Keys(name, form | ends)))
    return None


def _keep(frame: pl.DataFrame, tests: Mapping[_Key, pl.Expr]) -> dict[_Key, pl.Expr]:
    """Those of the tests that all rows pass that have what is tested."""
    for some in (frame.head(_SOME), frame):
        found = some.select(test.alias(str(place)) for place, test in enumerate(tests.values())).row(0) if tests else ()
        tests = {key: test for (key, test), holds in zip(tests.items(), found, strict=True) if holds}
    return {**tests}
