"""Cells of marginals that are known to be empty: answers leave them out, and a mixture learns to."""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.groups import GroupLayout, Marginal
from dpwgan.marginals.loss import Probabilities

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
        gradient = np.zeros(probabilities.shape[::-1], probabilities.dtype)
        return self._add_gradient(probabilities.T, into=gradient), gradient.T

    def add_gradient(self, probabilities: Probabilities, *, into: Probabilities) -> None:
        """Adds the gradient to others, as `ReleasedLoss` has it."""
        self._add_gradient(probabilities.T, into=into.T)

    def _add_gradient(self, rows: Probabilities, *, into: Probabilities) -> float:
        """Adds the gradient and gives the loss. Shapes: (width, codes)."""
        scale, loss = np.float32(self._weight / rows.shape[1]), 0.0
        for slices, flags in self._blocks:
            *given, last = slices
            # The last attribute's mass, and what each combination of the others contributes to it.
            masses = (flags.reshape(-1, flags.shape[-1]) @ rows[last]) * scale
            masses = masses.reshape(*flags.shape[:-1], -1)
            factors = [rows[piece] for piece in given]
            if not factors:
                into[last] += (scale * flags)[:, np.newaxis]
                loss += float(masses.sum())
            elif len(factors) == 1:
                into[given[0]] += masses
                into[last] += scale * (flags.T @ factors[0])
                loss += float(np.vdot(masses, factors[0]))
            else:
                for group in range(flags.shape[0]):
                    into[given[0]][group] += np.einsum("bz,bz->z", masses[group], factors[1])
                    into[given[1]] += masses[group] * factors[0][group]
                    into[last] += (flags[group].T @ factors[1]) * (scale * factors[0][group])
                    loss += float(np.vdot(masses[group] * factors[0][group], factors[1]))
        return loss
