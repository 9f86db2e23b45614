"""Gaussians that are clipped to [0, 1]: their moments, and the one that has given moments."""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

Floats = npt.NDArray[np.float64]

_BISECTIONS = 24
_LEAST_SPREAD, _MOST_SPREAD = 1e-4, 50.0
# A clipped Gaussian of a mean has any variance below that of a coin with the same mean; at the coin it is degenerate.
_MOST_VARIANCE = 0.95
_LEAST_MEAN = 1e-4


def fit_clipped(means: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Finds the location and the spread of Gaussians that have these means and variances after clipping to [0, 1].

    Variances too large for their mean are cut. With the mean held, a wider Gaussian has more variance after clipping,
    and with the spread held, one further up has a larger mean: two bisections, one within the other.
    Shapes: any, all the same.
    """
    means = np.clip(means, _LEAST_MEAN, 1.0 - _LEAST_MEAN)
    variances = np.clip(variances, 1e-8, _MOST_VARIANCE * means * (1.0 - means))
    lowest, highest = np.full_like(means, math.log(_LEAST_SPREAD)), np.full_like(means, math.log(_MOST_SPREAD))
    for _ in range(_BISECTIONS):
        middle = (lowest + highest) / 2
        spreads = np.exp(middle)
        locations = _locate(means, spreads)
        too_wide = clip_moments(locations, spreads)[1] > variances
        highest, lowest = np.where(too_wide, middle, highest), np.where(too_wide, lowest, middle)
    return locations, spreads


def _locate(means: Floats, spreads: Floats) -> Floats:
    """Finds where Gaussians of these spreads lie if they have these means after clipping."""
    # A clipped mean is within 1e-15 of 0 or 1 at eight spreads beyond.
    lowest, highest = -8.0 * spreads, 1.0 + 8.0 * spreads
    for _ in range(_BISECTIONS):
        middle = (lowest + highest) / 2
        too_high = clip_moments(middle, spreads)[0] > means
        highest, lowest = np.where(too_high, middle, highest), np.where(too_high, lowest, middle)
    result: Floats = (lowest + highest) / 2
    return result


def clip_moments(locations: Floats, spreads: Floats) -> tuple[Floats, Floats]:
    """Gives mean and variance of Gaussians that are clipped to [0, 1].

    Source: Tobin 1958 and Greene, Econometric Analysis, Theorem 19.3 (moments of the censored normal distribution).
    """
    low, high = -locations / spreads, (1.0 - locations) / spreads
    below, above = ndtr(low), ndtr(-high)
    at_low, at_high = np.exp(-0.5 * low**2) / np.sqrt(2 * np.pi), np.exp(-0.5 * high**2) / np.sqrt(2 * np.pi)
    inside = 1.0 - below - above
    mean = locations * inside + spreads * (at_low - at_high) + above
    square = (
        (locations**2 + spreads**2) * inside
        + 2 * locations * spreads * (at_low - at_high)
        + spreads**2 * (low * at_low - high * at_high)
        + above
    )
    return mean, np.maximum(square - mean**2, 0.0)
