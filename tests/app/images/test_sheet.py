"""Contact sheets: every image is on them once, whole, on a line of its class; and as a PNG file, read back by a decoder
that shares nothing with the writer.
"""

import struct
import zlib

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dpwgan.app.images.cli import GAP, lay_out_sheet, stretch, write_png

HEIGHT, WIDTH, SCALE = 2, 3, 2
SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 6), st.sampled_from([1, 3]))


def draw(rows: int, *, channels: int = 1) -> np.ndarray:
    """Gives images that tell their own row: pixel value row + 1 everywhere."""
    return np.broadcast_to(
        np.arange(1, rows + 1, dtype=np.uint8)[:, None, None, None], (rows, HEIGHT, WIDTH, channels)
    ).copy()


@given(st.lists(st.sampled_from("abc?"), min_size=1, max_size=60))
def test_every_image_stands_once_on_a_line_of_its_class_when_laid_out(labels):
    sheet, classes = lay_out_sheet(draw(len(labels)), labels, order="cba", scale=SCALE)
    high, wide = HEIGHT * SCALE + GAP, WIDTH * SCALE + GAP
    found = []
    for label, first, last in classes:
        rows = []
        for line in range(first, last + 1):
            for place in range((sheet.shape[1] - GAP) // wide):
                top, left = GAP + (line - 1) * high, GAP + place * wide
                tile = sheet[top : top + HEIGHT * SCALE, left : left + WIDTH * SCALE, 0]
                assert (tile == tile[0, 0]).all()
                if tile[0, 0] != 128:
                    rows.append(int(tile[0, 0]) - 1)
        assert rows == [row for row, own in enumerate(labels) if own == label]
        found.append(label)
    assert found == [label for label in "cba?" if label in labels]
    assert classes[-1][2] * high + GAP == sheet.shape[0]


@pytest.mark.parametrize(("value", "shown"), [(0, 0), (8, 128), (16, 255), (17, 255)])
def test_pixels_fill_the_range_when_stretched(value, shown):
    assert stretch(np.array([value], dtype=np.uint8), minimum=0, maximum=16).tolist() == [shown]


def test_pixels_stay_as_they_are_when_their_range_is_a_byte():
    pixels = np.arange(256, dtype=np.uint8)
    assert (stretch(pixels, minimum=0, maximum=255) == pixels).all()


def read_png(data: bytes) -> npt.NDArray[np.uint8]:
    """Decodes a PNG of eight-bit gray or RGB, with every check that the format allows."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = [], 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack_from(">I", data, at + 8 + length)
        assert checksum == zlib.crc32(body, zlib.crc32(kind))
        chunks.append((kind, body))
        at += length + 12
    assert at == len(data)
    assert [chunks[0][0], chunks[-1]] == [b"IHDR", (b"IEND", b"")]
    width, height, depth, colour, *rest = struct.unpack(">IIBBBBB", chunks[0][1])
    assert (depth, rest) == (8, [0, 0, 0])
    channels = {0: 1, 2: 3}[colour]
    raw = zlib.decompress(b"".join(body for kind, body in chunks if kind == b"IDAT"))
    assert len(raw) == height * (1 + width * channels)
    lines = []
    for top in range(0, len(raw), 1 + width * channels):
        assert raw[top] == 0
        lines.append(list(raw[top + 1 : top + 1 + width * channels]))
    return np.array(lines, dtype=np.uint8).reshape(height, width, channels)


@given(SHAPES.flatmap(lambda shape: arrays.arrays(np.uint8, shape)))
def test_png_decodes_to_its_pixels_when_gray_or_coloured(pixels):
    again = read_png(write_png(pixels))
    assert again.shape == pixels.shape
    assert (again == pixels).all()
