"""The two-way moments: all two-way marginals at once, in one Gaussian release."""

import itertools
import math

import numpy as np

from dpwgan.marginals.groups import GroupLayout
from dpwgan.marginals.measurements import PAIRS_TASK, Groups, MeasuredMarginals, count_pairs
from dpwgan.privacy.mechanisms.gaussian import add_gaussian_noise
from dpwgan.table.workers import AddUp, alone

REPLACE_ONE_FACTOR = math.sqrt(2.0)


def weigh_pairs(layout: GroupLayout) -> dict[tuple[int, int], float]:
    """Gives each pair's weight in the joint release; the squares add to 1.

    A pair of c cells whose counts are multiplied by w before the noise has an expected L1 error in proportion to c / w.
    The sum of these over all pairs, under a fixed sum of squares, is least for w in proportion to c^(1/3).
    Privacy: public sizes alone.
    """
    pairs = list(itertools.combinations(range(layout.attributes), 2))
    weights = np.array([layout.count_cells(pair) for pair in pairs], np.float64) ** (1 / 3)
    weights /= math.sqrt(float(np.square(weights).sum())) if pairs else 1.0
    return dict(zip(pairs, weights.tolist(), strict=True))


def measure_moments(
    groups: Groups,
    layout: GroupLayout,
    *,
    measured: MeasuredMarginals,
    noise_multiplier: float,
    rng: np.random.Generator,
    records: int | None = None,
    add_up: AddUp = alone,
) -> None:
    """Releases every two-way marginal, each with noise by its weight, and adds the answers to `measured`.

    Privacy: one Gaussian event. A record adds 1 to one cell of each pair; times the weights, whose squares add to 1, it
      moves all of them together by 1 in L2 under zero-out, by sqrt(2) under replace-one. The caller has charged it.
      Where `groups` are a worker's share of `records` rows, the counts of all are added up before the noise.
    Units: `noise_multiplier` is noise stddev over that sensitivity.
    Raises: PrivacyError if the noise multiplier is not finite and above 0.
    """
    records = len(groups) if records is None else records
    counts = add_up(PAIRS_TASK, lambda: count_pairs(groups, layout))
    for (left, right), weight in weigh_pairs(layout).items():
        block = counts[layout.get_slice(left), layout.get_slice(right)]
        noisy, _ = add_gaussian_noise(
            weight * block,
            sensitivity=1.0,
            noise_multiplier=noise_multiplier,
            rng=rng,
            replace_one_factor=REPLACE_ONE_FACTOR,
        )
        measured.add((left, right), noisy / (weight * records), stddev=noise_multiplier / (weight * records))
