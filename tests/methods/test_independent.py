"""The baseline: every column by itself, from one release."""

import math

import numpy as np
import pytest

from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import DiscreteGaussian, Laplace
from tests.methods.privacy_totals import gaussian_delta
from tests.methods.runs import NARROW, make_plan, make_table, run


def test_columns_are_independent_when_the_table_holds_two_that_are_the_same():
    encoded = make_table(3_000, columns=[NARROW[0], NARROW[3]])
    encoded.codes[:, 0] %= 5
    encoded.codes[:, 1] = encoded.codes[:, 0]
    done = run("independent", encoded, epsilon=100.0, records=3_000)
    assert len(done.fitted.probabilities) == 1
    shares = np.bincount(done.sampled.codes[:, 0], minlength=5) / 3_000
    assert shares == pytest.approx(np.bincount(encoded.codes[:, 0], minlength=5) / 3_000, abs=0.01)
    # Equal columns agree in every row; independent ones in the sum of squares of the shares, give or take 0.01.
    agree = float(np.mean(done.sampled.codes[:, 0] == done.sampled.codes[:, 1]))
    assert agree == pytest.approx(float((shares**2).sum()), abs=0.05)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 30.0])
def test_noise_is_that_of_one_gaussian_when_the_whole_budget_is_its_own(epsilon):
    plan = make_plan("independent", make_table(300).shape, epsilon=epsilon, rule="pld")
    (event, count) = plan.releases[0].charge
    assert count == 1
    if epsilon == 30:
        # Of so few counts Laplace noise is less, at no delta.
        assert isinstance(event, Laplace)
        assert event.epsilon == pytest.approx(30, rel=1e-3)
        assert event.epsilon <= 30
        other = make_plan("independent", make_table(300).shape, epsilon=epsilon, relation=REPLACE_ONE).releases[0]
        assert other.event.epsilon == pytest.approx(15, rel=1e-3)
        return
    assert isinstance(event, DiscreteGaussian)
    rho = event.cells / (2 * event.stddev**2)
    assert gaussian_delta(epsilon, rho=rho) <= 1e-5
    # Where noise is about one count, what stands in for it costs a little.
    assert gaussian_delta(epsilon, rho=rho * (1.01 if epsilon < 30 else 1.12)) > 1e-5
    # Replacing a record moves one count down and another one up in each histogram.
    other = make_plan("independent", make_table(300).shape, epsilon=epsilon, rule="pld", relation=REPLACE_ONE)
    replaced = other.releases[0].event
    assert replaced.stddev == pytest.approx(math.sqrt(2) * event.stddev, rel=0.01 if epsilon < 30 else 0.05)


REPLACE_ONE = NeighboringRelation.REPLACE_ONE
