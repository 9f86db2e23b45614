"""What is wrong with a table: its header against the specs; its cells, counted by column and rule and never shown."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dpwgan.errors import MOST_LISTED, DataError, list_some, quote, say_both, say_count
from dpwgan.table.schema import Schema, SizeColumn

_MOST_COLUMNS_NAMED = 5
_OTHER_MARKS = ";\t|"
NAMELESS = 'name it, take it out of the table, or list it in the specs, as "": {"type": "drop"}'
"""What to do with a column without a name, as R and pandas write the names of rows."""


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
        f"column {quote(column)}: {count_rows(count)} with a cell that {rule}"
        if column
        else f"{rule}: {count_rows(count)} against it"
        for (column, rule), count in list(rows.items())[:_MOST_COLUMNS_NAMED]
    ]
    left = len(rows) - len(parts)
    return "; ".join([*parts, f"and {say_count(left, 'more such finding')}"] if left else parts)


def check_header(header: Sequence[str], schema: Schema) -> None:
    """Checks that the header names every column of the specs once and nothing else; what is left out may be missing.

    Raises: DataError, naming the columns, or the places of those without a name.
    """
    nameless = [str(place) for place, name in enumerate(header, start=1) if not name]
    found = compare_header(header, schema)
    if len(nameless) > 1:
        places = f"{', '.join(nameless[:MOST_LISTED])}{', ...' if len(nameless) > MOST_LISTED else ''}"
        raise DataError(f"The first line has no name for columns {places}: name them, or take them out of the table.")
    if "" in found.unknown:
        raise DataError(f"The first line has no name for column {nameless[0]}: {NAMELESS}.")
    faults = []
    if found.repeated:
        faults.append(f"the header repeats {list_some(map(quote, found.repeated))}")
    if found.unknown:
        taken = [key for key, entry in (("unit", schema.unit), ("layout", schema.layout)) if entry is not None]
        why = [f", and {say_both(key)}" for key in taken if key in found.unknown]
        faults.append(f"the specs do not have {list_some(map(quote, found.unknown))}{''.join(why)}")
    elif found.untold:
        faults.append(f"the specs do not have {found.untold} of the names in the first line")
    if found.absent:
        faults.append(f"the header does not have {list_some(map(quote, found.absent))}")
    if faults:
        raise DataError(f"The header and the specs differ: {'; '.join(faults)}.")


@dataclass(frozen=True, kw_only=True)
class HeaderFaults:
    """Where a header and the specs differ; `untold` counts names that the specs do not have and nobody may show."""

    repeated: Sequence[str]
    unknown: Sequence[str]
    untold: int
    absent: Sequence[str]


def compare_header(header: Sequence[str], schema: Schema, *, besides: Iterable[str] = ()) -> HeaderFaults:
    """Compares a header with the columns of the specs that a file has, and `besides` of which the schema does not know.

    Privacy: in a file without a header line the first record stands in its place. A name that is not in the specs is
      therefore told only where most of the header is, and it is on one line: an open quote takes rows into the header.
    Raises: DataError if no name is in the specs.
    """
    columns = [column for column in schema.columns if not isinstance(column, SizeColumn)]
    names = dict.fromkeys([*(column.name for column in columns), *besides])
    may_lack = {column.name for column in columns if not column.is_written}
    known = [name for name in header if name in names]
    given = set(header)
    absent = [name for name in names if name not in given and name not in may_lack]
    if not known:
        said = "cells must be separated by commas (docs/specs.md, CSV)" if is_unseparated(header) else "is it a header?"
        raise DataError(
            f"The first line names none of the columns in the specs ({list_some(map(quote, absent))}): {said}"
        )
    unknown = [name for name in header if name not in names]
    may_be_told = len(unknown) < len(known) and not any("\n" in name for name in unknown)
    return HeaderFaults(
        repeated=[name for name, times in Counter(known).items() if times > 1],
        unknown=unknown if may_be_told else (),
        untold=0 if may_be_told else len(unknown),
        absent=absent,
    )


def is_unseparated(header: Collection[str]) -> bool:
    """Whether a header is one name with marks in it that other tables have in the place of commas."""
    return len(header) == 1 and any(mark in name for name in header for mark in _OTHER_MARKS)
