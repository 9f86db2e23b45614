"""Denoises pairs where one column determines the other: a county its state, a product its category.

A row of such a pair has nearly all of its records in one column. Noise hides which if cells are looked at one by one;
but the row's total is known, and that all of it lies in one place tells which.
Privacy: post-processing of released counts.
"""

import numpy as np

from dpwgan.array_types import Floats
from dpwgan.marginals.fitted_prior import Posterior, fit_odds, hold_against, mix, take_likelihoods

# The part of a row outside its column.
_BESIDE = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5)
# First odds: half of all rows are of no such kind.
_FIRST_ODDS = np.append(0.5, np.full(len(_BESIDE), 0.5 / len(_BESIDE)))
# Weight of the row's own expected shares in the prior of its column; the rest is that of all rows.
_OWN = 0.9
# The least expected count that is divided by.
_LEAST_COUNT = 1e-9


def draw_to_columns(noisy: Floats, expected: Floats, cells: Posterior, *, stddev: float) -> Posterior:
    """Shrinks a pair's counts towards one cell a row, or one a column, if the answer bears that out; else `cells`.

    How many rows are such is fitted to all together. `cells`: the posterior of each cell by itself. `expected`: by what
    was known before.
    Shapes: all alike, (rows, columns). Units: counts of records.
    """
    by_row = _draw(noisy, expected, cells, stddev=stddev)
    by_column = _draw(noisy.T, expected.T, cells.transposed, stddev=stddev).transposed
    return max(cells, by_row, by_column, key=lambda found: float(found.evidence.sum()))


def _draw(noisy: Floats, expected: Floats, cells: Posterior, *, stddev: float) -> Posterior:
    """As `draw_to_columns`, by rows; a row's evidence is divided among its cells."""
    expected = np.maximum(expected, _LEAST_COUNT)
    held, shares = expected.sum(axis=1, keepdims=True), expected.sum(axis=0) / expected.sum()
    likely = np.log(_OWN * expected / held + (1.0 - _OWN) * shares)

    def settle(beside: float) -> Posterior:
        """The posterior of rows that have all but the part `beside` in one column."""
        off, on = (
            hold_against(beside * held * shares + there, noisy, stddev=stddev) for there in (0.0, (1.0 - beside) * held)
        )
        odds, most = take_likelihoods(likely + on.evidence - off.evidence)
        sums = odds.sum(axis=1)
        odds /= sums[:, np.newaxis]
        apart = on.means - off.means
        variances = off.variances + odds * (on.variances - off.variances) + odds * (1.0 - odds) * np.square(apart)
        return Posterior(off.means + odds * apart, variances, off.evidence.sum(axis=1) + most + np.log(sums))

    kinds = [cells._replace(evidence=cells.evidence.sum(axis=1)), *map(settle, _BESIDE)]
    means, variances, evidence = (np.stack(parts, axis=-1) for parts in zip(*kinds, strict=True))
    odds_of_kinds = fit_odds(take_likelihoods(evidence)[0], _FIRST_ODDS)
    found = mix(Posterior(means, variances, evidence[:, np.newaxis]), odds_of_kinds)
    return found._replace(evidence=np.broadcast_to(found.evidence / noisy.shape[1], noisy.shape))
