"""Noise on symmetric matrices that needs no delta: the difference of two random Wishart matrices.

Theorem. Let S be a sum of z z^T over records, |z|^2 <= R. Let A and B be independent, of a density in proportion to
e^(-E tr(.)/R) on the positive semidefinite matrices. Then S + A - B is E-DP under zero-out. Proof: take a record
out, S' = S - z z^T. S + A - B = S' + (A + z z^T) - B, and A -> A + z z^T keeps volumes, stays within the semidefinite
matrices and lowers the density by the factor e^(-E |z|^2/R) >= e^-E; so P(S + A - B in O) <= e^E P(S' + A - B in O).
The other way round the same holds with B -> B + z z^T in place of A. Replaced, both happen: 2 E. Classes that no record
shares cost together what one does.

A density in proportion to e^(-E tr(.)/R) is Wishart's with p + 1 degrees of freedom and scale matrix R/(2 E), that of
A = R/(2 E) G G^T, G p x (p + 1) of independent standard normals. At p = 1 the noise is Laplace's.
The Wishart mechanism of Jiang, Xie, Zhang 2016 adds A alone, whose outputs tell the two tables apart for certain where
S' + A is out of reach of S; the difference has every symmetric matrix within reach.

Why: one number moves by R at most, and all of them together by R (p + 1)/2 in L1. Laplace noise for that pushes
eigenvalues by 1.4 R p^1.5/E, this by 1.7 R p/E (`EDGE`).
"""

import math

import numpy as np
import numpy.typing as npt

from dpwgan.array_types import Floats, Integers
from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import Wishart, check_whole

MOST_NOISE = 2.0**60
"""The largest noise: sums with it stay whole numbers of 64 bits."""

_EDGE_PLACE = math.sqrt(math.sqrt(5.0) - 2.0)

EDGE = 0.5 * (1.0 / _EDGE_PLACE + 2.0 * _EDGE_PLACE / (1.0 - _EDGE_PLACE**2))
"""Where the noise's eigenvalues end, in R p/E, for large p: half the least K of `shrink_eigenvalues`, 1.665."""


def add_wishart_noise(
    values: npt.ArrayLike, event: Wishart, *, trace_bound: int, rng: np.random.Generator
) -> tuple[Integers, float]:
    """Releases a symmetric matrix of whole numbers with such noise; gives the stddev beside the diagonal as well.

    Privacy: the caller vouches that zeroing out a record moves `values` by a semidefinite matrix of rank 1, up or down,
      of trace at most `trace_bound`, and replacing one by two such: see the module. The noise is drawn in IEEE
      floating point and rounded to whole numbers, as `values` are.
    Shapes: (p, p) to the same.
    Raises: PrivacyError if a value is no whole number, the matrix is not symmetric, or a number is out of range.
    Source: the module's theorem; after Jiang, Xie, Zhang 2016, arXiv:1511.05680; Wishart 1928 (the law).
    """
    check_whole("The trace bound of Wishart noise", trace_bound)
    matrix = np.asarray(values)
    if matrix.dtype.kind not in "iu" or matrix.ndim != 2 or not np.array_equal(matrix, matrix.T):
        raise PrivacyError("Only symmetric matrices of whole numbers can be released with Wishart noise.")
    p, scale = len(matrix), trace_bound / event.epsilon
    # Its eigenvalues end at 1.7 p scales; the chance of one beyond these is below e^-(2 p + 14), and 64 bits hold 8
    # times as much.
    if scale * (8 * p + 32) > MOST_NOISE:
        raise PrivacyError(f"An epsilon of {event.epsilon:.3g} is too small for Wishart noise on these sums.")
    noise = 0.5 * scale * (_draw_gram(p, rng=rng) - _draw_gram(p, rng=rng))
    rounded = np.rint(noise).astype(np.int64)
    # Products of matrices need not be symmetric to the last bit: one half is released, as the other one.
    rounded = np.triu(rounded) + np.triu(rounded, 1).T
    return matrix.astype(np.int64) + rounded, scale * math.sqrt((p + 1) / 2.0)


def shrink_eigenvalues(values: Floats, *, scale: float) -> Floats:
    """Gives each eigenvalue of a noisy matrix as what of it stands out of the noise; 0 within the noise's own.

    In units of p `scale`/2 the noise's law is, for large p, the free difference of two Marchenko-Pastur laws of rate 1,
    with R(z) = 2 z/(1 - z^2). A lone true eigenvalue 1/z shows as K(z) = 1/z + R(z), and its vector has the overlap
    1 - z^2 R'(z) with the true one; the product of both is best in Frobenius norm. Privacy: post-processing.
    Shapes: (p,) to the same. Units: `scale` is R/E.
    Source: Benaych-Georges, Nadakuditi 2011, arXiv:0910.2120 (lone eigenvalues); Gavish, Donoho 2017 (shrinkage).
    """
    unit = len(values) * scale / 2.0
    places = np.linspace(1e-3, _EDGE_PLACE, 2_000)
    squares = np.square(places)
    shown = 1.0 / places + 2.0 * places / (1.0 - squares)
    best = (1.0 - 2.0 * squares * (1.0 + squares) / np.square(1.0 - squares)) / places
    # Beyond the table a value is all but true.
    inside = np.interp(values / unit, shown[::-1], best[::-1], left=0.0)
    return np.where(values / unit > shown[0], values, unit * inside)


def _draw_gram(p: int, *, rng: np.random.Generator) -> Floats:
    normals = rng.standard_normal((p, p + 1))
    return np.asarray(normals @ normals.T, np.float64)
