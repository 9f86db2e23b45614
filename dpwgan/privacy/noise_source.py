"""The noise source: the one place that draws noise, from the event that was charged."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpwgan.array_types import AnyArray, Floats32, Integers
from dpwgan.errors import PrivacyError
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import (
    DiscreteGaussian,
    ExponentialSelection,
    Gaussian,
    Laplace,
    PoissonGaussian,
    StableSelection,
    Wishart,
)
from dpwgan.privacy.mechanisms.discovery import select_categories
from dpwgan.privacy.mechanisms.discrete_gaussian import add_discrete_gaussian_noise
from dpwgan.privacy.mechanisms.exponential import select_by_exponential_mechanism
from dpwgan.privacy.mechanisms.gaussian import add_gaussian_noise
from dpwgan.privacy.mechanisms.laplace import add_laplace_noise
from dpwgan.privacy.mechanisms.normal_numbers import StepNoise, Words, draw_normal_numbers, draw_words
from dpwgan.privacy.mechanisms.wishart import add_wishart_noise
from dpwgan.privacy.poisson import sample_poisson_rows
from dpwgan.privacy.release import Noisy, Release


class PlainStreams(NamedTuple):
    """A run's two secret streams as they are, for what is not protected."""

    noise: np.random.Generator
    batches: np.random.Generator


class NoiseSource:
    """Noise, selections and batches of a run, drawn from its own two streams.

    Privacy: the size of noise is taken from the release, which the ledger has charged; whoever sees what is released
      must not know either stream. An audit gives the ledger another source: one that repeats an earlier run's releases,
      or one that is broken on purpose.
    """

    def __init__(self, *, noise: np.random.Generator, batches: np.random.Generator) -> None:
        self._noise, self._batches = noise, batches

    def add_noise(self, release: Release, exact: AnyArray) -> Noisy:
        """Adds noise of the release's event to each exact value. Shapes: the values keep theirs.

        Raises: PrivacyError if the event is one of another kind, or the values are not what its mechanism takes.
        """
        event, rng = release.event, self._noise
        if isinstance(event, Gaussian):
            values = add_gaussian_noise(exact, event, sensitivity=release.sensitivity, rng=rng)
            return Noisy(values=values, stddev=release.stddev)
        if isinstance(event, DiscreteGaussian):
            counts = np.rint(exact).astype(np.int64)
            if not np.array_equal(counts, exact):
                raise PrivacyError(f"{release.label}: what was charged is noise on whole numbers.")
            whole = add_discrete_gaussian_noise(counts, event, rng=rng)
            return Noisy(values=whole.astype(np.float64), stddev=release.stddev)
        if isinstance(event, Laplace):
            whole = add_laplace_noise(exact, event, sensitivity=_to_whole(release), rng=rng)
            return Noisy(values=whole, stddev=release.stddev)
        if isinstance(event, Wishart):
            matrix, stddev = add_wishart_noise(exact, event, trace_bound=_to_whole(release), rng=rng)
            return Noisy(values=matrix, stddev=stddev)
        raise PrivacyError(f"{release.label}: no noise on numbers is known for what was charged.")

    def select(self, release: Release, scores: npt.ArrayLike) -> int:
        """Draws the index of a score by the exponential mechanism. Raises: PrivacyError as `add_noise`."""
        event = release.event
        if not isinstance(event, ExponentialSelection):
            raise PrivacyError(f"{release.label}: what was charged is no selection.")
        return select_by_exponential_mechanism(scores, event, sensitivity=release.sensitivity, rng=self._noise)

    def discover(
        self, release: Release, counts: Mapping[str, int], *, neighboring_relation: NeighboringRelation
    ) -> tuple[str, ...]:
        """Finds a column's frequent cells by stable selection. Raises: PrivacyError as `add_noise`."""
        event = release.event
        if not isinstance(event, StableSelection):
            raise PrivacyError(f"{release.label}: what was charged is no discovery of cells.")
        return select_categories(counts, event, rng=self._noise, neighboring_relation=neighboring_relation)

    # ------------------------------------------------------------------------------------------- steps on batches

    def get_stddev(self, release: Release) -> float:
        """The stddev of a step's noise. Units: those of the sums."""
        return release.stddev

    def draw_batch(self, release: Release, records: int) -> Integers:
        """Draws a step's Poisson batch from `records` rows. Shapes: ascending row numbers, (b,); b may be 0."""
        if not isinstance(release.event, PoissonGaussian):
            raise PrivacyError(f"{release.label}: what was charged has no batches.")
        return sample_poisson_rows(records, sampling_probability=release.event.sampling_probability, rng=self._batches)

    def draw_words(self, release: Release, pairs: int, *, steps: int) -> Words:
        """Draws the random words of the noise of some steps, as `draw_words`. Shapes: (steps, 2, pairs)."""
        return draw_words(pairs, rng=self._noise, sets=steps)

    def draw_normal_numbers(self, release: Release, size: int, *, step_noise: StepNoise) -> Floats32:
        """Draws the noise of one step. Shapes: (size,). Units: those of the sums."""
        return draw_normal_numbers(size, stddev=self.get_stddev(release), rng=self._noise, step_noise=step_noise)

    @property
    def secrets(self) -> np.random.Generator:
        """The secret noise stream, for other random parts of a step, such as a record's latents."""
        return self._noise

    @property
    def streams(self) -> PlainStreams:
        """Both streams, for acts that protect nothing: `Ledger.lend_streams` gives them to no others."""
        return PlainStreams(noise=self._noise, batches=self._batches)


def _to_whole(release: Release) -> int:
    if release.sensitivity != int(release.sensitivity):
        raise PrivacyError(f"{release.label}: the sensitivity of whole numbers is one as well.")
    return int(release.sensitivity)
