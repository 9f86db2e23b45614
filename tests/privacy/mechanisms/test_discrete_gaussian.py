"""Draws of the discrete Gaussian law, against the exact one."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import discrete_gaussian
from dpwgan.privacy.mechanisms import discrete_gaussian as mechanism
from dpwgan.privacy.mechanisms.discrete_gaussian import _find_law, _find_levels, _invert, _is_above, _try

FALSE_ALARM = 1e-6
DRAWS = 60_000


def _draw(stddev):
    event = discrete_gaussian(noise_multiplier=stddev, cells=1)
    drawn = mechanism.add_discrete_gaussian_noise(np.zeros(DRAWS, np.int64), event, rng=np.random.default_rng())
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
    return bool(stats.chisquare(*cells).pvalue > FALSE_ALARM)


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (0.9, False)])
@pytest.mark.parametrize("stddev", [0.3, 0.75, 1.0, 50.0, 300.0, 1e6, 1e12])
def test_discrete_gaussian_has_its_law_when_drawn_and_a_tenth_less_is_found_out(stddev, factor, passes):
    assert _passes_chi_square(_draw(factor * stddev), stddev=stddev) is passes


@pytest.mark.statistical
@pytest.mark.parametrize(("stddev", "most"), [(1.25, 1), (3.0, 1), (3.0, 2), (50.0, 4)])
def test_discrete_gaussian_has_its_law_when_it_is_drawn_in_parts_that_are_small(monkeypatch, stddev, most):
    monkeypatch.setattr(mechanism, "_MOST_STDDEV", most)
    assert _passes_chi_square(_draw(stddev), stddev=stddev)


@pytest.mark.statistical
def test_the_check_of_the_law_fails_when_continuous_noise_is_rounded():
    rounded = np.rint(np.random.default_rng().normal(0.0, 0.75, DRAWS)).astype(np.int64)
    assert not _passes_chi_square(rounded, stddev=0.75)


class _Words:
    """Takes the place of a generator: gives words of a list, and fails where it ends."""

    def __init__(self, *words):
        self.words = list(words)

    def integers(self, high, *, size, dtype):
        assert high == 1 << 64
        taken, self.words = self.words[:size], self.words[size:]
        assert len(taken) == size
        return np.array(taken, dtype)


def _exp(g):
    """e^-g by its series, in whole fractions of 400 bits: far more than are compared."""
    one, halvings = 1 << 400, math.ceil(g).bit_length()
    term, total, n = one, one, 0
    while term:
        n += 1
        term = int(-term * g / (n << halvings))
        total += term
    for _ in range(halvings):
        total = total * total >> 400
    return Fraction(total, one)


@pytest.mark.parametrize("t", [Fraction(1, 2**20), Fraction(3, 10), Fraction(1), Fraction(17, 3), Fraction(129, 8)])
def test_levels_are_the_exact_ones_when_summed_in_fractions(t):
    # Of the smallest stddev all but nothing lies at 0.
    weights = [_exp(x * x / (2 * t * t)) if t > 0.01 else Fraction(x == 0) for x in range(math.ceil(20 * t) + 1)]
    total, sums = sum(weights), itertools.accumulate(weights, initial=0)
    shares = [below / total for below in sums]
    for bits in (63, 127):
        levels = _find_levels(t, bits)
        assert levels == [min(math.floor(share * 2**bits), 2**bits - 1) for share in shares[: len(levels)]]
        assert levels[-1] == 2**bits - 1 > levels[-2]


@pytest.mark.parametrize("stddev", [0.75, 50.0])
def test_more_bits_decide_when_a_word_is_a_level(stddev):
    """At the first level, in the middle and at the last one; on either side of the level's next bits, and on them."""
    law = _find_law(stddev, most=64)
    longer, longest = _find_levels(law.t, 127), _find_levels(law.t, 191)
    for x in (0, 1, len(law.table) // 2, len(law.table) - 2):
        word, mark, last = int(law.table[x]), longer[x] % 2**64, longest[x] % 2**64
        assert (word, longer[x]) == (longer[x] >> 64, longest[x] >> 64)
        for *more, expected in [(mark + 1, x), (mark, last + 1, x), (mark - 1, x - 1), (mark, last - 1, x - 1)]:
            if x or expected == x:
                source = _Words(*more)
                assert _invert(np.array([word], np.uint64), law, source).tolist() == [expected]
                assert not source.words
    # Beyond the table, the first word being all ones.
    word = np.array([2**63 - 1], np.uint64)
    assert _invert(word, law, _Words(0)).tolist() == [len(law.table) - 2]
    far = len(law.table)
    assert _invert(word, law, _Words(longer[far] % 2**64 + 1)).tolist() == [far]


def test_nothing_more_is_drawn_when_a_word_is_beside_every_level():
    law = _find_law(3.0, most=64)
    words = np.concatenate([law.table[1:-1] - np.uint64(1), law.table[:-1] + np.uint64(1)])
    expected = [*range(len(law.table) - 2), *range(len(law.table) - 1)]
    assert _invert(words, law, _Words()).tolist() == expected


@pytest.mark.parametrize("g", [Fraction(*g) for g in ((0, 1), (1, 1000), (1, 3), (1, 1), (5, 2), (9, 1))])
def test_coins_are_exact_when_every_word_is_tried(g):
    sure, open_words = 0, []
    for word in range(256):
        try:
            sure += _is_above(word, 8, g.numerator, Fraction(g.denominator), _Words())
        except AssertionError:
            open_words.append(word)
    chance = _exp(g) * 256
    assert sure <= chance <= sure + len(open_words)
    assert len(open_words) <= 4
    for word in open_words:
        # The bits that follow decide, where those of 1 - e^-g do.
        mark = math.floor((1 - _exp(g)) * 2**72) - (word << 64)
        for more, expected in ((mark - 4, False), (mark + 4, True)):
            if 0 <= more < 2**64:
                assert _is_above(word, 8, g.numerator, Fraction(g.denominator), _Words(more)) is expected


def test_a_part_is_kept_by_its_coin_and_negative_zero_is_not_when_drawn():
    """x = 0, y = 0, 1; the coin at both ends, and on either side of 1 - e^-g."""
    law = _find_law(1.5, most=1)
    assert (law.k, law.t) == (1, Fraction(3, 4))
    middle = math.floor((1 - _exp(Fraction(1) / law.square)) * 2**63)
    first = 2  # a word of x = 0, of positive sign
    for coin, y, kept in [(0, 0, [0]), (0, 1, []), (middle - 9, 1, []), (middle + 9, 1, [1]), (2**63 - 1, 1, [1])]:
        assert _try(1, law, _Words(first, 2 * coin + y)).tolist() == kept
        negative = [-z for z in kept if z]
        assert _try(1, law, _Words(first + 1, 2 * coin + y)).tolist() == negative


def test_noise_is_added_to_whole_numbers_alone_when_released():
    values = np.arange(6).reshape(2, 3) * 10**12
    event = discrete_gaussian(noise_multiplier=2.0, cells=1)
    noisy = mechanism.add_discrete_gaussian_noise(values, event, rng=np.random.default_rng())
    assert noisy.shape == (2, 3)
    assert np.all(np.abs(noisy - values) < 80)
    with pytest.raises(PrivacyError, match="whole numbers"):
        mechanism.add_discrete_gaussian_noise([0.5], event, rng=np.random.default_rng())


@pytest.mark.parametrize("stddev", [0.0, -1.0, math.nan, math.inf, 1e17])
def test_stddev_is_refused_when_it_is_out_of_range(stddev):
    with pytest.raises(PrivacyError, match="stddev"):
        _draw(stddev)
