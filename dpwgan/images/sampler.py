"""Models of images that rows are drawn from: a label by its share, then a picture of it. Numpy and scipy alone.

`ImageSampler` is what all of them share. `GaussianImages` is the one of released means and covariances. Pixels are not
Gaussian: most of them are black, or white, in most pictures. So each pixel of a class is a Gaussian that is clipped to
[0, 1], whose location and spread are such that after clipping it has the mean and the variance that were released; how
pixels hang together before clipping is the released covariance. All of this is post-processing.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
from scipy.special import ndtr

from dpwgan.array_types import AnyFloats, AnyIntegers, Floats
from dpwgan.errors import DpwganError, InputError
from dpwgan.gaussians.projected_gaussian import are_shares, draw_labels, project_on_semidefinite
from dpwgan.images.grid import ImageGrid
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.saved import reading_saved
from dpwgan.table.storage import cut, cut_sizes

Sampler = TypeVar("Sampler", bound="ImageSampler")

_PIECE_BYTES = 32 * 2**20
_BISECTIONS = 24
_LEAST_SPREAD, _MOST_SPREAD = 1e-4, 50.0
# A clipped Gaussian of a mean has any variance below that of a coin with the same mean; at the coin it is degenerate.
_MOST_VARIANCE = 0.95
_LEAST_MEAN = 1e-4


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageSampler:
    """A fitted model of images as plain arrays. It holds no rows, and nothing made of them but by way of the ledger.

    `dimension`: how many cosines its pictures are made of, where it is a model of cosines. `prior`: a model whose
    pictures those of this one are added to, for the same latents.
    Shapes: `shares` of the classes (classes,); `weights` as each kind of model says.
    """

    file: ClassVar[str]
    """Its files are named so, and it is told by them."""
    rows_at_once: ClassVar[int] = 4_096
    certificate: ClassVar[None] = None
    """Nothing is certified about it."""

    grid: ImageGrid
    shares: Floats
    weights: tuple[AnyFloats, ...]
    dimension: int = 0
    prior: "GaussianImages | None" = None

    def __post_init__(self) -> None:
        grid = self.grid
        pixels = math.prod(grid.shape)
        is_sound = (
            are_shares(self.shares, classes=grid.classes)
            and grid.label in grid.spans
            and len(grid.spans) == pixels + 1
            and sorted(grid.sources) == list(range(pixels))
            and grid.levels >= 1
            and self._fits()
        )
        if not is_sound:
            raise DpwganError("Internal error: the arrays of a model of images do not fit together.")

    def sample(self, records: int, *, rng: np.random.Generator) -> Iterator[EncodedTable]:
        """Draws rows in chunks. Privacy: post-processing of what was fitted; free, however often."""
        for size in cut_sizes(records, most=self.rows_at_once):
            labels = self._draw_labels(size, rng=rng)
            yield self.grid.to_rows(self._draw(labels, rng=rng), labels)

    def save(self, directory: Path) -> None:
        """Writes the model into an existing folder."""
        np.savez(directory / f"{self.file}.npz", *self.weights, shares=self.shares)
        document = {"grid": asdict(self.grid), "dimension": self.dimension, "prior": self.prior is not None}
        (directory / f"{self.file}.json").write_text(json.dumps(document))
        if self.prior is not None:
            self.prior.save(directory)

    @classmethod
    def load(cls: type[Sampler], directory: Path) -> Sampler:
        """Reads a saved model. Raises: InputError if it is missing or damaged."""
        with reading_saved():
            document = json.loads((directory / f"{cls.file}.json").read_text())
            if document.keys() != {"grid", "dimension", "prior"}:
                raise InputError("the saved model of images was written by another version of the tool, or is damaged")
            with np.load(directory / f"{cls.file}.npz", allow_pickle=False) as archive:
                return cls(
                    grid=ImageGrid.read(document["grid"]),
                    shares=archive["shares"],
                    weights=tuple(archive[f"arr_{index}"] for index in range(len(archive.files) - 1)),
                    dimension=int(document["dimension"]),
                    prior=GaussianImages.load(directory) if document["prior"] else None,
                )

    def _draw_labels(self, records: int, *, rng: np.random.Generator) -> AnyIntegers:
        return draw_labels(self.shares, records, rng=rng)

    def _fits(self) -> bool:
        """Says whether the weights are those of such a model."""
        raise NotImplementedError

    def _draw(self, labels: AnyIntegers, *, rng: np.random.Generator) -> AnyFloats:
        """Draws a picture of each label. Shapes: (b,) to (b, pixels) in [0, 1]."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianImages(ImageSampler):
    """One clipped Gaussian a class.

    Shapes: `weights` are locations and spreads, (classes, pixels) each, and loadings, (classes or 1, p, pixels), of
      which each column has norm 1 or is 0.
    """

    file = "image_gaussian"
    rows_at_once = 65_536

    @property
    def latent(self) -> int:
        """How many standard normal numbers a picture is made of."""
        return int(self.weights[2].shape[1])

    def place(self, label: int, latents: AnyFloats) -> AnyFloats:
        """The pictures of one class before they are clipped. Shapes: (b, latent) to (b, pixels)."""
        locations, spreads, loadings = self.weights
        placed: AnyFloats = locations[label] + spreads[label] * (latents @ loadings[label % len(loadings)])
        return placed

    def _fits(self) -> bool:
        locations, spreads, loadings = self.weights
        form = self.grid.classes, math.prod(self.grid.shape)
        return (
            locations.shape == spreads.shape == form
            and loadings.ndim == 3
            and loadings.shape[0] in (1, form[0])
            and loadings.shape[2] == form[1]
            and all(bool(np.all(np.isfinite(part))) for part in self.weights)
        )

    def _draw(self, labels: AnyIntegers, *, rng: np.random.Generator) -> AnyFloats:
        p, pixels = self.weights[2].shape[1:]
        drawn = np.empty((len(labels), pixels), np.float32)
        size = max(1, _PIECE_BYTES // (8 * (pixels + p)))
        for label in range(self.grid.classes):
            mine = np.flatnonzero(labels == label)
            for rows in (mine[part] for part in cut(len(mine), size=size)):
                placed = self.place(label, rng.standard_normal((len(rows), p)))
                drawn[rows] = np.rint(np.clip(placed, 0.0, 1.0) * self.grid.levels) / self.grid.levels
        return drawn


def fit_pixels(
    grid: ImageGrid, *, pictures: Floats, basis: Floats, covariances: Floats, shares: Floats
) -> GaussianImages:
    """Makes the model of released moments. Privacy: post-processing.

    Where classes share a covariance, a pixel's variance is parted among them as the variances of coins with their
    means: what is nearly always black in a class hardly varies there. The mean over classes stays what was released.
    Shapes: `pictures`, the means of the classes, (classes, pixels) in [0, 1]; `basis` (p, pixels), orthonormal rows;
      `covariances` in that basis, positive semidefinite, (classes, p, p), or (1, p, p) of all of them; `shares`
      (classes,).
    """
    coins = pictures * (1.0 - pictures)
    mean_coin = np.maximum(shares @ coins, 1e-9)
    loadings, variances = [], []
    for covariance in covariances:
        loading = project_on_semidefinite(covariance).T @ basis
        variance = np.square(loading).sum(axis=0)
        loadings.append(np.divide(loading, np.sqrt(variance), out=np.zeros_like(loading), where=variance > 1e-12))
        variances.append(variance)
    asked = np.stack(variances) * (coins / mean_coin) if len(covariances) == 1 else np.stack(variances)
    locations, spreads = fit_clipped(pictures, asked)
    return GaussianImages(grid=grid, shares=shares, weights=(locations, spreads, np.stack(loadings)))


def fit_clipped(means: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Finds the location and the spread of Gaussians that have these means and variances after clipping to [0, 1].

    Variances too large for their mean are cut. With the mean held, a wider Gaussian has more variance after clipping,
    and with the spread held, one further up has a larger mean: two bisections, one within the other.
    Shapes: any, all the same.
    """
    means = np.clip(means, _LEAST_MEAN, 1.0 - _LEAST_MEAN)
    variances = np.clip(variances, 1e-8, _MOST_VARIANCE * means * (1.0 - means))
    lowest, highest = np.full_like(means, math.log(_LEAST_SPREAD)), np.full_like(means, math.log(_MOST_SPREAD))
    for _ in range(_BISECTIONS):
        middle = (lowest + highest) / 2
        spreads = np.exp(middle)
        locations = _locate(means, spreads)
        too_wide = clip_moments(locations, spreads)[1] > variances
        highest, lowest = np.where(too_wide, middle, highest), np.where(too_wide, lowest, middle)
    return locations, spreads


def _locate(means: Floats, spreads: Floats) -> Floats:
    """Finds where Gaussians of these spreads lie if they have these means after clipping."""
    # A clipped mean is within 1e-15 of 0 or 1 at eight spreads beyond.
    lowest, highest = -8.0 * spreads, 1.0 + 8.0 * spreads
    for _ in range(_BISECTIONS):
        middle = (lowest + highest) / 2
        too_high = clip_moments(middle, spreads)[0] > means
        highest, lowest = np.where(too_high, middle, highest), np.where(too_high, lowest, middle)
    return (lowest + highest) / 2


def clip_moments(locations: Floats, spreads: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of Gaussians that are clipped to [0, 1].

    Source: Tobin 1958 and Greene, Econometric Analysis, Theorem 19.3 (moments of the censored normal distribution).
    """
    low, high = -locations / spreads, (1.0 - locations) / spreads
    below, above = ndtr(low), ndtr(-high)
    at_low, at_high = np.exp(-0.5 * low**2) / np.sqrt(2 * np.pi), np.exp(-0.5 * high**2) / np.sqrt(2 * np.pi)
    inside = 1.0 - below - above
    mean = locations * inside + spreads * (at_low - at_high) + above
    square = (
        (locations**2 + spreads**2) * inside
        + 2 * locations * spreads * (at_low - at_high)
        + spreads**2 * (low * at_low - high * at_high)
        + above
    )
    return mean, np.maximum(square - mean**2, 0.0)
