"""What counts are under a fitted prior: by a loop, of counts of few sizes, and of what a threshold leaves."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dpwgan.marginals import fitted_prior
from dpwgan.marginals.fitted_prior import RATIO, take_posterior

SIZES = np.append(0.0, 5.0 * RATIO ** np.arange(12))
ODDS = np.full(len(SIZES), 1.0 / len(SIZES))


def fit(counts: npt.NDArray[np.float64], *, stddev: float) -> npt.NDArray[np.float64]:
    scales = np.ones(len(counts))
    return take_posterior(counts, stddev=stddev, scales=scales, multiples=SIZES, first_odds=ODDS).means


def test_posterior_is_that_of_a_loop(monkeypatch):
    """Of counts of unlike scales, some of which may be anywhere, and which are not looked at all together."""
    monkeypatch.setattr(fitted_prior, "_CHUNK", 16)
    rng = np.random.default_rng(1)
    counts, scales, elsewhere = rng.uniform(-10, 200, 40), rng.uniform(0.5, 2, 40), rng.uniform(200, 400, 40) ** 2
    odds = [1.0 / len(SIZES)] * len(SIZES)

    def list_normals(scale: float, anywhere: float) -> list[tuple[float, float]]:
        """The mean and the variance of a count near each multiple."""
        variances = [(0.25 * size * scale) ** 2 for size in SIZES[:-1]] + [anywhere]
        return [(size * scale, variance) for size, variance in zip(SIZES, variances, strict=True)]

    normals = [list_normals(*own) for own in zip(scales, elsewhere, strict=True)]

    def list_parts() -> list[list[float]]:
        found = []
        for count, own in zip(counts, normals, strict=True):
            densities = [stats.norm.pdf(count, mean, math.sqrt(variance + 64.0)) for mean, variance in own]
            found.append([density * part for density, part in zip(densities, odds, strict=True)])
        return found

    def weigh() -> list[list[float]]:
        return [[part / sum(parts) for part in parts] for parts in list_parts()]

    for _ in range(30):
        odds = [sum(parts) + 3.0 / len(SIZES) for parts in zip(*weigh(), strict=True)]
        odds = [part / sum(odds) for part in odds]
    expected = [
        sum(
            part * (mean + (count - mean) * variance / (variance + 64.0))
            for part, (mean, variance) in zip(parts, own, strict=True)
        )
        for count, parts, own in zip(counts, weigh(), normals, strict=True)
    ]
    squares = [
        sum(
            part * ((mean + (count - mean) * variance / (variance + 64.0)) ** 2 + 64.0 * variance / (variance + 64.0))
            for part, (mean, variance) in zip(parts, own, strict=True)
        )
        for count, parts, own in zip(counts, weigh(), normals, strict=True)
    ]
    found = take_posterior(counts, stddev=8.0, scales=scales, multiples=SIZES, first_odds=ODDS, elsewhere=elsewhere)
    assert found.means == pytest.approx(expected, rel=1e-9)
    assert found.variances == pytest.approx(np.array(squares) - np.square(expected), rel=1e-6, abs=1e-6)
    densities = np.array([sum(parts) for parts in list_parts()]) * math.sqrt(2.0 * math.pi)
    assert found.evidence == pytest.approx(np.log(densities), rel=1e-9)


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
    multiples = np.append(0.0, RATIO ** np.arange(40))
    odds = np.full(len(multiples), 1.0 / len(multiples))
    found = take_posterior(counts, stddev=0.1, scales=np.full(4, 0.1), multiples=multiples, first_odds=odds)
    assert found.means == pytest.approx(counts, rel=0.02)
