"""A fitted model as arrays by name, for a checkpoint: the files that it would be saved in."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Model = TypeVar("Model")


class Saved(Protocol):
    """A model that can be saved."""

    def save(self, directory: Path) -> None:
        """Writes the model into an existing folder."""


def pack_model(model: Saved) -> dict[str, npt.NDArray[np.generic]]:
    """Gives a model's files as arrays of bytes. Privacy: post-processing, if the model is."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model.save(folder)
        return {path.name: np.frombuffer(path.read_bytes(), np.uint8) for path in sorted(folder.iterdir())}


def unpack_model(arrays: Mapping[str, npt.NDArray[np.generic]], load: Callable[[Path], Model]) -> Model:
    """Gives back the model that `pack_model` was given, as `load` reads it from its folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in arrays.items():
            (folder / file).write_bytes(content.tobytes())
        return load(folder)
