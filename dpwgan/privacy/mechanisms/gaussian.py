"""The Gaussian mechanism: adds Gaussian noise of the size that the charged event states."""

import numpy as np
import numpy.typing as npt

from dpwgan.array_types import Floats
from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import Gaussian, refuse_unless_positive


def add_gaussian_noise(
    values: npt.ArrayLike, event: Gaussian, *, sensitivity: float, rng: np.random.Generator
) -> Floats:
    """Releases an array with independent Gaussian noise on every entry.

    Privacy: the caller vouches that zeroing out one record moves `values` by at most `sensitivity` in L2, over all
      entries jointly, and replacing one by at most the event's `replace_one_factor` times that. `rng` must not be known
      to whoever sees the release. The noise is drawn in IEEE floating point.
    Shapes: the release has the shape of `values`.
    Units: `sensitivity` has the unit of `values`; the noise has stddev `noise_multiplier * sensitivity`.
    Raises: PrivacyError if a value is not finite, or the stddev is not finite and above 0.
    Source: Dwork and Roth 2014, Appendix A; Balle and Wang 2018, arXiv:1805.06530.
    """
    array = np.asarray(values, dtype=np.float64)
    if not np.all(np.isfinite(array)):
        raise PrivacyError("Only finite values can be released with Gaussian noise.")
    stddev = event.noise_multiplier * sensitivity
    refuse_unless_positive("stddev", stddev)
    return array + rng.normal(0.0, stddev, size=array.shape)
