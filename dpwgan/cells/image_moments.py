"""The mean release of RON-Gauss for images: class sizes and class sums of projected pixels, at once.

A picture x of m pixels in [0, 1] is a point: the coordinates of x - 1/2 in a public orthonormal basis. Its length is at
most sqrt(m)/2, whatever the picture, so that with this radius no picture is shortened, black or white: any other
constant gives a longer one to some. What is added up for a record is (w, z) in the place of its class: its point z on
the whole numbers of the unit ball (`dpwgan.cells.class_moments.to_grid`), and the weight w = `COUNT_WEIGHT` for its
class's size. A size is wanted to a few records only, so it need not cost what a coordinate does.

Sensitivities, for z of p coordinates.
(1) Zero-out: the place of one class loses (w, z). L1: w + sum |z_i| <= w + sqrt p, by Cauchy and Schwarz; on the grid
    sum |z_i| is a whole number and at most the whole part of sqrt(p) `RADIUS`. L2: sqrt(w^2 + |z|^2) <= sqrt(w^2 + 1).
(2) Replaced within a class: (0, z - z'), L1 2 sqrt p, L2 2; equality at z' = -z. From one class to another: (1) twice
    in L1, sqrt 2 times (1) in L2. So the factor 2 over (1) holds for all.
The scale of the paper for means, one in n rows of norm 1, holds for rows that are zeroed out and have no class.

Exactness: pixels are whole levels and the basis is rounded to whole parts of 2^20, so that a coordinate is a sum of
products of whole numbers far below 2^53: exact, in whatever order it is added up, and a function of its row alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpwgan.accounting.events import Laplace
from dpwgan.cells.class_moments import RADIUS, Floats, Integers, Noise, to_grid
from dpwgan.encoded import EncodedTable
from dpwgan.errors import DpwganError
from dpwgan.mechanisms.gaussian import add_gaussian_noise
from dpwgan.mechanisms.laplace import add_laplace_noise
from dpwgan.storage import let_go

COUNT_WEIGHT = 0.25
"""What a record adds to its class's size, over the length of the longest point."""

MEANS_REPLACE_ONE_FACTOR = 2.0
"""What one replaced record moves the release by, over what one zeroed one does, at most: the module's (2)."""

MOST_OF_SHARE = 1.5
"""Points in random directions that hold more than this many times their share of the square are shortened."""

PARTS = 2**20
"""A basis is rounded to whole numbers of these parts of 1."""

_COUNT_UNITS = RADIUS // 4
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
class ClassMeans:
    """What was released: noisy sizes and sums of points. Units: records; `sums` and `stddev` in lengths of the radius.

    Shapes: `totals` (classes,), `sums` (classes, p). `stddev`: of the noise on each number of `sums`.
    """

    totals: Floats
    sums: Floats
    stddev: float


def means_sensitivity(dimension: int) -> int:
    """Gives the L1 sensitivity of the whole numbers that are released, under zero-out: the module's (1)."""
    return math.isqrt(dimension * RADIUS**2) + _COUNT_UNITS


def sum_points(tables: Sequence[EncodedTable], projection: ImageProjection) -> Integers:
    """Adds up, exactly, each class's points on the grid, and its records in units of their weight.

    Privacy: sensitivities as the module's (1) and (2). What it gives is not released.
    Shapes: (classes, p + 1), the records last.
    """
    result = np.zeros((len(tables), projection.dimension + 1), np.int64)
    for total, table in zip(result, tables, strict=True):
        for first in range(0, table.records, _ROWS):
            points = projection.project(table.numbers[first : first + _ROWS])
            total[:-1] += to_grid(points / projection.radius).sum(axis=0)
            let_go(table.numbers)
        total[-1] = table.records * _COUNT_UNITS
    return result


def measure_means(
    tables: Sequence[EncodedTable], projection: ImageProjection, *, noise: Noise, rng: np.random.Generator
) -> ClassMeans:
    """Releases the sizes and the sums of points of all classes at once.

    Privacy: one event, `noise`, with the sensitivities of the module's (1) and (2): a record is in one class only, so
      that all classes cost what one does. The caller has charged its ledger with it.
    Raises: PrivacyError from the mechanism.
    """
    sums = sum_points(tables, projection)
    if isinstance(noise, Laplace):
        noisy, scale, _ = add_laplace_noise(
            sums,
            sensitivity=means_sensitivity(projection.dimension),
            epsilon=noise.epsilon,
            rng=rng,
            replace_one_factor=noise.replace_one_factor,
        )
        released, stddev = noisy / RADIUS, math.sqrt(2.0) * scale / RADIUS
    else:
        sensitivity = math.hypot(1.0, COUNT_WEIGHT) + _ROUNDING
        released, _ = add_gaussian_noise(
            sums / RADIUS,
            sensitivity=sensitivity,
            noise_multiplier=noise.noise_multiplier,
            rng=rng,
            replace_one_factor=noise.replace_one_factor,
        )
        stddev = noise.noise_multiplier * sensitivity
    return ClassMeans(totals=released[:, -1] / COUNT_WEIGHT, sums=released[:, :-1], stddev=stddev)


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
    down, across = _make_waves(height), _make_waves(width)
    basis = np.zeros((dimension, height * width, channels))
    for place in range(dimension):
        wave = order[place // channels]
        basis[place, :, place % channels] = np.outer(down[wave // width], across[wave % width]).ravel()
    chosen = order[np.arange(dimension) // channels]
    bands = np.rint(frequencies[chosen] * max(height, width)).astype(np.int64)
    return basis.reshape(dimension, -1), bands


def _make_waves(length: int) -> Floats:
    places, frequencies = np.arange(length), np.arange(length)[:, np.newaxis]
    scale = np.sqrt(np.where(frequencies == 0, 1.0, 2.0) / length)
    result: Floats = scale * np.cos(np.pi * (2 * places + 1) * frequencies / (2 * length))
    return result
