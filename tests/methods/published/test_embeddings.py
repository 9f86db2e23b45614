"""Mean embeddings of images: unit features, how far one record can move the release, and the noise on it."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats
from scipy.fft import dctn

from dpwgan.errors import PrivacyError
from dpwgan.methods.published import embeddings
from dpwgan.methods.published.embeddings import (
    POOLED_SHARE,
    ImageFeatures,
    choose_coefficients,
    combine,
    measure_embedding,
    sum_products,
)

FALSE_ALARM = 1e-6
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


def _contribution(features: ImageFeatures, image: npt.NDArray[np.float64], label: int) -> npt.NDArray[np.float64]:
    return sum_products(features, image[np.newaxis], np.array([label]), classes=3).ravel()


def find_worst_moves(features: ImageFeatures, *, whole: bool = True) -> tuple[float, float]:
    """Searches for the record whose zeroing out, and the pair whose exchange, move the release furthest.

    Not `whole`: the twin, in which the pooled part is not taken off the classes' part.
    """
    images = draw_extremes(features.shape)
    parts = np.stack([_contribution(features, image, label) for image in images for label in (0, 2)])
    if not whole:
        parts = parts.reshape(len(parts), 4, -1) / np.sqrt([1 - POOLED_SHARE] * 3 + [1.0])[:, np.newaxis]
        parts = parts.reshape(len(parts), -1)
    squares = np.square(parts).sum(axis=1)
    apart = squares[:, np.newaxis] + squares - 2 * parts @ parts.T
    return float(np.sqrt(squares.max())), float(np.sqrt(apart.max()))


@pytest.mark.parametrize("shape", SHAPES)
def test_one_record_moves_the_release_no_further_than_is_accounted_for(shape: tuple[int, int, int]) -> None:
    zeroed, replaced = find_worst_moves(make_features(shape))
    assert zeroed <= 1.0
    assert replaced <= embeddings.REPLACE_ONE_FACTOR
    # The bounds are not loose: a worst case comes near.
    assert zeroed > 1 - 1e-6
    assert replaced > 1.3


def test_search_finds_a_move_too_far_when_the_pooled_part_is_not_paid_for() -> None:
    zeroed, replaced = find_worst_moves(make_features((6, 6, 1)), whole=False)
    assert zeroed > 1.0
    assert replaced > embeddings.REPLACE_ONE_FACTOR


def test_pieces_move_by_a_records_own_part_when_tables_are_neighbours() -> None:
    features = make_features((6, 6, 1))
    images = draw_extremes(features.shape)
    labels = np.arange(len(images)) % 3
    whole = sum_products(features, images, labels, classes=3)
    without = sum_products(features, images[1:], labels[1:], classes=3)
    np.testing.assert_allclose((whole - without).ravel(), _contribution(features, images[0], 0), atol=1e-9)


def test_release_is_the_sums_of_a_brute_force_when_there_is_hardly_any_noise() -> None:
    features = make_features((6, 6, 1))
    images = draw_extremes(features.shape)
    labels = np.arange(len(images)) % 3
    released, event = measure_embedding(
        features, images, labels, classes=3, noise_multiplier=1e-9, rng=np.random.default_rng(1)
    )
    rows = features.embed(images)
    expected = [sum(np.outer(row, row) for row in rows[labels == label]) for label in range(3)]
    np.testing.assert_allclose(released.products, expected, atol=1e-6)
    assert event.noise_multiplier == 1e-9
    assert event.replace_one_factor == math.sqrt(2)


def _passes_chi_square(values: npt.NDArray[np.float64], *, stddev: float) -> bool:
    square = float(np.square(values).sum()) / stddev**2
    return FALSE_ALARM / 2 < stats.chi2.cdf(square, values.size) < 1 - FALSE_ALARM / 2


@pytest.mark.statistical
@pytest.mark.parametrize(("share", "passes"), [(1.0, True), (0.9, False)])
def test_noise_has_the_stated_variance_and_the_check_fails_when_it_is_ten_percent_low(
    share: float, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = make_features((8, 8, 1), most=36)
    images, labels = np.random.default_rng(1).random((30, 64)), np.arange(30) % 12
    clean = sum_products(features, images, labels, classes=12)
    seen = []
    real = embeddings.combine
    monkeypatch.setattr(embeddings, "combine", lambda noisy, **more: seen.append(noisy) or real(noisy, **more))
    released, _ = measure_embedding(
        features, images, labels, classes=12, noise_multiplier=2.0 * share, rng=np.random.default_rng()
    )
    assert seen[0].size > 5_000
    assert _passes_chi_square((seen[0] - clean).ravel(), stddev=2.0) == passes
    # What is said of the noise on a class's and on the sum's entries holds too.
    rows = features.embed(images)
    beside = np.triu_indices(features.width, 1)
    apart = released.products - [rows[labels == label].T @ rows[labels == label] for label in range(12)]
    together = apart.sum(axis=0)[beside]
    assert np.std(apart[:, beside[0], beside[1]]) == pytest.approx(released.stddev, rel=0.05)
    assert np.std(together) == pytest.approx(released.pooled_stddev, rel=0.2)


def test_classes_add_to_the_agreed_sum_when_both_were_released() -> None:
    noisy = np.random.default_rng(1).standard_normal((4, 10))
    released = combine(noisy, width=4, noise_multiplier=1.0)
    np.testing.assert_allclose(released.products, released.products.transpose(0, 2, 1))
    # By an independent route: generalised least squares on one entry of the diagonal.
    design = np.vstack([math.sqrt(1 - POOLED_SHARE) * np.eye(3), np.full((1, 3), math.sqrt(POOLED_SHARE))])
    best = np.linalg.lstsq(design, noisy[:, 0], rcond=None)[0]
    np.testing.assert_allclose(released.products[:, 0, 0], best, atol=1e-12)
    covariance = np.linalg.inv(design.T @ design)
    assert released.stddev * math.sqrt(2) == pytest.approx(math.sqrt(covariance[0, 0]))
    assert released.pooled_stddev * math.sqrt(2) == pytest.approx(math.sqrt(covariance.sum()))


def test_release_is_refused_when_there_is_no_noise() -> None:
    features = make_features((6, 6, 1))
    with pytest.raises(PrivacyError):
        measure_embedding(
            features, np.zeros((2, 36)), np.array([0, 1]), classes=2, noise_multiplier=0.0, rng=np.random.default_rng()
        )
