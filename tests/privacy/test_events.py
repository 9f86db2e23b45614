import json
import math

import dp_accounting
import pytest

from dpwgan.errors import PrivacyError
from dpwgan.privacy.events import discrete_gaussian, exponential_selection, gaussian, poisson_gaussian, stable_selection
from tests.privacy.reference_events import to_dp_event


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        *(
            (poisson_gaussian, {"sampling_probability": q, "noise_multiplier": 1.0})
            for q in (0.0, -0.1, 1.01, math.nan)
        ),
        *((gaussian, {"noise_multiplier": noise}) for noise in (0.0, -1.0, math.nan, math.inf)),
        *(
            (poisson_gaussian, {"sampling_probability": 0.1, "noise_multiplier": noise})
            for noise in (0.0, -1.0, math.nan, math.inf)
        ),
        # A replaced record counts no less than one that is zeroed out.
        (gaussian, {"noise_multiplier": 1.0, "replace_one_factor": 0.5}),
        (stable_selection, {"epsilon": 1.0, "delta": 0.0}),
        (exponential_selection, {"epsilon": 0.0}),
        (exponential_selection, {"epsilon": math.inf}),
        (exponential_selection, {"epsilon": 1.0, "replace_one_factor": 2.5}),
    ],
)
def test_event_is_refused_when_a_number_is_out_of_range(make, settings):
    with pytest.raises(PrivacyError):
        make(**settings)


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
