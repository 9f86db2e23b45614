"""Images under RON-Gauss: sizes and the mean of all pictures, the classes' mean pictures, and covariances.

That is the paper's own shape of release: a picture of 784 pixels would be in 785 one-way histograms; here one picture
moves one vector, or matrix, of length 1 in each of three releases.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dpwgan.array_types import Floats
from dpwgan.errors import UsageError
from dpwgan.gaussians.class_moments import (
    RADIUS,
    MatrixNoise,
    Noise,
    bearable_dimension,
    products_sensitivity,
    read_products,
    write_products,
)
from dpwgan.gaussians.projected_gaussian import draw_projection
from dpwgan.images.basis import bend_basis, make_cosine_basis
from dpwgan.images.grid import ImageGrid
from dpwgan.images.moments import (
    ImageProjection,
    centre_sensitivity,
    means_sensitivity,
    read_points,
    shrink_centre,
    shrink_covariance,
    shrink_means,
    sum_centre,
    sum_image_products,
    sum_means,
    weigh_sizes,
)
from dpwgan.images.sampler import GaussianImages, fit_pixels
from dpwgan.marginals.simplex import project_on_simplex
from dpwgan.methods.ron_gauss_tables import MOST_DIMENSION
from dpwgan.methods.settings import RonGaussSettings
from dpwgan.plan import Cost, Run
from dpwgan.privacy.events import Gaussian, Laplace
from dpwgan.privacy.release import Release
from dpwgan.table.encoded import TableShape

CENTRE_LABEL = "class sizes and mean of projected images"
MEANS_LABEL = "class means of projected images"
IMAGE_COVARIANCE_LABEL = "covariance of projected images"

# The mean of all is known of many more records than a class's, and needs little; of the rest means need a bit more than
# the covariance, which has the more records.
CENTRE_SHARE = 0.1
MEAN_SHARE_OF_IMAGES = 0.55
# A class gets a covariance of its own where noise lets this many dimensions be seen; else all share one.
_CLASS_DIMENSIONS = 64
# The root of a pixel's mean square from its class's mean, at most: black and white halves have 0.5, photographs 0.25.
_CONTRAST = 0.3
_LEAST_CONTRAST = 0.1


@dataclass(frozen=True, kw_only=True)
class RonGaussImageDesign:
    """All three releases of images, and the projections, fixed before a row is read.

    `centre`, `means`, `covariance`: their events. `centre_dimension`, `means_dimension`, `covariance_dimension`: how
    many of the basis's first directions each sees. `by_class`: whether each class has a covariance, or all share the
    one within classes.
    """

    shape: TableShape
    settings: RonGaussSettings
    centre: Noise
    means: Noise
    covariance: MatrixNoise
    grid: ImageGrid
    centre_dimension: int
    means_dimension: int
    covariance_dimension: int
    by_class: bool

    @property
    def projection(self) -> Literal["cosine", "random"]:
        """The kind of basis: the lowest frequencies, or random directions."""
        return self.settings.projection or "cosine"

    @property
    def dimension(self) -> int:
        """Number of directions in the basis."""
        return max(self.centre_dimension, self.means_dimension, self.covariance_dimension)

    @property
    def releases(self) -> list[Release]:
        """What to reserve in the ledger."""
        points, matrices = type(self.means).__name__, type(self.covariance).__name__
        whose = f"{'each class' if self.by_class else 'all classes'} of {self.grid.label.column}"
        why = ": continuous, since points are not whole" if isinstance(self.centre, Gaussian) else ""
        return [
            Release(
                label=CENTRE_LABEL,
                event=self.centre,
                times=1,
                mechanism=f"{points} noise on the classes' sizes and the sum of all projected images, together{why}",
                sensitivity=centre_sensitivity(self.centre, dimension=self.centre_dimension),
                details={"dimension": self.centre_dimension},
            ),
            Release(
                label=MEANS_LABEL,
                event=self.means,
                times=1,
                mechanism=f"{points} noise on the classes' sums of projected images, all together",
                sensitivity=means_sensitivity(self.means, dimension=self.means_dimension),
                details={"dimension": self.means_dimension},
            ),
            Release(
                label=IMAGE_COVARIANCE_LABEL,
                event=self.covariance,
                times=1,
                mechanism=f"{matrices} noise on the projected images' covariance, {whose}",
                sensitivity=products_sensitivity(self.covariance),
                details={"dimension": self.covariance_dimension},
            ),
        ]

    @property
    def cost(self) -> Cost:
        """The rows, the basis, matrices and the model; the time of the fit.

        Measured on MNIST at epsilon 1 and 10, in 49, 309 and 784 dimensions.
        """
        pixels, p, classes = self.grid.pixels, self.dimension, self.grid.classes
        matrices = classes if self.by_class else 1
        model = 8 * pixels * (3 * p + 12 * classes + 2 * matrices * p) + 8 * p * p * (4 * matrices + 6)
        rows = self.shape.records * p * (pixels * 3e-10 + p * 1e-10)
        return Cost(
            row_bytes=4 * self.shape.records * (pixels + 1),
            working_bytes=model + 192 * 2**20,
            seconds=0.5 + rows + classes * (pixels * 5e-5 + p**3 * 6e-10),
        )

    def summary(self) -> dict[str, Any]:
        """The settings, those asked for and those chosen, as JSON-able pairs."""
        return {
            "label": self.grid.label.column,
            "noise": self.settings.noise,
            "projection": self.projection,
            "projection_dimension": {
                "centre": self.centre_dimension,
                "means": self.means_dimension,
                "covariance": self.covariance_dimension,
            },
            "mean_share": self.settings.mean_share or MEAN_SHARE_OF_IMAGES,
            "covariance": "one a class" if self.by_class else "one within all classes",
        }


def lay_out_images(
    centre: Noise,
    means: Noise,
    *,
    covariance: MatrixNoise,
    grid: ImageGrid,
    shape: TableShape,
    settings: RonGaussSettings,
) -> RonGaussImageDesign:
    """Chooses the dimensions of releases whose noise was chosen. Privacy: of public facts only.

    Raises: UsageError for a dimension that the images do not have.
    """
    pixels, classes, records = grid.pixels, grid.classes, shape.records
    most, dimension = min(pixels, MOST_DIMENSION), settings.projection_dimension
    if dimension is not None and dimension > most:
        raise UsageError(f"projection-dimension must be from 1 to {most:,} for images of {pixels:,} pixels")
    by_class = bearable_dimension(records / classes, covariance, push=1.0) >= _CLASS_DIMENSIONS
    seen = records / classes if by_class else records
    # Shrinkage sets right what is too noisy of each class, so that a class may have as many directions as all.
    of_covariance = max(bearable_dimension(seen, covariance, push=1.0), _CLASS_DIMENSIONS * 2.0 if by_class else 1.0)
    return RonGaussImageDesign(
        shape=shape,
        settings=settings,
        centre=centre,
        means=means,
        covariance=covariance,
        grid=grid,
        # Half of the first release is spent on the sizes.
        centre_dimension=dimension or _choose_means_dimension(records / 2.0, centre, most=most),
        means_dimension=dimension or _choose_means_dimension(records / classes, means, most=most),
        covariance_dimension=dimension or max(1, min(most, int(of_covariance))),
        by_class=by_class,
    )


def _choose_means_dimension(records: float, noise: Noise, *, most: int) -> int:
    """The largest p at which the noise on a class's mean, coordinate by coordinate, is at most 1/p of the radius.

    All of it together is then 1/sqrt p of the radius. Of public numbers only.
    """
    if isinstance(noise, Laplace):
        # sqrt 2 sqrt p/(n E) <= 1/p.
        p = (records * noise.epsilon / math.sqrt(2.0)) ** (2.0 / 3.0)
    else:
        p = records / noise.noise_multiplier
    return max(1, min(most, int(p)))


def fit_images(plan: RonGaussImageDesign, run: Run) -> GaussianImages:
    """Measures sizes, means and covariances of classes. Privacy: each release is charged before it reads rows."""
    encoded, ledger, progress = run.rows.own, run.ledger, run.progress
    grid, total = plan.grid, float(plan.shape.records)
    projection = _make_projection(plan, rng=run.model)
    first = projection.take(plan.centre_dimension)
    noisy = ledger.release(CENTRE_LABEL, lambda: sum_centre(encoded, first, noise=plan.centre))
    progress(1, 3, ledger.epsilon_spent())
    # From here on, up to the next release, all is made of the earlier ones and of public numbers.
    released, stddev = read_points(noisy, plan.centre)
    sizes = released[: grid.classes] * (RADIUS / weigh_sizes(plan.centre_dimension, plan.centre))
    records = project_on_simplex(sizes, np.ones(grid.classes), total=total)
    shares = records / records.sum()
    mean = shrink_centre(released[grid.classes :] / total, first.bands, variance=(stddev / total) ** 2)
    picture = np.clip(0.5 + first.radius * mean @ first.basis, 0.0, 1.0)
    if plan.projection == "cosine":
        bent = bend_basis(projection.basis, picture, least_variance=_LEAST_CONTRAST**2)
        projection = replace(projection, basis=bent)
    centre = projection.basis @ (picture - 0.5)

    second = projection.take(plan.means_dimension)
    radius = _choose_radius(picture[np.newaxis], np.ones(1), second)
    noisy = ledger.release(
        MEANS_LABEL,
        lambda: sum_means(encoded, second, centre=centre[: second.dimension], radius=radius, noise=plan.means),
    )
    progress(2, 3, ledger.epsilon_spent())
    sums, stddev = read_points(noisy, plan.means)
    means = np.zeros((grid.classes, plan.dimension))
    means[:, : second.dimension] = radius * shrink_means(sums, records, second.bands, stddev=stddev, total=total)
    pictures = np.clip(picture + means @ projection.basis, 0.0, 1.0)

    # Where classes share a covariance, what is released is that of all pictures about the centre; what the classes'
    # means explain of it is taken off, so that an error of theirs is in the parts and not in the whole.
    third, p = projection.take(plan.covariance_dimension), plan.covariance_dimension
    centres = centre[:p] + (means[:, :p] if plan.by_class else np.zeros((1, p)))
    if plan.by_class:
        reach, counted = _choose_radius(pictures, shares, third), np.maximum(records, 1.0)
    else:
        reach, counted = _choose_radius(picture[np.newaxis], np.ones(1), third), np.array([total])
    matrices = ledger.release_all(
        IMAGE_COVARIANCE_LABEL,
        lambda: [
            write_products(products, noise=plan.covariance)
            for products in sum_image_products(encoded, third, centres=centres, radius=reach)
        ],
    )
    progress(3, 3, ledger.epsilon_spent())
    between = 0.0 if plan.by_class else (means[:, :p] * records[:, np.newaxis]).T @ means[:, :p] / reach**2
    covariances = np.zeros((len(matrices), plan.dimension, plan.dimension))
    for covariance, noisy, size in zip(covariances, matrices, counted, strict=True):
        products = read_products(noisy, dimension=p) - between
        covariance[:p, :p] = shrink_covariance(products, third.bands, noise=plan.covariance) * (reach**2 / size)
    return fit_pixels(grid, pictures=pictures, basis=projection.basis, covariances=covariances, shares=shares)


def _make_projection(plan: RonGaussImageDesign, *, rng: np.random.Generator) -> ImageProjection:
    """Makes the basis. Privacy: of public facts and public randomness."""
    if plan.projection == "cosine":
        basis, bands = make_cosine_basis(plan.grid.shape, dimension=plan.dimension)
        return ImageProjection(grid=plan.grid, basis=basis, bands=bands)
    basis = draw_projection(plan.grid.pixels, plan.dimension, rng=rng).T
    return ImageProjection(grid=plan.grid, basis=basis, bands=np.zeros(plan.dimension, np.int64), random=True)


def _choose_radius(pictures: Floats, shares: Floats, projection: ImageProjection) -> float:
    """A ball's radius: no pixel of a mean has more variance than a coin. Of earlier releases only.

    A public contrast bounds it too, and in random directions the share of the square that they hold.
    """
    square, pixels = float(shares @ (pictures * (1.0 - pictures)).sum(axis=1)), projection.grid.pixels
    square = min(max(square, _LEAST_CONTRAST**2 * pixels), _CONTRAST**2 * pixels)
    return math.sqrt(square * projection.share)
