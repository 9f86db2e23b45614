import json
import math

import dp_accounting
import pytest

from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import discrete_gaussian, exponential_selection, gaussian, poisson_gaussian, stable_selection
from tests.privacy.reference_events import to_dp_event


@pytest.mark.parametrize("probability", [0.0, -0.1, 1.01, math.nan])
def test_sampled_event_is_refused_when_probability_is_out_of_range(probability):
    with pytest.raises(PrivacyError):
        poisson_gaussian(sampling_probability=probability, noise_multiplier=1.0)


@pytest.mark.parametrize("noise", [0.0, -1.0, math.nan, math.inf])
def test_event_is_refused_when_noise_is_not_finite_and_above_zero(noise):
    with pytest.raises(PrivacyError):
        gaussian(noise_multiplier=noise)
    with pytest.raises(PrivacyError):
        poisson_gaussian(sampling_probability=0.1, noise_multiplier=noise)


def test_gaussian_event_is_refused_when_a_replaced_record_counts_less_than_a_zeroed_one():
    with pytest.raises(PrivacyError):
        gaussian(noise_multiplier=1.0, replace_one_factor=0.5)


def test_selection_event_is_refused_when_delta_is_zero():
    with pytest.raises(PrivacyError):
        stable_selection(epsilon=1.0, delta=0.0)


def test_every_event_is_json_when_described():
    events = [
        poisson_gaussian(sampling_probability=0.1, noise_multiplier=2),
        gaussian(noise_multiplier=1),
        discrete_gaussian(noise_multiplier=1, cells=4),
        exponential_selection(epsilon=0.1),
        stable_selection(epsilon=0.1, delta=1e-9),
    ]
    assert len({json.dumps(event.describe()) for event in events}) == 5


def test_events_are_those_of_dp_accounting_when_translated():
    sampled = to_dp_event(poisson_gaussian(sampling_probability=0.1, noise_multiplier=2))
    assert sampled == dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(2.0))
    assert to_dp_event(gaussian(noise_multiplier=3)) == dp_accounting.GaussianDpEvent(3.0)
    # The Gaussian of the same zCDP: 1/(2 s^2) = epsilon^2 / 8.
    assert to_dp_event(exponential_selection(epsilon=0.5)) == dp_accounting.GaussianDpEvent(4.0)


@pytest.mark.parametrize("change", [{"epsilon": 0.0}, {"epsilon": math.inf}, {"replace_one_factor": 2.5}])
def test_exponential_selection_is_refused_when_a_number_is_out_of_range(change):
    with pytest.raises(PrivacyError):
        exponential_selection(**{"epsilon": 1.0, **change})
