"""Frictionless Table Schema, alone (`fields`) or in a datapackage.json (`resources`).

Source: Frictionless Data, Table Schema 1.0 and 2.0, https://datapackage.org/standard/table-schema/. A field's range is
the cells' own writing; `missingValues` holds for all fields, [""] where it is not given, and not for one that is
`required`. A string without `enum`, `categories` or a format that makes it text may be a category or not: that is left
open.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dpwgan.drafts.entry import Entry, Source, Type, choose_calendar, join_words, read_number
from dpwgan.errors import SpecsError

_TYPES: dict[str, Type] = {
    "string": "enum",
    "integer": "integer",
    "year": "integer",
    "number": "float",
    "boolean": "boolean",
    "date": "date",
    "yearmonth": "date",
    "datetime": "datetime",
    "time": "time",
    "geopoint": "text",
    "geojson": "text",
    "object": "text",
    "array": "text",
    "list": "text",
}
_CALENDAR = {"date": "%Y-%m-%d", "yearmonth": "%Y-%m", "datetime": "%Y-%m-%dT%H:%M:%SZ", "time": "%H:%M:%S"}
_TEXTS = ("email", "uri", "binary")


def recognise(source: Source) -> bool:
    """Whether it is a schema or a package of them."""
    return any(isinstance(source.members.get(key), list) for key in ("fields", "resources"))


def read(source: Source) -> Iterator[Entry]:
    """The fields of the schema, or of the resource that was asked for. Raises: SpecsError."""
    schema = source.document
    if "fields" not in schema:
        resources = schema["resources"]
        named = {
            str(resource.get("name", place)): resource["schema"]
            for place, resource in enumerate(resources)
            if isinstance(resource, Mapping) and "schema" in resource
        }
        schema = source.choose(named)
        if isinstance(schema, str):
            raise SpecsError(f"The table's schema is another file, {schema!r}: draft from that one.")
    key = schema.get("primaryKey", ())
    keys = [key] if isinstance(key, str) else list(key)
    for field in schema["fields"]:
        yield _read_field(field, schema=schema, is_key=keys == [field["name"]])


def _read_field(field: Mapping[str, Any], *, schema: Mapping[str, Any], is_key: bool) -> Entry:
    kind, style = field.get("type", "string"), field.get("format", "default")
    rules: Mapping[str, Any] = field.get("constraints", {})
    values = rules.get("enum") or [_take_value(item) for item in field.get("categories", ())] or None
    blanks = [] if rules.get("required") else field.get("missingValues", schema.get("missingValues", [""]))
    said: dict[str, Any] = {
        "name": field["name"],
        "type": _TYPES.get(kind),
        "description": join_words(field.get("title"), field.get("description")),
        "missing": [str(_take_value(item)) for item in blanks],
    }
    if (is_key or rules.get("unique") or style == "uuid") and kind in ("string", "integer"):
        return Entry(**{**said, "type": "string" if kind == "string" else "integer"}, more={"uuid": True})
    if kind == "boolean":
        said.update(true=field.get("trueValues", ()), false=field.get("falseValues", ()))
    elif values is not None:
        said.update(type="enum", values=values)
        said["more"] = {"ordered": True} if field.get("categoriesOrdered") else {}
    elif kind in _CALENDAR:
        pattern = _CALENDAR[kind] if style == "default" else None if style == "any" else str(style)
        said.update(format=pattern, minimum=rules.get("minimum"), maximum=rules.get("maximum"))
        said["type"] = choose_calendar(pattern) if pattern else said["type"]
    elif kind == "string" and style in _TEXTS:
        said["type"] = "text"
    elif said["type"] in ("integer", "float"):
        said.update(minimum=read_number(rules.get("minimum")), maximum=read_number(rules.get("maximum")))
    return Entry(**said)


def _take_value(item: Any) -> Any:
    return item["value"] if isinstance(item, Mapping) else item
