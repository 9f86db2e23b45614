"""Which keys go with which type of column, and who parses them."""

from collections.abc import Callable, Set

from dpwgan.table.schema import Column
from dpwgan.table.specs.booleans import BOOLEAN_KEYS, parse_boolean
from dpwgan.table.specs.calendar import CALENDAR_KEYS, parse_calendar
from dpwgan.table.specs.categories import ENUM_KEYS, parse_enum
from dpwgan.table.specs.fixed import FIXED_KEYS, parse_fixed
from dpwgan.table.specs.identifiers import parse_identifier
from dpwgan.table.specs.keys import Keys, is_finite
from dpwgan.table.specs.numbers import NUMBER_KEYS, parse_number

_KEYS_OF_ALL = {"type", "description", "uuid", "derived", "of"}
_TYPES: dict[str, tuple[Set[str], Callable[[Keys], Column]]] = {
    "enum": (ENUM_KEYS, parse_enum),
    "integer": (NUMBER_KEYS | {"width"}, parse_number),
    "float": (NUMBER_KEYS, parse_number),
    "boolean": (BOOLEAN_KEYS, parse_boolean),
    **dict.fromkeys(("date", "datetime", "time"), (CALENDAR_KEYS, parse_calendar)),
    **{kind: (known, parse_fixed) for kind, known in FIXED_KEYS.items()},
}


def parse_column(keys: Keys) -> Column:
    """Reads a column that is not derived. Raises: SpecsError."""
    for key in ("min", "max"):
        if key in keys and not (isinstance(keys[key], str) or is_finite(keys[key])):
            raise keys.refuse(f"{key!r} must be finite")
    kind = keys["type"]
    if keys.get("uuid"):
        return parse_identifier(keys)
    if kind == "string":
        raise keys.refuse('the type "string" is for row names ("uuid": true); use "enum" with \'values\'')
    known, parse = _TYPES[kind]
    if "min" in known and keys.waives_range:
        if keys["domain_privacy"] != "waived":
            raise keys.refuse("'domain_privacy' of a range can only be \"waived\": no range is found privately")
        known = known | {"domain_privacy"}
    for key in keys.given:
        if key not in known | _KEYS_OF_ALL:
            raise keys.refuse(f"the key {key!r} does not go with the type {kind!r}")
    return parse(keys)
