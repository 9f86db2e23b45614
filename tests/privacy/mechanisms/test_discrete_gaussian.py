"""Draws of the discrete Gaussian law, against the exact one."""

import math

import numpy as np
import pytest
from scipy import special, stats

from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import discrete_gaussian
from dpwgan.privacy.mechanisms.discrete_gaussian import _bernoulli_exp_half_square, add_discrete_gaussian_noise
from dpwgan.privacy.mechanisms.laplace import bernoulli_exp

FALSE_ALARM = 1e-6
DRAWS = 60_000
STDDEVS = pytest.mark.parametrize("stddev", [0.3, 0.75, 1.0, 50.0, 1e6, 1e12])


def _draw(stddev):
    event = discrete_gaussian(noise_multiplier=stddev, cells=1)
    drawn = add_discrete_gaussian_noise(np.zeros(DRAWS, np.int64), event, rng=np.random.default_rng())
    assert drawn.dtype == np.int64
    return drawn


def _passes_chi_square(drawn, *, stddev):
    """Whether draws have the law with probabilities in proportion to e^(-z^2/(2 s^2)), in cells of 30 and more.

    For wide laws a cell is many whole numbers, and their sum an integral, to within the first correction of
    Euler and Maclaurin: far below what so many draws can tell.
    """
    if stddev < 1000:
        z = np.arange(-math.ceil(12 * stddev) - 2, math.ceil(12 * stddev) + 3)
        weights = np.exp(-(z**2) / (2 * stddev**2))
        expected = DRAWS * weights / weights.sum()
        observed = np.bincount(drawn - z[0], minlength=z.size)
    else:
        borders = np.linspace(-5, 5, 81)
        expected = DRAWS * np.diff(special.ndtr(np.concatenate(([-np.inf], borders, [np.inf]))))
        observed = np.bincount(np.searchsorted(borders * stddev, drawn), minlength=borders.size + 1)
    kept = expected >= 30
    cells = [np.append(counts[kept], counts[~kept].sum()) for counts in (observed, expected)]
    if cells[1][-1] < 5:
        cells = [np.append(counts[:-2], counts[-2:].sum()) for counts in cells]
    return stats.chisquare(*cells).pvalue > FALSE_ALARM


@pytest.mark.statistical
@STDDEVS
def test_discrete_gaussian_has_its_law_when_drawn(stddev):
    assert _passes_chi_square(_draw(stddev), stddev=stddev)


@pytest.mark.statistical
@STDDEVS
def test_the_check_of_the_law_fails_when_noise_is_ten_percent_low(stddev):
    assert not _passes_chi_square(_draw(0.9 * stddev), stddev=stddev)


@pytest.mark.statistical
def test_the_check_of_the_law_fails_when_continuous_noise_is_rounded():
    rounded = np.rint(np.random.default_rng().normal(0.0, 0.75, DRAWS)).astype(np.int64)
    assert not _passes_chi_square(rounded, stddev=0.75)


class _Path:
    """Takes the place of a generator: gives numbers of a list, and stops where it ends, with the next one's bound."""

    class EndError(Exception):
        """There are no more numbers in the list."""

    def __init__(self, numbers):
        self.numbers, self.chance = list(numbers), 1.0

    def integers(self, low, high, *, size):
        if size == 0:
            return np.zeros(0, np.int64)
        assert (low, size) == (0, 1)
        if not self.numbers:
            raise self.EndError(high)
        self.chance /= high
        return np.array([self.numbers.pop(0)])


def _probability(decide, *, depth):
    """Adds up the chances of all draws after which something is true, of at most so many; the rest is left out."""
    total, paths = 0.0, [()]
    while paths:
        path = paths.pop()
        source = _Path(path)
        try:
            total += float(decide(source)) * source.chance
        except _Path.EndError as end:
            if len(path) < depth:
                paths += [(*path, number) for number in range(end.args[0])]
    return total


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 3), (1, 3), (2, 3), (1, 1), (1, 2)])
def test_coins_are_exact_when_every_draw_is_tried(numerator, denominator):
    one = np.array([numerator])
    plain = _probability(lambda rng: bernoulli_exp(one, denominator, rng)[0], depth=6)
    assert plain == pytest.approx(math.exp(-numerator / denominator), abs=3e-3)
    square = _probability(lambda rng: _bernoulli_exp_half_square(one, denominator, rng)[0], depth=6)
    assert square == pytest.approx(math.exp(-((numerator / denominator) ** 2) / 2), abs=3e-3)


def test_noise_is_added_to_whole_numbers_alone_when_released():
    values = np.arange(6).reshape(2, 3) * 10**12
    event = discrete_gaussian(noise_multiplier=2.0, cells=1)
    noisy = add_discrete_gaussian_noise(values, event, rng=np.random.default_rng())
    assert noisy.shape == (2, 3)
    assert np.all(np.abs(noisy - values) < 80)
    with pytest.raises(PrivacyError, match="whole numbers"):
        add_discrete_gaussian_noise([0.5], event, rng=np.random.default_rng())


@pytest.mark.parametrize("stddev", [0.0, -1.0, math.nan, math.inf, 1e17])
def test_stddev_is_refused_when_it_is_out_of_range(stddev):
    with pytest.raises(PrivacyError, match="stddev"):
        add_discrete_gaussian_noise(
            [1], discrete_gaussian(noise_multiplier=stddev, cells=1), rng=np.random.default_rng()
        )
