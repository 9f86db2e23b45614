"""Posterior means under a fitted prior: by a loop, of counts of few sizes, and of what a threshold leaves."""

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dpwgan.marginals.fitted_prior import RATIO, take_means

SIZES = np.append(0.0, 5.0 * RATIO ** np.arange(12))[np.newaxis]
ODDS = np.full(SIZES.size, 1.0 / SIZES.size)


def fit(counts: npt.NDArray[np.float64], *, stddev: float) -> npt.NDArray[np.float64]:
    return take_means(counts, variances=np.full(len(counts), stddev**2), sizes=SIZES, first_odds=ODDS)


def test_means_are_those_of_a_loop():
    rng = np.random.default_rng(1)
    counts, variances = rng.uniform(-10.0, 200.0, 40), rng.uniform(25.0, 100.0, 40)
    elsewhere = np.full(40, 300.0**2)
    odds = [1.0 / SIZES.size] * SIZES.size

    def weigh(count: float, variance: float) -> list[float]:
        spreads = [0.25 * size for size in SIZES[0, :-1]] + [300.0]
        densities = [
            stats.norm.pdf(count, size, np.hypot(spread, np.sqrt(variance)))
            for size, spread in zip(SIZES[0], spreads, strict=True)
        ]
        parts = [density * part for density, part in zip(densities, odds, strict=True)]
        return [part / sum(parts) for part in parts]

    for turn in range(30):
        all_parts = [weigh(*own) for own in zip(counts, variances, strict=True)]
        if turn < 29:
            odds = [sum(parts[k] for parts in all_parts) + 3.0 / SIZES.size for k in range(SIZES.size)]
            odds = [part / sum(odds) for part in odds]
    means = []
    for count, variance, parts in zip(counts, variances, all_parts, strict=True):
        spreads = [(0.25 * size) ** 2 for size in SIZES[0, :-1]] + [300.0**2]
        of_each = [
            size + (count - size) * spread / (spread + variance) for size, spread in zip(SIZES[0], spreads, strict=True)
        ]
        means.append(sum(part * mean for part, mean in zip(parts, of_each, strict=True)))
    found = take_means(
        counts, variances=variances, sizes=np.repeat(SIZES, 40, axis=0), first_odds=ODDS, elsewhere=elsewhere
    )
    assert found == pytest.approx(means, rel=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("seed", range(3))
def test_what_lies_below_a_threshold_by_noise_holds_as_much_as_it_should(seed):
    """300 codes of 100 records: noise of 45 takes two thirds below 120, whose counts say far too little. The twin."""
    rng = np.random.default_rng(seed)
    counts = 100.0 + rng.normal(0.0, 45.0, 300)
    below = counts < 120.0
    truth = 100.0 * np.count_nonzero(below)
    assert fit(counts, stddev=45.0)[below].sum() == pytest.approx(truth, rel=0.15)
    assert counts[below].sum() < 0.8 * truth


def test_counts_far_above_their_noise_are_kept():
    counts = np.array([3.0, 40.0, 700.0, 90_000.0])
    sizes = np.append(0.0, 0.1 * RATIO ** np.arange(40))[np.newaxis]
    odds = np.full(sizes.size, 1.0 / sizes.size)
    assert take_means(counts, variances=np.full(4, 0.01), sizes=sizes, first_odds=odds) == pytest.approx(
        counts, rel=0.02
    )
