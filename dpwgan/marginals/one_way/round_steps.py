"""How numbers are rounded: a released histogram of the largest step that divides each value.

The steps are public: 1, 5, 10, 50 and so on times the smallest unit, or those of a clock; each divides the next. All
divide 0, which counts as of the finest. A band of magnitude has a count for each step, of the values that it is the
largest to divide. Levels that are intervals by themselves are left out. The rest is post-processing: each step has odds
within every interval, such that all intervals together match the counts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwgan.array_types import AnyArray, Flags, Floats, Integers
from dpwgan.marginals.draws import draw_by_odds
from dpwgan.marginals.layout import Attribute
from dpwgan.marginals.one_way.number_tree import Intervals

_LEAST_BAND = 32.0
"""The least count of a band of magnitude, in stddevs of noise, so that its shares are known."""

_STANDS_OUT, _TOLD = 3.0, 2.0
"""In stddevs of noise: the least count of a step, actual or by chance, to be apart from finer ones; and not to be 0."""

_IS_ROUNDED = 4.0
"""How far above chance some steps must be, in stddevs of noise: else a band's numbers are taken for not rounded."""

_LEAST_ODDS = 1e-9
"""Odds of a level of a step that nobody rounds to, for intervals without others."""

_ROUNDS = 50


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundSteps:
    """The odds of a number's levels within an interval.

    `zero`: the level of the number 0, maybe outside the range. Shapes: `steps` (c,), from 1 up, each divides the next;
    `bands` (b,), the levels at which bands of magnitude begin, from 0 up; `odds` (b, c), of one level each.
    """

    zero: int
    steps: Integers
    bands: Integers
    odds: Floats

    def weigh(self, starts: Integers, sizes: Integers) -> Floats:
        """The mean odds of a level in each interval of levels. Shapes: (m,) each."""
        weights: Floats = self._weigh_steps(starts, sizes).sum(axis=1) / sizes
        return weights

    def draw(self, starts: Integers, sizes: Integers, chosen: Integers, *, rng: np.random.Generator) -> Integers:
        """Draws a level from each chosen interval by the odds. Shapes: (m,) intervals, (n,) chosen."""
        places = draw_by_odds(self._weigh_steps(starts, sizes), chosen, rng=rng)
        starts, sizes = starts[chosen], sizes[chosen]
        # Of a step's multiples, those that the next one divides are none of its own: so many are left of up to x.
        step, is_last = self.steps[places], places == len(self.steps) - 1
        ratio = np.append(self.steps[1:] // self.steps[:-1], 2)[places]
        first, last = ((ends - self.zero - 1) // step for ends in (starts, starts + sizes))
        first, last = (np.where(is_last, ends, ends - ends // ratio) for ends in (first, last))
        # The number 0 is the last of those of the finest step, and is left out of those of the coarsest.
        has_zero = _hold(starts, sizes, self.zero)
        many = last - first + has_zero * ((places == 0).astype(np.int64) - is_last)
        number = first + 1 + np.minimum((rng.random(len(starts)) * many).astype(np.int64), many - 1)
        is_zero = has_zero & (places == 0) & (number > last)
        number += has_zero & is_last & (number >= 0)
        levels = np.where(is_last, number, number + (number - 1) // (ratio - 1)) * step + self.zero
        return np.clip(np.where(is_zero, self.zero, levels), starts, starts + sizes - 1)

    def _weigh_steps(self, starts: Integers, sizes: Integers) -> Floats:
        """Of each interval, the odds of all levels of a step together. Shapes: (m, c)."""
        bands = np.searchsorted(self.bands, starts + sizes // 2, side="right") - 1
        weights: Floats = self.odds[bands] * count_levels(starts, sizes, zero=self.zero, steps=self.steps)
        return weights

    def to_document(self) -> dict[str, Any]:
        """Everything as JSON-able values."""
        return {name: np.asarray(value).tolist() for name, value in vars(self).items()}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "RoundSteps":
        """Reads what `to_document` gave. Raises: KeyError, TypeError or ValueError if it is damaged."""
        steps, bands = (np.array(document[name], np.int64) for name in ("steps", "bands"))
        odds = np.array(document["odds"], np.float64)
        if odds.shape != (len(bands), len(steps)) or not np.all((odds > 0) & np.isfinite(odds)) or bands[0] != 0:
            raise ValueError("odds do not fit their steps")
        return cls(zero=int(document["zero"]), steps=steps, bands=bands, odds=odds)


def count_levels(starts: Integers, sizes: Integers, *, zero: int, steps: Integers) -> Integers:
    """The number of levels in each interval whose largest divisor is each step. Shapes: (m, c)."""
    below, ends = (-(-(levels[:, None] - zero) // steps) for levels in (starts, starts + sizes))
    multiples: Integers = ends - below
    multiples[:, :-1] -= multiples[:, 1:]
    has_zero = _hold(starts, sizes, zero).astype(np.int64)
    multiples[:, -1] -= has_zero
    multiples[:, 0] += has_zero
    return multiples


def _hold(starts: Integers, sizes: Integers, level: int) -> Flags:
    """Which intervals a level is in."""
    return (starts <= level) & (level < starts + sizes)


def find_steps(levels: Integers, *, zero: int, steps: Sequence[int]) -> Integers:
    """The place of the largest step that divides the number at each level. Shapes: (n,)."""
    numbers, found = levels - zero, np.zeros(len(levels), np.int64)
    left = np.arange(len(levels))
    for step in steps[1:]:
        left = left[(numbers[left] % step == 0) & (numbers[left] != 0)]
        found[left] += 1
    return found


def choose_bands(intervals: Intervals, facts: Attribute, *, stddev: float) -> Integers:
    """Where bands of magnitude begin, each with enough records to estimate odds.

    Privacy: of what is released. Units: `stddev` is that of the noise to come, in counts.
    """
    ends = intervals.starts + intervals.sizes
    held = np.append(0.0, np.cumsum(np.where(intervals.sizes > 1, intervals.masses, 0.0)))
    edges = np.unique([facts.zero_level + sign * step for step in facts.round_steps for sign in (1, -1)])
    edges = edges[(edges > 0) & (edges < ends[-1])]
    below, bands = np.interp(edges, np.append(0, ends), held), [0]
    least, before = _LEAST_BAND * stddev, 0.0
    for edge, mass in zip(edges.tolist(), below.tolist(), strict=True):
        if mass - before >= least and held[-1] - mass >= least:
            bands.append(edge)
            before = mass
    return np.array(bands, np.int64)


def estimate_odds(
    counts: Floats, intervals: Intervals, facts: Attribute, *, bands: Integers, stddev: float
) -> RoundSteps | None:
    """The odds of levels in intervals by the noisy counts of steps; None if these show only noise.

    Privacy: post-processing of releases. Shapes: (b, c) counts.
    """
    zero, steps = facts.zero_level, np.array(facts.round_steps, np.int64)
    odds, ends = np.ones(counts.shape), intervals.starts + intervals.sizes
    limits = np.append(bands, ends[-1])
    for band, own in enumerate(counts):
        starts = np.maximum(intervals.starts, limits[band])
        widths = np.minimum(ends, limits[band + 1]) - starts
        used = (widths > 0) & (intervals.sizes > 1) & (intervals.masses > 0)
        if np.any(used):
            masses = (intervals.masses * widths / intervals.sizes)[used]
            levels = count_levels(starts[used], widths[used], zero=zero, steps=steps)
            odds[band] = _fit_odds(own, masses / masses.sum(), levels, stddev=stddev)
    if np.all(odds == 1.0):
        return None
    return RoundSteps(zero=zero, steps=steps, bands=bands, odds=odds)


def _fit_odds(counts: Floats, shares: Floats, levels: Integers, *, stddev: float) -> Floats:
    """The odds of a band. Shapes: (c,) noisy counts, (m,) shares of intervals, (m, c) how many levels they have."""
    widths = levels.sum(axis=1)
    by_chance = (shares / widths) @ levels
    total = max(float(counts.sum()), 0.0)
    # For each step and all coarser ones together: values beyond chance, in stddevs.
    excess = np.cumsum((counts - total * by_chance)[:0:-1]) / (stddev * np.sqrt(np.arange(1, len(counts))))
    if excess.max() < _IS_ROUNDED:
        return np.ones(len(counts))
    labels = _pool(counts, total * by_chance, stddev)
    held = np.bincount(labels, counts)
    held = np.where(held >= _TOLD * stddev * np.sqrt(np.bincount(labels)), held, 0.0)
    if not held.sum():
        return np.ones(len(counts))
    grouped = np.stack([levels[:, labels == label].sum(axis=1) for label in range(len(held))], axis=1)
    return match_totals(held, shares, grouped)[labels]


def match_totals(held: AnyArray, shares: Floats, levels: Integers) -> Floats:
    """The odds of levels of each kind with which all intervals together match the counts.

    Shapes: `held` (c,), not all 0; `shares` (m,) of intervals; `levels` (m, c), how many of each kind they have.
    Source: Deming and Stephan 1940 (iterative proportional fitting).
    """
    odds = np.ones(len(held))
    for _ in range(_ROUNDS):
        weights = odds * levels
        got = (shares / weights.sum(axis=1)) @ weights
        odds *= np.where(got > 0, held / held.sum() / np.where(got > 0, got, 1.0), 1.0)
        odds = np.maximum(odds / odds.max(), _LEAST_ODDS)
    return odds


def _pool(counts: Floats, by_chance: Floats, stddev: float) -> Integers:
    """Labels of steps: one with the next finer ones until they hold enough together, or would by chance."""
    labels = np.zeros(len(counts), np.int64)
    label, members = 0, 0
    held = expected = 0.0
    for place in range(len(counts) - 1, -1, -1):
        labels[place], members = label, members + 1
        held, expected = held + counts[place], expected + by_chance[place]
        if max(held, expected) >= _STANDS_OUT * stddev * math.sqrt(members):
            label, members, held, expected = label + 1, 0, 0.0, 0.0
    if members and label:
        labels[labels == label] = label - 1
    return labels
