"""What a discriminator hands to a generator of codes: a loss made of released numbers alone."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Probabilities = npt.NDArray[np.float32]
"""What a mixture generator says: (codes, width), one distribution an attribute and code, side by side."""


class ReleasedLoss(Protocol):
    """A loss of the generator's probabilities, computed from releases."""

    def loss_and_gradient(self, probabilities: Probabilities) -> tuple[float, npt.NDArray[np.floating[Any]]]:
        """Gives the loss and its gradient. Privacy: post-processing. Shapes: (codes, width) to a number and the same.

        Units: squared errors over the variance of their noise, halved and summed.
        """
