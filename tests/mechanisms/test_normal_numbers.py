"""The noise of a step: normal, independent, fresh, of the stddev asked for, on both paths."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
import randomgen
from scipy import stats

from dpwgan.mechanisms.normal_numbers import StepNoise, draw_normal_numbers

PATHS: tuple[StepNoise, ...] = ("fast", "plain")
FALSE_ALARM = 1e-6
MANY = 400_000


def draw(size: int, *, path: StepNoise, key: int = 1, stddev: float = 1.0) -> npt.NDArray[np.float32]:
    rng = np.random.Generator(randomgen.AESCounter(key=key))
    return draw_normal_numbers(size, stddev=stddev, rng=rng, step_noise=path)


def variance_is_off(numbers: npt.NDArray[np.float64]) -> bool:
    statistic = float(np.sum(numbers**2))
    tail = min(stats.chi2.cdf(statistic, len(numbers)), stats.chi2.sf(statistic, len(numbers)))
    return bool(2 * tail < FALSE_ALARM)


@pytest.mark.statistical
@pytest.mark.parametrize("path", PATHS)
def test_numbers_are_normal_when_they_are_many(path: StepNoise) -> None:
    numbers = draw(MANY, path=path, stddev=3.0).astype(np.float64) / 3.0
    assert stats.kstest(numbers, "norm").pvalue > FALSE_ALARM
    assert not variance_is_off(numbers)
    assert abs(numbers.mean()) < 5 / np.sqrt(MANY)
    # Far out, where a coarse uniform would show.
    for bound in (3.0, 4.0):
        expected = 2 * stats.norm.sf(bound) * MANY
        assert abs(np.sum(np.abs(numbers) > bound) - expected) < 6 * np.sqrt(expected)
    # The twin: noise a tenth too low must be found out, on as few as 5,000 numbers.
    assert variance_is_off(0.9 * numbers[:5_000])


@pytest.mark.statistical
@pytest.mark.parametrize("path", PATHS)
def test_numbers_do_not_depend_on_each_other_when_they_come_of_one_block(path: StepNoise) -> None:
    numbers = draw(1 << 17, path=path).astype(np.float64)
    # Both numbers of a pair share a radius: 2^15 places apart in the first block. Squares would tell.
    for lag in (1, 2, 1 << 14, 1 << 15, 1 << 16):
        for seen in (numbers, np.square(numbers) - 1.0):
            correlation = np.corrcoef(seen[:-lag], seen[lag:])[0, 1]
            assert abs(correlation) < 6 / np.sqrt(len(numbers) - lag)
    halves = numbers[: 1 << 15], numbers[1 << 15 : 1 << 16]
    corners = np.histogram2d(stats.norm.cdf(halves[0]), stats.norm.cdf(halves[1]), bins=16, range=[[0, 1], [0, 1]])[0]
    assert stats.chisquare(corners.ravel()).pvalue > FALSE_ALARM
    # The twin: one radius for two pairs is found out by its squares.
    twin = np.concatenate([halves[0], -halves[0]])
    assert abs(np.corrcoef(np.square(twin[: 1 << 15]), np.square(twin[1 << 15 :]))[0, 1]) > 0.9


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("size", [0, 1, 2, 65_535, 65_537])
def test_as_many_numbers_come_as_were_asked_for_when_blocks_do_not_fit(path: StepNoise, size: int) -> None:
    numbers = draw(size, path=path)
    assert numbers.shape == (size,)
    assert numbers.dtype == np.float32
    assert np.all(np.isfinite(numbers))
    assert len(np.unique(numbers)) > 0.99 * size - 1


@pytest.mark.parametrize("path", PATHS)
def test_numbers_are_fresh_when_they_are_drawn_again_and_the_same_when_the_key_is(path: StepNoise) -> None:
    rng = np.random.Generator(randomgen.AESCounter(key=1))
    first, second = (draw_normal_numbers(1_000, stddev=1.0, rng=rng, step_noise=path) for _ in range(2))
    assert not np.intersect1d(first, second).size > 10
    np.testing.assert_array_equal(first, draw(1_000, path=path))
    assert not np.array_equal(first, draw(1_000, path=path, key=2))


class Ends:
    """Words at their ends: all bits 0, or all bits 1."""

    def __init__(self, word: int) -> None:
        self.bit_generator = self
        self._word = word

    def random_raw(self, size: int) -> npt.NDArray[np.uint64]:
        return np.full(size, self._word, np.uint64)


@pytest.mark.parametrize("word", [0, 2**64 - 1])
def test_fast_numbers_stay_finite_when_words_are_at_their_ends(word: int) -> None:
    numbers = draw_normal_numbers(10, stddev=1.0, rng=Ends(word), step_noise="fast")  # type: ignore[arg-type]
    assert np.all(np.isfinite(numbers))
    assert np.max(np.abs(numbers)) < 11.6


class Stuck(Ends):
    """Words of 64 bits whose low halves, the radii, are what is given first, and what refines them what comes next."""

    def __init__(self, *words: int) -> None:
        self.bit_generator = self
        self._words = list(words)

    def random_raw(self, size: int) -> npt.NDArray[np.uint64]:
        return np.full(size, self._words.pop(0), np.uint64)


@pytest.mark.parametrize("refining", [0, 1 << 40, (1 << 63) + 12_345, 2**64 - 1])
@pytest.mark.parametrize("word", [0, 1, 77, (1 << 23) - 1, 2**32 - 1, 2**32 - 2, 2**32 - (1 << 23), 1 << 31, 1 << 23])
def test_fast_radius_is_that_of_all_its_bits_when_words_are_near_an_end(word: int, refining: int) -> None:
    # One word of 64 bits holds the radius of a pair and its angle.
    radius = np.hypot(*draw_normal_numbers(2, stddev=1.0, rng=Stuck(word, refining), step_noise="fast"))  # type: ignore[arg-type]
    near = word < 1 << 23 or word >= 2**32 - (1 << 23)
    uniform = Fraction(2 * word + 1, 2**33) if not near else Fraction(word * 2**65 + 2 * refining + 1, 2**97)
    with localcontext(prec=60):
        logarithm = (Decimal(uniform.numerator) / Decimal(uniform.denominator)).ln()
        expected = float((-2 * logarithm).sqrt())
    assert radius == pytest.approx(expected, rel=1e-5)
    # The twin: 32 bits alone miss what lies at the ends.
    if word in (0, 2**32 - 1) and refining == 0:
        coarse = np.sqrt(-2 * np.log(np.float32((word + 0.5) * 2.0**-32)))
        assert abs(coarse - expected) > 0.1 * expected
