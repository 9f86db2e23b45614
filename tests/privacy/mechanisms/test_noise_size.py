"""How large the noise of every mechanism is, of 131,072 draws under one seed: a tenth less, a fifth of the variance."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from dpwgan.privacy.events import Event, Gaussian, Laplace, Wishart, discrete_gaussian
from dpwgan.privacy.mechanisms.discrete_gaussian import _find_law, _sample, add_discrete_gaussian_noise
from dpwgan.privacy.mechanisms.gaussian import add_gaussian_noise
from dpwgan.privacy.mechanisms.laplace import add_laplace_noise
from dpwgan.privacy.mechanisms.normal_numbers import draw_normal_numbers
from dpwgan.privacy.mechanisms.wishart import add_wishart_noise

DRAWS = 1 << 17
WHOLE = np.arange(-200, 201)


def draw(add: Callable[..., np.ndarray], event: Event, **sizes: float) -> Callable[[np.random.Generator], np.ndarray]:
    """The noise that a mechanism adds to zeros."""
    return lambda rng: add(np.zeros((2, DRAWS // 2), np.int64), event, rng=rng, **sizes).ravel()


def draw_discrete_gaussian(stddev: float) -> Callable[[np.random.Generator], np.ndarray]:
    return draw(add_discrete_gaussian_noise, discrete_gaussian(noise_multiplier=stddev, cells=1))


def draw_wishart(rng: np.random.Generator) -> np.ndarray:
    """What lies beside the diagonal of one matrix of 2^17 such numbers, or nearly."""
    noise, _ = add_wishart_noise(np.zeros((512, 512), np.int64), Wishart(epsilon=0.5), trace_bound=2**30, rng=rng)
    return noise[np.triu_indices(512, 1)] / 2**30


def get_variance(weights: np.ndarray) -> float:
    return float(weights @ WHOLE**2 / weights.sum())


@pytest.mark.parametrize(
    ("draw_all", "variance"),
    [
        (draw(add_gaussian_noise, Gaussian(noise_multiplier=2.0), sensitivity=3.0), 36.0),
        (draw_discrete_gaussian(6.0), 36.0),
        (draw_discrete_gaussian(0.75), get_variance(np.exp(-(WHOLE**2) / (2 * 0.75**2)))),
        # Of a table as small as can be and of two bits more.
        (lambda rng: _sample(DRAWS, _find_law(3.0, most=1), rng), 9.0),
        (draw(add_laplace_noise, Laplace(epsilon=0.5), sensitivity=3), get_variance(np.exp(-np.abs(WHOLE) / 6))),
        (draw(add_laplace_noise, Laplace(epsilon=4.5), sensitivity=3), get_variance(np.exp(-np.abs(WHOLE) * 1.5))),
        (draw_wishart, 513 / 2 / 0.5**2),
        (lambda rng: draw_normal_numbers(DRAWS, stddev=6.0, rng=rng, step_noise="plain"), 36.0),
        (lambda rng: draw_normal_numbers(DRAWS, stddev=6.0, rng=rng, step_noise="fast"), 36.0),
    ],
    ids=["gaussian", "discrete", "discrete-small", "parts", "laplace", "laplace-small", "wishart", "plain", "fast"],
)
def test_noise_has_its_variance_and_no_part_comes_twice_when_drawn(draw_all, variance):
    drawn = np.asarray(draw_all(np.random.default_rng(1)), np.float64)
    assert abs(drawn.mean()) < 5 * math.sqrt(variance / drawn.size)
    assert np.mean(np.square(drawn)) == pytest.approx(variance, rel=0.03)
    halves = drawn[: drawn.size // 2 * 2].reshape(2, -1)
    assert abs(np.corrcoef(halves)[0, 1]) < 0.02
