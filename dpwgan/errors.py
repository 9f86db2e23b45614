"""Every way a run can fail on purpose, each with the exit code that the command line returns for it.

Messages name the column, the rule and at most a count of rows; they never hold a cell's value.
"""

from collections.abc import Callable, Iterable
from typing import ClassVar

MOST_LISTED = 10
"""Of how many things of a kind a sentence speaks in full at most."""

_MOST_OF_A_NAME = 80


def printable(text: str, *, most: int | None = None) -> str:
    """A text on one line, without anything that a terminal would act on, cut where it is longer than `most`."""
    shown = text if text.isprintable() else repr(text)[1:-1]
    return shown if most is None or len(shown) <= most else shown[: most - 3] + "..."


def show_name(name: str) -> str:
    """A name as it may stand in a line: `printable`, and cut where it is long."""
    return printable(name, most=_MOST_OF_A_NAME)


def quote(name: str) -> str:
    """A name in quotes, as it may stand in a sentence: escaped where it has to be, and cut where it is long."""
    text = repr(name)
    return text if len(text) <= _MOST_OF_A_NAME else text[: _MOST_OF_A_NAME - 4] + "..." + text[0]


def suggest(name: str, known: Iterable[str], *, show: Callable[[str], str] = str) -> str:
    """What a name that is not known was meant to be, in brackets, if one is near."""
    import difflib  # here, because most runs are without

    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {show(close[0])}?)" if close else ""


def say_count(number: int, noun: str) -> str:
    """How many there are of what a noun names, which takes an s where they are not one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def list_some(texts: Iterable[str]) -> str:
    """The first of some texts, and how many more there are."""
    every = list(texts)
    more = f" and {len(every) - MOST_LISTED} more" if len(every) > MOST_LISTED else ""
    return ", ".join(every[:MOST_LISTED]) + more


def say_both(key: str) -> str:
    """The way out where the specs are to have a unit or a layout, and a column of that name as well."""
    return (
        f"an entry \"{key}\" is either the {key} or, with 'type' or 'derived', a column of that name; to have both, "
        "give the column another name in the table"
    )


def say_why(error: OSError) -> str:
    """Why the system refused, in its own words where it has some."""
    return error.strerror or type(error).__name__


class DpwganError(Exception):
    """A failure with one sentence for the user and a documented exit code."""

    exit_code: ClassVar[int] = 70


class UsageError(DpwganError):
    """The command line, a setting, epsilon or delta is not one the tool can act on."""

    exit_code = 2


class DataError(DpwganError):
    """The table does not fit the specs."""

    exit_code = 65


class InputError(DpwganError):
    """An input file is missing or cannot be opened."""

    exit_code = 66


class PrivacyError(DpwganError):
    """The privacy budget cannot be met, or an act would pass it."""

    exit_code = 69


class OutputError(DpwganError):
    """The output file cannot be created."""

    exit_code = 73


class TransferError(DpwganError):
    """Reading or writing broke off: a full disk, a broken pipe, a damaged archive."""

    exit_code = 74


class ResourceError(DpwganError):
    """Not enough memory, the device asked for is not there, or another worker is lost."""

    exit_code = 75


class SpecsError(DpwganError):
    """The specs, the codebook or a dictionary are not of the documented form.

    `column` is the entry of the specs that is at fault, if it is one.
    """

    exit_code = 78

    def __init__(self, sentence: str, *, column: str | None = None) -> None:
        super().__init__(sentence)
        self.column = column


class AuditError(DpwganError):
    """An audit could not see all of what it was to judge: what it says would be about something else."""

    exit_code = 76
