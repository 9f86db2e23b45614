"""Columns of row names ("uuid" in the specs), which are never trained."""

from dpwgan.table.schema import IdentifierColumn
from dpwgan.table.specs.keys import MAX_WHOLE_NUMBER, Keys


def parse_identifier(keys: Keys) -> IdentifierColumn:
    """Reads a column of row names. Raises: SpecsError."""
    if keys["type"] in ("string", "float"):
        return IdentifierColumn(name=keys.name)
    start = keys.get("min", 0)
    if start != int(start) or abs(start) > MAX_WHOLE_NUMBER:
        raise keys.refuse("'min' must be a whole number where row names are counted up from it")
    return IdentifierColumn(name=keys.name, start=int(start))
