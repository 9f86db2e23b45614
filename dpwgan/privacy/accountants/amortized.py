"""The amortized accountant: amplification by sampling, then strong composition. A bound with a short proof.

Theorem. Let T steps each release a sum over a Poisson sample (probability q, one record moves it by at most one
sensitivity) with Gaussian noise of s sensitivities. For every split of delta into d' and T d1 with T d1 + d' <= delta,
every e0 >= 0 with d0(e0) <= d1 / q, and e1 = ln(1 + q (e^e0 - 1)), the T steps are (epsilon, delta)-DP with

    epsilon = min(T e1,  sqrt(2 T ln(1/d')) e1 + T e1 (e^e1 - 1)).

Proof. (1) Without sampling, two tables that differ in one record give two Gaussians whose means are at most one
sensitivity apart, and their hockey-stick divergence at e0 is exactly d0(e0) = Phi(1/(2s) - e0 s) - e^e0 Phi(-1/(2s)
- e0 s) at most (Balle and Wang 2018, Theorem 8). (2) Fix which of the other records are sampled. Without the record the
release has the law A; with it, (1 - q) A + q B, where A and B are two such Gaussians. By advanced joint convexity
(Balle, Barthe, Gaboardi 2018, Theorem 2) both directions have divergence at most q d0(e0) = d1 at e1: one mixture is
(1 - q) A + q A, and D(A || (1 - b) A + b B) <= b D(A || B) by convexity. Joint convexity removes the conditioning.
(3) T-fold adaptive composition of (e1, d1) steps: T e1 with T d1 is basic composition (then d' = 0); the root is strong
composition (Dwork, Rothblum, Vadhan 2010, Theorem III.3). QED.

Replace-one. With one record replaced, the laws are (1 - q) A + q B and (1 - q) A + q B', where B and B' are up to two
sensitivities apart. Advanced joint convexity gives, at e1, at most q max(D(B || A), D(B || B')) <= q d0' with d0' the
divergence at two sensitivities, that is with s/2 in place of s. The rest is the same.

Different mechanisms together. Strong composition of unequal steps: sqrt(2 ln(1/d') sum e_i^2) + sum e_i (e^e_i - 1)
with sum d_i + d' <= delta. It is at least the bound of Kairouz, Oh, Viswanath 2015, Theorem 3.5, where the last
sum is of e_i (e^e_i - 1)/(e^e_i + 1).

Selections. The loss of an exponential mechanism lies in an interval [t - r, t] that may depend on what was released
before, but not on this draw, and its mean is at most r^2/8 (Cesar and Rogers 2021, arXiv:2004.07223). Strong
composition is the Hoeffding-Azuma inequality for the sum of losses, in which an act counts by the squared length of
such an interval: (2 e_i)^2 for an (e_i, d_i) step, r^2 for a selection. So a selection adds r^2/4 to the sum of
squares and r^2/8 to the second sum (Durfee and Rogers 2019, arXiv:1905.04273); in basic composition it adds r. It
needs no delta. The one Gaussian on all records may also be composed with the strong composition of all the rest by
basic composition.

The split is searched on a fixed grid. Every point of it is a valid bound, so the minimum is one; and each point
falls with more noise and rises with more steps, so the minimum does.
"""

from collections.abc import Sequence

import numpy as np
import scipy
from scipy import special

from dpwgan.array_types import Floats
from dpwgan.privacy.accountants.accountant import Accountant, ComposedCharge, loss_range
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import ExponentialSelection, Gaussian, PoissonGaussian

# The parts of delta that may go to d', from almost nothing to almost all, evenly in the log of the odds.
_SPLIT = 1 / (1 + np.exp(-np.linspace(-16, 16, 321)))

_LOG_ROUNDING = 8 * float(np.finfo(np.float64).eps)
"""Relative amount by which the logarithm of a normal tail may be off: a few units in the last place, doubled."""

_MOST_STEPS_DOWN = 60
_PART_OF_STEP = 0.999
"""Newton's method takes some ten steps; each leaves a thousandth of its way."""


class AmortizedAccountant(Accountant):
    """Accounts by privacy amplification and strong composition.

    Source: the module's theorem; the rule of thumb to prefer it at small epsilon is that of the 2018 NIST
      challenge entry "UCLANESL".
    """

    name = "amortized"

    @property
    def version(self) -> str:
        """scipy computes the normal tails."""
        return f"amplification and strong composition, scipy {scipy.__version__}"

    def _composed_epsilon(
        self, charges: Sequence[ComposedCharge], *, delta: float, neighboring_relation: NeighboringRelation
    ) -> float:
        # Each of the m charges that need some gets 1/m of the delta that d' leaves, and each of its T acts 1/T of that.
        # The last column is d' = 0: basic composition with all of delta for the acts.
        parts_for_acts = np.append(1 - _SPLIT, 1.0)
        sharing = sum(not isinstance(event, ExponentialSelection) for event, _ in charges)
        log_slack = np.log(1 / (delta * _SPLIT))
        # Rows: what basic composition adds up, the squares and the drift of strong composition. Infinity is a bound.
        rest, whole_table = np.zeros((3, parts_for_acts.size)), np.zeros((3, parts_for_acts.size))
        with np.errstate(over="ignore"):
            for event, count in charges:
                if isinstance(event, ExponentialSelection):
                    rest += _sum_selections(loss_range(event, neighboring_relation), count)
                    continue
                act_epsilon = _act_epsilon(event, delta * parts_for_acts / (sharing * count), neighboring_relation)
                sums = whole_table if isinstance(event, Gaussian) else rest
                sums += _sum_acts(act_epsilon, count)
            everything = rest + whole_table
        # The Gaussian on all records is one act: adding it to the strong composition of the rest may be better.
        apart = whole_table[0, :-1] + _compose_strongly(rest, log_slack)
        return float(min(np.min(everything[0]), np.min(_compose_strongly(everything, log_slack)), np.min(apart)))


def _sum_acts(epsilon: Floats, count: int) -> Floats:
    """What acts whose loss lies between -epsilon and epsilon add to the sums."""
    return np.array([count * epsilon, count * epsilon**2, count * epsilon * np.expm1(epsilon)])


def _sum_selections(length: float, count: int) -> Floats:
    """The same of selections whose loss lies in an interval of that length: the module's paragraph on selections."""
    return np.array([[count * length], [count * length**2 / 4], [count * min(length**2 / 8, length)]])


def _compose_strongly(sums: Floats, log_slack: Floats) -> Floats:
    """The bound of strong composition where d' is above 0."""
    _, squares, drift = sums[:, :-1]
    result: Floats = np.sqrt(2 * log_slack * squares) + drift
    return result


def _act_epsilon(
    event: PoissonGaussian | Gaussian, act_delta: Floats, neighboring_relation: NeighboringRelation
) -> Floats:
    """Bounds the epsilon of one act at each `act_delta`: steps (1) and (2) of the module's proof."""
    noise_multiplier = event.noise_multiplier / event.get_factor(neighboring_relation)
    if isinstance(event, Gaussian):
        return gaussian_epsilon(act_delta, noise_multiplier=noise_multiplier)
    q = event.sampling_probability
    full = gaussian_epsilon(np.minimum(act_delta / q, 1.0), noise_multiplier=noise_multiplier)
    return amplified_epsilon(full, sampling_probability=q)


def amplified_epsilon(epsilon: Floats, *, sampling_probability: float) -> Floats:
    """Computes ln(1 + q (e^epsilon - 1)), rounded upwards, without overflow.

    Source: Balle, Barthe, Gaboardi 2018, arXiv:1807.01647, Theorem 8.
    """
    q = sampling_probability
    # Above 30 both forms agree to the last digits, and the first one would overflow from 709 on.
    small = np.log1p(q * np.expm1(np.minimum(epsilon, 30.0)))
    large = epsilon + np.log(q + (1 - q) * np.exp(-np.maximum(epsilon, 30.0)))
    return np.where(epsilon > 30.0, large, small) * (1 + 1e-13)


def gaussian_delta(epsilon: Floats, *, noise_multiplier: float) -> Floats:
    """Computes the delta of one Gaussian release at each epsilon, from above.

    It is Phi(1/(2s) - e s) - e^e Phi(-1/(2s) - e s).
    Privacy: the two tails are subtracted in logarithms, since both are tiny and close for small delta; the most that
      rounding can have taken from the difference is added back.
    Source: Balle and Wang 2018, arXiv:1805.06530, Theorem 8.
    """
    log_upper, log_lower = _log_tails(epsilon, noise_multiplier=noise_multiplier)
    return _delta_of_tails(epsilon, log_upper, log_lower)


def _log_tails(epsilon: Floats, *, noise_multiplier: float) -> tuple[Floats, Floats]:
    s = noise_multiplier
    return special.log_ndtr(1 / (2 * s) - epsilon * s), special.log_ndtr(-1 / (2 * s) - epsilon * s)


def _delta_of_tails(epsilon: Floats, log_upper: Floats, log_lower: Floats) -> Floats:
    # With next to no noise the rounding that is added back passes any number: delta is then bounded by infinity, from
    # above as promised. At an infinite epsilon the logarithms' difference is not a number, which no caller takes for
    # small enough.
    with np.errstate(over="ignore", invalid="ignore"):
        rounding = _LOG_ROUNDING * (1 + epsilon + np.abs(log_upper) + np.abs(log_lower))
        difference = np.minimum(epsilon + log_lower - log_upper, 0.0) - rounding
        result: Floats = np.exp(log_upper + rounding) * -np.expm1(difference)
    return result


def gaussian_epsilon(delta: Floats, *, noise_multiplier: float) -> Floats:
    """Computes an epsilon, at most a hair above the least one, at which one Gaussian release keeps each delta.

    Privacy: the answer's own delta, computed from above, is small enough, wherever the search stops.
    The logarithm of delta is concave in epsilon: delta(e) is the convolution of e^u, u < 0, with a Gaussian's upper
    tail, both log-concave. So Newton's steps from above come down to the answer and do not pass it.
    """
    s = noise_multiplier
    target = delta * (1 - 1e-12)
    # At epsilon = 1/(2 s^2) + t/s, delta <= Phi(-t); and Phi(-t) <= e^(-t^2/2).
    with np.errstate(divide="ignore"):
        upper = 1 / (2 * s**2) + np.sqrt(2 * np.maximum(-np.log(target), 0.0)) / s
    # Infinity is an answer; what is not a number is not one.
    while np.any(open_ := np.isfinite(upper) & ~(gaussian_delta(upper, noise_multiplier=s) <= target)):
        with np.errstate(over="ignore"):
            upper = np.where(open_, 2 * upper + 1e-300, upper)
    for _ in range(_MOST_STEPS_DOWN):
        log_upper, log_lower = _log_tails(upper, noise_multiplier=s)
        with np.errstate(all="ignore"):
            log_delta = np.log(_delta_of_tails(upper, log_upper, log_lower))
            # d delta/d epsilon = -e^epsilon Phi(-1/(2s) - epsilon s). Next to all of the way, so that rounding does not
            # lead past the end.
            step = _PART_OF_STEP * (np.log(target) - log_delta) * np.exp(log_delta - upper - log_lower)
            lower = np.maximum(upper - step, 0.0)
            kept = (lower < upper) & (gaussian_delta(lower, noise_multiplier=s) <= target)
        if not np.any(kept & (upper - lower > 1e-13 * upper)):
            break
        upper = np.where(kept, lower, upper)
    return np.where(gaussian_delta(np.zeros_like(target), noise_multiplier=s) <= target, 0.0, upper)


AMORTIZED = AmortizedAccountant()
