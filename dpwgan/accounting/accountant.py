"""What every accountant has in common: how charges are added up before its own bound is asked for.

An accountant turns a list of events into one epsilon at one delta. Its answer is an upper bound: whatever its
optimiser finds, the bound holds, and rounding is pushed upwards.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import metadata
from typing import ClassVar

from dpwgan.accounting.budget import NeighboringRelation
from dpwgan.accounting.events import Charge, Gaussian, PoissonGaussian, StableSelection
from dpwgan.errors import PrivacyError

GaussianCharge = tuple[PoissonGaussian | Gaussian, int]

ROUNDING = 1e-12
"""Relative amount by which results are raised: thousands of times the rounding of the sums that lead to them."""


class Accountant(ABC):
    """Turns charges into an epsilon.

    Privacy: `get_epsilon` never answers below an epsilon that is proved for the charges.
    """

    name: ClassVar[str]

    @property
    @abstractmethod
    def version(self) -> str:
        """Says what computed the numbers, and with which settings, so that another can compute them again."""

    @property
    def progress_accountant(self) -> "Accountant":
        """An accountant with a fast upper bound on the same epsilon, for the progress bar."""
        return self

    @abstractmethod
    def _gaussian_epsilon(
        self, charges: Sequence[GaussianCharge], *, delta: float, neighboring_relation: NeighboringRelation
    ) -> float:
        """Bounds epsilon for at least one Gaussian charge of count 1 or more, all events different."""

    def get_epsilon(
        self, charges: Sequence[Charge], *, delta: float, neighboring_relation: NeighboringRelation
    ) -> float:
        """Bounds the epsilon of all charges together at `delta`.

        Privacy: mechanisms known by (epsilon, delta) alone are added by basic composition, which holds for adaptive
          choices too: epsilon = their sum + what the Gaussian ones cost at the rest of delta. If they leave no delta
          for the others, the answer is infinite.
        Raises: PrivacyError for an unknown event, a negative or fractional count, or a delta outside (0, 1).
        Source: Dwork and Roth 2014, Theorem 3.16 (basic composition).
        """
        if not 0 < delta < 1:
            raise PrivacyError(f"delta must lie strictly between 0 and 1; it is {delta!r}.")
        if not isinstance(neighboring_relation, NeighboringRelation):
            raise PrivacyError("The neighbouring relation must be a NeighboringRelation.")
        selection_epsilon = 0.0
        selection_delta = 0.0
        gaussians: dict[PoissonGaussian | Gaussian, int] = {}
        for event, count in charges:
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise PrivacyError(f"An event's count must be a whole number of at least 0; it is {count!r}.")
            if isinstance(event, StableSelection):
                selection_epsilon += count * event.epsilon
                selection_delta += count * event.delta
            elif isinstance(event, (PoissonGaussian, Gaussian)):
                if count:
                    gaussians[event] = gaussians.get(event, 0) + count
            else:
                raise PrivacyError(f"The {self.name} accountant does not know the event {type(event).__name__}.")
        selection_epsilon *= 1 + ROUNDING
        selection_delta *= 1 + ROUNDING
        # Sorted, so that the same charges in another order give the same floating-point number.
        ordered = sorted(gaussians.items(), key=lambda item: repr(item[0]))
        if not ordered:
            return selection_epsilon if selection_delta <= delta else math.inf
        delta_left = delta - selection_delta
        if delta_left <= 0:
            return math.inf
        gaussian_epsilon = self._gaussian_epsilon(ordered, delta=delta_left, neighboring_relation=neighboring_relation)
        if math.isnan(gaussian_epsilon):
            raise PrivacyError(f"The {self.name} accountant found no number for these settings.")
        return (selection_epsilon + max(0.0, gaussian_epsilon)) * (1 + ROUNDING)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self.name} accountant: {self.version}>"


def library_version(distribution: str) -> str:
    """Reads the version of an installed library without importing it.

    Raises: PrivacyError if it is not installed, since a guarantee must name what computed it.
    """
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError as error:
        raise PrivacyError(f"The library {distribution} is not installed, so no guarantee can be computed.") from error
