"""PNG files: read back by a decoder that shares nothing with the writer."""

import struct
import zlib

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dpwgan.app.images.png import write_png

SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 6), st.sampled_from([1, 3]))


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
