"""Images in few coordinates: the low frequencies of their pixels, which are public and the same for all tables."""

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpwgan.images.image_grid import ImageGrid
from dpwgan.methods.published.embeddings import ImageFeatures, choose_coefficients
from dpwgan.table.encoded import EncodedTable, Span
from dpwgan.table.storage import allocate_beside, let_go

Floats = npt.NDArray[np.float64]

_CHUNK = 1 << 12

LENGTH = 24.0
"""How long a point is: with noise of variance 0.5 on each of some 70 coordinates, 6 long, it can still be told."""

# A pixel may be 0.5 from gray at most, and is about a third of that from it.
_AMPLITUDE = 0.15


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
