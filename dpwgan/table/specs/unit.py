"""The key of the specs that names the unit of privacy: the column of a person, household, patient or card."""

import math
from collections.abc import Collection, Mapping
from functools import partial
from itertools import accumulate
from typing import Any

from dpwgan.errors import quote, say_both
from dpwgan.table.calendar import CalendarColumn, LaterColumn
from dpwgan.table.conditions import OTHER_ROWS, ConditionError
from dpwgan.table.rules import read_condition
from dpwgan.table.schema import (
    CategoricalColumn,
    Column,
    HigherColumn,
    IdentifierColumn,
    NumericColumn,
    Schema,
    TrainedColumn,
    UndiscoveredColumn,
    UnitColumn,
)
from dpwgan.table.specs.columns import parse_identifier
from dpwgan.table.specs.keys import UNIT, Keys, declares, refuse_column, refuse_key

MOST_FORMS = 10_000
"""Most forms of a unit, each with a noisy count of its own."""

refuse_unit = partial(refuse_key, UNIT)


def take_unit(
    columns: Mapping[str, dict[str, Any]], *, wrong: Collection[str]
) -> tuple[dict[str, dict[str, Any]], UnitColumn | None]:
    """Takes the unit out of what the specs list, with its column.

    `wrong` are entries that are not among `columns` because something was found wrong with them.
    Raises: SpecsError if the column is listed as one to be trained, or a column is said to be of a unit and cannot.
    """
    of_unit = tuple(name for name, keys in columns.items() if "of" in keys)
    shared = tuple(name for name in of_unit if columns[name].get("type") not in ("place", "size"))
    if not declares(columns, UNIT):
        if of_unit and UNIT not in wrong:
            why = f"; {say_both(UNIT)}" if UNIT in columns else ""
            raise refuse_column(of_unit[0], f"'of' says whose it is, and the specs name no \"unit\"{why}")
        return dict(columns), None
    name, most = columns[UNIT]["column"], int(columns[UNIT]["max_rows"])
    own = columns.get(name, {"type": "drop"})
    if own.get("type") != "drop" and not own.get("uuid"):
        raise refuse_unit(
            f'its column, {quote(name)}, is listed as another type than "drop" or row names ("uuid": true), and never '
            "trained: leave it out of the list"
        )
    kind, of_kind = columns[UNIT].get("kind"), columns[UNIT].get("of_kind", {})
    unique, linked, rules = (tuple(columns[UNIT].get(key, ())) for key in ("unique", "linked", "rules"))
    told = (*([kind] if kind else []), *of_unit, *unique, *linked, *rules)
    if told and not own.get("uuid"):
        raise refuse_unit(
            f"'of', 'kind', 'unique', 'linked' and 'rules' say how rows of one unit go together in the output "
            f'({quote(told[0])}), and the output names no units: list {quote(name)} with "uuid": true'
        )
    for column in shared:
        keys = columns[column]
        if keys.keys() & {"uuid", "derived"} or keys["type"] in ("text", "drop", "constant"):
            raise refuse_unit(f"{quote(column)} is \"of\" it, and is not trained: leave 'of' out")
    for column, keys in columns.items():
        told_by = Keys(column, keys).told_by
        if told_by is not None and (column in shared) != (told_by in shared):
            raise refuse_unit(f"{quote(column)} is told since or above another column: both are of it, or neither")
    names = parse_identifier(Keys(name, own)) if own.get("uuid") else IdentifierColumn(name=name)
    unit = UnitColumn(
        name=name,
        max_rows=most,
        written=bool(own.get("uuid")),
        start=names.start,
        width=names.width,
        shared=shared,
        unique=unique,
        kind_of_row=kind,
        of_kind=tuple(
            (name, *map(int, rows if isinstance(rows, list) else (rows, rows))) for name, rows in of_kind.items()
        ),
        linked=linked,
        rules=rules,
    )
    size = unit.size_column.name
    if unit.has_sizes and size in columns:
        raise refuse_unit(f"its number of rows is called {quote(size)}: rename the column of that name")
    return {other: keys for other, keys in columns.items() if other not in (UNIT, name)}, unit


def check_unit(unit: UnitColumn, columns: Mapping[str, Column]) -> None:
    """Makes sure that columns can say of which kind a unit's row is, and which of its rows. Raises: SpecsError."""
    for name in unit.unique:
        column = columns.get(name)
        if not isinstance(column, TrainedColumn | UndiscoveredColumn) or name in unit.shared:
            raise refuse_unit(
                f'its \'unique\' names {quote(name)}, which must be a column that is trained and not "of": "unit"'
            )
    for name in unit.linked:
        column = columns.get(name)
        is_told = name in (*unit.shared, unit.kind_of_row)
        is_told |= name in unit.unique and not isinstance(column, CalendarColumn)
        if not isinstance(column, TrainedColumn | UndiscoveredColumn) or is_told:
            raise refuse_unit(
                f'its \'linked\' names {quote(name)}, which must be a column that is trained, not "of": "unit", not '
                "'kind', and, but for dates, not among 'unique'"
            )
    if (unit.linked or unit.rules) and unit.max_rows == 1:
        raise refuse_unit("it has one row, so that nothing is 'linked' in it and no 'rules' hold between rows")
    most = count_different(unit, columns)
    if most < unit.max_rows:
        raise refuse_unit(
            f"its 'unique' columns have {most:.0f} different rows, and it is to keep {unit.max_rows}: lower 'max_rows'"
        )
    if unit.kind_of_row is None:
        if unit.of_kind:
            raise refuse_unit("its 'of_kind' says how many rows are of a kind, and no 'kind' which")
        return
    kind = columns.get(unit.kind_of_row)
    if not isinstance(kind, CategoricalColumn) or kind.name in unit.shared:
        raise refuse_unit("its 'kind' must name an enum that lists its cells, and is not the unit's own")
    for name, _, _ in unit.of_kind:
        if name not in kind.tokens:
            raise refuse_unit(f"its 'of_kind' has {quote(name)}, which {quote(kind.name)} does not")
    kinds, rows = len(kind.tokens), unit.max_rows
    # How many forms have no row, one, two and so on.
    of_rows = [1] + [0] * rows
    for least, upper in unit.list_bounds(kind.tokens):
        below, fewer = [0, *accumulate(of_rows)], max(upper, least - 1)
        of_rows = [below[max(own - least + 1, 0)] - below[max(own - fewer, 0)] for own in range(rows + 1)]
    forms = sum(of_rows[1:])
    if forms > MOST_FORMS:
        raise refuse_unit(
            f"{rows} rows of {kinds} kinds make {forms:,} forms of it, and {MOST_FORMS:,} are the most: lower "
            "'max_rows', or leave 'kind' out"
        )
    if not forms:
        raise refuse_unit(f"no unit of at most {rows} rows has as many of each kind as its 'of_kind' says")


def check_unit_rules(unit: UnitColumn, schema: Schema) -> None:
    """Makes sure that rules between rows of a unit can be read, and that there is a row before. Raises: SpecsError."""
    for number, text in enumerate(unit.rules, start=1):
        try:
            condition = read_condition(text, schema, of_unit=True)
        except ConditionError as error:
            raise refuse_unit(f"its rule {number}, {quote(text)}, {error}") from None
        for name in {*condition.columns} & {*OTHER_ROWS}:
            raise refuse_unit(f"its rule {number} reads a column {quote(name)}, as another row is called: rename it")
    moments = (name for name in unit.linked if isinstance(schema.by_name[name], CalendarColumn))
    if unit.rules and not (unit.kind_of_row or unit.unique or any(moments)):
        raise refuse_unit(
            "its 'rules' speak of the row before, and nothing says which that is: no 'kind', no 'unique' columns, and "
            "no 'linked' date or time"
        )


def count_different(unit: UnitColumn, columns: Mapping[str, Column]) -> float:
    """How many rows differ in the unit's unique columns at most; infinite without any, or where that is not known."""
    return math.prod((_count_cells(columns[name]) for name in unit.unique), start=1.0) if unit.unique else math.inf


def _count_cells(column: Column) -> float:
    """How many different cells a column may have, where that is told by itself."""
    if isinstance(column, CategoricalColumn):
        return len(column.tokens)
    if isinstance(column, NumericColumn) and not isinstance(column, HigherColumn):
        low, high = column.find_ends()
        return high - low + 1 + len(column.missing)
    if isinstance(column, CalendarColumn) and not isinstance(column, LaterColumn):
        return column.steps + 1 + len(column.missing)
    return math.inf
