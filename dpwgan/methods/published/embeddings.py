"""Mean embeddings of images: second moments of public features of the pixels, class by class, in one Gaussian release.

A record's features are a unit vector u: weighted low-frequency cosine coefficients of its pixels, and a constant, all
divided by their length. The products u u^T hold those coefficients, their squares and their products: summed over the
records of a class they say its size, its mean image and how its images vary. No part of the map is learnt from rows.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpwgan.images.image_moments import make_waves
from dpwgan.privacy.events import Gaussian
from dpwgan.privacy.mechanisms.gaussian import add_gaussian_noise
from dpwgan.table.storage import cut, let_go

Floats = npt.NDArray[np.float64]

REPLACE_ONE_FACTOR = math.sqrt(2.0)
"""Two records' parts are unit vectors whose inner product, (u . v)^2 or 0, is not negative."""

POOLED_SHARE = 0.1
"""The part of the squared length of a record's contribution that goes into the sum over all classes."""

CENTRE = 0.5

# The constant, against the root of the number of pixels: about the length of the coefficients beside it.
_CONSTANT = 0.3
# The mean brightness is far from the middle in a dark table or a bright one, and would take up most of the unit length.
_BRIGHTNESS_WEIGHT = 0.75
# Higher frequencies carry less of an image and as much of what tells it from others.
_EMPHASIS = 0.5
# A hair below 1, so that rounding to doubles leaves a record's contribution within the sensitivity.
_LENGTH = 1.0 - 2.0**-32
_BLOCK = 2_048

_COLOURS = {
    1: np.ones((1, 1)),
    # Brightness, and two differences of colours: orthonormal.
    3: np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[3.0], [2.0], [6.0]]),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageFeatures:
    """The public map from pixels to features of unit length.

    Shapes: `shape` is (height, width, channels), channels 1 or 3. `coefficients` (m, 3) names a cosine wave each: its
      frequency down and across, and its colour (of three channels 0 is brightness).
    """

    shape: tuple[int, int, int]
    coefficients: npt.NDArray[np.int64]

    @property
    def width(self) -> int:
        """Length of a record's features: the coefficients and the constant, which is last."""
        return len(self.coefficients) + 1

    @functools.cached_property
    def orders(self) -> Floats:
        """How high each coefficient's frequency is, 0 for a constant image. Shapes: (m,)."""
        return _order(self.coefficients)

    @functools.cached_property
    def waves(self) -> Floats:
        """The images that the coefficients are multiples of: orthonormal. Shapes: (m, pixels)."""
        height, width, channels = self.shape
        down, across = make_waves(height), make_waves(width)
        a, b, colour = self.coefficients.T
        waves = np.einsum("mi,mj,mc->mijc", down[a], across[b], _COLOURS[channels][colour])
        return np.ascontiguousarray(waves.reshape(len(self.coefficients), -1))

    @functools.cached_property
    def weights(self) -> Floats:
        """What each coefficient is multiplied by. Shapes: (m,).

        They rise with the frequency, and leave the length as it is for images whose energy falls with its square, as
        that of pictures of the world does (Field 1987).
        """
        weights, energy = (1.0 + self.orders) ** _EMPHASIS, (1.0 + self.orders) ** -2.0
        varied = self.orders > 0
        if varied.any():
            weights *= math.sqrt(energy[varied].sum() / (weights**2 * energy)[varied].sum())
        return np.where(varied, weights, _BRIGHTNESS_WEIGHT)

    @property
    def constant(self) -> float:
        """The constant beside the weighted coefficients, before both are divided by their length."""
        return _CONSTANT * math.sqrt(math.prod(self.shape))

    def embed(self, pixels: npt.NDArray[np.floating[Any]]) -> Floats:
        """Gives each record's features.

        Privacy: a row of the result depends on that record alone and is at most 1 long, whatever the pixels are.
        Shapes: (b, pixels) in [0, 1], in the order of the layout, to (b, width).
        """
        scaled = (np.asarray(pixels, np.float64) - CENTRE) @ (self.waves.T * self.weights)
        whole = np.concatenate([scaled, np.full((len(scaled), 1), self.constant)], axis=1)
        features: Floats = whole * (_LENGTH / np.linalg.norm(whole, axis=1, keepdims=True))
        return features


@dataclass(frozen=True, kw_only=True, eq=False)
class Embedding:
    """What was released, as best estimates of the sums of u u^T. Holds no rows.

    `stddev`: of the noise on an entry beside the diagonal of one class; `pooled_stddev` on that of the sum of classes.
    On the diagonal it is sqrt 2 times that.
    Shapes: `products` (classes, width, width), symmetric.
    """

    products: Floats
    stddev: float
    pooled_stddev: float


def choose_coefficients(shape: tuple[int, int, int], *, most: int) -> npt.NDArray[np.int64]:
    """Gives the lowest frequencies of an image, all of one order or none, and at least the constant image.

    Colours count as higher frequencies than brightness: pictures vary less in them.
    Privacy: public numbers alone.
    Shapes: (m, 3), m at most `most`.
    """
    height, width, channels = shape
    reach = min(most, max(height, width))
    grid = np.meshgrid(np.arange(min(height, reach)), np.arange(min(width, reach)), np.arange(channels), indexing="ij")
    listed = np.stack([axis.ravel() for axis in grid], axis=1).astype(np.int64)
    orders = _order(listed)
    known = [order for order in np.unique(orders) if np.count_nonzero(orders <= order) <= most]
    chosen = listed[orders <= (known[-1] if known else 0.0)]
    result: npt.NDArray[np.int64] = chosen[np.argsort(_order(chosen), kind="stable")][:most]
    return result


def sum_products(
    features: ImageFeatures,
    pixels: npt.NDArray[np.floating[Any]],
    labels: npt.NDArray[np.integer[Any]],
    *,
    classes: int,
    sources: npt.NDArray[np.integer[Any]] | None = None,
) -> Floats:
    """Adds up u u^T over the records of each class, and over all, as the vector that is released.

    Rows are read a block at a time, and may be mapped from a file. `sources`: the columns of `pixels` in the order of
    the layout, where it is not that of the array.
    Of a symmetric matrix the upper triangle is kept, sqrt 2 times what is beside the diagonal, so that a vector is as
    long as its matrix. The classes' part is multiplied by the root of 1 - `POOLED_SHARE`, the sum's by that of
    `POOLED_SHARE`.
    Privacy: a record is in one class and in the sum. Zeroing it out moves the vector by (1 - s) |u|^4 + s |u|^4 <= 1,
      squared. Replacing it moves it by at most sqrt 2: both parts have length 1 at most, and their inner product is
      (u . v)^2 >= 0 in the sum, and (u . v)^2 or 0 in the classes. No noise is added here.
    Shapes: (n, pixels), (n,) to (classes + 1, width (width + 1) / 2).
    """
    sums = np.zeros((classes + 1, features.width, features.width))
    for part in cut(len(labels), size=_BLOCK):
        block = pixels[part]
        rows = features.embed(block if sources is None else block[:, sources])
        own = labels[part]
        for label in np.unique(own):
            mine = rows[own == label]
            sums[label] += mine.T @ mine
        let_go(pixels, labels)
    sums[classes] = sums[:classes].sum(axis=0)
    upper = np.triu_indices(features.width)
    scale = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
    shares = np.sqrt([1.0 - POOLED_SHARE] * classes + [POOLED_SHARE])
    vector: Floats = sums[:, upper[0], upper[1]] * scale * shares[:, np.newaxis]
    return vector


def measure_embedding(
    features: ImageFeatures,
    pixels: npt.NDArray[np.floating[Any]],
    labels: npt.NDArray[np.integer[Any]],
    *,
    classes: int,
    noise_multiplier: float,
    rng: np.random.Generator,
    sources: npt.NDArray[np.integer[Any]] | None = None,
) -> tuple[Embedding, Gaussian]:
    """Releases the second moments of all classes, and of all records together, with Gaussian noise.

    Privacy: one Gaussian event of sensitivity 1 under zero-out and sqrt 2 under replace-one, see `sum_products`. The
      caller has charged it.
    Raises: PrivacyError if the noise multiplier is not finite and above 0.
    Source: Harder, Adamczewski, Park 2021, arXiv:2002.11603 (DP-MERF: mean embeddings per class, one Gaussian release);
      Balle and Wang 2018, arXiv:1805.06530.
    """
    noisy, event = add_gaussian_noise(
        sum_products(features, pixels, labels, classes=classes, sources=sources),
        sensitivity=1.0,
        noise_multiplier=noise_multiplier,
        rng=rng,
        replace_one_factor=REPLACE_ONE_FACTOR,
    )
    return combine(noisy, width=features.width, noise_multiplier=event.noise_multiplier), event


def combine(noisy: Floats, *, width: int, noise_multiplier: float) -> Embedding:
    """Makes matrices of a release, the classes' sum and the sum released beside them brought to agree.

    Of two estimates of one sum the mean weighted by precision is taken, and what that moves is shared by the classes:
    least squares, all noise being equal. Privacy: post-processing.
    Shapes: (classes + 1, width (width + 1) / 2).
    """
    classes = len(noisy) - 1
    upper = np.triu_indices(width)
    scale = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
    own = noisy[:classes] / (scale * math.sqrt(1.0 - POOLED_SHARE))
    pooled = noisy[classes] / (scale * math.sqrt(POOLED_SHARE))
    variances = classes / (1.0 - POOLED_SHARE), 1.0 / POOLED_SHARE
    together = 1.0 / (1.0 / variances[0] + 1.0 / variances[1])
    agreed = together * (own.sum(axis=0) / variances[0] + pooled / variances[1])
    own += (agreed - own.sum(axis=0)) / classes
    products = np.zeros((classes, width, width))
    products[:, upper[0], upper[1]] = own
    products[:, upper[1], upper[0]] = own
    entry = noise_multiplier / math.sqrt(2.0)
    left = (1.0 - 1.0 / classes) / (1.0 - POOLED_SHARE) + together / classes**2
    return Embedding(products=products, stddev=entry * math.sqrt(left), pooled_stddev=entry * math.sqrt(together))


def _order(coefficients: npt.NDArray[np.int64]) -> Floats:
    """Frequencies down and across are added; a colour counts as twice its frequency and one more."""
    down, across, colour = coefficients.T
    return np.where(colour > 0, 2 * (down + across) + 1, down + across).astype(np.float64)
