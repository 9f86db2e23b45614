"""The mean releases for images: class sizes and the mean of all pictures, then each class's deviation from it.

A picture x of m pixels in [0, 1] is a point: the coordinates of x - 1/2 in a public orthonormal basis. Its length is at
most sqrt(m)/2, whatever the picture, so that with this radius no picture is shortened, black or white: any other
constant gives a longer one to some. The second release is of points about the first one's mean, which are shorter: a
ball of a smaller radius has less noise. Points are on the whole numbers of the unit ball
(`dpwgan.gaussians.class_moments.to_grid`), z of p coordinates.

Sensitivities. The first release has w for the record in the place of its class's size, beside the sum of all z; w is
sqrt p for Laplace noise and 1 for Gaussian noise, so that sizes cost as much as the sum. The second has the sum of z in
the place of the class.
(1) First, zero-out: L1 w + sum |z_i| <= 2 sqrt p, by Cauchy and Schwarz; on the grid sum |z_i| is a whole number and at
    most the whole part of sqrt(p) `RADIUS`. L2 sqrt(w^2 + |z|^2) <= sqrt 2.
(2) First, replaced: L1 2 sqrt p + 2 w = 4 sqrt p; L2 sqrt(2 w^2 + |z - z'|^2) <= sqrt 6.
(3) Second, zero-out: L1 sqrt p, L2 1. Replaced: L1 2 sqrt p, L2 |z - z'| <= 2 within a class, at z' = -z, and sqrt 2
    from one to another.
So the factor 2 over zero-out holds for all.

Exactness: pixels are whole levels and the basis is rounded to whole parts of 2^20, so that a coordinate is a sum of
products of whole numbers far below 2^53: exact, in whatever order it is added up, and a function of its row alone.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from dpwgan.array_types import AnyArray, AnyFloats, Floats, Integers
from dpwgan.errors import DpwganError
from dpwgan.gaussians.class_moments import (
    RADIUS,
    MatrixNoise,
    Noise,
    count_labels,
    shrink_noisy_eigenvalues,
    sum_products,
    to_grid,
)
from dpwgan.gaussians.projected_gaussian import project_on_semidefinite
from dpwgan.images.grid import ImageGrid
from dpwgan.privacy.events import Laplace
from dpwgan.privacy.release import Noisy
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.storage import cut, let_go

MEANS_REPLACE_ONE_FACTOR = 2.0
"""What one replaced record moves either release by, over what one zeroed one does: the module's (2) and (3)."""

MOST_OF_SHARE = 1.5
"""Points in random directions that hold more than this many times their share of the square are shortened."""

PARTS = 2**20
"""A basis is rounded to whole numbers of these parts of 1."""

# The sum in L2 is of square roots: what rounding may add to it is far below this.
_ROUNDING = 1e-9
_PIECE_BYTES = 1 << 25
_ROWS = 1 << 14


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageProjection:
    """Public: where the pixels are, and the basis they are projected on.

    Shapes: `basis` (p, m), orthonormal rows but for rounding; `bands` (p,) whole numbers, rows that are alike have the
      same one.
    Units: points are in units of full brightness.
    `random`: the basis was drawn uniformly, and holds p/m of any point's square, give or take.
    """

    grid: ImageGrid
    basis: Floats
    bands: Integers
    random: bool = False

    def __post_init__(self) -> None:
        p, m = self.basis.shape
        # Twice a level, times a part, m times: whole numbers that doubles hold exactly.
        is_exact = 2 * self.grid.levels * PARTS * m < 2**53 and bool(np.all(np.abs(self.basis) <= 1.0))
        if not (is_exact and 1 <= p <= m == self.grid.pixels and self.bands.shape == (p,)):
            raise DpwganError("Internal error: a projection of images does not fit its pixels.")

    @property
    def dimension(self) -> int:
        """Number of coordinates: p."""
        return int(self.basis.shape[0])

    @property
    def share(self) -> float:
        """The part of a point's square that is taken to lie in these directions, at most."""
        return min(1.0, MOST_OF_SHARE * self.dimension / self.grid.pixels) if self.random else 1.0

    @property
    def radius(self) -> float:
        """Length of the longest point that a picture can have; in random directions a few are longer: shortened."""
        return math.sqrt(self.grid.pixels * self.share) / 2

    def take(self, dimension: int) -> "ImageProjection":
        """The projection on the first rows of the basis."""
        return replace(self, basis=self.basis[:dimension], bands=self.bands[:dimension])

    def project(self, numbers: AnyFloats) -> Floats:
        """Gives each row's coordinates of x - 1/2. Privacy: a function of each row alone, see the module.

        Shapes: (n, numbers of a row) to (n, p).
        """
        basis, levels, sources = np.rint(self.basis.T * PARTS), self.grid.levels, list(self.grid.sources)
        result = np.empty((len(numbers), self.dimension))
        for rows in cut(len(numbers), size=max(1, _PIECE_BYTES // (8 * self.grid.pixels))):
            within = np.clip(np.nan_to_num(numbers[rows, sources].astype(np.float64), nan=0.0), 0.0, 1.0)
            result[rows] = (2.0 * np.rint(within * levels) - levels) @ basis
        result /= 2.0 * levels * PARTS
        return result


def root_sensitivity(dimension: int) -> int:
    """The most that a point's whole numbers add up to, signs apart: sqrt(p) radii, rounded down."""
    return math.isqrt(dimension * RADIUS**2)


def weigh_sizes(dimension: int, noise: Noise) -> int:
    """What a record adds to its class's size in the first release: w, in whole numbers of the grid."""
    return root_sensitivity(dimension) if isinstance(noise, Laplace) else RADIUS


def centre_sensitivity(noise: Noise, *, dimension: int) -> float:
    """What a record moves of the first release: on the grid in L1 under Laplace noise, else in L2."""
    if isinstance(noise, Laplace):
        return float(weigh_sizes(dimension, noise) + root_sensitivity(dimension))
    return math.sqrt(2.0) + _ROUNDING


def means_sensitivity(noise: Noise, *, dimension: int) -> float:
    """What a record moves of the second release: on the grid in L1 under Laplace noise, else in L2."""
    return float(root_sensitivity(dimension)) if isinstance(noise, Laplace) else 1.0 + _ROUNDING


def sum_points(
    encoded: EncodedTable, projection: ImageProjection, *, centre: Floats | float, radius: float
) -> Integers:
    """Adds up, exactly, each class's points about a centre on the grid of a ball.

    Privacy: sensitivities as the module's. What it gives is not released.
    Shapes: `centre` (p,) or one number for all, to (classes, p).
    """
    label = projection.grid.label
    result = np.zeros((label.categories, projection.dimension), np.int64)
    for rows in cut(encoded.records, size=_ROWS):
        points = to_grid((projection.project(encoded.numbers[rows]) - centre) / radius)
        labels = encoded.codes[rows, label.source]
        for index in np.unique(labels):
            result[index] += points[labels == index].sum(axis=0)
        let_go(encoded.numbers, encoded.codes)
    return result


def sum_centre(encoded: EncodedTable, projection: ImageProjection, *, noise: Noise) -> AnyArray:
    """The first release without its noise: the sizes of the classes, weighted, and the sum of all points.

    Privacy: sensitivities as the module's (1) and (2). Units: see `_in_units`.
    """
    sizes = count_labels(encoded, projection.grid.label) * weigh_sizes(projection.dimension, noise)
    total = sum_points(encoded, projection, centre=0.0, radius=projection.radius).sum(axis=0)
    return _in_units(np.concatenate([sizes, total]), noise)


def sum_means(
    encoded: EncodedTable, projection: ImageProjection, *, centre: Floats, radius: float, noise: Noise
) -> AnyArray:
    """The second release without its noise: the sums of points about a centre, shortened to a ball, by class.

    Privacy: sensitivities as the module's (3): a record is in one class only, so that all classes cost what one does.
    Units: see `_in_units`.
    """
    return _in_units(sum_points(encoded, projection, centre=centre, radius=radius), noise)


def sum_image_products(
    encoded: EncodedTable, projection: ImageProjection, *, centres: Floats, radius: float
) -> list[Integers]:
    """Adds up z z^T, exactly, over points about the centre of their class; one sum for all where there is one centre.

    Privacy: sensitivities as those of `dpwgan.gaussians.class_moments.sum_products`. What it gives is not released.
    Shapes: `centres` (classes or 1, p), to as many (p, p).
    """
    labels = encoded.codes[:, projection.grid.label.source] if len(centres) > 1 else np.zeros(encoded.records, np.int8)

    def add_up(index: int) -> Integers:
        def to_points(rows: Integers) -> Floats:
            points: Floats = (projection.project(encoded.numbers[rows]) - centres[index]) / radius
            let_go(encoded.numbers)
            return points

        return sum_products(np.flatnonzero(labels == index), to_points, dimension=projection.dimension)

    return [add_up(index) for index in range(len(centres))]


def read_points(noisy: Noisy, noise: Noise) -> tuple[Floats, float]:
    """What was released, and the stddev of its noise, in lengths of the radius. Privacy: post-processing."""
    if isinstance(noise, Laplace):
        return noisy.values / RADIUS, noisy.stddev / RADIUS
    return noisy.values, noisy.stddev


def _in_units(sums: Integers, noise: Noise) -> AnyArray:
    """Whole numbers of the grid, for Laplace noise is whole; else lengths of the radius."""
    return sums if isinstance(noise, Laplace) else sums / RADIUS


def shrink_centre(mean: Floats, bands: Integers, *, variance: float) -> Floats:
    """A mean as what of it stands out of noise of this variance: of each band the share that does.

    Privacy: post-processing. Shapes: (p,), `bands` (p,) to (p,).
    Source: Efron and Morris 1973 (empirical Bayes, James and Stein's rule by groups).
    """
    kept = mean.copy()
    for band in np.unique(bands):
        mine = bands == band
        square = float(np.mean(np.square(mean[mine])))
        kept[mine] *= max(0.0, 1.0 - variance / max(square, 1e-300))
    return kept


def shrink_means(sums: Floats, records: Floats, bands: Integers, *, stddev: float, total: float) -> Floats:
    """Gives each class's mean, in lengths of the radius: what stands out of the noise, and of its neighbours in a band.

    The mean of all is taken as far as its band stands out of noise, and so is how far a class lies from it: both by
    the share of a band's mean square that is not noise. Privacy: post-processing.
    Shapes: `sums` (classes, p), `records` (classes,), `bands` (p,) to (classes, p). Units: `stddev` is that of `sums`.
    Source: as `shrink_centre`.
    """
    sizes = np.maximum(records, 1.0)
    noise = np.square(stddev / sizes)[:, np.newaxis]
    centre = sums.sum(axis=0) / total
    apart = sums / sizes[:, np.newaxis] - centre
    weights = 1.0 / np.square(noise)
    for band in np.unique(bands):
        mine = bands == band
        excess = float(np.average(np.mean(np.square(apart[:, mine]), axis=1, keepdims=True) - noise, weights=weights))
        apart[:, mine] *= max(excess, 0.0) / (max(excess, 0.0) + noise)
    means = shrink_centre(centre, bands, variance=len(records) * (stddev / total) ** 2) + apart
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    result: Floats = means / np.maximum(lengths, 1.0)
    return result


def shrink_covariance(products: Floats, bands: Integers, *, noise: MatrixNoise) -> Floats:
    """The sum of products that stands out of the noise, positive semidefinite.

    What the diagonal then lacks of each band's released one is given back, evenly: it is variance whose direction
    could not be seen. Privacy: post-processing. Shapes: (p, p), (p,) to (p, p). Units: of a row of norm 1.
    Source: `dpwgan.gaussians.class_moments.shrink_noisy_eigenvalues`.
    """
    values, vectors = np.linalg.eigh(products)
    result: Floats = (vectors * shrink_noisy_eigenvalues(values, noise=noise)) @ vectors.T
    for band in np.unique(bands):
        mine = np.flatnonzero(bands == band)
        lacking = float(np.mean(np.diag(products)[mine] - np.diag(result)[mine]))
        result[mine, mine] += max(0.0, lacking)
    factor = project_on_semidefinite(result)
    return np.asarray(factor @ factor.T, np.float64)
