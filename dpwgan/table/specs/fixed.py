"""Columns that are not trained: free text, columns to leave out, and constants."""

from dpwgan.table.schema import FixedColumn
from dpwgan.table.specs.keys import Keys, write_item

FIXED_KEYS = {"text": {"write"}, "drop": set[str](), "constant": {"value"}}


def parse_fixed(keys: Keys) -> FixedColumn:
    """Reads a text, a drop or a constant. Raises: SpecsError."""
    kind = keys["type"]
    if kind == "constant" and "value" not in keys:
        raise keys.refuse("the key 'value' is missing: the one cell of a constant")
    cell = {"text": keys.get("write", ""), "constant": keys.get("value"), "drop": None}[kind]
    return FixedColumn(name=keys.name, cell=None if cell is None else write_item(cell), checked=kind == "constant")
