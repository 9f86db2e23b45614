"""PNG files of gray or coloured pixels, eight bits a channel.

Source: W3C, Portable Network Graphics (PNG) Specification (Third Edition), sections 5 (chunks), 9 (filters) and 11
  (IHDR, IDAT, IEND).
"""

import struct
import zlib

import numpy as np
import numpy.typing as npt

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = {1: 0, 3: 2}


def write_png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Writes pixels as a PNG file.

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
