"""Reads data-specs.json, in every dialect, into a Schema: what is public about a table, and nothing else."""

import difflib
import functools
import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

from dpwgan.errors import InputError, SpecsError
from dpwgan.table.codebook import Codebook, read_codebook
from dpwgan.table.schema import (
    CategoricalColumn,
    Column,
    DerivedColumn,
    DomainSource,
    IdentifierColumn,
    ImageLayout,
    NumericColumn,
    Schema,
    TrainedColumn,
    UndiscoveredColumn,
    write_whole,
)

MAX_CATEGORIES = 10_000
"""Most codes an enum may have without a list. A column that wide is a number in truth, or a slip of the pen, and would
take most of the network; with a written list it is taken at its word."""

MAX_WHOLE_NUMBER = 2**53
"""Whole numbers beyond this are not exact in a double, so a cell could not be restored."""

MAX_PIXELS = 65_536
"""Most numbers an image may have, 256 x 256 in gray: each is a column, and no method here is made for more."""

LAYOUT = "layout"
"""The one key of the specs that may be no column. A column always has 'type' or 'derived'; a layout has neither."""

SCHEMA_PATH = Path(__file__).resolve().parents[2] / "specs" / "data-specs.schema.json"

_WHOLE_NUMBER = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_MAX_NAMED = 5
_LIST_KEYS = {"count", "maxval", "values", "domain_from", "values_from", "domain_privacy", "treat_as"}
_RANGE_KEYS = {"min", "max", "bins"}
_OTHER_KEYS = {"optional", "missing", "out_of_domain"}
_DOMAIN_KEYS = _LIST_KEYS | _RANGE_KEYS | _OTHER_KEYS
_NUMBER_KEYS = _RANGE_KEYS | _OTHER_KEYS | {"decimals"}
_KEYS_OF_ALL = {"type", "description", "uuid", "derived"}


def read_specs(path: Path | str, *, codebook: Path | str | None = None) -> Schema:
    """Reads a data-specs.json file, with a codebook where a column's domain comes from one.

    Privacy: reads public files only, never the table.
    Raises: InputError if a file is missing or cannot be opened, SpecsError if it is not of the documented form.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"The specs {str(path)!r} cannot be read: {error.strerror or 'unknown reason'}.") from error
    listing = None if codebook is None else read_codebook(codebook)
    return parse_specs(load_document(content), sha256=hashlib.sha256(content).hexdigest(), codebook=listing)


def load_document(content: bytes) -> object:
    """Turns the bytes of a specs file into a JSON document.

    Raises: SpecsError if they are not UTF-8 or not JSON, name a key twice, or hold NaN or infinity.
    """

    def refuse_constant(name: str) -> NoReturn:
        raise SpecsError(f"The specs hold {name}, which is not a number that JSON or a range can have.")

    def read_float(text: str) -> float:
        number = float(text)
        return number if math.isfinite(number) else refuse_constant("a number too large for a double")

    def refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        # JSON readers keep the last of two equal keys in silence; here that would lose a column's specs.
        result = dict(pairs)
        if len(result) < len(pairs):
            seen: set[str] = set()
            twin = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise SpecsError(f"The specs name {_quote(twin)} twice in one object.")
        return result

    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecsError("The specs are not JSON: the file is not UTF-8 text.") from error
    try:
        return json.loads(text, parse_constant=refuse_constant, parse_float=read_float, object_pairs_hook=refuse_twins)
    except json.JSONDecodeError as error:
        raise SpecsError(f"The specs are not JSON: {error.msg} at line {error.lineno}.") from error
    except (ValueError, RecursionError) as error:
        raise SpecsError("The specs are not JSON that can be read: a number too long or lists too deep.") from error


def parse_specs(document: object, *, sha256: str, codebook: Codebook | None = None) -> Schema:
    """Turns a specs document (as json.load gives it) into a Schema that has been checked in full.

    Privacy: public facts only. A domain that would have to come from the table stays an UndiscoveredColumn.
    Raises: SpecsError in one sentence that names the column and the key.
    """
    columns = _check_form(document)
    columns, layout = _expand_layout(columns)
    _check_widths(columns)
    keys = {name: _Keys(name, given, codebook) for name, given in columns.items()}
    sources = {name: _parse_column(given) for name, given in keys.items() if "derived" not in given}
    if all(isinstance(column, IdentifierColumn) for column in sources.values()):
        raise SpecsError("The specs leave nothing to train: every column is a row name or derived from another.")
    parsed: dict[str, Column] = {
        name: sources[name] if name in sources else _parse_derived(given, sources=sources, columns=columns)
        for name, given in keys.items()
    }
    if layout is not None and not isinstance(parsed[layout.label], CategoricalColumn | UndiscoveredColumn):
        raise _refuse_layout(f"its 'label', {_quote(layout.label)}, must be a column of categories, of the type 'enum'")
    return Schema(columns=tuple(parsed.values()), sha256=sha256, layout=layout)


# --- form -------------------------------------------------------------------------------------------------------------


@functools.cache
def _get_validator() -> Any:
    import jsonschema  # here, because the command line answers --help without it

    try:
        form = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{SCHEMA_PATH.name} is missing from the folder specs/ of the installation.") from error
    return jsonschema.Draft202012Validator(form)


def _check_form(document: object) -> dict[str, dict[str, Any]]:
    if not isinstance(document, Mapping):
        raise SpecsError("The specs must be one JSON object with a key for each column.")
    if not document:
        raise SpecsError("The specs name no column.")
    columns: dict[str, dict[str, Any]] = {}
    for name, keys in document.items():
        if not isinstance(name, str):
            raise SpecsError("The specs must name every column by a string.")
        if not isinstance(keys, Mapping):
            raise _refuse(name, 'its specs must be an object such as {"type": "enum", "count": 3}')
        columns[name] = dict(keys)
    short = {name: _shorten(keys) for name, keys in columns.items()}
    for error in _get_validator().iter_errors(short):
        raise _explain(error, layout=_has_layout(columns))
    for name, keys in columns.items():
        for key in ("values", "missing"):
            _check_list(name, key, keys.get(key, ()))
    return columns


def _shorten(keys: dict[str, Any]) -> dict[str, Any]:
    """Lets one item of each Python type stand for its kind, so that a list of 10,000 is checked as fast as one of 3.

    The schema asks nothing of the items but their type; _check_list looks at all of them.
    """
    short = dict(keys)
    for key in ("values", "missing"):
        if isinstance(keys.get(key), list | tuple):
            short[key] = list({type(item): item for item in keys[key]}.values())
    derived = keys.get("derived")
    if isinstance(derived, Mapping):
        short["derived"] = dict(derived)
        if isinstance(derived.get("map"), Mapping):
            kinds = {type(cell): (token, cell) for token, cell in derived["map"].items()}
            short["derived"]["map"] = dict(kinds.values())
    return short


def _check_list(name: str, key: str, items: Sequence[Any]) -> None:
    if not all(isinstance(item, str) or _is_finite(item) for item in items):
        raise _refuse(name, f"{key!r} must be finite")
    tokens = [_write(item) for item in items]
    if len(set(tokens)) < len(tokens):
        raise _refuse(name, f"{key!r} lists a cell twice")
    if key == "values" and "" in tokens:
        raise _refuse(name, "'values' lists the empty cell; say \"optional\": true instead")


def _has_layout(columns: Mapping[str, Mapping[str, Any]]) -> bool:
    return LAYOUT in columns and not columns[LAYOUT].keys() & {"type", "derived"}


def _explain(error: Any, *, layout: bool) -> SpecsError:
    """Puts jsonschema's verdict into one sentence that names the column, or the layout, and the key."""
    name, *path = (str(part) for part in error.absolute_path)
    refuse = _refuse_layout if layout and name == LAYOUT else functools.partial(_refuse, name)
    where = ".".join(part for part in path if not part.isdigit())
    rule, wanted, found = error.validator, error.validator_value, error.instance
    if rule == "additionalProperties" and isinstance(found, Mapping):
        known = error.schema["properties"]
        unknown = next(key for key in found if key not in known)
        close = difflib.get_close_matches(str(unknown), known, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        return refuse(f"unknown key {_quote(f'{where}.{unknown}' if where else str(unknown))}{hint}")
    if rule == "anyOf":
        return refuse("the key 'type' is missing")
    if rule == "oneOf":
        return refuse("'derived' needs exactly one of 'multiply', 'floordiv' and 'map'")
    if rule == "required":
        missing = next(key for key in wanted if key not in found)
        return refuse(f"the key {(where + '.' if where else '') + missing!r} is missing")
    item = " (each item)" if path and (path[-1].isdigit() or len(path) > 2) else ""
    return refuse(f"{where!r}{item} {_say_rule(rule, wanted)}")


def _say_rule(rule: str, wanted: Any) -> str:
    if rule == "type":
        kinds = [wanted] if isinstance(wanted, str) else wanted
        return f"must be {' or '.join(_KINDS[kind] for kind in kinds)}"
    if rule == "enum":
        return f"must be one of {', '.join(wanted)}"
    items = "item" if wanted == 1 else "items"
    return _RULES.get(rule, "is not of the documented form").format(wanted=wanted, items=items)


_RULES = {
    "const": "must be {wanted!r}",
    "minimum": "must be at least {wanted}",
    "maximum": "must be at most {wanted}",
    "minItems": "must have at least {wanted} {items}",
    "minProperties": "must have at least {wanted} {items}",
    "maxItems": "must have at most {wanted} {items}",
    "uniqueItems": "lists a cell twice",
}
_KINDS = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "array": "a list",
    "object": "an object",
    "boolean": "true or false",
}


def _check_widths(columns: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuses enums too wide to be lists, all of them in one sentence, so that they can be mended in one go."""
    wide = {
        name: _count_codes(keys)
        for name, keys in columns.items()
        if not (keys.keys() & {"values", "domain_from", "values_from", "treat_as"} or keys.get("uuid"))
        and _count_codes(keys) > MAX_CATEGORIES
    }
    if not wide:
        return
    widest = sorted(wide, key=lambda name: (-wide[name], name))
    named = ", ".join(f"{_quote(name)} ({wide[name]})" for name in widest[:_MAX_NAMED])
    more = f" and {len(widest) - _MAX_NAMED} more" if len(widest) > _MAX_NAMED else ""
    raise SpecsError(
        f"Enums of more than {MAX_CATEGORIES} codes need a list ('values' or 'domain_from') or"
        f' "treat_as": "number-or-missing"; the widest are {named}{more}.'
    )


def _count_codes(keys: "Mapping[str, Any] | _Keys") -> int:
    if "count" in keys:
        return int(keys["count"])
    return int(keys["maxval"]) + 1 if "maxval" in keys else 0


# --- images -----------------------------------------------------------------------------------------------------------


def _expand_layout(
    columns: Mapping[str, dict[str, Any]],
) -> tuple[dict[str, dict[str, Any]], ImageLayout | None]:
    """Puts the columns of the pixels where the layout stands, as if each had been written out."""
    if not _has_layout(columns):
        return dict(columns), None
    layout = _read_layout(columns[LAYOUT], listed=columns.keys() - {LAYOUT})
    pixel = {"type": "integer", "min": layout.minimum, "max": layout.maximum}
    expanded: dict[str, dict[str, Any]] = {}
    for name, keys in columns.items():
        expanded.update(dict.fromkeys(layout.pixels, pixel) if name == LAYOUT else {name: keys})
    return expanded, layout


def _read_layout(keys: Mapping[str, Any], *, listed: Set[str]) -> ImageLayout:
    height, width, channels = (*(int(length) for length in keys["shape"]), 1)[:3]
    if channels not in (1, 3):
        raise _refuse_layout("the third number of 'shape' must be 1 (gray) or 3 (red, green, blue)")
    count = height * width * channels
    if count > MAX_PIXELS:
        raise _refuse_layout(f"'shape' asks for {count} columns of pixels, and there may be at most {MAX_PIXELS}")
    pixels = keys["pixels"]
    minimum, maximum, first = int(pixels.get("min", 0)), int(pixels.get("max", 255)), int(pixels.get("from", 0))
    if minimum >= maximum:
        raise _refuse_layout("'pixels.min' must be below 'pixels.max'")
    names = tuple(f"{pixels['prefix']}{number}" for number in range(first, first + count))
    both = [name for name in names if name in listed]
    if both:
        raise _refuse_layout(
            f"it declares {_quote(both[0])} as a pixel, and the specs list a column of that name as well"
            + (f" ({len(both)} such columns)" if len(both) > 1 else "")
        )
    if keys["label"] not in listed:
        raise _refuse_layout(f"its 'label', {_quote(keys['label'])}, is no column that the specs list")
    return ImageLayout(
        shape=(height, width, channels), pixels=names, minimum=minimum, maximum=maximum, label=keys["label"]
    )


# --- columns ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Keys:
    """What the specs say of one column, and the codebook."""

    name: str
    given: Mapping[str, Any]
    codebook: Codebook | None

    def __contains__(self, key: object) -> bool:
        return key in self.given

    def __getitem__(self, key: str) -> Any:
        return self.given[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self.given.get(key, default)

    def any_of(self, *keys: str) -> bool:
        return any(key in self.given for key in keys)

    def refuse(self, reason: str) -> SpecsError:
        return _refuse(self.name, reason)

    def refuse_beside(self, key: str, *others: str) -> None:
        for other in others:
            if other in self.given:
                raise self.refuse(f"{key!r} and {other!r} are both given; keep one")

    def read_missing(self, *, width: int = 0, decimals: int = 0, extra: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The cells that mean not available, the empty one last."""
        codes = [_write(code, width=width, decimals=decimals) for code in self.get("missing", ())]
        empty = self.get("optional", False) or "" in codes
        return (*dict.fromkeys((*(code for code in codes if code), *extra)), *(("",) if empty else ()))

    def read_out_of_domain(self, missing: tuple[str, ...]) -> Any:
        choice = self.get("out_of_domain", "reject")
        if choice == "missing" and not missing:
            raise self.refuse('"out_of_domain": "missing" needs a \'missing\' code or "optional": true')
        return choice


_SourceColumn = TrainedColumn | UndiscoveredColumn


def _parse_column(keys: _Keys) -> _SourceColumn | IdentifierColumn:
    for key in ("min", "max"):
        if key in keys and not _is_finite(keys[key]):
            raise keys.refuse(f"{key!r} must be finite")
    kind = keys["type"]
    if keys.get("uuid"):
        return _parse_identifier(keys)
    if kind == "string":
        raise keys.refuse('the type "string" is for row names ("uuid": true); use "enum" with \'values\'')
    known, parse = _TYPES[kind]
    for key in keys.given:
        if key not in known | _KEYS_OF_ALL:
            raise keys.refuse(f"the key {key!r} does not go with the type {kind!r}")
    return parse(keys)


def _parse_identifier(keys: _Keys) -> IdentifierColumn:
    if keys["type"] in ("string", "float"):
        return IdentifierColumn(name=keys.name)
    start = keys.get("min", 0)
    if start != int(start) or abs(start) > MAX_WHOLE_NUMBER:
        raise keys.refuse("'min' must be a whole number where row names are counted up from it")
    return IdentifierColumn(name=keys.name, start=int(start))


def _parse_undiscovered(keys: _Keys) -> UndiscoveredColumn:
    keys.refuse_beside("values_from", "values", "domain_from", "width", "bins", "out_of_domain")
    if "domain_privacy" not in keys:
        raise keys.refuse(
            "'values_from' reads the column's domain from private rows, so 'domain_privacy' must say on what terms:"
            ' "private" (found by a private selection, paid for from the budget) or "waived" (as it stands, and named'
            " in the claim as not covered)"
        )
    return UndiscoveredColumn(
        name=keys.name,
        privacy=keys["domain_privacy"],
        missing=keys.read_missing(),
        integer=keys.any_of("count", "maxval"),
    )


def _parse_enum(keys: _Keys) -> _SourceColumn:
    if "treat_as" in keys:
        return _parse_number(keys)
    if "values_from" in keys:
        return _parse_undiscovered(keys)
    for key, beside in (("bins", "treat_as"), ("domain_privacy", "values_from")):
        if key in keys:
            raise keys.refuse(f"the key {key!r} needs {beside!r} on an enum")
    lists = [key for key in ("count", "maxval", "values") if key in keys]
    if "domain_from" in keys:
        keys.refuse_beside("domain_from", "values")
    elif not lists:
        raise keys.refuse("an enum needs one of 'count', 'maxval', 'values', 'domain_from' and 'values_from'")
    if len(lists) > 1:
        raise keys.refuse(f"{lists[0]!r} and {lists[1]!r} are both given; keep one")
    width = int(keys.get("width", 0))
    missing = keys.read_missing(width=width)
    missing_numbers = {_as_number(code) for code in missing}
    domain: DomainSource = "specs"
    if "values" in keys:
        keys.refuse_beside("values", "width")
        values = [_write(value) for value in keys["values"]]
        both = sum(_as_number(value) in missing_numbers for value in values)
        if both:
            raise keys.refuse(f"{both} of its 'missing' codes are also in 'values'; list each in one place")
    else:
        # Lists that are implied name the missing codes too; the explicit 'missing' says which those are.
        if "domain_from" in keys:
            domain, values = "codebook", _list_codes(keys, width=width)
        else:
            values = [write_whole(code, width=width) for code in range(_count_codes(keys))]
        values = [value for value in values if _as_number(value) not in missing_numbers]
    if not values:
        raise keys.refuse("every one of its codes is in 'missing'")
    numbers = {_as_number(value) for value in values}
    integer = len(numbers) == len(values) and all(_WHOLE_NUMBER.fullmatch(value) for value in values)
    out_of_domain = keys.read_out_of_domain(missing)
    if out_of_domain == "clamp" and not integer:
        raise keys.refuse('"out_of_domain": "clamp" needs numbers, and its cells are not all whole numbers')
    return CategoricalColumn(
        name=keys.name,
        tokens=(*values, *missing),
        missing=missing,
        integer=integer,
        out_of_domain=out_of_domain,
        domain=domain,
    )


def _list_codes(keys: _Keys, *, width: int) -> list[str]:
    if keys.codebook is None:
        raise keys.refuse("its domain comes from a codebook, and none is given (--codebook)")
    codes = keys.codebook.codes(keys.name)
    if not all(_WHOLE_NUMBER.fullmatch(code) for code in codes):
        if keys.any_of("count", "maxval", "width"):
            raise keys.refuse("the codebook's codes are not whole numbers: 'count', 'maxval', 'width' do not apply")
        return list(codes)
    # Tables hold plain numbers; the zeros in front are those of the fixed-width file that the codebook describes.
    numbers = list(dict.fromkeys(int(code) for code in codes))
    if keys.any_of("count", "maxval"):
        largest = _count_codes(keys) - 1
        numbers = [number for number in numbers if number < largest] + [largest]
    return [write_whole(number, width=width) for number in numbers]


def _parse_number(keys: _Keys) -> NumericColumn:
    extra: tuple[str, ...] = ()
    if "treat_as" in keys:
        keys.refuse_beside("treat_as", "values", "domain_from", "values_from", "domain_privacy", "width")
        if not keys.any_of("count", "maxval"):
            raise keys.refuse("'treat_as' needs 'count' or 'maxval'")
        integer, low, high = True, 0, _count_codes(keys) - 2
        if high < low:
            raise keys.refuse("'treat_as' needs at least one number below its not-available code")
        extra = (str(high + 1),)
    else:
        integer = keys["type"] == "integer"
        for key in ("min", "max"):
            if key not in keys:
                raise keys.refuse(f"the key {key!r} is missing: the range of a number must be public")
        low, high = keys["min"], keys["max"]
    if low > high:
        raise keys.refuse("'min' is above 'max'")
    if integer and (low != int(low) or high != int(high)):
        raise keys.refuse("'min' and 'max' of an integer must be whole numbers")
    if integer and max(abs(low), abs(high)) > MAX_WHOLE_NUMBER:
        raise keys.refuse("its range goes beyond 2^53, where whole numbers are no longer exact")
    if not math.isfinite(float(high) - float(low)):
        raise keys.refuse("its range is too wide for a double")
    decimals = int(keys.get("decimals", 0 if integer else _default_decimals(low, high)))
    missing = keys.read_missing(decimals=decimals, extra=extra)
    return NumericColumn(
        name=keys.name,
        minimum=float(low),
        maximum=float(high),
        integer=integer,
        decimals=decimals,
        missing=missing,
        edges=_read_edges(keys, low=low, high=high, integer=integer),
        out_of_domain=keys.read_out_of_domain(missing),
    )


def _default_decimals(low: float, high: float) -> int:
    """Digits behind the point that leave about six significant ones at the largest number of the range."""
    largest = max(abs(low), abs(high))
    return 6 if largest == 0 else min(17, max(0, 6 - math.floor(math.log10(largest))))


def _read_edges(keys: _Keys, *, low: float, high: float, integer: bool) -> tuple[float, ...] | None:
    bins = keys.get("bins")
    if bins is None:
        return None
    if isinstance(bins, list | tuple):
        if not all(_is_finite(edge) for edge in bins):
            raise keys.refuse("'bins' must be finite")
        if not _are_rising(bins):
            raise keys.refuse("the borders in 'bins' must increase")
        if bins[0] != low or bins[-1] != high:
            raise keys.refuse("the borders in 'bins' must go from the column's 'min' to its 'max'")
        if integer and any(edge != int(edge) for edge in bins):
            raise keys.refuse("the borders in 'bins' of an integer must be whole numbers")
        return tuple(float(edge) for edge in bins)
    bins = int(bins)
    if bins > MAX_CATEGORIES:
        raise keys.refuse(f"'bins' must be at most {MAX_CATEGORIES}")
    if integer:
        if bins > high - low:
            raise keys.refuse("'bins' must be at most 'max' minus 'min', so that each holds a whole number")
        # A bin holds the numbers from its left border up to the next border; each gets its share of whole numbers.
        span = int(high) - int(low) + 1
        return (*(float(int(low) + index * span // bins) for index in range(bins)), float(high))
    edges = (*(low + (high - low) * (index / bins) for index in range(bins)), float(high))
    if not _are_rising(edges):
        raise keys.refuse("'bins' are more than its range can be cut into")
    return tuple(float(edge) for edge in edges)


def _are_rising(edges: Sequence[float]) -> bool:
    return all(left < right for left, right in itertools.pairwise(edges))


_TYPES: dict[str, tuple[set[str], Callable[[_Keys], _SourceColumn]]] = {
    "enum": (_LIST_KEYS | _OTHER_KEYS | {"width", "bins"}, _parse_enum),
    "integer": (_NUMBER_KEYS, _parse_number),
    "float": (_NUMBER_KEYS, _parse_number),
}


# --- derived columns --------------------------------------------------------------------------------------------------


def _parse_derived(
    keys: _Keys, *, sources: Mapping[str, _SourceColumn | IdentifierColumn], columns: Mapping[str, Mapping[str, Any]]
) -> DerivedColumn:
    if keys.get("uuid"):
        raise keys.refuse("'uuid' and 'derived' are both given; keep one")
    derived = keys["derived"]
    source_name = derived["from"]
    if source_name not in columns:
        raise keys.refuse(f"it is derived from {_quote(source_name)}, which the specs do not name")
    if "derived" in columns[source_name]:
        which = "itself" if source_name == keys.name else f"{_quote(source_name)}, which is derived too"
        raise keys.refuse(f"it is derived from {which}")
    source = sources[source_name]
    if isinstance(source, IdentifierColumn):
        raise keys.refuse(f"it is derived from {_quote(source_name)}, which is a row name and written anew")
    width, decimals = int(keys.get("width", 0)), int(keys.get("decimals", 0))
    mapping = None
    if "map" in derived:
        if keys.any_of("width", "decimals"):
            raise keys.refuse("'width' and 'decimals' do not apply where 'derived.map' writes the cells")
        mapping = {str(token): _write(cell) for token, cell in derived["map"].items()}
    missing = derived.get("missing")
    column = DerivedColumn(
        name=keys.name,
        source=source_name,
        multiply=None if "multiply" not in derived else int(derived["multiply"]),
        floordiv=None if "floordiv" not in derived else int(derived["floordiv"]),
        mapping=mapping,
        missing=None if missing is None else _write(missing, width=width, decimals=decimals),
        decimals=decimals,
        width=width,
    )
    _check_rule(column, source)
    if keys.any_of(*_DOMAIN_KEYS):
        _check_image(column, source, keys)
    return column


def _check_rule(column: DerivedColumn, source: _SourceColumn) -> None:
    """Refuses a rule that some legal cell of the source would break."""
    quoted = _quote(source.name)
    if column.mapping is None:
        if not source.integer:
            raise _refuse(column.name, f"'multiply' and 'floordiv' need whole numbers, and {quoted} has other cells")
        return
    tokens = _list_tokens(source)
    if tokens is None:
        raise _refuse(
            column.name,
            f"'derived.map' needs a source with a known list of at most {MAX_CATEGORIES} cells, and {quoted} has none",
        )
    unavailable = set(source.missing) if column.missing is not None else set()
    bare = [token for token in tokens if token not in column.mapping and token not in unavailable]
    if bare:
        raise _refuse(column.name, f"'derived.map' leaves out {len(bare)} legal cells of {quoted}")
    alien = column.mapping.keys() - set(tokens)
    if alien:
        raise _refuse(column.name, f"'derived.map' has {len(alien)} keys that are no cells of {quoted}")


def _check_image(column: DerivedColumn, source: _SourceColumn, keys: _Keys) -> None:
    """Refuses a derived column whose own domain, given beside the rule, would not hold all that the rule can give."""
    plain = {key: value for key, value in keys.given.items() if key != "derived"}
    if "type" not in plain:
        raise keys.refuse("the key 'type' is missing beside its domain")
    own = _parse_column(replace(keys, given=plain))
    if isinstance(own, UndiscoveredColumn):
        raise keys.refuse("'values_from' and 'derived' are both given; keep one")
    tokens = _list_tokens(source)
    if tokens is None and isinstance(source, NumericColumn) and source.integer and isinstance(own, NumericColumn):
        # Both rules are monotone, so the two ends of the range speak for what lies between.
        tokens = (str(int(source.minimum)), str(int(source.maximum)), *source.missing)
    if tokens is None:
        raise keys.refuse(f"its own domain cannot be checked against {_quote(source.name)}; leave it out")
    cells = {column.derive(token, available=token not in source.missing) for token in tokens}
    outside = sum(not _is_legal(cell, own) for cell in cells)
    if outside:
        raise keys.refuse(f"the rule in 'derived' gives {outside} cells that its own domain does not have")


def _is_legal(cell: str, column: Column) -> bool:
    if cell in column.listed or not isinstance(column, NumericColumn):
        return cell in column.listed
    inside = bool(_NUMBER.fullmatch(cell)) and column.minimum <= float(cell) <= column.maximum
    return inside and (not column.integer or float(cell).is_integer())


def _list_tokens(source: _SourceColumn) -> tuple[str, ...] | None:
    if isinstance(source, CategoricalColumn):
        return source.tokens
    if isinstance(source, NumericColumn) and source.integer:
        low, high = int(source.minimum), int(source.maximum)
        if high - low < MAX_CATEGORIES:
            numbers = (write_whole(number, decimals=source.decimals) for number in range(low, high + 1))
            return tuple(dict.fromkeys((*numbers, *source.missing)))
    return None


# --- cells ------------------------------------------------------------------------------------------------------------


def _write(item: Any, *, width: int = 0, decimals: int = 0) -> str:
    """Writes an item of the specs as the cell it stands for: strings as they are, numbers in the column's style."""
    if isinstance(item, str):
        return item
    if isinstance(item, int) or float(item).is_integer():
        return write_whole(int(item), width=width, decimals=decimals)
    text = format(Decimal(repr(item)), "f")
    behind = len(text.partition(".")[2])
    return text + "0" * max(0, decimals - behind)


def _as_number(cell: str) -> str | int | Decimal:
    """What a cell is compared by: "3", "03" and "3.0" are one number."""
    if cell.isdecimal() and cell.isascii():
        return int(cell)  # most cells by far, and much faster
    return Decimal(cell) if _NUMBER.fullmatch(cell) else cell


def _is_finite(number: Any) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number beyond the largest double
        return False


def _quote(name: str) -> str:
    text = repr(name)
    return text if len(text) <= 80 else text[:76] + "...'"


def _refuse(name: str, reason: str) -> SpecsError:
    return SpecsError(f"Column {_quote(name)} in the specs: {reason}.")


def _refuse_layout(reason: str) -> SpecsError:
    return SpecsError(f"The layout in the specs: {reason}.")
