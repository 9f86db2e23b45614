"""Neighbours that are searched for: the record, or the pair of records, that moves a release most."""

from collections.abc import Callable

import numpy as np
from scipy import optimize


def find_farthest(
    measure: Callable[[np.ndarray, np.ndarray], float], dimension: int, *, rng: np.random.Generator
) -> float:
    """How far a release moves at most, as `measure` has it of two records in the unit ball."""

    def to_ball(numbers: np.ndarray) -> np.ndarray:
        return numbers / max(1.0, float(np.linalg.norm(numbers)))

    def moved(numbers: np.ndarray) -> float:
        return measure(to_ball(numbers[:dimension]), to_ball(numbers[dimension:]))

    half = np.arange(dimension) < dimension / 2
    starts = [rng.standard_normal(2 * dimension) for _ in range(30)]
    starts += [np.concatenate((half, ~half)).astype(float), np.ones(2 * dimension), np.repeat([1.0, -1.0], dimension)]
    found = [moved(start) for start in starts]
    for start in sorted(starts, key=moved)[-3:]:
        result = optimize.minimize(
            lambda numbers: -moved(numbers), start, method="Powell", options={"maxiter": 20, "maxfev": 2_000}
        )
        found.append(-float(result.fun))
    return max(found)
