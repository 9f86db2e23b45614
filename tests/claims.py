"""Claims for tests: everything filled in, and single parts changed."""

import copy
from collections.abc import Mapping
from typing import Any

from dpwgan.app.claim import Claim, build_claim
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.events import PoissonGaussian
from dpwgan.privacy.guarantee import PrivacyGuarantee


def make_line(label: str, mechanism: str, event: Any, *, count: int, **details: Any) -> dict[str, Any]:
    """Makes a line of a ledger whose every act was charged."""
    rest = {"accountant": "moments", "accountant_version": "dp-accounting 0.4.3", "details": details}
    return {"label": label, "mechanism": mechanism, **event.describe(), "reserved": count, "charged": count, **rest}


CRITIC_STEPS = make_line(
    "critic steps",
    "Poisson-sampled Gaussian",
    PoissonGaussian(sampling_probability=0.05, noise_multiplier=2.0),
    count=100,
    expected_batch_size=50,
)
AMORTIZED = {"name": "amortized", "noise_multiplier": 15.0, "epsilon": 9.0}


def change_part(document: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with another value at this path, as "ledger.0.charged"; without anything there if that is `...`."""
    changed = copy.deepcopy(dict(document))
    place: Any = changed
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return changed


def make_guarantee(
    epsilon: float = 0.99, delta: float = 1e-6, relation: NeighboringRelation = NeighboringRelation.ZERO_OUT
) -> PrivacyGuarantee:
    """Makes a guarantee by the moments accountant."""
    return PrivacyGuarantee(
        epsilon=epsilon,
        delta=delta,
        neighboring_relation=relation,
        accountant="moments",
        accountant_version="dp-accounting 0.4.3",
        assumptions=("Poisson sampling",),
    )


def make_claim(
    *,
    epsilon: float = 0.99,
    delta: float = 1e-6,
    relation: NeighboringRelation = NeighboringRelation.ZERO_OUT,
    alternatives: Any = (AMORTIZED,),
    **changed: Any,
) -> Claim:
    """Makes a claim; `changed`: arguments of `build_claim` in place of those here."""
    accountant = {"name": "moments", "version": "dp-accounting 0.4.3", "rule": "auto", "reason": "needs less noise"}
    shared: dict[str, Any] = {
        "guarantee": make_guarantee(epsilon, delta, relation),
        "asked": Budget(epsilon=1.0, delta=1e-6),
        "relation": relation,
        "delta_chosen_by": "default: 1/n^2",
        "ledger": [CRITIC_STEPS],
        "accountant": {**accountant, "alternatives": list(alternatives)},
        "records": 1000,
        "rows": 1000,
        "rows_chosen_by": "the public number of records",
        "specs_sha256": "ab" * 32,
        "codebook_sha256": None,
        "domains": {},
        "seeded": False,
        "method": {"name": "dp-wgan", "title": "DP-WGAN", "paper": "Srivastava and Alzantot 2019"},
        "settings": {"latent": 64, "hidden_critic": (256, 256)},
    }
    return build_claim(**{**shared, **changed})
