"""Posterior means of noisy counts, under a prior that is fitted to all of them (empirical Bayes).

So a few cells that hold much are told from many that hold little even if none stands out of its noise by itself.
Privacy: post-processing of released counts.
"""

from typing import NamedTuple

import numpy as np

from dpwgan.array_types import Floats
from dpwgan.table.storage import cut

RATIO = 1.5
"""The ratio of neighbouring multiples in the prior."""

# The prior stddev around each size, over the size: multiples leave no gaps.
_WIDTH = 0.25
# First odds weigh as much as so many counts.
_FIRST_COUNTS = 3.0
_TURNS = 30
# So many counts are looked at together.
_CHUNK = 16_384


class Posterior(NamedTuple):
    """Means and variances of counts, and the log evidence of what was observed, up to a constant.

    Shapes: all alike. Units: counts of records, their squares.
    """

    means: Floats
    variances: Floats
    evidence: Floats

    @property
    def transposed(self) -> "Posterior":
        """The transposed posterior."""
        return Posterior(*(part.T for part in self))


def hold_against(sizes: Floats, noisy: Floats, *, stddev: float, spreads: Floats | None = None) -> Posterior:
    """The posterior of counts around these sizes, with prior variances proportional to their squares, or `spreads`.

    Shapes: any that broadcast. Source: the posterior of a normal variable seen through normal noise.
    """
    spreads = np.square(_WIDTH * sizes) if spreads is None else spreads
    errors, together = noisy - sizes, spreads + stddev**2
    kept = stddev**2 / together
    return Posterior(noisy - errors * kept, kept * spreads, -(np.square(errors) / together + np.log(together)) / 2.0)


def fit_odds(likelihoods: Floats, first_odds: Floats) -> Floats:
    """The frequencies of kinds, fitted by expectation maximisation with `first_odds` as pseudocounts.

    Shapes: (m, k) likelihoods of things by kinds, (k,), adding up to 1. Source: Laird 1978.
    """
    odds = first_odds
    for _ in range(_TURNS):
        # Not by BLAS, whose sums may depend on the number of cores.
        sums = np.einsum("ij,i->j", likelihoods, 1.0 / np.einsum("ij,j->i", likelihoods, odds))
        odds = odds * sums + _FIRST_COUNTS * first_odds
        odds = odds / odds.sum()
    return odds


def take_likelihoods(evidence: Floats) -> tuple[Floats, Floats]:
    """Likelihoods of kinds over that of the likeliest, and its logarithm. Shapes: (..., k) to the like and (...,)."""
    most = evidence.max(axis=-1)
    return np.exp(evidence - most[..., np.newaxis]), most


def take_posterior(
    noisy: Floats,
    *,
    stddev: float,
    scales: Floats,
    multiples: Floats,
    first_odds: Floats,
    elsewhere: Floats | None = None,
) -> Posterior:
    """The posterior of counts that lie near some multiple of a scale each, with fitted odds of multiples.

    With `elsewhere` the last multiple stands for counts that may be anywhere, with this variance.
    Shapes: (m,) counts, `scales` and `elsewhere`; (k,) `multiples` and `first_odds`. Units: counts of records, their
    squares; `stddev` is that of the noise.
    Source: Robbins 1956 (empirical Bayes), here with a mixture of normals for a prior; `fit_odds`.
    """

    def hold(rows: slice) -> Posterior:
        sizes = np.outer(scales[rows], multiples)
        spreads = np.square(_WIDTH * sizes)
        if elsewhere is not None:
            spreads[:, -1] = elsewhere[rows]
        return hold_against(sizes, noisy[rows, np.newaxis], stddev=stddev, spreads=spreads)

    chunks = list(cut(len(noisy), size=_CHUNK))
    likelihoods = np.empty((len(noisy), len(multiples)))
    for rows in chunks:
        likelihoods[rows], _ = take_likelihoods(hold(rows).evidence)
    odds = fit_odds(likelihoods, first_odds)
    found = Posterior(*np.empty((3, len(noisy))))
    for rows in chunks:
        for whole, part in zip(found, mix(hold(rows), odds), strict=True):
            whole[rows] = part
    return found


def mix(kinds: Posterior, odds: Floats) -> Posterior:
    """The posterior of counts that are of one of several kinds. Shapes: (..., k), (k,) odds, to (...,)."""
    likelihoods, most = take_likelihoods(kinds.evidence)
    parts = likelihoods * odds
    sums = parts.sum(axis=-1)
    parts /= sums[..., np.newaxis]
    means = np.sum(parts * kinds.means, axis=-1)
    variances = np.sum(parts * (kinds.variances + np.square(kinds.means - means[..., np.newaxis])), axis=-1)
    return Posterior(means, variances, np.log(sums) + most)
