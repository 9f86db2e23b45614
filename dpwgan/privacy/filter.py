"""The privacy filter of a book: whether one more release fits its limit, even if each is chosen after seeing the last.

Theorem. Let acts follow one another. Which comes next, with which event, and whether any does, is decided by what was
released before and by what does not depend on the rows. Let r_t(a) bound the Renyi divergence of order a of act t, both
ways, and let shares s_a of a set of orders, fixed before the first act, add up to at most s < 1. Mechanisms known by
(e, d) alone count as acts of pure e, and their deltas are never let past (1 - s) D together. If no act is let begin
after which there would be no order with S_a = sum over t of r_t(a) <= B_a,

    B_a = E - ln(1 - 1/a) + (ln(s_a D) + ln a)/(a - 1),

then all that was released is (E, D)-differentially private.

Proof. Let l_t be the privacy loss of act t, and L their sum, the loss of the whole: choices add none, being made alike
for both tables. An (e, d) pair of laws is that of a pure e one that fails with probability d, for both tables alike,
and shows all then (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776); some fail with probability (1 - s) D at
most. Without failure: given what came before, r_t(a) is a number and the mean of e^((a-1)(l_t - r_t(a))) is at most 1.
So by induction backwards over the acts is that of e^((a-1)(L - S_a)), where they end however they end. They end with
S_a <= B_a for one a at least, so the hockey-stick divergence at E is at most the sum over a of the mean of
(1 - e^(E-L))+ where S_a <= B_a. With y = L - E, (1 - e^-y)+ <= c_a e^((a-1) y), c_a = (1 - 1/a)^(a-1)/a being the
largest value of (1 - e^-y) e^-((a-1) y); and e^((a-1) y) <= e^((a-1)(L - S_a)) e^((a-1)(B_a - E)) there. So each order
adds c_a e^((a-1)(B_a - E)) = s_a D at most, all of them s D. The other direction is the same. QED.

Privacy loss distributions are not used here: that they may be composed when parameters are chosen in the light of what
was released is not proved. One order alone is the filter of Feldman and Zrnic; shares let several stand side by side.
Source: Feldman and Zrnic 2021, arXiv:2008.11193; Whitehouse, Ramdas, Rogers, Wu 2023, arXiv:2203.05481; Haney et al.
  2023, arXiv:2309.05901 (runs side by side: their acts follow one another in some order);
  Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Proposition 12 (c_a); Bun and Steinke 2016, arXiv:1605.02065,
  Proposition 3.3 (pure mechanisms: r(a) = min(e, a e^2/2)).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from dpwgan.array_types import Floats
from dpwgan.errors import UsageError
from dpwgan.privacy.accountants.accountant import ROUNDING
from dpwgan.privacy.accountants.moments import MOMENTS, ORDERS, find_divergences
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.events import Charge, Event, Gaussian, PoissonGaussian, Pure, StableSelection, Unprotected

_LADDER = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, *(64.0 * 2**power for power in range(9)))
# Of delta: for the order that serves the limit best, for all of the ladder, and the rest for (epsilon, delta) alone.
_BEST, _OTHERS = 0.45, 0.45


@dataclass(frozen=True, kw_only=True)
class PrivacyFilter:
    """Adds up releases that were chosen adaptively, against a limit that was fixed before the first of them.

    `shares` of delta are those of orders; what they leave is for mechanisms known by (epsilon, delta) alone.
    Privacy: the module's theorem. While `get_epsilon` is at most the limit's after each reservation, the limit holds.
    """

    limit: Budget
    neighboring_relation: NeighboringRelation
    shares: Mapping[float, float]

    def __post_init__(self) -> None:
        if not self.shares or not all(a in ORDERS and 0 < share < 1 for a, share in self.shares.items()):
            raise UsageError("the shares of a privacy filter must be above 0, and of orders that there are")
        if not math.fsum(self.shares.values()) < 1:
            raise UsageError("the shares of a privacy filter must be less than 1 together")

    def add_up(self, charges: Iterable[Charge]) -> Floats:
        """What some acts cost, to be added to what others do: S_a of the theorem at each of its orders, and deltas."""
        total, delta = np.zeros(len(ORDERS)), 0.0
        for event, count in charges:
            total += count * _find_divergences(event, self.neighboring_relation)
            delta += count * event.delta if isinstance(event, StableSelection) else 0.0
        return np.append(total[[ORDERS.index(a) for a in self.shares]], delta)

    def get_epsilon(self, cost: Floats) -> float:
        """The least limit, at its delta and with these shares, within which the filter would have let so much."""
        if cost[-1] * (1 + ROUNDING) > self.limit.delta * (1 - math.fsum(self.shares.values())):
            return math.inf
        epsilon = float(np.min(cost[:-1] + _offsets(self.shares, delta=self.limit.delta)))
        return max(0.0, epsilon) * (1 + ROUNDING) if np.any(cost) else 0.0

    def find_left(self, cost: Floats) -> float:
        """The epsilon, at the limit's delta, of the largest release that still fits: one with Gaussian noise, alone."""
        room = self.limit.epsilon - cost[:-1] - _offsets(self.shares, delta=self.limit.delta)
        most = float(np.max(room / np.array([*self.shares])))
        if most <= 0:
            return 0.0
        release = Gaussian(noise_multiplier=1 / math.sqrt(2 * most), replace_one_factor=1.0)
        return MOMENTS.get_epsilon(
            [(release, 1)], delta=self.limit.delta, neighboring_relation=self.neighboring_relation
        )


def open_filter(limit: Budget, neighboring_relation: NeighboringRelation) -> PrivacyFilter:
    """Fixes the shares for a limit: half goes to the order at which most Gaussian noise fits it.

    Raises: UsageError if the limit is so small that no release would fit.
    """
    room = (limit.epsilon - _offsets(dict.fromkeys(ORDERS, _BEST), delta=limit.delta)) / np.array(ORDERS)
    if not np.max(room) > 0:
        raise UsageError(f"no release fits a limit of epsilon {limit.epsilon:g} at delta {limit.delta:g}")
    shares = dict.fromkeys(_LADDER, _OTHERS / len(_LADDER))
    best = ORDERS[int(np.argmax(room))]
    shares[best] = shares.get(best, 0.0) + _BEST
    return PrivacyFilter(limit=limit, neighboring_relation=neighboring_relation, shares=shares)


def _offsets(shares: Mapping[float, float], *, delta: float) -> Floats:
    """E - B_a of the theorem: what turning a divergence of each order into epsilon adds to it."""
    a, parts = np.array([*shares]), np.array([*shares.values()])
    offsets: Floats = np.log1p(-1 / a) - (np.log(parts) + math.log(delta) + np.log(a)) / (a - 1)
    return offsets


def _find_divergences(event: Event, neighboring_relation: NeighboringRelation) -> Floats:
    """Bounds the Renyi divergences of one act, pure or not, at each of `ORDERS`."""
    if isinstance(event, Unprotected):
        return np.full(len(ORDERS), math.inf)
    if isinstance(event, PoissonGaussian):
        event, parts = event.split()
        return parts * find_divergences(event, neighboring_relation)
    if isinstance(event, Pure | StableSelection):
        epsilon = event.get_epsilon(neighboring_relation) if isinstance(event, Pure) else event.epsilon
        return np.minimum(epsilon, np.array(ORDERS) * epsilon**2 / 2)
    return find_divergences(event, neighboring_relation)
