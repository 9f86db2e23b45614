"""From noisy answers to the shares of each kind of gap between numbers, in each group of a column.

Privacy: post-processing of releases.
"""

import math

import numpy as np

from dpwgan.array_types import Floats, Floats32
from dpwgan.marginals.answers.denoising import draw_towards
from dpwgan.marginals.selection.comparisons import split
from dpwgan.marginals.simplex import project_on_simplex

# The smallest kinds, up to such a share of rows, are taken for empty where so many stddevs of noise explain them.
_LEAST_STDDEVS, _MOST_HIDDEN = 3.0, 0.15
# What chance adds to squares of counts is their number times the noise's variance, and so many stddevs of that.
_CHANCE = 4.0


def find_shares(noisy: Floats, expected: Floats, *, stddev: float) -> Floats32:
    """The shares in each group, shrunk towards those of all groups together as far as noise explains the difference.

    Those of all groups are shrunk towards the expected ones in the same way.
    Shapes: `noisy` and `expected` (groups, width).
    """
    totals, of_all = expected.sum(axis=1), expected.sum(axis=0)
    wanted = _leave_chance(noisy.sum(axis=0), of_all, stddev=stddev * math.sqrt(len(noisy)))
    if not np.array_equal(wanted, of_all):
        wanted = _hide(wanted, total=totals.sum(), least=_LEAST_STDDEVS * stddev * math.sqrt(len(noisy)))
    # Of each group as few rows move as lead from what was expected of all to what is wanted.
    stay = expected * np.minimum(wanted / np.maximum(of_all, 1e-9), 1.0)
    come = np.maximum(wanted - of_all, 0.0)
    centre = stay + np.outer(totals - stay.sum(axis=1), come / max(1e-9, come.sum()))
    drawn = np.maximum(_leave_chance(noisy, centre, stddev=stddev), 0.0)
    drawn[drawn.sum(axis=1) <= 0] = wanted if wanted.any() else 1.0
    shares: Floats32 = (drawn / drawn.sum(axis=1, keepdims=True)).astype(np.float32)
    return shares


def find_parts(noisy: Floats, expected: Floats, *, stddev: float, are_of_one: bool) -> Floats32:
    """The shares in each group; each coarser kind keeps its expected share, or one has all if `are_of_one`.

    Shapes: `noisy` and `expected` (groups, width).
    """
    wholes = split(expected)
    masses = np.stack([own.sum(axis=1) for own in wholes])
    if are_of_one:
        largest = masses.sum(axis=1).argmax()
        masses = np.where(np.arange(len(masses))[:, np.newaxis] == largest, masses.sum(axis=0), 0.0)
    parts = [
        mass[:, np.newaxis] * (find_shares(counts, own, stddev=stddev) if mass.any() else np.ones(own.shape))
        for mass, counts, own in zip(masses, split(noisy), wholes, strict=True)
    ]
    found = np.concatenate(parts, axis=1)
    found[found.sum(axis=1) <= 0] = 1.0
    shares: Floats32 = (found / found.sum(axis=1, keepdims=True)).astype(np.float32)
    return shares


def _leave_chance(noisy: Floats, expected: Floats, *, stddev: float) -> Floats:
    """Noisy counts shrunk towards expected ones; the less their squared errors exceed the noise's, the more."""
    errors, chance = noisy - expected, stddev**2 * (noisy.size + _CHANCE * math.sqrt(2.0 * noisy.size))
    unexplained = max(0.0, float(np.square(errors).sum()) - chance)
    spread = expected * min(1.0, math.sqrt(unexplained / max(1e-9, float(np.square(expected).sum()))))
    return expected + draw_towards(errors + spread, spread, stddev=stddev) - spread


def _hide(counts: Floats, *, total: float, least: float) -> Floats:
    """Counts that add to `total`; the smallest kinds, up to a share of all, are 0 if below `least`."""
    most = min(total, np.maximum(counts, 0.0).sum())
    counts = project_on_simplex(counts, np.ones(len(counts)), total=max(1.0, most))
    rising = np.argsort(counts, kind="stable")
    is_hidden = (counts[rising] < least) & (np.cumsum(counts[rising]) <= _MOST_HIDDEN * counts.sum())
    counts[rising[is_hidden]] = 0.0
    hidden: Floats = counts * (total / counts.sum())
    return hidden
