"""Images from clipped Gaussians: their moments, their classes, and the way to disk and back."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from dpwgan.errors import DpwganError
from dpwgan.images.sampler import GaussianImages, clip_moments, fit_clipped, fit_pixels
from tests.images.test_grid import make_grid

PIXELS, P = 12, 4


def make_moments(*, shared: bool = True) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.standard_normal((PIXELS, P)))[0].T
    factors = 0.3 * rng.standard_normal((1 if shared else 3, P, P))
    return {
        "pictures": np.clip(0.5 + 0.4 * rng.standard_normal((3, P)) @ basis, 0.0, 1.0),
        "basis": basis,
        "covariances": factors @ factors.transpose(0, 2, 1),
        "shares": np.array([0.5, 0.3, 0.2]),
    }


def make_sampler(moments: dict[str, np.ndarray]) -> GaussianImages:
    grid = make_grid((4, 3, 1))
    return fit_pixels(replace(grid, sources=grid.sources[::-1]), **moments)


def test_clipped_moments_are_those_of_an_integral_when_worked_out():
    for location, spread in ((0.2, 0.3), (-1.0, 0.6), (0.5, 2.0), (1.3, 0.2), (0.5, 0.01)):
        law = stats.norm(location, spread)
        mean = integrate.quad(law.sf, 0, 1, points=[min(max(location, 0), 1)])[0]
        square = integrate.quad(lambda x, law=law: 2 * x * law.sf(x), 0, 1, points=[min(max(location, 0), 1)])[0]
        found = clip_moments(np.array([location]), np.array([spread]))
        assert found[0][0] == pytest.approx(mean, abs=1e-8)
        assert found[1][0] == pytest.approx(square - mean**2, abs=1e-8)


def test_clipped_gaussians_have_the_asked_moments_when_fitted():
    means, shares = np.meshgrid([0.005, 0.05, 0.3, 0.5, 0.8, 0.99], [0.02, 0.1, 0.3, 0.6, 0.9])
    variances = shares * means * (1 - means)
    found, spread = clip_moments(*fit_clipped(means, variances))
    np.testing.assert_allclose(found, means, atol=1e-4)
    np.testing.assert_allclose(np.sqrt(spread), np.sqrt(variances), rtol=0.01)
    # Legal whatever is asked: means beyond the range, no variance, or more than there can be.
    for mean, variance in ((-3.0, 1.0), (2.0, 0.0), (0.5, 9.0), (0.0, 0.0)):
        location, width = fit_clipped(np.array([mean]), np.array([variance]))
        assert np.isfinite(location[0])
        assert width[0] > 0


@pytest.mark.parametrize("shared", [True, False])
def test_drawn_images_have_the_released_moments_when_sampled(shared):
    moments = make_moments(shared=shared)
    sampler = make_sampler(moments)
    (drawn,) = sampler.sample(60_000, rng=np.random.default_rng(2))
    labels, pixels = drawn.codes[:, 0], drawn.numbers[:, ::-1]
    np.testing.assert_allclose(np.bincount(labels) / 60_000, moments["shares"], atol=0.01)
    within = np.zeros(PIXELS)
    for k, share in enumerate(moments["shares"]):
        mine = pixels[labels == k]
        np.testing.assert_allclose(mine.mean(axis=0), moments["pictures"][k], atol=0.02)
        within += share * mine.var(axis=0)
    released = (
        moments["covariances"] * moments["shares"][:, np.newaxis, np.newaxis] if not shared else moments["covariances"]
    )
    asked = np.einsum("pi,pq,qi->i", moments["basis"], released.sum(axis=0), moments["basis"])
    coins = moments["shares"] @ (moments["pictures"] * (1 - moments["pictures"]))
    free = asked < 0.6 * coins  # elsewhere a pixel cannot vary so much
    assert free.sum() >= 5
    np.testing.assert_allclose(np.sqrt(within[free]), np.sqrt(asked[free]), rtol=0.1)
    # Pixels are whole levels in their range.
    assert 0 <= drawn.numbers.min() < drawn.numbers.max() <= 1
    np.testing.assert_allclose(drawn.numbers * 255, np.rint(drawn.numbers * 255), atol=1e-3)


def test_arrays_are_refused_when_they_do_not_fit_together():
    sampler = make_sampler(make_moments())
    locations, spreads, loadings = sampler.weights
    wrong: list[dict[str, Any]] = [
        {"shares": np.ones(3)},
        {"shares": np.ones(2) / 2},
        {"grid": replace(sampler.grid, sources=(0,) * PIXELS)},
        {"grid": replace(sampler.grid, levels=0)},
        {"weights": (locations * np.nan, spreads, loadings)},
        {"weights": (locations, spreads[:2], loadings)},
        {"weights": (locations, spreads, loadings[:, :, :2])},
    ]
    for changes in wrong:
        with pytest.raises(DpwganError, match="do not fit"):
            replace(sampler, **changes)
