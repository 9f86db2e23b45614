"""Draws from many distributions at once: by a point in each, on one scale for all of them."""

from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


def draw_by_odds(odds: npt.NDArray[np.floating[Any]], rows: Integers, *, rng: np.random.Generator) -> Integers:
    """Draws a category by the odds of each row that is named. Shapes: `odds` (m, categories); `rows` (n,), to (n,)."""
    return find_on_scale(odds, rows, rows + rng.random(len(rows)))


def find_on_scale(odds: npt.NDArray[np.floating[Any]], rows: Integers, points: npt.NDArray[np.float64]) -> Integers:
    """The category that each point falls on in its row of odds: one scale rises over all rows, i holds [i, i + 1).

    Shapes: `odds` (m, categories); `rows` and `points` (n,), a point at or above its row's number, below the next one.
    """
    limits = np.cumsum(odds, axis=1, dtype=np.float64)
    # A row of no odds, of which nothing is drawn, must not be no number: all others are searched for past it.
    limits /= np.where(limits[:, -1:] > 0, limits[:, -1:], 1.0)
    limits += np.arange(len(limits))[:, np.newaxis]
    found = np.searchsorted(limits.ravel(), points, side="right") - rows * odds.shape[1]
    return np.clip(found, 0, odds.shape[1] - 1)
