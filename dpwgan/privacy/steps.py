"""Charged training steps: the token that alone draws their batches and their noise."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from dpwgan.array_types import AnyFloats, Floats32, Integers
from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import check_whole
from dpwgan.privacy.mechanisms.normal_numbers import StepNoise, Words
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.privacy.release import Release


class StepsObserver(Protocol):
    """Observes steps before their noise is added, as an audit does. What it sees is private."""

    @property
    def watched_row(self) -> int | None:
        """The row whose influence on each step is observed; None to observe no step."""

    def on_step(
        self, release: Release, *, sizes: Sequence[int], noisy: AnyFloats, exact: AnyFloats, influence: AnyFloats
    ) -> None:
        """Sees a step: its sums with noise and without, and what the watched row adds to them if it is drawn.

        Shapes: all (number of weights,), of weight tensors of these `sizes`. Units: those of the sums.
        """


class Steps:
    """A run's critic steps: charged in blocks, each before its batches are drawn.

    Privacy: this alone knows the sampling probability, the stddev of the noise and its stream, and takes them from the
      reservation. It draws no batch and no noise beyond what is charged, no noise for a batch that was not drawn, and
      no further batch before those drawn had theirs.
      If workers share the rows, each has steps of its own ledger, which is charged what the chief's is. A worker's give
      batches of its own rows, and no noise: the chief adds it once.
    """

    def __init__(
        self,
        release: Release,
        *,
        source: NoiseSource,
        charge: Callable[[int], None],
        count_charged: Callable[[], int],
        first: int,
        with_noise: bool,
        observers: Sequence[StepsObserver],
    ) -> None:
        """Made by `Ledger.open`. `first`: the number of steps charged by earlier lives of the run."""
        self.release, self.first = release, first
        self._source, self._charge, self._count_charged = source, charge, count_charged
        self._with_noise = with_noise
        self._observers = [observer for observer in observers if observer.watched_row is not None]
        self._batches = self._noises = first

    def charge(self, steps: int) -> None:
        """Charges the next steps. Raises: PrivacyError if not as many are left; then none of them may happen."""
        self._charge(steps)

    @property
    def stddev(self) -> float:
        """Stddev of the noise that is added to every number of a step's sum, in its unit."""
        return self._source.get_stddev(self.release)

    @property
    def secrets(self) -> np.random.Generator:
        """The secret stream for other random parts of a step: latents that a record is paired with, keys of layers.

        Privacy: never the noise itself, which `draw_words` and `draw_normal_numbers` give.
        """
        return self._source.secrets

    def draw_batches(self, records: int, *, steps: int = 1) -> list[Integers]:
        """Draws the batches of the next steps, from `records` rows: those that are here, if workers share them.

        Shapes: ascending row numbers, (b,) each; b may be 0.
        Privacy: the sizes are private.
        Raises: PrivacyError if the steps are not charged, or a batch drawn before had no noise.
        """
        if self._with_noise and self._noises != self._batches:
            raise PrivacyError(f"{self.release.label}: a batch was drawn before the noise of the one before it.")
        check_whole("The number of steps", steps)
        taken, charged = self._batches, self._count_charged()
        if taken + steps > charged:
            raise PrivacyError(
                f"{self.release.label}: {taken} of {charged} charged steps are taken; {steps} more would pass them."
            )
        self._batches += steps
        return [self._source.draw_batch(self.release, records) for _ in range(steps)]

    def draw_words(self, pairs: int, *, steps: int = 1) -> Words:
        """Draws the random words of the noise of some steps, to be turned into normal numbers of stddev `stddev`.

        As `draw_words` of `normal_numbers`. Shapes: (steps, 2, pairs).
        Raises: PrivacyError if the batches of these steps were not drawn before.
        """
        self._use_noise(steps)
        return self._source.draw_words(self.release, pairs, steps=steps)

    def draw_normal_numbers(self, size: int, *, step_noise: StepNoise = "plain") -> Floats32:
        """Draws the noise of one step: normal numbers of stddev `stddev`. Shapes: (size,).

        Raises: PrivacyError if the batch of the step was not drawn before.
        """
        self._use_noise(1)
        return self._source.draw_normal_numbers(self.release, size, step_noise=step_noise)

    # ------------------------------------------------------------------------------------------------------- audits

    @property
    def watched_row(self) -> int | None:
        """The row whose influence on each step is observed; None if no step is."""
        return next((observer.watched_row for observer in self._observers), None)

    def tell(self, sizes: Sequence[int], noisy: AnyFloats, exact: AnyFloats, influence: AnyFloats) -> None:
        """Shows observers a step: see `StepsObserver.on_step`."""
        for observer in self._observers:
            observer.on_step(self.release, sizes=sizes, noisy=noisy, exact=exact, influence=influence)

    def _use_noise(self, steps: int) -> None:
        if not self._with_noise:
            raise PrivacyError(f"{self.release.label}: the noise of shared steps is drawn by the chief alone.")
        if self._noises + steps > self._batches:
            raise PrivacyError(f"{self.release.label}: noise was asked for without a batch.")
        self._noises += steps
