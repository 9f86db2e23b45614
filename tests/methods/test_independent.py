"""The baseline: every column by itself, from one release."""

import math

import numpy as np
import pytest

from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import DiscreteGaussian, Laplace
from tests.methods.privacy_totals import gaussian_delta
from tests.methods.runs import NARROW, make_plan, make_table, run

REPLACE_ONE = NeighboringRelation.REPLACE_ONE


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


@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_noise_is_that_of_one_gaussian_when_the_whole_budget_is_its_own(epsilon):
    plan = make_plan("independent", make_table(300).shape, epsilon=epsilon, rule="pld")
    (event, count) = plan.releases[0].charge
    assert count == 1
    assert isinstance(event, DiscreteGaussian)
    rho = event.cells / (2 * event.stddev**2)
    assert gaussian_delta(epsilon, rho=rho) <= 1e-5
    # Where noise is about one count, what stands in for it costs a little.
    assert gaussian_delta(epsilon, rho=rho * 1.01) > 1e-5
    # Replacing a record moves one count down and another one up in each histogram.
    other = make_plan("independent", make_table(300).shape, epsilon=epsilon, rule="pld", relation=REPLACE_ONE)
    assert other.releases[0].event.stddev == pytest.approx(math.sqrt(2) * event.stddev, rel=0.01)


def test_noise_is_that_of_laplace_when_that_is_less_for_so_few_counts():
    shape = make_table(300).shape
    for relation, most in ((NeighboringRelation.ZERO_OUT, 30), (REPLACE_ONE, 15)):
        (event, count) = make_plan("independent", shape, epsilon=30.0, rule="pld", relation=relation).releases[0].charge
        assert count == 1
        assert isinstance(event, Laplace)
        assert event.epsilon == pytest.approx(most, rel=1e-3)
        assert event.epsilon <= most
