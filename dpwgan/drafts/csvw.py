"""CSV on the Web: the metadata beside a CSV file, JSON with a `tableSchema`.

Source: W3C, Metadata Vocabulary for Tabular Data, 2015, sections 5.6 (columns) and 5.11.2 (datatypes); Model for
Tabular Data, section 6.4.4 (formats of dates, after Unicode TR 35). The name in the CSV file is the title, where there
is one. Ranges of machine types (int, byte) are no ranges of the column.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dpwgan.drafts.entry import Entry, Source, Type, choose_calendar, join_words, read_number
from dpwgan.errors import SpecsError

_WHOLE = ("integer", "long", "int", "short", "byte", "gYear", "nonNegativeInteger", "positiveInteger")
_UNSIGNED = ("unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte", "nonPositiveInteger", "negativeInteger")
_TYPES: dict[str, Type] = {
    **dict.fromkeys((*_WHOLE, *_UNSIGNED), "integer"),
    **dict.fromkeys(("decimal", "number", "double", "float"), "float"),
    **dict.fromkeys(("string", "normalizedString", "token", "NMTOKEN", "Name"), "enum"),
    **dict.fromkeys(("xml", "html", "json", "anyURI", "base64Binary", "hexBinary"), "text"),
    **dict.fromkeys(("datetime", "dateTime", "dateTimeStamp"), "datetime"),
    "boolean": "boolean",
    "date": "date",
    "time": "time",
}
_LEAST = {"nonNegativeInteger": 0, "positiveInteger": 1, **dict.fromkeys(_UNSIGNED[:4], 0)}
_MOST = {"nonPositiveInteger": 0, "negativeInteger": -1}
_CALENDAR = {"date": "%Y-%m-%d", "datetime": "%Y-%m-%dT%H:%M:%S", "time": "%H:%M:%S"}
_FIELDS = {"yyyy": "%Y", "MM": "%m", "M": "%-m", "dd": "%d", "d": "%-d", "HH": "%H", "H": "%-H", "mm": "%M", "ss": "%S"}
_ALTERNATIVES = re.compile(r"\^?\(?([\w .-]+(?:\|[\w .-]+)+)\)?\$?")


def recognise(source: Source) -> bool:
    """Whether it has a table's schema, or tables that have one."""
    return "tableSchema" in source.members or isinstance(source.members.get("tables"), list)


def read(source: Source) -> Iterator[Entry]:
    """The columns of the table that was asked for. Raises: SpecsError."""
    group = source.document
    tables = {str(table.get("url", place)): table for place, table in enumerate(group.get("tables", [group]))}
    table = source.choose(tables)
    schema = table.get("tableSchema", group.get("tableSchema"))
    if not isinstance(schema, Mapping):
        raise SpecsError("The table's schema is another file, or is missing: draft from a file that holds it.")
    key = schema.get("primaryKey", ())
    keys = [key] if isinstance(key, str) else list(key)
    for column in schema.get("columns", ()):
        if not column.get("virtual"):
            yield _read_column({**_inherit(group), **_inherit(table), **_inherit(schema), **column}, keys=keys)


def _inherit(level: Mapping[str, Any]) -> dict[str, Any]:
    return {name: level[name] for name in ("null", "required", "datatype") if name in level}


def _read_column(column: Mapping[str, Any], *, keys: list[str]) -> Entry:
    datatype = column.get("datatype", "string")
    datatype = datatype if isinstance(datatype, Mapping) else {"base": datatype}
    base, pattern = str(datatype.get("base", "string")), datatype.get("format")
    null = column.get("null", "")
    title = _take_text(column.get("titles"))
    said: dict[str, Any] = {
        "name": title or column.get("name", ""),
        "type": _TYPES.get(base),
        "description": join_words(*(_take_text(column.get(key)) for key in ("dc:title", "dc:description"))),
        "missing": [] if column.get("required") else [null] if isinstance(null, str) else list(null),
    }
    if keys == [column.get("name")] and said["type"] in ("enum", "integer"):
        return Entry(**{**said, "type": "string" if said["type"] == "enum" else "integer"}, more={"uuid": True})
    low = datatype.get("minimum", datatype.get("minInclusive", _LEAST.get(base)))
    high = datatype.get("maximum", datatype.get("maxInclusive", _MOST.get(base)))
    if said["type"] in ("integer", "float"):
        digits = pattern.get("pattern") if isinstance(pattern, Mapping) else pattern
        said.update(minimum=read_number(low), maximum=read_number(high))
        if said["type"] == "float" and isinstance(digits, str) and "." in digits:
            said["decimals"] = len(digits.partition(".")[2])
    elif said["type"] in _CALENDAR:
        utc = "Z" if str(low or high).endswith("Z") else ""
        style = _CALENDAR[said["type"]] + utc if pattern is None else _translate(str(pattern))
        said.update(format=style, minimum=low, maximum=high)
        said["type"] = choose_calendar(style) if style else said["type"]
    elif said["type"] == "boolean" and isinstance(pattern, str) and pattern.count("|") == 1:
        yes, no = pattern.split("|")
        said.update(true=[yes], false=[no])
    elif said["type"] == "enum" and isinstance(pattern, str) and (listed := _ALTERNATIVES.fullmatch(pattern)):
        said["values"] = listed[1].split("|")
    return Entry(**said)


def _take_text(titles: Any) -> str:
    """The first of a text, a list of texts or texts by language."""
    if isinstance(titles, Mapping):
        titles = titles.get("@value") or next(iter(titles.values()), "")
    if isinstance(titles, list):
        titles = _take_text(titles[0]) if titles else ""
    return str(titles) if titles else ""


def _translate(pattern: str) -> str | None:
    """The strftime format for a date pattern of Unicode TR 35; None if there is none."""
    style = re.sub("([a-zA-Z])\\1*", lambda found: _FIELDS.get(found[0], found[0]), pattern).replace("'", "")
    return None if re.search("(?<!%)(?<!%-)[a-zA-SU-Z]", style) else style
