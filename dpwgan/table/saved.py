"""What every saved generator is read under: whatever is wrong with its files is said in one sentence."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpwgan.errors import DpwganError, InputError

_DAMAGES = (
    DpwganError,
    OSError,
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    AttributeError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
)


@contextmanager
def reading_saved() -> Iterator[None]:
    """Reads files of a saved generator in the block. Raises: InputError if they are missing or damaged."""
    try:
        yield
    except InputError:
        raise
    except _DAMAGES as error:
        raise InputError(f"the saved generator is missing or damaged ({type(error).__name__})") from None


def read_weights(path: Path) -> tuple[npt.NDArray[np.float32], ...]:
    """Reads the arrays that `numpy.savez` was given without names, in their order. Raises: as a damaged file does."""
    with np.load(path, allow_pickle=False) as archive:
        count = sum(name.startswith("arr_") for name in archive.files)
        return tuple(archive[f"arr_{index}"].astype(np.float32) for index in range(count))
