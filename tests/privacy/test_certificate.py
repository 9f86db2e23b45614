"""Every statistical test counts failures of a bound that may fail with probability U, over TRIALS independent runs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpwgan.errors import PrivacyError
from dpwgan.privacy.certificate import Certificate, bound_worst_error, gaussian_slack

FALSE_ALARM = 1e-6
TRIALS = 40_000
U = 0.05
MOST_FAILURES = int(stats.binom.ppf(1 - FALSE_ALARM, TRIALS, U))
"""More failures than this happen once in a million runs if each one fails with probability U."""


def _failures_of_one(slack, noise):
    """Counts how often true > noisy + slack, for a number released again and again."""
    return sum(bound_worst_error(0.3 + float(z), slack=slack) < 0.3 for z in noise)


@pytest.mark.statistical
def test_worst_error_is_below_its_bound_as_often_as_stated_when_released():
    # The noise is small beside the error, so that cutting the bound off at 0 plays no part.
    slack = gaussian_slack(stddev=0.02, failure_probability=U)
    noise = np.random.default_rng().normal(scale=0.02, size=TRIALS)
    failures = _failures_of_one(slack, noise)
    assert failures <= MOST_FAILURES
    # And nothing is given away: the bound is no safer than stated either.
    assert failures >= stats.binom.ppf(FALSE_ALARM, TRIALS, U)
    # The broken twin: half the slack.
    assert _failures_of_one(slack / 2, noise) > MOST_FAILURES


def test_slack_is_the_formula_when_computed():
    assert gaussian_slack(stddev=2.0, failure_probability=0.025) == pytest.approx(2 * 1.959964, rel=1e-6)
    assert gaussian_slack(stddev=1.0, failure_probability=1e-300) == pytest.approx(37.0471, rel=1e-5)


def test_worst_error_is_kept_within_what_an_error_can_be_when_bounded():
    assert bound_worst_error(-0.5, slack=0.1) == 0.0
    assert bound_worst_error(0.95, slack=0.1, largest_possible=1.0) == 1.0
    assert bound_worst_error(0.5, slack=0.1) == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("stddev", "u"),
    [*((1.0, u) for u in (0.0, 0.51, -0.1, math.nan)), *((s, 0.1) for s in (0.0, -1.0, math.nan, math.inf))],
)
def test_slack_is_refused_when_the_noise_or_its_failure_probability_is_out_of_range(stddev, u):
    with pytest.raises(PrivacyError):
        gaussian_slack(stddev=stddev, failure_probability=u)


@pytest.mark.parametrize(("noisy", "slack"), [(math.nan, 0.1), (0.1, -0.1)])
def test_worst_error_is_refused_when_it_is_no_number(noisy, slack):
    with pytest.raises(PrivacyError):
        bound_worst_error(noisy, slack=slack)


@pytest.mark.parametrize(
    ("changes", "fragment"),
    [
        ({"kind": ""}, "kind and a statement"),
        ({"statement": ""}, "kind and a statement"),
        ({"alpha": math.nan}, "alpha must be finite"),
        ({"alpha": math.inf}, "alpha must be finite"),
        ({"alpha": -1e-9}, "alpha must be finite"),
        ({"failure_probability": 0.0}, "failure_probability"),
        ({"failure_probability": 0.6}, "failure_probability"),
        ({"details": {"radius": math.inf}}, "JSON"),
        ({"details": {"sizes": {1, 2}}}, "JSON"),
    ],
)
def test_certificate_is_refused_when_a_part_cannot_be_stated(changes, fragment):
    fields = {"kind": "k", "statement": "s", "alpha": 0.1, "failure_probability": 0.05}
    with pytest.raises(PrivacyError, match=fragment):
        Certificate(**{**fields, **changes})


@settings(max_examples=200)
@given(alpha=st.floats(0, 1e300))
def test_certificate_never_states_a_smaller_alpha_when_it_is_described(alpha):
    described = Certificate(kind="k", statement="s", alpha=alpha, failure_probability=0.05).describe()
    assert alpha <= described["alpha"] <= alpha * (1 + 1.001e-3) + 5e-324
    assert described["confidence"] == 0.95
    assert float(f"{described['alpha']:.4g}") == described["alpha"]
