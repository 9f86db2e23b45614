"""Rules between columns: SQL conditions and lists of combinations, checked against the columns that they name."""

import csv
import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from dpwgan.errors import quote
from dpwgan.table.calendar import CalendarColumn
from dpwgan.table.conditions import ConditionError, read_sql
from dpwgan.table.rules import make_reader, read_condition
from dpwgan.table.schema import Column, NumericColumn, Rule, Schema
from dpwgan.table.specs.keys import refuse_rule, write_item
from dpwgan.table.specs.problems import Problems

# Where an interval begins that no rule of this comparison parts: at the number, behind it, or both.
_BEGINS = {
    "GtEq": (False,),
    "Lt": (False,),
    "Gt": (True,),
    "LtEq": (True,),
    "Eq": (False, True),
    "NotEq": (False, True),
}


def add_rules(schema: Schema, given: Sequence[Any], problems: Problems, *, folder: Path) -> Schema:
    """The schema with its rules, whose form is sound; numbers and moments are cut where rules have a constant for them.

    What is wrong with a rule is gathered. Of one whose form is not sound (None) all is said already; of one that names
    a column that is wrong nothing can be said.
    """
    rules: list[Rule] = []
    for number, rule in enumerate(given, start=1):
        if rule is None or problems.concern(rule):
            continue
        with problems.gathered():
            rules.append(_parse_rule(rule, number, schema, folder=folder))
            if rules[-1].violations == "drop" and schema.undiscovered:
                raise refuse_rule(
                    number, "'violations': 'drop' needs specs that list all cells: 'values_from' reads rows"
                )
    return replace(schema, columns=tuple(_cut(column, rules) for column in schema.columns), rules=tuple(rules))


def _parse_rule(given: Any, number: int, schema: Schema, *, folder: Path) -> Rule:
    keys: Mapping[str, Any] = {"sql": given} if isinstance(given, str) else given
    violations = keys.get("violations", "reject")
    if "sql" in keys:
        text = keys["sql"]
        try:
            condition = read_condition(text, schema)
        except ConditionError as error:
            raise refuse_rule(number, f"it {error}", text=text) from None
        return Rule(name=f"rule {number} ({quote(text)})", columns=condition.columns, sql=text, violations=violations)
    refuse = partial(refuse_rule, number)
    columns = tuple(keys["columns"])
    listed, digest = keys.get("allowed", keys.get("forbidden")), None
    if listed is None:
        listed, digest = _read_file(folder / keys["allowed_from"], columns, refuse)
    if any(len(cells) != len(columns) for cells in listed):
        raise refuse(f"each combination needs a cell for each of its {len(columns)} columns")
    allowed = "forbidden" not in keys
    try:
        readers = [make_reader(name, schema) for name in columns]
        combinations = dict.fromkeys(
            tuple(None if cell is None else read(write_item(cell)) for read, cell in zip(readers, cells, strict=True))
            for cells in listed
        )
    except ConditionError as error:
        raise refuse(f"it {error}") from None
    what = f"the {'allowed' if allowed else 'forbidden'} combinations of {', '.join(columns)}"
    return Rule(
        name=f"rule {number} ({what})",
        columns=columns,
        combinations=tuple(combinations),
        allowed=allowed,
        violations=violations,
        sha256=digest,
    )


def _read_file(path: Path, columns: tuple[str, ...], refuse: Any) -> tuple[list[list[str]], str]:
    """The combinations that a file lists, and its SHA-256."""
    try:
        content = path.read_bytes()
        rows = [row for row in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True) if row]
    except OSError as error:
        raise refuse(f"the file {path.name!r} cannot be read: {error.strerror or 'unknown reason'}") from None
    except (csv.Error, ValueError):
        raise refuse(f"the file {path.name!r} is not a CSV table in UTF-8") from None
    if not rows or any(rows[0].count(name) != 1 for name in columns):
        raise refuse(f"the header of the file {path.name!r} does not name each of its columns once")
    if len(rows) < 2 or any(len(row) != len(rows[0]) for row in rows):
        raise refuse(f"the file {path.name!r} lists no combinations, or has rows that are not as long as its header")
    places = [rows[0].index(name) for name in columns]
    return [[row[place] for place in places] for row in rows[1:]], hashlib.sha256(content).hexdigest()


def _cut(column: Column, rules: Iterable[Rule]) -> Column:
    """The column with the public numbers, or steps of a calendar, at which rules part its range."""
    found = [
        (constant, behind)
        for rule in rules
        if rule.sql is not None
        for name, operation, constant in read_sql(rule.sql).comparisons
        if name == column.name
        for behind in _BEGINS[operation]
    ]
    if isinstance(column, CalendarColumn):
        steps = {column.find_step(constant, behind=behind) for constant, behind in found}
        return replace(column, cuts=tuple(sorted(step for step in steps if 0 < step <= column.steps)))
    if not isinstance(column, NumericColumn):
        return column
    numbers: set[float] = set()
    for constant, behind in found:
        if column.minimum <= constant <= column.maximum:
            step = column.count_steps(constant, up=True)
            # A number between two that may be written parts them anyway.
            is_written = step == column.count_steps(constant, up=False)
            numbers.add(float(Decimal(step + (behind and is_written)) / column.steps_per_unit))
    return replace(column, cuts=tuple(sorted(cut for cut in numbers if column.minimum < cut <= column.maximum)))
