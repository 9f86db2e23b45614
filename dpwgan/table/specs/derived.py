"""Derived columns: a rule that every legal cell of the source can follow."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dpwgan.errors import quote, say_count
from dpwgan.table.conditions import ConditionError, read_sql
from dpwgan.table.rules import read_derivation
from dpwgan.table.schema import (
    CategoricalColumn,
    Column,
    ComputedColumn,
    DerivedColumn,
    FunctionColumn,
    IdentifierColumn,
    NumericColumn,
    Schema,
    TrainedColumn,
    UndiscoveredColumn,
    write_whole,
)
from dpwgan.table.specs.categories import LIST_KEYS
from dpwgan.table.specs.columns import parse_column
from dpwgan.table.specs.keys import MAX_CATEGORIES, MISSING_KEYS, NUMBER, Keys, write_item
from dpwgan.table.specs.numbers import RANGE_KEYS

SourceColumn = TrainedColumn | UndiscoveredColumn
"""What another column may be derived from."""

_COMPUTED_KEYS = {"derived", "type", "description", "width", "decimals"}
_DOMAIN_KEYS = LIST_KEYS | RANGE_KEYS | MISSING_KEYS


def parse_derived(
    keys: Keys, *, sources: Mapping[str, Column], columns: Mapping[str, Mapping[str, Any]]
) -> FunctionColumn:
    """Reads a derived column, whose sources are among `sources`. Raises: SpecsError."""
    if keys.get("uuid"):
        raise keys.refuse("'uuid' and 'derived' are both given; keep one")
    if "ordered" in keys:
        raise keys.refuse("'ordered' is for what is trained, and a derived column is not; leave it out")
    derived = keys["derived"]
    if "sql" in derived:
        return _parse_computed(keys, sources=sources, columns=columns)
    source_name = derived["from"]
    if source_name not in columns:
        raise keys.refuse(f"it is derived from {quote(source_name)}, which the specs do not name")
    if "derived" in columns[source_name]:
        which = "itself" if source_name == keys.name else f"{quote(source_name)}, which is derived too"
        raise keys.refuse(f"it is derived from {which}")
    source = sources[source_name]
    if not isinstance(source, SourceColumn):
        kind = "is a row name and written anew" if isinstance(source, IdentifierColumn) else "is not trained"
        raise keys.refuse(f"it is derived from {quote(source_name)}, which {kind}")
    width, decimals = int(keys.get("width", 0)), int(keys.get("decimals", 0))
    mapping = None
    if "map" in derived:
        if keys.any_of("width", "decimals"):
            raise keys.refuse("'width' and 'decimals' do not apply where 'derived.map' writes the cells")
        mapping = {str(token): write_item(cell) for token, cell in derived["map"].items()}
    missing = derived.get("missing")
    column = DerivedColumn(
        name=keys.name,
        source=source_name,
        multiply=None if "multiply" not in derived else int(derived["multiply"]),
        floordiv=None if "floordiv" not in derived else int(derived["floordiv"]),
        mapping=mapping,
        missing=None if missing is None else write_item(missing, width=width, decimals=decimals),
        decimals=decimals,
        width=width,
    )
    _check_rule(column, source, keys)
    if keys.any_of(*_DOMAIN_KEYS):
        _check_image(column, source, keys)
    return column


def _parse_computed(
    keys: Keys, *, sources: Mapping[str, Column], columns: Mapping[str, Mapping[str, Any]]
) -> ComputedColumn:
    derived = keys["derived"]
    if "from" in derived:
        raise keys.refuse("'derived.sql' names its columns itself: leave out 'derived.from'")
    for key in keys.given:
        if key not in _COMPUTED_KEYS:
            raise keys.refuse(f"the key {key!r} does not go with 'derived.sql'")
    try:
        for name in read_sql(derived["sql"]).columns:
            if "derived" in columns.get(name, ()):
                others = f"{quote(name)}, which is derived too: name the columns that it is derived from"
                raise ConditionError(f"reads {'itself' if name == keys.name else others}")
        read, kind = read_derivation(derived["sql"], Schema(columns=tuple(sources.values()), sha256=""))
    except ConditionError as error:
        raise keys.refuse(f"'derived.sql' {error}") from None
    if kind == "real" and keys.get("decimals") == 0:
        kind = "whole"  # so that they are such in Parquet and frames, too
    if (kind != "whole" and "width" in keys) or (kind == "text" and "decimals" in keys):
        raise keys.refuse("'width' is for whole numbers and 'decimals' for numbers, and 'derived.sql' gives others")
    width, decimals = int(keys.get("width", 0)), int(keys.get("decimals", 6 if kind == "real" else 0))
    return ComputedColumn(
        name=keys.name,
        sql=derived["sql"],
        sources=read,
        gives=kind,
        missing=write_item(derived.get("missing", ""), width=width, decimals=decimals),
        decimals=decimals,
        width=width,
    )


def _check_rule(column: DerivedColumn, source: SourceColumn, keys: Keys) -> None:
    """Refuses a rule that some legal cell of the source would break."""
    quoted = quote(source.name)
    if column.mapping is None:
        if not source.integer:
            raise keys.refuse(f"'multiply' and 'floordiv' need whole numbers, and {quoted} has other cells")
        return
    tokens = _list_tokens(source)
    if tokens is None:
        raise keys.refuse(
            f"'derived.map' needs a source with a known list of at most {MAX_CATEGORIES} cells, and {quoted} has none"
        )
    unavailable = set(source.missing) if column.missing is not None else set()
    bare = [token for token in tokens if token not in column.mapping and token not in unavailable]
    if bare:
        raise keys.refuse(f"'derived.map' leaves out {say_count(len(bare), 'legal cell')} of {quoted}")
    alien = column.mapping.keys() - set(tokens)
    if alien:
        raise keys.refuse(f"'derived.map' has {say_count(len(alien), 'key')} for cells that {quoted} does not have")


def _check_image(column: DerivedColumn, source: SourceColumn, keys: Keys) -> None:
    """Refuses a derived column whose own domain, given beside the rule, would not hold all that the rule can give."""
    plain = {key: value for key, value in keys.given.items() if key != "derived"}
    if "type" not in plain:
        raise keys.refuse("the key 'type' is missing beside its domain")
    own = parse_column(replace(keys, given=plain))
    if isinstance(own, UndiscoveredColumn):
        raise keys.refuse("'values_from' and 'derived' are both given; keep one")
    tokens = _list_tokens(source)
    if tokens is None and isinstance(source, NumericColumn) and source.integer and isinstance(own, NumericColumn):
        # Both rules are monotone, so the two ends of the range speak for what lies between.
        tokens = (str(int(source.minimum)), str(int(source.maximum)), *source.missing)
    if tokens is None:
        raise keys.refuse(f"its own domain cannot be checked against {quote(source.name)}; leave it out")
    cells = {column.derive(token, available=token not in source.missing) for token in tokens}
    outside = sum(not _is_legal(cell, own) for cell in cells)
    if outside:
        raise keys.refuse(f"the rule in 'derived' gives {say_count(outside, 'cell')} that its own domain does not have")


def _is_legal(cell: str, column: Column) -> bool:
    if cell in column.listed or not isinstance(column, NumericColumn):
        return cell in column.listed
    inside = bool(NUMBER.fullmatch(cell)) and column.minimum <= float(cell) <= column.maximum
    return inside and (not column.integer or float(cell).is_integer())


def _list_tokens(source: SourceColumn) -> tuple[str, ...] | None:
    if isinstance(source, CategoricalColumn):
        return source.tokens
    if isinstance(source, NumericColumn) and source.integer:
        low, high = int(source.minimum), int(source.maximum)
        if high - low < MAX_CATEGORIES:
            numbers = (
                write_whole(number, width=source.width, decimals=source.decimals) for number in range(low, high + 1)
            )
            return tuple(dict.fromkeys((*numbers, *source.missing)))
    return None
