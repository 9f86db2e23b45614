"""Cells of answered pairs that are taken for empty: the other cells of their row, or column, hold all of it.

A fit that lets codes differ no more than answers ask leaves a little mass everywhere: rows of a degree with the wrong
years of schooling. Each such cell is far below the noise, but all of a row together are not.
"""

import numpy as np

from dpwgan.array_types import Flags, Floats
from dpwgan.marginals.answers.measurements import MeasuredMarginals
from dpwgan.marginals.answers.zeros import Zeros
from dpwgan.marginals.loss import Probabilities

# In stddevs of noise: what a cell that is not empty holds at least; what may be left of a row beside those; and what
# the rest would have to hold under independence for the test to have power.
_STANDS_OUT, _LEFT, _TELLS = 3.0, 1.0, 12.0


def find_empty(measured: MeasuredMarginals, probabilities: Probabilities, *, records: float) -> Zeros:
    """Finds the pairs of groups that answers show to be empty; so is a cell of few records that the noise hides.

    `probabilities`: the fitted codes, whose means give the records of each group.
    Privacy: post-processing of released answers. Shapes: (codes, width).
    """
    views, shares = measured.views, probabilities.mean(axis=0, dtype=np.float64)
    found: dict[tuple[int, ...], Flags] = {}
    for marginal in measured:
        if len(marginal) != 2:
            continue
        own, others = (records * views.take(shares, view) for view in marginal)
        counts = records * measured.get_shares(marginal).astype(np.float64)
        stddevs = records * measured.get_stddevs(marginal)
        full = _find_in_rows(counts, stddevs, own, others) | _find_in_rows(counts.T, stddevs.T, others, own).T
        cells: Flags = views.part(views.part(full, marginal[0]).T, marginal[1]).T
        attributes = views.find_attributes(marginal)
        found[attributes] = found.get(attributes, np.False_) | cells
    return {attributes: flags for attributes, flags in found.items() if flags.any()}


def _find_in_rows(counts: Floats, stddevs: Floats, own: Floats, others: Floats) -> Flags:
    """Cells of rows whose other cells hold all of the row. Shapes: (rows, columns); (rows,) and (columns,) sums."""
    holds = counts >= _STANDS_OUT * stddevs
    expected = np.outer(own, others) / max(others.sum(), 1.0)
    # A row's total is known about as well as one more answer.
    noise = np.sqrt(np.sum(np.square(stddevs), axis=1, where=holds) + np.square(stddevs).mean(axis=1))
    left = own - np.sum(counts, axis=1, where=holds)
    rest = np.sum(expected, axis=1, where=~holds)
    full = holds.any(axis=1) & (left < _LEFT * noise) & (rest > _TELLS * noise)
    flags: Flags = full[:, np.newaxis] & ~holds
    return flags
