"""The Gaussian mechanism: numbers out, noise on them, and the event that says how much."""

import math

import numpy as np
import numpy.typing as npt

from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import Gaussian, gaussian


def add_gaussian_noise(
    values: npt.ArrayLike,
    *,
    sensitivity: float,
    noise_multiplier: float,
    rng: np.random.Generator,
    replace_one_factor: float = 2.0,
) -> tuple[npt.NDArray[np.float64], Gaussian]:
    """Releases an array with independent Gaussian noise on every entry.

    Privacy: the caller vouches that zeroing out one record moves `values` by at most `sensitivity` in L2, over all
      entries jointly, and replacing one by at most `replace_one_factor` times that (2 in general, sqrt(2) for
      one-hot counts). `rng` must not be known to whoever sees the release. The noise is drawn in IEEE floating point.
    Shapes: the release has the shape of `values`.
    Units: `sensitivity` has the unit of `values`; the noise has stddev `noise_multiplier * sensitivity`.
    Raises: PrivacyError if a value is not finite, or a number is not finite and above 0.
    Source: Dwork and Roth 2014, Appendix A; Balle and Wang 2018, arXiv:1805.06530.
    """
    if not (math.isfinite(sensitivity) and sensitivity > 0):
        raise PrivacyError(f"sensitivity must be finite and above 0; it is {sensitivity!r}.")
    event = gaussian(noise_multiplier=noise_multiplier, replace_one_factor=replace_one_factor)
    array = np.asarray(values, dtype=np.float64)
    if not np.all(np.isfinite(array)):
        raise PrivacyError("Only finite values can be released with Gaussian noise.")
    stddev = event.noise_multiplier * sensitivity
    if not math.isfinite(stddev) or stddev == 0:
        raise PrivacyError("The noise's stddev is not a positive finite number.")
    return array + rng.normal(0.0, stddev, size=array.shape), event
