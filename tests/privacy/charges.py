"""Charges in few words, and what an accountant says of them."""

from collections.abc import Iterable

from dpwgan.privacy.accountants.accountant import Accountant
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import Charge, PoissonGaussian

ZERO_OUT, REPLACE_ONE = NeighboringRelation.ZERO_OUT, NeighboringRelation.REPLACE_ONE


def take_steps(q: float, noise: float, steps: int = 1) -> Charge:
    """So many critic steps, of rows drawn with probability q."""
    return PoissonGaussian(sampling_probability=q, noise_multiplier=noise), steps


def ask(
    accountant: Accountant, charges: Iterable[Charge], *, delta: float = 1e-7, relation: NeighboringRelation = ZERO_OUT
) -> float:
    """The epsilon of some charges."""
    return accountant.get_epsilon(list(charges), delta=delta, neighboring_relation=relation)
