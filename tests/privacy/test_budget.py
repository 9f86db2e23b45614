import math

import pytest

from dpwgan.errors import UsageError
from dpwgan.privacy.budget import Budget


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, -math.inf, True, "1"])
def test_budget_refuses_epsilon_when_not_finite_and_above_zero(epsilon):
    with pytest.raises(UsageError, match="epsilon"):
        Budget(epsilon=epsilon, delta=1e-6)


@pytest.mark.parametrize("delta", [0, -1e-9, 1, 98, math.nan, math.inf, "x"])
def test_budget_refuses_delta_when_not_between_zero_and_one(delta):
    with pytest.raises(UsageError, match="delta"):
        Budget(epsilon=1.0, delta=delta)


@pytest.mark.parametrize("delta", [1, 15, 98, 1e300])
def test_budget_names_the_harness_when_delta_looks_like_a_column_count(delta):
    with pytest.raises(UsageError, match=r"fifth argument is delta.*number of columns"):
        Budget(epsilon=1.0, delta=delta)
