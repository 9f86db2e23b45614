"""The benchmark of side channels: an advantage of 0 where nothing tells, and of 1 where all does."""

import pytest

from benchmarks.side_channels import find_advantage


def test_advantage_is_that_of_the_best_threshold():
    same = list(range(200))
    assert find_advantage(same, same) == (0.0, pytest.approx(0.209, abs=1e-3))
    assert find_advantage(same, [value + 50 for value in same])[0] == pytest.approx(0.25)
    assert find_advantage(same, [value + 200 for value in same]) == (1.0, 1.0)
    assert find_advantage(same[:100], same[100:])[0] == 1.0
