"""The form that data-specs.schema.json asks of the specs, and its verdicts in one sentence each."""

import functools
import json
from collections.abc import Iterator, Mapping, Sequence, Set
from importlib import resources
from typing import Any

from dpwgan.errors import SpecsError, quote, suggest
from dpwgan.table.specs.keys import (
    LAYOUT,
    UNIT,
    declares,
    is_finite,
    refuse_column,
    refuse_key,
    refuse_rule,
    write_item,
)
from dpwgan.table.specs.problems import Problems

RULES = "rules"
"""The key of the rules between columns, where it holds a list; a column always is an object."""
_EXAMPLES = {
    "": 'an object such as {"type": "enum", "count": 3}',
    RULES: 'a list such as ["age >= 15"]',
    UNIT: 'an object such as {"column": "person_id", "max_rows": 5}',
}
_MARK = "\ufeff"
# What a column never has.
_OF_UNITS = "max_rows"
# What of a derived column is said beside how it is derived.
_BESIDE = ("width", "decimals", "description")
SCHEMA_FILE = resources.files(__package__) / "data-specs.schema.json"


@functools.cache
def _get_validator() -> Any:
    import jsonschema  # here, because the command line answers --help without it

    return jsonschema.Draft202012Validator(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))


def check_form(document: object, problems: Problems) -> tuple[dict[str, dict[str, Any]], list[Any]]:
    """Checks the whole document and gives the keys of each column whose form is right, and rules between columns.

    Raises: SpecsError if it has no columns at all; the others are gathered.
    """
    if not isinstance(document, Mapping):
        raise SpecsError("The specs must be one JSON object with a key for each column.")
    columns: dict[str, dict[str, Any]] = {}
    for name, keys in document.items():
        if not isinstance(name, str):
            raise SpecsError("The specs must name every column by a string.")
        if name == RULES and isinstance(keys, list | tuple):
            continue
        with problems.gathered():
            if not isinstance(keys, Mapping):
                meant = suggest(name, [RULES], show=repr) if isinstance(keys, list | tuple) else ""
                raise refuse_column(name, f"its specs must be {_EXAMPLES.get(name, _EXAMPLES[''])}{meant}")
            _check_text(name, keys)
            columns[name] = dict(keys)
    # A column is an object: one of that name cannot be taken for a list.
    rules = list(document[RULES]) if isinstance(document.get(RULES), list | tuple) else []
    if not document or (rules and len(document) == 1):
        raise SpecsError("The specs name no column.")
    short: dict[str, Any] = {name: _shorten(keys) for name, keys in columns.items()}
    if rules:
        short[RULES] = list(map(_shorten, rules))
    places = {name: place for place, name in enumerate(short)}
    # Columns come in an order that is another one each time.
    errors = sorted(
        _get_validator().iter_errors(short) if short else (),
        key=lambda error: places.get(next(iter(error.path), ""), -1),
    )
    others = {key for key in (LAYOUT, UNIT) if declares(columns, key)}
    explained = (_explain(error, others) for error in errors)
    problems.found += {str(error): error for error in explained}.values()  # two rules may say the same of a key
    for name, keys in columns.items():
        for key in ("values", "missing"):
            if name not in problems.columns:
                with problems.gathered():
                    _check_list(name, key, keys.get(key, ()))
    wrong = {tuple(error.absolute_path)[1] for error in errors if len(error.absolute_path) > 1 and RULES in short}
    rules = [None if place in wrong else rule for place, rule in enumerate(rules)]
    return {name: keys for name, keys in columns.items() if name not in problems.columns}, rules


def _name_kind(cells: Any) -> Any:
    return tuple(map(type, cells)) if isinstance(cells, list | tuple) else type(cells)


def _check_text(name: str, keys: Mapping[str, Any]) -> None:
    """Refuses what a table could hold in no cell and no header, or would not give back."""
    text = "\n".join(_list_texts({name: keys}))
    if "\0" in text:
        raise refuse_column(name, "it holds a NUL character, which no table can hold")
    if name.startswith(_MARK):
        raise refuse_column(name, "its name begins with a byte order mark, which is dropped where a table is read")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise refuse_column(name, "it holds half of a character (a lone surrogate), which UTF-8 cannot hold") from None


def _list_texts(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping):
        yield from _list_texts([*part, *part.values()])
    elif isinstance(part, list | tuple):
        for item in part:
            yield from _list_texts(item)


def _shorten(keys: Any) -> Any:
    """Lets one item of each kind stand for all, so that a list of 10,000 is checked as fast as one of 3.

    The schema asks nothing of the items but their type; _check_list looks at all of them.
    """
    if not isinstance(keys, Mapping):
        return keys
    short = {key: _shorten(value) for key, value in keys.items()}
    for key in short.keys() & {"values", "missing", "allowed", "forbidden"}:
        if isinstance(keys[key], list | tuple):
            short[key] = list({_name_kind(item): item for item in keys[key]}.values())
    if isinstance(short.get("map"), Mapping):
        short["map"] = dict({type(cell): (token, cell) for token, cell in short["map"].items()}.values())
    return short


def _check_list(name: str, key: str, items: Sequence[Any]) -> None:
    if not all(isinstance(item, str) or is_finite(item) for item in items):
        raise refuse_column(name, f"{key!r} must be finite")
    tokens = [write_item(item) for item in items]
    if len(set(tokens)) < len(tokens):
        raise refuse_column(name, f"{key!r} lists a cell twice")
    if key == "values" and "" in tokens:
        raise refuse_column(name, "'values' lists the empty cell; say \"optional\": true instead")


def _explain(error: Any, others: Set[str]) -> SpecsError:
    """Puts jsonschema's verdict into one sentence that names the column, one of the others or a rule, and the key."""
    name, *path = error.absolute_path
    is_rule = name == RULES and path and not isinstance(path[0], str)
    refuse = functools.partial(refuse_key if name in others else refuse_column, name)
    if is_rule:
        refuse = functools.partial(refuse_rule, path.pop(0) + 1)
    path = [str(part) for part in path]
    where = ".".join(part for part in path if not part.isdigit())
    rule, wanted, found = error.validator, error.validator_value, error.instance
    if found is None and len(path) == 1 and not is_rule:
        return refuse(f"{where!r} is null, as a draft leaves it: it is still to be filled in")
    if rule == "additionalProperties" and isinstance(found, Mapping):
        known = error.schema["properties"]
        unknown = [
            quote(f"{where}.{key}" if where else str(key))
            + (
                f" (it stands beside {where!r})"
                if where == "derived" and key in _BESIDE
                else suggest(str(key), known, show=repr)
            )
            for key in found
            if key not in known
        ]
        is_unit = _OF_UNITS in found and not (where or is_rule or name == UNIT) and suggest(str(name), [UNIT])
        meant = f" (did you mean the entry {UNIT!r}?)" if is_unit else ""
        return refuse(f"unknown key{'s' if len(unknown) > 1 else ''} {', '.join(unknown)}{meant}")
    if rule == "anyOf":
        return refuse("the key 'type' is missing")
    if rule == "oneOf" and is_rule:
        return refuse("it needs 'sql', or 'columns' with one of 'allowed', 'forbidden' and 'allowed_from'")
    if rule == "oneOf":
        return refuse("'derived' needs exactly one of 'multiply', 'floordiv', 'map' and 'sql'")
    if rule == "required":
        missing = next(key for key in wanted if error.message.startswith(repr(key)))
        return refuse(f"the key {(where + '.' if where else '') + missing!r} is missing")
    item = " (each item)" if path and (path[-1].isdigit() or len(path) > 2) else ""
    if rule == "type":
        said = f"must be {' or '.join(_KINDS[kind] for kind in ([wanted] if isinstance(wanted, str) else wanted))}"
        if wanted == "string" and where in ("min", "max"):
            said += ', such as "2024-12-31", or beside \'since\' "5 days"'
    elif rule == "enum":
        said = f"must be one of {', '.join(wanted)}"
        if where == "type" and isinstance(found, str) and found in _ELSEWHERE:
            said += f" (did you mean {_ELSEWHERE[found]!r}?)"
    else:
        items = "item" if wanted == 1 else "items"
        said = _RULES.get(rule, "is not of the documented form").format(wanted=wanted, items=items)
    return refuse(f"{repr(where) + item if where else 'it'} {said}")


_ELSEWHERE = {
    **dict.fromkeys(("int", "int64", "long"), "integer"),
    **dict.fromkeys(("number", "numeric", "decimal", "double", "real"), "float"),
    **dict.fromkeys(("category", "categorical", "factor"), "enum"),
    **dict.fromkeys(("bool", "logical"), "boolean"),
    "timestamp": "datetime",
}
"""What types are called in dictionaries and programs, and here."""

_RULES = {
    "const": "must be {wanted!r}",
    "minimum": "must be at least {wanted}",
    "maximum": "must be at most {wanted}",
    "minItems": "must have at least {wanted} {items}",
    "minProperties": "must have at least {wanted} {items}",
    "maxItems": "must have at most {wanted} {items}",
    "uniqueItems": "has the same item twice",
}
_KINDS = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "array": "a list",
    "object": "an object",
    "boolean": "true or false",
    "null": "null",
}
