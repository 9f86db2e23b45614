"""Images of a trained `LabelledImages`: numpy alone, so that sampling needs no TensorFlow."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpwgan.errors import InputError
from dpwgan.gaussians.shares import draw_labels
from dpwgan.images.image_grid import ImageGrid
from dpwgan.images.smooth_frame import SmoothFrame
from dpwgan.privacy.certificate import Certificate
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.pieces import cut
from dpwgan.table.saved import read_shares, read_weights, reading_saved

LABELLED_FILE = "labelled.npz"
_FRAME_FILE = "labelled.json"

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledSampler:
    """A trained generator as plain arrays, and the shares by which labels are drawn. It holds no rows.

    Shapes: `weights` as `LabelledImages` has them; `shares` (classes,).
    """

    weights: tuple[npt.NDArray[np.float32], ...]
    shares: Floats
    frame: SmoothFrame

    @property
    def certificate(self) -> Certificate | None:
        """A critic's course certifies nothing."""
        return None

    def sample(self, records: int, *, rng: np.random.Generator, chunk: int = 4_096) -> Iterator[EncodedTable]:
        """Draws rows in chunks: a label by the shares, then its image. Privacy: post-processing, free."""
        grid = self.frame.grid
        for size in cut(records, most=chunk):
            labels = draw_labels(self.shares, size, rng=rng)
            latents = rng.standard_normal((size, len(self.weights[0]) - grid.classes), dtype=np.float32)
            yield grid.to_rows(self.draw_images(latents, np.eye(grid.classes, dtype=np.float32)[labels]), labels)

    def draw_images(
        self, latents: npt.NDArray[np.float32], labels: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.floating[Any]]:
        """Draws the pictures that `LabelledImages` gives points of.

        Shapes: (b, latent), one-hot (b, classes) to (b, pixels), in [0, 1].
        """
        kernel, bias, last, offset = self.weights
        points = np.maximum(np.concatenate([latents, labels], axis=1) @ kernel + bias, 0.0) @ last + offset
        return np.clip(points @ (self.frame.basis[0] / self.frame.scale), 0.0, 1.0)

    def save(self, directory: Path) -> None:
        """Writes weights, shares and the frame into an existing folder."""
        np.savez(directory / LABELLED_FILE, *self.weights, shares=self.shares)
        (directory / _FRAME_FILE).write_text(json.dumps(asdict(self.frame)))

    @classmethod
    def load(cls, directory: Path) -> "LabelledSampler":
        """Reads a saved generator. Raises: InputError if it is missing or damaged."""
        with reading_saved():
            weights = read_weights(directory / LABELLED_FILE)
            document = json.loads((directory / _FRAME_FILE).read_text())
            frame = SmoothFrame(grid=ImageGrid.read(document["grid"]), dimension=int(document["dimension"]))
            shares = read_shares(directory / LABELLED_FILE, classes=frame.grid.classes)
        if len(weights) != 4 or weights[-1].shape != (frame.dimension,):
            raise InputError("the saved generator is damaged: its weights do not fit its images")
        return cls(weights=weights, shares=shares, frame=frame)
