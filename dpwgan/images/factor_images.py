"""Images from factors: a mean and a linear map of latents for each class, in cosine waves, cut to the range of pixels.

Sampling needs numpy alone.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpwgan.errors import DpwganError
from dpwgan.gaussians.shares import are_shares, draw_labels
from dpwgan.privacy.certificate import Certificate
from dpwgan.table.encoded import EncodedTable, Span
from dpwgan.table.pieces import cut
from dpwgan.table.saved import reading_saved

FACTORS_FILE = "image_factors.npz"
_COLUMNS_FILE = "image_factors.json"

Floats = npt.NDArray[np.float64]

_BLOCK = 1_024
_ARRAYS = ("shares", "centers", "factors", "waves")


@dataclass(frozen=True, kw_only=True, eq=False)
class FactorImages:
    """A class-conditional generator: pixels = cut(1/2 + (center_k + z factor_k) waves), z standard normal.

    It holds no rows. `pixels` are the places of the pixels among the numbers of a row, in the order of the layout.
    Shapes: `shares` (classes,), `centers` (classes, m), `factors` (classes, m, m), `waves` (m, pixels).
    """

    spans: tuple[Span, ...]
    label: Span
    pixels: npt.NDArray[np.int64]
    shares: Floats
    centers: Floats
    factors: Floats
    waves: Floats

    def __post_init__(self) -> None:
        classes, m = self.centers.shape
        numbers = sum(span.head == "linear" for span in self.spans)
        is_sound = (
            self.label in self.spans
            and classes == self.label.categories
            and are_shares(self.shares, classes=classes)
            and self.factors.shape == (classes, m, m)
            and self.waves.shape == (m, numbers)
            and np.array_equal(np.sort(self.pixels), np.arange(numbers))
            and len(self.spans) == numbers + 1
            and all(np.all(np.isfinite(getattr(self, name))) for name in _ARRAYS)
        )
        if not is_sound:
            raise DpwganError("Internal error: the arrays of a generator of images do not fit together.")

    @property
    def certificate(self) -> Certificate | None:
        """Nothing is certified about it."""
        return None

    def sample(self, records: int, *, rng: np.random.Generator, chunk: int = 65_536) -> Iterator[EncodedTable]:
        """Draws rows in chunks: a class by its share, and an image of that class.

        Privacy: post-processing of a release; free, however often.
        """
        for size in cut(records, most=chunk):
            yield self._draw(size, rng=rng)

    def _draw(self, records: int, *, rng: np.random.Generator) -> EncodedTable:
        classes = draw_labels(self.shares, records, rng=rng)
        numbers = np.empty((records, len(self.pixels)), np.float32)
        for first in range(0, records, _BLOCK):
            own = classes[first : first + _BLOCK]
            latents = rng.standard_normal((len(own), self.centers.shape[1]))
            points = self.centers[own]
            for label in np.unique(own):
                mine = own == label
                points[mine] += latents[mine] @ self.factors[label]
            numbers[first : first + len(own), self.pixels] = np.clip(0.5 + points @ self.waves, 0.0, 1.0)
        return EncodedTable(codes=classes.astype(np.int32)[:, np.newaxis], numbers=numbers, spans=self.spans)

    def save(self, directory: Path) -> None:
        """Writes the model into an existing folder."""
        np.savez(directory / FACTORS_FILE, pixels=self.pixels, **{name: getattr(self, name) for name in _ARRAYS})
        document = {"label": self.spans.index(self.label), "spans": [asdict(span) for span in self.spans]}
        (directory / _COLUMNS_FILE).write_text(json.dumps(document))

    @classmethod
    def load(cls, directory: Path) -> "FactorImages":
        """Reads a saved model. Raises: InputError if it is missing or damaged."""
        with reading_saved():
            document = json.loads((directory / _COLUMNS_FILE).read_text())
            spans = tuple(Span(**span) for span in document["spans"])
            with np.load(directory / FACTORS_FILE, allow_pickle=False) as archive:
                arrays = {name: archive[name].astype(np.float64) for name in _ARRAYS}
                pixels = archive["pixels"].astype(np.int64)
            return cls(spans=spans, label=spans[document["label"]], pixels=pixels, **arrays)
