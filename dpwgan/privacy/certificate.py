"""What a noisy number still proves about the true one: upper bounds that hold with a stated probability.

A certificate says: the worst error of this output over a class of queries is at most alpha, except with probability
u. The error is a private number; what is known of it is a release with noise of a known law, paid for in the ledger
like any other. These functions are pure: from a release, its noise and u to alpha. Nothing here draws noise or sees a
row.

Theorem 1 (one number). Let y = x + Z, with x fixed before Z is drawn. If P(Z < -c) <= u then x <= y + c with
probability at least 1 - u. For Gaussian noise of stddev s, c = s Phi^-1(1 - u). QED.

Theorem 2 (the worst error as a release). If no error(q) of a class of queries moves by more than D when a record is
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

from scipy import special

from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import refuse_unless_positive

# Relative amount by which a slack is raised: hundreds of times the rounding of a quantile.
_ROUNDING = 1e-12

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
        """The certificate as JSON-able pairs.

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


def gaussian_slack(*, stddev: float, failure_probability: float) -> float:
    """Computes s Phi^-1(1 - u): how far a number may lie above its release with Gaussian noise, but for probability u.

    Units: the slack has the unit of `stddev`.
    Raises: PrivacyError if the stddev is not finite and above 0, or u is not above 0 and at most 1/2.
    Source: the module's Theorem 1.
    """
    refuse_unless_positive("stddev", stddev)
    _refuse_failure_probability(failure_probability)
    return stddev * -float(special.ndtri(failure_probability)) * (1 + _ROUNDING)


def bound_worst_error(noisy_error: float, *, slack: float, largest_possible: float = math.inf) -> float:
    """Bounds a worst error from its one noisy release: noisy error + slack, within what an error can be.

    Privacy: post-processing of a release whose sensitivity is the module's Theorem 2.
    Units: all three have the unit of the error; 1 is the largest possible one for fractions.
    Raises: PrivacyError if the release is not finite, or the slack is negative or not finite.
    Source: the module's Theorems 1 and 2.
    """
    if not math.isfinite(noisy_error):
        raise PrivacyError("A certificate needs a finite noisy error.")
    if not (math.isfinite(slack) and slack >= 0):
        raise PrivacyError(f"slack must be finite and at least 0; it is {slack!r}.")
    return min(max(noisy_error + slack, 0.0), largest_possible)


def _refuse_failure_probability(value: float) -> None:
    if not 0 < value <= 0.5:
        raise PrivacyError(f"failure_probability must lie above 0 and not above 1/2; it is {value!r}.")
