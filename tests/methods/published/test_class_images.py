"""What a release says of the classes: exact without noise, and less than the noise would say with it."""

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.methods.published.class_images import ClassImages, estimate_classes, factor_semidefinite
from dpwgan.methods.published.embeddings import ImageFeatures, choose_coefficients, measure_embedding

SHAPE = (6, 6, 1)
FEATURES = ImageFeatures(shape=SHAPE, coefficients=choose_coefficients(SHAPE, most=36))


def draw(records: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Black and white images, all of which are as far from gray: their features differ in no weight."""
    rng = np.random.default_rng(1)
    labels = rng.choice(3, size=records, p=[0.5, 0.3, 0.2])
    bright = rng.random((records, 6, 6)) < 0.2
    bright[np.arange(records), labels] |= rng.random((records, 6)) < 0.7
    return bright.reshape(records, 36).astype(float), labels


def estimate(records: int, *, noise_multiplier: float) -> ClassImages:
    images, labels = draw(records)
    released, _ = measure_embedding(
        FEATURES, images, labels, classes=3, noise_multiplier=noise_multiplier, rng=np.random.default_rng(3)
    )
    return estimate_classes(released, FEATURES, records=records)


def test_shares_means_and_covariances_are_the_tables_when_there_is_hardly_any_noise() -> None:
    images, labels = draw(4_000)
    found = estimate(4_000, noise_multiplier=1e-6)
    np.testing.assert_allclose(found.shares, np.bincount(labels) / 4_000, atol=1e-6)
    for label in range(3):
        points = ((images[labels == label] - 0.5) @ FEATURES.waves.T) * FEATURES.weights
        # Weights of records differ a little, as low frequencies count less than high ones.
        np.testing.assert_allclose(found.means[label], points.mean(axis=0), atol=0.06)
        covariance = np.cov(points.T)
        mine = found.factors[label] @ found.factors[label].T
        assert np.linalg.norm(mine - covariance) < 0.1 * np.linalg.norm(covariance)


def test_estimate_is_finite_and_shrunk_when_noise_drowns_everything() -> None:
    images, labels = draw(400)
    found = estimate(400, noise_multiplier=30.0)
    points = ((images - 0.5) @ FEATURES.waves.T) * FEATURES.weights
    assert np.all(np.isfinite(found.factors))
    assert found.shares.sum() == pytest.approx(1.0)
    truth = np.stack([points[labels == label].mean(axis=0) for label in range(3)])
    noise_alone = 30.0 * FEATURES.constant / (0.4 * 400 / 3)
    # A class that is hardly ever drawn may look like anything.
    assert found.shares @ np.abs(found.means - truth).mean(axis=1) < noise_alone


def test_classes_are_told_apart_by_less_when_there_is_more_noise() -> None:
    spreads = [
        float(np.abs(found.means - found.means.mean(axis=0)).mean())
        for found in (estimate(4_000, noise_multiplier=sigma) for sigma in (0.1, 100.0))
    ]
    assert spreads[0] > 0.05
    assert spreads[1] < 3 * spreads[0]


def test_factor_is_of_the_nearest_semidefinite_matrix_when_one_is_not() -> None:
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((5, 5))
    matrix = matrix + matrix.T
    factor = factor_semidefinite(matrix)
    values, vectors = np.linalg.eigh(matrix)
    np.testing.assert_allclose(factor @ factor.T, (vectors * np.maximum(values, 0)) @ vectors.T, atol=1e-12)
    sound = matrix @ matrix.T
    factor = factor_semidefinite(sound)
    np.testing.assert_allclose(factor @ factor.T, sound, atol=1e-10)
