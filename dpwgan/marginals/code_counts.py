"""What codes hold by released counts: of each by itself, and of blocks of neighbours where a list in an order is long.

Privacy: post-processing of released counts.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.fitted_prior import RATIO, take_posterior
from dpwgan.marginals.one_ways import OneWays

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_STEPS_BELOW = 3
"""What codes may hold begins so many steps below what they are held against."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CodeCounts:
    """What is known of an attribute's codes.

    `noisy`: estimates of how many records each holds, not projected on anything; `likely`: how many it likely holds.
    `blocks`: the block that each was counted in, too, beside `sizes`, how many codes it has; each code its own block
    where it was counted by itself alone.
    Shapes: (codes,) each. Units: counts of records; `stddev` is that of the noise on a count by itself.
    """

    noisy: Floats
    likely: Floats
    stddev: float
    blocks: Integers
    sizes: Integers

    def find_variances(self, labels: Integers) -> Floats:
        """The variance of the noise on the sum of the codes of each label. Shapes: (codes,) to (labels,).

        Of a block of w codes both it and each code were counted: their sum is off by w / (w + 1) of a variance.
        """
        together, firsts, own = np.unique(
            np.stack((labels, self.blocks)), axis=1, return_index=True, return_counts=True
        )
        shared = np.where(self.sizes[firsts] > 1, np.square(own) / (self.sizes[firsts] + 1.0), 0.0)
        variances: Floats = self.stddev**2 * np.bincount(together[0], own - shared)
        return variances


def find_code_counts(one_ways: OneWays, index: int) -> CodeCounts:
    """What one-ways say of an attribute's codes."""
    attribute = one_ways.plan.attributes[index]
    single, stddev = one_ways.get_single(index)
    own = np.arange(len(single))
    alone = CodeCounts(
        noisy=single,
        likely=take_likely(single, stddev=stddev),
        stddev=stddev,
        blocks=own,
        sizes=np.ones_like(own),
    )
    return alone if attribute.levels or not attribute.counted_in_blocks else _share_out_blocks(one_ways, index, alone)


def _share_out_blocks(one_ways: OneWays, index: int, alone: CodeCounts) -> CodeCounts:
    """What neighbours hold together is told from their blocks, as of a number's levels, and shared out by what each
    likely holds beside it: a list may be an age's, or that of districts.

    `alone`: the codes that are in no block; they come last.
    Source: Hay, Rastogi, Miklau, Suciu 2010, arXiv:0904.0942 (counts of two heights made consistent).
    """
    (starts, counts), *looks = one_ways.histograms[index]
    listed = len(one_ways.plan.attributes[index].counted_in_blocks)
    counts, sizes = counts[-len(starts) :], np.diff(starts, append=listed)
    of = np.repeat(np.arange(len(starts)), sizes)
    # Where the look at each was lost, codes of a block are as likely as each other.
    each = looks[0][1][-listed:] if looks else (counts / sizes)[of]
    each = each + ((counts - np.bincount(of, each)) / (sizes + 1))[of]
    intervals = one_ways.split(index)
    held = np.repeat(intervals.masses / intervals.sizes, intervals.sizes)
    found = take_likely(each, stddev=one_ways.stddev, scales=held)
    sums = np.repeat(np.add.reduceat(found, intervals.starts), intervals.sizes)
    masses = np.repeat(intervals.masses, intervals.sizes)
    return CodeCounts(
        noisy=np.append(each, alone.noisy),
        likely=np.append(np.divide(masses * found, sums, out=held, where=sums > 0), alone.likely),
        stddev=one_ways.stddev,
        blocks=np.append(of, len(starts) + alone.blocks),
        sizes=np.append(sizes[of], alone.sizes),
    )


def take_likely(counts: Floats, *, stddev: float, scales: Floats | None = None) -> Floats:
    """What codes hold by their noisy counts: how unequal codes are is what all of a column's counts say together.

    Those that noise takes below a bar hold more on the mean than their counts say, those above it less.
    `scales`: what each is held against in place of the stddev.
    Source: `take_posterior`.
    """
    if not len(counts) or stddev == 0.0:
        return counts
    least = stddev * RATIO**-_STEPS_BELOW
    scales = np.full(len(counts), stddev) if scales is None else np.maximum(scales, least)
    above = math.ceil(math.log(max(1.0, (counts / scales).max()), RATIO))
    multiples = np.append(0.0, RATIO ** np.arange(-_STEPS_BELOW, above + 1.0))
    odds = np.full(len(multiples), 1.0 / len(multiples))
    # Far below 0 the mean may be, too, as all that is likely there lies around 0.
    found = take_posterior(counts, stddev=stddev, scales=scales, multiples=multiples, first_odds=odds)
    return np.maximum(found.means, 0)
