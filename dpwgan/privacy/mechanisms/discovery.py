"""Which categories occur in a column, released privately: noisy counts above a threshold (stable selection).

Theorem. Let every record hold one token of the column, let Z be discrete Laplace noise, that is P(Z = z) =
(1 - a)/(1 + a) a^|z| with a = e^-d, independent for each token, and let the release be the tokens that occur and have
count + Z >= t, where P(Z >= t - 1) <= h. Then the release is (d, h)-DP under zero-out and (2 d, 2 h)-DP under
replace-one.

Proof. The tokens are decided independently, so only those whose counts differ between two neighbouring tables matter. A
null record holds no token, so under zero-out that is one token, whose count is c in one table and c - 1 in the other.
If c >= 2 the token may occur in both releases, and whether it does is a function of count + Z, where counts one apart
give laws within a factor e^d of each other: (d, 0). If c = 1 it is never released from the table without it, and from
the other one with probability P(1 + Z >= t) = P(Z >= t - 1) <= h: the two laws are within total variation h: (0, h).
Under replace-one two tokens' counts may differ, each by one; the two decisions compose to (2 d, 2 h) at most. QED.

For k >= 0, P(Z >= k) = a^k / (1 + a), so the least threshold is t = 1 + the least whole k >= 0 with
d k + ln(1 + a) >= ln(1/h): the discrete form of 1 + ln(1/(2 h))/d.
"""

import math
from collections.abc import Mapping

import numpy as np

from dpwgan.errors import PrivacyError
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import StableSelection
from dpwgan.privacy.mechanisms.laplace import PARTS, sample_two_sided, usable_decay


def select_categories(
    counts: Mapping[str, int],
    event: StableSelection,
    *,
    rng: np.random.Generator,
    neighboring_relation: NeighboringRelation,
) -> tuple[str, ...]:
    """Releases which of a column's tokens occur often enough, in sorted order, and nothing else about them.

    Privacy: the event's (epsilon, delta) under `neighboring_relation`, proved in the module. `counts` holds how many
      records hold each token; each record is counted at most once in all, and a unit of several rows as group privacy
      says. Zero-out takes half the noise of replace-one. Tokens are sorted, so their order tells nothing.
    Raises: PrivacyError if epsilon is too small for the noise's grid, or a count is not a whole number of at least 0.
    Source: Korolova et al. 2009 (WWW); Balcer and Vadhan 2019, arXiv:1709.05396; the module's proof.
    """
    decay, threshold = calibrate_selection(event.of_row, neighboring_relation=neighboring_relation)
    tokens = sorted(counts)
    if any(isinstance(counts[token], bool) or int(counts[token]) != counts[token] for token in tokens):
        raise PrivacyError("Every count of a column's discovery must be a whole number.")
    exact = np.array([int(counts[token]) for token in tokens], dtype=np.int64)
    if np.any(exact < 0):
        raise PrivacyError("Every count of a column's discovery must be at least 0.")
    noisy = exact + sample_two_sided(len(tokens), parts=PARTS, step=round(decay * PARTS), rng=rng)
    # A token that does not occur is never released, however it came to be listed.
    chosen = (noisy >= threshold) & (exact >= 1)
    return tuple(token for token, released in zip(tokens, chosen, strict=True) if released)


def calibrate_selection(event: StableSelection, *, neighboring_relation: NeighboringRelation) -> tuple[float, int]:
    """Finds the decay of the noise and the least threshold that keep the event's (epsilon, delta).

    Privacy: the decay is rounded down and the threshold up.
    Raises: PrivacyError if epsilon is too small for the noise's grid.
    """
    tokens_moved = 2 if neighboring_relation is NeighboringRelation.REPLACE_ONE else 1
    decay = usable_decay(event.epsilon / tokens_moved)
    log_needed = math.log(tokens_moved / event.delta) * (1 + 1e-12) + 1e-12
    steps = max(0, math.ceil((log_needed - math.log1p(math.exp(-decay))) / decay))
    return decay, 1 + steps
