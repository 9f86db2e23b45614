"""Private rows as a one-layer network reads them: one-hot, with a 1 for the bias, summed over a block at a time.

No sum needs more of the rows than a block: where they lie on disk, they stay there.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import sparse, special

from dpwgan.array_types import AnyIntegers, Floats
from dpwgan.errors import DpwganError
from dpwgan.marginals.answers.measurements import GroupedRows
from dpwgan.marginals.groups import GroupLayout
from dpwgan.table.rows import Derivation, Sum
from dpwgan.table.storage import allocate_beside, cut, let_go

# Cells of rows that are written as one-hot at a time: 3 MB, which a processor's cache holds between two products.
_BLOCK_CELLS = 1 << 18


class OneHotRows:
    """A table's rows, or a worker's share of them, as one-hot rows x of width W with a 1 for the bias at their end.

    Privacy: every sum is exact, and for the caller to put noise on. Each row adds a term of its own, as in the proofs
      of `dpwgan.methods.published.one_layer`; sums over blocks, or over workers, differ from one sum by rounding alone.
    Shapes: `groups` (n, d), which may be mapped from a file; vectors (W + 1,), the bias last.
    """

    def __init__(self, groups: AnyIntegers, sizes: Sequence[int]) -> None:
        self._groups, self.sizes = groups, tuple(sizes)
        self._curvature: Floats | None = None

    def sum_slopes(self, weights: Floats) -> Floats:
        """Adds up s x, where s = sigmoid(-w.x) is the slope of a row's logistic loss ln(1 + e^(-w.x)).

        Keeps each row's curvature s (1 - s) where the rows lie, for `multiply_curvature`.
        """
        if self._curvature is None:
            self._curvature = allocate_beside(self._groups, (len(self._groups), 1), np.float64)
        total = np.zeros(weights.size)
        for rows, block in self._cut():
            slopes = special.expit(-_multiply(block, weights))
            self._curvature[rows, 0] = slopes * (1 - slopes)
            let_go(self._curvature)
            _add_rows(block, slopes, into=total)
        return total

    def multiply_curvature(self, direction: Floats) -> Floats:
        """Adds up s (1 - s) (x.p) x for a direction p, at the weights that `sum_slopes` was last given.

        Raises: DpwganError, an internal error, if there were none yet.
        """
        if self._curvature is None:
            raise DpwganError("Internal error: a one-layer network's curvature was asked for before its slope.")
        total = np.zeros(direction.size)
        for rows, block in self._cut():
            _add_rows(block, self._curvature[rows, 0] * _multiply(block, direction), into=total)
            let_go(self._curvature)
        return total

    def sum_scores(self, weights: Floats, *, middle: float) -> Floats:
        """Adds up f_w(x) - middle. Shapes: the result (1,)."""
        scores = (special.expit(_multiply(block, weights)) for _, block in self._cut())
        return np.array([sum(float(np.sum(part - middle)) for part in scores)])

    def count_groups(self) -> Floats:
        """Counts the rows in each group. Shapes: the result (W,)."""
        total = np.zeros(sum(self.sizes))
        for _, block in self._cut():
            total += block.T @ np.ones(block.shape[0])
        return total

    def _cut(self) -> Iterator[tuple[slice, sparse.csr_matrix]]:
        """Writes rows as sparse one-hot tables, a block of rows at a time. Shapes: (b, W) each, without the bias."""
        attributes, width, groups = len(self.sizes), sum(self.sizes), self._groups
        size = max(1, min(_BLOCK_CELLS // attributes, len(groups)))
        starts = np.array(GroupLayout(self.sizes).starts, np.int32)  # one type for all, or numpy adds through a buffer
        ones, ends = np.ones(size * attributes), np.arange(size + 1, dtype=np.int32) * attributes
        for rows in cut(len(groups), size=size):
            count = rows.stop - rows.start
            cells = np.add(groups[rows], starts, dtype=np.int32, casting="unsafe").ravel()
            let_go(groups)
            yield rows, sparse.csr_matrix((ones[: cells.size], cells, ends[: count + 1]), shape=(count, width))


ONE_HOT = Derivation[GroupedRows, OneHotRows](
    "one-hot rows", lambda rows, argument, beside: OneHotRows(rows.groups, rows.layout.sizes)
)
SLOPES = Sum[OneHotRows]("one-layer slopes", lambda rows, argument, weights: rows.sum_slopes(weights))
CURVATURE = Sum[OneHotRows]("one-layer curvature", lambda rows, argument, vector: rows.multiply_curvature(vector))
SCORES = Sum[OneHotRows]("one-layer scores", lambda rows, middle, weights: rows.sum_scores(weights, middle=middle))
GROUP_COUNTS = Sum[OneHotRows]("one-layer counts", lambda rows, argument, array: rows.count_groups())


def _multiply(block: sparse.csr_matrix, vector: Floats) -> Floats:
    """X.v for every row of a block."""
    products: Floats = block @ vector[:-1] + vector[-1]
    return products


def _add_rows(block: sparse.csr_matrix, shares: Floats, *, into: Floats) -> None:
    """Adds every row of a block, times its share."""
    into[:-1] += block.T @ shares
    into[-1] += shares.sum()
