"""What noise explains of an answer: taken out cell by cell, and of neighbours in order block by block."""

import functools

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpwgan.marginals.answers.denoising import denoise, draw_to_multiples, draw_towards, take_sums
from dpwgan.marginals.answers.settled import draw_to_columns


def draw_band(size: int, *, stddev: float, shuffled: bool) -> tuple[npt.NDArray, ...]:
    """Counts of two numbers that hang together, of independent ones, and with noise; or of groups out of order."""
    rng = np.random.default_rng(3)
    left, right = np.indices((size, size))
    band = np.exp(-0.5 * ((left - right) / 2.5) ** 2) * (1.0 + 0.3 * np.sin(left / 5))
    counts = 60.0 * band / band.max()
    if shuffled:
        counts = counts[rng.permutation(size)][:, rng.permutation(size)]
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    return counts, expected, counts + rng.normal(0.0, stddev, counts.shape)


@pytest.mark.parametrize("shuffled", [False, True])
def test_blocks_of_neighbours_show_what_cells_hide_when_cells_lie_below_the_noise(shuffled):
    """Half of the error that cells leave; the twin, whose neighbours are not alike, is to miss that."""
    counts, expected, noisy = draw_band(41, stddev=20.0, shuffled=shuffled)
    by_cells, by_blocks = (
        float(np.abs(denoise(noisy, expected, stddev=20.0, ordered=ordered)[0] - counts).sum())
        for ordered in ((False, False), (True, True))
    )
    assert (by_blocks < 0.6 * by_cells) is not shuffled
    assert by_blocks < 1.02 * by_cells


def test_independent_numbers_stay_so_when_nothing_but_noise_is_to_be_seen():
    _, expected, _ = draw_band(41, stddev=60.0, shuffled=False)
    noisy = expected + np.random.default_rng(4).normal(0.0, 60.0, expected.shape)
    left = np.abs(denoise(noisy, expected, stddev=60.0, ordered=(True, True))[0] - expected).sum()
    assert left < 0.2 * np.abs(noisy - expected).sum()


@settings(max_examples=60)
@given(st.lists(st.integers(1, 11), min_size=2, max_size=3), st.integers(0, 2**31), st.data())
def test_answer_is_kept_when_there_is_hardly_any_noise(shape, seed, data):
    rng = np.random.default_rng(seed)
    counts, expected = rng.gamma(0.5, 50.0, shape), rng.gamma(0.5, 50.0, shape)
    ordered = data.draw(st.tuples(*[st.booleans()] * len(shape)))
    assert denoise(counts, expected, stddev=1e-6, ordered=ordered)[0] == pytest.approx(counts, abs=1e-3)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 11), min_size=2, max_size=3), st.integers(0, 2**31), st.floats(1.0, 1e4))
def test_drawn_counts_are_numbers_between_what_noise_allows_when_shapes_are_odd(shape, seed, stddev):
    rng = np.random.default_rng(seed)
    expected = rng.gamma(0.5, 50.0, shape) * rng.integers(0, 2, shape)
    noisy = expected + rng.normal(0.0, stddev, shape)
    drawn, stddevs = denoise(noisy, expected, stddev=stddev, ordered=[True] * len(shape))
    assert drawn.shape == stddevs.shape == noisy.shape
    # No cell is taken to be known more than twice as well as the noise has it, or worse.
    assert stddev / 2 <= stddevs.min() <= stddevs.max() <= stddev
    assert np.isfinite(drawn).all()
    # No further from the noisy counts than all that they could have been drawn towards.
    assert np.abs(drawn).max() <= np.abs(noisy).sum() + np.abs(expected).sum()


def test_noisy_count_is_a_posterior_mean_when_it_lies_near_what_was_expected():
    """By integration over a fine grid: a count normal around the expected one, seen through normal noise."""
    counts = np.linspace(-200.0, 300.0, 200_001)
    for expected, noisy in ((50.0, 55.0), (50.0, 35.0), (3.0, 10.0), (1.0, -8.0)):
        weights = stats.norm.pdf(counts, expected, expected) * stats.norm.pdf(noisy, counts, 5.0)
        mean = float((weights * counts).sum() / weights.sum())
        drawn = draw_towards(np.array([noisy]), np.array([expected]), stddev=5.0)
        assert drawn[0] == pytest.approx(mean, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 2)])
def test_sums_are_those_of_the_answer_and_the_rest_is_as_expected_when_sums_are_taken(shape):
    rng = np.random.default_rng(17)
    expected = functools.reduce(np.multiply.outer, [rng.uniform(0.5, 2.0, size) for size in shape])
    noisy = expected * 7 + rng.normal(0, 3.0, shape)
    taken = take_sums(noisy, expected)
    for axis in range(len(shape)):
        others = tuple(other for other in range(len(shape)) if other != axis)
        assert taken.sum(axis=others) == pytest.approx(noisy.sum(axis=others))
    # Nothing is moved where the sums are met already, and an attribute's own sums move no other's.
    assert take_sums(taken, expected) == pytest.approx(taken)
    assert take_sums(expected, expected) == pytest.approx(expected)
    assert np.isfinite(take_sums(np.ones(shape), np.zeros(shape))).all()


def test_noisy_count_stays_between_when_it_is_drawn():
    rng = np.random.default_rng(16)
    expected = np.concatenate(([0.0] * 500, rng.gamma(0.5, 200.0, 1_500)))
    noisy = expected + rng.normal(0, 40.0, 2_000)
    noisy[:20] += 400.0
    drawn = draw_towards(noisy, expected, stddev=10.0)
    kept = (drawn - expected) / (noisy - expected)
    assert kept.min() >= 0
    assert kept.max() <= 1
    far = np.abs(noisy - expected) > 40.0
    assert kept[far].min() >= 16 / 17
    # Where nothing was expected and nothing stands out, nothing is left.
    assert np.all(drawn[:500][~far[:500]] == 0)
    # A cell that is expected to hold far more than the noise keeps its answer.
    assert kept[expected > 200.0].min() > 0.99


@pytest.mark.parametrize("determined", [False, True])
def test_columns_that_determine_each_other_are_told_from_those_that_do_not_when_cells_are_below_the_noise(determined):
    """60 places of 12 regions, 120 records each: 3 stddevs of the noise. The twin knows of one spread alone."""
    rng = np.random.default_rng(5)
    counts = np.full((60, 12), 10.0)
    if determined:
        counts = 120.0 * np.eye(12)[rng.integers(0, 12, 60)]
    noisy, expected = counts + rng.normal(0.0, 40.0, counts.shape), np.full(counts.shape, 10.0)
    errors = {
        name: np.abs(drawn - counts).sum()
        for name, drawn in (
            ("multiples", draw_to_multiples(noisy, expected, stddev=40.0).means),
            ("one spread", draw_towards(noisy, expected, stddev=40.0)),
        )
    }
    assert errors["multiples"] < (0.75 * errors["one spread"] if determined else 0.2 * np.abs(noisy - counts).sum())
    cells = draw_to_multiples(noisy, take_sums(noisy, expected), stddev=40.0)
    of_rows = draw_to_columns(noisy, expected, cells, stddev=40.0)
    assert np.array_equal(denoise(noisy, expected, stddev=40.0, ordered=(False, False))[0], of_rows.means)
    # Three attributes have no rows and columns: cells are looked at by themselves.
    of_three = denoise(noisy[np.newaxis], expected[np.newaxis], stddev=40.0, ordered=(False, False, False))
    assert of_three[0] == pytest.approx(
        draw_to_multiples(noisy[np.newaxis], take_sums(noisy[np.newaxis], expected[np.newaxis]), stddev=40.0).means
    )
