"""Cells of answered pairs that are taken for empty: the others of their row, or column, hold all that it has.

A fit that lets codes differ no more than answers ask leaves a little of everything everywhere: rows of a degree with
the wrong years of schooling, each such cell far below the noise. All cells of a row together are not.
"""

import numpy as np

from dpwgan.array_types import Flags, Floats
from dpwgan.marginals.answers.measurements import MeasuredMarginals
from dpwgan.marginals.answers.zeros import Zeros
from dpwgan.marginals.loss import Probabilities

# How many stddevs of its noise a cell that holds something has at least; how many of theirs may be left of a row beside
# all of these; and how many the rest would have, were the two attributes independent, lest nothing be told.
_STANDS_OUT, _LEFT, _TELLS = 3.0, 1.0, 12.0


def find_empty(measured: MeasuredMarginals, probabilities: Probabilities, *, records: float) -> Zeros:
    """Finds the pairs of groups that answers say are empty, as far as noise lets them.

    A cell of few records beside large ones is taken for empty, too: the noise hides it.
    `probabilities`: of the fitted codes, whose means say how many records each group has.
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
    """Cells of rows whose other cells hold all that they have. Shapes: (rows, columns); (rows,) and (columns,) sums."""
    holds = counts >= _STANDS_OUT * stddevs
    expected = np.outer(own, others) / max(others.sum(), 1.0)
    # What a row has in all is about as well known as one more answer.
    noise = np.sqrt(np.sum(np.square(stddevs), axis=1, where=holds) + np.square(stddevs).mean(axis=1))
    left = own - np.sum(counts, axis=1, where=holds)
    rest = np.sum(expected, axis=1, where=~holds)
    full = holds.any(axis=1) & (left < _LEFT * noise) & (rest > _TELLS * noise)
    flags: Flags = full[:, np.newaxis] & ~holds
    return flags
