"""The basic accountant: epsilons are added, and no delta is asked for. What a run of pure releases is accounted by."""

import math
from collections.abc import Sequence

from dpwgan.privacy.accountants.accountant import Accountant, ComposedCharge
from dpwgan.privacy.budget import NeighboringRelation


class BasicAccountant(Accountant):
    """Accounts by basic composition alone.

    Privacy: the sum itself is in `Accountant.get_epsilon`. What has no epsilon of its own, Gaussian noise, gets none.
    Source: Dwork and Roth 2014, Theorems 3.14 and 3.16.
    """

    name = "basic"

    @property
    def version(self) -> str:
        """A sum needs no library."""
        return "basic composition, 1"

    def _composed_epsilon(
        self, charges: Sequence[ComposedCharge], *, delta: float, neighboring_relation: NeighboringRelation
    ) -> float:
        return math.inf


BASIC = BasicAccountant()
