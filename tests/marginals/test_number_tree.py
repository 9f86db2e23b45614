"""Intervals of a number's levels from noisy histograms, against least squares and against every partition."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.marginals import number_tree
from dpwgan.marginals.number_tree import NumberTree
from dpwgan.marginals.one_ways import BRANCHING


def fold_blocks(counts: np.ndarray, *, histograms: int) -> list[np.ndarray]:
    blocks = [counts.astype(np.float64)]
    for _ in range(histograms - 1):
        size = -(-len(blocks[0]) // BRANCHING)
        padded = np.zeros(size * BRANCHING)
        padded[: len(blocks[0])] = blocks[0]
        blocks.insert(0, padded.reshape(size, BRANCHING).sum(axis=1))
    return blocks


def make_design(levels: int, histograms: int) -> np.ndarray:
    """One row a measured block: which levels it adds up."""
    rows = [
        (np.arange(levels) // BRANCHING**depth == block).astype(float)
        for depth in reversed(range(histograms))
        for block in range(-(-levels // BRANCHING**depth))
    ]
    return np.array(rows)


@pytest.mark.parametrize(("levels", "histograms"), [(1, 1), (7, 1), (32, 2), (37, 2), (300, 3), (257, 3)])
def test_estimates_are_those_of_least_squares_when_every_level_is_told_apart(levels, histograms):
    rng = np.random.default_rng(levels)
    counts = rng.permutation(levels) * 100.0 + 500.0
    blocks = [block + rng.normal(0, 2.0, block.shape) for block in fold_blocks(counts, histograms=histograms)]
    tree = NumberTree(blocks, stddev=2.0)
    design, measured = make_design(levels, histograms), np.concatenate(blocks)
    precision = design.T @ design / 4.0
    # The total without knowing it beforehand.
    covariance = np.linalg.inv(precision)
    free = covariance @ design.T @ measured / 4.0
    assert tree.total == pytest.approx((free.sum(), covariance.sum()))
    # The levels, given the total.
    total = float(counts.sum())
    ones = np.ones(levels)
    system = np.block([[precision, ones[:, None]], [ones[None, :], np.zeros((1, 1))]])
    fitted = np.linalg.solve(system, np.append(design.T @ measured / 4.0, total))[:levels]
    intervals = tree.split(total=total, most_count=0.0)
    assert intervals.sizes.tolist() == [1] * levels
    assert intervals.masses == pytest.approx(fitted)
    # From what is inside a level alone: its own count, or the mean of all where blocks hold one level only.
    twice = levels - 1 if histograms > 1 and levels % BRANCHING == 1 else levels
    assert intervals.counts[:twice] == pytest.approx(blocks[-1][:twice])
    assert intervals.variances[:twice] == pytest.approx(np.full(twice, 4.0))
    for level in range(twice, levels):
        assert intervals.counts[level] == pytest.approx(np.mean([block[-1] for block in blocks]))
        assert intervals.variances[level] == pytest.approx(4.0 / histograms)


def partitions(start: int, size: int) -> Iterator[list[tuple[int, int]]]:
    """Every dyadic partition of `size` levels from `start` on."""
    yield [(start, size)]
    if size > 1:
        for left in partitions(start, size // 2):
            for right in partitions(start + size // 2, size // 2):
                yield left + right


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, 9.0, -3.0]), min_size=8, max_size=8), st.sampled_from([0.5, 1.0, 3.0]))
def test_partition_has_the_least_penalised_squares_when_compared_with_every_other(counts, stddev):
    values = np.array(counts)

    def price(parts: list[tuple[int, int]]) -> float:
        misfit = sum(np.sum((values[a : a + m] - values[a : a + m].mean()) ** 2) for a, m in parts)
        return float(misfit / stddev**2) + number_tree._SPLIT_PENALTY * len(parts)

    intervals = NumberTree([values], stddev=stddev).split(total=1.0, most_count=np.inf)
    found = list(zip(intervals.starts.tolist(), intervals.sizes.tolist(), strict=True))
    assert price(found) == pytest.approx(min(price(parts) for parts in partitions(0, 8)))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 700), st.integers(1, 3), st.floats(0.1, 1e4), st.integers(0, 2**31))
def test_intervals_cover_all_levels_with_all_records_when_split(levels, histograms, stddev, seed):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(rng.choice([0, 1, 300], levels))
    blocks = [block + rng.normal(0, stddev, block.shape) for block in fold_blocks(counts, histograms=histograms)]
    most_count = float(rng.choice([1.0, 100.0, 1e6]))
    intervals = NumberTree(blocks, stddev=stddev).split(total=10_000.0, most_count=most_count)
    assert intervals.starts[0] == 0
    assert np.array_equal(intervals.starts[1:], np.cumsum(intervals.sizes)[:-1])
    assert intervals.sizes.sum() == levels
    assert intervals.masses.min() >= 0
    assert intervals.masses.sum() == pytest.approx(10_000.0)
    assert np.all((intervals.masses <= most_count) | (intervals.sizes == 1))
    assert np.all(intervals.variances > 0)


def test_few_intervals_are_found_when_there_is_nothing_but_noise():
    rng = np.random.default_rng(5)
    blocks = [rng.normal(0, 50.0, block.shape) for block in fold_blocks(np.zeros(1 << 16), histograms=3)]
    intervals = NumberTree(blocks, stddev=50.0).split(total=1_000.0, most_count=np.inf)
    assert len(intervals.starts) < 300


def test_lone_level_is_found_when_it_stands_out_of_a_wide_empty_range():
    counts = np.zeros(1 << 16)
    counts[40_961] = 1_000.0
    rng = np.random.default_rng(6)
    blocks = [block + rng.normal(0, 50.0, block.shape) for block in fold_blocks(counts, histograms=3)]
    intervals = NumberTree(blocks, stddev=50.0).split(total=1_000.0, most_count=np.inf)
    spike = intervals.starts.tolist().index(40_961)
    assert intervals.sizes[spike] == 1
    assert intervals.counts[spike] == pytest.approx(1_000.0, abs=250)
    assert intervals.masses[spike] > 750
