"""MST and AIM on the library mbi, written from their papers: benchmarks/peer.py runs them as mbi-mst and mbi-aim.

MST: McKenna, Miklau, Sheldon 2021, arXiv:2108.04978. AIM: McKenna, Mullins, Sheldon, Miklau 2022, arXiv:2201.12677,
Algorithms 1 to 3. mbi fits a graphical model to noisy marginals and draws rows from it; what is asked, and with how
much noise, is decided here. Tables are neighbours if one has a row more, so every marginal moves by 1, in L1 and L2.
mbi is imported only where it is called.
"""

import itertools
import math
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

Columns = tuple[str, ...]
ALPHA = 0.9  # AIM: the share of a round's budget that measuring gets
ROUNDS = 16  # AIM: the most rounds, times the columns
RARE = 3.0  # MST: codes counted below as many sigmas are merged
ITERATIONS, LAST_ITERATIONS, TOLERANCE = 1000, 2500, 1e-4


def find_rho(epsilon: float, delta: float) -> float:
    """Gives the largest rho whose zCDP is (epsilon, delta)-DP: Canonne, Kamath, Steinke 2020, corollary 13."""
    alphas = 1 + np.logspace(-4, 6, 20_001)
    low, high = 0.0, epsilon + 1
    for _ in range(60):
        rho = (low + high) / 2
        logs = (alphas - 1) * (alphas * rho - epsilon) + alphas * np.log1p(-1 / alphas) - np.log(alphas - 1)
        low, high = (rho, high) if logs.min() <= math.log(delta) else (low, rho)
    return low


@dataclass(frozen=True)
class Answer:
    """A noisy marginal: the counts of its cells, each times its weight, plus noise of one sigma."""

    columns: Columns
    counts: Any
    sigma: float
    weights: Any = None


class Guarded:
    """A table behind a budget: each question is paid for in zCDP, and never more than rho in all."""

    def __init__(self, table: pd.DataFrame, sizes: Mapping[str, int], rho: float) -> None:
        self.table, self.sizes, self.rho = table, dict(sizes), rho
        self.spent = 0.0
        self.answers: list[Answer] = []
        self._random = np.random.default_rng()
        self._counted: dict[Columns, Any] = {}

    @property
    def left(self) -> float:
        """What is left to spend; rounding errors are not."""
        return self.rho - self.spent if self.spent < self.rho * (1 - 1e-9) else 0.0

    def count(self, columns: Columns) -> Any:
        """Counts the cells of a marginal, without noise: only to score what may be selected."""
        if columns not in self._counted:
            shape = [self.sizes[name] for name in columns]
            cells = np.ravel_multi_index([self.table[name].to_numpy() for name in columns], shape)
            self._counted[columns] = np.bincount(cells, minlength=math.prod(shape)).astype(float)
        return self._counted[columns]

    def measure(self, columns: Columns, sigma: float) -> None:
        self._pay(1 / (2 * sigma**2))
        counts = self.count(columns)
        self.answers.append(Answer(columns, counts + self._random.normal(0, sigma, len(counts)), sigma))

    def select(self, scores: Mapping[Columns, float], epsilon: float, sensitivity: float) -> Columns:
        """Selects by the exponential mechanism, as the largest of scores with Gumbel noise."""
        self._pay(epsilon**2 / 8)
        noisy = epsilon / (2 * sensitivity) * np.array(list(scores.values())) + self._random.gumbel(size=len(scores))
        return list(scores)[int(noisy.argmax())]

    def merge(self, maps: Mapping[str, Any]) -> None:
        """Gives each column's codes new ones, several the same one, in the table and in the answers of one column."""
        self.table = pd.DataFrame({name: maps[name][self.table[name].to_numpy()] for name in self.sizes})
        self.sizes = {name: int(codes.max()) + 1 for name, codes in maps.items()}
        self.answers = [merge_answer(answer, maps[answer.columns[0]]) for answer in self.answers]
        self._counted = {}

    def _pay(self, rho: float) -> None:
        self.spent += rho
        if self.spent > self.rho * (1 + 1e-9):
            raise ValueError(f"rho {self.spent} is more than {self.rho}")


def merge_answer(answer: Answer, codes: Any) -> Answer:
    """Adds up the cells of a marginal of one column that get the same code, weighted such that sigma stays."""
    weights = 1 / np.sqrt(np.bincount(codes))
    return replace(answer, counts=np.bincount(codes, answer.counts) * weights, weights=weights)


def merge_rare(counts: Any, least: float) -> Any:
    """Gives new codes: one after the other to those counted often enough, and the last one to all others."""
    often = counts >= least
    return np.where(often, np.cumsum(often) - 1, often.sum())


def count_rows(answers: Iterable[Answer]) -> float:
    """Estimates the number of rows: the mean of what each marginal adds up to, weighted by precision."""
    weights = [np.ones(len(answer.counts)) if answer.weights is None else answer.weights for answer in answers]
    sums = [(answer.counts / weight).sum() for answer, weight in zip(answers, weights, strict=True)]
    precise = [1 / (answer.sigma**2 * (weight**-2).sum()) for answer, weight in zip(answers, weights, strict=True)]
    return max(1.0, float(np.average(sums, weights=precise)))


class Model:
    """A model that mbi fitted, which gives the marginal of any set: mbi itself would compile a program for each."""

    def __init__(self, fitted: Any) -> None:
        import networkx as nx
        from mbi import junction_tree, marginal_oracles

        self.fitted = fitted
        self._sums: dict[tuple[Columns, Columns], Any] = {}
        self._tree, _ = junction_tree.make_junction_tree(fitted.domain, fitted.cliques)
        nodes = list(self._tree)
        tables = marginal_oracles.message_passing_hugin(fitted.potentials.expand(nodes), fitted.total)
        self._tables = {node: np.asarray(tables[node].values) for node in nodes}
        self._homes = {name: node for node in nodes for name in node}
        self._paths = dict(nx.all_pairs_shortest_path(self._tree))

    def project(self, columns: Columns) -> Any:
        """Gives a marginal: the product of the cliques between its columns over that of what neighbours share."""
        homes = {self._homes[name] for name in columns}
        nodes = {node for one in homes for other in homes for node in self._paths[one].get(other, ())}
        shared = [(one, set(one).intersection(other)) for one, other in self._tree.subgraph(nodes).edges]
        places = {name: place for place, name in enumerate(set(columns).union(*(names for _, names in shared)))}
        parts = [self._sum(node, places) for node in nodes]
        for node, names in shared:
            counts, left = self._sum(node, names)
            parts.append((np.divide(1, counts, out=np.zeros_like(counts), where=counts > 0), left))
        terms = [term for counts, left in parts for term in (counts, [places[name] for name in left])]
        joint = np.einsum(*terms, [places[name] for name in columns], optimize="greedy")
        return joint.ravel() / float(self.fitted.total) ** (len(nodes) - len(shared) - 1)

    def draw(self, rows: int) -> dict[str, Any]:
        return dict(self.fitted.synthetic_data(rows).data)

    def _sum(self, node: Columns, names: Container[str]) -> tuple[Any, Columns]:
        left = tuple(name for name in node if name in names)
        if (node, left) not in self._sums:
            others = tuple(place for place, name in enumerate(node) if name not in left)
            self._sums[node, left] = self._tables[node].sum(others)
        return self._sums[node, left], left


def pool_answers(answers: Iterable[Answer]) -> list[Answer]:
    """Gives one answer a marginal, as precise as all of its. The fit stays; a set that comes again compiles nothing."""
    pooled: dict[Columns, Answer] = {}
    for answer in answers:
        if known := pooled.get(answer.columns):
            shares = np.array([known.sigma**-2, answer.sigma**-2])
            counts = np.average([known.counts, answer.counts], axis=0, weights=shares)
            answer = replace(answer, counts=counts, sigma=float(shares.sum() ** -0.5))
        pooled[answer.columns] = answer
    return list(pooled.values())


def fit_model(
    sizes: Mapping[str, int], answers: list[Answer], start: Model | None = None, iterations: int = ITERATIONS
) -> Model:
    """Fits mbi's graphical model by mirror descent, from where an earlier one ended."""
    from mbi import DatavectorQuery, Domain, LinearMeasurement, WeightedQuery, estimation

    answers = pool_answers(answers)
    queries = [DatavectorQuery() if answer.weights is None else WeightedQuery(answer.weights) for answer in answers]
    fitted = estimation.MirrorDescent().estimate(
        Domain.fromdict(dict(sizes)),
        [LinearMeasurement(it.counts, it.columns, it.sigma, how) for it, how in zip(answers, queries, strict=True)],
        known_total=count_rows(answers),
        warm_start=start and start.fitted,
        iters=iterations,
        tol=TOLERANCE,
    )
    return Model(fitted)


def measure_size(sizes: Mapping[str, int], sets: list[Columns]) -> float:
    from mbi import Domain, junction_tree

    return float(junction_tree.hypothetical_model_size(Domain.fromdict(dict(sizes)), sets))


def measure_miss(counts: Any, model: Any, columns: Columns) -> float:
    """Gives the L1 distance of a marginal from the model's."""
    return float(np.abs(counts - model.project(columns)).sum())


def run_mst(asked: Guarded, fit: Callable[..., Any] = fit_model) -> pd.DataFrame:
    """Measures all columns, a spanning tree of pairs that the columns alone miss most, and makes as many rows."""
    names, third, rows = list(asked.sizes), asked.rho / 3, len(asked.table)
    sigma = math.sqrt(len(names) / (2 * third))
    for name in names:
        asked.measure((name,), sigma)
    maps = {answer.columns[0]: merge_rare(answer.counts, RARE * sigma) for answer in asked.answers}
    asked.merge(maps)
    model = fit(asked.sizes, asked.answers)
    pairs: list[Columns] = list(itertools.combinations(names, 2))
    scores = {pair: measure_miss(asked.count(pair), model, pair) for pair in pairs}
    trees = {name: name for name in names}
    edges = len(names) - 1
    for _ in range(edges):
        scores = {pair: score for pair, score in scores.items() if trees[pair[0]] != trees[pair[1]]}
        one, other = asked.select(scores, math.sqrt(8 * third / edges), 1)
        trees = {name: trees[one] if tree == trees[other] else tree for name, tree in trees.items()}
        asked.measure((one, other), math.sqrt(edges / (2 * third)))
    made = fit(asked.sizes, asked.answers, iterations=LAST_ITERATIONS).draw(rows)
    return pd.DataFrame({name: split_codes(made[name], maps[name]) for name in names})


def split_codes(merged: Any, codes: Any) -> Any:
    """Gives each new code one of those that it stands for, any as likely."""
    olds = [np.flatnonzero(codes == new) for new in range(codes.max() + 1)]
    places = np.random.default_rng().random(len(merged))
    return np.array([olds[new][int(place * len(olds[new]))] for new, place in zip(merged, places, strict=True)])


def run_aim(
    asked: Guarded,
    ways: int,
    limit_mb: float,
    fit: Callable[..., Any] = fit_model,
    size: Callable[..., float] = measure_size,
) -> pd.DataFrame:
    """Measures all columns, then round by round the set that the model misses most, and makes as many rows.

    The workload is all sets of so many columns; what may be measured is these and all that they contain.
    """
    names = list(asked.sizes)
    weights = weigh_sets(names, ways)
    rounds = ROUNDS * len(names)
    sigma, epsilon = math.sqrt(rounds / (2 * ALPHA * asked.rho)), math.sqrt(8 * (1 - ALPHA) * asked.rho / rounds)
    for name in names:
        asked.measure((name,), sigma)
    model = fit(asked.sizes, asked.answers)
    while asked.left:
        most = (1 - (asked.left - price_round(epsilon, sigma)) / asked.rho) * limit_mb
        known = [answer.columns for answer in asked.answers]
        scores = {
            columns: score_set(asked, model, columns, weight, sigma)
            for columns, weight in weights.items()
            if size(asked.sizes, [*known, columns]) <= most
        }
        chosen = asked.select(scores, epsilon, max(weights[columns] for columns in scores))
        asked.measure(chosen, sigma)
        before = model.project(chosen)
        model = fit(asked.sizes, asked.answers, model)
        learnt = measure_miss(before, model, chosen) > expect_noise(sigma, len(before))
        epsilon, sigma = anneal(epsilon, sigma, learnt=learnt, left=asked.left)
    made = fit(asked.sizes, asked.answers, model, LAST_ITERATIONS).draw(len(asked.table))
    return pd.DataFrame({name: made[name] for name in names})


def weigh_sets(names: list[str], ways: int) -> dict[Columns, int]:
    """Gives each set that AIM may measure its weight: the columns that it shares with each set of the workload."""
    sets = itertools.chain.from_iterable(itertools.combinations(names, k) for k in range(1, ways + 1))
    return {columns: len(columns) * math.comb(len(names) - 1, ways - 1) for columns in sets}


def score_set(asked: Guarded, model: Any, columns: Columns, weight: int, sigma: float) -> float:
    """Scores a set by how far the model misses it beyond the noise that measuring it would have."""
    counts = asked.count(columns)
    return weight * (measure_miss(counts, model, columns) - expect_noise(sigma, len(counts)))


def expect_noise(sigma: float, cells: int) -> float:
    return math.sqrt(2 / math.pi) * sigma * cells


def price_round(epsilon: float, sigma: float) -> float:
    return epsilon**2 / 8 + 1 / (2 * sigma**2)


def anneal(epsilon: float, sigma: float, *, learnt: bool, left: float) -> tuple[float, float]:
    """Gives the next round four times the budget where this one taught nothing, and all if two rounds are left."""
    if not learnt:
        epsilon, sigma = 2 * epsilon, sigma / 2
    if 0 < left <= 2 * price_round(epsilon, sigma):
        epsilon, sigma = math.sqrt(8 * (1 - ALPHA) * left), math.sqrt(1 / (2 * ALPHA * left))
    return epsilon, sigma
