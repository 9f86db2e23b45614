"""A public table as a prior for pairs of groups, trusted as far as private answers confirm it.

Privacy: the public table is not protected. Private data come in by releases alone: one-ways, to which its rows are
weighted, and answers, with which it is compared. So all of this is post-processing.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from dpwgan.array_types import AnyIntegers, Floats, Floats32
from dpwgan.marginals.answers.measurements import MeasuredMarginals
from dpwgan.marginals.answers.views import Views
from dpwgan.marginals.draws import weigh_rows
from dpwgan.marginals.groups import Marginal
from dpwgan.marginals.loss import Codes, Probabilities, Sums

# The most weight of a public row over the mean.
_MOST_WEIGHT = 20.0
# It is trusted if answers agree with it by so many stddevs of their noise, and if it explains this share of what they
# say beyond noise.
_STDDEVS, _LEAST_EXPLAINED = 3.0, 0.5
# A first code is one row of the public table to this part, and the released one-ways to the rest.
_ROW_SHARE = 0.8
_LEAST_PROBABILITY = 1e-6
_LEAST_STDDEV = 1e-9


def choose_kept(noisy: Floats, public: Floats, stddevs: Floats) -> float:
    """The James-Stein factor, from 0 to 1: how much of the difference between noisy and public numbers to keep.

    Whatever the public numbers are, shrinkage does not increase the expected sum of squared errors over variances, for
    normal noise and three numbers or more.
    Privacy: post-processing. Shapes: all (k,).
    Source: James and Stein 1961; Efron and Morris 1973, its positive part.
    """
    far = float(np.square((noisy - public) / np.maximum(stddevs, _LEAST_STDDEV)).sum())
    return max(0.0, 1.0 - max(0, len(noisy) - 2) / far) if far else 0.0


class PublicPrior:
    """A loss of a generator whose pairs differ from those of a public table.

    Public rows are weighted to the released one-ways (raking, Deming and Stephan 1940), so that they add dependence
    alone. Answers to pairs are regressed on the table's deviation from independence: the slope is the trust, the
    residual beyond noise is its error, and if it explains less than half of what answers say it is not used.
    """

    def __init__(self, groups: AnyIntegers, views: Views, *, one_ways: Sequence[Floats], stddev: float) -> None:
        """Shapes: `groups` (public rows, attributes); `one_ways[a]` (size of a,).

        Units: `stddev` is that of the noise on an answer's share.
        """
        from scipy import sparse  # here, because a plan needs none of it

        layout = views.own
        self._groups, self._views, self._layout, self._stddev = groups, views, layout, stddev
        self._weights = weigh_rows(groups, dict(enumerate(one_ways)), most=_MOST_WEIGHT)
        rows, attributes = groups.shape
        places = (groups.astype(np.int64) + np.asarray(layout.starts[:attributes])).ravel()
        hot = sparse.csr_matrix((np.ones(rows * attributes), places, np.arange(rows + 1) * attributes))
        hot.resize(rows, layout.width)
        self._one_ways = np.concatenate(one_ways)
        self._independent = np.outer(self._one_ways, self._one_ways)
        self.pairs = (hot.T @ hot.multiply(self._weights[:, np.newaxis])).toarray()
        self._effective_rows = 1.0 / float(np.square(self._weights).sum())
        # Sums over the cells of all answers: squares of their deviation from independence, products with the table's
        # deviation, squares of that, variances of noise, and shares.
        self.evidence = np.zeros(5)
        self._loss: tuple[bytes, MeasuredMarginals] | None = None

    def note(self, marginal: Marginal, shares: Floats) -> None:
        """Compares the table with a released answer, as it came; only pairs count."""
        if len(marginal) != 2:
            return
        independent, public = (self._views.take_pair(cells, marginal) for cells in (self._independent, self.pairs))
        found, said = shares - independent, public - independent
        size = np.maximum(public, independent).sum()
        sums = np.square(found).sum(), (found * said).sum(), np.square(said).sum(), found.size * self._stddev**2, size
        self.evidence = np.add(self.evidence, sums)

    @property
    def agreement(self) -> float:
        """The trust in the table's deviation from independence, from 0 to 1."""
        found, product, square, noise, _ = self.evidence.tolist()
        if product <= _STDDEVS * self._stddev * math.sqrt(square):
            return 0.0
        if product**2 < _LEAST_EXPLAINED * square * (found - noise):
            return 0.0
        return float(min(1.0, product / square))

    def draw_codes(self, codes: int, *, rng: np.random.Generator) -> Floats32 | None:
        """First codes near rows of the table, if it is trusted. Shapes: (codes, width) logits."""
        if not self.agreement:
            return None
        points = (np.arange(codes) + rng.random()) / codes
        rows = np.minimum(np.searchsorted(np.cumsum(self._weights), points), len(self._weights) - 1)
        shares = np.tile((1.0 - _ROW_SHARE) * self._one_ways, (codes, 1))
        for attribute in range(self._layout.attributes):
            shares[np.arange(codes), self._layout.starts[attribute] + self._groups[rows, attribute]] += _ROW_SHARE
        logits: Floats32 = np.log(np.maximum(shares, _LEAST_PROBABILITY)).astype(np.float32)
        return logits

    def count_sums(self) -> int:
        """As in `ReleasedLoss`: 0 if the table is not trusted."""
        return sum(loss.count_sums() for loss in self._list_losses())

    def add_up(self, codes: Codes, *, into: Sums) -> None:
        """As in `ReleasedLoss`."""
        for loss in self._list_losses():
            loss.add_up(codes, into=into)

    def add_gradient(self, codes: Codes, means: Sums, sums: Sums, *, into: Probabilities) -> None:
        """As in `ReleasedLoss`: nothing if the table is not trusted."""
        for loss in self._list_losses():
            loss.add_gradient(codes, means, sums, into=into)

    def _list_losses(self) -> list[MeasuredMarginals]:
        """All pairs as answers, with the error that the answers so far have shown: one loss, or none if not trusted."""
        agreement = self.agreement
        if not agreement:
            return []
        key = self.evidence.tobytes()
        if self._loss is None or self._loss[0] != key:
            found, product, square, noise, size = self.evidence.tolist()
            error = max(0.0, found - 2.0 * agreement * product + agreement**2 * square - noise) / size
            pairs = self._independent + agreement * (self.pairs - self._independent)
            spread = np.maximum(self.pairs, self._independent) + 1.0 / self._effective_rows
            stddevs = np.sqrt((error + 1.0 / self._effective_rows) * spread)
            loss = MeasuredMarginals(self._views)
            for pair in itertools.combinations(range(self._layout.attributes), 2):
                cells = self._layout.get_slice(pair[0]), self._layout.get_slice(pair[1])
                loss.add(pair, pairs[cells], stddev=stddevs[cells])
            self._loss = key, loss
        return [self._loss[1]]
