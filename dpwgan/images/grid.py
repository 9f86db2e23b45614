"""Where the pixels and the label of an image lie in an encoded table. Public facts alone."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwgan.array_types import AnyFloats, AnyIntegers
from dpwgan.errors import UsageError, show_name
from dpwgan.gaussians.class_moments import MOST_CLASSES
from dpwgan.table.encoded import EncodedTable, Span, TableShape

LEAST_SIDE = 8
"""The least height and width: two halvings then leave a network two pixels."""


@dataclass(frozen=True, kw_only=True)
class ImageGrid:
    """A table of images: `EncodedTable.numbers` are the pixels, one column of codes the label.

    Shapes: `shape` is (height, width, channels); `sources` gives the column of `numbers` for each entry of such an
      array, in its order.
    Units: `levels` is the number of whole levels of a pixel above black.
    """

    shape: tuple[int, int, int]
    sources: tuple[int, ...]
    label: Span
    spans: tuple[Span, ...]
    levels: int

    @property
    def pixels(self) -> int:
        """Number of pixels, channels counted."""
        return len(self.sources)

    @property
    def classes(self) -> int:
        """Number of cells that the label may hold."""
        return self.label.categories

    def to_rows(self, pixels: AnyFloats, labels: AnyIntegers) -> EncodedTable:
        """The rows of images. Shapes: (b, pixels) in [0, 1], in the order of `sources`, and (b,)."""
        numbers = np.empty(pixels.shape, np.float32)
        numbers[:, list(self.sources)] = pixels
        return EncodedTable(codes=labels[:, np.newaxis].astype(np.int32), numbers=numbers, spans=self.spans)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "ImageGrid":
        """Takes the grid out of JSON, where `dataclasses.asdict` put it. Raises: as a damaged document does."""
        height, width, channels = document["shape"]
        return cls(
            shape=(height, width, channels),
            sources=tuple(document["sources"]),
            label=Span(**document["label"]),
            spans=tuple(Span(**span) for span in document["spans"]),
            levels=int(document["levels"]),
        )


def find_images(shape: TableShape, *, most_classes: float = MOST_CLASSES) -> ImageGrid | None:
    """Finds the pixels and the label of a table of images; None for any other table.

    That is one with other columns besides, pixels that are no numbers, or a label of too many classes.
    Privacy: sees the public shape only.
    """
    layout = shape.image
    if layout is None or len(shape.spans) != len(layout.pixels) + 1:
        return None
    by_column = {span.column: span for span in shape.spans}
    label, pixels = by_column.get(layout.label), [by_column.get(name) for name in layout.pixels]
    if label is None or label.head == "linear" or label.role == "available" or label.categories > most_classes:
        return None
    sources = tuple(span.source for span in pixels if span is not None and span.role == "number")
    if len(sources) != len(pixels):
        return None
    levels = layout.maximum - layout.minimum
    return ImageGrid(shape=layout.shape, sources=sources, label=label, spans=shape.spans, levels=levels)


def find_image_grid(shape: TableShape, *, method: str) -> ImageGrid | None:
    """Finds the grid of a table of images; None for any other table.

    Privacy: sees the public shape only.
    Raises: UsageError, in the name of `method`, for images that are too small, have columns beside label and pixels, or
      a label that is no column of categories.
    """
    layout = shape.image
    if layout is None:
        return None
    if min(layout.shape[:2]) < LEAST_SIDE:
        raise UsageError(
            f"{method} has convolutions for images of at least {LEAST_SIDE} x {LEAST_SIDE}; the layout of the specs "
            f"says {layout.shape[0]} x {layout.shape[1]}"
        )
    pixels = set(layout.pixels)
    for span in shape.spans:
        if span.column not in pixels and span.column != layout.label:
            raise UsageError(
                f"{method} takes images with one label; the column {show_name(span.column)} is neither pixel nor label"
            )
    grid = find_images(shape, most_classes=math.inf)
    if grid is None:
        raise UsageError(f"{method} needs the label {show_name(layout.label)} to be a column of categories")
    return grid
