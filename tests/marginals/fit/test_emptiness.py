"""Pairs of groups that answers say are empty: found where others hold all, and nowhere else."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.marginals.answers.measurements import MeasuredMarginals
from dpwgan.marginals.answers.views import Views
from dpwgan.marginals.fit import emptiness
from dpwgan.marginals.fit.emptiness import find_empty
from dpwgan.marginals.groups import GroupLayout
from tests.marginals.groups import make_probabilities

Counts = npt.NDArray[np.float64]
SIZES = (4, 6, 3)
RECORDS = 10_000.0


def find(counts: Counts, *, stddev: float, marginal: tuple[int, ...] = (0, 1)) -> Mapping[tuple[int, ...], npt.NDArray]:
    """What is found of answers to a pair of the first two attributes, whose sums the codes have."""
    measured = MeasuredMarginals(Views(GroupLayout(SIZES), [True] * 3))
    measured.add(marginal, counts / RECORDS, stddev=stddev / RECORDS)
    groups = [np.repeat(counts.sum(axis=axis), SIZES[1 - axis] // counts.shape[1 - axis]) for axis in (1, 0)]
    one_way = np.concatenate([*(group / group.sum() for group in groups), np.full(3, 1 / 3)])
    return find_empty(measured, one_way[np.newaxis].astype(np.float32), records=RECORDS)


def lay_out_functional() -> Counts:
    """Each of six groups goes with one of four."""
    counts = np.zeros(SIZES[:2])
    counts[[0, 1, 2, 3, 0, 1], np.arange(6)] = [3_000, 2_500, 1_500, 1_400, 1_000, 600]
    return counts


def test_all_but_what_a_group_goes_with_is_empty():
    counts = lay_out_functional()
    assert find(counts, stddev=20.0)[0, 1].tolist() == (counts == 0).tolist()


@pytest.mark.parametrize("stddev", [1.0, 20.0])
def test_nothing_is_empty_where_attributes_are_independent_or_the_rest_says_little(stddev):
    shares = np.array([0.4, 0.3, 0.2, 0.1])[:, np.newaxis] * np.array([0.3, 0.25, 0.2, 0.15, 0.07, 0.03])
    assert not find(RECORDS * shares, stddev=stddev)
    assert not find(lay_out_functional(), stddev=400.0)


def test_a_row_is_not_full_while_more_than_its_noise_is_left_of_it():
    counts = lay_out_functional()
    # Three cells below the noise hold what is more than noise together.
    counts[0, :2] = [2_850, 50]
    counts[0, 2:4] = 50
    flags = find(counts, stddev=20.0)[0, 1]
    # The sixth column is full, and says so of its own.
    assert flags[0].tolist() == [False] * 5 + [True]
    assert flags[1, 2:4].all()


def test_cells_of_blocks_are_found_in_their_groups():
    counts = np.diag([4_000.0, 6_000.0])
    views = Views(GroupLayout(SIZES), [True] * 3)
    marginal = (views.at[2][0], views.at[4][1])
    assert views.sizes[marginal[0]] == views.sizes[marginal[1]] == 2
    flags = find(counts, stddev=20.0, marginal=marginal)[0, 1]
    assert flags.tolist() == [[False] * 4 + [True] * 2] * 2 + [[True] * 4 + [False] * 2] * 2


def test_larger_marginals_and_one_ways_say_nothing():
    measured = MeasuredMarginals(Views(GroupLayout(SIZES)))
    measured.add((0,), np.array([0.5, 0.5, 0.0, 0.0]), stddev=1e-3)
    measured.add((0, 1, 2), np.zeros(SIZES), stddev=1e-3)
    assert find_empty(measured, make_probabilities(5, sizes=SIZES, seed=0), records=RECORDS) == {}


@pytest.mark.parametrize(("left", "is_careful"), [(1.0, True), (np.inf, False)])
def test_few_records_are_lost_to_noise_unless_it_does_not_matter_what_is_left(monkeypatch, left, is_careful):
    """Tables of every kind between independent and functional, 200 of them: the share of records in what is found."""
    monkeypatch.setattr(emptiness, "_LEFT", left)
    rng, lost, gone = np.random.default_rng(0), [], []
    for _ in range(200):
        exact = rng.multinomial(int(RECORDS), rng.dirichlet(np.full(24, 10 ** rng.uniform(-1.5, 1)))).reshape(4, 6)
        counts = exact.astype(np.float64)
        flags = find(counts + rng.normal(0.0, 30.0, counts.shape), stddev=30.0).get((0, 1), np.zeros((4, 6), bool))
        independent = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / RECORDS
        lost.append(counts[flags].sum() / RECORDS)
        gone.append(independent[flags & (counts == 0)].sum() / max(1.0, independent[counts == 0].sum()))
    assert (np.mean(lost) < 0.003) == is_careful
    assert np.mean(gone) > 0.2
