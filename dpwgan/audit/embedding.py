"""Rows as vectors in which a divergence of densities can be measured.

Each column is put so that two rows differ by 1 in it where their categories differ, and by the difference as a share of
the public range where it is a number. Of these vectors the first principal components of the artificial rows are kept,
and a little Gaussian noise is added to every row, real ones too: cells are discrete, so rows coincide, and a density
does not exist without it. Both only shrink a divergence (data processing), so what is measured is that of the smoothed
components.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpwgan.audit.neighbours import Points
from dpwgan.errors import UsageError

Vectors = npt.NDArray[np.float64]

SMOOTHING = 0.1
"""Standard deviation of the smoothing noise, in root-mean-square spreads of the components kept. Far below the distance
of neighbouring rows in 8 dimensions at 10,000 rows (about half a spread), so that it decides ties and little else."""

MOST_WIDTH = 4096
"""Coordinates that are written out at most; beyond it a table takes more memory than it tells."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Embedding:
    """Where the artificial rows' mean and principal directions lie.

    Shapes: `mean` is (width,), `directions` (width, components).
    Units: `noise` is a standard deviation in the unit of the components.
    """

    sizes: tuple[int, ...]
    mean: Vectors
    directions: Vectors
    noise: float

    @property
    def components(self) -> int:
        """Number of components kept."""
        return int(self.directions.shape[1])

    def place(self, points: Points, rng: np.random.Generator) -> Vectors:
        """Places rows among the principal components, with the smoothing noise.

        Shapes: n rows give (n, components).
        """
        flat = (spread_out(points, self.sizes) - self.mean) @ self.directions
        return np.asarray(flat + rng.normal(scale=self.noise, size=flat.shape))


def fit_embedding(
    points: Points, *, sizes: tuple[int, ...], components: int, smoothing: float = SMOOTHING
) -> Embedding:
    """Finds the principal components of the artificial rows.

    `sizes` holds the number of cells of each column.
    Privacy: looks at the artificial rows alone, so that no real row, held out or not, has a say in how it is measured.
    Raises: UsageError if `components` or `smoothing` is not positive, the columns have too many cells together, or
      the rows are all the same.
    """
    if components < 1 or not smoothing > 0.0:
        raise UsageError("dimensions and smoothing must be above 0")
    flat = spread_out(points, sizes)
    mean = flat.mean(axis=0)
    centred = flat - mean
    variances, directions = np.linalg.eigh(centred.T @ centred / len(flat))
    kept = min(components, int(np.count_nonzero(variances > 1e-9)))
    if kept < 1:
        raise UsageError("the synthetic rows are all the same: there is no spread to measure in")
    spread = float(np.sqrt(variances[::-1][:kept].mean()))
    return Embedding(sizes=sizes, mean=mean, directions=directions[:, ::-1][:, :kept], noise=smoothing * spread)


def count_width(points: Points, sizes: tuple[int, ...]) -> int:
    """Counts the coordinates of a row that is written out."""
    return sum(2 if numeric else size for numeric, size in zip(points.numeric, sizes, strict=True))


def spread_out(points: Points, sizes: tuple[int, ...]) -> Vectors:
    """Writes points out: a category as one coordinate a cell, a number as itself and whether it is missing.

    Shapes: n rows give (n, width).
    Units: categories that differ are 1 apart.
    Raises: UsageError if the width is more than can be worked with.
    """
    width = count_width(points, sizes)
    if width > MOST_WIDTH:
        raise UsageError(f"the columns have {width} cells together, and more than {MOST_WIDTH} cannot be written out")
    flat = np.zeros((len(points), width), dtype=np.float64)
    start, rows = 0, np.arange(len(points))
    for column, size in enumerate(sizes):
        values = points.values[:, column]
        if points.numeric[column]:
            missing = np.isnan(values)
            flat[:, start] = np.where(missing, 0.0, values)
            flat[:, start + 1] = missing
            start += 2
        else:
            flat[rows, start + values.astype(np.int64)] = np.sqrt(0.5)
            start += size
    return flat
