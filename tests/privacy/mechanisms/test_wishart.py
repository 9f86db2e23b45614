"""Noise on matrices without a delta: its law, its spectrum, what it refuses, and the twin that adds one half."""

import math

import numpy as np
import pytest
from scipy import stats

from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import Wishart
from dpwgan.privacy.mechanisms.wishart import EDGE, add_wishart_noise, shrink_eigenvalues

FALSE_ALARM = 1e-6
UNIT = 2**30


def draw(p: int, *, epsilon: float = 0.5, rng: np.random.Generator) -> np.ndarray:
    """The noise in units of the trace bound."""
    released, _ = add_wishart_noise(np.zeros((p, p), np.int64), Wishart(epsilon=epsilon), trace_bound=UNIT, rng=rng)
    return released / UNIT


@pytest.mark.statistical
def test_noise_is_that_of_laplace_when_there_is_one_number():
    """Kolmogorov and Smirnov's test; the twin whose noise is 20% low fails."""
    rng = np.random.default_rng()
    draws = np.array([draw(1, rng=rng)[0, 0] for _ in range(20_000)])
    assert stats.kstest(draws, stats.laplace(scale=2.0).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(0.8 * draws, stats.laplace(scale=2.0).cdf).pvalue < FALSE_ALARM


@pytest.mark.statistical
def test_noise_has_the_stated_stddev_when_a_matrix_is_released():
    """35,400 numbers beside the diagonal; the twin whose noise is 10% low fails."""
    rng, p = np.random.default_rng(), 60
    _, stddev = add_wishart_noise(np.zeros((p, p), np.int64), Wishart(epsilon=0.5), trace_bound=UNIT, rng=rng)
    assert stddev / UNIT == pytest.approx(math.sqrt(30.5) / 0.5)
    draws = np.array([draw(p, rng=rng) for _ in range(20)]) * UNIT / stddev
    np.testing.assert_array_equal(draws, draws.transpose(0, 2, 1))
    rows, columns = np.triu_indices(p, 1)
    beside = np.square(draws[:, rows, columns]).mean()
    assert 0.95 < beside < 1.05
    assert not 0.95 < 0.81 * beside < 1.05
    assert 1.5 < np.square(np.diagonal(draws, axis1=1, axis2=2)).mean() < 2.5


@pytest.mark.statistical
def test_record_is_as_likely_as_stated_when_its_direction_is_looked_at():
    """The attacker who knows z looks along it, at u = z^T (release) z: no set of u may have e^E times the odds."""
    rng, p, draws = np.random.default_rng(), 3, 20_000
    z = np.ones(p) / math.sqrt(p)
    seen = np.array([z @ draw(p, epsilon=1.0, rng=rng) @ z for _ in range(draws)])
    edges = np.quantile(seen, np.linspace(0.05, 0.95, 19))
    without, with_it = np.mean(seen[:, np.newaxis] > edges, axis=0), np.mean(seen[:, np.newaxis] + 1 > edges, axis=0)
    allowed = 5 * np.sqrt(1 / draws)
    assert np.all(with_it <= math.e * without + 3 * allowed)
    assert np.all(1 - without <= math.e * (1 - with_it) + 3 * allowed)
    # It is not loose: some set comes near.
    assert np.max(with_it / np.maximum(without, 1e-3)) > 1.6


def test_eigenvalues_end_where_stated_and_are_taken_off_when_there_is_nothing_else():
    rng, p = np.random.default_rng(2), 200
    values = np.linalg.eigvalsh(draw(p, epsilon=1.0, rng=rng))
    assert values.max() / p == pytest.approx(EDGE, rel=0.08)
    assert np.count_nonzero(shrink_eigenvalues(values, scale=1.0)) <= 3
    # A value far beyond is true; between, it is shortened, the more the nearer it is to the edge.
    beyond = shrink_eigenvalues(np.full(p, 1e9), scale=1.0)
    np.testing.assert_allclose(beyond, 1e9, rtol=1e-3)
    some = shrink_eigenvalues(np.concatenate([EDGE * p * np.array([1.01, 1.5, 3.0]), np.zeros(p - 3)]), scale=1.0)
    shares = some[:3] / (EDGE * p * np.array([1.01, 1.5, 3.0]))
    assert 0 < shares[0] < 0.35 < shares[1] < shares[2] < 1


def test_lone_eigenvalue_is_nearer_to_the_truth_when_it_is_shortened():
    rng, p = np.random.default_rng(3), 150
    truth = np.zeros((p, p))
    truth[0, 0] = 2.0 * p
    values, vectors = np.linalg.eigh(truth + draw(p, epsilon=1.0, rng=rng))
    found = (vectors * shrink_eigenvalues(values, scale=1.0)) @ vectors.T
    plain = (vectors * np.maximum(values, 0.0)) @ vectors.T
    assert np.linalg.norm(found - truth) < 0.5 * np.linalg.norm(plain - truth)
    assert np.linalg.norm(found - truth) < np.linalg.norm(truth)


def test_exact_sums_come_back_when_the_noise_is_below_a_unit():
    values = np.array([[5, -2], [-2, 7]]) * 10**6
    released, _ = add_wishart_noise(values, Wishart(epsilon=50.0), trace_bound=1, rng=np.random.default_rng(4))
    assert np.abs(released - values).max() <= 2
    assert released.dtype == np.int64


@pytest.mark.parametrize(
    ("values", "bound", "epsilon", "words"),
    [
        (np.eye(2), 1, 1.0, "whole numbers"),
        (np.array([[1, 2], [3, 1]]), 1, 1.0, "symmetric"),
        (np.array([1, 2]), 1, 1.0, "symmetric"),
        (np.eye(2, dtype=np.int64), 0, 1.0, "trace bound"),
        (np.eye(2, dtype=np.int64), True, 1.0, "trace bound"),
        (np.eye(2, dtype=np.int64), UNIT, 1e-12, "too small for Wishart noise"),
    ],
)
def test_release_is_refused_when_it_cannot_be_private(values, bound, epsilon, words):
    with pytest.raises(PrivacyError, match=words):
        add_wishart_noise(values, Wishart(epsilon=epsilon), trace_bound=bound, rng=np.random.default_rng(0))
