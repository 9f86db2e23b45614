"""Whose rows are protected together: the one key that names the column of a person, household, patient or card."""

from collections.abc import Mapping
from typing import Any

from dpwgan.errors import SpecsError, quote
from dpwgan.table.schema import UnitColumn

UNIT = "unit"
"""A key of the specs that may be no column, as `layout`: a column always has 'type' or 'derived'; this has neither."""


def has_unit(columns: Mapping[str, Mapping[str, Any]]) -> bool:
    """Says whether the key UNIT declares a unit, and is no column of that name."""
    return UNIT in columns and not columns[UNIT].keys() & {"type", "derived"}


def take_unit(columns: Mapping[str, dict[str, Any]]) -> tuple[dict[str, dict[str, Any]], UnitColumn | None]:
    """Takes the unit out of what the specs list, and its column, if that is listed as one to leave out.

    Raises: SpecsError if the column is listed as any other.
    """
    if not has_unit(columns):
        return dict(columns), None
    unit = UnitColumn(name=columns[UNIT]["column"], max_rows=int(columns[UNIT]["max_rows"]))
    others = {name: keys for name, keys in columns.items() if name not in (UNIT, unit.name)}
    if columns.get(unit.name, {"type": "drop"}).get("type") != "drop":
        raise refuse_unit(
            f'its column, {quote(unit.name)}, is listed as another type than "drop", and never trained nor written: '
            "leave it out of the list"
        )
    return others, unit


def refuse_unit(reason: str) -> SpecsError:
    """The sentence for a bad unit."""
    return SpecsError(f"The unit in the specs: {reason}.", column=UNIT)
