"""Corrects noisy counts: none negative, and together as many as there are records."""

import numpy as np

from dpwgan.array_types import Floats


def project_on_simplex(counts: Floats, variances: Floats, *, total: float) -> Floats:
    """The counts, none negative, that add to `total` and fit noisy ones best, weighted by their precision.

    With one variance for all it is the Euclidean projection; a count of larger variance takes more of the correction.
    Shapes: (k,) each; the variances and `total` are above 0.
    Source: Wang and Carreira-Perpinan 2013, arXiv:1309.1541, with weights.
    """
    ratios = counts / variances
    order = np.argsort(-ratios, kind="stable")
    # The multiplier of the total if exactly the first counts, down to this one, stay above 0.
    excess = (np.cumsum(counts[order]) - total) / np.cumsum(variances[order])
    last = max(int(np.count_nonzero(ratios[order] > excess)) - 1, 0)
    projected: Floats = np.maximum(counts - excess[last] * variances, 0.0)
    return projected
