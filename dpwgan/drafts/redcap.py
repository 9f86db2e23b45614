"""A REDCap data dictionary: CSV with a row for each field, of which a box to check is a column for each choice.

Source: REDCap, "Data Dictionary" and "Data Export": columns have their places, the first field is the number of the
record, and raw exports have dates as year, month and day. When a field is asked for is part of its description.
"""

import csv
from collections.abc import Iterator
from typing import Any

from dpwgan.drafts.entry import Entry, Source, choose_calendar, join_words, read_number

_TEXTS = ("notes", "file", "email")
_FORMATS = {
    **{"date": "%Y-%m-%d", "datetime": "%Y-%m-%d %H:%M", "datetime_seconds": "%Y-%m-%d %H:%M:%S"},
    **{"time": "%H:%M", "time_hh_mm_ss": "%H:%M:%S"},
}


def recognise(source: Source) -> bool:
    """Whether its first column is that of the names."""
    return source.text.lstrip('"').startswith(("Variable / Field Name", "field_name"))


def read(source: Source) -> Iterator[Entry]:
    """The columns of the fields. Raises: ValueError if a row is too short."""
    _, *rows = filter(None, csv.reader(source.text.splitlines(keepends=True)))
    for row in rows:
        yield from _read_field(row, is_key=row is rows[0])


def _read_field(row: list[str], *, is_key: bool) -> Iterator[Entry]:
    name, _, _, kind, label, choices, _, form, low, high, secret, logic, required, *_ = row
    codes = [choice.partition(",")[0].strip() for choice in (choices or "1 | 0").split("|")]
    said: dict[str, Any] = {"name": name, "description": join_words(label, logic and f"if {logic}")}
    if kind == "checkbox":
        for code in codes:
            yield Entry(**{**said, "name": f"{name}___{code.lower().replace('-', '_')}"}, type="enum", values=[0, 1])
        return
    said["missing"] = [] if is_key or (required == "y" and not logic) else [""]
    if is_key:
        said["type"] = "string"
    elif kind in ("radio", "dropdown", "yesno", "truefalse"):
        said.update(type="enum", values=codes)
    elif {kind, form}.intersection(_TEXTS) or (secret == "y" and not form):
        said["type"] = "text"
    elif style := _FORMATS.get(form.removesuffix("_ymd").removesuffix("_mdy").removesuffix("_dmy")):
        ends = [end if end[:1].isdigit() else None for end in (low, high)]  # others are reckoned, as "today" is
        said.update(type=choose_calendar(style), format=style, minimum=ends[0], maximum=ends[1])
    elif form.startswith(("integer", "number")):
        said["type"], said["decimals"] = ("integer", None) if form == "integer" else ("float", read_number(form[7:8]))
        said.update(minimum=read_number(low), maximum=read_number(high))
    if kind != "descriptive":
        yield Entry(**said)
