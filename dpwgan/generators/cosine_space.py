"""Images in few coordinates: the low frequencies of their pixels, which are public and the same for all tables."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpwgan.cells.image_moments import make_cosine_basis
from dpwgan.encoded import EncodedTable, Span
from dpwgan.storage import allocate_beside, let_go

Floats = npt.NDArray[np.float64]

_CHUNK = 1 << 12


@dataclass(frozen=True, kw_only=True)
class CosineSpace:
    """Where pixels and label of a table of images stand, and the basis that its pixels are looked at in.

    A point is the coordinates of an image in the smoothest of the orthonormal cosines, divided by a tenth of the length
    of a full picture, which is 10 away from a black one. Products of the first `squared` coordinates follow, so that
    how pixels hang together is as plain to a discriminator as how bright they are.
    Privacy: made of the public layout alone. A row's point is a linear function of that row alone.
    Shapes: `image` is (height, width, channels); `sources` (pixels,) places in `EncodedTable.numbers`.
    """

    image: tuple[int, int, int]
    spans: tuple[Span, ...]
    label: Span
    sources: tuple[int, ...]
    dimension: int
    squared: int = 0

    @property
    def features(self) -> int:
        """How many numbers the discriminator sees of an image: coordinates and products."""
        return self.dimension + self.squared * (self.squared + 1) // 2

    @property
    def pixels(self) -> int:
        """Number of pixels, channels counted."""
        return len(self.sources)

    @property
    def classes(self) -> int:
        """Number of cells that the label may hold."""
        return self.label.categories

    @property
    def basis(self) -> Floats:
        """The cosines. Shapes: (dimension, pixels), orthonormal rows."""
        return make_cosine_basis(self.image, dimension=self.dimension)[0]

    @property
    def pairs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Which coordinates are multiplied: each pair of the first `squared`, and each with itself."""
        first, second = np.triu_indices(self.squared)
        return first, second

    @property
    def scale(self) -> float:
        """What coordinates are multiplied by."""
        return 10.0 / math.sqrt(self.pixels)

    @property
    def point_spans(self) -> tuple[Span, ...]:
        """The spans of rows as points: numbers, then the label, one-hot."""
        numbers = tuple(
            Span(column=f"c{i}", role="number", head="linear", start=i, width=1, source=i, categories=0)
            for i in range(self.features)
        )
        start, classes = self.features, self.classes
        label = Span(
            column="label", role="category", head="softmax", start=start, width=classes, source=0, categories=classes
        )
        return (*numbers, label)

    def to_points(self, encoded: EncodedTable) -> EncodedTable:
        """Gives every row's point and label. What it gives is not released."""
        points = allocate_beside(encoded.numbers, (encoded.records, self.features), np.float32)
        basis, sources = self.basis.T * self.scale, list(self.sources)
        for first in range(0, encoded.records, _CHUNK):
            rows = slice(first, first + _CHUNK)
            projected = encoded.numbers[rows][:, sources].astype(np.float64) @ basis
            products = projected[:, self.pairs[0]] * projected[:, self.pairs[1]]
            points[rows] = np.concatenate([projected, products], axis=1)
            let_go(encoded.numbers, points)
        codes = np.ascontiguousarray(encoded.codes[:, [self.label.source]])
        return EncodedTable(codes=codes, numbers=points, spans=self.point_spans)

    def to_rows(self, pixels: npt.NDArray[np.floating[Any]], labels: npt.NDArray[np.integer[Any]]) -> EncodedTable:
        """Gives the rows of images. Shapes: (b, pixels), cut to [0, 1] here, and (b,)."""
        numbers = np.empty(pixels.shape, np.float32)
        numbers[:, list(self.sources)] = np.clip(pixels, 0.0, 1.0)
        return EncodedTable(codes=labels[:, np.newaxis].astype(np.int32), numbers=numbers, spans=self.spans)
