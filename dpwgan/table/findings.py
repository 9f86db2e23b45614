"""What is wrong with a table, counted by column and rule, told in one sentence without any cell."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dpwgan.errors import DataError

_MOST_COLUMNS_NAMED = 5


def count_rows(rows: int) -> str:
    """Writes a count of rows in words that agree with it."""
    return "1 row" if rows == 1 else f"{rows:,} rows"


@dataclass
class Findings:
    """Counts of rows by column and broken rule, added up over the chunks of a table.

    Privacy: holds names, public rules and counts of rows; no cell can get in. The sentence is for whoever holds the
      table: a count is not covered by the guarantee.
    """

    rows: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, column: str, rule: str, rows: int) -> None:
        """Counts `rows` more rows of `column` that break `rule`; 0 leaves no trace."""
        if rows:
            self.rows[column, rule] = self.rows.get((column, rule), 0) + rows

    def merge(self, other: "Findings") -> None:
        """Adds what was found in another chunk."""
        for (column, rule), rows in other.rows.items():
            self.add(column, rule, rows)

    def raise_if_any(self) -> None:
        """Ends the run with one sentence if anything was found.

        Raises: DataError, naming column, rule and count of rows.
        """
        if self.rows:
            raise DataError(f"The table does not fit the specs: {describe(self.rows)}.")


def describe(rows: Mapping[tuple[str, str], int]) -> str:
    """Puts broken rules in words: the first few in full, the rest as a number."""
    parts = [
        f"column {column!r}: {count_rows(count)} with a cell that {rule}"
        for (column, rule), count in list(rows.items())[:_MOST_COLUMNS_NAMED]
    ]
    left = len(rows) - len(parts)
    return "; ".join([*parts, f"and {left} more such findings"] if left else parts)
