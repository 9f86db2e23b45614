"""Trained generators as plain arrays: numpy alone, so that sampling needs no TensorFlow."""

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from dpwgan.array_types import AnyFloats, AnyIntegers, Floats32, Integers32
from dpwgan.critic.sampler import apply_hidden, draw_categories
from dpwgan.errors import InputError
from dpwgan.gaussians.projected_gaussian import ClassSampler
from dpwgan.images.basis import CENTRE, CosineSpace, SmoothFrame
from dpwgan.images.sampler import ImageSampler
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.saved import read_weights, reading_saved
from dpwgan.table.storage import cut_sizes

STRIDE = 2
GROUPS = 4
"""Groups of channels that are normalised together."""

NORM_FLOOR = 1e-5
"""Added to a variance before its root is taken."""


class _NetworkSampler(ImageSampler):
    """A network of latents and one-hot labels. `first`: which of its weights is the matrix that takes them."""

    first: ClassVar[int] = 0

    def draw_images(self, latents: Floats32, labels: Floats32) -> AnyFloats:
        """Draws the pictures of latents and labels.

        Shapes: (b, latent), one-hot (b, classes) to (b, pixels), in [0, 1].
        """
        raise NotImplementedError

    def _draw(self, labels: AnyIntegers, *, rng: np.random.Generator) -> AnyFloats:
        classes = self.grid.classes
        latents = rng.standard_normal((len(labels), len(self.weights[self.first]) - classes), dtype=np.float32)
        return self.draw_images(latents, np.eye(classes, dtype=np.float32)[labels])


@dataclass(frozen=True, kw_only=True, eq=False)
class ConvSampler(_NetworkSampler):
    """A trained `ConvGenerator`, and the shares by which labels are drawn. Shapes: `weights` as the generator's."""

    file = "convolutions"
    rows_at_once = 1_024

    def draw_images(self, latents: Floats32, labels: Floats32) -> AnyFloats:
        """Does what `ConvGenerator.generate` does."""
        dense, bias, *hidden, last_bias = self.weights
        sizes = halve_sides(self.grid.shape, times=len(hidden[::3]))
        activation = np.concatenate([latents, labels], axis=1) @ dense + bias
        activation = activation.reshape(len(latents), *sizes[0], len(hidden[0]))
        for size, scale, offset, kernel in zip(sizes[1:], hidden[::3], hidden[1::3], hidden[2::3], strict=True):
            activation = np.maximum(_normalise(activation) * scale + offset, 0.0)
            activation = _convolve_transposed(activation, kernel, size=size)
        pixels: AnyFloats = 0.5 + 0.5 * np.tanh(0.5 * (activation + last_bias))
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

    def draw_images(self, latents: Floats32, labels: Floats32) -> AnyFloats:
        """Draws the pictures that `LabelledImages` gives points of."""
        hidden = apply_hidden(self.weights, np.concatenate([latents, labels], axis=1))
        points = hidden @ self.weights[-2] + self.weights[-1]
        return np.clip(points @ (self.frame.basis.pictures / self.frame.scale), 0.0, 1.0)

    def _fits(self) -> bool:
        return len(self.weights) == 4 and self.weights[-1].shape == (self.dimension,)


@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothSampler(_NetworkSampler):
    """A trained `SmoothGenerator`, with its prior if it has one. Shapes: `weights` as the generator has them."""

    file = "smooth"
    first = 1

    @functools.cached_property
    def space(self) -> CosineSpace:
        """The pictures that its own are sums of."""
        return CosineSpace(grid=self.grid, most=self.dimension)

    def draw_images(self, latents: Floats32, labels: Floats32) -> AnyFloats:
        """Draws the pictures that `SmoothGenerator` gives points of."""
        space, activation = self.space, apply_hidden(self.weights[1:], np.concatenate([latents, labels], axis=1))
        pixels = ((activation @ self.weights[-2] + self.weights[-1]) * space.amplitudes) @ space.basis.pictures
        if self.prior is None:
            pixels += CENTRE
        else:
            for label in range(self.grid.classes):
                rows = np.flatnonzero(labels[:, label])
                pixels[rows] += self.prior.place(label, latents[rows])
        return np.clip(pixels, 0.0, 1.0)

    def _draw_labels(self, records: int, *, rng: np.random.Generator) -> AnyIntegers:
        return draw_categories(np.repeat(self.weights[0][np.newaxis], records, axis=0), head="softmax", rng=rng)

    def _fits(self) -> bool:
        return (
            len(self.weights) >= 5
            and self.weights[0].shape == (self.grid.classes,)
            and self.weights[-1].shape == (self.space.dimension,)
        )


def halve_sides(image: tuple[int, int, int], *, times: int) -> list[tuple[int, int]]:
    """An image's sides at each scale: halved, rounded up, from the coarsest to the full sides."""
    sizes = [image[:2]]
    for _ in range(times):
        sizes.insert(0, (-(-sizes[0][0] // STRIDE), -(-sizes[0][1] // STRIDE)))
    return sizes


def _normalise(activation: AnyFloats) -> AnyFloats:
    batch, height, width, channels = activation.shape
    grouped = activation.reshape(batch, height * width, GROUPS, channels // GROUPS)
    mean = grouped.mean(axis=(1, 3), keepdims=True)
    variance = np.square(grouped - mean).mean(axis=(1, 3), keepdims=True)
    normed: AnyFloats = ((grouped - mean) / np.sqrt(variance + np.float32(NORM_FLOOR))).reshape(activation.shape)
    return normed


def _convolve_transposed(activation: AnyFloats, kernel: AnyFloats, *, size: tuple[int, int]) -> AnyFloats:
    """Spreads each place over a square of the result, then cuts that to size, evenly on both sides.

    Shapes: (b, h, w, inputs) and (k, k, outputs, inputs) to (b, *size, outputs).
    """
    batch, height, width, _ = activation.shape
    side, _, outputs, _ = kernel.shape
    rows, columns = (height - 1) * STRIDE + side, (width - 1) * STRIDE + side
    whole = np.zeros((batch, rows, columns, outputs), np.float32)
    for down in range(side):
        for right in range(side):
            whole[
                :,
                down : down + STRIDE * (height - 1) + 1 : STRIDE,
                right : right + STRIDE * (width - 1) + 1 : STRIDE,
            ] += activation @ kernel[down, right].T
    top, left = (rows - size[0]) // 2, (columns - size[1]) // 2
    return whole[:, top : top + size[0], left : left + size[1]]


REFINED_FILE = "refined.npz"

KEPT = 2.0
"""Logit that the prior's own group has over the others of its column before the perceptron says anything."""

# Rows are drawn in chunks of so many.
_CHUNK = 16_384


@dataclass(frozen=True, kw_only=True, eq=False)
class RefinedTable:
    """A prior without classes, and a perceptron from one-hot groups to what is added to their logits. It holds no rows.

    Shapes: `weights` alternates (inputs, outputs) matrices and (outputs,) biases.
    """

    certificate: ClassVar[None] = None
    """A discriminator's course certifies nothing."""

    prior: ClassSampler
    weights: tuple[Floats32, ...]

    def sample(self, records: int, *, rng: np.random.Generator) -> Iterator[EncodedTable]:
        """Draws rows in chunks. Privacy: post-processing of what was released; free, however often."""
        model = self.prior.models[0]
        for size in cut_sizes(records, most=_CHUNK):
            groups = self.refine(draw_groups(self.prior, size, rng=rng))
            yield model.coarsening.to_encoded(groups, rng=rng)

    def refine(self, groups: AnyIntegers) -> Integers32:
        """The groups of the largest logits. Shapes: (n, columns) to the same."""
        ends = np.cumsum([0, *self.prior.models[0].coarsening.sizes])
        one_hot = np.zeros((len(groups), ends[-1]), np.float32)
        np.put_along_axis(one_hot, groups.astype(np.int64) + ends[:-1], np.float32(1.0), axis=1)
        logits = KEPT * one_hot + apply_hidden(self.weights, one_hot) @ self.weights[-2] + self.weights[-1]
        pieces = [np.argmax(logits[:, first:last], axis=1) for first, last in itertools.pairwise(ends)]
        refined: Integers32 = np.stack(pieces, axis=1).astype(np.int32)
        return refined

    def save(self, directory: Path) -> None:
        """Writes prior and weights into an existing folder."""
        self.prior.save(directory)
        np.savez(directory / REFINED_FILE, *self.weights)

    @classmethod
    def load(cls, directory: Path) -> "RefinedTable":
        """Reads a saved model. Raises: InputError if it is missing or damaged."""
        prior = ClassSampler.load(directory)
        with reading_saved():
            weights = read_weights(directory / REFINED_FILE)
        model = cls(prior=prior, weights=weights)
        if len(weights) < 4 or len(weights) % 2 or weights[-1].shape != (prior.models[0].coarsening.width,):
            raise InputError("the saved generator is damaged: its weights do not fit its columns")
        return model


def draw_groups(prior: ClassSampler, records: int, *, rng: np.random.Generator) -> Integers32:
    """Draws rows of groups from a prior without classes. Shapes: (records, columns)."""
    model = prior.models[0]
    return model.to_groups(model.draw_points(records, rng=rng))
