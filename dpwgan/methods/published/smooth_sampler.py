"""Images from a trained generator in few coordinates: numpy alone, so that sampling needs no TensorFlow."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpwgan.critic.sampler import draw_categories
from dpwgan.errors import InputError
from dpwgan.images.cosine_space import CENTRE, CosineSpace
from dpwgan.images.image_grid import ImageGrid
from dpwgan.images.projected_images import ImageSampler
from dpwgan.privacy.certificate import Certificate
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.pieces import cut
from dpwgan.table.saved import read_weights, reading_saved

SMOOTH_FILE = "smooth.npz"
_SPACE_FILE = "smooth.json"

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothSampler:
    """A trained `SmoothGenerator` as plain arrays, with its prior if it has one. It holds no rows.

    Shapes: `weights` as the generator has them.
    """

    weights: tuple[Floats, ...]
    space: CosineSpace
    prior: ImageSampler | None = None

    @property
    def certificate(self) -> Certificate | None:
        """A discriminator's course certifies nothing."""
        return None

    def sample(self, records: int, *, rng: np.random.Generator, chunk: int = 4_096) -> Iterator[EncodedTable]:
        """Draws rows in chunks. Privacy: post-processing of what was fitted; free, however often."""
        basis = self.space.basis
        for size in cut(records, most=chunk):
            yield self._draw(size, basis=basis, rng=rng)

    def _draw(self, records: int, *, basis: npt.NDArray[np.float64], rng: np.random.Generator) -> EncodedTable:
        classes = self.space.grid.classes
        logits = np.repeat(self.weights[0][np.newaxis], records, axis=0)
        labels = draw_categories(logits, head="softmax", rng=rng)
        latents = rng.standard_normal((records, len(self.weights[1]) - classes), dtype=np.float32)
        activation = np.concatenate([latents, np.eye(classes, dtype=np.float32)[labels]], axis=1)
        for kernel, bias in zip(self.weights[1:-2:2], self.weights[2:-2:2], strict=True):
            activation = np.maximum(activation @ kernel + bias, 0.0)
        pixels = ((activation @ self.weights[-2] + self.weights[-1]) * self.space.amplitudes) @ basis
        if self.prior is None:
            pixels += CENTRE
        else:
            for label in range(classes):
                rows = np.flatnonzero(labels == label)
                loadings = self.prior.loadings[label % len(self.prior.loadings)]
                pixels[rows] += self.prior.locations[label] + self.prior.spreads[label] * (latents[rows] @ loadings)
        return self.space.grid.to_rows(np.clip(pixels, 0.0, 1.0), labels)

    def save(self, directory: Path) -> None:
        """Writes weights, space and prior into an existing folder."""
        np.savez(directory / SMOOTH_FILE, *self.weights)
        grid = asdict(self.space.grid)
        space = {"image": grid.pop("shape"), **grid, "most": self.space.most}
        document = {"space": space, "prior": self.prior is not None}
        (directory / _SPACE_FILE).write_text(json.dumps(document))
        if self.prior is not None:
            self.prior.save(directory)

    @classmethod
    def load(cls, directory: Path) -> "SmoothSampler":
        """Reads a saved generator. Raises: InputError if it is missing or damaged."""
        with reading_saved():
            weights = read_weights(directory / SMOOTH_FILE)
            document = json.loads((directory / _SPACE_FILE).read_text())
            found = document["space"]
            grid = ImageGrid.read({**found, "shape": found["image"]})
            space = CosineSpace(grid=grid, most=int(found["most"]))
            has_prior = bool(document["prior"])
        if len(weights) < 5 or weights[0].shape != (grid.classes,) or weights[-1].shape != (space.dimension,):
            raise InputError("the saved generator is damaged: its weights do not fit its images")
        prior = ImageSampler.load(directory) if has_prior else None
        return cls(weights=weights, space=space, prior=prior)
