"""Where the pixels and the label of an image lie in an encoded table. Public facts alone."""

from dataclasses import dataclass

from dpwgan.encoded import Span, TableShape
from dpwgan.errors import UsageError

LEAST_SIDE = 8
"""The least height and width: two halvings then leave a network two pixels."""


@dataclass(frozen=True, kw_only=True)
class ImageGrid:
    """A table of images as networks read it: `EncodedTable.numbers` are the pixels, one column of codes the label.

    Shapes: `shape` is (height, width, channels); `sources` gives the column of `numbers` for each entry of such an
      array, in its order.
    """

    shape: tuple[int, int, int]
    sources: tuple[int, ...]
    label: Span
    spans: tuple[Span, ...]

    @property
    def classes(self) -> int:
        """Number of cells that the label may hold."""
        return self.label.categories


def find_image_grid(shape: TableShape, *, method: str) -> ImageGrid | None:
    """Finds the grid of a table of images; None for any other table.

    Privacy: sees the public shape only.
    Raises: UsageError, in the name of `method`, for images that are too small or have columns beside label and pixels.
    """
    layout = shape.image
    if layout is None:
        return None
    if min(layout.shape[:2]) < LEAST_SIDE:
        raise UsageError(
            f"{method} has convolutions for images of at least {LEAST_SIDE} x {LEAST_SIDE}; the layout of the specs "
            f"says {layout.shape[0]} x {layout.shape[1]}"
        )
    by_name = {span.column: span for span in shape.spans}
    pixels = set(layout.pixels)
    for span in shape.spans:
        if span.column not in pixels and span.column != layout.label:
            raise UsageError(
                f"{method} takes images with one label; the column {span.column} is neither pixel nor label"
            )
    return ImageGrid(
        shape=layout.shape,
        sources=tuple(by_name[name].source for name in layout.pixels),
        label=by_name[layout.label],
        spans=shape.spans,
    )
