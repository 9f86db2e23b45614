"""MST and AIM on mbi, without mbi: what they ask, what that costs, and what they select; a stand-in fits the model."""

import itertools
import math
from types import SimpleNamespace
from typing import Any

import dp_accounting
import networkx as nx
import numpy as np
import pandas as pd
import pytest

from benchmarks import mbi_mechanisms as mechanisms

SIZES = {"a": 3, "b": 2, "c": 4, "d": 2, "e": 5}
RHO = 0.3


def make_table(rows: int = 400) -> pd.DataFrame:
    """Makes rows whose a and b agree, and c and d; e is by itself."""
    random = np.random.default_rng(5)
    table = pd.DataFrame({name: random.integers(0, size, rows) for name, size in SIZES.items()})
    return table.assign(b=table["a"] % 2, d=table["c"] % 2)


class Independent:
    """A stand-in for a fitted model: the product of the columns as they were measured."""

    def __init__(self, sizes: dict[str, int], answers: Any, start: Any = None, iterations: int = 0) -> None:
        self.sizes, self.rows = sizes, mechanisms.count_rows(answers)

    def project(self, columns: mechanisms.Columns) -> Any:
        cells = math.prod(self.sizes[name] for name in columns)
        return np.full(cells, self.rows / cells)

    def draw(self, rows: int) -> dict[str, Any]:
        return {name: np.arange(rows) % size for name, size in self.sizes.items()}


def ask(rho: float = RHO, table: pd.DataFrame | None = None) -> mechanisms.Guarded:
    return mechanisms.Guarded(make_table() if table is None else table, SIZES, rho)


def find_pairs(asked: mechanisms.Guarded) -> list[mechanisms.Columns]:
    return [answer.columns for answer in asked.answers if len(answer.columns) == 2]


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-7), (1.0, 2.5e-7), (8.0, 1e-9)])
def test_rho_costs_epsilon_when_another_accountant_converts_it(epsilon, delta):
    rho = mechanisms.find_rho(epsilon, delta)
    accountant = dp_accounting.rdp.RdpAccountant(orders=1 + np.logspace(-2, 4, 3000))
    accountant.compose(dp_accounting.GaussianDpEvent(1 / math.sqrt(2 * rho)))
    assert accountant.get_epsilon(delta) == pytest.approx(epsilon, rel=1e-3)


def test_budget_is_spent_to_the_end_when_mst_runs():
    asked = ask()
    made = mechanisms.run_mst(asked, Independent)
    assert asked.spent == pytest.approx(RHO)
    assert list(made) == list(SIZES)
    assert len(made) == 400
    assert all(made[name].between(0, size - 1).all() for name, size in SIZES.items())


@pytest.mark.parametrize("rho", [0.001, 0.3, 30.0])
@pytest.mark.parametrize("ways", [2, 3])
def test_budget_is_spent_to_the_end_when_aim_runs(rho, ways):
    asked = ask(rho)
    made = mechanisms.run_aim(asked, ways, 80, Independent, lambda sizes, sets: 0.0)
    assert asked.spent == pytest.approx(rho)
    assert len(asked.answers) <= 17 * len(SIZES)
    assert (list(made), len(made)) == (list(SIZES), 400)


def test_nothing_is_measured_when_the_budget_is_spent():
    asked = ask(0.5)
    asked.measure(("a",), 1.0)
    with pytest.raises(ValueError, match="is more than"):
        asked.measure(("b",), 10.0)
    assert len(asked.answers) == 1


def test_pairs_span_all_columns_when_mst_selects():
    asked = ask(1e4)
    mechanisms.run_mst(asked, Independent)
    pairs = find_pairs(asked)
    assert nx.is_tree(nx.Graph(pairs))
    assert len(pairs) == len(SIZES) - 1
    assert {("a", "b"), ("c", "d")} <= set(pairs)


def test_dependent_pair_comes_first_when_aim_selects():
    asked = ask(1e6)
    mechanisms.run_aim(asked, 2, 80, Independent, lambda sizes, sets: 0.0)
    assert find_pairs(asked)[0] in {("a", "b"), ("c", "d")}


def test_models_too_large_are_left_out_when_aim_selects():
    asked = ask()
    mechanisms.run_aim(asked, 2, 80, Independent, lambda sizes, sets: 81.0 * any({"c", "d"} == set(it) for it in sets))
    assert ("c", "d") not in find_pairs(asked)


def test_limit_is_the_share_of_the_budget_when_a_round_begins():
    limits: list[float] = []
    asked = ask()

    def size(sizes: Any, sets: Any) -> float:
        limits.append(asked.spent / RHO)
        return 80 * limits[-1]  # below what is spent after the round, so all fit

    mechanisms.run_aim(asked, 2, 80, Independent, size)
    assert limits[0] == pytest.approx(0.9 / 16)
    assert find_pairs(asked)


def test_scores_move_by_no_more_than_the_sensitivity_when_a_row_is_taken_away():
    table = make_table(40)
    model: Any = Independent(SIZES, [mechanisms.Answer(("a",), np.array([10.0, 20.0, 10.0]), 1.0)])
    weights = mechanisms.weigh_sets(list(SIZES), 3)
    whole = ask(table=table)
    moved = []
    for row, (columns, weight) in itertools.product(table.index, weights.items()):
        less = ask(table=table.drop(row))
        one, other = (mechanisms.score_set(it, model, columns, weight, 2.0) for it in (whole, less))
        moved.append(abs(one - other) / weight)
    assert max(moved) == pytest.approx(1)


def test_sets_count_what_they_share_with_the_workload_when_weighed():
    workload = list(itertools.combinations(SIZES, 3))
    weights = mechanisms.weigh_sets(list(SIZES), 3)
    assert weights == {columns: sum(len({*columns} & {*other}) for other in workload) for columns in weights}
    assert len(weights) == 5 + 10 + 10


def test_chances_are_those_of_the_exponential_mechanism_when_selected():
    asked = ask(1e9)
    scores = {("a",): 3.0, ("b",): 1.0, ("c",): 0.0}
    drawn = [asked.select(scores, 2.0, 2.0) for _ in range(20_000)]
    chances = np.exp(np.array([3, 1, 0]) / 2)
    assert [drawn.count(columns) / 20_000 for columns in scores] == pytest.approx(chances / chances.sum(), abs=0.02)
    assert asked.spent == pytest.approx(20_000 * 2.0**2 / 8)


@pytest.mark.parametrize(
    ("learnt", "left", "expected"),
    [(True, 100.0, (2.0, 1.0)), (False, 100.0, (4.0, 0.5)), (True, 2.0, (math.sqrt(1.6), math.sqrt(1 / 3.6)))],
)
def test_budget_of_a_round_grows_when_nothing_was_learnt_or_little_is_left(learnt, left, expected):
    assert mechanisms.anneal(2.0, 1.0, learnt=learnt, left=left) == pytest.approx(expected)


def test_rare_codes_are_one_when_merged_and_any_of_them_when_split():
    codes = mechanisms.merge_rare(np.array([50.0, 1.0, 40.0, -2.0]), 5.0)
    assert list(codes) == [0, 2, 1, 2]
    answer = mechanisms.Answer(("a",), np.array([50.0, 1.0, 40.0, -2.0]), 1.0)
    merged = mechanisms.merge_answer(answer, codes)
    assert merged.counts == pytest.approx([50, 40, -1 / math.sqrt(2)])
    assert mechanisms.count_rows([merged]) == mechanisms.count_rows([answer]) == pytest.approx(89)
    split = mechanisms.split_codes(np.array([0, 1] + [2] * 50), codes)
    assert list(split[:2]) == [0, 2]
    assert set(split[2:]) == {1, 3}


def test_rows_are_counted_by_precision_when_marginals_differ():
    few, many = (
        SimpleNamespace(counts=np.full(cells, 100 / cells + shift), sigma=1.0, weights=None)
        for cells, shift in ((1, 9.0), (9, 0.0))
    )
    assert mechanisms.count_rows([few, many]) == pytest.approx(100 + 9 * 0.9)


def test_answers_are_one_by_precision_when_a_marginal_was_measured_again():
    first, again = (
        mechanisms.Answer(("a",), np.array(counts), sigma) for counts, sigma in (([9.0], 2.0), ([4.0], 1.0))
    )
    other = mechanisms.Answer(("b",), np.array([1.0]), 1.0)
    pooled = mechanisms.pool_answers([first, other, again])
    assert [answer.columns for answer in pooled] == [("a",), ("b",)]
    assert (pooled[0].counts, pooled[0].sigma) == (pytest.approx([5.0]), pytest.approx(math.sqrt(0.8)))
    assert pooled[1] is other
