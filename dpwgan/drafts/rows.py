"""Fills what a dictionary leaves open from the rows, each such column marked as waived, so that the claim says so.

Privacy: a range or a list that is read from rows gives those rows away, and no epsilon covers it. This is the one place
  that makes specs of rows, on request; "domain_privacy": "waived" puts the column on the claim's list of what is not
  covered. What a dictionary says is never changed.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from dpwgan.drafts.entry import KEYS, choose_calendar, list_holes, split_words
from dpwgan.errors import DataError
from dpwgan.table.domains import MOST_CATEGORIES
from dpwgan.table.numerals import read_number
from dpwgan.table.specs.keys import MAX_WHOLE_NUMBER

Draft = Mapping[str, Mapping[str, Any]]

_MOST_DECIMALS = 17
# Those that a double holds for sure, before and behind the point.
_MOST_DIGITS = 15
# Digits that a number written from a single float has at the least beyond those that were meant.
_FEWEST_BEYOND = 4
# What programs write where nothing is known; beside numbers or moments alone it is taken for that.
_MARKS = {"NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan", "-", "."}
_MARKS |= {"#N/A", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!"}
# Days that never come.
_NEVER = re.compile(r"(0000-00-00|00[./]00[./]0000|9999-12-31|31[./]12[./]9999|12/31/9999)([ T].*)?")
# Different texts above which, and above a tenth of the rows, a column has names or free text.
_SURELY_LISTED = 100
# Different whole numbers up to which, and up to a hundredth of the rows, those with others between them are codes.
_MOST_CODES = 20

_COMPACT = "%Y%m%d"
_DATES = ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%m-%d-%Y", "%d-%m-%Y", "%Y/%m/%d")
_OTHER_DATES = ("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%b %d %Y", "%d%b%Y", "%d %B %Y", "%B %d, %Y")
# Of eight digits on end, others are taken for a number.
_YEARS = range(1800, 2200)
_TIMES = ("%H:%M", "%H:%M:%S")
_OTHER_TIMES = ("%I:%M %p", "%I:%M:%S %p", "%Hh%M")
_CODE = re.compile(r"-([1-9]|7{2,4}|8{2,4}|9{2,4})")
_MOST_CODES_BELOW = 5
_NAMED_CODE = re.compile(
    r"(.*[^a-z])?(code|zip|plz|postcode|postleitzahl|phone|telephone)([ _.-]?(no|nr|number))?[ _0-9]*"
)
# Rows of each of few numbers, such as the places of stations or what grades are paid, and steps between two of them.
_FEWEST_OF_FEW = 20
_STEPS_BETWEEN = 10
# Digits from which on whole numbers that all have as many are seldom amounts, and never years.
_CODE_DIGITS = 5
# Different numbers up to which the largest may be the sum of all others by chance.
_FEWEST_PARTS = 3
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,14}")
_PARTS = re.compile(r"[0-9]+(\.[0-9]+)+")


def _join(dates: tuple[str, ...], times: tuple[str, ...]) -> tuple[str, ...]:
    return (*dates, *times, *(f"{date}{between}{time}" for date in dates for between in " T:" for time in times))


_WRITTEN_OUT = _join((*_DATES, *_OTHER_DATES), (*_TIMES, *_OTHER_TIMES))
_CALENDARS = (
    ("%Y-%m", *_join((*_DATES, _COMPACT), _TIMES)),
    _WRITTEN_OUT,
    tuple(re.sub("%([dmHI])", r"%-\1", pattern) for pattern in _WRITTEN_OUT),
)
"""How moments are mostly written; by names of months and halves of days; and without leading zeros."""

_TAIL = re.compile(r"(?<=:[0-9]{2})(\.[0-9]+)?(Z|[+-][0-9]{2}:?[0-9]{2})?$")
MOMENT = re.compile(
    r"([0-9]{4}[-./][0-9]{1,2}[-./][0-9]{1,2}"
    r"|[0-9]{1,2}([-./ ][0-9]{1,2}[-./ ]|[-./ ]?[A-Za-z]{3,9}[-./ ]?)([0-9]{4}|[0-9]{2})"
    r"|[A-Za-z]{3,9} [0-9]{1,2},? [0-9]{4}|[0-9]{1,2}:[0-9]{2})([ T:].*)?"
)
"""What moments look like, in formats that are not known as well."""
_AMOUNT = re.compile(r"[<>~]?\(?[+-]?[$€£ ]*[+-]?[0-9][0-9., '\xa0\u202f]*([%$€£+]| [A-Za-z]{1,4})?\)?")
_LIMIT = re.compile(r"[<>≤≥]=? ?[0-9]+([.][0-9]+)?|[0-9]+([.][0-9]+)? ?\+|[^0-9]+")
"""How laboratories write what is too little or too much to be measured, and surveys the oldest: 90+; and words."""
_MOST_LIMITS = 5
_WITHOUT_NAME = re.compile(r"(Unnamed: \d+)?")
# Fractions of a second by their digits, and with the point.
_FRACTIONS = {0: "", 4: ".%3f", 7: ".%f"}


def fill_from_rows(
    draft: Draft, frames: Iterable[pl.DataFrame]
) -> tuple[dict[str, dict[str, Any]], list[str], dict[str, str]]:
    """The draft with its nulls filled from string cells, and behind it the table's columns that it does not name.

    Also which columns were filled or added, and by column why nulls are left, or what to look at again.
    """
    cells: dict[str, set[str]] = {}
    sums = Counter[str]()
    rows = 0
    for frame in frames:
        rows += frame.height
        sums.update(frame.select(pl.all().cast(pl.Float64, strict=False).sum()).row(0, named=True))
        if frame.width > 1 and frame.select(pl.all_horizontal(pl.all() == "").any()).item():
            raise DataError("some rows have nothing in any cell: take them out, or all columns would be optional")
        for column in frame.get_columns():
            cells.setdefault(column.name, set()).update(column.unique().to_list())
    untold = {name: {"type": "drop" if _WITHOUT_NAME.fullmatch(name) else None} for name in cells if name not in draft}
    named = {**draft, **untold}
    most = min(MOST_CATEGORIES, max(_SURELY_LISTED, rows // 10))
    filled = {
        name: _fill(named[name], cells[name], most=most, rows=rows, is_code=_is_named_code(name))
        for name in cells
        if list_holes(named[name])
    }
    whole = {name: filled.get(name, dict(keys)) for name, keys in named.items()}
    left = [name for name, keys in whole.items() if list_holes(keys)]
    why = {
        name: _say_why(whole[name], cells[name], rows=rows) if name in cells else "not in the table" for name in left
    }
    waived = [name for name in filled if filled[name] != named[name]]
    for name in cells.keys() - {*left}:
        if named[name]["type"] == "drop":
            if name in untold:
                why[name] = "a column without a name, as pandas writes its index: left out"
            continue
        is_told = named[name]["type"] is not None
        numbers = _read_numbers(cells[name])
        if len(numbers) > _FEWEST_PARTS and math.isclose(2 * float(numbers[-1]), sums[name], rel_tol=1e-9):
            why[name] = "the last is the sum of all others: is there a row of totals?"
            continue
        if doubt := _say_doubt(name, whole[name], cells[name], rows=rows, is_told=is_told):
            why[name] = doubt
    return whole, waived, why


def _say_doubt(name: str, keys: Mapping[str, Any], cells: set[str], *, rows: int, is_told: bool) -> str:
    """What a column may be other than what its cells were taken for, in words that hold no cell; "" where it is clear.

    Where a dictionary told its type, only whether all cells are of it.
    """
    available = _find_available(keys, cells)
    numbers = _read_numbers(available)
    if is_told:
        are_such = len(numbers) == len(available) and (keys["type"] == "float" or _are_whole(numbers))
        is_wrong = keys["type"] in ("integer", "float") and "uuid" not in keys and not are_such
        return "some cells are no such numbers: decimals, other marks, or not available?" if is_wrong else ""
    digits = {len(str(keys[end])) for end in ("min", "max")} if keys["type"] == "integer" else set()
    is_wide = len(digits) == 1 and min(digits) >= _CODE_DIGITS
    if digits and keys["min"] >= 0 and ("width" in keys or _is_named_code(name) or is_wide):
        return "codes? list those that there are, for others come out as well"
    if digits and -_MOST_CODES_BELOW <= keys["min"] < 0:
        return "below 0 for not available?"
    if keys["type"] in ("integer", "float") and len(numbers) > _MOST_CODES and _end_in_nines(numbers):
        return "nines for not available?"
    if keys["type"] == "date":
        days = [datetime.strptime(cell, keys["format"].replace("%-", "%")) for cell in available]
        has_days = re.search("%-?[dj]", keys["format"])
        available = {str(day.toordinal() if has_days else 12 * day.year + day.month) for day in days}
    if keys["type"] in ("integer", "float", "date") and len(available) <= min(_SURELY_LISTED, rows // _FEWEST_OF_FEW):
        return "few values? list them, for others come out as well" if _are_scattered(available) else ""
    others = available - _MARKS
    if keys["type"] == "enum" and others and not (_are_numbers(others) or _have_parts(others)):
        if _are_written(MOMENT, others) or _are_written(_AMOUNT, others) or _have_lists(others):
            return _say_why({"type": None}, others, rows=rows)
        if len({" ".join(cell.lower().split()) for cell in others}) < len(others):
            return "some differ in blanks or capitals alone: is one meant?"
    return ""


def _find_available(keys: Mapping[str, Any], cells: set[str]) -> set[str]:
    """The cells that do not mean not available."""
    return cells - {"", *map(str, keys.get("missing", ()))}


def _is_named_code(name: str) -> bool:
    return _NAMED_CODE.fullmatch(split_words(name)) is not None


def _say_why(keys: Mapping[str, Any], cells: set[str], *, rows: int) -> str:
    """Why nulls were left, in a few words and without a cell."""
    kind, available = keys["type"], _find_available(keys, cells)
    numbers = _read_numbers(available)
    if not available:
        return "no cell has anything"
    if kind in ("date", "datetime", "time"):
        return "no cell is in its format" if keys.get("format") else "the format comes first"
    if kind in ("integer", "float") and not numbers:
        return "no cell is a number"
    are_numbers = kind in ("integer", "float") or (kind is None and len(numbers) == len(available))
    if are_numbers and max(map(abs, numbers)) > MAX_WHOLE_NUMBER:
        return "more digits than are exact"
    if _are_written(MOMENT, available - _MARKS):
        if len({tail[2] for cell in available if (tail := _TAIL.search(cell))}) > 1:
            return "offsets that change? turn all to one zone"
        return "day or month first?" if _find_formats(available - _MARKS) else "moments in no known format?"
    if _are_written(_AMOUNT, available - _MARKS) and len(numbers) < len(available):
        return "numbers with other marks than a point?"
    if _have_lists(available):
        return "several answers in a cell? make a column of each"
    are_all = len(available) == rows > _SURELY_LISTED
    return "names of rows or free text? all differ" if are_all else "names or free text? too many for a list"


def _fill(keys: Mapping[str, Any], cells: set[str], *, most: int, rows: int, is_code: bool) -> dict[str, Any]:
    """A column with what its cells, of which `most` make a list, say in the place of its nulls; else as it was."""
    kind, given = keys["type"], {key: value for key, value in keys.items() if value is not None}
    available = _find_available(keys, cells)
    marks = _find_marks(available, most=most) if kind is None and "missing" not in keys else set()
    available -= marks
    if not available:
        return dict(keys)
    if kind is None and (pattern := _find_pattern(available)) is not None:
        found = {"type": choose_calendar(pattern), "format": pattern, **_find_span(pattern, available)}
    elif kind is None and len(available) == rows > _SURELY_LISTED and all(map(str.isdigit, available)):
        return dict(keys)  # names of the rows
    elif kind in ("date", "datetime", "time"):
        found = _find_span(keys["format"], available)
    elif kind is None and len(available) <= most and _are_codes(available, rows=rows, is_named=is_code):
        # The largest says that they are whole numbers.
        largest = {"maxval": max(0, *map(int, available))} if all(map(_WHOLE.fullmatch, available)) else {}
        found = {"type": "enum", "values_from": "data", **largest}
    elif kind in ("integer", "float") or (kind is None and _are_numbers(available)):
        found = _find_range(kind, available)
    elif len(available) > most or (
        kind is None
        and len(available) > _SURELY_LISTED
        and any(_are_written(form, available) for form in (_AMOUNT, MOMENT))
    ):
        return dict(keys)  # names or free text, which nobody but the custodian can tell apart, amounts, or moments
    else:
        found = {"type": "enum", "values_from": "data"}
        keys = {key: value for key, value in keys.items() if key != "values"}
    blank: dict[str, Any] = {"optional": True} if "" in cells else {}
    if marks:
        blank["missing"] = sorted(marks)
    filled = {**keys, **found, **given, **blank, "domain_privacy": "waived"}
    return {key: filled[key] for key in KEYS if key in filled} if found else dict(keys)


def _are_codes(cells: set[str], *, rows: int, is_named: bool) -> bool:
    """Whether cells are codes rather than numbers: 01067 is no amount, nor is 9 beside 1 to 5, nor marks in halves."""
    are_few = len(cells) <= min(_MOST_CODES, rows // 100)
    are_named = is_named and all(map(str.isdigit, cells))
    return are_named or _find_width(cells) > 0 or _have_parts(cells) or (are_few and _have_gaps(cells))


def _find_marks(cells: set[str], *, most: int) -> set[str]:
    """Those of the cells that mean not available, where all others are numbers or moments."""
    limits = {cell for cell in cells if _LIMIT.fullmatch(cell)}
    are_limits = len(limits) <= _MOST_LIMITS and len(cells) > _MOST_CODES
    marks = cells & _MARKS | {cell for cell in cells if _NEVER.fullmatch(cell)} | (limits if are_limits else set())
    others = cells - marks
    are_codes = len(others) <= most and (_find_width(others) or _have_parts(others))
    is_told = _find_pattern(others) is not None or (_are_numbers(others) and not are_codes)
    return (marks if marks and others and is_told else set()) | _find_codes(others)


def _find_codes(cells: set[str]) -> set[str]:
    """Those of many numbers that are codes, as -8 and -1 are: few below 0, with others between that no cell is."""
    numbers = {read_number(cell): cell for cell in cells}
    if None in numbers or len(cells) <= _MOST_CODES:
        return set()
    below = {number: cell for number, cell in numbers.items() if number is not None and number < 0}
    are_codes = all(map(_CODE.fullmatch, below.values())) and 0 < len(below) <= _MOST_CODES_BELOW
    has_gaps = are_codes and not numbers.keys() >= {*range(int(min(below)), 1)}
    return {*below.values()} if has_gaps else set()


def _find_range(kind: str | None, cells: set[str]) -> dict[str, Any]:
    numbers = _read_numbers(cells)
    largest = max(map(abs, numbers), default=Decimal())
    if not numbers or largest > MAX_WHOLE_NUMBER:
        return {}  # so many digits are a name rather than a number
    decimals = max(map(_count_decimals, numbers))
    if kind == "integer" or (kind is None and _are_whole(numbers)):
        written = {key: digits for key, digits in (("width", _find_width(cells)), ("decimals", decimals)) if digits}
        return {"type": "integer", "min": int(numbers[0]), "max": int(numbers[-1]), **written}
    decimals = max(0, min(decimals, _MOST_DECIMALS, _MOST_DIGITS - 1 - largest.adjusted()))
    low, high = numbers[0], numbers[-1]
    meant = max(map(_count_decimals, _find_meant(numbers)))
    if meant <= decimals - _FEWEST_BEYOND:  # a run rounds the cells, and refuses those outside of the range
        decimals, step = meant, Decimal(1).scaleb(-meant)
        low, high = low.quantize(step, ROUND_FLOOR), high.quantize(step, ROUND_CEILING)
    return {"type": "float", "min": float(low), "max": float(high) + 0.0, "decimals": decimals}  # no -0.0


def _find_meant(numbers: list[Decimal]) -> list[Decimal]:
    """The numbers as single floats are written, if all are such: 0.1605 rather than 0.16050000488758087."""
    doubles = np.array(numbers, np.float64)
    with np.errstate(over="ignore"):
        singles = doubles.astype(np.float32)
    # Written with 15 digits, a double is not met.
    are_singles = bool(np.allclose(doubles, singles, rtol=10.0 ** (1 - _MOST_DIGITS), atol=0))
    return [Decimal(str(single)) for single in singles] if are_singles else numbers


def _read_numbers(cells: set[str]) -> list[Decimal]:
    """The numbers among cells, rising."""
    return sorted(number for cell in cells if (number := read_number(cell)) is not None)


def _end_in_nines(numbers: list[Decimal]) -> bool:
    """Whether the first or last of numbers is nines alone, as 9999 and -999.0 are, and all others lie far from it."""
    ends = (numbers[0], numbers[1]), (numbers[-1], numbers[-2])
    return any(end == int(end) and {*str(abs(int(end)))} == {"9"} and abs(end) > 2 * abs(near) for end, near in ends)


def _are_whole(numbers: list[Decimal]) -> bool:
    return not any(number % 1 for number in numbers)


def _count_decimals(number: Decimal) -> int:
    """Digits behind the point, without those by which a double misses what was meant: 0.30000000000000004 has one."""
    if len(number.as_tuple().digits) > _MOST_DIGITS:
        number = Decimal(f"{number:.{_MOST_DIGITS}g}").normalize()
    return max(0, -int(number.as_tuple().exponent))


def _find_width(cells: set[str]) -> int:
    """With how many digits all cells are written, if some begin with zeros; else 0."""
    codes = all(cell.isascii() and cell.isdigit() for cell in cells) and any(cell[0] == "0" != cell for cell in cells)
    return max(map(len, cells)) if codes and len(set(map(len, cells))) == 1 else 0


def _are_numbers(cells: set[str]) -> bool:
    return not _have_parts(cells) and all(read_number(cell) is not None for cell in cells)


def _have_parts(cells: set[str]) -> bool:
    """Whether cells are codes in parts, such as 01.10, some of which would lose their zero as a number."""
    has_zeros = any(cell.startswith("0") and cell[1:2] not in ("", ".") for cell in cells)
    return has_zeros and all(map(_PARTS.fullmatch, cells))


def _have_gaps(cells: set[str]) -> bool:
    """Whether cells are numbers, with others of as many decimals between them that no cell is."""
    numbers = _read_numbers(cells)
    shift = 0 if _are_whole(numbers) else max(map(_count_decimals, numbers))
    return len(numbers) == len(cells) <= (numbers[-1] - numbers[0]).scaleb(shift)


def _are_scattered(cells: set[str]) -> bool:
    """Whether numbers lie far apart, in steps that all their differences are made of."""
    numbers = _read_numbers(cells)
    shift = max(map(_count_decimals, numbers))
    gaps = [int((right - left).scaleb(shift).to_integral_value()) for left, right in pairwise(numbers)]
    return sum(gaps) >= _STEPS_BETWEEN * len(numbers) * max(math.gcd(*gaps), 1)


def _have_lists(cells: set[str]) -> bool:
    """Whether cells are made of few parts, in many combinations."""
    return any(4 * len({part.strip() for cell in cells for part in cell.split(mark)}) <= len(cells) for mark in ";|,")


def _are_written(form: re.Pattern[str], cells: set[str]) -> bool:
    """Whether all cells are written so, or of very many all but few words, such as unknown."""
    others = sum(form.fullmatch(cell) is None for cell in cells)
    return others <= (_MOST_LIMITS if len(cells) > _SURELY_LISTED else 0)


def _find_pattern(cells: set[str]) -> str | None:
    """The format in which all cells are written to the letter, if just one of the usual ones is.

    Behind it may be milliseconds or microseconds, and one offset that all cells have, which is text.
    """
    tails = {cell: found for cell in cells if (found := _TAIL.search(cell)) is not None}
    heads = {cell[: tails[cell].start()] if cell in tails else cell for cell in cells}
    fractions = {tail[1] or "" for tail in tails.values()}
    lengths, zones = set(map(len, fractions)) or {0}, {tail[2] or "" for tail in tails.values()} or {""}
    fitting = _find_formats(heads)
    if len(fitting) != 1 or len(zones) > 1 or len(lengths) > 1 or not lengths <= _FRACTIONS.keys():
        return None
    are_nought = len(fractions) == 1 and set(min(fractions)) <= {".", "0"}
    return fitting[0] + (min(fractions) if are_nought else _FRACTIONS[min(lengths)]) + min(zones)


def _find_formats(cells: set[str]) -> list[str]:
    fitting = ([pattern for pattern in some if all(_fits(cell, pattern) for cell in cells)] for some in _CALENDARS)
    return next(filter(None, fitting), [])


def _fits(cell: str, pattern: str) -> bool:
    try:
        moment = datetime.strptime(cell, pattern.replace("%-", "%"))
    except ValueError:
        return False
    return moment.strftime(pattern).lower() == cell.lower() and (pattern != _COMPACT or moment.year in _YEARS)


def _find_span(pattern: str | None, cells: set[str]) -> dict[str, Any]:
    times: dict[datetime, str] = {}
    for cell in cells if pattern else ():
        with suppress(ValueError):
            times[datetime.strptime(cell, re.sub("%[-36]", "%", str(pattern)))] = cell
    return {"min": times[min(times)], "max": times[max(times)]} if times else {}
