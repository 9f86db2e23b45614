"""Pictures that others are made of: orthonormal, the lowest frequencies first; and points of images in them."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy.fft import dctn

from dpwgan.images.basis import LENGTH, CosineSpace, bend_basis, make_colour_basis, make_cosine_basis
from tests.images.test_grid import make_grid

SHAPES = [(6, 6, 1), (5, 8, 1), (4, 4, 3), (1, 1, 1), (1, 7, 3)]


def draw_extremes(shape: tuple[int, int, int]) -> npt.NDArray[np.float64]:
    """Black, white, gray and checkered images, waves cut to the range, single bright pixels, and noise."""
    rng = np.random.default_rng(0)
    pixels = math.prod(shape)
    waves, _ = make_colour_basis(shape, most=12)
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


@pytest.mark.parametrize("shape", [(8, 8, 1), (8, 9, 3)])
def test_points_are_of_one_length_when_images_are_of_any_kind(shape):
    lengths = np.linalg.norm(CosineSpace(grid=make_grid(shape), most=12).embed(draw_extremes(shape)), axis=1)
    assert lengths.max() <= LENGTH
    assert lengths.min() > LENGTH * (1 - 1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_colour_basis_is_orthonormal_and_lowest_come_first_when_made(shape):
    waves, orders = make_colour_basis(shape, most=10)
    np.testing.assert_allclose(waves @ waves.T, np.eye(len(waves)), atol=1e-12)
    assert 1 <= len(waves) == len(orders) <= 10
    assert orders[0] == 0
    assert np.all(np.diff(orders) >= 0)
    assert np.ptp(waves[0]) < 1e-12


def test_bases_are_those_of_another_library_when_all_frequencies_are_asked_for():
    picture = np.random.default_rng(7).random((4, 6))
    theirs = np.sort(np.abs(dctn(picture, norm="ortho").ravel()))
    for basis, _ in (make_cosine_basis((4, 6, 1), dimension=24), make_colour_basis((4, 6, 1), most=24)):
        np.testing.assert_allclose(np.sort(np.abs(basis @ picture.ravel())), theirs, atol=1e-12)


def test_basis_turns_to_where_a_picture_varies_when_it_is_bent():
    basis, _ = make_cosine_basis((6, 6, 1), dimension=8)
    picture = np.zeros((6, 6))
    picture[2:4] = 0.5
    bent = bend_basis(basis, picture.ravel(), least_variance=0.01)
    np.testing.assert_allclose(bent @ bent.T, np.eye(8), atol=1e-12)
    energy = np.square(bent).sum(axis=0).reshape(6, 6)
    assert energy[2:4].mean() > 2 * energy[[0, 1, 4, 5]].mean()
    # A grey picture varies everywhere alike, and bends nothing.
    np.testing.assert_allclose(bend_basis(basis, np.full(36, 0.5), least_variance=0.01), basis, atol=1e-12)


def test_cosine_basis_is_orthonormal_and_its_first_picture_is_constant_when_made():
    for shape in ((4, 3, 1), (5, 5, 3), (1, 6, 1), (7, 2, 3)):
        pixels = math.prod(shape)
        basis, bands = make_cosine_basis(shape, dimension=pixels)
        np.testing.assert_allclose(basis @ basis.T, np.eye(pixels), atol=1e-12)
        assert np.all(np.diff(bands) >= 0)
        first = basis[0].reshape(shape)[..., 0]
        np.testing.assert_allclose(first, first[0, 0])
        np.testing.assert_array_equal(make_cosine_basis(shape, dimension=2)[0], basis[:2])
