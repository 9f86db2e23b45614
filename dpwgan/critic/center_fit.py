"""Gradient descent of the centers of a generator of images, until what is cut has the released means.

It sees released numbers and public ones, never a row: post-processing.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_BATCH = 128
# The step is halved after this many, and falls with their number: draws are averaged out (Robbins and Monro 1951).
_PATIENCE = 10.0


def fit_centers(means: Floats, factors: Floats, *, waves: Floats, steps: int, rng: np.random.Generator) -> Floats:
    """Moves centers so that images, once cut to the range of pixels, have the means asked for.

    Without it they have them before the cut only, and cutting makes dark pictures brighter. Each step draws a batch of
    images of every class and moves the center by their mean's error: the gradient of half its square, but for the
    pixels at either end, which do not move with the center.
    Privacy: post-processing; all arguments are released or public numbers.
    Shapes: `means` (classes, m), `factors` (classes, m, m) for latents from the left, `waves` (m, pixels), orthonormal.
    Source: Robbins and Monro 1951 (stochastic approximation).
    """
    centers = means.copy()
    short = waves.astype(np.float32)
    maps = factors.astype(np.float32)
    for step in range(steps):
        for label, wanted in enumerate(means):
            latents = rng.standard_normal((_BATCH, means.shape[1]), dtype=np.float32)
            points = centers[label].astype(np.float32) + latents @ maps[label]
            shown = np.clip(0.5 + points @ short, 0.0, 1.0).mean(axis=0, dtype=np.float64)
            centers[label] -= ((shown - 0.5) @ waves.T - wanted) / (1.0 + step / _PATIENCE)
    return centers
