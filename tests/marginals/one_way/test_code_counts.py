"""What codes likely hold by their noisy counts, in long lists that have an order by those beside, too."""

from collections.abc import Callable

import numpy as np
import pytest

from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.marginals.one_way.code_counts import find_likely
from dpwgan.table.schema import CategoricalColumn
from tests.marginals.tables import lay_out

CODES, RECORDS = 100, 5_000


def take_likely(counts: np.ndarray, *, stddev: float, ordered: bool = True, missing: int = 0) -> np.ndarray:
    tokens = tuple(map(str, range(len(counts))))
    column = CategoricalColumn(
        name="code", tokens=tokens, missing=tokens[len(tokens) - missing :], ordered=None if ordered else False
    )
    return find_likely(counts, lay_out_attributes(lay_out(column))[0], stddev=stddev)


def draw_ages(rng: np.random.Generator) -> np.ndarray:
    return np.bincount(np.clip(17 + rng.gamma(3, 8, RECORDS), 0, CODES - 1).astype(int), minlength=CODES)


def draw_visits(rng: np.random.Generator) -> np.ndarray:
    return np.bincount(np.minimum(rng.poisson(4, RECORDS), CODES - 1), minlength=CODES)


def draw_districts(rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(RECORDS * 0.9 ** np.arange(CODES) / 10)


def draw_quantiles(rng: np.random.Generator) -> np.ndarray:
    counts = rng.multinomial(RECORDS, np.full(CODES, 1 / CODES))
    counts[CODES // 3] = RECORDS // 3
    return counts


@pytest.mark.parametrize(
    ("draw", "stddev", "off"),
    [
        (draw_ages, 20.0, 0.95),
        (draw_ages, 40.0, 0.7),
        (draw_visits, 20.0, 0.3),
        (draw_visits, 40.0, 0.3),
        (draw_districts, 20.0, 1.01),
        (draw_districts, 80.0, 1.01),
        (draw_quantiles, 20.0, 1.01),
        (draw_quantiles, 80.0, 1.01),
    ],
)
def test_a_long_list_is_told_better_where_neighbours_are_alike_and_no_worse_where_not(
    draw: Callable[[np.random.Generator], np.ndarray], stddev: float, off: float
):
    """How far records are from their place (Wasserstein-1), beside what codes without an order have."""
    rng, found = np.random.default_rng(1), np.zeros(2)
    for _ in range(40):
        truth = draw(rng)
        noisy = truth + rng.normal(0, stddev, CODES)
        for row, ordered in enumerate((True, False)):
            likely = take_likely(noisy, stddev=stddev, ordered=ordered)
            found[row] += np.abs(np.cumsum(likely / likely.sum() - truth / truth.sum())).sum()
    assert found[0] < off * found[1]


def test_cells_that_are_not_available_have_no_neighbours():
    rng = np.random.default_rng(2)
    noisy = np.append(draw_visits(rng), 500.0) + rng.normal(0, 20.0, CODES + 1)
    ordered, others = (take_likely(noisy, stddev=20.0, ordered=ordered, missing=1) for ordered in (True, False))
    assert ordered[-1] == others[-1]
    assert not np.array_equal(ordered[:-1], others[:-1])
    assert ordered[-2] < 5.0


def test_codes_of_a_short_list_are_told_one_by_one():
    noisy = draw_visits(np.random.default_rng(3))[:33] + np.random.default_rng(3).normal(0, 20.0, 33)
    is_same = [
        np.array_equal(*(take_likely(noisy[:codes], stddev=20.0, ordered=ordered) for ordered in (True, False)))
        for codes in (32, 33)
    ]
    assert is_same == [True, False]


@pytest.mark.parametrize(("size", "stddev"), [(20, 10.0), (20, 20.0), (100, 30.0)])
def test_faint_cells_are_nearer_to_the_truth_than_their_counts_and_than_even_shares(size, stddev):
    rng = np.random.default_rng(2)
    errors = np.zeros(3)
    for _ in range(200):
        truth = rng.uniform(20.0, 80.0, size)
        noisy = truth + stddev * rng.standard_normal(size)
        drawn = take_likely(noisy, stddev=stddev, ordered=False)
        guesses = [
            drawn / drawn.sum(),
            np.maximum(noisy, 0.0) / np.maximum(noisy, 0.0).sum(),
            np.full(size, 1.0 / size),
        ]
        errors += [np.abs(guess - truth / truth.sum()).sum() for guess in guesses]
    assert errors[0] < 1.01 * errors[1:].min()
    assert errors[0] < 0.95 * errors[1:].max()


def test_a_code_far_below_nothing_holds_nothing():
    noisy = np.array([2_409, 601, -12, -1, 13, 11, 10, 1, -36, 2], float)
    drawn = take_likely(noisy, stddev=8.0)
    assert drawn[8] == 0
    assert np.delete(drawn, 8).min() > 0
