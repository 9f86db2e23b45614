"""Types of NumPy arrays by what they hold, whatever their shape."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Floats32: TypeAlias = npt.NDArray[np.float32]
AnyFloats: TypeAlias = npt.NDArray[np.floating[Any]]
Integers: TypeAlias = npt.NDArray[np.int64]
Integers32: TypeAlias = npt.NDArray[np.int32]
AnyIntegers: TypeAlias = npt.NDArray[np.integer[Any]]
Flags: TypeAlias = npt.NDArray[np.bool_]
AnyArray: TypeAlias = npt.NDArray[Any]
Arrays: TypeAlias = Mapping[str, AnyArray]
"""By name, as journals, checkpoints and saved models hold them."""
