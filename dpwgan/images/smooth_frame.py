"""Images in few smooth coordinates: points that are linear in the pixels."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpwgan.images.image_grid import ImageGrid
from dpwgan.images.image_moments import make_cosine_basis

REACH = 10.0
"""How far a full picture is from a black one, in points: no picture is longer."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SmoothFrame:
    """Images as points: coordinates in the smoothest orthonormal cosines, in tenths of the length of a full picture.

    Privacy: made of the public layout alone. A row's point is a linear function of that row, and at most `REACH` long.
    """

    grid: ImageGrid
    dimension: int

    @property
    def scale(self) -> float:
        """What coordinates of pixels are multiplied by."""
        return REACH / math.sqrt(len(self.grid.sources))

    @functools.cached_property
    def basis(self) -> tuple[Floats, npt.NDArray[np.int64]]:
        """The cosines, (dimension, pixels), orthonormal rows, and the frequency of each."""
        return make_cosine_basis(self.grid.shape, dimension=self.dimension)

    def to_points(self, pixels: npt.NDArray[np.floating[Any]]) -> Floats:
        """Gives points of images. Shapes: (b, pixels) in [0, 1], in the grid's order, to (b, dimension)."""
        points: Floats = np.asarray(pixels, np.float64) @ (self.basis[0].T * self.scale)
        return points
