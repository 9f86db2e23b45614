"""Centers of a generator of images, moved until what is cut has the means asked for."""

import numpy as np
import pytest

from dpwgan.critic.center_fit import fit_centers


def make_problem() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    waves = np.linalg.qr(rng.standard_normal((16, 16)))[0].T
    dark = (np.full((2, 16), 0.08) - 0.5) @ waves.T
    return dark, np.stack([0.3 * np.eye(16), 0.15 * np.eye(16)]), waves


@pytest.mark.parametrize(("steps", "near"), [(0, False), (40, True)])
def test_means_are_met_after_the_cut_when_there_are_steps(steps: int, near: bool) -> None:
    means, factors, waves = make_problem()
    centers = fit_centers(means, factors, waves=waves, steps=steps, rng=np.random.default_rng(2))
    latents = np.random.default_rng(3).standard_normal((20_000, 16))
    for label in range(2):
        shown = np.clip(0.5 + (centers[label] + latents @ factors[label]) @ waves, 0, 1).mean()
        assert (abs(shown - 0.08) < 0.01) == near


def test_means_given_are_left_alone_when_fitted() -> None:
    means, factors, waves = make_problem()
    before = means.copy()
    fit_centers(means, factors, waves=waves, steps=2, rng=np.random.default_rng(2))
    np.testing.assert_array_equal(means, before)
