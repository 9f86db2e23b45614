"""Images in few coordinates: the low frequencies of their pixels, which are public and the same for all tables."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpwgan.encoded import EncodedTable, Span, TableShape
from dpwgan.errors import UsageError

Floats = npt.NDArray[np.float64]

_CHUNK = 1 << 12


@dataclass(frozen=True, kw_only=True, eq=False)
class CosineSpace:
    """Where the pixels and the label of an image table stand, and the basis that its pixels are looked at in.

    A point is the p coordinates of an image, times a public number a coordinate. Coordinates are the smoothest of the
    orthonormal cosines over height and width, the same ones for each channel.
    Privacy: made of the public layout alone. A row's point is a linear function of that row alone.
    Shapes: `basis` (pixels, p), orthonormal columns; `pixel_sources` (pixels,) places in `EncodedTable.numbers`;
      `frequencies` (p,), 0 for a channel's mean. `label` is None where the table has no label.
    Source: Ahmed, Natarajan, Rao 1974 (discrete cosine transform). The paper's projection is a random one.
    """

    spans: tuple[Span, ...]
    label: Span | None
    basis: Floats
    frequencies: Floats
    pixel_sources: tuple[int, ...]

    @property
    def dimension(self) -> int:
        """Number of coordinates p."""
        return int(self.basis.shape[1])

    @property
    def scale(self) -> float:
        """What coordinates are multiplied by: a full picture is 2 away from a black one."""
        return 2.0 / math.sqrt(self.basis.shape[0])

    @property
    def classes(self) -> int:
        """Number of classes; 1 where there is no label."""
        return 1 if self.label is None else self.label.categories

    @property
    def point_spans(self) -> tuple[Span, ...]:
        """The spans of rows as points: p numbers, then the label, one-hot."""
        numbers = tuple(
            Span(column=f"c{i}", role="number", head="linear", start=i, width=1, source=i, categories=0)
            for i in range(self.dimension)
        )
        if self.label is None:
            return numbers
        start, classes = self.dimension, self.classes
        label = Span(
            column="label", role="category", head="softmax", start=start, width=classes, source=0, categories=classes
        )
        return (*numbers, label)

    def to_points(self, encoded: EncodedTable) -> EncodedTable:
        """Gives every row's point and label. What it gives is not released."""
        points = np.empty((encoded.records, self.dimension), np.float32)
        sources = list(self.pixel_sources)
        for first in range(0, encoded.records, _CHUNK):
            rows = slice(first, first + _CHUNK)
            points[rows] = encoded.numbers[rows][:, sources].astype(np.float64) @ self.basis * self.scale
        codes = np.zeros((encoded.records, 0), np.int32)
        if self.label is not None:
            codes = np.ascontiguousarray(encoded.codes[:, [self.label.source]])
        return EncodedTable(codes=codes, numbers=points, spans=self.point_spans)

    def to_rows(self, pixels: npt.NDArray[np.floating], labels: npt.NDArray[np.integer]) -> EncodedTable:
        """Gives the rows of images. Shapes: (b, pixels), cut to [0, 1] here, and (b,)."""
        numbers = np.empty(pixels.shape, np.float32)
        numbers[:, list(self.pixel_sources)] = np.clip(pixels, 0.0, 1.0)
        codes = np.zeros((len(pixels), 0 if self.label is None else 1), np.int32)
        if self.label is not None:
            codes[:, self.label.source] = labels
        return EncodedTable(codes=codes, numbers=numbers, spans=self.spans)


def make_cosine_space(shape: TableShape, *, most: int) -> CosineSpace:
    """Takes the smoothest cosines, at most `most` of them over all channels, and one a channel at least.

    Frequencies of one size are taken or left together. Privacy: of public facts only.
    Raises: UsageError if the table is no table of images, or has columns that are neither pixels nor the label.
    """
    layout = shape.image
    if layout is None:
        raise UsageError("the table is no table of images: its specs have no layout")
    by_column = {span.column: span for span in shape.spans}
    known = {*layout.pixels, layout.label}
    for span in shape.spans:
        if span.column not in known:
            raise UsageError(f"the column {span.column} is neither a pixel nor the label: leave it out of the specs")
    for name in layout.pixels:
        if name not in by_column or by_column[name].head != "linear":
            raise UsageError(f"the pixel column {name} must be a column of numbers without bins or missing values")
    label = by_column.get(layout.label)
    if label is not None and label.head == "linear":
        raise UsageError(f"the label {layout.label} must be a column of categories")
    height, width, channels = layout.shape
    basis, frequencies = make_cosines(height, width, most=max(1, most // channels))
    return CosineSpace(
        spans=shape.spans,
        label=label,
        basis=np.kron(basis, np.eye(channels)),
        frequencies=np.repeat(frequencies, channels),
        pixel_sources=tuple(by_column[name].source for name in layout.pixels),
    )


def make_cosines(height: int, width: int, *, most: int) -> tuple[Floats, Floats]:
    """Gives the smoothest orthonormal cosines of a picture as columns, and their frequencies in half waves.

    Shapes: (height * width, p) and (p,).
    """
    waves = sorted(
        (math.hypot(up / height, across / width), up, across)
        for up, across in itertools.product(range(height), range(width))
    )
    count = min(most, len(waves))
    # Waves of one length belong together: a picture and its mirror image have the same.
    while 1 < count < len(waves) and math.isclose(waves[count - 1][0], waves[count][0]):
        count -= 1
    columns = [
        np.outer(_cosine(height, up), _cosine(width, across)).ravel() for _, up, across in waves[:count]
    ]
    return np.stack(columns, axis=1), np.array([math.sqrt(height * width) * wave for wave, _, _ in waves[:count]])


def _cosine(size: int, wave: int) -> Floats:
    values = np.cos(np.pi * wave * (np.arange(size) + 0.5) / size)
    result: Floats = values / np.linalg.norm(values)
    return result
