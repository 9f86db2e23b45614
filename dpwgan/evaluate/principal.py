"""Distance of the first principal components of real and synthetic rows. NOT private."""

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import LinearOperator, eigsh

from dpwgan.array_types import Floats, Integers
from dpwgan.evaluate.tables import ComparedTable

_DENSE_WIDTH = 2_000  # a wider table's correlation matrix is not written down
_SMALLEST_SPREAD = 1e-9


def score_first_component(real: Floats, synthetic: Floats) -> float:
    """The distance of two first components: 0 the same, sqrt(2) at right angles. Lower is better.

    A component has no sign, so the nearer of the two counts.
    Source: Johnson 2019, "Generating Privacy Preserving Synthetic Datasets", evaluation of RON-Gauss and DP-GAN: the
      Euclidean norm of the difference of the two components.
    """
    cosine = abs(float(real @ synthetic))
    return float(np.sqrt(max(0.0, 2.0 - 2.0 * cosine)))


def find_first_component(table: ComparedTable) -> Floats:
    """The first principal component of the one-hot cells, each standardised; a cell that is constant has no part.

    Shapes: (sum of the columns' cells,), of norm 1.
    """
    means = np.concatenate([table.count_shares(place) for place in range(len(table.columns))])
    spread = np.sqrt(means * (1.0 - means))
    inverse = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > _SMALLEST_SPREAD)
    if not inverse.any():  # every column is constant
        return np.full(len(means), 1.0 / np.sqrt(len(means)))
    return (_from_matrix if len(means) <= _DENSE_WIDTH else _from_products)(table, means, inverse)


def _offsets(table: ComparedTable) -> Integers:
    return np.concatenate([[0], np.cumsum(table.sizes)[:-1]]).astype(np.int64)


def _from_matrix(table: ComparedTable, means: Floats, inverse: Floats) -> Floats:
    rows, columns = table.cells.shape
    places = (table.cells + _offsets(table)).ravel()
    indptr = np.arange(rows + 1, dtype=np.int64) * columns
    hot = csr_matrix((np.ones(rows * columns), places, indptr), shape=(rows, len(means)))
    together = (hot.T @ hot).toarray() / rows
    correlation = (together - np.outer(means, means)) * np.outer(inverse, inverse)
    last = len(means) - 1
    return np.asarray(eigh(correlation, subset_by_index=[last, last])[1][:, 0], dtype=np.float64)


def _from_products(table: ComparedTable, means: Floats, inverse: Floats) -> Floats:
    width = len(means)
    offsets, sizes = _offsets(table), table.sizes
    # A column after the other lies together in memory: it is gathered from once for every product.
    columns = [np.ascontiguousarray(table.cells[:, place]) for place in range(len(sizes))]

    def multiply(vector: Floats) -> Floats:
        scaled = vector.ravel() * inverse
        projected = np.full(table.rows, -float(means @ scaled))
        for cells, first, size in zip(columns, offsets, sizes, strict=True):
            projected += scaled[first : first + size][cells]
        sums = [
            np.bincount(cells, weights=projected, minlength=size) for cells, size in zip(columns, sizes, strict=True)
        ]
        together: Floats = (np.concatenate(sums) / table.rows - means * projected.mean()) * inverse
        return together

    operator = LinearOperator((width, width), matvec=multiply, dtype=np.float64)
    start = np.sqrt(means)  # any fixed vector would do: the same table gives the same component
    return np.asarray(eigsh(operator, k=1, v0=start, tol=1e-6)[1][:, 0], dtype=np.float64)
