"""Public projections, and matrices that are covariances: what every projected Gaussian is made with."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def draw_projection(width: int, dimension: int, *, rng: np.random.Generator) -> Floats:
    """Draws orthonormal columns, uniformly: all directions are alike. Privacy: public randomness.

    Shapes: (width, dimension).
    Source: Mezzadri 2007, arXiv:math-ph/0609050 (QR of Gaussians, with signs set right).
    """
    columns, triangle = np.linalg.qr(rng.standard_normal((width, dimension)))
    result: Floats = columns * np.where(np.diag(triangle) < 0, -1.0, 1.0)
    return result


def project_on_semidefinite(matrix: Floats) -> Floats:
    """Gives a factor F of the nearest positive semidefinite matrix F F^T to a symmetric one, in Frobenius norm.

    Privacy: post-processing. Shapes: (p, p) to (p, p).
    Source: Higham 1988 (negative eigenvalues become 0).
    """
    values, vectors = np.linalg.eigh(matrix)
    result: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return result
