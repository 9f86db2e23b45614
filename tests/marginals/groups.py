"""Rows of groups that hang together, and codes of a mixture, both small and random."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def make_groups(records: int, *, sizes: Sequence[int], seed: int) -> npt.NDArray[np.int32]:
    """Draws rows in which each attribute follows the one before it three times out of four."""
    rng = np.random.default_rng(seed)
    groups = np.empty((records, len(sizes)), np.int32)
    for attribute, size in enumerate(sizes):
        free = rng.choice(size, records, p=rng.dirichlet(np.ones(size)))
        tied = groups[:, attribute - 1] % size if attribute else free
        groups[:, attribute] = np.where(rng.random(records) < 0.75, tied, free)
    return groups


def make_probabilities(codes: int, *, sizes: Sequence[int], seed: int) -> npt.NDArray[np.float32]:
    """Draws each code's distribution of every attribute. Shapes: (codes, width)."""
    rng = np.random.default_rng(seed)
    return np.hstack([rng.dirichlet(np.full(size, 0.5), codes) for size in sizes]).astype(np.float32)


def replace_row(groups: npt.NDArray[np.int32], row: int, *, by: Sequence[int]) -> npt.NDArray[np.int32]:
    """Gives the rows with one of them replaced."""
    other = groups.copy()
    other[row] = by
    return other
