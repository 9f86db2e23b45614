"""Fitted models in files, and as arrays for a checkpoint; a damaged one is refused in one sentence."""

import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import Protocol, TypeVar

import numpy as np

from dpwgan.array_types import AnyArray, Arrays, Floats32
from dpwgan.errors import DpwganError, InputError

_MODELS = ("smooth", "projected", "image_gaussian", "convolutions", "labelled")

Model = TypeVar("Model")

MODEL_FILES = frozenset(
    {"weights.npz", "spans.json", "mixture.npz", "groups.json", "refined.npz"}
    | {f"{name}.{end}" for name in _MODELS for end in ("npz", "json")}
)
"""Every file that a model may consist of: what else an archive names is written nowhere."""

DAMAGES = (
    *(DpwganError, OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, EOFError),
    RuntimeError,  # an archive that is encrypted, or of a form that zipfile does not know; documents without an end
    *(SyntaxError, TokenError),  # numpy reads an array's header as Python
    *(zipfile.BadZipFile, zlib.error),
)
"""What reading a damaged document or archive raises: of their words none is shown, which may quote it."""


@contextmanager
def reading_saved() -> Iterator[None]:
    """Reads files of a saved generator in the block. Raises: InputError if they are missing or damaged."""
    try:
        yield
    except InputError:
        raise
    except DAMAGES as error:
        raise InputError(f"the saved generator is missing or damaged ({type(error).__name__})") from None


def read_weights(path: Path) -> tuple[Floats32, ...]:
    """Reads the arrays that `numpy.savez` was given without names, in their order. Raises: as a damaged file does."""
    with np.load(path, allow_pickle=False) as archive:
        count = sum(name.startswith("arr_") for name in archive.files)
        return tuple(archive[f"arr_{index}"].astype(np.float32) for index in range(count))


class Saved(Protocol):
    """A model that can be saved."""

    def save(self, directory: Path) -> None:
        """Writes the model into an existing folder."""


def pack_model(model: Saved) -> dict[str, AnyArray]:
    """A model's files as arrays of bytes. Privacy: post-processing, if the model is."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model.save(folder)
        _refuse_unknown(path.name for path in folder.iterdir())
        return {path.name: np.frombuffer(path.read_bytes(), np.uint8) for path in sorted(folder.iterdir())}


def unpack_model(arrays: Arrays, load: Callable[[Path], Model]) -> Model:
    """Gives back the model that `pack_model` was given, as `load` reads it from its folder.

    Raises: InputError if there is a file among them that no model has.
    """
    _refuse_unknown(arrays)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in arrays.items():
            (folder / file).write_bytes(content.tobytes())
        return load(folder)


def _refuse_unknown(files: Iterable[str]) -> None:
    if not MODEL_FILES.issuperset(files):
        raise InputError("the saved generator is damaged: it holds a file that no model has")
