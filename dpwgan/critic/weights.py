"""Weights and moments as named arrays, for a checkpoint and as the result of a training."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpwgan.array_types import AnyArray, Arrays, Floats32
from dpwgan.errors import UsageError

if TYPE_CHECKING:
    import tensorflow as tf


class Kept:
    """Something whose steps change `variables`, which a checkpoint keeps."""

    variables: Sequence["tf.Variable"]
    """Everything that steps change."""

    def pack(self) -> dict[str, AnyArray]:
        """The values of all variables, named by their places. Privacy: as private as the variables."""
        return {f"variable {place}": variable.numpy() for place, variable in enumerate(self.variables)}

    def unpack(self, arrays: Arrays) -> None:
        """Takes over what `pack` gave."""
        for place, variable in enumerate(self.variables):
            variable.assign(arrays[f"variable {place}"])


def take_weights(variables: Sequence["tf.Variable"]) -> tuple[Floats32, ...]:
    """Takes trained weights out as plain arrays. Raises: UsageError if training ran off."""
    weights = tuple(variable.numpy() for variable in variables)
    refuse_unless_finite(weights)
    return weights


def refuse_unless_finite(arrays: Iterable[Floats32]) -> None:
    """Refuses the result of a training if a number of it is not finite.

    Privacy: of released numbers, so asking costs nothing. Raises: UsageError.
    """
    if not all(np.isfinite(array).all() for array in arrays):
        raise UsageError("training ran off to numbers that are not finite: lower the learning rates")
