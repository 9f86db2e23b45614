"""Images from a trained generator: numpy alone, so that sampling from a saved model needs no TensorFlow."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpwgan.errors import InputError
from dpwgan.gaussians.shares import draw_labels
from dpwgan.images.image_grid import ImageGrid
from dpwgan.privacy.certificate import Certificate
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.pieces import cut
from dpwgan.table.saved import read_shares, read_weights, reading_saved

CONV_FILE = "convolutions.npz"
_GRID_FILE = "convolutions.json"
# As in the generator, which this module must not import: TensorFlow would come with it. Tested to agree.
_STRIDE = 2
_GROUPS = 4
_NORM_FLOOR = 1e-5

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class ConvSampler:
    """A trained `ConvGenerator` as plain arrays, and the shares by which labels are drawn.

    It holds no rows and nothing computed from them but through the ledger.
    Shapes: `weights` as the generator has them; `shares` (classes,).
    """

    weights: tuple[Floats, ...]
    shares: npt.NDArray[np.float64]
    grid: ImageGrid

    @property
    def certificate(self) -> Certificate | None:
        """A critic's course certifies nothing about marginals."""
        return None

    def sample(self, records: int, *, rng: np.random.Generator, chunk: int = 1_024) -> Iterator[EncodedTable]:
        """Draws rows in chunks: a label by the shares, then its image.

        Privacy: post-processing of what was fitted; free, however often.
        """
        for size in cut(records, most=chunk):
            labels = draw_labels(self.shares, size, rng=rng)
            latents = rng.standard_normal((size, len(self.weights[0]) - len(self.shares)), dtype=np.float32)
            images = self.draw_images(latents, np.eye(len(self.shares), dtype=np.float32)[labels])
            yield self.grid.to_rows(images.reshape(size, -1), labels)

    def draw_images(self, latents: Floats, labels: Floats) -> Floats:
        """Does what `ConvGenerator.images` does. Shapes: (b, latent), one-hot (b, classes) to (b, h, w, channels)."""
        dense, bias, *hidden, last_bias = self.weights
        height, width, _ = self.grid.shape
        sizes = [(height, width)]
        for _ in hidden[::3]:
            sizes.insert(0, (-(-sizes[0][0] // _STRIDE), -(-sizes[0][1] // _STRIDE)))
        activation = np.concatenate([latents, labels], axis=1) @ dense + bias
        activation = activation.reshape(len(latents), *sizes[0], len(hidden[0]))
        for size, scale, offset, kernel in zip(sizes[1:], hidden[::3], hidden[1::3], hidden[2::3], strict=True):
            activation = np.maximum(_normalise(activation) * scale + offset, 0.0)
            activation = _convolve_transposed(activation, kernel, size=size)
        pixels: Floats = 0.5 + 0.5 * np.tanh(0.5 * (activation + last_bias))
        return pixels

    def save(self, directory: Path) -> None:
        """Writes weights, shares and the grid into an existing folder."""
        np.savez(directory / CONV_FILE, *self.weights, shares=self.shares)
        (directory / _GRID_FILE).write_text(json.dumps(asdict(self.grid)))

    @classmethod
    def load(cls, directory: Path) -> "ConvSampler":
        """Reads a saved generator. Raises: InputError if it is missing or damaged."""
        with reading_saved():
            weights = read_weights(directory / CONV_FILE)
            grid = ImageGrid.read(json.loads((directory / _GRID_FILE).read_text()))
            shares = read_shares(directory / CONV_FILE, classes=grid.classes)
        if len(weights) < 6 or len(weights) % 3 or len(weights[-1]) != grid.shape[2]:
            raise InputError("the saved generator is damaged: its weights do not fit its images")
        return cls(weights=weights, shares=shares, grid=grid)


def _normalise(activation: Floats) -> Floats:
    batch, height, width, channels = activation.shape
    grouped = activation.reshape(batch, height * width, _GROUPS, channels // _GROUPS)
    mean = grouped.mean(axis=(1, 3), keepdims=True)
    variance = np.square(grouped - mean).mean(axis=(1, 3), keepdims=True)
    normed: Floats = ((grouped - mean) / np.sqrt(variance + np.float32(_NORM_FLOOR))).reshape(activation.shape)
    return normed


def _convolve_transposed(activation: Floats, kernel: Floats, *, size: tuple[int, int]) -> Floats:
    """Spreads each place over a square of the result, then cuts that to size, evenly on both sides.

    Shapes: (b, h, w, inputs) and (k, k, outputs, inputs) to (b, *size, outputs).
    """
    batch, height, width, _ = activation.shape
    side, _, outputs, _ = kernel.shape
    rows, columns = (height - 1) * _STRIDE + side, (width - 1) * _STRIDE + side
    whole = np.zeros((batch, rows, columns, outputs), np.float32)
    for down in range(side):
        for right in range(side):
            part = whole[
                :,
                down : down + _STRIDE * (height - 1) + 1 : _STRIDE,
                right : right + _STRIDE * (width - 1) + 1 : _STRIDE,
            ]
            part += activation @ kernel[down, right].T
    top, left = (rows - size[0]) // 2, (columns - size[1]) // 2
    return whole[:, top : top + size[0], left : left + size[1]]
