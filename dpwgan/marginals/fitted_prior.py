"""What noisy counts are on the mean, under a prior that is fitted to all of them.

Few cells that hold much are so told from many that hold little even where none stands out of its noise by itself.
Privacy: post-processing of released counts.
"""

import numpy as np
import numpy.typing as npt

from dpwgan.table.storage import cut

Floats = npt.NDArray[np.float64]

RATIO = 1.5
"""How far apart the multiples lie that counts are held against."""

# Around each multiple counts have a stddev of so many times it: together they leave no gaps.
_WIDTH = 0.25
# First odds weigh as much as so many counts.
_FIRST_COUNTS = 3.0
_TURNS = 30
# So many counts are looked at together.
_CHUNK = 16_384


def take_means(
    noisy: Floats,
    *,
    stddev: float,
    scales: Floats,
    multiples: Floats,
    first_odds: Floats,
    elsewhere: Floats | None = None,
) -> Floats:
    """The posterior means of counts that lie near some multiple of their scale each.

    How many lie near each multiple is what all counts together say, and where they say little the `first_odds`. With
    `elsewhere` the last of the multiples stands for counts that may be anywhere, with this variance.
    Shapes: (m,) counts, `scales` and `elsewhere`; (k,) `multiples` and `first_odds`, which add up to 1. Units: counts
    of records, their squares; `stddev` is that of the noise.
    Source: Robbins 1956 (empirical Bayes) and Laird 1978 (a prior fitted by expectation and maximisation), here with a
      mixture of normals for a prior.
    """

    def lay_out(rows: slice) -> tuple[Floats, Floats]:
        """How far counts are from each multiple, and with what variance they lie around it, noise included."""
        sizes = np.outer(scales[rows], multiples)
        spreads = np.square(_WIDTH * sizes)
        if elsewhere is not None:
            spreads[:, -1] = elsewhere[rows]
        return noisy[rows, np.newaxis] - sizes, spreads + stddev**2

    chunks = list(cut(len(noisy), size=_CHUNK))
    likelihoods = np.empty((len(noisy), len(multiples)))
    for rows in chunks:
        errors, together = lay_out(rows)
        logarithms = -(np.square(errors) / together + np.log(together)) / 2.0
        likelihoods[rows] = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    odds = first_odds
    for _ in range(_TURNS):
        # Not by the library of matrices, whose sums may go by the number of cores.
        sums = np.einsum("ij,i->j", likelihoods, 1.0 / np.einsum("ij,j->i", likelihoods, odds))
        odds = odds * sums + _FIRST_COUNTS * first_odds
        odds = odds / odds.sum()
    means = np.empty(len(noisy))
    for rows in chunks:
        errors, together = lay_out(rows)
        parts = likelihoods[rows] * odds
        parts /= parts.sum(axis=1, keepdims=True)
        means[rows] = noisy[rows] - np.sum(parts * errors * (stddev**2 / together), axis=1)
    return means
