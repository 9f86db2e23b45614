"""JSON Schema of a row, or of a list of rows (`items`): a property is a column.

Source: JSON Schema 2020-12, https://json-schema.org/draft/2020-12, its validation vocabulary; `nullable`, and true for
`exclusiveMinimum`, are OpenAPI's.
A property that is not `required`, or may be null, may be an empty cell. A string without `enum` or `format` may be a
category or not: that is left open.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from dpwgan.drafts.entry import Entry, Source, Type, choose_calendar, join_words, read_number

Part = Mapping[str, Any]

_TYPES: dict[str, Type] = {
    "string": "enum",
    "integer": "integer",
    "number": "float",
    "boolean": "boolean",
    "object": "text",
    "array": "text",
}
_CALENDAR = {"date": "%Y-%m-%d", "date-time": "%Y-%m-%dT%H:%M:%SZ", "time": "%H:%M:%S"}


def recognise(source: Source) -> bool:
    """Whether it has properties, items, or refers to what has."""
    told = {"properties": Mapping, "items": Mapping, "$ref": str}
    return any(isinstance(source.members.get(key), kind) for key, kind in told.items())


def read(source: Source) -> Iterator[Entry]:
    """The properties of a row."""
    row = _follow(source.members, source.members)
    row = _follow(row["items"], source.members) if isinstance(row.get("items"), Mapping) else row
    for name, part in row["properties"].items():
        yield _read_property(name, _merge(part, source.members), is_needed=name in row.get("required", ()))


def _follow(part: Part | bool, root: Part) -> Part:
    """A part of the schema with its references within the file resolved; `true` allows everything."""
    if isinstance(part, bool):
        return {}
    if not str(part.get("$ref", "")).startswith("#/"):
        return part
    found: Any = root
    for name in part["$ref"].split("/")[1:]:
        found = found[name]
    return {**_follow(found, root), **{key: value for key, value in part.items() if key != "$ref"}}


def _merge(part: Part | bool, root: Part) -> dict[str, Any]:
    """A property with what its one alternative beside null says, or a list of those that are one value each."""
    merged = dict(_follow(part, root))
    for key in ("allOf", "anyOf", "oneOf"):
        all_of_them = [_merge(own, root) for own in merged.pop(key, ())]
        known = [own for own in all_of_them if own.get("type") != "null"]
        if len(known) < len(all_of_them):
            merged["nullable"] = True
        if known and all("const" in own for own in known):
            merged["enum"] = [own["const"] for own in known]
        elif len(known) == 1:
            merged = {**known[0], **merged}
    return merged


def _read_property(name: str, part: Part, *, is_needed: bool) -> Entry:
    given = part.get("type", [])
    types = {given} if isinstance(given, str) else {*given}
    listed = [part["const"]] if "const" in part else part.get("enum", [])
    may_be_empty = not is_needed or part.get("nullable") or "null" in types or None in listed
    said: dict[str, Any] = {
        "name": name,
        "description": join_words(part.get("title"), part.get("description")),
        "missing": [""] if may_be_empty else [],
    }
    types, style = types - {"null"}, part.get("format")
    kind = _TYPES.get(next(iter(types))) if len(types) == 1 else None
    values = [item for item in listed if item is not None]
    if values and not all(isinstance(item, bool) for item in values):
        return Entry(**said, type="enum", values=values)
    if kind == "enum" and style in _CALENDAR:
        said["format"] = _CALENDAR[style]
        kind = choose_calendar(said["format"])
    elif kind == "enum" and style is not None:
        kind = "string" if style == "uuid" else "text"
    elif kind == "integer":
        for end, inward in (("minimum", 1), ("maximum", -1)):
            bound, beyond = part.get(end), part.get(f"exclusive{end.title()}")
            # OpenAPI 3.0 says with true that the bound itself is excluded.
            excluded = read_number(bound if beyond is True else beyond)
            said[end] = read_number(bound) if excluded is None else excluded + inward
    elif kind == "float":
        for end in ("minimum", "maximum"):
            said[end] = read_number(part.get(end, part.get(f"exclusive{end.title()}")))
        step = Decimal(str(part.get("multipleOf", 1)))
        said["decimals"] = -int(step.normalize().as_tuple().exponent) if 0 < step < 1 else None
    return Entry(**said, type="boolean" if values else kind)
