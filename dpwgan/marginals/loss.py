"""The loss that a generator of codes is fitted to, made of released numbers alone."""

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import numpy.typing as npt

Probabilities = npt.NDArray[np.float32]
"""What a mixture generator says: (codes, width), one distribution an attribute and code, side by side."""


class ReleasedLoss(Protocol):
    """A loss of the generator's probabilities, computed from releases."""

    def add_gradient(self, probabilities: Probabilities, *, into: Probabilities) -> None:
        """Adds the gradient to others, in place. Privacy: post-processing. Shapes: (codes, width) both.

        `into` has each group's codes side by side in memory: it is the transposed of an array in C order.
        Units: of a loss of squared errors over the variance of their noise, halved and summed.
        """


def add_up_gradients(losses: Iterable[ReleasedLoss], probabilities: Probabilities) -> Probabilities:
    """The gradient of a sum of losses. Privacy: post-processing. Shapes: (codes, width) to the same."""
    # One row a group: what one attribute has is one block of memory, which is what makes products of it fast.
    rows = np.ascontiguousarray(probabilities.T)
    total = np.zeros_like(rows)
    for loss in losses:
        loss.add_gradient(rows.T, into=total.T)
    return total.T
