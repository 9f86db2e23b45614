"""The trained generators of images as plain arrays: numpy alone, so that sampling needs no TensorFlow."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpwgan.critic.sampler import draw_categories
from dpwgan.images.basis import CENTRE, CosineSpace, SmoothFrame
from dpwgan.images.sampler import ImageSampler, Labels, Pixels

Floats = npt.NDArray[np.float32]

# As in the generator, which this module must not import: TensorFlow would come with it. Tested to agree.
_STRIDE = 2
_GROUPS = 4
_NORM_FLOOR = 1e-5


class _NetworkSampler(ImageSampler):
    """A network of latents and one-hot labels."""

    def draw_images(self, latents: Floats, labels: Floats) -> Pixels:
        """Draws the pictures of latents and labels.

        Shapes: (b, latent), one-hot (b, classes) to (b, pixels), in [0, 1].
        """
        raise NotImplementedError

    def _draw(self, labels: Labels, *, rng: np.random.Generator) -> Pixels:
        classes = self.grid.classes
        latents = rng.standard_normal((len(labels), len(self._first_kernel) - classes), dtype=np.float32)
        return self.draw_images(latents, np.eye(classes, dtype=np.float32)[labels])

    @property
    def _first_kernel(self) -> npt.NDArray[Any]:
        return self.weights[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class ConvSampler(_NetworkSampler):
    """A trained `ConvGenerator`, and the shares by which labels are drawn. Shapes: `weights` as the generator's."""

    file = "convolutions"
    rows_at_once = 1_024

    def draw_images(self, latents: Floats, labels: Floats) -> Pixels:
        """Does what `ConvGenerator.images` does."""
        dense, bias, *hidden, last_bias = self.weights
        sizes = [self.grid.shape[:2]]
        for _ in hidden[::3]:
            sizes.insert(0, (-(-sizes[0][0] // _STRIDE), -(-sizes[0][1] // _STRIDE)))
        activation = np.concatenate([latents, labels], axis=1) @ dense + bias
        activation = activation.reshape(len(latents), *sizes[0], len(hidden[0]))
        for size, scale, offset, kernel in zip(sizes[1:], hidden[::3], hidden[1::3], hidden[2::3], strict=True):
            activation = np.maximum(_normalise(activation) * scale + offset, 0.0)
            activation = _convolve_transposed(activation, kernel, size=size)
        pixels: Pixels = 0.5 + 0.5 * np.tanh(0.5 * (activation + last_bias))
        return pixels.reshape(len(latents), -1)

    def _fits(self) -> bool:
        weights = self.weights
        return len(weights) >= 6 and len(weights) % 3 == 0 and len(weights[-1]) == self.grid.shape[2]


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledSampler(_NetworkSampler):
    """A trained `LabelledImages`, and the shares by which labels are drawn. Shapes: `weights` as the generator's."""

    file = "labelled"

    @functools.cached_property
    def frame(self) -> SmoothFrame:
        """The pictures that its own are sums of."""
        return SmoothFrame(grid=self.grid, dimension=self.dimension)

    def draw_images(self, latents: Floats, labels: Floats) -> Pixels:
        """Draws the pictures that `LabelledImages` gives points of."""
        kernel, bias, last, offset = self.weights
        points = np.maximum(np.concatenate([latents, labels], axis=1) @ kernel + bias, 0.0) @ last + offset
        pixels: Pixels = np.clip(points @ (self.frame.basis[0] / self.frame.scale), 0.0, 1.0)
        return pixels

    def _fits(self) -> bool:
        return len(self.weights) == 4 and self.weights[-1].shape == (self.dimension,)


@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothSampler(_NetworkSampler):
    """A trained `SmoothGenerator`, with its prior if it has one. Shapes: `weights` as the generator has them."""

    file = "smooth"

    @functools.cached_property
    def space(self) -> CosineSpace:
        """The pictures that its own are sums of."""
        return CosineSpace(grid=self.grid, most=self.dimension)

    @property
    def _first_kernel(self) -> npt.NDArray[Any]:
        return self.weights[1]

    def draw_images(self, latents: Floats, labels: Floats) -> Pixels:
        """Draws the pictures that `SmoothGenerator` gives points of."""
        space, activation = self.space, np.concatenate([latents, labels], axis=1)
        for kernel, bias in zip(self.weights[1:-2:2], self.weights[2:-2:2], strict=True):
            activation = np.maximum(activation @ kernel + bias, 0.0)
        pixels = ((activation @ self.weights[-2] + self.weights[-1]) * space.amplitudes) @ space.basis
        if self.prior is None:
            pixels += CENTRE
        else:
            for label in range(self.grid.classes):
                rows = np.flatnonzero(labels[:, label])
                pixels[rows] += self.prior.place(label, latents[rows])
        return np.clip(pixels, 0.0, 1.0)

    def _draw_labels(self, records: int, *, rng: np.random.Generator) -> Labels:
        return draw_categories(np.repeat(self.weights[0][np.newaxis], records, axis=0), head="softmax", rng=rng)

    def _fits(self) -> bool:
        return (
            len(self.weights) >= 5
            and self.weights[0].shape == (self.grid.classes,)
            and self.weights[-1].shape == (self.space.dimension,)
        )


def _normalise(activation: Pixels) -> Pixels:
    batch, height, width, channels = activation.shape
    grouped = activation.reshape(batch, height * width, _GROUPS, channels // _GROUPS)
    mean = grouped.mean(axis=(1, 3), keepdims=True)
    variance = np.square(grouped - mean).mean(axis=(1, 3), keepdims=True)
    normed: Pixels = ((grouped - mean) / np.sqrt(variance + np.float32(_NORM_FLOOR))).reshape(activation.shape)
    return normed


def _convolve_transposed(activation: Pixels, kernel: Pixels, *, size: tuple[int, int]) -> Pixels:
    """Spreads each place over a square of the result, then cuts that to size, evenly on both sides.

    Shapes: (b, h, w, inputs) and (k, k, outputs, inputs) to (b, *size, outputs).
    """
    batch, height, width, _ = activation.shape
    side, _, outputs, _ = kernel.shape
    rows, columns = (height - 1) * _STRIDE + side, (width - 1) * _STRIDE + side
    whole = np.zeros((batch, rows, columns, outputs), np.float32)
    for down in range(side):
        for right in range(side):
            whole[
                :,
                down : down + _STRIDE * (height - 1) + 1 : _STRIDE,
                right : right + _STRIDE * (width - 1) + 1 : _STRIDE,
            ] += activation @ kernel[down, right].T
    top, left = (rows - size[0]) // 2, (columns - size[1]) // 2
    return whole[:, top : top + size[0], left : left + size[1]]
