"""k-way scores: how much of the real rows' marginals the synthetic rows have. NOT private."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from dpwgan.array_types import Floats, Integers
from dpwgan.evaluate.tables import ComparedTable, count_cells

SETS = 100
"""Of columns, for each size that has more of them."""

MOST_LISTED = 1 << 22
"""Sets of a size, to draw from a list of all; of more, as images of 785 columns have, sets are drawn one by one."""

Sets = dict[int, list[tuple[int, ...]]]


def draw_column_sets(columns: int) -> Sets:
    """Chooses the sets of one, two and three columns that the k-way scores look at: all, or 100 of them.

    They depend on the number of columns alone and on no seed, so that scores of one table can be compared.
    """
    rng = np.random.RandomState(100)  # the order of the draws is part of the scores' definition
    sets: Sets = {}
    for k in (1, 2, 3):
        if math.comb(columns, k) > MOST_LISTED:
            drawn: dict[tuple[int, ...], None] = {}
            while len(drawn) < SETS:
                drawn[tuple(sorted(rng.choice(columns, k, replace=False).tolist()))] = None
            sets[k] = list(drawn)
            continue
        sets[k] = list(itertools.combinations(range(columns), k))
        if len(sets[k]) > SETS:
            sets[k] = [sets[k][place] for place in rng.choice(len(sets[k]), SETS, replace=False)]
    return sets


def measure_overlap(real: ComparedTable, synthetic: ComparedTable, columns: Sequence[int]) -> float:
    """How far two tables agree on a marginal: 1 minus the total variation distance, from 0 to 1.

    Shapes: the tables may have different numbers of rows.
    """
    cells = int(np.prod([real.columns[column].cells for column in columns], dtype=np.float64))
    ours, theirs = count_cells(real, columns), count_cells(synthetic, columns)
    if cells > len(ours) + len(theirs):  # then it is counted over the cells that occur
        both, seen = pd.factorize(np.concatenate([ours, theirs]))
        cells, ours, theirs = len(seen), both[: len(ours)], both[len(ours) :]
    return float(np.minimum(_share(ours, cells), _share(theirs, cells)).sum())


def _share(keys: Integers, cells: int) -> Floats:
    return np.bincount(keys, minlength=cells) / len(keys)


def measure_agreement(real: ComparedTable, synthetic: ComparedTable, sets: Sets) -> dict[int, list[float]]:
    """How far two tables agree on each set of columns, by size, in the order of `sets`."""
    return {k: [measure_overlap(real, synthetic, chosen) for chosen in of_size] for k, of_size in sets.items()}


def score_kway(agreement: dict[int, list[float]]) -> dict[str, float | None]:
    """The scores kway_1 to kway_3: 1000 times the mean agreement; None where the table has fewer columns."""
    return {f"kway_{k}": 1000.0 * float(np.mean(values)) if values else None for k, values in agreement.items()}
