"""Whether numbers have the variance that they should, and no other."""

import numpy as np
import numpy.typing as npt
from scipy import stats

FALSE_ALARM = 1e-6


def has_variance(noise: npt.NDArray[np.float64], *, stddev: float = 1.0) -> bool:
    """Tells whether centred Gaussian numbers pass a two-sided chi-square test of their stddev, false alarm 1e-6."""
    statistic = float(np.sum((noise / stddev) ** 2))
    tail = min(stats.chi2.cdf(statistic, noise.size), stats.chi2.sf(statistic, noise.size))
    return bool(2 * tail >= FALSE_ALARM)
