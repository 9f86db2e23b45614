import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import Laplace
from dpwgan.privacy.mechanisms.laplace import (
    PARTS,
    add_laplace_noise,
    bernoulli_exp,
    find_scale,
    sample_two_sided,
    usable_decay,
)

FALSE_ALARM = 1e-6
DRAWS = 50_000


def _passes_chi_square(draws, *, decay):
    """Whether draws have the discrete Laplace law, in cells of at least 50 expected draws."""
    a = math.exp(-decay)
    reach = max(1, int(math.log(DRAWS * (1 - a) / (1 + a) / 50) / decay))
    inside = np.arange(-reach, reach + 1)
    expected = DRAWS * (1 - a) / (1 + a) * a ** np.abs(inside)
    tail = DRAWS * a ** (reach + 1) / (1 + a)
    observed = [np.sum(draws < -reach), *(np.sum(draws == z) for z in inside), np.sum(draws > reach)]
    return bool(stats.chisquare(observed, [tail, *expected, tail]).pvalue > FALSE_ALARM)


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (0.9, False)])
@pytest.mark.parametrize("decay", [0.05, 0.5, 2.0])
def test_discrete_laplace_has_its_law_when_drawn_and_a_tenth_less_is_found_out(decay, factor, passes):
    step = round(usable_decay(decay / factor) * PARTS)
    draws = sample_two_sided(DRAWS, parts=PARTS, step=step, rng=np.random.default_rng())
    assert draws.dtype == np.int64
    assert _passes_chi_square(draws, decay=usable_decay(decay)) is passes


@pytest.mark.statistical
def test_the_check_of_the_law_fails_when_negative_zero_is_kept():
    rng = np.random.default_rng()
    geometric = rng.geometric(-math.expm1(-0.5), size=DRAWS) - 1
    assert not _passes_chi_square(np.where(rng.random(DRAWS) < 0.5, geometric, -geometric), decay=0.5)


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
    chance = _probability(lambda rng: bernoulli_exp(one, denominator, rng)[0], depth=6)
    assert chance == pytest.approx(math.exp(-numerator / denominator), abs=3e-3)


def test_decay_is_rounded_down_when_it_is_off_the_grid():
    for decay in (1e-5, 0.1, 1 / 3, 1.0, 7.77):
        assert decay - 1 / PARTS < usable_decay(decay) <= decay
    assert usable_decay(1e9) == 32.0


@pytest.mark.parametrize("decay", [0.0, -1.0, math.nan, math.inf, 1e-7])
def test_decay_is_refused_when_nothing_is_left_of_it(decay):
    with pytest.raises(PrivacyError):
        usable_decay(decay)


@pytest.mark.statistical
@pytest.mark.parametrize("sensitivity", [3, 2**33])
def test_released_sums_have_laplace_noise_of_the_stated_scale(sensitivity):
    """Chi-square on the quantiles of the magnitude; the twin's noise is 10% low."""
    values = np.arange(DRAWS)
    released = add_laplace_noise(values, Laplace(epsilon=0.3), sensitivity=sensitivity, rng=np.random.default_rng())
    assert released.dtype == np.int64
    scale = sensitivity / 0.3
    for factor, passes in ((1.0, True), (0.9, False)):
        magnitudes = np.abs(released - values) * factor
        a = math.exp(-1 / scale)
        edges = np.unique(np.floor(-scale * np.log(np.linspace(1, 0.02, 12)[1:-1])))
        tails = 2 * a ** (edges + 1) / (1 + a)  # P(|z| > edge)
        expected = DRAWS * -np.diff(np.concatenate(([1.0], tails, [0.0])))
        observed = np.histogram(magnitudes, bins=[-0.5, *(edges + 0.5), np.inf])[0]
        assert (stats.chisquare(observed, expected).pvalue > FALSE_ALARM) == passes


@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, 1.0, 7.3])
@pytest.mark.parametrize("sensitivity", [1, 7, 2**30 + 1])
def test_scale_is_never_below_sensitivity_over_epsilon_when_rounded(epsilon, sensitivity):
    scale = Fraction(*find_scale(sensitivity, epsilon))
    assert Fraction(sensitivity) <= scale * Fraction(epsilon)
    assert (scale - Fraction(1, 2**10)) * Fraction(epsilon) < sensitivity


@pytest.mark.parametrize(
    ("values", "sensitivity", "epsilon"),
    [([0.5], 1, 1.0), ([1.0], 1, 1.0), ([1], 0, 1.0), ([1], 1.0, 1.0), ([1], True, 1.0), ([1], 1, 1e-20)],
)
def test_release_is_refused_when_a_number_is_out_of_range(values, sensitivity, epsilon):
    with pytest.raises(PrivacyError):
        add_laplace_noise(values, Laplace(epsilon=epsilon), sensitivity=sensitivity, rng=np.random.default_rng(1))
