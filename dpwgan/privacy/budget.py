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


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The (epsilon, delta) that one release may spend in all.

    Raises: UsageError if epsilon is not finite and above 0, or delta does not lie strictly between 0 and 1.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        for name, value in (("epsilon", self.epsilon), ("delta", self.delta)):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise UsageError(f"{name} must be a number, not {type(value).__name__}.")
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise UsageError(f"epsilon must be a finite number above 0; it is {self.epsilon!r}.")
        if not (math.isfinite(self.delta) and self.delta > 0):
            raise UsageError(f"delta must be a finite number above 0 and below 1; it is {self.delta!r}.")
        if self.delta >= 1:
            raise UsageError(
                f"delta must be below 1; it is {self.delta!r}. delta is the chance that the guarantee fails, "
                "not a count of columns or rows."
            )
