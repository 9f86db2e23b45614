"""Weights and moments as arrays by name, for a checkpoint, and back."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import tensorflow as tf


def pack_variables(variables: Sequence["tf.Variable"]) -> dict[str, npt.NDArray[np.generic]]:
    """Gives the values of variables, named by their places. Privacy: as private as the variables."""
    return {f"variable {place}": variable.numpy() for place, variable in enumerate(variables)}


def unpack_variables(variables: Sequence["tf.Variable"], arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
    """Gives variables the values that `pack_variables` read."""
    for place, variable in enumerate(variables):
        variable.assign(arrays[f"variable {place}"])
