"""Large arrays of rows: in memory, or mapped from a file that has no name.

A file lies in the folder that TMPDIR names (else the system's own). It loses its name before the first byte is written,
and no other user can open it: however the process ends, the system frees its blocks.
"""

import mmap
import os
import tempfile
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dpwgan.array_types import AnyArray, Flags
from dpwgan.errors import TransferError

CHUNK_RECORDS = 1 << 16
"""Rows of a chunk, for loops over a whole table."""


def allocate(shape: tuple[int, int], dtype: npt.DTypeLike, *, on_disk: bool) -> AnyArray:
    """Makes an uninitialised array for rows.

    Raises: TransferError if the disk has no room for all of it.
    """
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if not on_disk or size == 0:
        return np.empty(shape, dtype)
    try:
        with tempfile.TemporaryFile() as file:
            # A page that cannot be written later on would end the process without a word.
            os.posix_fallocate(file.fileno(), 0, size)
            return np.memmap(file, dtype=dtype, mode="r+", shape=shape)
    except OSError as error:
        folder = tempfile.gettempdir()
        raise TransferError(
            f"the rows need {size / 2**30:.1f} GB on the disk of {folder!r} (TMPDIR): {error.strerror}"
        ) from None


def is_on_disk(array: AnyArray) -> bool:
    """Says whether an array is mapped from a file."""
    return _find_mapping(array) is not None


def allocate_beside(array: AnyArray, shape: tuple[int, int], dtype: npt.DTypeLike) -> AnyArray:
    """Makes an array in memory or on disk, as another one is. Raises: as `allocate`."""
    return allocate(shape, dtype, on_disk=is_on_disk(array))


def let_go(*arrays: AnyArray) -> None:
    """Drops the pages of mapped arrays from this process's memory; the file keeps them."""
    for array in arrays:
        mapping = _find_mapping(array)
        if mapping is not None:
            mapping.madvise(mmap.MADV_DONTNEED)


def move_up(array: AnyArray, kept: Flags) -> AnyArray:
    """Moves the rows that are kept to the front, in place. Shapes: (n, k), (n,) to the first (m, k)."""
    end = 0
    for rows in cut(len(array)):
        chosen = array[rows][kept[rows]]
        array[end : end + len(chosen)] = chosen
        end += len(chosen)
        let_go(array)
    return array[:end]


def cut(records: int, *, size: int = CHUNK_RECORDS) -> Iterator[slice]:
    """Cuts rows into chunks, in order."""
    for first in range(0, records, size):
        yield slice(first, min(first + size, records))


def cut_sizes(records: int, *, most: int) -> Iterator[int]:
    """The sizes of chunks that add up to a number of rows, none above `most`."""
    for part in cut(records, size=most):
        yield part.stop - part.start


def _find_mapping(array: AnyArray) -> mmap.mmap | None:
    mapping: mmap.mmap | None = getattr(array, "_mmap", None)
    return mapping
