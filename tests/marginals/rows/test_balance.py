import itertools
from types import MappingProxyType

import numpy as np
import pytest

from dpwgan.marginals.answers.zeros import Zeros
from dpwgan.marginals.draws import SystematicDraws
from dpwgan.marginals.groups import GroupLayout
from dpwgan.marginals.rows import balance as balancing
from dpwgan.marginals.rows.balance import balance, count_sweeps, find_rows
from tests.marginals.groups import count_by_loop

SIZES = (2, 3, 5, 4)
STARTS = np.cumsum([0, *SIZES[:-1]])
WIDTH = sum(SIZES)


def make_mixture(codes: int, rng: np.random.Generator) -> np.ndarray:
    tables = [rng.dirichlet(np.full(size, 0.3), codes) for size in SIZES]
    # Of each code one group of the third attribute never comes up.
    tables[2][np.arange(codes), rng.integers(0, 5, codes)] = 0
    tables[2] /= tables[2].sum(axis=1, keepdims=True)
    return np.concatenate(tables, axis=1).astype(np.float32)


def draw(rows: int, codes: int, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    probabilities, of_rows = make_mixture(codes, rng), rng.integers(0, codes, rows)
    draws = SystematicDraws(of_rows, count=codes)
    parts = [probabilities[:, start : start + size] for start, size in zip(STARTS, SIZES, strict=True)]
    groups = np.stack([draws.draw(part.astype(np.float64), rng=rng) for part in parts], axis=1).astype(np.int32)
    return groups, of_rows, probabilities


def sum_squares(groups: np.ndarray, probabilities: np.ndarray) -> float:
    """What is too much or missing of each pair, in squares over what is expected, code by code in float64."""
    table, total = probabilities.astype(np.float64), 0.0
    for pair in itertools.combinations(range(len(SIZES)), 2):
        for (a, b), count in np.ndenumerate(count_by_loop(groups, pair, GroupLayout(SIZES))):
            expected = len(groups) * float((table[:, STARTS[pair[0]] + a] * table[:, STARTS[pair[1]] + b]).mean())
            total += (expected - count) ** 2 / (expected + 1)
    return total


def bring_into_balance(
    groups: np.ndarray,
    codes: np.ndarray,
    probabilities: np.ndarray,
    *,
    seed: int,
    sweeps: int = 2,
    empty: Zeros = MappingProxyType({}),
) -> None:
    rng = np.random.default_rng(seed)
    balance(groups, codes, probabilities=probabilities, sizes=SIZES, sweeps=sweeps, empty=empty, rng=rng)


@pytest.mark.parametrize(("rows", "codes"), [(300, 100), (3_000, 40)])
def test_pairs_come_nearer_to_what_is_expected_and_each_row_stays_one_of_its_code(rows, codes):
    groups, of_rows, probabilities = draw(rows, codes)
    before = sum_squares(groups, probabilities)
    drawn = groups.copy()
    bring_into_balance(groups, of_rows, probabilities, seed=1)
    assert sum_squares(groups, probabilities) < 0.3 * before
    assert 0 < (groups != drawn).sum() < 0.6 * groups.size
    for attribute, start in enumerate(STARTS):
        assert (probabilities[of_rows, start + groups[:, attribute]] > 0).all()


def test_nothing_gets_nearer_where_any_move_is_made(monkeypatch):
    groups, of_rows, probabilities = draw(3_000, 40)
    before = sum_squares(groups, probabilities)
    compare = balancing._compare

    def compare_wrongly(*arguments, **more):
        missing, price = compare(*arguments, **more)
        return missing - 1e6, -price

    monkeypatch.setattr(balancing, "_compare", compare_wrongly)
    bring_into_balance(groups, of_rows, probabilities, seed=1)
    assert sum_squares(groups, probabilities) > 0.3 * before


def test_each_move_alone_brings_pairs_nearer(monkeypatch):
    monkeypatch.setattr(balancing, "_AT_ONCE", 0.0)
    groups, of_rows, probabilities = draw(60, 20)
    sums = [sum_squares(groups, probabilities)]
    for seed in range(6):
        bring_into_balance(groups, of_rows, probabilities, seed=seed, sweeps=1)
        sums.append(sum_squares(groups, probabilities))
    assert sums == sorted(sums, reverse=True)
    assert sums[-1] < 0.5 * sums[0]


def test_columns_keep_their_shares_when_averaged_over_tables():
    """Rows are balanced to what the mixture expects, not to anything else."""
    shares, expected = np.zeros(WIDTH), np.zeros(WIDTH)
    for seed in range(40):
        groups, of_rows, probabilities = draw(200, 50, seed=seed)
        bring_into_balance(groups, of_rows, probabilities, seed=seed)
        shares += np.bincount((groups + STARTS).ravel(), minlength=WIDTH) / 200 / 40
        expected += probabilities.mean(axis=0) / 40
    assert shares == pytest.approx(expected, abs=0.003)


@pytest.mark.parametrize(
    ("rows", "attributes", "width", "sweeps"),
    [(2_000, 24, 400, 2), (40_000, 15, 200, 2), (136_000, 28, 508, 1), (661_968, 98, 900, 0), (10**8, 20, 300, 0)],
)
def test_large_tables_are_left_as_they_are_drawn(rows, attributes, width, sweeps):
    assert count_sweeps(rows, attributes=attributes, width=width) == sweeps
    assert count_sweeps(rows, attributes=attributes, width=3_000) == 0


@pytest.mark.parametrize(("sweeps", "price", "is_mended"), [(2, 2.0, True), (0, 2.0, True), (2, 0.0, False)])
def test_rows_leave_pairs_that_are_empty_unless_that_costs_nothing(monkeypatch, sweeps, price, is_mended):
    monkeypatch.setattr(balancing, "_PRICE_OF_EMPTY", price)
    groups, of_rows, probabilities = draw(3_000, 40)
    empty = {(0, 2): np.zeros((2, 5), bool), (1, 3): np.zeros((3, 4), bool)}
    empty[0, 2][1, 2:4] = empty[1, 3][2, 0] = True
    before, drawn = find_rows(groups, empty), groups.copy()
    assert before.tolist() == [
        row for row, (a, b, c, d) in enumerate(groups.tolist()) if (a == 1 and c in {2, 3}) or (b == 2 and d == 0)
    ]
    bring_into_balance(groups, of_rows, probabilities, seed=1, sweeps=sweeps, empty=empty)
    assert (len(find_rows(groups, empty)) < 0.3 * len(before)) == is_mended
    moved = np.flatnonzero((groups != drawn).any(axis=1))
    assert sweeps or set(moved) <= set(before)
    for attribute, start in enumerate(STARTS):
        assert (probabilities[of_rows, start + groups[:, attribute]] > 0).all()
