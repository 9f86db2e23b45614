"""Rank correlations of all columns that have an order, in one release.

A table of many such columns, a survey or numbers of twelve months, has more pairs than can be asked for. A correlation
is one number a pair, not a table: so the products of all ranks are released at once, and denoised together.
Privacy: two releases, of the rows' norms and of their products; all else is post-processing. Which columns take part is
  public.
Source: Bross 1958 (ridits, here as ranks); Spearman 1904.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from dpwgan.array_types import Arrays, Floats
from dpwgan.marginals.answers.measurements import GroupedRows
from dpwgan.marginals.answers.row_products import add_rows, multiply_rows
from dpwgan.marginals.groups import GroupLayout
from dpwgan.marginals.layout import Attribute
from dpwgan.marginals.loss import Codes, Probabilities, Sums
from dpwgan.marginals.one_way.coarsening import AttributeGroups, Coarsening
from dpwgan.privacy.events import Gaussian, discrete_gaussian
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.release import Release
from dpwgan.table.rows import Rows, Sum
from dpwgan.table.storage import cut, let_go

NORMS_LABEL, CORRELATIONS_LABEL = "norms of ranks", "rank correlations"

# Ranks are whole numbers from minus this to this, so that sums are exact in whatever order rows are added.
_TOP = 128
# Bins of norms, and how much of their squares may be clipped: the less, the more noise.
_NORMS, _MOST_CUT = 16, 0.02
# Share of the budget of both releases that norms get.
_NORMS_SHARE = 0.2
# Room for the rounding of doubles where a row is cut.
_ROOM = 1.0 + 1e-9
_SWEEPS = 30
_LEAST = 1e-12


def has_order(attribute: Attribute) -> bool:
    """Whether an attribute's cells have an order, or are two. Privacy: of public facts alone."""
    known = attribute.codes - attribute.missing
    return attribute.levels > 1 or (not attribute.levels and (known == 2 or (attribute.ordered and known > 2)))


def plan_correlations(*, noise_multiplier: float) -> list[Release]:
    """Says what `measure_correlations` releases, for the ledger to reserve before.

    Units: `noise_multiplier` is what a lone release of the same cost would have.
    """
    return [
        Release(
            label=NORMS_LABEL,
            event=discrete_gaussian(noise_multiplier=noise_multiplier / math.sqrt(_NORMS_SHARE), cells=1),
            times=1,
            mechanism="discrete Gaussian noise on how many rows have ranks of which norm",
            sensitivity=1.0,
        ),
        Release(
            label=CORRELATIONS_LABEL,
            event=Gaussian(
                noise_multiplier=noise_multiplier / math.sqrt(1.0 - _NORMS_SHARE), replace_one_factor=math.sqrt(2.0)
            ),
            times=1,
            mechanism="continuous Gaussian noise on all products of two ranks together: over the largest, so not whole",
            sensitivity=1.0,
        ),
    ]


def rank_groups(coarsening: Coarsening, places: Sequence[int]) -> Floats:
    """The rank of each group of some attributes, by released shares; its mean over records is about 0.

    Missing values have rank 0. Shapes: (places, width), whole numbers; 0 outside an attribute's own groups.
    """
    layout = GroupLayout(coarsening.sizes)
    ranks = np.zeros((len(places), layout.width))
    for own, place in zip(ranks, places, strict=True):
        own[layout.get_slice(place)] = _rank(coarsening.attributes[place], coarsening.parts[place])
    return ranks


def _rank(attribute: Attribute, part: AttributeGroups) -> Floats:
    shares, is_code = part.probabilities[part.groups] * part.weights, part.starts < attribute.codes
    shares[is_code] *= ~attribute.is_missing[part.starts[is_code]]
    middles = 2.0 * np.cumsum(shares) - shares
    ranks = np.where(shares > 0, middles / max(float(shares.sum()), _LEAST) - 1.0, 0.0)
    found: Floats = np.rint(_TOP * np.bincount(part.groups, part.weights * ranks, minlength=part.size))
    return found


def _take_ranks(rows: GroupedRows, chunk: slice, places: Sequence[int], ranks: Floats) -> Floats:
    """The ranks of some rows. Shapes: (n, places)."""
    layout, groups = rows.layout, rows.groups[chunk]
    # Other workers are sent arrays as one row of numbers.
    of_places = ranks.reshape(len(places), layout.width)
    taken = [own[layout.get_slice(place)][groups[:, place]] for own, place in zip(of_places, places, strict=True)]
    return np.stack(taken, axis=1)


def _count_norms(rows: GroupedRows, argument: dict[str, Any], ranks: Floats) -> Floats:
    """The histogram of the rows' squared norms, in `_NORMS` bins up to the largest possible one."""
    counts = np.zeros(_NORMS)
    for chunk in cut(len(rows.groups)):
        squares = np.square(_take_ranks(rows, chunk, argument["places"], ranks)).sum(axis=1)
        let_go(rows.groups)
        steps = np.minimum(squares * _NORMS // argument["largest"], _NORMS - 1).astype(np.int64)
        counts += np.bincount(steps, minlength=_NORMS)
    return counts


def _add_up_products(rows: GroupedRows, argument: dict[str, Any], ranks: Floats) -> Floats:
    """The sum over rows of the products of each two ranks; a row's norm is clipped to a bound."""
    places = argument["places"]
    total = np.zeros((len(places), len(places)))
    for chunk in cut(len(rows.groups)):
        taken = _take_ranks(rows, chunk, places, ranks)
        let_go(rows.groups)
        norms = np.sqrt(np.square(taken).sum(axis=1, keepdims=True))
        kept = np.trunc(taken * np.minimum(1.0, argument["bound"] / np.maximum(norms, 1.0)))
        total += kept.T @ kept
    return total


NORMS = Sum[GroupedRows]("norms of ranks", _count_norms)
"""Counts of rows by the squared norm of their ranks."""
PRODUCTS = Sum[GroupedRows]("products of ranks", _add_up_products)
"""Sums of products of ranks."""


def measure_correlations(
    rows: Rows[GroupedRows], ranks: Floats, *, places: Sequence[int], shares: Floats, records: float, ledger: Ledger
) -> Arrays:
    """Releases the products of each two ranks, means over records, denoised; with the `stddev` of their noise.

    `shares`: the released ones of all groups.
    Privacy: a record adds 1 to one count of norms. Clipped to a norm of b, it adds products v_i v_j, i < j, whose
      squares add up to less than b^4/2; replaced, they move by b^2 in L2 at most, which is sqrt(2) times as much. They
      are released over b^2/sqrt(2): the reserved sensitivity is 1. The bound b is made of released counts.
    Units: of ranks from -1 to 1. Shapes: `ranks` as `rank_groups`, `shares` (width,); products (places, places).
    Raises: PrivacyError from the ledger.
    """
    # Where every column is known to be constant there are no ranks.
    largest = max(float(_TOP**2), float(np.square(ranks).max(axis=1).sum()))
    named = {"places": list(places), "largest": largest}
    norms = ledger.release(NORMS_LABEL, lambda: rows.sum(NORMS, argument=named, array=ranks))
    bound = _choose_bound(norms.values.astype(np.float64), stddev=norms.stddev, largest=largest, records=records)
    unit = _ROOM * bound**2 / math.sqrt(2.0)
    upper = np.triu_indices(len(ranks), 1)

    def add_up() -> Floats:
        total = rows.sum(PRODUCTS, argument={"places": list(places), "bound": bound}, array=ranks)
        return total[upper] / unit

    noisy = ledger.release(CORRELATIONS_LABEL, add_up)
    scale = unit / (records * _TOP**2)
    products = np.zeros((len(ranks), len(ranks)))
    products[upper] = noisy.values * scale
    products += products.T
    stddev = noisy.stddev * scale
    variances = np.square(ranks / _TOP) @ shares
    return {"products": shrink(products, variances, stddev=stddev), "stddev": np.array(stddev)}


def _choose_bound(counts: Floats, *, stddev: float, largest: float, records: float) -> float:
    """The least bound that clips little of the rows' squared norms, noise allowed for. Privacy: of released counts."""
    ends = largest * np.arange(1, _NORMS + 1) / _NORMS
    middles = ends - largest / _NORMS / 2
    for end in ends:
        cut_off = np.maximum(0.0, 1.0 - end / middles)
        if counts @ cut_off + stddev * math.sqrt(cut_off @ cut_off) <= _MOST_CUT * records:
            return math.sqrt(end)
    return math.sqrt(largest)


def shrink(products: Floats, variances: Floats, *, stddev: float) -> Floats:
    """Denoises a symmetric matrix whose diagonal is not known, by shrinking its eigenvalues.

    The diagonal is that of the result, found by iteration, and no larger than the variances.
    Shapes: (k, k) and (k,), to (k, k).
    Source: Gavish, Donoho 2017 (Frobenius loss), for a symmetric matrix: an eigenvalue x in noise of stddev 1 becomes
      sqrt(x^2 - 4 k), and 0 below 2 sqrt(k); principal factor analysis (Harman 1976) for the diagonal.
    """
    apart = ~np.eye(len(products), dtype=np.bool_)
    found: Floats = np.where(apart, products, 0.0)
    for _ in range(_SWEEPS):
        values, vectors = np.linalg.eigh(np.where(apart, products, found))
        left = np.sign(values) * np.sqrt(np.maximum(np.square(values) - 4.0 * len(products) * stddev**2, 0.0))
        found = (vectors * left) @ vectors.T
        fit = np.sqrt(np.minimum(1.0, variances / np.maximum(np.diag(found), _LEAST)))
        found *= np.outer(fit, fit)
    return found


class RankCorrelations:
    """Products of ranks that codes should have, as a loss: half the squared errors over the variance of the noise.

    Privacy: sees released numbers alone.
    """

    def __init__(self, ranks: Floats, products: Floats, *, stddev: float) -> None:
        """Shapes: `ranks` as `rank_groups`; (places, places) products. Units: as `measure_correlations`."""
        # Each place has ranks in its own groups alone.
        self._ranks = csr_array((ranks / _TOP).astype(np.float32))
        self._products = products.astype(np.float32)
        self._weight = 1.0 / stddev**2

    def count_sums(self) -> int:
        """The mean of each product."""
        return self._products.size

    def add_up(self, codes: Codes, *, into: Sums) -> None:
        """As in `ReleasedLoss`."""
        means = self._ranks @ codes.rows
        into[:] = multiply_rows(means, means, scale=codes.share).ravel()

    def add_gradient(self, codes: Codes, means: Sums, sums: Sums, *, into: Probabilities) -> None:
        """As in `ReleasedLoss`."""
        errors = sums.reshape(self._products.shape) - self._products
        np.fill_diagonal(errors, 0.0)
        ranks = self._ranks @ codes.rows
        slopes = np.zeros_like(ranks)
        add_rows(errors, ranks, scale=self._weight * codes.share, into=slopes)
        into += self._ranks.T @ slopes
