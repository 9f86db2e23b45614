"""Which attributes depend on which: ancestors, and the order in which they are drawn."""

from collections.abc import Collection, Mapping

Parents = Mapping[int, Collection[int]]
"""By attribute, those that it depends on directly."""


def hangs_on(parents: Parents, own: int, other: int) -> bool:
    """Whether an attribute is the other one or descends from it; cycles are allowed."""
    seen, left = set[int](), [own]
    while left and other not in seen:
        seen.add(place := left.pop())
        left += set(parents.get(place, ())) - seen
    return other in seen


def put_in_order(parents: Parents) -> list[int]:
    """Parents first."""
    return sorted(parents, key=lambda own: sum(hangs_on(parents, own, other) for other in parents))
