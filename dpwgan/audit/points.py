"""Rows as points: which rows of one table lie nearest to rows of another, and vectors that have a density.

The distance of two rows is the sum over columns of: 1 where categories differ, 0 where they agree; for a number the
difference as a share of the public range; 1 where it is missing in one row alone.
Source: Gower 1971, "A general coefficient of similarity and some of its properties", times the number of columns.

For a divergence of densities rows are written out as vectors, whose squared distances add up like that. Of the vectors
the first principal components of the artificial rows are kept, and a little Gaussian noise is added to every row, real
ones too: cells are discrete, so rows coincide, and a density does not exist without it. Both only shrink a divergence
(data processing), so what is measured is that of the smoothed components.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpwgan.array_types import Flags, Floats, Floats32, Integers
from dpwgan.errors import UsageError
from dpwgan.evaluate.tables import ComparedTable
from dpwgan.table.storage import cut

SMOOTHING = 0.1
"""Standard deviation of the smoothing noise, in root-mean-square spreads of the components kept. Far below the distance
of neighbouring rows in 8 dimensions at 10,000 rows (about half a spread), so that it decides ties and little else."""

MOST_WIDTH = 4096
"""Coordinates that are written out at most; beyond it a table takes more memory than it tells."""

CATEGORY = float(np.sqrt(0.5))
"""The coordinate of the cell that a row has, so that rows of different categories are 1 apart."""

_MOST_PAIRS = 1 << 22  # of rows looked at together: 16 MB a matrix


@dataclass(frozen=True, kw_only=True, eq=False)
class Points:
    """Rows whose columns can be compared: codes of categories, numbers as shares of their public range.

    Shapes: `values` is (n, columns), NaN where a number is missing; `numeric` is (columns,), and `sizes` holds the
      number of cells of each column.
    """

    values: Floats32
    numeric: Flags
    sizes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.values)

    def keep(self, columns: list[int]) -> "Points":
        """The points of these columns alone."""
        sizes = tuple(self.sizes[column] for column in columns)
        return Points(values=self.values[:, columns], numeric=self.numeric[columns], sizes=sizes)

    @property
    def parts(self) -> list[slice]:
        """Where each column stands in a row written out: a coordinate a cell; a number, and whether it is missing."""
        widths = [2 if numeric else size for numeric, size in zip(self.numeric, self.sizes, strict=True)]
        return [slice(*ends) for ends in itertools.pairwise([0, *np.cumsum(widths).tolist()])]

    def spread_out(self) -> Floats:
        """Writes the points out as vectors.

        Shapes: n rows give (n, width).
        Units: categories that differ are 1 apart.
        Raises: UsageError if the width is more than can be worked with.
        """
        width = self.parts[-1].stop
        if width > MOST_WIDTH:
            raise UsageError(
                f"the columns have {width} cells together, and more than {MOST_WIDTH} cannot be written out"
            )
        flat = np.zeros((len(self), width), dtype=np.float64)
        for column, part in enumerate(self.parts):
            values = self.values[:, column]
            if self.numeric[column]:
                missing = np.isnan(values)
                flat[:, part] = np.column_stack([np.where(missing, 0.0, values), missing])
            else:
                flat[np.arange(len(self)), part.start + values.astype(np.int64)] = CATEGORY
        return flat


def lay_out_points(table: ComparedTable) -> Points:
    """Turns a table into points, by public facts alone.

    Privacy: acts on each row by itself; the points are as private as the rows.
    """
    values = table.numbers.astype(np.float64, copy=True)
    numeric = np.isin(np.arange(len(table.columns)), table.numeric)
    for place in table.numeric:
        column = table.columns[place]
        values[:, place] = (values[:, place] - column.minimum) / (column.maximum - column.minimum or 1.0)
    return Points(values=values.astype(np.float32), numeric=numeric, sizes=table.sizes)


def find_nearest(targets: Points, among: Points) -> Floats:
    """How far each target is from the row nearest to it.

    Shapes: t targets give (t,) distances.
    Units: distance 1 is one column as different as it can be.
    """
    nearest = [matrix.min(axis=1) for _, matrix in _sweep(targets, among)]
    return np.concatenate(nearest, dtype=np.float64)


def find_nearest_without(targets: Points, among: Points, *, columns: Integers) -> Integers:
    """Finds the row nearest to each target where one column is not looked at, for each of these columns in turn.

    Shapes: t targets give (t, len(columns)) places in `among`.
    """
    places = np.empty((len(targets), len(columns)), dtype=np.int64)
    for rows, matrix in _sweep(targets, among):
        for number, column in enumerate(columns):
            rest = matrix - _difference(targets, among, rows, int(column))
            places[rows, number] = rest.argmin(axis=1)
    return places


def _sweep(targets: Points, among: Points) -> Iterator[tuple[slice, Floats32]]:
    step = max(1, _MOST_PAIRS // max(1, len(among)))
    for rows in cut(len(targets), size=step):
        matrix = np.zeros((rows.stop - rows.start, len(among)), dtype=np.float32)
        for column in range(targets.values.shape[1]):
            matrix += _difference(targets, among, rows, column)
        yield rows, matrix


def _difference(targets: Points, among: Points, rows: slice, column: int) -> Floats32:
    left, right = targets.values[rows, column, None], among.values[None, :, column]
    if not targets.numeric[column]:
        return np.not_equal(left, right).astype(np.float32)
    difference = np.abs(left - right)
    if np.isnan(left).any() or np.isnan(right).any():
        difference = np.where(np.isnan(left) & np.isnan(right), np.float32(0.0), difference)
        difference = np.nan_to_num(difference, copy=False, nan=1.0)
    return np.asarray(difference, dtype=np.float32)


@dataclass(frozen=True, kw_only=True, eq=False)
class Embedding:
    """Where the artificial rows' mean and principal directions lie.

    Shapes: `mean` is (width,), `directions` (width, components).
    Units: `noise` is a standard deviation in the unit of the components.
    """

    mean: Floats
    directions: Floats
    noise: float

    def place(self, points: Points, rng: np.random.Generator) -> Floats:
        """Places rows among the principal components, with the smoothing noise. Shapes: n rows give (n, components)."""
        flat = (points.spread_out() - self.mean) @ self.directions
        return np.asarray(flat + rng.normal(scale=self.noise, size=flat.shape))


def fit_embedding(points: Points, *, components: int) -> Embedding:
    """Finds the principal components of the artificial rows.

    Privacy: looks at the artificial rows alone, so that no real row, held out or not, has a say in how it is measured.
    Raises: UsageError if `components` is not positive, the columns have too many cells together, or the rows are all
      the same.
    """
    if components < 1:
        raise UsageError("--dimensions must be at least 1")
    flat = points.spread_out()
    mean = flat.mean(axis=0)
    centred = flat - mean
    variances, directions = np.linalg.eigh(centred.T @ centred / len(flat))
    kept = min(components, int(np.count_nonzero(variances > 1e-9)))
    if kept < 1:
        raise UsageError("the synthetic rows are all the same: there is no spread to measure in")
    spread = float(np.sqrt(variances[::-1][:kept].mean()))
    return Embedding(mean=mean, directions=directions[:, ::-1][:, :kept], noise=SMOOTHING * spread)
