"""Rows of RON-Gauss, refined: a perceptron says which of a drawn row's cells to put others in place of. Numpy alone."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpwgan.errors import InputError
from dpwgan.gaussians.projected_gaussian import ClassSampler
from dpwgan.privacy.certificate import Certificate
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.saved import read_weights, reading_saved
from dpwgan.table.storage import cut_sizes

REFINED_FILE = "refined.npz"

KEPT = 2.0
"""Logit that the prior's own group has over the others of its column before the perceptron says anything."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class RefinedTable:
    """A prior without classes, and a perceptron from one-hot groups to what is added to their logits. It holds no rows.

    Shapes: `weights` alternates (inputs, outputs) matrices and (outputs,) biases.
    """

    prior: ClassSampler
    weights: tuple[Floats, ...]

    @property
    def certificate(self) -> Certificate | None:
        """A discriminator's course certifies nothing."""
        return None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of groups of each column."""
        return tuple(part.size for part in self.prior.models[0].coarsening.parts)

    def sample(self, records: int, *, rng: np.random.Generator, chunk: int = 16_384) -> Iterator[EncodedTable]:
        """Draws rows in chunks. Privacy: post-processing of what was released; free, however often."""
        model = self.prior.models[0]
        for size in cut_sizes(records, most=chunk):
            groups = self.refine(draw_groups(self.prior, size, rng=rng))
            yield model.coarsening.to_encoded(groups, rng=rng)

    def refine(self, groups: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int32]:
        """Gives the groups of the largest logits. Shapes: (n, columns) to the same."""
        one_hot = write_one_hot(groups, self.sizes)
        activation = one_hot
        for kernel, bias in zip(self.weights[:-2:2], self.weights[1:-2:2], strict=True):
            activation = np.maximum(activation @ kernel + bias, 0.0)
        logits = KEPT * one_hot + activation @ self.weights[-2] + self.weights[-1]
        ends = np.cumsum([0, *self.sizes])
        pieces = [np.argmax(logits[:, first:last], axis=1) for first, last in itertools.pairwise(ends)]
        refined: npt.NDArray[np.int32] = np.stack(pieces, axis=1).astype(np.int32)
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
        if len(weights) < 4 or len(weights) % 2 or weights[-1].shape != (sum(model.sizes),):
            raise InputError("the saved generator is damaged: its weights do not fit its columns")
        return model


def draw_groups(prior: ClassSampler, records: int, *, rng: np.random.Generator) -> npt.NDArray[np.int32]:
    """Draws rows of groups from a prior without classes. Shapes: (records, columns)."""
    model = prior.models[0]
    return model.to_groups(model.draw_points(records, rng=rng))


def write_one_hot(groups: npt.NDArray[np.integer[Any]], sizes: tuple[int, ...]) -> Floats:
    """Writes groups out. Shapes: (n, columns) to (n, groups of all columns)."""
    starts = np.cumsum([0, *sizes])[:-1]
    result = np.zeros((len(groups), sum(sizes)), np.float32)
    np.put_along_axis(result, groups.astype(np.int64) + starts, np.float32(1.0), axis=1)
    return result
