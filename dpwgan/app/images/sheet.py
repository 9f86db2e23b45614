"""Contact sheets: the first images of a table side by side, those of one class together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]

MOST_ACROSS = 20
GAP = 2
_GROUND = 128


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A contact sheet, and for each class in it the first and the last of its lines, counted from 1.

    Shapes: `pixels` is (height, width, channels).
    """

    pixels: Pixels
    classes: tuple[tuple[str, int, int], ...]


def lay_out_sheet(images: Pixels, labels: Sequence[str], *, order: Sequence[str], scale: int = 1) -> Sheet:
    """Puts images side by side, each class from the start of a line; within a class they keep their order.

    `order` is that of the classes; labels that are not in it follow, in the order of their names. Each pixel becomes a
    square of `scale` by `scale`.
    Privacy: what it is made from shows: a sheet of a released table is as free as the table, one of private rows is
      private.
    Shapes: `images` is (n, height, width, channels), n at least 1; `labels` has n.
    """
    known = {label: place for place, label in enumerate(order)}
    classes = sorted(set(labels), key=lambda label: (known.get(label, len(known)), label))
    members = {label: [row for row, own in enumerate(labels) if own == label] for label in classes}
    across = min(MOST_ACROSS, max(len(rows) for rows in members.values()))
    lines = [rows[first : first + across] for rows in members.values() for first in range(0, len(rows), across)]
    large = images.repeat(scale, axis=1).repeat(scale, axis=2)
    height, width, channels = large.shape[1:]
    sheet = np.full(
        (GAP + len(lines) * (height + GAP), GAP + across * (width + GAP), channels), _GROUND, dtype=np.uint8
    )
    for line, rows in enumerate(lines):
        top = GAP + line * (height + GAP)
        for place, row in enumerate(rows):
            left = GAP + place * (width + GAP)
            sheet[top : top + height, left : left + width] = large[row]
    found, first = [], 1
    for label, rows in members.items():
        last = first + math.ceil(len(rows) / across) - 1
        found.append((label, first, last))
        first = last + 1
    return Sheet(pixels=sheet, classes=tuple(found))


def stretch(images: Pixels, *, minimum: int, maximum: int) -> Pixels:
    """Gives pixels of the public range the full range of a PNG: `minimum` becomes black."""
    share = (images.astype(np.float64) - minimum) / (maximum - minimum)
    stretched: Pixels = np.rint(np.clip(share, 0.0, 1.0) * 255).astype(np.uint8)
    return stretched
