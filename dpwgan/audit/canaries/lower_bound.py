"""Lower bounds on epsilon from what an attacker got right. Numbers in, numbers out: no rows.

Each bound is right with the stated confidence if the mechanism is what it claims to be: a mechanism that is
(epsilon, delta)-DP gives a bound above its epsilon with `failure_probability` at most.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from dpwgan.array_types import Flags, Floats
from dpwgan.privacy.accountants.amortized import gaussian_epsilon

MOST_EPSILON = 50.0
"""Bounds end here: above it a table is as good as published, and the numbers behind it are tails of tails."""

SHARES_GUESSED = (0.02, 0.1, 0.4, 1.0)
"""Parts of the canaries that are guessed for. Fixed beforehand; the best is taken, and its chance of being wrong paid
for four times."""


_BISECTIONS = 50
_MOST_SIGNAL = 5.0
# Steps so strong that a few of them tell everything: more of them, or stronger ones, only cost time.
_MOST_SAMPLED_SIGNAL, _STRONG_SIGNAL, _MOST_STRONG_STEPS = 3.0, 1.0, 200
_MOST_INTERVAL, _LEAST_INTERVAL = 1e-3, 1e-5
_ROUNDING_IN_ALL = 5e-3


class Signal(NamedTuple):
    """A Gaussian release of which a canary is `strength` stddevs of noise, released so many `times`.

    `sampling_probability`: how likely the canary takes part in each.
    """

    strength: float
    sampling_probability: float
    times: int


def p_value_of_guesses(correct: int, *, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """Bounds the probability of so many right guesses of canaries if the mechanism is (epsilon, delta)-DP.

    Each of the canaries was in the table with probability one half, by itself; after the release the attacker guesses
    for `guesses` of them whether they were in, and abstains on the others. With W binomial(guesses, e^epsilon /
    (1 + e^epsilon)) and f(v) = P[W >= v], it is at most f(v) + 2 canaries delta max over i of (f(v - i) - f(v))/i.
    Where the canaries are spread over several runs, `canaries` is their number in all: the runs together are one
    mechanism, of which each coin moves one part.
    Source: Steinke, Nasr, Jagielski 2023, arXiv:2305.08846, Corollary 5.4; the order of the two terms is theirs.
    """
    accuracy = float(special.expit(epsilon))
    tail = float(stats.binom.sf(correct - 1, guesses, accuracy))
    if delta == 0.0 or correct == 0:
        return min(1.0, tail)
    steps = np.arange(1, correct + 1)
    between = np.cumsum(stats.binom.pmf(correct - steps, guesses, accuracy))
    return min(1.0, tail + 2 * canaries * delta * float(np.max(between / steps)))


def bound_by_guesses(correct: int, *, guesses: int, canaries: int, delta: float, failure_probability: float) -> float:
    """A lower bound on epsilon: the largest one under which so many right guesses are too unlikely.

    Source: as `p_value_of_guesses`; Lemma 4.7 there turns the p-value into the bound.
    """

    def is_too_unlikely(epsilon: float) -> bool:
        p_value = p_value_of_guesses(correct, guesses=guesses, canaries=canaries, epsilon=epsilon, delta=delta)
        return p_value <= failure_probability

    low, high = 0.0, MOST_EPSILON
    if not is_too_unlikely(low):
        return 0.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_too_unlikely(middle) else (low, middle)
    return low


@dataclass(frozen=True, kw_only=True)
class GuessBound:
    """A lower bound on epsilon from right guesses, and what it would be had every guess been right.

    Privacy: a private statistic, not covered by epsilon.
    """

    found: float
    found_if_all_were_right: float
    right: int
    guesses: int
    canaries: int


def bound_by_scores(
    scores: Floats,
    present: Flags,
    *,
    delta: float,
    failure_probability: float,
    rng: np.random.Generator,
) -> GuessBound:
    """Guesses which of many canaries were in the table, and bounds epsilon from below, whatever the noise is like.

    Each canary is in the table or null by the toss of a coin, all of them by themselves, in one run or a few. Guessed
    is "in" for the highest scores and "out" for the lowest, and nothing for those between.
    Shapes: `scores` and `present` (canaries,), of all runs together, two at least. Ties are broken by `rng`, never by
    the order, which may hang together with the coins.
    Source: Steinke, Nasr, Jagielski 2023, arXiv:2305.08846, Algorithm 1.
    """
    canaries = len(scores)
    order = np.lexsort((rng.random(canaries), scores))

    def bound(right: int, guesses: int) -> float:
        chance = failure_probability / len(SHARES_GUESSED)
        return bound_by_guesses(right, guesses=guesses, canaries=canaries, delta=delta, failure_probability=chance)

    bounds = []
    for share in SHARES_GUESSED:
        each = max(1, math.floor(share * canaries / 2))
        right = int(np.count_nonzero(present[order[-each:]])) + int(np.count_nonzero(~present[order[:each]]))
        bounds.append(
            GuessBound(
                found=bound(right, 2 * each),
                found_if_all_were_right=bound(2 * each, 2 * each),
                right=right,
                guesses=2 * each,
                canaries=canaries,
            )
        )
    return max(reversed(bounds), key=lambda one: one.found)  # of equal ones that of more guesses


def bound_stddev(sum_of_squares: float, *, samples: int, failure_probability: float) -> float:
    """Bounds the stddev of independent Gaussian numbers of mean 0 from above. Infinite where there are none.

    Source: the chi-square distribution of their sum of squares.
    """
    if samples < 1:
        return math.inf
    return math.sqrt(sum_of_squares / float(stats.chi2.ppf(failure_probability, samples)))


def epsilon_of_signals(signals: Sequence[Signal], *, delta: float) -> float:
    """An epsilon that the signals together certainly pass: below the exact one, by a few thousandths at most.

    Releases in which the canary always takes part add up to one Gaussian, whose epsilon is known exactly. The others
    are composed by privacy loss distributions whose losses are rounded down. A signal above 5 stddevs
    counts as 5, one of a sampled step as 3.
    Units: strengths are in stddevs of the noise.
    Source: Balle and Wang 2018, arXiv:1805.06530, Theorem 8; Meiser and Mohammadi 2018 (optimistic rounding).
    """
    whole = math.sqrt(sum(one.strength**2 * one.times for one in signals if one.sampling_probability >= 1))
    whole = min(whole, _MOST_SIGNAL)
    sampled = [one for one in signals if one.sampling_probability < 1 and one.strength > 1e-6 and one.times > 0]
    if not sampled:
        if whole <= 1e-6:
            return 0.0
        exact = float(gaussian_epsilon(np.array([delta]), noise_multiplier=1 / whole)[0])
        return min(MOST_EPSILON, exact * (1 - 1e-9))
    from dp_accounting.pld import privacy_loss_distribution

    steps = sum(one.times for one in sampled)
    strongest = max(one.strength for one in sampled)
    interval = _MOST_INTERVAL if strongest > _STRONG_SIGNAL else _ROUNDING_IN_ALL / steps
    shared = {
        "pessimistic_estimate": False,
        "use_connect_dots": False,
        "value_discretization_interval": min(_MOST_INTERVAL, max(_LEAST_INTERVAL, interval)),
    }

    def compose(one: Signal) -> Any:
        part = privacy_loss_distribution.from_gaussian_mechanism(
            1 / one.strength, sampling_prob=one.sampling_probability, **shared
        )
        return part.self_compose(one.times) if one.times > 1 else part

    heard = (one for one in (*map(_weaken, sampled), Signal(whole, 1.0, 1)) if one.strength > 1e-6)
    total = functools.reduce(lambda first, second: first.compose(second), map(compose, heard))
    return float(min(MOST_EPSILON, max(0.0, total.get_epsilon_for_delta(delta))))


def _weaken(steps: Signal) -> Signal:
    """Bounds the time that a strong signal takes; fewer or weaker steps never have a larger epsilon."""
    times = min(steps.times, _MOST_STRONG_STEPS) if steps.strength > _STRONG_SIGNAL else steps.times
    return Signal(min(steps.strength, _MOST_SAMPLED_SIGNAL), steps.sampling_probability, times)
