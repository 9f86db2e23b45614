"""The idx files of the MNIST data: arrays of bytes behind a header that says their shape.

Source: LeCun, Cortes, Burges, The MNIST database of handwritten digits, "File formats": two zero bytes, the type (8 is
  unsigned bytes), the number of dimensions, each length as a big-endian 32-bit number, and the data row by row.
"""

import gzip
import math
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpwgan.errors import DataError, TransferError
from dpwgan.table.files.stream import ByteStream

_BYTES = 8


def read_idx(path: str | Path) -> npt.NDArray[np.uint8]:
    """Reads an idx file of bytes, gzipped or not.

    Raises: InputError if it is missing or cannot be opened; DataError if it is no such file; TransferError if it is
      damaged, or shorter or longer than its header says, or reading breaks off.
    """
    stream = ByteStream(path)
    name, data = stream.name, b"".join(stream.pieces())
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != _BYTES or not data[3]:
        raise DataError(f"{name} is not an idx file of unsigned bytes.")
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise TransferError(f"{name} is an idx file that ends inside its header.")
    shape = struct.unpack(f">{data[3]}I", data[4:start])
    if len(data) - start != math.prod(shape):
        raise TransferError(
            f"{name} is an idx file of {len(data) - start} bytes of data, where its header says {math.prod(shape)}."
        )
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)


def write_idx(array: npt.NDArray[np.uint8], *, packed: bool = False) -> bytes:
    """Writes an array of bytes as an idx file, gzipped without a name or time if `packed`."""
    data = struct.pack(f">HBB{array.ndim}I", 0, _BYTES, array.ndim, *array.shape) + array.tobytes()
    return gzip.compress(data, mtime=0) if packed else data
