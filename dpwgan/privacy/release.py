"""A release, described before it happens: plans are lists of these, and noise is drawn from nothing else."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpwgan.array_types import AnyArray
from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import DiscreteGaussian, Event, Gaussian, Laplace, PoissonGaussian, refuse_unless_positive
from dpwgan.privacy.mechanisms.laplace import find_scale


@dataclass(frozen=True, kw_only=True)
class Release:
    """One line of a plan: what is released, how often at most, and what one record can move of it.

    `mechanism` says in words what is done; `details` are public facts that the claim prints beside it.
    Privacy: noise is `event` times `sensitivity`, and nothing else decides it; a discrete Gaussian holds its stddev
      itself. Whoever computes the exact values vouches for the sensitivity under zero-out; the event holds how much
      more a replaced record can move.
    Units: `sensitivity` has the unit of what is released: L2 under Gaussian noise, L1 under Laplace noise, the trace
      under Wishart noise, the score of a selection. It is 1 where nothing has a unit: lists of cells, and what is not
      protected at all.
    Raises: PrivacyError for a sensitivity that is not finite and above 0, or not that of an event which has one too.
    """

    label: str
    event: Event
    times: int
    mechanism: str
    sensitivity: float
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        refuse_unless_positive("sensitivity", self.sensitivity)
        if isinstance(self.event, DiscreteGaussian) and self.sensitivity != self.event.sensitivity:
            raise PrivacyError(f"{self.label}: a row in {self.event.cells} counts moves them by the root of that.")

    @property
    def charge(self) -> tuple[Event, int]:
        """What the accountants need to know of it."""
        return self.event, self.times

    @property
    def stddev(self) -> float:
        """Stddev of the noise on each number, in the unit of the values.

        Raises: PrivacyError where the noise has none that is known before: selections, and matrices.
        """
        if isinstance(self.event, (Gaussian, PoissonGaussian)):
            return self.event.noise_multiplier * self.sensitivity
        if isinstance(self.event, DiscreteGaussian):
            return self.event.stddev
        if isinstance(self.event, Laplace):
            parts, step = find_scale(self.sensitivity, self.event.epsilon)
            return math.sqrt(2.0) * parts / step
        raise PrivacyError(f"{self.label}: what is released has no stddev that is known before.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Noisy:
    """What was released. Units: `stddev`, that of the noise on each of the `values`, has theirs.

    Of symmetric matrices it is that beside the diagonal.
    """

    values: AnyArray
    stddev: float

    @property
    def value(self) -> float:
        """The only number of a release of one. Raises: ValueError for one of more."""
        return float(np.asarray(self.values).item())
