"""Gaussian noise: its law and what it refuses. Its size is tested at the door and with that of all mechanisms."""

import math

import numpy as np
import pytest
from scipy import stats

from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import Gaussian
from dpwgan.privacy.mechanisms.gaussian import add_gaussian_noise

DRAWS = 10_000
ONE = Gaussian(noise_multiplier=1.0)


@pytest.mark.statistical
def test_gaussian_noise_is_normal_and_independent_when_drawn():
    release = add_gaussian_noise(np.zeros(DRAWS), ONE, sensitivity=1.0, rng=np.random.default_rng())
    assert stats.kstest(release, "norm").pvalue > 1e-6
    assert abs(np.corrcoef(release[:-1], release[1:])[0, 1]) < 5 / math.sqrt(DRAWS)
    uniform = np.random.default_rng().uniform(-math.sqrt(3), math.sqrt(3), DRAWS)
    assert stats.kstest(uniform, "norm").pvalue < 1e-6


def test_gaussian_noise_leaves_its_input_alone_when_added():
    values = np.arange(5.0)
    assert add_gaussian_noise(values, ONE, sensitivity=1.0, rng=np.random.default_rng(1)).shape == (5,)
    assert values.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("sensitivity", "noise_multiplier"),
    [(0.0, 1.0), (-1.0, 1.0), (math.nan, 1.0), (math.inf, 1.0), (1e300, 1e300), (1e-200, 1e-200)],
)
def test_gaussian_noise_is_refused_when_its_stddev_is_not_finite_and_above_zero(sensitivity, noise_multiplier):
    event = Gaussian(noise_multiplier=noise_multiplier)
    with pytest.raises(PrivacyError, match="stddev"):
        add_gaussian_noise(np.zeros(2), event, sensitivity=sensitivity, rng=np.random.default_rng(1))


def test_gaussian_noise_is_refused_when_a_value_is_not_finite():
    with pytest.raises(PrivacyError, match="finite"):
        add_gaussian_noise([1.0, math.nan], ONE, sensitivity=1.0, rng=np.random.default_rng(1))
