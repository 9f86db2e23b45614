"""Columns that settle each other: by a loop over what rows may be, and against cells that are looked at one by one."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dpwgan.marginals.answers.denoising import draw_to_multiples
from dpwgan.marginals.answers.settled import draw_to_columns
from dpwgan.marginals.fitted_prior import Posterior

Counts = npt.NDArray[np.float64]
PARTS = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5)


def draw_by_hand(noisy: Counts, expected: Counts, cells: Posterior, *, stddev: float) -> Posterior:
    """Rows alone, each cell of each kind of row by itself."""
    rows, width = noisy.shape
    shares = expected.sum(axis=0) / expected.sum()
    first = [0.5] + [0.5 / 6] * 6
    of_rows, likelihoods = [], []
    for row in range(rows):
        held = expected[row].sum()
        likely = [0.9 * expected[row, at] / held + 0.1 * shares[at] for at in range(width)]
        kinds, evidence = [(cells.means[row], cells.variances[row])], [cells.evidence[row].sum()]
        for part in PARTS:
            columns = []
            for at in range(width):
                sizes = [part * held * shares[j] + (1 - part) * held * (j == at) for j in range(width)]
                spreads = [(0.25 * size) ** 2 for size in sizes]
                seen = zip(noisy[row], sizes, spreads, strict=True)
                density = math.prod(stats.norm.pdf(y, m, math.sqrt(v + stddev**2)) for y, m, v in seen)
                seen = zip(noisy[row], sizes, spreads, strict=True)
                means = np.array([m + (y - m) * v / (v + stddev**2) for y, m, v in seen])
                variances = np.array([v * stddev**2 / (v + stddev**2) for v in spreads])
                columns.append((likely[at] * density, means, variances))
            whole = sum(weight for weight, _, _ in columns)
            mean = sum(weight / whole * means for weight, means, _ in columns)
            kinds.append((mean, sum(w / whole * (v + (m - mean) ** 2) for w, m, v in columns)))
            evidence.append(math.log(whole) + width / 2 * math.log(2 * math.pi))
        of_rows.append(kinds)
        likelihoods.append(np.exp(np.array(evidence)))
    odds = np.array(first)
    for _ in range(30):
        sums = sum(odds * own / (odds * own).sum() for own in likelihoods) + 3.0 * np.array(first)
        odds = sums / sums.sum()
    means, variances, evidence = [], [], []
    for kinds, own in zip(of_rows, likelihoods, strict=True):
        parts = odds * own / (odds * own).sum()
        mean = sum(part * m for part, (m, _) in zip(parts, kinds, strict=True))
        means.append(mean)
        variances.append(sum(part * (v + (m - mean) ** 2) for part, (m, v) in zip(parts, kinds, strict=True)))
        evidence.append(np.full(width, math.log((odds * own).sum()) / width))
    return Posterior(np.array(means), np.array(variances), np.array(evidence))


@pytest.mark.parametrize("turned", [False, True])
def test_posterior_is_that_of_a_loop_whichever_column_settles_the_other(turned):
    rng = np.random.default_rng(1)
    counts = np.zeros((9, 4))
    counts[np.arange(9), rng.integers(0, 4, 9)] = rng.uniform(40, 90, 9)
    counts[:2] = 15.0
    expected = np.outer(rng.uniform(50, 70, 9), rng.dirichlet(np.ones(4) * 5))
    noisy = counts + rng.normal(0, 12.0, counts.shape)
    cells = draw_to_multiples(noisy, expected, stddev=12.0)
    by_hand = draw_by_hand(noisy, expected, cells, stddev=12.0)
    assert by_hand.evidence.sum() > cells.evidence.sum()
    given = (noisy.T, expected.T, cells.transposed) if turned else (noisy, expected, cells)
    found = draw_to_columns(*given, stddev=12.0)
    found = found.transposed if turned else found
    for part, of_loop in zip(found, by_hand, strict=True):
        assert part == pytest.approx(of_loop, rel=1e-7, abs=1e-7)


@pytest.mark.statistical
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_places_find_their_regions_when_noise_hides_cells(seed, settled):
    """60 places of 12 regions, 120 records each: 3 stddevs of the noise. The twin, of places all over, gains none."""
    rng = np.random.default_rng(seed)
    counts = np.full((60, 12), 10.0)
    if settled:
        counts = 120.0 * np.eye(12)[rng.integers(0, 12, 60)]
    noisy, expected = counts + rng.normal(0.0, 40.0, counts.shape), np.full(counts.shape, 10.0)
    cells = draw_to_multiples(noisy, expected, stddev=40.0)
    found = draw_to_columns(noisy, expected, cells, stddev=40.0)
    gain = np.abs(found.means - counts).sum() / np.abs(cells.means - counts).sum()
    assert gain < 0.5 if settled else 0.9 < gain < 1.1
    if settled:
        # What is left of the error is what the variances say.
        assert np.square(found.means - counts).sum() == pytest.approx(found.variances.sum(), rel=0.4)


def test_counts_are_finite_when_rows_or_columns_hold_nothing():
    expected = np.zeros((3, 5))
    expected[1, 2] = 40.0
    noisy = expected + 1.0
    found = draw_to_columns(noisy, expected, draw_to_multiples(noisy, expected, stddev=9.0), stddev=9.0)
    assert all(np.isfinite(part).all() for part in found)
