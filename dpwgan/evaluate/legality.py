"""What of a synthetic table the specs do not allow.

Privacy: sees the synthetic table and the specs only.
"""

from typing import Any

from dpwgan.evaluate.tables import ComparedTable
from dpwgan.table.schema import DerivedColumn, Schema


def describe_legality(table: ComparedTable, schema: Schema) -> dict[str, Any]:
    """Gives how many rows hold an illegal cell, how many derived cells do not follow, and each broken rule."""
    derived = {column.name for column in schema.columns if isinstance(column, DerivedColumn)}
    return {
        "rows": table.rows + table.illegal,
        "illegal_rows": table.illegal,
        "derived_columns": len(derived),
        "derived_broken": sum(rows for column, _, rows in table.broken if column in derived),
        "broken": [{"column": column, "rule": rule, "rows": rows} for column, rule, rows in table.broken],
    }
