"""How a number of rows is cut, so that no more than so many are drawn at once."""

from collections.abc import Iterator


def cut(records: int, *, most: int) -> Iterator[int]:
    """Gives the sizes of pieces that add up to the number of rows, none above `most`."""
    for first in range(0, records, most):
        yield min(most, records - first)
