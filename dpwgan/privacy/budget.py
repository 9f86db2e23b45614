"""The privacy budget and the neighbouring relation: the two things a user asks for. Imports nothing heavy."""

import math
from dataclasses import dataclass
from enum import Enum

from dpwgan.errors import UsageError


class NeighboringRelation(Enum):
    """Which two tables must be hard to tell apart.

    ZERO_OUT: tables of the same public length n, one record of which is replaced by a null record that adds nothing
      to any sum. The output distributions are those of add-or-remove-one, but n may be public.
    REPLACE_ONE: tables of the same public length n, one record of which is replaced by any other legal record.
    Source: Kairouz et al. 2021, arXiv:2103.00039, Definition 1.1 (zero-out).
    """

    ZERO_OUT = "zero_out"
    REPLACE_ONE = "replace_one"

    @property
    def spelled(self) -> str:
        """As settings and messages spell it."""
        return self.value.replace("_", "-")

    @classmethod
    def read(cls, spelled: str) -> "NeighboringRelation":
        """Reads a relation by its name in settings. Raises: ValueError for an unknown one."""
        return cls(spelled.replace("-", "_"))


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The (epsilon, delta) that one release may spend in all.

    Raises: UsageError if epsilon is not finite and above 0, or delta does not lie strictly between 0 and 1.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)


WEAK_EPSILON = 10.0
"""Above it a guarantee is a form of words."""


def list_weaknesses(budget: Budget, *, records: int) -> list[str]:
    """The weaknesses of a budget for so many rows, a sentence each; usually none."""
    found = []
    if budget.epsilon > WEAK_EPSILON:
        # A bound, which is never written below what it is.
        sure = min(100.0, math.ceil(1e6 / (1 + math.exp(-budget.epsilon)) + 1e-9) / 1e4)
        found.append(
            f"epsilon {budget.epsilon:.6g} is weak: by itself it lets somebody who took a row's presence for even be "
            f"{sure:.6g}% sure of it afterwards"
        )
    if records > 1 and budget.delta > 1 / records:
        found.append(
            f"delta {budget.delta:.4g} is above 1/n = {1 / records:.4g}: a whole row may be shown now and then"
        )
    return found


def check_epsilon(epsilon: float) -> float:
    """Passes epsilon through. Raises: UsageError unless it is a finite number above 0."""
    if not (_is_finite(epsilon) and epsilon > 0):
        raise UsageError("epsilon must be a finite number above 0")
    return epsilon


def check_delta(delta: float) -> float:
    """Passes delta through. Raises: UsageError unless it is above 0 and below 1; from 1 on it names the usual cause."""
    if not (_is_finite(delta) and delta > 0):
        raise UsageError("delta must be a finite number above 0 and below 1")
    if delta >= 1:
        # What a challenge harness does wrong, in the words that its user needs.
        raise UsageError(
            "delta must be above 0 and below 1; the fifth argument is delta, and a challenge harness that passes the "
            "number of columns there causes this: leave it out for 1/n^2, or pass the delta that you want"
        )
    return delta


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
