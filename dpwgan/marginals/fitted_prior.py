"""What noisy counts are on the mean, under a prior that is fitted to all of them.

Few cells that hold much are so told from many that hold little even where none stands out of its noise by itself.
Privacy: post-processing of released counts.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

RATIO = 1.5
"""How far apart the sizes lie that counts are held against."""

# Around each size counts have a stddev of so many times it: together they leave no gaps.
_WIDTH = 0.25
# First odds weigh as much as so many counts.
_FIRST_COUNTS = 3.0
_TURNS = 30


def take_means(
    noisy: Floats, *, variances: Floats, sizes: Floats, first_odds: Floats, elsewhere: Floats | None = None
) -> Floats:
    """The posterior means of counts that lie near one of some sizes each.

    How many lie near each is what all counts together say, and where they say little the `first_odds`. With
    `elsewhere` the last of the sizes stands for counts that may be anywhere, with this variance.
    Shapes: (m,) counts, `variances` of their noise and `elsewhere`, (m, k) `sizes` or (1, k) if of all counts, (k,)
    `first_odds`, which add up to 1. Units: counts of records, their squares.
    Source: Robbins 1956 (empirical Bayes) and Laird 1978 (a prior fitted by expectation and maximisation), here with a
      mixture of normals for a prior.
    """
    counts, noise, spreads = noisy[:, np.newaxis], variances[:, np.newaxis], np.square(_WIDTH * sizes)
    if elsewhere is not None:
        spreads[:, -1] = elsewhere
    together = spreads + noise
    logarithms = -(np.square(counts - sizes) / together + np.log(together)) / 2.0
    likelihoods = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    odds = first_odds
    for _ in range(_TURNS):
        parts = likelihoods * odds
        parts /= parts.sum(axis=1, keepdims=True)
        odds = parts.sum(axis=0) + _FIRST_COUNTS * first_odds
        odds /= odds.sum()
    means: Floats = np.sum(parts * (sizes + (counts - sizes) * (spreads / together)), axis=1)
    return means
