"""What is wrong with a table: its header against the specs; its cells, counted by column and rule and never shown."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dpwgan.errors import DataError
from dpwgan.table.schema import Schema

_MOST_COLUMNS_NAMED = 5
_MOST_NAMES = 10


def count_rows(rows: int) -> str:
    """Writes a count of rows in words that agree with it."""
    return "1 row" if rows == 1 else f"{rows:,} rows"


@dataclass
class Findings:
    """Counts of rows by column (none for a rule between columns) and broken rule, added up over the chunks of a table.

    Privacy: holds names, public rules and counts of rows; no cell can get in. The sentence is for whoever holds the
      table: a count is not covered by the guarantee.
    """

    rows: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, column: str, rule: str, rows: int) -> None:
        """Counts `rows` more rows of `column` that break `rule`; 0 leaves no trace."""
        if rows:
            self.rows[column, rule] += rows

    def add_broken(self, rule: str, rows: int) -> None:
        """Counts `rows` more rows that break a rule between columns."""
        self.add("", rule, rows)

    def merge(self, other: "Findings") -> None:
        """Adds what was found in another chunk."""
        self.rows.update(other.rows)

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
        if column
        else f"{rule}: {count_rows(count)} against it"
        for (column, rule), count in list(rows.items())[:_MOST_COLUMNS_NAMED]
    ]
    left = len(rows) - len(parts)
    return "; ".join([*parts, f"and {left} more such findings"] if left else parts)


def check_header(header: Sequence[str], schema: Schema) -> None:
    """Checks that the header names every column of the specs once and nothing else.

    Privacy: in a file without a header line the first record stands in its place. A name that is not in the specs is
      therefore told only where most of the header is.
    Raises: DataError, naming the columns.
    """
    known = [name for name in header if name in schema.by_name]
    given = set(header)
    absent = [column.name for column in schema.columns if column.name not in given]
    if not known:
        raise DataError(
            f"The first line names none of the columns in the specs ({_list_names(absent)}): is it a header?"
        )
    faults = []
    repeated = [name for name, times in Counter(known).items() if times > 1]
    if repeated:
        faults.append(f"the header repeats {_list_names(repeated)}")
    unknown = [name for name in header if name not in schema.by_name]
    if unknown and len(unknown) < len(known):
        faults.append(f"the specs do not have {_list_names(unknown)}")
    elif unknown:
        faults.append(f"the specs do not have {len(unknown)} of the names in the first line")
    if absent:
        faults.append(f"the header does not have {_list_names(absent)}")
    if faults:
        raise DataError(f"The header and the specs differ: {'; '.join(faults)}.")


def _list_names(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_MOST_NAMES])
    left = len(names) - _MOST_NAMES
    return f"{shown} and {left} more" if left > 0 else shown
