"""Images in few coordinates: orthonormal waves, the lowest first, and features of unit length."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy.fft import dctn

from dpwgan.images.cosine_space import ImageFeatures, choose_coefficients

SHAPES = [(6, 6, 1), (5, 8, 1), (4, 4, 3), (1, 1, 1), (1, 7, 3)]


def make_features(shape: tuple[int, int, int], most: int = 12) -> ImageFeatures:
    return ImageFeatures(shape=shape, coefficients=choose_coefficients(shape, most=most))


def draw_extremes(shape: tuple[int, int, int], *, seed: int = 0) -> npt.NDArray[np.float64]:
    """Black, white, gray and checkered images, waves cut to the range, single bright pixels, and noise."""
    rng = np.random.default_rng(seed)
    pixels = math.prod(shape)
    waves = make_features(shape).waves
    return np.concatenate(
        [
            np.zeros((1, pixels)),
            np.ones((1, pixels)),
            np.full((1, pixels), 0.5),
            np.arange(pixels)[np.newaxis] % 2.0,
            (waves > 0).astype(float),
            (waves < 0).astype(float),
            np.eye(pixels)[:4],
            rng.integers(0, 2, (20, pixels)).astype(float),
            rng.random((20, pixels)),
        ]
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_features_are_of_unit_length_when_images_are_of_any_kind(shape: tuple[int, int, int]) -> None:
    features = make_features(shape)
    lengths = np.linalg.norm(features.embed(draw_extremes(shape)), axis=1)
    assert lengths.max() <= 1.0
    assert lengths.min() > 1 - 1e-9


def test_coefficients_are_those_of_a_library_when_images_are_gray() -> None:
    features = make_features((5, 8, 1), most=20)
    images = np.random.default_rng(1).random((3, 5, 8))
    mine = (images.reshape(3, -1) - 0.5) @ features.waves.T
    a, b, _ = features.coefficients.T
    np.testing.assert_allclose(mine, dctn(images - 0.5, axes=(1, 2), norm="ortho")[:, a, b], atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_waves_are_orthonormal_and_lowest_come_first_when_chosen(shape: tuple[int, int, int]) -> None:
    features = make_features(shape, most=10)
    np.testing.assert_allclose(features.waves @ features.waves.T, np.eye(len(features.waves)), atol=1e-12)
    assert 1 <= len(features.coefficients) <= 10
    assert features.orders[0] == 0
    assert np.all(np.diff(features.orders) >= 0)
    assert np.ptp(features.waves[0]) < 1e-12


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_at_most_so_many_coefficients_are_chosen_when_few_are_asked_for(most: int) -> None:
    assert len(choose_coefficients((9, 9, 3), most=most)) in range(1, most + 1)
