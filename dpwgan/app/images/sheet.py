"""Contact sheets: the first images of a table side by side, those of one class together, as PNG files.

Source: W3C, Portable Network Graphics (PNG) Specification (Third Edition), sections 5 (chunks), 9 (filters) and 11
  (IHDR, IDAT, IEND).
"""

import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]

MOST_ACROSS = 20
GAP = 2
_GROUND = 128
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = {1: 0, 3: 2}


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
    """Stretches pixels of the public range to the full range of a PNG: `minimum` becomes black."""
    share = (images.astype(np.float64) - minimum) / (maximum - minimum)
    stretched: Pixels = np.rint(np.clip(share, 0.0, 1.0) * 255).astype(np.uint8)
    return stretched


def write_png(pixels: Pixels) -> bytes:
    """Writes pixels as a PNG file, eight bits a channel.

    Shapes: `pixels` is (height, width, channels), channels 1 (gray) or 3 (red, green, blue).
    """
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    # Each line starts with the number of its filter: 0, none.
    lines = np.concatenate([np.zeros((height, 1), dtype=np.uint8), pixels.reshape(height, -1)], axis=1)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    return _SIGNATURE + b"".join(_write_chunk(kind, data) for kind, data in chunks)


def _write_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
