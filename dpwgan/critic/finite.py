"""Whether training ended on numbers at all."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from dpwgan.errors import UsageError


def refuse_unless_finite(arrays: Iterable[npt.NDArray[np.float32]]) -> None:
    """Refuses what training gave if a number of it is none.

    Privacy: of released numbers, so asking costs nothing. Raises: UsageError.
    """
    if not all(np.isfinite(array).all() for array in arrays):
        raise UsageError("training ran off to numbers that are not finite: lower the learning rates")
