"""The names of a table's columns against those in the specs."""

from collections import Counter
from collections.abc import Sequence

from dpwgan.errors import DataError
from dpwgan.table.schema import Schema

_MOST_NAMES = 10


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
