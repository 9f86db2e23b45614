"""Mean embeddings of images. Harder, Adamczewski, Park 2021: DP-MERF: Differentially Private Mean Embeddings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwgan.critic.center_fit import fit_centers
from dpwgan.errors import UsageError
from dpwgan.images.factor_images import FactorImages
from dpwgan.images.image_grid import ImageGrid, locate_images
from dpwgan.methods.base import Progress
from dpwgan.methods.published.class_images import estimate_classes
from dpwgan.methods.published.embeddings import (
    REPLACE_ONE_FACTOR,
    ImageFeatures,
    choose_coefficients,
    measure_embedding,
)
from dpwgan.methods.settings import MeanEmbeddingSettings
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.choose import FamilyChoice, choose_accountant_for_family
from dpwgan.privacy.events import Charge, Event, Gaussian, gaussian
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.randomness import Streams
from dpwgan.table.encoded import EncodedTable, TableShape

EMBEDDING_LABEL = "mean embedding"

MOST_CLASSES = 128
"""A label of more classes would leave few records to each, and all the noise."""

MOST_COEFFICIENTS = 1_024
"""More than this would take half a million numbers a class."""

# Beyond this many, an image of 28 x 28 gains nothing.
_ENOUGH_COEFFICIENTS = 128
_LEAST_COEFFICIENTS = 6
# How many records' worth of signal an entry needs against the noise: see `choose_number`.
_MOST_NOISE = 4.0
_FIT_STEPS = 25


@dataclass(frozen=True, kw_only=True)
class MeanEmbeddingPlan:
    """The one release of a run and the features it is of, fixed before a row is read."""

    shape: TableShape
    settings: MeanEmbeddingSettings
    grid: ImageGrid
    features: ImageFeatures
    release: Gaussian
    choice: FamilyChoice

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.grid.label.categories

    @property
    def charges(self) -> list[tuple[str, Event, int, Mapping[str, Any]]]:
        """What to reserve in the ledger."""
        return [
            (
                EMBEDDING_LABEL,
                self.release,
                1,
                {
                    "mechanism": "Gaussian noise on the second moments of public features of the pixels, of every "
                    f"class of {self.grid.label.column} and of all records together",
                    "features": self.features.width,
                    "classes": self.classes,
                },
            )
        ]

    @property
    def memory_bytes(self) -> int:
        """Estimate of what the fit holds at its peak: a block of rows, waves, and matrices of all classes."""
        m, pixels = self.features.width, math.prod(self.features.shape)
        return int(
            128 * 2**20 + self.row_bytes + 8 * (12 * (self.classes + 1) * m**2 + 4 * m * pixels + 6_000 * (m + pixels))
        )

    @property
    def row_bytes(self) -> int:
        """The part of it that the rows take, which is on disk instead where they are."""
        return 4 * self.shape.records * (math.prod(self.features.shape) + 1)

    @property
    def seconds(self) -> float:
        """Estimate of the time that the fit takes on two cores: measured on MNIST."""
        m, pixels = self.features.width, math.prod(self.features.shape)
        step = self.classes * 128 * m * (m + 2 * pixels) * 1e-10
        return 1.0 + self.settings.fit_steps * step + self.shape.records * m * (pixels + m) * 1e-10

    def summary(self) -> dict[str, Any]:
        """Gives the settings, those asked for and those chosen, as JSON-able pairs."""
        return {"coefficients": len(self.features.coefficients), "fit_steps": self.settings.fit_steps}


class MeanEmbedding:
    """A generator of images for each class, fitted to one noisy release of the classes' mean embeddings.

    Privacy: one Gaussian release, charged before rows are read; `published.embeddings` has its sensitivity.
      All else is post-processing. See docs/mean-embedding.md, also for what the paper does otherwise.
    Source: Harder, Adamczewski, Park 2021, arXiv:2002.11603.
    """

    name = "mean-embedding"
    title = "Generator of images fitted to private mean embeddings"
    paper = (
        "F. Harder, K. Adamczewski, M. Park: DP-MERF: Differentially Private Mean Embeddings with Random Features for "
        "Practical Privacy-Preserving Data Generation, 2021"
    )

    def make_settings(self, **asked: Any) -> MeanEmbeddingSettings:
        """Checks settings by name. Raises: UsageError."""
        return MeanEmbeddingSettings.make(self.name, asked)

    def plan(
        self,
        shape: TableShape,
        budget: Budget,
        *,
        settings: MeanEmbeddingSettings,
        accountant_rule: str,
        neighboring_relation: NeighboringRelation,
        other_charges: Sequence[Charge] = (),
    ) -> MeanEmbeddingPlan:
        """Fixes the features and the noise. Privacy: sees the public shape only.

        Raises: UsageError if the table holds no images, or other columns beside them; PrivacyError if the budget cannot
          be met.
        """
        grid = find_grid(shape)
        choice = choose_accountant_for_family(
            accountant_rule,
            budget=budget,
            charges=lambda scale: [(gaussian(noise_multiplier=scale, replace_one_factor=REPLACE_ONE_FACTOR), 1)],
            neighboring_relation=neighboring_relation,
            other_charges=other_charges,
        )
        ((release, _),) = choice.chosen_charges
        if not isinstance(release, Gaussian) or shape.image is None:
            raise UsageError("mean-embedding has Gaussian noise, and images")
        most = settings.coefficients or choose_number(shape.records, noise_multiplier=release.noise_multiplier)
        coefficients = choose_coefficients(shape.image.shape, most=most)
        return MeanEmbeddingPlan(
            shape=shape,
            settings=settings,
            grid=grid,
            features=ImageFeatures(shape=shape.image.shape, coefficients=coefficients),
            release=release,
            choice=choice,
        )

    def fit(
        self,
        encoded: EncodedTable,
        plan: MeanEmbeddingPlan,
        *,
        streams: Streams,
        ledger: Ledger,
        progress: Progress,
        device: str = "auto",
        threads: int | None = None,
    ) -> FactorImages:
        """Measures the embedding and fits the generator. Privacy: the release is charged before it reads rows.

        `device` and `threads` have nothing to do here.
        Raises: PrivacyError from the ledger.
        """
        ledger.charge(EMBEDDING_LABEL)
        pixels = np.array(plan.grid.sources)
        embedding, _ = measure_embedding(
            plan.features,
            encoded.numbers,
            encoded.codes[:, plan.grid.label.source],
            classes=plan.classes,
            sources=pixels,
            noise_multiplier=plan.release.noise_multiplier,
            rng=streams.noise,
        )
        progress(1, 2, ledger.epsilon_spent())
        # From here on all is made of the release and of public randomness.
        found = estimate_classes(embedding, plan.features, records=plan.shape.records)
        weights = plan.features.weights
        means, factors = found.means / weights, found.factors / weights[:, np.newaxis]
        maps = factors.transpose(0, 2, 1)
        waves = plan.features.waves
        centers = fit_centers(means, maps, waves=waves, steps=plan.settings.fit_steps, rng=streams.model)
        progress(2, 2, ledger.epsilon_spent())
        return FactorImages(
            spans=encoded.spans,
            label=plan.grid.label,
            pixels=pixels,
            shares=found.shares,
            centers=centers,
            factors=maps,
            waves=waves,
        )


def choose_number(records: int, *, noise_multiplier: float) -> int:
    """Gives how many coefficients to embed: as many as the noise leaves to be seen.

    Noise of stddev s beside the diagonal of an m x m matrix pushes its eigenvalues by 2 s sqrt m (Wigner), and their
    mean is n/m for n unit vectors. The largest m at which the push is at most so many times the mean is taken.
    Privacy: of public numbers only.
    """
    number = (_MOST_NOISE * records / (math.sqrt(2.0) * noise_multiplier)) ** (2.0 / 3.0)
    return max(_LEAST_COEFFICIENTS, min(_ENOUGH_COEFFICIENTS, int(number)))


def find_grid(shape: TableShape) -> ImageGrid:
    """Finds pixels and label of a table of images. Raises: UsageError if it is none, or holds other columns besides."""
    if shape.image is None:
        raise UsageError(
            "mean-embedding makes images, and the specs have no 'layout' that says which columns are pixels"
        )
    known = {*shape.image.pixels, shape.image.label}
    others = sorted({span.column for span in shape.spans} - known)
    if others:
        raise UsageError(
            f"mean-embedding takes pixels and their label alone, and the specs have the column {others[0]} besides"
        )
    grid = locate_images(shape)
    if grid is None:
        raise UsageError(f"mean-embedding needs the label {shape.image.label} to be a column of categories")
    if grid.classes > MOST_CLASSES:
        raise UsageError(
            f"the label {grid.label.column} has {grid.classes} classes, and mean-embedding takes {MOST_CLASSES} at most"
        )
    return grid
