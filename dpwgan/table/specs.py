"""Reads data-specs.json, in every dialect, into a Schema: what is public about a table, and nothing else."""

import difflib
import functools
import hashlib
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence, Set
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
    UndiscoveredColumn,
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
_DOMAIN_KEYS = {"count", "maxval", "values", "domain_from", "values_from", "domain_privacy", "treat_as"} | {
    "min",
    "max",
    "bins",
    "optional",
    "missing",
    "out_of_domain",
}
_KEYS_OF_TYPE = {
    "enum": {"count", "maxval", "values", "domain_from", "values_from", "domain_privacy", "width", "treat_as"}
    | {"optional", "missing", "out_of_domain", "bins"},
    "integer": {"min", "max", "decimals", "bins", "optional", "missing", "out_of_domain"},
    "float": {"min", "max", "decimals", "bins", "optional", "missing", "out_of_domain"},
}
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
    parsed: dict[str, Column] = {}
    for name, keys in columns.items():
        if "derived" not in keys:
            parsed[name] = _parse_column(name, keys, codebook=codebook)
    if all(isinstance(column, IdentifierColumn) for column in parsed.values()):
        raise SpecsError("The specs leave nothing to train: every column is a row name or derived from another.")
    for name, keys in columns.items():
        if "derived" in keys:
            parsed[name] = _parse_derived(name, keys, sources=parsed, columns=columns, codebook=codebook)
    if layout is not None and not isinstance(parsed[layout.label], CategoricalColumn | UndiscoveredColumn):
        raise _refuse_layout(f"its 'label', {_quote(layout.label)}, must be a column of categories, of the type 'enum'")
    return Schema(columns=tuple(parsed[name] for name in columns), sha256=sha256, layout=layout)


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
    match rule:
        case "type":
            kinds = [wanted] if isinstance(wanted, str) else wanted
            return f"must be {' or '.join(_ARTICLE[kind] for kind in kinds)}"
        case "enum":
            return f"must be one of {', '.join(wanted)}"
        case "const":
            return f"must be {wanted!r}"
        case "minimum":
            return f"must be at least {wanted}"
        case "maximum":
            return f"must be at most {wanted}"
        case "minItems" | "minProperties":
            return f"must have at least {wanted} item{'s' if wanted > 1 else ''}"
        case "maxItems":
            return f"must have at most {wanted} items"
        case "uniqueItems":
            return "lists a cell twice"
        case _:
            return "is not of the documented form"


_ARTICLE = {
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


def _count_codes(keys: Mapping[str, Any]) -> int:
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


def _parse_column(name: str, keys: Mapping[str, Any], *, codebook: Codebook | None) -> Column:
    for key in ("min", "max"):
        if key in keys and not _is_finite(keys[key]):
            raise _refuse(name, f"{key!r} must be finite")
    kind = keys["type"]
    if keys.get("uuid"):
        return _parse_identifier(name, keys)
    if kind == "string":
        raise _refuse(name, 'the type "string" is for row names ("uuid": true); use "enum" with \'values\'')
    for key in keys:
        if key not in _KEYS_OF_TYPE[kind] | _KEYS_OF_ALL:
            raise _refuse(name, f"the key {key!r} does not go with the type {kind!r}")
    if kind != "enum" or "treat_as" in keys:
        return _parse_number(name, keys)
    if "values_from" in keys:
        return _parse_undiscovered(name, keys)
    return _parse_enum(name, keys, codebook=codebook)


def _parse_identifier(name: str, keys: Mapping[str, Any]) -> IdentifierColumn:
    if keys["type"] in ("string", "float"):
        return IdentifierColumn(name=name)
    start = keys.get("min", 0)
    if start != int(start) or abs(start) > MAX_WHOLE_NUMBER:
        raise _refuse(name, "'min' must be a whole number where row names are counted up from it")
    return IdentifierColumn(name=name, start=int(start))


def _parse_undiscovered(name: str, keys: Mapping[str, Any]) -> UndiscoveredColumn:
    _refuse_beside(name, keys, "values_from", ("values", "domain_from", "width", "bins", "out_of_domain"))
    if "domain_privacy" not in keys:
        raise _refuse(
            name,
            "'values_from' reads the column's domain from private rows, so 'domain_privacy' must say on what terms:"
            ' "private" (found by a private selection, paid for from the budget) or "waived" (as it stands, and named'
            " in the claim as not covered)",
        )
    return UndiscoveredColumn(
        name=name,
        privacy=keys["domain_privacy"],
        missing=_read_missing(keys),
        integer=bool(keys.keys() & {"count", "maxval"}),
    )


def _parse_enum(name: str, keys: Mapping[str, Any], *, codebook: Codebook | None) -> CategoricalColumn:
    for key, beside in (("bins", "treat_as"), ("domain_privacy", "values_from")):
        if key in keys:
            raise _refuse(name, f"the key {key!r} needs {beside!r} on an enum")
    given = [key for key in ("count", "maxval", "values") if key in keys]
    if "domain_from" in keys:
        _refuse_beside(name, keys, "domain_from", ("values",))
    elif not given:
        raise _refuse(name, "an enum needs one of 'count', 'maxval', 'values', 'domain_from' and 'values_from'")
    if len(given) > 1:
        raise _refuse(name, f"{given[0]!r} and {given[1]!r} are both given; keep one")
    width = int(keys.get("width", 0))
    missing = _read_missing(keys, width=width)
    missing_numbers = {_as_number(code) for code in missing}
    domain: DomainSource = "specs"
    if "values" in keys:
        _refuse_beside(name, keys, "values", ("width",))
        values = [_write(value) for value in keys["values"]]
        both = sum(_as_number(value) in missing_numbers for value in values)
        if both:
            raise _refuse(name, f"{both} of its 'missing' codes are also in 'values'; list each in one place")
    else:
        # Lists that are implied name the missing codes too; the explicit 'missing' says which those are.
        if "domain_from" in keys:
            domain, values = "codebook", _list_codes(name, keys, codebook=codebook, width=width)
        else:
            values = [_pad(code, width=width) for code in range(_count_codes(keys))]
        values = [value for value in values if _as_number(value) not in missing_numbers]
    if not values:
        raise _refuse(name, "every one of its codes is in 'missing'")
    numbers = {_as_number(value) for value in values}
    integer = len(numbers) == len(values) and all(_WHOLE_NUMBER.fullmatch(value) for value in values)
    out_of_domain = _read_out_of_domain(name, keys, missing=missing)
    if out_of_domain == "clamp" and not integer:
        raise _refuse(name, '"out_of_domain": "clamp" needs numbers, and its cells are not all whole numbers')
    return CategoricalColumn(
        name=name,
        tokens=(*values, *missing),
        missing=missing,
        integer=integer,
        out_of_domain=out_of_domain,
        domain=domain,
    )


def _list_codes(name: str, keys: Mapping[str, Any], *, codebook: Codebook | None, width: int) -> list[str]:
    if codebook is None:
        raise _refuse(name, "its domain comes from a codebook, and none is given (--codebook)")
    codes = codebook.codes(name)
    if not all(_WHOLE_NUMBER.fullmatch(code) for code in codes):
        if keys.keys() & {"count", "maxval", "width"}:
            raise _refuse(name, "the codebook's codes are not whole numbers: 'count', 'maxval', 'width' do not apply")
        return list(codes)
    # Tables hold plain numbers; the zeros in front are those of the fixed-width file that the codebook describes.
    numbers = list(dict.fromkeys(int(code) for code in codes))
    if keys.keys() & {"count", "maxval"}:
        largest = _count_codes(keys) - 1
        numbers = [number for number in numbers if number < largest] + [largest]
    return [_pad(number, width=width) for number in numbers]


def _parse_number(name: str, keys: Mapping[str, Any]) -> NumericColumn:
    extra: tuple[str, ...] = ()
    if "treat_as" in keys:
        _refuse_beside(name, keys, "treat_as", ("values", "domain_from", "values_from", "domain_privacy", "width"))
        if not keys.keys() & {"count", "maxval"}:
            raise _refuse(name, "'treat_as' needs 'count' or 'maxval'")
        integer, low, high = True, 0, _count_codes(keys) - 2
        if high < low:
            raise _refuse(name, "'treat_as' needs at least one number below its not-available code")
        extra = (str(high + 1),)
    else:
        integer = keys["type"] == "integer"
        for key in ("min", "max"):
            if key not in keys:
                raise _refuse(name, f"the key {key!r} is missing: the range of a number must be public")
        low, high = keys["min"], keys["max"]
    if low > high:
        raise _refuse(name, "'min' is above 'max'")
    if integer and (low != int(low) or high != int(high)):
        raise _refuse(name, "'min' and 'max' of an integer must be whole numbers")
    if integer and max(abs(low), abs(high)) > MAX_WHOLE_NUMBER:
        raise _refuse(name, "its range goes beyond 2^53, where whole numbers are no longer exact")
    if not math.isfinite(float(high) - float(low)):
        raise _refuse(name, "its range is too wide for a double")
    decimals = int(keys.get("decimals", 0 if integer else _default_decimals(low, high)))
    missing = _read_missing(keys, decimals=decimals, extra=extra)
    return NumericColumn(
        name=name,
        minimum=float(low),
        maximum=float(high),
        integer=integer,
        decimals=decimals,
        missing=missing,
        edges=_read_edges(name, keys, low=low, high=high, integer=integer),
        out_of_domain=_read_out_of_domain(name, keys, missing=missing),
    )


def _default_decimals(low: float, high: float) -> int:
    """Digits behind the point that leave about six significant ones at the largest number of the range."""
    largest = max(abs(low), abs(high))
    return 6 if largest == 0 else min(17, max(0, 6 - math.floor(math.log10(largest))))


def _read_edges(
    name: str, keys: Mapping[str, Any], *, low: float, high: float, integer: bool
) -> tuple[float, ...] | None:
    bins = keys.get("bins")
    if bins is None:
        return None
    if isinstance(bins, list | tuple):
        if not all(_is_finite(edge) for edge in bins):
            raise _refuse(name, "'bins' must be finite")
        if any(right <= left for left, right in itertools.pairwise(bins)):
            raise _refuse(name, "the borders in 'bins' must increase")
        if bins[0] != low or bins[-1] != high:
            raise _refuse(name, "the borders in 'bins' must go from the column's 'min' to its 'max'")
        if integer and any(edge != int(edge) for edge in bins):
            raise _refuse(name, "the borders in 'bins' of an integer must be whole numbers")
        return tuple(float(edge) for edge in bins)
    bins = int(bins)
    if bins > MAX_CATEGORIES:
        raise _refuse(name, f"'bins' must be at most {MAX_CATEGORIES}")
    if integer:
        if bins > high - low:
            raise _refuse(name, "'bins' must be at most 'max' minus 'min', so that each holds a whole number")
        # A bin holds the numbers from its left border up to the next border; each gets its share of whole numbers.
        span = int(high) - int(low) + 1
        return (*(float(int(low) + index * span // bins) for index in range(bins)), float(high))
    edges = (*(low + (high - low) * (index / bins) for index in range(bins)), float(high))
    if any(right <= left for left, right in itertools.pairwise(edges)):
        raise _refuse(name, "'bins' are more than its range can be cut into")
    return tuple(float(edge) for edge in edges)


# --- derived columns --------------------------------------------------------------------------------------------------


def _parse_derived(
    name: str,
    keys: Mapping[str, Any],
    *,
    sources: Mapping[str, Column],
    columns: Mapping[str, Mapping[str, Any]],
    codebook: Codebook | None,
) -> DerivedColumn:
    if keys.get("uuid"):
        raise _refuse(name, "'uuid' and 'derived' are both given; keep one")
    derived = keys["derived"]
    source_name = derived["from"]
    if source_name not in columns:
        raise _refuse(name, f"it is derived from {_quote(source_name)}, which the specs do not name")
    if "derived" in columns[source_name]:
        which = "itself" if source_name == name else f"{_quote(source_name)}, which is derived too"
        raise _refuse(name, f"it is derived from {which}")
    source = sources[source_name]
    if isinstance(source, IdentifierColumn):
        raise _refuse(name, f"it is derived from {_quote(source_name)}, which is a row name and written anew")
    width, decimals = int(keys.get("width", 0)), int(keys.get("decimals", 0))
    mapping = None
    if "map" in derived:
        if keys.keys() & {"width", "decimals"}:
            raise _refuse(name, "'width' and 'decimals' do not apply where 'derived.map' writes the cells")
        mapping = {str(token): _write(cell) for token, cell in derived["map"].items()}
    missing = derived.get("missing")
    column = DerivedColumn(
        name=name,
        source=source_name,
        multiply=None if "multiply" not in derived else int(derived["multiply"]),
        floordiv=None if "floordiv" not in derived else int(derived["floordiv"]),
        mapping=mapping,
        missing=None if missing is None else _write(missing, width=width, decimals=decimals),
        decimals=decimals,
        width=width,
    )
    _check_rule(column, source)
    if keys.keys() & _DOMAIN_KEYS:
        _check_image(column, source, keys, codebook=codebook)
    return column


def _check_rule(column: DerivedColumn, source: Column) -> None:
    """Refuses a rule that some legal cell of the source would break."""
    if column.mapping is None:
        whole = isinstance(source, CategoricalColumn | NumericColumn | UndiscoveredColumn) and source.integer
        if not whole:
            raise _refuse(
                column.name, f"'multiply' and 'floordiv' need whole numbers, and {_quote(source.name)} has other cells"
            )
        return
    tokens = _list_tokens(source)
    if tokens is None:
        raise _refuse(
            column.name,
            f"'derived.map' needs a source with a known list of at most {MAX_CATEGORIES} cells,"
            f" and {_quote(source.name)} has none",
        )
    unavailable = set(_get_missing(source)) if column.missing is not None else set()
    bare = [token for token in tokens if token not in column.mapping and token not in unavailable]
    if bare:
        raise _refuse(column.name, f"'derived.map' leaves out {len(bare)} legal cells of {_quote(source.name)}")
    alien = column.mapping.keys() - set(tokens)
    if alien:
        raise _refuse(column.name, f"'derived.map' has {len(alien)} keys that are no cells of {_quote(source.name)}")


def _check_image(column: DerivedColumn, source: Column, keys: Mapping[str, Any], *, codebook: Codebook | None) -> None:
    """Refuses a derived column whose own domain, given beside the rule, would not hold all that the rule can give."""
    plain = {key: value for key, value in keys.items() if key != "derived"}
    if "type" not in plain:
        raise _refuse(column.name, "the key 'type' is missing beside its domain")
    own = _parse_column(column.name, plain, codebook=codebook)
    if isinstance(own, UndiscoveredColumn):
        raise _refuse(column.name, "'values_from' and 'derived' are both given; keep one")
    unavailable = set(_get_missing(source))
    tokens = _list_tokens(source)
    if tokens is None and isinstance(source, NumericColumn) and source.integer and isinstance(own, NumericColumn):
        # Both rules are monotone, so the two ends of the range speak for what lies between.
        tokens = (_pad(int(source.minimum)), _pad(int(source.maximum)), *source.missing)
    if tokens is None:
        raise _refuse(column.name, f"its own domain cannot be checked against {_quote(source.name)}; leave it out")
    cells = {column.derive(token, available=token not in unavailable) for token in tokens}
    outside = sum(not _is_legal(cell, own) for cell in cells)
    if outside:
        raise _refuse(column.name, f"the rule in 'derived' gives {outside} cells that its own domain does not have")


def _is_legal(cell: str, column: Column) -> bool:
    if isinstance(column, CategoricalColumn):
        return cell in column.tokens
    if isinstance(column, NumericColumn):
        if cell in column.missing:
            return True
        inside = bool(_NUMBER.fullmatch(cell)) and column.minimum <= float(cell) <= column.maximum
        return inside and (not column.integer or float(cell).is_integer())
    return True


def _list_tokens(source: Column) -> tuple[str, ...] | None:
    if isinstance(source, CategoricalColumn):
        return source.tokens
    if isinstance(source, NumericColumn) and source.integer:
        low, high = int(source.minimum), int(source.maximum)
        if high - low < MAX_CATEGORIES:
            numbers = (_pad(number, decimals=source.decimals) for number in range(low, high + 1))
            return tuple(dict.fromkeys((*numbers, *source.missing)))
    return None


def _get_missing(source: Column) -> tuple[str, ...]:
    if isinstance(source, CategoricalColumn | NumericColumn | UndiscoveredColumn):
        return source.missing
    return ()


# --- cells ------------------------------------------------------------------------------------------------------------


def _read_missing(
    keys: Mapping[str, Any], *, width: int = 0, decimals: int = 0, extra: tuple[str, ...] = ()
) -> tuple[str, ...]:
    codes = [_write(code, width=width, decimals=decimals) for code in keys.get("missing", ())]
    empty = keys.get("optional", False) or "" in codes
    return (*dict.fromkeys((*(code for code in codes if code), *extra)), *(("",) if empty else ()))


def _read_out_of_domain(name: str, keys: Mapping[str, Any], *, missing: tuple[str, ...]) -> Any:
    choice = keys.get("out_of_domain", "reject")
    if choice == "missing" and not missing:
        raise _refuse(name, '"out_of_domain": "missing" needs a \'missing\' code or "optional": true')
    return choice


def _write(item: Any, *, width: int = 0, decimals: int = 0) -> str:
    """Writes an item of the specs as the cell it stands for: strings as they are, numbers in the column's style."""
    if isinstance(item, str):
        return item
    if isinstance(item, int) or float(item).is_integer():
        return _pad(int(item), width=width, decimals=decimals)
    text = format(Decimal(repr(item)), "f")
    behind = len(text.partition(".")[2])
    return text + "0" * max(0, decimals - behind)


def _pad(number: int, *, width: int = 0, decimals: int = 0) -> str:
    if not width and not decimals:
        return str(number)
    text = f"{abs(number):0{width}d}" + ("." + "0" * decimals if decimals else "")
    return "-" + text if number < 0 else text


def _as_number(cell: str) -> str | int | Decimal:
    """Gives what a cell is compared by: "3", "03" and "3.0" are one number."""
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


def _refuse_beside(name: str, keys: Mapping[str, Any], key: str, others: Sequence[str]) -> None:
    for other in others:
        if other in keys:
            raise _refuse(name, f"{key!r} and {other!r} are both given; keep one")
