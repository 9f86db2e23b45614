"""Images in few coordinates: the low frequencies of their pixels, which are public and the same for all tables."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpwgan.images.image_grid import ImageGrid
from dpwgan.images.image_moments import make_waves
from dpwgan.table.encoded import EncodedTable, Span
from dpwgan.table.storage import allocate_beside, let_go

Floats = npt.NDArray[np.float64]

_CHUNK = 1 << 12

CENTRE = 0.5

LENGTH = 24.0
"""How long a point is: with noise of variance 0.5 on each of some 70 coordinates, 6 long, it can still be told."""

# A pixel may be 0.5 from gray at most, and is about a third of that from it.
_AMPLITUDE = 0.15
# The constant, against the root of the number of pixels: about the length of the coefficients beside it.
_CONSTANT = 0.3
# The mean brightness is far from the middle in a dark table or a bright one, and would take up most of the unit length.
_BRIGHTNESS_WEIGHT = 0.75
# Higher frequencies carry less of an image and as much of what tells it from others.
_EMPHASIS = 0.5
# A hair below 1, so that rounding to doubles leaves a record's contribution within the sensitivity.
_LENGTH = 1.0 - 2.0**-32

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


@dataclass(frozen=True, kw_only=True)
class CosineSpace:
    """The basis that the pixels of a table of images are looked at in.

    A point is the features of `ImageFeatures`, of the lowest frequencies, times `LENGTH`: all points are equally long,
    so that no clip norm fits one picture better than another.
    Privacy: made of the public layout alone. A row's point is a function of that row alone.
    """

    grid: ImageGrid
    most: int

    @functools.cached_property
    def embedding(self) -> ImageFeatures:
        """The map from pixels to features of unit length: at most `most` frequencies, and a constant."""
        return ImageFeatures(shape=self.grid.shape, coefficients=choose_coefficients(self.grid.shape, most=self.most))

    @property
    def dimension(self) -> int:
        """Number of frequencies: no more than was asked for, and all of one order or none."""
        return len(self.embedding.coefficients)

    @property
    def features(self) -> int:
        """How many numbers the discriminator sees of an image."""
        return self.embedding.width

    @property
    def pixels(self) -> int:
        """Number of pixels, channels counted."""
        return len(self.grid.sources)

    @property
    def basis(self) -> Floats:
        """The cosines. Shapes: (dimension, pixels), orthonormal rows."""
        return self.embedding.waves

    @property
    def amplitudes(self) -> Floats:
        """How large a coordinate may well be, in pixels: what a network's output of 1 stands for.

        Less at high frequencies, as in pictures of most things (Field 1987). Shapes: (dimension,).
        """
        result: Floats = _AMPLITUDE * math.sqrt(self.pixels) / np.sqrt(1.0 + self.embedding.orders)
        return result

    @property
    def point_spans(self) -> tuple[Span, ...]:
        """The spans of rows as points: numbers, then the label, one-hot."""
        numbers = tuple(
            Span(column=f"c{i}", role="number", head="linear", start=i, width=1, source=i, categories=0)
            for i in range(self.features)
        )
        start, classes = self.features, self.grid.classes
        label = Span(
            column="label", role="category", head="softmax", start=start, width=classes, source=0, categories=classes
        )
        return (*numbers, label)

    def to_points(self, encoded: EncodedTable) -> EncodedTable:
        """Gives every row's point and label. What it gives is not released."""
        points = allocate_beside(encoded.numbers, (encoded.records, self.features), np.float32)
        sources = list(self.grid.sources)
        for first in range(0, encoded.records, _CHUNK):
            rows = slice(first, first + _CHUNK)
            points[rows] = LENGTH * self.embedding.embed(encoded.numbers[rows][:, sources])
            let_go(encoded.numbers, points)
        codes = np.ascontiguousarray(encoded.codes[:, [self.grid.label.source]])
        return EncodedTable(codes=codes, numbers=points, spans=self.point_spans)


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


def _order(coefficients: npt.NDArray[np.int64]) -> Floats:
    """Frequencies down and across are added; a colour counts as twice its frequency and one more."""
    down, across, colour = coefficients.T
    return np.where(colour > 0, 2 * (down + across) + 1, down + across).astype(np.float64)
