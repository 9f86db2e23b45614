"""Pictures that others are made of: low frequencies, which are public and the same for all tables, or random ones.

`SmoothFrame` and `CosineSpace` are what a critic sees of an image, in such a basis: a function of that row alone.
"""

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpwgan.array_types import AnyFloats, Floats, Integers
from dpwgan.images.grid import ImageGrid
from dpwgan.table.encoded import EncodedTable, Span
from dpwgan.table.storage import allocate_beside, cut, let_go

REACH = 10.0
"""How far a full picture is from a black one, in points of a `SmoothFrame`: no picture is longer."""

LENGTH = 24.0
"""How long a point of a `CosineSpace` is: with noise of variance 0.5 on each of some 70 coordinates, it can be told."""

CENTRE = 0.5

# A pixel may be 0.5 from gray at most, and is about a third of that from it.
_AMPLITUDE = 0.15
# The constant, against the root of the number of pixels: about the length of the coordinates beside it.
_CONSTANT = 0.3
# The mean brightness is far from the middle in a dark table or a bright one, and would take up most of the length.
_BRIGHTNESS_WEIGHT = 0.75
# Higher frequencies carry less of an image and as much of what tells it from others.
_EMPHASIS = 0.5
# A hair below 1, so that rounding to doubles leaves a point within its length.
_UNIT = 1.0 - 2.0**-32
_CHUNK = 1 << 12

_COLOURS = {
    1: np.ones((1, 1)),
    # Brightness, and two differences of colours: orthonormal.
    3: np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[3.0], [2.0], [6.0]]),
}


class Basis(NamedTuple):
    """Pictures of the lowest frequencies, the lowest first. Shapes: orthonormal rows (p, pixels), and (p,)."""

    pictures: Floats
    frequencies: Integers


def make_cosine_basis(shape: tuple[int, int, int], *, dimension: int) -> Basis:
    """The pictures of the cosine transform, each channel by itself, frequencies by their distance from 0.

    Privacy: of public numbers only. Pictures are smooth, so a few low frequencies hold most of what sets them apart.
    Shapes: `shape` is (height, width, channels).
    Source: Ahmed, Natarajan, Rao 1974, "Discrete Cosine Transform" (DCT-II, orthonormal).
    """
    height, width, channels = shape
    down, across = (part.ravel() for part in np.indices((height, width)))
    frequencies = np.hypot(down / height, across / width)
    order = np.lexsort((across, down, np.round(frequencies, 12)))
    waves, channel = np.divmod(np.arange(dimension), channels)
    chosen = order[waves]
    bands = np.rint(frequencies[chosen] * max(height, width)).astype(np.int64)
    return Basis(_draw_waves(shape, down[chosen], across[chosen], np.eye(channels)[channel]), bands)


def make_colour_basis(shape: tuple[int, int, int], *, most: int) -> Basis:
    """The same pictures in brightness and differences of colours, frequencies down and across added up.

    Of one frequency it gives all or none, and at least the constant picture. A colour counts as twice its frequency and
    one more: pictures vary less in them. Privacy: of public numbers only.
    """
    height, width, channels = shape
    reach = min(most, max(height, width))
    sizes = (min(height, reach), min(width, reach), channels)
    down, across, colour = (part.ravel() for part in np.indices(sizes))
    orders = np.where(colour > 0, 2 * (down + across) + 1, down + across)
    known = [order for order in np.unique(orders) if np.count_nonzero(orders <= order) <= most]
    listed = np.flatnonzero(orders <= (known[-1] if known else 0))
    chosen = listed[np.argsort(orders[listed], kind="stable")][:most]
    return Basis(_draw_waves(shape, down[chosen], across[chosen], _COLOURS[channels][colour[chosen]]), orders[chosen])


def _draw_waves(shape: tuple[int, int, int], down: Integers, across: Integers, colours: Floats) -> Floats:
    height, width, _ = shape
    waves = np.einsum("mi,mj,mc->mijc", _make_waves(height)[down], _make_waves(width)[across], colours)
    return np.ascontiguousarray(waves.reshape(len(down), -1))


def _make_waves(length: int) -> Floats:
    """The orthonormal cosine waves of a line, one a row."""
    places, frequencies = np.arange(length), np.arange(length)[:, np.newaxis]
    scale = np.sqrt(np.where(frequencies == 0, 1.0, 2.0) / length)
    result: Floats = scale * np.cos(np.pi * (2 * places + 1) * frequencies / (2 * length))
    return result


def bend_basis(basis: Floats, picture: Floats, *, least_variance: float) -> Floats:
    """An orthonormal basis of pictures that are those of another one where a picture has something to vary.

    Each picture of the basis is multiplied by the stddev of coins with the pixels' means; what is black in all pictures
    then takes no directions. Privacy: post-processing of the released `picture`.
    Shapes: (p, m) orthonormal rows and (m,) to (p, m).
    """
    weights = np.sqrt(picture * (1.0 - picture) + least_variance)
    columns, corner = np.linalg.qr((basis * weights).T)
    result: Floats = np.clip((columns * np.sign(np.diag(corner))).T, -1.0, 1.0)
    return result


@dataclass(frozen=True, kw_only=True)
class SmoothFrame:
    """Images as points that are linear in the pixels, in tenths of the length of a full picture.

    Privacy: made of the public layout alone. A row's point is a linear function of that row, and at most `REACH` long.
    """

    grid: ImageGrid
    dimension: int

    @property
    def scale(self) -> float:
        """What coordinates of pixels are multiplied by."""
        return REACH / math.sqrt(self.grid.pixels)

    @functools.cached_property
    def basis(self) -> Basis:
        """The pictures that points are coordinates in."""
        return make_cosine_basis(self.grid.shape, dimension=self.dimension)

    def to_points(self, pixels: AnyFloats) -> Floats:
        """Gives points of images. Shapes: (b, pixels) in [0, 1], in the grid's order, to (b, dimension)."""
        return np.asarray(pixels, np.float64) @ (self.basis.pictures.T * self.scale)


@dataclass(frozen=True, kw_only=True)
class CosineSpace:
    """Images as points of one length: weighted coordinates of the pixels less 1/2, and a constant, which is last.

    All points are equally long, so that no clip norm fits one picture better than another.
    `most`: frequencies, at most; all of one order are taken or none.
    Privacy: made of the public layout alone. A row's point is a function of that row alone.
    """

    grid: ImageGrid
    most: int

    @functools.cached_property
    def basis(self) -> Basis:
        """The pictures that points are coordinates in."""
        return make_colour_basis(self.grid.shape, most=self.most)

    @property
    def dimension(self) -> int:
        """Number of frequencies."""
        return len(self.basis.frequencies)

    @property
    def features(self) -> int:
        """How many numbers the discriminator sees of an image."""
        return self.dimension + 1

    @property
    def constant(self) -> float:
        """The constant beside the weighted coordinates, before both are divided by their length."""
        return _CONSTANT * math.sqrt(self.grid.pixels)

    @functools.cached_property
    def weights(self) -> Floats:
        """What each coordinate is multiplied by. Shapes: (dimension,).

        They rise with the frequency, and leave the length as it is for images whose energy falls with its square, as
        that of pictures of the world does (Field 1987).
        """
        orders = self.basis.frequencies
        weights, energy, varied = (1.0 + orders) ** _EMPHASIS, (1.0 + orders) ** -2.0, orders > 0
        if varied.any():
            weights *= math.sqrt(energy[varied].sum() / (weights**2 * energy)[varied].sum())
        return np.where(varied, weights, _BRIGHTNESS_WEIGHT)

    @property
    def amplitudes(self) -> Floats:
        """How large a coordinate may well be, in pixels: what a network's output of 1 stands for.

        Less at high frequencies, as in pictures of most things (Field 1987). Shapes: (dimension,).
        """
        result: Floats = _AMPLITUDE * math.sqrt(self.grid.pixels) / np.sqrt(1.0 + self.basis.frequencies)
        return result

    @property
    def point_spans(self) -> tuple[Span, ...]:
        """The spans of rows as points: numbers, then the label, one-hot."""
        numbers = (Span(column=f"c{i}", role="number", start=i, source=i) for i in range(self.features))
        start, classes = self.features, self.grid.classes
        label = Span(column="label", role="category", head="softmax", start=start, width=classes, categories=classes)
        return (*numbers, label)

    def embed(self, pixels: AnyFloats) -> Floats:
        """Gives points of images. Shapes: (b, pixels) in [0, 1], in the grid's order, to (b, features)."""
        scaled = (np.asarray(pixels, np.float64) - CENTRE) @ (self.basis.pictures.T * self.weights)
        whole = np.concatenate([scaled, np.full((len(scaled), 1), self.constant)], axis=1)
        points: Floats = LENGTH * (whole * (_UNIT / np.linalg.norm(whole, axis=1, keepdims=True)))
        return points

    def to_points(self, encoded: EncodedTable) -> EncodedTable:
        """Every row's point and label. The result is not released."""
        points = allocate_beside(encoded.numbers, (encoded.records, self.features), np.float32)
        sources = list(self.grid.sources)
        for rows in cut(encoded.records, size=_CHUNK):
            points[rows] = self.embed(encoded.numbers[rows][:, sources])
            let_go(encoded.numbers, points)
        codes = np.ascontiguousarray(encoded.codes[:, [self.grid.label.source]])
        return EncodedTable(codes=codes, numbers=points, spans=self.point_spans)
