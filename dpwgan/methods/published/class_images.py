"""What released mean embeddings say of each class of images: its share, mean and covariance, less what is noise.

All of it is post-processing of one release. Numbers are in weighted cosine coefficients, see `ImageFeatures`. Features
are (v, c) / |(v, c)|, so that the sum of u u^T over a class holds E[w v v^T], E[w c v] and E[w c^2] with
w = 1 / |(v, c)|^2, and their ratios are means weighted by w, which differs little between records.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.simplex import project_on_simplex
from dpwgan.methods.published.embeddings import Embedding, ImageFeatures

Floats = npt.NDArray[np.float64]

# In stddevs of the noise.
_SEEN = 2.0
# A class with less than this part of the weight that its size asks for is noise: weights differ by a few times at most.
_LEAST_WEIGHT = 0.25


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassImages:
    """The model that a release implies. Shapes: `shares` (classes,), `means` (classes, m), `factors` (classes, m, m).

    The covariance of a class is factors[k] @ factors[k].T; `stddevs` (m,) is how far each coefficient varies within
    classes, and what noise leaves unknown of that.
    """

    shares: Floats
    means: Floats
    factors: Floats
    stddevs: Floats


def estimate_classes(embedding: Embedding, features: ImageFeatures, *, records: int) -> ClassImages:
    """Gives shares, means and covariances of the classes.

    What classes differ in is shrunk towards what they share, and covariances beside the diagonal towards 0, by as much
    as the noise is of them, frequency by frequency: high ones, which noise drowns, count little or nothing.
    Privacy: post-processing of the release and of public numbers.
    Source: James and Stein 1961, positive part, for each group of entries; Higham 1988 (nearest semidefinite matrix).
    """
    products, c = embedding.products, features.constant
    orders = features.orders
    sizes = project_on_simplex(np.trace(products, axis1=1, axis2=2), np.ones(len(products)), total=float(records))
    # The weight of the constant: never above 1 a record, whatever the noise says.
    weight = min(max(float(products[:, -1, -1].sum()) / records, 1e-3), 1.0)
    # What is not above its own noise is no divisor: a class too small to be seen is drawn towards gray.
    seen = np.maximum(_LEAST_WEIGHT * weight * sizes, _SEEN * math.sqrt(2.0) * embedding.stddev)
    weights = np.maximum(products[:, -1, -1], seen)
    # One row of the matrix: entries have this stddev, and in the mean over all this.
    noise = embedding.stddev * c / weights
    overall = embedding.pooled_stddev * c / weights.sum()
    raw = products[:, :-1, -1] * (c / weights[:, np.newaxis])
    center = np.average(raw, axis=0, weights=weights)
    center *= _keep(center, orders, overall**2)
    means = center + np.stack(
        [one * _keep(one, orders, stddev**2) for one, stddev in zip(raw - center, noise, strict=True)]
    )
    raw_covariances = (
        products[:, :-1, :-1] * (c**2 / weights)[:, np.newaxis, np.newaxis]
        - raw[:, :, np.newaxis] * (raw[:, np.newaxis, :])
    )
    pooled = np.average(raw_covariances, axis=0, weights=weights)
    spread = _smooth_diagonal(np.diag(pooled), orders, stddev=math.sqrt(2.0) * overall * c)
    higher = np.maximum.outer(orders, orders)
    beside = ~np.eye(len(orders), dtype=bool)
    shared = np.diag(spread)
    shared[beside] = (pooled * _keep(pooled, np.where(beside, higher, -1.0), (overall * c) ** 2))[beside]
    groups = np.where(beside, higher, -1.0 - higher)
    factors = np.stack(
        [
            factor_semidefinite(
                shared + difference * _keep(difference, groups, np.where(beside, 1.0, 2.0) * (stddev * c) ** 2)
            )
            for difference, stddev in zip(raw_covariances - pooled, noise, strict=True)
        ]
    )
    unknown = float(np.median(noise)) * c
    return ClassImages(shares=sizes / sizes.sum(), means=means, factors=factors, stddevs=np.sqrt(spread + unknown))


def factor_semidefinite(matrix: Floats) -> Floats:
    """Gives a factor F of the positive semidefinite matrix F F^T nearest to a symmetric one. Shapes: (m, m)."""
    values, vectors = np.linalg.eigh(matrix)
    result: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return result


def _keep(values: Floats, groups: Floats, variance: float | Floats) -> Floats:
    """The part of each entry to keep: of its group's mean square, what is not noise."""
    variances = np.broadcast_to(variance, values.shape)
    kept = np.zeros_like(values)
    for group in np.unique(groups):
        mine = groups == group
        square = float(np.square(values[mine]).mean())
        kept[mine] = max(0.0, 1.0 - float(variances[mine].mean()) / square) if square > 0 else 0.0
    return kept


def _smooth_diagonal(diagonal: Floats, orders: Floats, *, stddev: float) -> Floats:
    """Shrinks variances towards the mean of their frequency; what is left is above 0."""
    result = np.empty_like(diagonal)
    for order in np.unique(orders):
        mine = orders == order
        middle = max(float(diagonal[mine].mean()), 0.2 * stddev / math.sqrt(np.count_nonzero(mine)))
        apart = diagonal[mine] - middle
        result[mine] = np.maximum(middle + apart * _keep(apart, np.zeros(len(apart)), stddev**2), 0.1 * middle)
    return result
