"""The mean releases for images: class sizes and the mean of all pictures, then what each class's mean is beside it.

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
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpwgan.errors import DpwganError
from dpwgan.gaussians.class_moments import RADIUS, Floats, Integers, Noise, to_grid
from dpwgan.privacy.events import Laplace
from dpwgan.privacy.mechanisms.gaussian import add_gaussian_noise
from dpwgan.privacy.mechanisms.laplace import add_laplace_noise
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.storage import let_go

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

    Shapes: `sources` (m,) places among `EncodedTable.numbers`; `basis` (p, m), orthonormal rows but for rounding;
      `bands` (p,) whole numbers, rows that are alike have the same one.
    Units: `levels` is the number of whole levels above black; points are in units of full brightness.
    `random`: the basis was drawn uniformly, and holds p/m of any point's square, give or take.
    """

    sources: npt.NDArray[np.int64]
    levels: int
    basis: Floats
    bands: npt.NDArray[np.int64]
    random: bool = False

    def __post_init__(self) -> None:
        p, m = self.basis.shape
        # Twice a level, times a part, m times: whole numbers that doubles hold exactly.
        is_exact = 2 * self.levels * PARTS * m < 2**53 and bool(np.all(np.abs(self.basis) <= 1.0))
        if not (is_exact and 1 <= p <= m and self.sources.shape == (m,) and self.bands.shape == (p,)):
            raise DpwganError("Internal error: a projection of images does not fit its pixels.")

    @property
    def pixels(self) -> int:
        """Number of pixels, channels counted: m."""
        return int(self.basis.shape[1])

    @property
    def dimension(self) -> int:
        """Number of coordinates: p."""
        return int(self.basis.shape[0])

    @property
    def radius(self) -> float:
        """Length of the longest point that a picture can have; in random directions a few are longer: shortened."""
        share = min(1.0, MOST_OF_SHARE * self.dimension / self.pixels) if self.random else 1.0
        return math.sqrt(self.pixels * share) / 2

    def take(self, dimension: int) -> "ImageProjection":
        """Gives the projection on the first rows of the basis."""
        return ImageProjection(
            sources=self.sources,
            levels=self.levels,
            basis=self.basis[:dimension],
            bands=self.bands[:dimension],
            random=self.random,
        )

    def project(self, numbers: npt.NDArray[np.float32]) -> Floats:
        """Gives each row's coordinates of x - 1/2. Privacy: a function of each row alone, see the module.

        Shapes: (n, numbers of a row) to (n, p).
        """
        basis = np.rint(self.basis.T * PARTS)
        result = np.empty((len(numbers), self.dimension))
        size = max(1, _PIECE_BYTES // (8 * self.pixels))
        for first in range(0, len(numbers), size):
            piece = numbers[first : first + size, self.sources].astype(np.float64)
            within = np.clip(np.nan_to_num(piece, nan=0.0), 0.0, 1.0)
            result[first : first + size] = (2.0 * np.rint(within * self.levels) - self.levels) @ basis
        result /= 2.0 * self.levels * PARTS
        return result


@dataclass(frozen=True, kw_only=True, eq=False)
class Centre:
    """What was released first: noisy sizes of classes, and the noisy sum of all points. Units: records, radii.

    Shapes: `totals` (classes,), `total` (p,). `stddev`: of the noise on each number of `total`.
    """

    totals: Floats
    total: Floats
    stddev: float


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassMeans:
    """What was released second: noisy sums of each class's points. Units: lengths of the radius.

    Shapes: `sums` (classes, p). `stddev`: of the noise on each number.
    """

    sums: Floats
    stddev: float


def root_sensitivity(dimension: int) -> int:
    """Gives the most that a point's whole numbers add up to, signs apart: sqrt(p) radii, rounded down."""
    return math.isqrt(dimension * RADIUS**2)


def weigh_sizes(dimension: int, noise: Noise) -> int:
    """Gives what a record adds to its class's size in the first release: w, in whole numbers of the grid."""
    return root_sensitivity(dimension) if isinstance(noise, Laplace) else RADIUS


def sum_points(
    tables: Sequence[EncodedTable], projection: ImageProjection, *, centre: Floats | float, radius: float
) -> Integers:
    """Adds up, exactly, each class's points about a centre on the grid of a ball.

    Privacy: sensitivities as the module's. What it gives is not released.
    Shapes: `centre` (p,) or one number for all, to (classes, p).
    """
    result = np.zeros((len(tables), projection.dimension), np.int64)
    for total, table in zip(result, tables, strict=True):
        for first in range(0, table.records, _ROWS):
            points = projection.project(table.numbers[first : first + _ROWS])
            total += to_grid((points - centre) / radius).sum(axis=0)
            let_go(table.numbers)
    return result


def measure_centre(
    tables: Sequence[EncodedTable], projection: ImageProjection, *, noise: Noise, rng: np.random.Generator
) -> Centre:
    """Releases the sizes of the classes and the sum of all points at once.

    Privacy: one event, `noise`, with the sensitivities of the module's (1) and (2). The caller has charged its ledger
      with it.
    Raises: PrivacyError from the mechanism.
    """
    weight = weigh_sizes(projection.dimension, noise)
    sums = sum_points(tables, projection, centre=0.0, radius=projection.radius).sum(axis=0)
    sizes = np.array([table.records * weight for table in tables])
    l1 = weight + root_sensitivity(projection.dimension)
    released, stddev = _release(np.concatenate([sizes, sums]), l1=l1, l2=math.sqrt(2.0), noise=noise, rng=rng)
    classes = len(tables)
    return Centre(totals=released[:classes] * (RADIUS / weight), total=released[classes:], stddev=stddev)


def measure_means(
    tables: Sequence[EncodedTable],
    projection: ImageProjection,
    *,
    centre: Floats,
    radius: float,
    noise: Noise,
    rng: np.random.Generator,
) -> ClassMeans:
    """Releases the sums of points about a centre, shortened to a ball, of all classes at once.

    Privacy: one event, `noise`, with the sensitivities of the module's (3): a record is in one class only, so that all
      classes cost what one does. The caller has charged its ledger with it.
    Raises: PrivacyError from the mechanism.
    """
    sums = sum_points(tables, projection, centre=centre, radius=radius)
    released, stddev = _release(sums, l1=root_sensitivity(projection.dimension), l2=1.0, noise=noise, rng=rng)
    return ClassMeans(sums=released, stddev=stddev)


def centre_sensitivity(noise: Noise, *, dimension: int) -> float:
    """Gives what a record moves of sizes and sum together: on the grid in L1 under Laplace noise, else in L2."""
    if isinstance(noise, Laplace):
        return float(weigh_sizes(dimension, noise) + root_sensitivity(dimension))
    return math.sqrt(2.0) + _ROUNDING


def means_sensitivity(noise: Noise, *, dimension: int) -> float:
    """Gives what a record moves of the classes' sums: on the grid in L1 under Laplace noise, else in L2."""
    return float(root_sensitivity(dimension)) if isinstance(noise, Laplace) else 1.0 + _ROUNDING


def _release(sums: Integers, *, l1: int, l2: float, noise: Noise, rng: np.random.Generator) -> tuple[Floats, float]:
    """Adds the noise of an event to whole numbers; gives them, and the noise's stddev, in lengths of the radius."""
    if isinstance(noise, Laplace):
        noisy, scale, _ = add_laplace_noise(
            sums, sensitivity=l1, epsilon=noise.epsilon, rng=rng, replace_one_factor=noise.replace_one_factor
        )
        return noisy / RADIUS, math.sqrt(2.0) * scale / RADIUS
    released, _ = add_gaussian_noise(
        sums / RADIUS,
        sensitivity=l2 + _ROUNDING,
        noise_multiplier=noise.noise_multiplier,
        rng=rng,
        replace_one_factor=noise.replace_one_factor,
    )
    return released, noise.noise_multiplier * (l2 + _ROUNDING)


def bend_basis(basis: Floats, picture: Floats, *, least_variance: float) -> Floats:
    """Gives an orthonormal basis of pictures that are those of another one where a picture has something to vary.

    Each picture of the basis is multiplied by the stddev of coins with the pixels' means; what is black in all pictures
    then takes no directions. Privacy: post-processing of the released `picture`.
    Shapes: (p, m) orthonormal rows and (m,) to (p, m).
    """
    weights = np.sqrt(picture * (1.0 - picture) + least_variance)
    columns, corner = np.linalg.qr((basis * weights).T)
    result: Floats = np.clip((columns * np.sign(np.diag(corner))).T, -1.0, 1.0)
    return result


def make_cosine_basis(shape: tuple[int, int, int], *, dimension: int) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Gives the pictures of the cosine transform, the lowest frequencies first, and the band of each.

    Privacy: of public numbers only. Pictures are smooth, so a few low frequencies hold most of what sets them apart.
    Shapes: (height, width, channels) to (dimension, pixels) orthonormal rows, and (dimension,).
    Source: Ahmed, Natarajan, Rao 1974, "Discrete Cosine Transform" (DCT-II, orthonormal).
    """
    height, width, channels = shape
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    frequencies = np.hypot(rows / height, columns / width).ravel()
    order = np.lexsort((columns.ravel(), rows.ravel(), np.round(frequencies, 12)))
    down, across = make_waves(height), make_waves(width)
    basis = np.zeros((dimension, height * width, channels))
    for place in range(dimension):
        wave = order[place // channels]
        basis[place, :, place % channels] = np.outer(down[wave // width], across[wave % width]).ravel()
    chosen = order[np.arange(dimension) // channels]
    bands = np.rint(frequencies[chosen] * max(height, width)).astype(np.int64)
    return basis.reshape(dimension, -1), bands


def make_waves(length: int) -> Floats:
    """Gives the orthonormal cosine waves of a line, one a row. Source: as `make_cosine_basis`."""
    places, frequencies = np.arange(length), np.arange(length)[:, np.newaxis]
    scale = np.sqrt(np.where(frequencies == 0, 1.0, 2.0) / length)
    result: Floats = scale * np.cos(np.pi * (2 * places + 1) * frequencies / (2 * length))
    return result
