"""What was measured about one table, and nothing more: a type of its own, so that it cannot pass for a guarantee.

A guarantee is `dpwgan.privacy.guarantee.PrivacyGuarantee`: proved, with epsilon and delta. The two have no
common base and no common field.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from dpwgan.errors import PrivacyError

NO_GUARANTEE = "ESTIMATE, NOT A GUARANTEE"


@dataclass(frozen=True, kw_only=True)
class PrivacyEstimate:
    """An empirical bound `mu` on an expected privacy loss, which the loss of a row passes with probability `gamma`.

    `quantity` says of what, `method` how it was measured, `caveats` why it promises nothing. However it is printed, the
    words "not a guarantee" and the caveats come with it; there is no number to be had by formatting it.

    Privacy: computed from private rows; NOT private. Bounds an expected loss of one table, where epsilon bounds the
      largest loss of every table: the two cannot be compared.
    Units: `mu` in nats; `gamma` is a probability.
    Raises: PrivacyError if `mu` is not finite, `gamma` is not between 0 and 1, or a text is missing.
    Source: Triastcyn and Faltings 2019, "Generating Artificial Data for Private Deep Learning", section 4.2.
    """

    mu: float
    gamma: float
    quantity: str
    method: str
    caveats: tuple[str, ...]
    measured: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not math.isfinite(self.mu):
            raise PrivacyError("An estimate must be a finite number.")
        if not 0.0 < self.gamma < 1.0:
            raise PrivacyError("An estimate needs a probability of being passed between 0 and 1.")
        if not (self.quantity and self.method and self.caveats and all(self.caveats)):
            raise PrivacyError("An estimate needs the quantity measured, its method and its caveats.")

    def __str__(self) -> str:
        return (
            f"{NO_GUARANTEE}: (mu, gamma) = ({self.mu:.4g}, {self.gamma:.4g}): {self.quantity}, by {self.method}. "
            + " ".join(self.caveats)
        )

    __repr__ = __str__

    def __format__(self, form: str) -> str:
        if form:
            raise PrivacyError("An estimate is printed with its caveats or not at all.")
        return str(self)

    def describe(self) -> dict[str, Any]:
        """The estimate as a JSON document, in which the guarantee is null and the reason is said."""
        return {"kind": "estimate", "guarantee": None, "why_no_guarantee": NO_GUARANTEE, **asdict(self)}
