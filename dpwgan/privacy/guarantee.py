"""A proved privacy guarantee. What is only measured is a type of dpwgan.audit, with no common base."""

import math
from dataclasses import dataclass

from dpwgan.errors import PrivacyError
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.unit import ONE_ROW, Unit


@dataclass(frozen=True, kw_only=True)
class PrivacyGuarantee:
    """A proved (epsilon, delta) statement, with everything that it rests on, for one `unit`.

    Privacy: holds for every pair of tables related by `neighboring_relation`, if the `assumptions` hold. A delta of 0
      is pure differential privacy.
    Raises: PrivacyError if a number is out of range or no accountant is named; an epsilon alone says nothing.
    Source: Dwork and Roth 2014, Definition 2.4.
    """

    epsilon: float
    delta: float
    neighboring_relation: NeighboringRelation
    accountant: str
    accountant_version: str
    assumptions: tuple[str, ...]
    unit: Unit = ONE_ROW

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            raise PrivacyError(f"A guarantee needs a finite epsilon of at least 0; it is {self.epsilon!r}.")
        if not 0 <= self.delta < 1:
            raise PrivacyError(f"A guarantee needs a delta of at least 0 and below 1; it is {self.delta!r}.")
        if not (self.accountant and self.accountant_version and self.assumptions):
            raise PrivacyError("A guarantee needs its accountant, the accountant's version and its assumptions.")

    def replace_one(self) -> tuple[float, float]:
        """The (epsilon, delta) that holds when one record is replaced by any other legal record.

        Privacy: a replacement is two zero-outs in a row, through the table without the record; group privacy for two
          gives (2 epsilon, (1 + e^epsilon) delta). Under REPLACE_ONE it is the guarantee itself. A delta above 1
          is given as 1: the statement is then empty.
        Source: Dwork and Roth 2014, Theorem 2.2 and its approximate form (Vadhan 2017, Lemma 2.2).
        """
        if self.neighboring_relation is NeighboringRelation.REPLACE_ONE:
            return self.epsilon, self.delta
        if self.delta == 0:
            return math.nextafter(2 * self.epsilon, math.inf), 0.0
        # e^700 is near the largest float; the product is then far above 1 for any delta that is not absurd.
        growth = math.exp(self.epsilon) if self.epsilon < 700 else math.inf
        return math.nextafter(2 * self.epsilon, math.inf), min(1.0, (1 + growth) * self.delta * (1 + 1e-15))
