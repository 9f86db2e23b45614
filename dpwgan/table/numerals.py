"""The one rule for when a cell is a number.

A number is an ASCII decimal or scientific numeral ("12", "+1.50", ".5", "3e-2"), with ASCII spaces and tabs around it
ignored. Everything else is text: "nan", "inf", "1_000", "1,000", "0x10", digits of other scripts.
"""

import functools
import re
from decimal import Decimal, DecimalException

BLANKS = " \t"
NUMERAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"

WHOLE_NUMBER = re.compile(r"-?[0-9]+")
"""One as the tool writes it."""

_numeral = re.compile(NUMERAL)
_beginning = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?", re.ASCII)

# No double reaches this many digits, so a numeral beyond it is outside every range that a spec can give.
_MOST_DIGITS = 400


@functools.lru_cache(maxsize=1 << 14)
def read_number(cell: str) -> Decimal | None:
    """The exact number that a cell writes, or None where it writes none or one beyond every double."""
    if cell.isdecimal() and cell.isascii() and len(cell) <= _MOST_DIGITS:
        return Decimal(cell)  # most cells by far, and much faster
    text = cell.strip(BLANKS)
    if not _numeral.fullmatch(text):
        return None
    try:
        number = Decimal(text)
    except DecimalException:
        return None
    if number == 0:
        return Decimal(0)
    return number if abs(number.adjusted()) <= _MOST_DIGITS else None


def read_beginning(cell: str) -> Decimal | None:
    """The number that a cell is, or begins with, as 5-9, 10+ and "2 - rarely" do; None where it does neither."""
    number, begins = read_number(cell), _beginning.match(cell.strip(BLANKS))
    return read_number(begins.group()) if number is None and begins else number


def are_same_cell(left: str, right: str) -> bool:
    """Says whether two cells are the same text or, where both are numbers, the same number."""
    if left == right:
        return True
    number = read_number(left)
    return number is not None and number == read_number(right)
