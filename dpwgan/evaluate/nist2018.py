"""The three scores of the NIST 2018 Differential Privacy Synthetic Data Challenge, match 3, each 0 to 1,000,000.

Privacy: NOT private.
Source: NIST 2018 Differential Privacy Synthetic Data Challenge, match 3, problem statement and competitor pack; the
  formulas are written out in each function. Three things are left as they are there on purpose: a Gini index without
  small-sample correction, a first city in every tie, and a missing city that scores nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dpwgan.array_types import Flags, Floats, Integers, Integers32
from dpwgan.evaluate.marginals import measure_overlap
from dpwgan.evaluate.tables import ComparedTable

HIGHEST = 1_000_000.0
TRIPLES = 100
CONJUNCTIONS = 300
KEPT = 0.1
"""Chance of a column to be part of a conjunction."""
SMALLEST_SHARE = 1e-6

Triple = tuple[int, ...]


def draw_triples(columns: int, rng: np.random.Generator) -> list[Triple]:
    """Draws 100 sets of three different columns, each set by itself, so that one may come twice.

    Raises: ValueError if there are fewer than three columns.
    """
    return [tuple(rng.choice(columns, 3, replace=False).tolist()) for _ in range(TRIPLES)]


def score_marginals(real: ComparedTable, synthetic: ComparedTable, triples: Sequence[Triple]) -> float:
    """Scores three-column marginals: 1,000,000 times the mean of 1 - half the sum of |synthetic - real share|.

    Source: match 3, scoring method 1.
    """
    return HIGHEST * float(np.mean([measure_overlap(real, synthetic, triple) for triple in triples]))


@dataclass(frozen=True, kw_only=True, eq=False)
class Condition:
    """What a conjunction asks of one column.

    A categorical cell must be among `accepted`; a number must lie within `radius` of `center`, ends included; with
    `center` NaN the number must be missing.
    """

    column: int
    accepted: Flags | None = field(default=None, repr=False)
    center: float = field(default=float("nan"), repr=False)
    radius: float = 0.0

    def keep(self, table: ComparedTable, rows: Integers) -> Integers:
        """Keeps the rows that satisfy the condition."""
        numbers = table.numbers[rows, self.column]
        if self.accepted is not None:
            fits = self.accepted[table.cells[rows, self.column]]
        elif np.isnan(self.center):
            fits = np.isnan(numbers)
        else:
            fits = np.abs(numbers - self.center) <= self.radius  # NaN is within no radius
        kept: Integers = rows[fits]
        return kept


Conjunction = tuple[Condition, ...]


def draw_conjunctions(real: ComparedTable, rng: np.random.Generator) -> list[Conjunction]:
    """Draws conjunctions that a real row satisfies, around up to 300 rows: a row that is drawn twice counts once.

    Each column takes part with probability 0.1. Of a categorical column the row's cell is accepted, and further ones
    that are drawn evenly until one comes up that is accepted already. Of a number the distance is drawn evenly between
    0 and the width of the public range.
    Source: match 3, scoring method 2.
    """
    rows = np.unique(rng.integers(real.rows, size=CONJUNCTIONS))
    return [_draw_conjunction(real, int(row), rng) for row in rows]


def _draw_conjunction(real: ComparedTable, row: int, rng: np.random.Generator) -> Conjunction:
    conditions = []
    for place in np.flatnonzero(rng.random(len(real.columns)) < KEPT):
        column = real.columns[place]
        if column.kind == "categorical":
            accepted = np.zeros(column.cells, dtype=bool)
            drawn = int(real.cells[row, place])
            while not accepted[drawn]:
                accepted[drawn] = True
                drawn = int(rng.integers(column.cells))
            conditions.append(Condition(column=int(place), accepted=accepted))
        else:
            radius = float(rng.uniform(0.0, column.maximum - column.minimum))
            conditions.append(Condition(column=int(place), center=float(real.numbers[row, place]), radius=radius))
    return tuple(conditions)


def score_conjunctions(real: ComparedTable, synthetic: ComparedTable, conjunctions: Sequence[Conjunction]) -> float:
    """Scores conjunctions: 1,000,000 times 1 - RMS(ln synthetic share - ln real share) / ln 1000, at least 0.

    A synthetic share counts as 1e-6 at least. A conjunction of no column is satisfied by all rows of both tables.
    Source: match 3, scoring method 2.
    """
    real_shares = np.array([_share(real, conjunction) for conjunction in conjunctions])
    shares = np.array([_share(synthetic, conjunction) for conjunction in conjunctions])
    errors = np.log(np.maximum(shares, SMALLEST_SHARE)) - np.log(real_shares)
    return HIGHEST * max(0.0, 1.0 - float(np.sqrt(np.mean(errors**2))) / float(np.log(1000.0)))


def _share(table: ComparedTable, conjunction: Conjunction) -> float:
    rows = np.arange(table.rows)
    for condition in conjunction:  # only the rows that are still in are looked at
        rows = condition.keep(table, rows)
    return len(rows) / table.rows


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The places of the columns that the third score needs, and the two cells of sex whose wages are compared."""

    sex: int
    city: int
    wage: int
    first_sex: int
    second_sex: int


def find_roles(table: ComparedTable, *, sex: str, city: str, wage: str) -> Roles | None:
    """Finds the columns of the third score by name; None if one is not there or is of another kind.

    The two sexes are the cells "1" and "2" where the column has them (1940 census: male, female), else its first two
    cells that are not missing.
    """
    places = {column.name: place for place, column in enumerate(table.columns)}
    if not {sex, city, wage} <= set(places):
        return None
    of_sex, of_city, of_wage = (table.columns[places[name]] for name in (sex, city, wage))
    if of_sex.kind != "categorical" or of_city.kind != "categorical" or of_wage.kind == "categorical":
        return None
    available = [cell for cell in range(of_sex.cells) if cell not in of_sex.missing]
    coded = [of_sex.labels.index(label) for label in ("1", "2") if label in of_sex.labels]
    two = coded if len(coded) == 2 else available[:2]
    if len(two) < 2:
        return None
    return Roles(sex=places[sex], city=places[city], wage=places[wage], first_sex=two[0], second_sex=two[1])


def score_gini_and_pay_gap(real: ComparedTable, synthetic: ComparedTable, roles: Roles) -> float:
    """Scores the cities' Gini indices and their ranks by pay gap, half of 1,000,000 each.

    500,000 times the root mean square over the real table's cities of 1 - |difference of Gini indices|, plus 500,000
    times that of 1 - |difference of ranks| / (cities - 1), at least 0.

    A city's Gini index is 1 - 2 * the sum over its wages, rising, of (sum of the wages so far) / (number of wages *
    sum of all wages), and 1 where there is no wage above 0. Its pay gap is the mean wage of the first sex minus that of
    the second; a mean of no wage is 0. Rows whose wage is missing do not count. A city that the synthetic table does
    not have scores 0.
    Source: match 3, scoring method 3.
    """
    indices, ranks = _describe_cities(real, roles)
    found_indices, found_ranks = _describe_cities(synthetic, roles)
    last = max(len(ranks) - 1, 1)  # with one city there is nothing to rank
    gini = [
        (1.0 - abs(index - found_indices[city])) ** 2 if city in found_indices else 0.0
        for city, index in indices.items()
    ]
    rank = [
        max(0.0, 1.0 - abs(place - found_ranks[city]) / last) ** 2 if city in found_ranks else 0.0
        for city, place in ranks.items()
    ]
    return HIGHEST / 2 * float(np.sqrt(np.mean(gini)) + np.sqrt(np.mean(rank)))


def _describe_cities(table: ComparedTable, roles: Roles) -> tuple[dict[int, float], dict[int, int]]:
    """By city: Gini index of the wages, and rank by pay gap, the widest first."""
    cities: Integers32
    cities, first_rows = np.unique(table.cells[:, roles.city], return_index=True)
    wages = table.numbers[:, roles.wage]
    paid = np.flatnonzero(~np.isnan(wages))
    paid = paid[np.lexsort((wages[paid], table.cells[paid, roles.city]))]  # by city, within it by wage
    of_paid = table.cells[paid, roles.city]
    starts = np.searchsorted(of_paid, cities, side="left").tolist()
    ends = np.searchsorted(of_paid, cities, side="right").tolist()
    gini: dict[int, float] = {}
    gaps: list[float] = []
    for city, low, high in zip(cities.tolist(), starts, ends, strict=True):
        rows = paid[low:high]
        gini[city] = _measure_gini(wages[rows])
        sexes = table.cells[rows, roles.sex]
        gaps.append(_mean(wages[rows[sexes == roles.first_sex]]) - _mean(wages[rows[sexes == roles.second_sex]]))
    # Widest gap first; of two that are equal, the city that comes first in the table.
    order = np.lexsort((first_rows, -np.array(gaps)))
    return gini, {int(cities[place]): rank for rank, place in enumerate(order)}


def _measure_gini(rising: Floats) -> float:
    total = float(rising.sum())
    return 1.0 - 2.0 * float(np.cumsum(rising).sum()) / (len(rising) * total) if total > 0.0 else 1.0


def _mean(wages: Floats) -> float:
    return float(wages.mean()) if len(wages) else 0.0
