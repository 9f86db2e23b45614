"""Dates, times of day and both: a format, a public range, and the step between two moments."""

import datetime
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from zoneinfo import ZoneInfo

from dpwgan.errors import quote
from dpwgan.table.calendar import DAY, DIRECTIVE, EPOCH, SECOND, CalendarColumn, LaterColumn
from dpwgan.table.specs.keys import MAX_WHOLE_NUMBER, MISSING_KEYS, Keys

CALENDAR_KEYS = MISSING_KEYS | {"format", "min", "max", "step", "zone", "since"}

_FORMATS = {"date": "%Y-%m-%d", "datetime": "%Y-%m-%dT%H:%M:%S", "time": "%H:%M:%S"}
_UNITS = {"microsecond": 1, "millisecond": 1000, "second": SECOND, "minute": 60 * SECOND, "hour": 3600 * SECOND}
_UNITS |= {"day": DAY, "week": 7 * DAY}
_MONTHS = {"month": 1, "year": 12}
_STEP = re.compile(rf"(?:([1-9][0-9]{{0,9}}) )?({'|'.join([*_UNITS, *_MONTHS])})s?")
_SPAN = re.compile(rf"(-?[0-9]{{1,10}}) ({'|'.join(_UNITS)})s?")
# Within so long a time what counts is what a clock shows; of longer ones the days, and the time of day by itself.
_MOST_ELAPSED = 2 * DAY
# What each directive says of a moment, the coarsest first, and how fine that is: months up to the month.
_SAYS = {
    "Y": ("year", 12),
    **dict.fromkeys(("m", "-m", "b", "B"), ("month", 1)),
    **dict.fromkeys(("d", "-d", "j"), ("day", DAY)),
    **dict.fromkeys(("H", "-H", "I", "-I"), ("hour", 3600 * SECOND)),
    "M": ("minute", 60 * SECOND),
    "S": ("second", SECOND),
    "3f": ("fraction", 1000),
    **dict.fromkeys(("f", "6f"), ("fraction", 1)),
    "p": ("half", 3600 * SECOND),
}
_REFUSED = {
    "y": "two digits do not say the century, so write years with four in the table",
    "z": "an offset that may change from row to row: turn all moments to one zone, and write its offset as text",
}
_DATES, _TIMES = ("year", "month", "day"), ("hour", "minute", "second", "fraction")
_TICK = datetime.timedelta(microseconds=1)
_FIRST, _LAST = ((moment - EPOCH) // _TICK for moment in (datetime.datetime.min, datetime.datetime.max))


def parse_calendar(keys: Keys) -> CalendarColumn:
    """Reads a date, datetime or time. Raises: SpecsError."""
    kind = keys["type"]
    form = keys.get("format", _FORMATS[kind])
    finest, by_month = _find_finest(keys, form)
    step, in_months = _read_step(keys, finest=finest, by_month=by_month)
    if "since" in keys:
        return _parse_later(keys, form, step=step, in_months=in_months)
    first, _ = _read_end(keys, "min", form)
    last, is_day = _read_end(keys, "max", form)
    if is_day and not in_months:
        # A day, where times of day can be told, is all of it.
        last = last // DAY * DAY + DAY - 1
        last -= (last - first) % step
    if first > last:
        raise keys.refuse("'min' is above 'max'")
    for key, end in (("min", first), ("max", last)):
        if _find_month(end)[1] if in_months else end % finest:
            raise keys.refuse(f"{key!r} says more than its format or its step can tell")
    length = _find_month(last)[0] - _find_month(first)[0] if in_months else last - first
    if length % step:
        raise keys.refuse("its 'step' does not divide the time from 'min' to 'max'")
    if length // step >= MAX_WHOLE_NUMBER:
        raise keys.refuse("its range has 2^53 steps or more, which are no longer exact")
    return CalendarColumn(first=first, step=step, steps=length // step, in_months=in_months, **_read_rest(keys, form))


def _parse_later(keys: Keys, form: str, *, step: int, in_months: bool) -> LaterColumn:
    """Reads a column of moments that are told by the time since another's."""
    kind, earlier = keys["type"], keys.earlier
    is_plain = isinstance(earlier, CalendarColumn) and not isinstance(earlier, LaterColumn)
    if not isinstance(earlier, CalendarColumn) or not is_plain or (kind == "time") != (earlier.written == "time"):
        raise keys.refuse(
            "'since' must name a date or datetime, or in a time a time, that is neither derived nor told since another "
            "one; tell both since the first, and give a rule on their order"
        )
    if in_months or earlier.in_months:
        raise keys.refuse("'since' needs moments to the day or finer")
    least, most = (_read_span(keys, key) for key in ("min", "max"))
    if least > most:
        raise keys.refuse("'min' is above 'max'")
    first, last = earlier.first, earlier.first + earlier.steps * earlier.step
    by_days = "date" in (kind, earlier.written) or most - least > _MOST_ELAPSED
    if kind == "time" and (least < 0 or most >= DAY or DAY % step):
        raise keys.refuse("beside 'since' a time's 'min' and 'max' must lie within a day, and 'step' divide one")
    if by_days:
        if least % DAY or most % DAY or DAY % step:
            raise keys.refuse("beside 'since', 'min' and 'max' must be whole days, and 'step' divide a day")
        first, last = first // DAY * DAY, last // DAY * DAY + (DAY - step if kind == "datetime" else 0)
    elif step != earlier.step or least % step or most % step:
        raise keys.refuse(f"its 'step' must be that of {quote(earlier.name)}, and divide 'min' and 'max'")
    if earlier.missing and not keys.read_missing():
        raise keys.refuse(f"{quote(earlier.name)} may be missing: so may it, and 'missing' or 'optional' must say so")
    first, last = first + least, last + most
    if kind == "time":
        # Beyond midnight it may lie anywhere.
        first, last = earlier.first % step, earlier.first % step + DAY - step
    if last > _LAST or first < _FIRST:
        raise keys.refuse("its moments do not lie in the years 1 to 9999")
    told: dict[str, Any] = {"since": earlier.name, "least": least, "most": most, "by_days": by_days}
    return LaterColumn(first=first, step=step, steps=(last - first) // step, **told, **_read_rest(keys, form))


def _read_rest(keys: Keys, form: str) -> dict[str, Any]:
    """What every column of moments has."""
    missing = keys.read_missing()
    rest = {"missing": missing, "zone": _read_zone(keys), "out_of_domain": keys.read_out_of_domain(missing)}
    return {"name": keys.name, "written": keys["type"], "format": form, **rest}


def _read_span(keys: Keys, key: str) -> int:
    """A time between two moments, in microseconds."""
    found = _SPAN.fullmatch(str(keys.get(key, "")))
    if found is None:
        raise keys.refuse(f"beside 'since', {key!r} must be such as \"0 days\", of one of {', '.join(_UNITS)}")
    return int(found[1]) * _UNITS[found[2]]


def _find_finest(keys: Keys, form: str) -> tuple[int, bool]:
    """The finest step that a format can tell, in microseconds, or in months and True."""
    kind, directives = keys["type"], DIRECTIVE.findall(form)
    if "%" not in form:
        raise keys.refuse(f"'format' says nothing: it is made of %Y %m %d and the like, as {quote(_FORMATS[kind])}")
    for directive, why in _REFUSED.items():
        if directive in directives:
            raise keys.refuse(f"'format' has %{directive}: {why}")
    if len(directives) < form.count("%") or not set(directives) <= _SAYS.keys():
        raise keys.refuse("'format' may hold %Y %m %d %H %M %S %f, %-m %-d %-H, %b %B %j, %I %-I with %p, %3f and %6f")
    said = dict(_SAYS[directive] for directive in directives)
    dates = [name for name in _DATES if not (name == "month" and "j" in directives)]
    chain = [*(dates if kind != "time" else ()), *(_TIMES if kind != "date" else ())]
    halves = {"half"} & said.keys()
    if len(said) < len(directives) or said.keys() - {*chain, *halves}:
        raise keys.refuse(f"'format' says something twice, or what a {kind} does not have")
    needed = chain[: max(len(said) - len(halves), 1 if kind != "datetime" else len(dates) + 1)]
    for name in needed:
        if name not in said:
            raise keys.refuse(f"'format' does not say the {name}")
    if bool(halves) != bool({"I", "-I"} & set(directives)):
        raise keys.refuse("'format' needs both %I and %p, or neither")
    return said[needed[-1]], needed[-1] in ("year", "month")


def _read_step(keys: Keys, *, finest: int, by_month: bool) -> tuple[int, bool]:
    if "step" not in keys:
        return finest, by_month
    found = _STEP.fullmatch(keys["step"])
    if found is None:
        raise keys.refuse(f"'step' must be such as \"15 minutes\", of one of {', '.join([*_UNITS, *_MONTHS])}")
    unit, times = found[2], int(found[1] or 1)
    in_months = unit in _MONTHS
    step = times * (_MONTHS[unit] if in_months else _UNITS[unit])
    if (by_month and not in_months) or (in_months == by_month and step % finest):
        raise keys.refuse("'step' is finer than what its format can tell")
    return step, in_months


def _read_end(keys: Keys, key: str, form: str) -> tuple[int, bool]:
    """An end of the range, and whether it is a day where a time of day could be told."""
    kind = keys["type"]
    if key not in keys:
        if kind != "time":
            raise keys.refuse(f"the key {key!r} is missing: the range of a {kind} must be public")
        return 0, key == "max"
    text = keys[key]
    readers: list[Callable[[], datetime.datetime]] = [
        lambda: datetime.datetime.strptime(text, re.sub("%[-36]", "%", form)),
        lambda: datetime.datetime.combine(EPOCH, datetime.time.fromisoformat(text)),
    ]
    if kind != "time":
        readers[1:] = [
            lambda: datetime.datetime.combine(datetime.date.fromisoformat(text), datetime.time()),
            lambda: datetime.datetime.fromisoformat(text),
        ]
    for place, read in enumerate(readers):
        with suppress(ValueError):
            moment = read()
            if moment.tzinfo is None:
                moment = datetime.datetime.combine(EPOCH, moment.time()) if kind == "time" else moment
                return (moment - EPOCH) // _TICK, kind == "datetime" and place == 1
    raise keys.refuse(f"{key!r} is written neither in its format nor as ISO 8601 has it without an offset")


def _find_month(moment: int) -> tuple[int, bool]:
    """The number of a moment's month, and whether the moment is later than its beginning."""
    date = EPOCH + moment * _TICK
    return date.year * 12 + date.month, date != datetime.datetime(date.year, date.month, 1)


def _read_zone(keys: Keys) -> str | None:
    zone: str | None = keys.get("zone")
    if zone is not None and keys["type"] != "datetime":
        raise keys.refuse("'zone' goes with a datetime alone")
    try:
        return None if zone is None else ZoneInfo(zone).key
    except (KeyError, ValueError, OSError):
        raise keys.refuse("'zone' is not the name of a time zone, such as \"Europe/Berlin\"") from None
