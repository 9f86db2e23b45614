"""The shares of a generator's classes: what they have to be, and labels that are drawn by them."""

import numpy as np
import numpy.typing as npt


def are_shares(shares: npt.NDArray[np.float64], *, classes: int) -> bool:
    """Says whether these are the shares of so many classes."""
    return shares.shape == (classes,) and bool(np.all(shares >= 0)) and bool(np.isclose(shares.sum(), 1.0))


def draw_labels(shares: npt.NDArray[np.float64], records: int, *, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draws labels by shares that are public or released. Shapes: (classes,) to (records,)."""
    return rng.choice(len(shares), size=records, p=shares / shares.sum())
