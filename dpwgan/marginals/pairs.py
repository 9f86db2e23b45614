"""The two-way moments: all two-way marginals at once, in one Gaussian release."""

import itertools
import math

import numpy as np

from dpwgan.marginals.groups import GroupLayout, Marginal
from dpwgan.marginals.measurements import PAIRS, Counts, GroupedRows, MeasuredMarginals
from dpwgan.privacy.events import Gaussian
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.release import Release
from dpwgan.table.rows import Rows

MOMENTS_LABEL = "two-way counts"


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
    rows: Rows[GroupedRows], *, measured: MeasuredMarginals, records: float, ledger: Ledger
) -> list[Marginal]:
    """Releases every two-way marginal, each with noise by its weight, adds the answers to `measured`, and lists them.

    `records`: of how many answers are shares.
    Privacy: a record adds 1 to one cell of each pair; times the weights, whose squares add to 1, it moves all of them
      together by 1 in L2 under zero-out, by sqrt(2) under replace-one: the reserved sensitivity is 1, whatever the
      weights, which are of released sizes.
    Raises: PrivacyError from the ledger.
    """
    layout = rows.own.layout
    weights = weigh_pairs(layout)

    def weigh() -> list[Counts]:
        counts = rows.sum(PAIRS)
        return [
            weight * counts[layout.get_slice(left), layout.get_slice(right)]
            for (left, right), weight in weights.items()
        ]

    for (pair, weight), noisy in zip(weights.items(), ledger.release_all(MOMENTS_LABEL, weigh), strict=True):
        measured.add(pair, noisy.values / (weight * records), stddev=noisy.stddev / (weight * records))
    return list(weights)


def plan_moments(*, noise_multiplier: float) -> Release:
    """Says what `measure_moments` releases, for the ledger to reserve before."""
    return Release(
        label=MOMENTS_LABEL,
        event=Gaussian(noise_multiplier=noise_multiplier, replace_one_factor=math.sqrt(2.0)),
        times=1,
        mechanism="continuous Gaussian noise on all two-way counts together: weighted by public sizes, so not whole",
        sensitivity=1.0,
    )
