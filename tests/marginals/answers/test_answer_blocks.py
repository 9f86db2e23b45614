"""Marginals that are compared with codes together: what several have in common is worked out once."""

import itertools
import math

import numpy as np
import pytest

from dpwgan.marginals.answers.answer_blocks import share_views
from dpwgan.marginals.answers.measurements import MeasuredMarginals
from dpwgan.marginals.answers.views import Views
from dpwgan.marginals.groups import GroupLayout, Marginal
from tests.marginals.groups import add_up_gradients, make_probabilities

SIZES = (7, 2, 3, 5, 4, 6)


def draw_marginals(rng: np.random.Generator) -> list[Marginal]:
    every = [marginal for ways in (3, 4, 5) for marginal in itertools.combinations(range(6), ways)]
    return [every[place] for place in rng.permutation(len(every))[: rng.integers(1, len(every))]]


def count(views: Marginal) -> int:
    return math.prod(SIZES[view] for view in views)


@pytest.mark.parametrize("seed", range(20))
def test_each_marginal_is_compared_once_and_less_is_worked_out_than_for_each_by_itself(seed):
    marginals = draw_marginals(np.random.default_rng(seed))
    found = list(share_views(marginals, SIZES))
    assert sorted(marginal for _, together in found for marginal in together) == sorted(marginals)
    for shared, together in found:
        assert [SIZES[view] for view in shared] == sorted(SIZES[view] for view in shared)
        assert all(set(shared) < set(marginal) and len(shared) == len(marginal) - 1 for marginal in together)
    alone = sum(min(map(count, itertools.combinations(marginal, len(marginal) - 1))) for marginal in marginals)
    assert sum(count(shared) for shared, _ in found) <= alone
    # Nothing hangs on the order in which they were asked for: a resumed run adds up as the first one did.
    assert list(share_views(marginals[::-1], SIZES)) == found


def test_the_pair_that_most_have_is_worked_out_once():
    assert list(share_views([(0, 1, 2), (0, 1, 3), (0, 1, 4), (2, 3, 5)], SIZES)) == [
        ((1, 0), [(0, 1, 2), (0, 1, 3), (0, 1, 4)]),
        ((2, 3), [(2, 3, 5)]),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_gradient_of_all_together_is_the_sum_of_each_by_itself(seed):
    rng = np.random.default_rng(seed)
    marginals, views = draw_marginals(rng), Views(GroupLayout(SIZES))
    probabilities = make_probabilities(9, sizes=SIZES, seed=seed).astype(np.float64)
    together, alone = MeasuredMarginals(views), []
    for marginal in marginals:
        shares = rng.dirichlet(np.ones(count(marginal))).reshape([SIZES[view] for view in marginal])
        alone.append(MeasuredMarginals(views))
        for measured in (together, alone[-1]):
            measured.add(marginal, shares, stddev=0.1)
    expected = sum(add_up_gradients([measured], probabilities) for measured in alone)  # type: ignore[arg-type]
    assert add_up_gradients([together], probabilities) == pytest.approx(expected, rel=1e-5, abs=1e-7)  # type: ignore[arg-type]
