"""Cells of marginals that are known to be empty."""

from collections.abc import Iterable, Mapping

import numpy as np

from dpwgan.array_types import Flags
from dpwgan.marginals.groups import Marginal

Zeros = Mapping[Marginal, Flags]
"""Of some marginals which cells are known to be empty. Shapes: one axis an attribute."""


def mask(zeros: Zeros, marginal: Marginal, shape: Iterable[int]) -> Flags:
    """Which cells of a marginal are known to be empty, because they are of a smaller one. Shapes: the marginal's."""
    found = np.zeros(tuple(shape), np.bool_)
    for known, flags in zeros.items():
        if set(known) <= set(marginal):
            found |= flags.reshape([found.shape[axis] if index in known else 1 for axis, index in enumerate(marginal)])
    return found


def join(*all_zeros: Zeros) -> Zeros:
    """The cells that are empty by any of these."""
    found: dict[Marginal, Flags] = {}
    for zeros in all_zeros:
        for marginal, flags in zeros.items():
            found[marginal] = found.get(marginal, np.False_) | flags
    return found
