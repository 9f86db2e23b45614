"""RON-Gauss for images: a mean vector a class and covariances, in few dimensions. Three releases.

This is the paper's own shape of release, which the one-way counts of `dpwgan.methods.ron_gauss` are not: a picture of
784 pixels would be in 785 histograms, and here it moves one vector of length 1. Any method can take it with a share of
its budget: it chooses the three events, `plan_image_gaussian` makes the rest of them and of the public shape, and
`release_image_gaussian` gives the moments.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpwgan.errors import UsageError
from dpwgan.gaussians.class_moments import (
    MatrixNoise,
    Noise,
    bearable_dimension,
    measure_products,
    products_sensitivity,
    shrink_noisy_eigenvalues,
    split_classes,
    sum_products,
)
from dpwgan.images.image_grid import ImageGrid, locate_images
from dpwgan.images.image_moments import (
    MOST_OF_SHARE,
    Centre,
    ClassMeans,
    ImageProjection,
    bend_basis,
    centre_sensitivity,
    make_cosine_basis,
    means_sensitivity,
    measure_centre,
    measure_means,
)
from dpwgan.images.projected_images import ImageMoments
from dpwgan.images.projection import draw_projection, project_on_semidefinite
from dpwgan.marginals.simplex import project_on_simplex
from dpwgan.privacy.events import Laplace, Wishart
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.randomness import Streams
from dpwgan.privacy.release import Release
from dpwgan.table.encoded import EncodedTable, Span, TableShape
from dpwgan.table.schema import ImageLayout
from dpwgan.table.storage import let_go

Floats = npt.NDArray[np.float64]
Projection = Literal["cosine", "random"]

CENTRE_LABEL = "class sizes and mean of projected images"
MEANS_LABEL = "class means of projected images"
COVARIANCE_LABEL = "covariance of projected images"

MOST_DIMENSION = 1_024
"""The largest projection: its covariance has half a million numbers."""

MOST_CLASSES = 128
"""A label of more classes would leave few records to each, and all the noise."""

# A class of its own gets a covariance where noise lets this many dimensions of it be seen; else all classes share one.
_CLASS_DIMENSIONS = 64
# The root of a pixel's mean square from its class's mean, at most: black and white halves have 0.5, photographs 0.25.
_CONTRAST = 0.3
_LEAST_CONTRAST = 0.1


@dataclass(frozen=True, kw_only=True)
class ImageGaussianPlan:
    """All releases and the projections, fixed before a row is read.

    `centre`, `means`, `covariance`: their events. `centre_dimension`, `means_dimension`, `covariance_dimension`: how
    many of the basis's first directions each sees. `by_class`: whether each class has a covariance, or all share the
    one within classes.
    `sources`: where the pixels are among the numbers of a row.
    """

    shape: TableShape
    layout: ImageLayout
    label: Span
    sources: tuple[int, ...]
    projection: Projection
    centre: Noise
    means: Noise
    covariance: MatrixNoise
    centre_dimension: int
    means_dimension: int
    covariance_dimension: int
    by_class: bool

    @property
    def dimension(self) -> int:
        """Number of directions in the basis."""
        return max(self.centre_dimension, self.means_dimension, self.covariance_dimension)

    @property
    def levels(self) -> int:
        """Whole levels of a pixel above black."""
        return self.layout.maximum - self.layout.minimum

    @property
    def releases(self) -> list[Release]:
        """What to reserve in the ledger."""
        kind = "Laplace" if isinstance(self.means, Laplace) else "Gaussian"
        of_matrix = "Wishart" if isinstance(self.covariance, Wishart) else "Gaussian"
        whose = f"each class of {self.label.column}" if self.by_class else f"all classes of {self.label.column}"
        return [
            Release(
                label=CENTRE_LABEL,
                event=self.centre,
                times=1,
                mechanism=f"{kind} noise on the classes' sizes and the sum of all projected images, together",
                sensitivity=centre_sensitivity(self.centre, dimension=self.centre_dimension),
                details={"dimension": self.centre_dimension},
            ),
            Release(
                label=MEANS_LABEL,
                event=self.means,
                times=1,
                mechanism=f"{kind} noise on the classes' sums of projected images, all together",
                sensitivity=means_sensitivity(self.means, dimension=self.means_dimension),
                details={"dimension": self.means_dimension},
            ),
            Release(
                label=COVARIANCE_LABEL,
                event=self.covariance,
                times=1,
                mechanism=f"{of_matrix} noise on the projected images' covariance, {whose}",
                sensitivity=products_sensitivity(self.covariance),
                details={"dimension": self.covariance_dimension},
            ),
        ]

    @property
    def memory_bytes(self) -> int:
        """Estimate of what the fit holds at its peak: the rows parted by class, the basis, matrices and the model."""
        pixels, p, classes = len(self.sources), self.dimension, self.label.categories
        matrices = classes if self.by_class else 1
        model = 8 * pixels * (3 * p + 12 * classes + 2 * matrices * p) + 8 * p * p * (4 * matrices + 6)
        return int(self.row_bytes + model + 192 * 2**20)

    @property
    def row_bytes(self) -> int:
        """The part of it that the rows take, which is on disk instead where they are."""
        return 4 * self.shape.records * (len(self.sources) + 1)

    @property
    def seconds(self) -> float:
        """Estimate of the time that the fit takes on two cores.

        Measured on MNIST at epsilon 1 and 10, in 49, 309 and 784 dimensions.
        """
        pixels, p, classes = len(self.sources), self.dimension, self.label.categories
        rows = self.shape.records * p * (pixels * 3e-10 + p * 1e-10)
        return 0.5 + rows + classes * (pixels * 5e-5 + p**3 * 6e-10)

    def make_projection(self, *, rng: np.random.Generator) -> ImageProjection:
        """Makes the basis. Privacy: of public facts and public randomness."""
        pixels = len(self.sources)
        if self.projection == "cosine":
            basis, bands = make_cosine_basis(self.layout.shape, dimension=self.dimension)
        else:
            basis, bands = draw_projection(pixels, self.dimension, rng=rng).T, np.zeros(self.dimension, np.int64)
        return ImageProjection(
            sources=np.array(self.sources),
            levels=self.levels,
            basis=basis,
            bands=bands,
            random=self.projection == "random",
        )


def find_images(shape: TableShape) -> ImageGrid | None:
    """Finds pixels and label of images of which a Gaussian can be made; None for any other table.

    Privacy: reads public facts only.
    """
    grid, layout = locate_images(shape), shape.image
    if grid is None or layout is None or layout.maximum <= layout.minimum or grid.classes > MOST_CLASSES:
        return None
    return grid


def plan_image_gaussian(
    shape: TableShape,
    *,
    centre: Noise,
    means: Noise,
    covariance: MatrixNoise,
    projection: Projection = "cosine",
    dimension: int | None = None,
) -> ImageGaussianPlan:
    """Chooses the dimensions from the public shape and the events. Privacy: sees nothing else.

    The events must have the factors `image_moments.MEANS_REPLACE_ONE_FACTOR` and
    `class_moments.covariance_replace_one_factor`, which hold whatever is chosen here. `dimension` asks for one, for
    all releases.
    Raises: UsageError for a table that is not images and a label alone, or a dimension beyond its pixels.
    """
    grid = find_images(shape)
    if grid is None or shape.image is None:
        raise UsageError(
            "a Gaussian of images needs specs with a layout, whose every column is a pixel that is a number, "
            f"or a label of {MOST_CLASSES} categories at most"
        )
    pixels, classes = len(grid.sources), grid.classes
    most = min(pixels, MOST_DIMENSION)
    if dimension is not None and not 1 <= dimension <= most:
        raise UsageError(f"projection-dimension must be from 1 to {most:,} for images of {pixels:,} pixels")
    records = shape.records
    by_class = bearable_dimension(records / classes, covariance, push=1.0) >= _CLASS_DIMENSIONS
    seen = records / classes if by_class else records
    # Shrinkage sets right what is too noisy of each class, so that a class may have as many directions as all.
    of_covariance = max(bearable_dimension(seen, covariance, push=1.0), _CLASS_DIMENSIONS * 2.0 if by_class else 1.0)
    return ImageGaussianPlan(
        shape=shape,
        layout=shape.image,
        label=grid.label,
        sources=grid.sources,
        projection=projection,
        centre=centre,
        means=means,
        covariance=covariance,
        # Half of the first release is spent on the sizes.
        centre_dimension=dimension or _choose_means_dimension(records / 2.0, centre, most=most),
        means_dimension=dimension or _choose_means_dimension(records / classes, means, most=most),
        covariance_dimension=dimension or max(1, min(most, int(of_covariance))),
        by_class=by_class,
    )


def release_image_gaussian(
    encoded: EncodedTable,
    plan: ImageGaussianPlan,
    *,
    streams: Streams,
    ledger: Ledger,
    told: Callable[[], None] = lambda: None,
) -> ImageMoments:
    """Measures centre, means and covariances. Privacy: each release is charged before it reads rows.

    Where classes share a covariance, what is released is that of all pictures about the centre; what the classes' means
    explain of it is taken off, so that an error of theirs is in the parts and not in the whole.
    `told` is called after each of the three. Raises: PrivacyError from the ledger.
    """
    public = plan.make_projection(rng=streams.model)
    ledger.charge(CENTRE_LABEL)
    tables = split_classes(encoded, plan.label)
    first = public.take(plan.centre_dimension)
    found = measure_centre(tables, first, noise=plan.centre, rng=streams.noise)
    told()
    # From here on, up to the next release, all is made of the earlier ones and of public numbers.
    total = float(plan.shape.records)
    records = project_on_simplex(found.totals, np.ones(len(tables)), total=total)
    shares = records / records.sum()
    picture = np.clip(0.5 + first.radius * shrink_centre(found, first.bands, total=total) @ first.basis, 0.0, 1.0)
    projection = public
    if plan.projection == "cosine":
        projection = replace(public, basis=bend_basis(public.basis, picture, least_variance=_LEAST_CONTRAST**2))
    centre = projection.basis @ (picture - 0.5)
    seen_by_means, seen = projection.take(plan.means_dimension), projection.take(plan.covariance_dimension)
    radius = _choose_radius(picture[np.newaxis], np.ones(1), plan, dimension=plan.means_dimension)
    ledger.charge(MEANS_LABEL)
    measured = measure_means(
        tables,
        seen_by_means,
        centre=centre[: plan.means_dimension],
        radius=radius,
        noise=plan.means,
        rng=streams.noise,
    )
    told()
    means = np.zeros((len(tables), plan.dimension))
    means[:, : plan.means_dimension] = radius * shrink_means(measured, records, seen_by_means.bands, total=total)
    inner = slice(0, plan.covariance_dimension)
    pictures = np.clip(picture + means @ projection.basis, 0.0, 1.0) if plan.by_class else picture[np.newaxis]
    radius = _choose_radius(
        pictures, shares if plan.by_class else np.ones(1), plan, dimension=plan.covariance_dimension
    )
    ledger.charge(COVARIANCE_LABEL)
    about = centre[inner] + (means[:, inner] if plan.by_class else np.zeros((len(tables), 1)))
    sums = [_sum_products(table, seen, place, radius=radius) for table, place in zip(tables, about, strict=True)]
    if not plan.by_class:
        sums = [np.sum(sums, axis=0)]
    released = measure_products(sums, noise=plan.covariance, rng=streams.noise)
    told()
    if not plan.by_class:
        between = (means[:, inner] * records[:, np.newaxis]).T @ means[:, inner]
        released = (released[0] - between / radius**2,)
    sizes = np.maximum(records, 1.0) if plan.by_class else np.array([total])
    covariances = np.zeros((len(sums), plan.dimension, plan.dimension))
    for covariance, products, size in zip(covariances, released, sizes, strict=True):
        covariance[inner, inner] = shrink_covariance(products, seen.bands, noise=plan.covariance) * (radius**2 / size)
    return ImageMoments(centre=picture, basis=projection.basis, means=means, covariances=covariances, shares=shares)


def shrink_centre(found: Centre, bands: npt.NDArray[np.int64], *, total: float) -> Floats:
    """Gives the mean of all points, in lengths of the radius: of each band the share that stands out of the noise.

    Privacy: post-processing. Shapes: `bands` (p,) to (p,).
    Source: Efron and Morris 1973 (empirical Bayes, James and Stein's rule by groups).
    """
    mean = found.total / total
    for band in np.unique(bands):
        mine = bands == band
        square = float(np.mean(np.square(mean[mine])))
        mean[mine] *= max(0.0, 1.0 - (found.stddev / total) ** 2 / max(square, 1e-300))
    return mean


def shrink_means(measured: ClassMeans, records: Floats, bands: npt.NDArray[np.int64], *, total: float) -> Floats:
    """Gives each class's mean, in lengths of the radius: what stands out of the noise, and of its neighbours in a band.

    The mean of all is taken as far as its band stands out of noise, and so is how far a class lies from it: both by
    the share of a band's mean square that is not noise. Privacy: post-processing.
    Shapes: `records` (classes,), `bands` (p,) to (classes, p).
    Source: Efron and Morris 1973 (empirical Bayes, James and Stein's rule by groups).
    """
    classes = len(records)
    sizes = np.maximum(records, 1.0)
    noise = np.square(measured.stddev / sizes)[:, np.newaxis]
    centre = measured.sums.sum(axis=0) / total
    apart = measured.sums / sizes[:, np.newaxis] - centre
    weights = 1.0 / np.square(noise)
    for band in np.unique(bands):
        mine = bands == band
        square = float(np.mean(np.square(centre[mine])))
        centre[mine] *= max(0.0, 1.0 - classes * (measured.stddev / total) ** 2 / max(square, 1e-300))
        excess = float(np.average(np.mean(np.square(apart[:, mine]), axis=1, keepdims=True) - noise, weights=weights))
        apart[:, mine] *= max(excess, 0.0) / (max(excess, 0.0) + noise)
    means = centre + apart
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    result: Floats = means / np.maximum(lengths, 1.0)
    return result


def shrink_covariance(products: Floats, bands: npt.NDArray[np.int64], *, noise: MatrixNoise) -> Floats:
    """Gives the sum of products that stands out of the noise, positive semidefinite.

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


def _sum_products(
    table: EncodedTable, projection: ImageProjection, centre: Floats, *, radius: float
) -> npt.NDArray[np.int64]:
    """Adds up the products of a class's places in the ball. What it gives is not released."""

    def place(rows: npt.NDArray[np.integer[Any]]) -> Floats:
        points: Floats = (projection.project(table.numbers[rows]) - centre) / radius
        let_go(table.numbers)
        return points

    return sum_products(np.arange(table.records), place, dimension=projection.dimension)


def _choose_means_dimension(records: float, noise: Noise, *, most: int) -> int:
    """Gives the largest p at which the noise on a class's mean, coordinate by coordinate, is at most 1/p of the radius.

    All of it together is then 1/sqrt p of the radius. Of public numbers only.
    """
    if isinstance(noise, Laplace):
        # sqrt 2 sqrt p/(n E) <= 1/p.
        p = (records * noise.epsilon / math.sqrt(2.0)) ** (2.0 / 3.0)
    else:
        p = records / noise.noise_multiplier
    return max(1, min(most, int(p)))


def _choose_radius(pictures: Floats, shares: Floats, plan: ImageGaussianPlan, *, dimension: int) -> float:
    """Gives a ball's radius: no pixel of a mean has more variance than a coin. Of earlier releases only.

    A public contrast bounds it too, and in random directions the share of the square that they hold.
    """
    pixels = len(plan.sources)
    square = float(shares @ (pictures * (1.0 - pictures)).sum(axis=1))
    square = min(max(square, _LEAST_CONTRAST**2 * pixels), _CONTRAST**2 * pixels)
    if plan.projection == "random":
        square *= min(1.0, MOST_OF_SHARE * dimension / pixels)
    return math.sqrt(square)
