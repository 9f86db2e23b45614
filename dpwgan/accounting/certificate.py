"""What a noisy number still proves about the true one: upper bounds that hold with a stated probability.

A certificate says: the worst error of this output over a class of queries is at most alpha, except with probability
u. The error is a private number; what is known of it is a release with noise of a known law, paid for in the ledger
like any other. These functions are pure: from a release, its noise and u to alpha. Nothing here draws noise or sees a
row.

Theorem 1 (one number). Let y = x + Z, with x fixed before Z is drawn. If P(Z < -c) <= u then x <= y + c with
probability at least 1 - u. For Laplace noise of scale b, P(Z < -c) = e^(-c/b)/2, so c = b ln(1/(2u)) for u <= 1/2.
For Gaussian noise of stddev s, c = s Phi^-1(1 - u). QED.

Theorem 2 (the largest of many, fixed beforehand). Let y_i = x_i + Z_i with Gaussian Z_i of stddev s_i, and all x_i
fixed before the noise is drawn. With z = Phi^-1(1 - u), max |x_i| <= max (|y_i| + s_i z) with probability at least 1
- u, whatever their number and whether or not the Z_i are independent. Proof. Let j be where |x_j| is largest; j is
fixed as well. If x_j >= 0, then x_j <= y_j + s_j z with probability 1 - u by Theorem 1; if not, -x_j <= -y_j + s_j z,
by symmetry. Either is at most |y_j| + s_j z, which is at most the maximum. No union bound is needed, since only one
coordinate has to be bounded. QED.

Theorem 3 (the largest of many, chosen afterwards). Let c_i be numbers and y_i = c_i + Z_i as above, with m Gaussian
Z_i, each independent of all that was released before it, which may have decided what c_i is. Then |Z_i| <= s_i z for
all i at once with probability 1 - u, where (2 Phi(z) - 1)^m = 1 - u. So for any g_i, chosen in view of all y_i too,
max |c_i - g_i| <= max (|y_i - g_i| + s_i z). Proof. Given the past, |Z_i| <= s_i z has probability 2 Phi(z) - 1;
multiply. The rest is the triangle inequality. QED. This is the one to use on the answers that a generator was fitted
to.

Theorem 4 (the worst error as a release). If no error(q) of a class of queries moves by more than D when a record is
zeroed out, the worst error max over q of error(q) does not either, however many queries there are. Proof. Each
error(q) is at most D above its other value, so at most D above the other maximum; and the same with the tables
exchanged. QED. For fractions of the public n, |count_q/n - g_q| with 0/1 queries moves by 1/n under zero-out and
under replace-one. So one release of sensitivity 1/n, and Theorem 1, certify the whole class. The output g must be
final before it.
"""

import decimal
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from dpwgan.errors import PrivacyError

ROUNDING = 1e-12
"""Relative amount by which every slack is raised: hundreds of times the rounding of a quantile."""


_ALPHA_DIGITS = 4


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What is certified about the accuracy of a generator, in the form in which the claim says it.

    `kind` names the class of queries; `statement` says what holds of them and calls the bound alpha; `details` are
    public facts or releases, such as the number of queries.
    Privacy: post-processing of releases that the ledger holds. It is no part of the guarantee.
    Units: `alpha` has the unit that `statement` gives it; `failure_probability` is u, over the noise.
    Raises: PrivacyError for an empty text, an alpha that is not finite or negative, a u that is not above 0 and at most
      1/2, or details that JSON cannot hold.
    """

    kind: str
    statement: str
    alpha: float
    failure_probability: float
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.kind or not self.statement:
            raise PrivacyError("A certificate needs a kind and a statement.")
        if not (math.isfinite(self.alpha) and self.alpha >= 0):
            raise PrivacyError(f"alpha must be finite and at least 0; it is {self.alpha!r}.")
        _refuse_failure_probability(self.failure_probability)
        try:
            json.dumps(dict(self.details), allow_nan=False)
        except (TypeError, ValueError):
            raise PrivacyError("The details of a certificate must be what JSON can hold.") from None

    def describe(self) -> dict[str, Any]:
        """Gives the certificate as JSON-able pairs.

        Alpha is raised to few digits: the statement stays true, and the low digits of a noisy number are kept back.
        """
        context = decimal.Context(prec=_ALPHA_DIGITS, rounding=decimal.ROUND_CEILING)
        return {
            "kind": self.kind,
            "statement": self.statement,
            # The float nearest to a decimal that is not below alpha is not below alpha either.
            "alpha": float(context.create_decimal_from_float(self.alpha)),
            "failure_probability": self.failure_probability,
            "confidence": 1.0 - self.failure_probability,
            "details": dict(self.details),
        }


def laplace_slack(*, scale: float, failure_probability: float) -> float:
    """Computes b ln(1/(2u)): how far a number may lie above its release with Laplace noise, but for probability u.

    Units: the slack has the unit of `scale`.
    Raises: PrivacyError if the scale is not finite and above 0, or u is not above 0 and at most 1/2.
    Source: the module's Theorem 1.
    """
    _refuse_scale("scale", scale)
    _refuse_failure_probability(failure_probability)
    return scale * -math.log(2 * failure_probability) * (1 + ROUNDING)


def gaussian_slack(*, stddev: float, failure_probability: float) -> float:
    """Computes s Phi^-1(1 - u): how far a number may lie above its release with Gaussian noise, but for probability u.

    Units: the slack has the unit of `stddev`.
    Raises: PrivacyError if the stddev is not finite and above 0, or u is not above 0 and at most 1/2.
    Source: the module's Theorem 1.
    """
    _refuse_scale("stddev", stddev)
    _refuse_failure_probability(failure_probability)
    return stddev * -float(special.ndtri(failure_probability)) * (1 + ROUNDING)


def bound_worst_error(noisy_error: float, *, slack: float, largest_possible: float = math.inf) -> float:
    """Bounds a worst error from its one noisy release: noisy error + slack, within what an error can be.

    Privacy: post-processing of a release whose sensitivity is the module's Theorem 4.
    Units: all three have the unit of the error; 1 is the largest possible one for fractions.
    Raises: PrivacyError if the release is not finite, or the slack is negative or not finite.
    Source: the module's Theorems 1 and 4.
    """
    if not math.isfinite(noisy_error):
        raise PrivacyError("A certificate needs a finite noisy error.")
    if not (math.isfinite(slack) and slack >= 0):
        raise PrivacyError(f"slack must be finite and at least 0; it is {slack!r}.")
    return min(max(noisy_error + slack, 0.0), largest_possible)


def bound_largest(noisy: npt.ArrayLike, *, stddevs: npt.ArrayLike, failure_probability: float) -> float:
    """Bounds max |x_i| from noisy values of numbers that were fixed before their noise was drawn.

    Privacy: post-processing.
    Shapes: `noisy` is a vector; `stddevs` one of the same length, or one number for all.
    Raises: PrivacyError if there is no value, one that is not finite, or a stddev or u out of range.
    Source: the module's Theorem 2.
    """
    slack = gaussian_slack(stddev=1.0, failure_probability=failure_probability)
    return _largest_with_slack(noisy, stddevs=stddevs, slack=slack)


def bound_largest_after_fit(
    residuals: npt.ArrayLike, *, stddevs: npt.ArrayLike, failure_probability: float, releases: int | None = None
) -> float:
    """Bounds max |c_i - g_i| from the residuals y_i - g_i, where g may have been fitted to the noisy y itself.

    `releases` is the number m of noisy values in all, by default the number of residuals. It must have been fixed
    beforehand, and be no less than the number of residuals: which of the values are looked at may be chosen later.
    Privacy: post-processing.
    Shapes: `residuals` is a vector; `stddevs` one of the same length, or one number for all.
    Raises: PrivacyError if there is no residual, one that is not finite, or a number out of range.
    Source: the module's Theorem 3.
    """
    _refuse_failure_probability(failure_probability)
    count = np.asarray(residuals).size
    releases = count if releases is None else releases
    if releases < max(count, 1):
        raise PrivacyError(f"There are {count} residuals, more than the {releases} releases they were said to be of.")
    # 1 - (1 - u)^(1/m), without losing a small u; half of it lies on each side.
    outside = -math.expm1(math.log1p(-failure_probability) / releases) * (1 - ROUNDING)
    slack = -float(special.ndtri(outside / 2)) * (1 + ROUNDING)
    return _largest_with_slack(residuals, stddevs=stddevs, slack=slack)


def _largest_with_slack(values: npt.ArrayLike, *, stddevs: npt.ArrayLike, slack: float) -> float:
    array, noise = np.asarray(values, dtype=np.float64), np.asarray(stddevs, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.all(np.isfinite(array)):
        raise PrivacyError("A certificate needs a vector of at least one finite value.")
    if noise.ndim > 0 and noise.shape != array.shape:
        raise PrivacyError("A certificate needs one stddev for each value, or one for all.")
    if not np.all(np.isfinite(noise)) or not np.all(noise > 0):
        raise PrivacyError("Every stddev of a certificate must be finite and above 0.")
    return float(np.max(np.abs(array) + noise * slack))


def _refuse_scale(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise PrivacyError(f"{name} must be finite and above 0; it is {value!r}.")


def _refuse_failure_probability(value: float) -> None:
    if not 0 < value <= 0.5:
        raise PrivacyError(f"failure_probability must lie above 0 and not above 1/2; it is {value!r}.")
