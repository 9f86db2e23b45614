"""Images from Gaussians with released means and covariances in a public projection: numpy and scipy alone.

Pixels are not Gaussian: most of them are black, or white, in most pictures. So each pixel of a class is a Gaussian that
is clipped to [0, 1], whose location and spread are such that after clipping it has the mean and the variance that
were released; how pixels hang together before clipping is the released covariance. All of this is post-processing.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpwgan.errors import DpwganError
from dpwgan.gaussians.shares import are_shares, draw_labels
from dpwgan.images.clipped_gaussian import fit_clipped
from dpwgan.images.projection import project_on_semidefinite
from dpwgan.privacy.certificate import Certificate
from dpwgan.table.encoded import EncodedTable, Span
from dpwgan.table.pieces import cut
from dpwgan.table.saved import reading_saved

IMAGES_FILE = "image_gaussian.npz"
_COLUMNS_FILE = "image_gaussian.json"

Floats = npt.NDArray[np.float64]

_PIECE_BYTES = 32 * 2**20


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageMoments:
    """Released moments of each class in the coordinates of x - c, x a picture with pixels in [0, 1], c a centre.

    `shares`: of the classes. `covariances`: one a class, or a single one within classes, of all of them together;
    positive semidefinite. It holds no rows, and released numbers alone.
    Shapes: `centre` (pixels,); `basis` (p, pixels) orthonormal rows; `means` (classes, p);
      `covariances` (classes or 1, p, p); `shares` (classes,).
    """

    centre: Floats
    basis: Floats
    means: Floats
    covariances: Floats
    shares: Floats

    def __post_init__(self) -> None:
        classes, p = self.means.shape
        is_sound = (
            self.basis.shape == (p, len(self.centre))
            and self.covariances.shape[0] in (1, classes)
            and self.covariances.shape[1:] == (p, p)
            and self.shares.shape == (classes,)
            and all(np.all(np.isfinite(part)) for part in vars(self).values())
        )
        if not is_sound:
            raise DpwganError("Internal error: the moments of images do not fit together.")

    @property
    def pictures(self) -> Floats:
        """The mean picture of each class, in [0, 1]. Shapes: (classes, pixels)."""
        result: Floats = np.clip(self.centre + self.means @ self.basis, 0.0, 1.0)
        return result

    def draw_points(self, labels: npt.NDArray[np.int64], *, rng: np.random.Generator) -> Floats:
        """Draws a point a label from the Gaussian of its class. Shapes: (n,) to (n, p)."""
        points = rng.standard_normal((len(labels), self.means.shape[1]))
        factors = [project_on_semidefinite(covariance) for covariance in self.covariances]
        for index, mean in enumerate(self.means):
            rows = labels == index
            points[rows] = mean + points[rows] @ factors[index % len(factors)].T
        return points


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageSampler:
    """One clipped Gaussian a class. It holds no rows, and released numbers alone.

    `label`: the span of the classes, among `spans`. `sources`: where the pixels are among the numbers of a row;
    `levels`: whole levels of a pixel above black.
    Shapes: `shares` (classes,), `locations` and `spreads` (classes, pixels), `loadings` (classes or 1, p, pixels), of
      which each column has norm 1 or is 0, `sources` (pixels,).
    """

    spans: tuple[Span, ...]
    label: Span
    sources: npt.NDArray[np.int64]
    levels: int
    shares: Floats
    locations: Floats
    spreads: Floats
    loadings: Floats

    def __post_init__(self) -> None:
        classes, pixels = self.locations.shape
        arrays = (self.shares, self.locations, self.spreads, self.loadings)
        is_sound = (
            self.label in self.spans
            and classes == self.label.categories
            and are_shares(self.shares, classes=classes)
            and self.spreads.shape == self.locations.shape
            and self.loadings.ndim == 3
            and self.loadings.shape[0] in (1, classes)
            and self.loadings.shape[2] == pixels
            and len(self.spans) == pixels + 1
            and sorted(self.sources.tolist()) == list(range(pixels))
            and self.levels >= 1
            and all(np.all(np.isfinite(part)) for part in arrays)
        )
        if not is_sound:
            raise DpwganError("Internal error: the classes of images do not fit together.")

    @property
    def certificate(self) -> Certificate | None:
        """Nothing is certified about a Gaussian."""
        return None

    def sample(self, records: int, *, rng: np.random.Generator, chunk: int = 65_536) -> Iterator[EncodedTable]:
        """Draws rows in chunks: a class by its share, its pixels by its Gaussian, clipped and rounded to a level.

        Privacy: post-processing of releases; free, however often.
        """
        for size in cut(records, most=chunk):
            yield self._draw(size, rng=rng)

    def _draw(self, records: int, *, rng: np.random.Generator) -> EncodedTable:
        _, p, pixels = self.loadings.shape
        classes = draw_labels(self.shares, records, rng=rng)
        numbers = np.zeros((records, pixels), np.float32)
        size = max(1, _PIECE_BYTES // (8 * (pixels + p)))
        for index, (location, spread) in enumerate(zip(self.locations, self.spreads, strict=True)):
            loadings = self.loadings[index % len(self.loadings)]
            mine = np.flatnonzero(classes == index)
            for rows in (mine[first : first + size] for first in range(0, len(mine), size)):
                drawn = location + spread * (rng.standard_normal((len(rows), p)) @ loadings)
                whole = np.rint(np.clip(drawn, 0.0, 1.0) * self.levels) / self.levels
                numbers[rows[:, np.newaxis], self.sources] = whole
        return EncodedTable(codes=classes[:, np.newaxis].astype(np.int32), numbers=numbers, spans=self.spans)

    def save(self, directory: Path) -> None:
        """Writes the model into an existing folder."""
        np.savez(directory / IMAGES_FILE, sources=self.sources, **{name: getattr(self, name) for name in _ARRAYS})
        document = {
            "label": self.spans.index(self.label),
            "levels": self.levels,
            "spans": [asdict(span) for span in self.spans],
        }
        (directory / _COLUMNS_FILE).write_text(json.dumps(document))

    @classmethod
    def load(cls, directory: Path) -> "ImageSampler":
        """Reads a saved model. Raises: InputError if it is missing or damaged."""
        with reading_saved():
            document = json.loads((directory / _COLUMNS_FILE).read_text())
            spans = tuple(Span(**span) for span in document["spans"])
            with np.load(directory / IMAGES_FILE, allow_pickle=False) as archive:
                return cls(
                    spans=spans,
                    label=spans[document["label"]],
                    levels=int(document["levels"]),
                    sources=archive["sources"].astype(np.int64),
                    **{name: archive[name].astype(np.float64) for name in _ARRAYS},
                )


_ARRAYS = ("shares", "locations", "spreads", "loadings")


def fit_pixels(
    moments: ImageMoments, *, spans: tuple[Span, ...], label: Span, sources: npt.NDArray[np.int64], levels: int
) -> ImageSampler:
    """Makes the sampler of released moments. Privacy: post-processing.

    Where classes share a covariance, a pixel's variance is parted among them as the variances of coins with their
    means: what is nearly always black in a class hardly varies there. The mean over classes stays what was released.
    """
    pictures = moments.pictures
    coins = pictures * (1.0 - pictures)
    shared = len(moments.covariances) == 1
    mean_coin = np.maximum(moments.shares @ coins, 1e-9)
    loadings, variances = [], []
    for covariance in moments.covariances:
        loading = project_on_semidefinite(covariance).T @ moments.basis
        variance = np.square(loading).sum(axis=0)
        loadings.append(np.divide(loading, np.sqrt(variance), out=np.zeros_like(loading), where=variance > 1e-12))
        variances.append(variance)
    asked = np.stack(variances) * (coins / mean_coin) if shared else np.stack(variances)
    locations, spreads = fit_clipped(pictures, asked)
    return ImageSampler(
        spans=spans,
        label=label,
        sources=sources,
        levels=levels,
        shares=moments.shares,
        locations=locations,
        spreads=spreads,
        loadings=np.stack(loadings),
    )
