"""Arrays by name, as saved models and checkpoints hold them: what kind each is of, and which attributes it is about."""

from collections.abc import Iterator

from dpwgan.array_types import AnyArray, Arrays


def name_array(kind: str, *attributes: int) -> str:
    """The name of one array."""
    return " ".join((kind, *map(str, attributes)))


def find_arrays(arrays: Arrays, *kinds: str) -> Iterator[tuple[str, tuple[int, ...], AnyArray]]:
    """Those of some kinds among others: the kind, the attributes and the array of each.

    Raises: ValueError if a name does not say which attributes.
    """
    for name in arrays:
        kind, *attributes = name.split()
        if kind in kinds:
            yield kind, tuple(map(int, attributes)), arrays[name]
