"""Attributes that hang on others: whether one does, and in which order they are drawn."""

from collections.abc import Collection, Mapping

Parents = Mapping[int, Collection[int]]
"""Of each attribute that hangs on others, these."""


def hangs_on(parents: Parents, own: int, other: int) -> bool:
    """Whether an attribute is the other one, or hangs on it, be it by way of others, which may go round in circles."""
    seen, left = set[int](), [own]
    while left and other not in seen:
        seen.add(place := left.pop())
        left += set(parents.get(place, ())) - seen
    return other in seen


def put_in_order(parents: Parents) -> list[int]:
    """Those that others hang on first."""
    return sorted(parents, key=lambda own: sum(hangs_on(parents, own, other) for other in parents))
