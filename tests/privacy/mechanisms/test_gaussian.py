import math

import numpy as np
import pytest
from scipy import stats

from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import gaussian
from dpwgan.privacy.mechanisms.gaussian import add_gaussian_noise
from tests.normal_law import has_variance

FALSE_ALARM = 1e-6
DRAWS = 10_000


@pytest.mark.statistical
def test_gaussian_noise_has_the_stated_variance_when_drawn():
    release, event = add_gaussian_noise(
        np.full((100, DRAWS // 100), 7.0), sensitivity=3.0, noise_multiplier=2.0, rng=np.random.default_rng()
    )
    assert event == gaussian(noise_multiplier=2.0)
    assert has_variance((release - 7.0).ravel(), stddev=6.0)


@pytest.mark.statistical
def test_the_check_of_variance_fails_when_noise_is_ten_percent_low():
    release, _ = add_gaussian_noise(
        np.zeros(DRAWS), sensitivity=3.0, noise_multiplier=0.9 * 2.0, rng=np.random.default_rng()
    )
    assert not has_variance(release, stddev=6.0)


@pytest.mark.statistical
def test_gaussian_noise_is_normal_and_independent_when_drawn():
    release, _ = add_gaussian_noise(np.zeros(DRAWS), sensitivity=1.0, noise_multiplier=1.0, rng=np.random.default_rng())
    assert stats.kstest(release, "norm").pvalue > FALSE_ALARM
    assert abs(np.corrcoef(release[:-1], release[1:])[0, 1]) < 5 / math.sqrt(DRAWS)
    uniform = np.random.default_rng().uniform(-math.sqrt(3), math.sqrt(3), DRAWS)
    assert stats.kstest(uniform, "norm").pvalue < FALSE_ALARM


def test_gaussian_noise_leaves_its_input_alone_when_added():
    values = np.arange(5.0)
    release, event = add_gaussian_noise(
        values, sensitivity=1.0, noise_multiplier=1.0, rng=np.random.default_rng(1), replace_one_factor=math.sqrt(2)
    )
    assert values.tolist() == [0, 1, 2, 3, 4]
    assert release.shape == (5,)
    assert event.replace_one_factor == math.sqrt(2)


@pytest.mark.parametrize(
    "change",
    [
        {"sensitivity": 0.0},
        {"sensitivity": math.nan},
        {"noise_multiplier": 0.0},
        {"noise_multiplier": math.inf},
        {"sensitivity": 1e300, "noise_multiplier": 1e300},
        {"sensitivity": 1e-200, "noise_multiplier": 1e-200},
    ],
)
def test_gaussian_noise_is_refused_when_a_number_is_not_finite_and_above_zero(change):
    settings = {"sensitivity": 1.0, "noise_multiplier": 1.0, **change}
    with pytest.raises(PrivacyError):
        add_gaussian_noise(np.zeros(2), rng=np.random.default_rng(1), **settings)


def test_gaussian_noise_is_refused_when_a_value_is_not_finite():
    with pytest.raises(PrivacyError, match="finite"):
        add_gaussian_noise([1.0, math.nan], sensitivity=1.0, noise_multiplier=1.0, rng=np.random.default_rng(1))
