"""What codes hold by released counts, of long lists in an order by blocks of neighbours, too."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from dpwgan.marginals.code_counts import find_code_counts, take_likely
from dpwgan.marginals.one_ways import OneWays, begin_one_ways, plan_one_ways
from dpwgan.privacy.release import Noisy
from dpwgan.table.schema import CategoricalColumn
from tests.marginals.tables import lay_out

CODES, BLOCK = 100, 8
MISSING = 40


def measure(truth: np.ndarray, *, stddev: float, rng: np.random.Generator, looks: int = 2) -> OneWays:
    """Noisy counts of a list of codes with one for not available, in blocks of 8 and then one by one."""
    column = CategoricalColumn(name="age", tokens=(*map(str, range(len(truth))), "N"), missing=("N",))
    found = begin_one_ways(plan_one_ways(lay_out(column)))
    for look in range(looks):
        blocks = found.choose_blocks(look)
        counts = np.append(MISSING, np.add.reduceat(truth, blocks[0]))
        found = found.add(look, blocks, Noisy(values=counts + rng.normal(0, stddev, len(counts)), stddev=stddev))
    return found


def test_estimates_are_those_of_least_squares():
    rng, stddev = np.random.default_rng(0), 30.0
    truth = rng.poisson(50, CODES).astype(float)
    one_ways = measure(truth, stddev=stddev, rng=rng)
    found = find_code_counts(one_ways, 0)
    (starts, coarse), (_, fine) = one_ways.histograms[0]
    blocks = np.add.reduceat(np.eye(CODES), starts)
    design = np.vstack((blocks, np.eye(CODES)))
    assert found.noisy[:-1] == pytest.approx(np.linalg.lstsq(design, np.append(coarse[1:], fine[1:]), rcond=None)[0])
    assert found.noisy[-1] == pytest.approx((coarse[0] + fine[0]) / 2)
    covariance = stddev**2 * np.linalg.inv(design.T @ design)
    labels = np.append(rng.integers(0, 5, CODES), 5)
    members = labels[:-1] == np.arange(5)[:, None]
    wanted = np.einsum("gi,ij,gj->g", members.astype(float), covariance, members.astype(float))
    assert found.find_variances(labels)[:5] == pytest.approx(wanted)


def test_codes_of_a_lost_look_are_as_likely_as_each_other_within_their_blocks():
    truth = np.repeat([800.0, 0.0, 400.0, 0.0], 25)
    found = find_code_counts(measure(truth, stddev=1.0, rng=np.random.default_rng(0), looks=1), 0)
    assert found.likely[:CODES].sum() == pytest.approx(truth.sum(), rel=0.01)
    assert found.likely[:BLOCK] == pytest.approx(800.0, rel=0.02)


def draw_ages(rng: np.random.Generator) -> np.ndarray:
    return np.bincount(np.clip(17 + rng.gamma(3, 8, 5_000), 0, CODES - 1).astype(int), minlength=CODES).astype(float)


def draw_districts(rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(5_000 * 0.9 ** np.arange(CODES) / 10)


@pytest.mark.parametrize(
    ("draw", "far", "near"), [(draw_ages, 0.5, 0.75), (draw_districts, 1.0, 1.6)], ids=["ages", "districts"]
)
def test_a_long_list_is_told_better_where_neighbours_are_alike_and_hardly_worse_where_not(
    draw: Callable[[np.random.Generator], np.ndarray], far: float, near: float
):
    """Beside counts one by one with the whole budget, 1 / sqrt(2) of the noise: how far shares and means are off."""
    rng, stddev = np.random.default_rng(1), 60.0
    off = np.zeros((2, 2))
    for _ in range(40):
        truth = draw(rng)
        once = stddev / math.sqrt(2)
        alone = take_likely(truth + rng.normal(0, once, CODES), stddev=once)
        twice = find_code_counts(measure(truth, stddev=stddev, rng=rng), 0).likely[:CODES]
        for row, likely in enumerate((twice, alone)):
            shares = likely / likely.sum() - truth / truth.sum()
            off[row] += abs(shares @ np.arange(CODES)), np.abs(shares).sum()
    assert off[0, 0] < far * off[1, 0]
    assert off[0, 1] < near * off[1, 1]
