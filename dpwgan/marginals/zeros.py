"""Cells of marginals that are known to be empty: answers leave them out, and a mixture learns to."""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.groups import GroupLayout, Marginal
from dpwgan.marginals.loss import Probabilities
from dpwgan.marginals.row_products import add_rows

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


class ForbiddenMass:
    """The mean probability that a code gives to forbidden combinations, as a loss.

    It is linear in that probability, so that each code is driven to give none, and not all of them together to few.
    Privacy: public facts alone.
    """

    def __init__(self, layout: GroupLayout, zeros: Zeros, *, weight: float) -> None:
        """Units: `weight` is in units of the loss for a mass of 1."""
        self._weight = weight
        self._blocks = [
            ([layout.get_slice(attribute) for attribute in marginal], flags.astype(np.float32))
            for marginal, flags in zeros.items()
        ]

    def loss_and_gradient(self, probabilities: Probabilities) -> tuple[float, Probabilities]:
        """The weighted mass and its gradient. Privacy: post-processing. Shapes: (codes, width) to one, and the same."""
        loss, total = 0.0, np.zeros(probabilities.shape[::-1], probabilities.dtype)
        rows = np.ascontiguousarray(probabilities.T)
        for block in self._blocks:
            gradient = np.zeros_like(total)
            self._add(block, rows, into=gradient)
            # A mass is linear in each of its attributes.
            loss += float(np.vdot(rows, gradient)) / len(block[0])
            total += gradient
        return loss, total.T

    def add_gradient(self, probabilities: Probabilities, *, into: Probabilities) -> None:
        """Adds the gradient to others, as `ReleasedLoss` has it."""
        for block in self._blocks:
            self._add(block, probabilities.T, into=into.T)

    def _add(
        self, block: tuple[list[slice], npt.NDArray[np.float32]], rows: Probabilities, *, into: Probabilities
    ) -> None:
        """Adds one marginal's part of the gradient. Shapes: (width, codes)."""
        (*given, last), flags = block
        scale = self._weight / rows.shape[1]
        if not given:
            into[last] += np.float32(scale) * flags[:, np.newaxis]
        elif len(given) == 1:
            add_rows(flags, rows[last], scale=scale, into=into[given[0]])
            add_rows(flags.T, rows[given[0]], scale=scale, into=into[last])
        else:
            first, second = (rows[piece] for piece in given)
            for group, empty in enumerate(flags):
                masses = np.float32(scale) * (empty @ rows[last])
                into[given[0]][group] += np.einsum("bz,bz->z", masses, second)
                into[given[1]] += masses * first[group]
                add_rows(empty.T, second * first[group], scale=scale, into=into[last])
