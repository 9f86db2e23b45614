"""Which keys go with which type of column, and who parses them: those of few keys here."""

from collections.abc import Callable, Set

from dpwgan.table.calendar import CalendarColumn
from dpwgan.table.codecs import make_codec
from dpwgan.table.schema import BooleanColumn, Column, FixedColumn, IdentifierColumn, MemberColumn, NumericColumn
from dpwgan.table.specs.calendar import CALENDAR_KEYS, parse_calendar
from dpwgan.table.specs.categories import ENUM_KEYS, parse_enum
from dpwgan.table.specs.keys import MAX_WHOLE_NUMBER, MISSING_KEYS, Keys, is_finite, write_item
from dpwgan.table.specs.numbers import NUMBER_KEYS, parse_number

_SPELLINGS = {"true": ["true", "1"], "false": ["false", "0"]}


def parse_boolean(keys: Keys) -> BooleanColumn:
    """Reads a boolean: two cells in any of their spellings. Raises: SpecsError."""
    if ("true" in keys) != ("false" in keys):
        raise keys.refuse("'true' and 'false' go together")
    given = [keys.get(key, usual) for key, usual in _SPELLINGS.items()]
    true, false = ([write_item(item) for item in (cells if isinstance(cells, list) else [cells])] for cells in given)
    missing = keys.read_missing()
    cells = [cell.strip().lower() for cell in (*true, *false, *missing)]
    if len(set(cells)) < len(cells):
        raise keys.refuse("'true', 'false' and the cells for not available have a spelling in common, or one twice")
    if "" in cells[: len(true) + len(false)]:
        raise keys.refuse('the empty cell is neither true nor false; say "optional": true instead')
    out_of_domain = keys.read_out_of_domain(missing)
    if out_of_domain == "clamp":
        raise keys.refuse('"out_of_domain": "clamp" needs numbers')
    return BooleanColumn(
        name=keys.name,
        tokens=(true[0], false[0], *missing),
        missing=missing,
        spellings=(tuple(true[1:]), tuple(false[1:])),
        out_of_domain=out_of_domain,
    )


def parse_fixed(keys: Keys) -> FixedColumn:
    """Reads a text, a drop or a constant, which are not trained. Raises: SpecsError."""
    kind = keys["type"]
    if kind == "constant" and "value" not in keys:
        raise keys.refuse("the key 'value' is missing: the one cell of a constant")
    cell = {"text": keys.get("write", ""), "constant": keys.get("value"), "drop": None}[kind]
    return FixedColumn(name=keys.name, cell=None if cell is None else write_item(cell), checked=kind == "constant")


def parse_identifier(keys: Keys) -> IdentifierColumn:
    """Reads a column of row names ("uuid" in the specs), which are not trained either. Raises: SpecsError."""
    if keys["type"] in ("string", "float"):
        return IdentifierColumn(name=keys.name)
    return IdentifierColumn(
        name=keys.name, start=_read_start(keys, default=0, what="row names"), width=keys.get("width", 0)
    )


def parse_member(keys: Keys) -> MemberColumn:
    """Reads a column that tells the place of a row in its unit, or the unit's size. Raises: SpecsError."""
    if "of" not in keys:
        raise keys.refuse(f'the type {keys["type"]!r} tells of a unit: it goes with "of": "unit"')
    start = _read_start(keys, default=1, what="places")
    return MemberColumn(name=keys.name, tells=keys["type"], start=start, width=keys.get("width", 0))


def _read_start(keys: Keys, *, default: int, what: str) -> int:
    start = keys.get("min", default)
    if start != int(start) or abs(start) > MAX_WHOLE_NUMBER:
        raise keys.refuse(f"'min' must be a whole number where {what} are counted up from it")
    return int(start)


_KEYS_OF_ALL = {"type", "description", "uuid", "derived", "of"}
_TYPES: dict[str, tuple[Set[str], Callable[[Keys], Column]]] = {
    "enum": (ENUM_KEYS, parse_enum),
    "integer": (NUMBER_KEYS | {"width"}, parse_number),
    "float": (NUMBER_KEYS, parse_number),
    "boolean": (MISSING_KEYS | {"true", "false"}, parse_boolean),
    **dict.fromkeys(("date", "datetime", "time"), (CALENDAR_KEYS, parse_calendar)),
    "text": ({"write"}, parse_fixed),
    "drop": (set(), parse_fixed),
    "constant": ({"value"}, parse_fixed),
    "place": ({"min", "width"}, parse_member),
    "size": ({"width"}, parse_member),
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
    column = parse(keys)
    if isinstance(column, NumericColumn | CalendarColumn) and column.missing:
        make_codec(column)  # refuses codes for not available that take the whole range
    return column
