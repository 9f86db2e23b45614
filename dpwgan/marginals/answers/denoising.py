"""Denoises an answer: shrinks it towards what was expected, at every scale of attributes with an order.

A pair of numbers has thousands of cells, each of which may lie below the noise while blocks of neighbours stand far out
of it. So blocks come first, then their halves, down to cells.
Privacy: post-processing of released counts.
"""

import math
from collections.abc import Sequence

import numpy as np

from dpwgan.array_types import Floats
from dpwgan.marginals.answers.settled import draw_to_columns
from dpwgan.marginals.answers.views import join_neighbours, part_neighbours
from dpwgan.marginals.fitted_prior import RATIO, Posterior, take_posterior

SPREAD = 1.0
OUTLIER = 4.0

# The prior: a count is some multiple of the expected one, likelier the nearer to 1; or, rarely, anywhere, with so many
# stddevs of noise as its spread, or its own distance if that is more.
_ANYWHERE, _SELDOM = 8.0, 0.01
_NEAR = np.append(0.0, RATIO ** np.arange(-4.0, 15.0))
_MULTIPLES = np.append(_NEAR, 1.0)
_ODDS = np.exp(-np.square(np.log(np.maximum(_NEAR, 0.1))) / 2.0)
_FIRST_ODDS = np.append((1.0 - _SELDOM) * _ODDS / _ODDS.sum(), _SELDOM)
# Below it a sum is none, to divide by.
_LEAST_SUM = 1e-12
# The least stddev of a denoised cell over that of the noise: the prior is fitted, and may be wrong.
_LEAST_STDDEV = 0.5
# The least variance of a half over the possible one: halves are hardly ever exactly as expected.
_LEAST_SPREAD = 0.05
# Where blocks begin, on the first and on other axes, in eighths of an axis: the mean over these has no block edges.
_OFFSETS = ((0, 0), (1, 1), (2, 1), (1, 2), (3, 3), (2, 3))


def denoise(noisy: Floats, expected: Floats, *, stddev: float, ordered: Sequence[bool]) -> tuple[Floats, Floats]:
    """The denoised counts of a marginal, and the stddev of the error left in each.

    Cells are shrunk towards their blocks of neighbours, and blocks towards what was expected. `ordered`: which
    attributes have an order; if none has, cells are shrunk towards multiples of what was expected. Pairs are then
    compared with the case that one attribute determines the other.
    Shapes: one axis an attribute, all alike. Units: counts of records.
    """
    centre = take_sums(noisy, expected)
    axes = [axis for axis, has_order in enumerate(ordered) if has_order]
    cells = draw_to_multiples(noisy, centre, stddev=stddev)
    if axes:
        blocks = np.mean([_descend(noisy, centre, stddev=stddev, axes=axes, eighths=at) for at in _OFFSETS], axis=0)
        drawn = draw_towards(noisy, blocks, stddev=stddev)
        cells = Posterior(drawn, np.full(drawn.shape, stddev**2), cells.evidence)
    if noisy.ndim == 2:
        cells = draw_to_columns(noisy, expected, cells, stddev=stddev)
    return cells.means, np.clip(np.sqrt(cells.variances), _LEAST_STDDEV * stddev, stddev)


def draw_to_multiples(noisy: Floats, expected: Floats, *, stddev: float) -> Posterior:
    """Shrinks noisy counts towards multiples of expected ones, whose frequencies are fitted to all counts together.

    If columns determine each other most cells are empty and few hold many times what was expected; nearly independent
    columns keep what was expected, and empty cells do not fill with noise.
    Shapes: all alike. Units: counts of records. Source: `take_posterior`.
    """
    counts, centre = noisy.ravel(), np.maximum(expected, _LEAST_SUM).ravel()
    elsewhere = np.maximum((_ANYWHERE * stddev) ** 2, np.square(counts - centre))
    found = take_posterior(
        counts, stddev=stddev, scales=centre, multiples=_MULTIPLES, first_odds=_FIRST_ODDS, elsewhere=elsewhere
    )
    return Posterior(*(part.reshape(noisy.shape) for part in found))


def draw_towards(noisy: Floats, expected: Floats, *, stddev: float | Floats) -> Floats:
    """Shrinks noisy counts towards expected ones where the difference is no more than noise.

    The prior stddev of a count is `SPREAD` times the expected one: a cell expected to be nearly empty stays so unless
    it stands out, and does not fill with noise. What lies more than `OUTLIER` stddevs off moves by a seventeenth of its
    distance at most.
    Shapes: all alike. Units: counts of records.
    Source: the posterior mean of a normal variable (Efron and Morris 1973), with a cut for outliers.
    """
    return _draw(noisy, expected, variance=np.square(stddev), spread=np.square(SPREAD * expected))


def take_sums(noisy: Floats, expected: Floats) -> Floats:
    """Expected counts, corrected to the margins of the noisy ones in proportion to what was expected.

    The expected margins are those of one-ways, whose noise is large at a small budget: shrinkage towards them would
    lose what the answer says of each attribute by itself.
    Margins are met if attributes are expected to be independent, and nearly otherwise.
    Shapes: one axis an attribute, all alike.
    """
    error, share = noisy - expected, expected / max(float(expected.sum()), _LEAST_SUM)
    taken: Floats = expected - (error.ndim - 1) * error.sum() * share
    for axis in range(error.ndim):
        others = tuple(other for other in range(error.ndim) if other != axis)
        sums = np.maximum(share.sum(axis=others, keepdims=True), _LEAST_SUM)
        taken += share * (error.sum(axis=others, keepdims=True) / sums)
    return taken


def _draw(noisy: Floats, expected: Floats, *, variance: Floats | float, spread: Floats) -> Floats:
    """The posterior mean of counts, of noise `variance`, with prior variance `spread` around the expected ones.

    Of what lies more than `OUTLIER` stddevs off the squared distance is added to the prior variance.
    """
    error = noisy - expected
    square = np.square(error)
    prior = spread + np.where(square > OUTLIER**2 * variance, square, 0.0)
    drawn: Floats = expected + error * prior / np.maximum(prior + variance, _LEAST_SUM)
    return drawn


def _descend(
    noisy: Floats, expected: Floats, *, stddev: float, axes: Sequence[int], eighths: tuple[int, int]
) -> Floats:
    """Shares out the counts of blocks among their halves, the longest axis first, until blocks are cells.

    How much halves differ from what was expected is found at each width: the mean of what noise does not explain.
    `eighths` of an axis are put before it, so that blocks begin elsewhere.
    Source: Kolaczyk and Nowak 2004 (multiscale likelihoods, here of normal counts); Coifman and Donoho 1995 (the mean
      over shifts).
    """
    before = [0] * noisy.ndim
    for number, axis in enumerate(axes):
        before[axis] = eighths[min(number, 1)] * noisy.shape[axis] // 8
    heights = {axis: math.ceil(math.log2(before[axis] + noisy.shape[axis])) for axis in axes}
    after = [
        (1 << heights[axis]) - before[axis] - size if axis in heights else 0 for axis, size in enumerate(noisy.shape)
    ]
    pads = list(zip(before, after, strict=True))
    # Blocks of each width: noisy counts, expected ones, and how many cells they have.
    blocks = [np.pad(cells, pads) for cells in (noisy, np.maximum(expected, 0.0), np.ones(noisy.shape))]
    levels = [blocks]
    halved = []
    while any(heights.values()):
        axis = max((a for a in heights if heights[a]), key=lambda a: (levels[-1][0].shape[a], a))
        heights[axis] -= 1
        halved.append(axis)
        levels.append([join_neighbours(cells, 2, axis=axis) for cells in levels[-1]])
    counts, centre, cells = levels.pop()
    masses = draw_towards(counts, centre, stddev=stddev * np.sqrt(np.maximum(cells, 1.0)))
    while levels:
        masses = _share_out(masses, *levels.pop(), axis=halved.pop(), variance=stddev**2)
    return masses[tuple(slice(low, masses.shape[axis] - high) for axis, (low, high) in enumerate(pads))]


def _share_out(masses: Floats, noisy: Floats, expected: Floats, cells: Floats, *, axis: int, variance: float) -> Floats:
    """The counts of halves of blocks that hold `masses`. `variance`: of the noise of a cell."""
    counts, centres, sizes = (part_neighbours(part, axis) for part in (noisy, expected, cells))
    both = sizes[0] + sizes[1]
    even = sizes[0] / np.maximum(both, 1.0)
    total = centres[0] + centres[1]
    share = np.where(total > 0, centres[0] / np.where(total > 0, total, 1.0), even)
    # What halves are off their block goes to each by its cells: the variance of the first that is left.
    fitted = counts[0] + even * (masses - counts[0] - counts[1])
    noise = variance * sizes[1] * even
    possible = np.square(masses) * share * (1.0 - share)
    # Few halves may differ much by chance alone: two stddevs of what noise does are left out.
    known = noise > 0
    unexplained = np.sum(np.square(fitted - masses * share) - noise, where=known)
    unexplained -= 2.0 * math.sqrt(2.0 * float(np.sum(np.square(noise))))
    spread = np.clip(unexplained / max(float(np.sum(possible, where=known)), _LEAST_SUM), _LEAST_SPREAD, 1.0)
    first = _draw(fitted, masses * share, variance=noise, spread=spread * possible)
    first = np.where(sizes[0] == 0, 0.0, np.where(sizes[1] == 0, masses, first))
    halves = np.stack((first, masses - first), axis=axis + 1)
    shared: Floats = halves.reshape(noisy.shape)
    return shared
