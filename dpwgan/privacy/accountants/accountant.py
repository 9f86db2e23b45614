"""The common part of all accountants: how charges are added up before each applies its own bound.

An accountant turns a list of events into one epsilon at one delta. Its answer is an upper bound: whatever its
optimiser finds, the bound holds, and rounding is pushed upwards.

Gaussians on all records are merged into one before any accountant sees them. Lemma. However the acts of a run are
interleaved, its hockey-stick divergences are at most those of a run that starts with one Gaussian release moved by r
= sqrt(sum r_i^2) stddevs, r_i being the moves of the single ones. Proof. Read backwards in time, an act turns the
bound V(x) on what follows it, x = ln of the factor, into sup E[V(x - loss)] over the pairs of laws that it may have.
For a Gaussian moved by r_i that is the mean G V over N(r_i^2/2, r_i^2), since E V grows with the move. For any other
act A, A G V = sup over pairs of a mean of a mean <= the mean of the sup = G A V. So the Gaussians may be moved to the
front, where their means add up to the one of N(r^2/2, r^2). QED. The same holds of any act that one pair of laws
dominates whatever came before, in place of the Gaussians: sets of counts with discrete noise are moved there first.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from dpwgan.errors import PrivacyError
from dpwgan.privacy.accountants.discrete_gaussian import stand_in
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import (
    Charge,
    DiscreteGaussian,
    Event,
    ExponentialSelection,
    Gaussian,
    PoissonGaussian,
    Pure,
    StableSelection,
    Unprotected,
)

ComposedEvent = PoissonGaussian | Gaussian | ExponentialSelection
"""What an accountant composes by its own rules; a mechanism known by (epsilon, delta) alone is added instead."""

ComposedCharge = tuple[ComposedEvent, int]

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
    def _composed_epsilon(
        self, charges: Sequence[ComposedCharge], *, delta: float, neighboring_relation: NeighboringRelation
    ) -> float:
        """Bounds epsilon for at least one charge of count 1 or more.

        All events are different, and at most one is a Gaussian on all records.
        """

    def _as_gaussian(self, event: DiscreteGaussian, count: int) -> tuple[Gaussian, float]:
        """A Gaussian that stands in for `count` releases of counts, and the c of the theorem that says so."""
        return stand_in(event, count)

    def get_epsilon(
        self, charges: Sequence[Charge], *, delta: float, neighboring_relation: NeighboringRelation
    ) -> float:
        """Bounds the epsilon of all charges together at `delta`.

        Privacy: mechanisms known by (epsilon, delta) alone, and releases whose noise has no delta, are
          added by basic composition, which holds for adaptive choices too: epsilon = their sum + what the other ones
          cost at the rest of delta. If they leave no delta for the others, the answer is infinite. If all others are
          exponential mechanisms, the sum of their epsilons is a bound as well, and the smaller one is given.
          Counts with discrete noise are accounted for by a Gaussian and a c: (epsilon + 2 c, e^c delta) is what holds.
        Raises: PrivacyError for an unknown event, a negative or fractional count, or a delta outside (0, 1).
        Source: Dwork and Roth 2014, Theorem 3.16 (basic composition).
        """
        if not 0 < delta < 1:
            raise PrivacyError(f"delta must lie strictly between 0 and 1; it is {delta!r}.")
        if not isinstance(neighboring_relation, NeighboringRelation):
            raise PrivacyError("The neighbouring relation must be a NeighboringRelation.")
        selection_epsilon = 0.0
        selection_delta = 0.0
        stand_in_cost = 0.0
        composed: dict[ComposedEvent, int] = {}
        counts: dict[DiscreteGaussian, int] = {}
        for event, count in charges:
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise PrivacyError(f"An event's count must be a whole number of at least 0; it is {count!r}.")
            if count == 0 and isinstance(event, Event):
                continue
            if isinstance(event, StableSelection):
                selection_epsilon += count * event.epsilon
                selection_delta += count * event.delta
            elif isinstance(event, Pure):
                selection_epsilon += count * event.get_epsilon(neighboring_relation)
            elif isinstance(event, Unprotected):
                selection_epsilon += math.inf
            elif isinstance(event, DiscreteGaussian):
                counts[event] = counts.get(event, 0) + count
            elif isinstance(event, PoissonGaussian):
                part, parts = event.split()
                composed[part] = composed.get(part, 0) + parts * count
            elif isinstance(event, (Gaussian, ExponentialSelection)):
                composed[event] = composed.get(event, 0) + count
            else:
                raise PrivacyError(f"The {self.name} accountant does not know the event {type(event).__name__}.")
        for event, count in sorted(counts.items(), key=lambda item: repr(item[0])):
            release, cost = self._as_gaussian(event, count)
            composed[release] = composed.get(release, 0) + 1
            stand_in_cost += cost
        selection_epsilon += 2 * stand_in_cost
        selection_epsilon *= 1 + ROUNDING
        selection_delta *= 1 + ROUNDING
        # Sorted, so that the same charges in another order give the same floating-point number.
        ordered = merge_gaussians(sorted(composed.items(), key=lambda item: repr(item[0])))
        if not ordered:
            return selection_epsilon if selection_delta <= delta else math.inf
        delta_left = (delta - selection_delta) * math.exp(-stand_in_cost)
        if delta_left <= 0:
            return math.inf
        composed_epsilon = self._composed_epsilon(ordered, delta=delta_left, neighboring_relation=neighboring_relation)
        if math.isnan(composed_epsilon):
            raise PrivacyError(f"The {self.name} accountant found no number for these settings.")
        selections = [(event, count) for event, count in ordered if isinstance(event, ExponentialSelection)]
        if len(selections) == len(ordered):
            by_sum = sum(count * loss_range(event, neighboring_relation) for event, count in selections)
            composed_epsilon = min(composed_epsilon, by_sum)
        return (selection_epsilon + max(0.0, composed_epsilon)) * (1 + ROUNDING)

    def __str__(self) -> str:
        return self.name


class BasicAccountant(Accountant):
    """Accounts by basic composition alone: epsilons are added, and no delta is asked for.

    Privacy: the sum itself is in `Accountant.get_epsilon`. What has no epsilon of its own, Gaussian noise, gets none.
    Source: Dwork and Roth 2014, Theorems 3.14 and 3.16.
    """

    name = "basic"
    version = "basic composition, 1"

    def _composed_epsilon(
        self, charges: Sequence[ComposedCharge], *, delta: float, neighboring_relation: NeighboringRelation
    ) -> float:
        return math.inf


BASIC = BasicAccountant()
"""What a run of pure releases is accounted by."""


def merge_gaussians(charges: Sequence[ComposedCharge]) -> list[ComposedCharge]:
    """Replaces all Gaussians on all records by one, exactly: the module's lemma. The other charges keep their order.

    Privacy: in sensitivities over stddev, moves add up in squares, under zero-out and under replace-one alike; the
      event's factor is the quotient of the two.
    """
    zeroing: list[float] = []
    replacing: list[float] = []
    others: list[ComposedCharge] = []
    for event, count in charges:
        if isinstance(event, Gaussian) or (isinstance(event, PoissonGaussian) and event.sampling_probability == 1):
            zeroing.append(math.sqrt(count) / event.noise_multiplier)
            replacing.append(event.replace_one_factor * zeroing[-1])
        else:
            others.append((event, count))
    if not zeroing:
        return others
    total = math.hypot(*zeroing)
    factor = min(2.0, max(1.0, math.hypot(*replacing) / total))
    return [(Gaussian(noise_multiplier=1 / total, replace_one_factor=factor), 1), *others]


def loss_range(event: ExponentialSelection, neighboring_relation: NeighboringRelation) -> float:
    """The length of the interval in which the privacy loss of a selection lies."""
    return event.epsilon * event.get_factor(neighboring_relation)
