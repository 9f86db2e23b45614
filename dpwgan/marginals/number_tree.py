"""Which intervals of levels to tell apart, and how many records each holds, from noisy histograms of several widths.

The blocks of all histograms are nodes of one binary tree, because each histogram is 16 times as coarse as the next.
Upwards, every node gets its best estimate from what was measured in it and below it; these estimates are independent
for nodes side by side, so what they say about two halves of a node is a test of whether the halves differ. Downwards,
the estimates are made consistent with the total.
Source: Hay, Rastogi, Miklau, Suciu 2010, arXiv:0904.0942 (both passes); Donoho 1997, "CART and best-ortho-basis", and
  Barron, Birge, Massart 1999 (a dyadic partition by penalised least squares).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.one_ways import BRANCHING

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_SPLIT_PENALTY = 4.0
"""What a further interval must take off the chi-square of the fit: a lone difference counts from 2 stddevs on."""

_LEAST_MASS = 1.5
"""How many stddevs an interval must hold, lest what it holds be given to the other half of the node that it halves.

Held above 0 alone, each empty half that noise made positive would take from the full one, at every halving anew.
"""

_HALVINGS = BRANCHING.bit_length() - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Intervals:
    """Neighbouring intervals that cover all levels, each as if its records were spread evenly over it.

    Shapes: (m,) each. `masses`: consistent estimates, not negative, of the records in each. `counts`, `variances`: the
    unbiased estimate from measurements inside the interval alone, independent from interval to interval.
    """

    starts: Integers
    sizes: Integers
    masses: Floats
    counts: Floats
    variances: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scale:
    """All nodes of one width: estimates from below, and whether the fit tells their halves apart."""

    counts: Floats
    variances: Floats
    is_split: npt.NDArray[np.bool_]


class NumberTree:
    """The noisy histograms of one number's levels as a binary tree of estimates.

    Shapes: `blocks` holds (blocks,) counts, the coarsest histogram first; the finest one has `levels` of them.
    Units: counts of records, each with independent noise of stddev `stddev`.
    """

    def __init__(self, blocks: Sequence[Floats], *, stddev: float) -> None:
        self.levels = len(blocks[-1])
        self._scales = _fold(blocks, variance=stddev**2)

    @property
    def total(self) -> tuple[float, float]:
        """The estimated number of records on all levels, and its variance."""
        root = self._scales[-1]
        return float(root.counts[0]), float(root.variances[0])

    def split(self, *, total: float, most_count: float) -> Intervals:
        """Cuts the levels into intervals in which nothing but noise is to be seen, and none above `most_count`.

        `total` is how many records there are on all levels; an interval of one level may hold any number.
        """
        nodes, masses, fits = np.zeros(1, np.int64), np.array([total]), np.ones(1, bool)
        found: list[tuple[Floats, ...]] = []
        for height in range(len(self._scales) - 1, -1, -1):
            scale = self._scales[height]
            sizes = self._count_levels(nodes, height)
            # A node whose halves look alike is cut by width only, and so is everything below it.
            fits = fits & scale.is_split[nodes]
            goes_on = (sizes > 1) & (fits | (masses > most_count))
            ends = ~goes_on
            found.append(
                (
                    nodes[ends] << height,
                    sizes[ends],
                    masses[ends],
                    scale.counts[nodes[ends]],
                    scale.variances[nodes[ends]],
                )
            )
            if not np.any(goes_on):
                break
            nodes, sizes, masses, fits = nodes[goes_on], sizes[goes_on], masses[goes_on], fits[goes_on]
            nodes, masses = self._halve(nodes, masses, fits, sizes, height=height)
            exists = self._count_levels(nodes, height - 1) > 0
            nodes, masses, fits = nodes[exists], masses[exists], np.repeat(fits, 2)[exists]
        starts, sizes, masses, counts, variances = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = np.argsort(starts)
        return Intervals(
            starts=starts[order],
            sizes=sizes[order],
            masses=masses[order],
            counts=counts[order],
            variances=variances[order],
        )

    def _halve(
        self,
        nodes: Integers,
        masses: Floats,
        fits: npt.NDArray[np.bool_],
        sizes: Integers,
        *,
        height: int,
    ) -> tuple[Integers, Floats]:
        below = self._scales[height - 1]
        left, right = nodes * 2, nodes * 2 + 1
        has_right = self._count_levels(right, height - 1) > 0
        inside = np.where(has_right, right, left)
        zeros = np.zeros(len(nodes))
        right_count = np.where(has_right, below.counts[inside], zeros)
        right_variance = np.where(has_right, below.variances[inside], zeros)
        # What the halves are off their node's mass is shared in the ratio of their variances.
        left_share = below.variances[left] / (below.variances[left] + right_variance)
        fitted = below.counts[left] + left_share * (masses - below.counts[left] - right_count)
        even = masses * (self._count_levels(left, height - 1) / sizes)
        left_mass = np.where(has_right, np.where(fits, self._clear(fitted, masses, left, inside, below), even), masses)
        pairs = np.stack((left, right), axis=1).ravel()
        return pairs, np.stack((left_mass, masses - left_mass), axis=1).ravel()

    def _clear(self, left_mass: Floats, masses: Floats, left: Integers, right: Integers, below: _Scale) -> Floats:
        """Moves all of a node's mass to one half where the other one is mere noise with nothing to tell apart in it."""
        left_variance, right_variance = below.variances[left], below.variances[right]
        noise = _LEAST_MASS * np.sqrt(left_variance * right_variance / (left_variance + right_variance))
        left_is_noise = ~below.is_split[left] & (left_mass < noise)
        right_is_noise = ~below.is_split[right] & (masses - left_mass < noise)
        cleared = np.where(left_is_noise & ~right_is_noise, 0.0, left_mass)
        cleared = np.where(right_is_noise & ~left_is_noise, masses, cleared)
        return np.clip(cleared, 0.0, masses)

    def _count_levels(self, nodes: Integers, height: int) -> Integers:
        sizes: Integers = np.clip(self.levels - (nodes << height), 0, 1 << height)
        return sizes


def _fold(blocks: Sequence[Floats], *, variance: float) -> list[_Scale]:
    """Climbs from single levels to the root, halving the number of nodes each time."""
    levels = len(blocks[-1])
    measured = {_HALVINGS * depth: counts for depth, counts in enumerate(reversed(blocks))}
    counts, variances = blocks[-1], np.full(levels, variance)
    sizes = np.ones(levels)
    misfit, cost = np.zeros(levels), np.full(levels, _SPLIT_PENALTY)
    scales = [_Scale(counts=counts, variances=variances, is_split=np.zeros(levels, bool))]
    while len(counts) > 1:
        low, low_variance, low_size, low_misfit, low_cost = _take(0, counts, variances, sizes, misfit, cost)
        high, high_variance, high_size, high_misfit, high_cost = _take(1, counts, variances, sizes, misfit, cost)
        contrast = high_size * low - low_size * high
        spread = high_size**2 * low_variance + low_size**2 * high_variance
        misfit = low_misfit + high_misfit + contrast**2 / np.where(high_size > 0, spread, 1.0)
        apart = low_cost + high_cost
        is_split = apart < misfit + _SPLIT_PENALTY
        cost = np.minimum(apart, misfit + _SPLIT_PENALTY)
        counts, variances, sizes = low + high, low_variance + high_variance, low_size + high_size
        here = measured.get(len(scales))
        if here is not None:
            precision = 1.0 / variances + 1.0 / variance
            counts = (counts / variances + here / variance) / precision
            variances = 1.0 / precision
        scales.append(_Scale(counts=counts, variances=variances, is_split=is_split))
    return scales


def _take(side: int, *arrays: Floats) -> list[Floats]:
    """Gives every second entry of each array from `side` on, with a 0 for a right half that does not exist."""
    if len(arrays[0]) % 2 and side:
        return [np.append(array[1::2], 0.0) for array in arrays]
    return [array[side::2] for array in arrays]
