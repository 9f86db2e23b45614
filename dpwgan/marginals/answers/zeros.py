"""Cells of marginals that are known to be empty: answers leave them out, and a mixture learns to."""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.answers.row_products import add_rows
from dpwgan.marginals.groups import GroupLayout, Marginal
from dpwgan.marginals.loss import Codes, Probabilities, ReleasedLoss, Sums

Flags = npt.NDArray[np.bool_]
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


class ForbiddenMass(ReleasedLoss):
    """The mean probability that a code gives to forbidden combinations, as a loss.

    It is linear in that probability, so that each code is driven to give none, and not all of them together to few.
    Privacy: public facts alone.
    """

    def __init__(self, layout: GroupLayout, zeros: Zeros, *, weight: float) -> None:
        """Units: `weight` is in units of the loss for a mass of 1."""
        self._weight = weight
        self._blocks = [
            _Block([layout.get_slice(attribute) for attribute in marginal], flags) for marginal, flags in zeros.items()
        ]

    def add_gradient(self, codes: Codes, means: Sums, sums: Sums, *, into: Probabilities) -> None:
        """Adds the gradient to others, as `ReleasedLoss` has it."""
        for block in self._blocks:
            block.add(codes.rows, scale=self._weight * codes.share, into=into)


class _Block:
    """One marginal's forbidden cells."""

    def __init__(self, slices: list[slice], flags: Flags) -> None:
        self._slices, self._flags = slices, flags.astype(np.float32)
        if len(slices) == 2:
            # A rule such as "with a before b" tells few kinds of a's groups from each other, and few of b's.
            self._kinds = [_tell_apart(flags), _tell_apart(flags.T)]

    def add(self, rows: Probabilities, *, scale: float, into: Probabilities) -> None:
        """Adds its part of the gradient. Shapes: (width, codes)."""
        (*given, last), flags = self._slices, self._flags
        if not given:
            into[last] += np.float32(scale) * flags[:, np.newaxis]
        elif len(given) == 1:
            for (own, other), (_, spread), (sums, _) in zip(
                (self._slices, self._slices[::-1]), self._kinds, self._kinds[::-1], strict=True
            ):
                of_kinds = np.zeros((len(sums), rows.shape[1]), rows.dtype)
                add_rows(sums, rows[other], scale=1.0, into=of_kinds)
                add_rows(spread, of_kinds, scale=scale, into=into[own])
        else:
            first, second = (rows[piece] for piece in given)
            for group, empty in enumerate(flags):
                masses = np.float32(scale) * (empty @ rows[last])
                into[given[0]][group] += np.einsum("bz,bz->z", masses, second)
                into[given[1]] += masses * first[group]
                add_rows(empty.T, second * first[group], scale=scale, into=into[last])


def _tell_apart(flags: Flags) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Which groups are of which kind, and what of the other attribute's kinds is forbidden beside each group.

    Shapes: (a, b) flags to (kinds of a, a) and (a, kinds of b).
    """
    _, kinds = np.unique(flags, axis=0, return_inverse=True)
    _, firsts = np.unique(flags, axis=1, return_index=True)
    of_kind = kinds.ravel() == np.arange(kinds.max() + 1)[:, np.newaxis]
    return of_kind.astype(np.float32), flags[:, firsts].astype(np.float32)
