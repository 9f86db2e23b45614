"""How strongly each pair of columns hangs together, in the real and in the synthetic rows. NOT private."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpwgan.array_types import Floats, Integers
from dpwgan.evaluate.tables import ComparedTable

ROWS = 50_000
"""Of a longer table this many are drawn: a pair of columns then is known to about 0.005."""

MOST_COLUMNS = 150
"""Of a table whose pairs are compared one by one: images have 300,000."""

_DENSE_CELLS = 1 << 18


def measure_dependence(table: ComparedTable, rng: np.random.Generator) -> Floats:
    """How strongly each two columns hang together: Cramer's V, the correlation ratio, or Pearson's correlation.

    V (0 to 1, corrected for the number of rows) for two categorical columns; the correlation ratio (0 to 1) for a
    categorical column and a number; Pearson (-1 to 1) for two numbers. Numbers that are missing are left out of their
    pair. A column that is constant depends on nothing.

    Shapes: (columns, columns), symmetric, 1 on the diagonal.
    Source: Bergsma 2013, "A bias-correction for Cramer's V and Tschuprow's T"; Fisher 1925, section 45 (the ratio).
    """
    table = table.draw(ROWS, rng)
    numbers = table.numeric
    categories = [place for place in range(len(table.columns)) if place not in numbers]
    cells = np.ascontiguousarray(table.cells.T, dtype=np.int64)
    result = np.eye(len(cells))
    for first, second in itertools.combinations(categories, 2):
        shape = table.sizes[first], table.sizes[second]
        result[first, second] = result[second, first] = measure_cramers_v(cells[first], cells[second], shape)
    values = {place: np.ascontiguousarray(table.numbers[:, place]) for place in numbers}
    for place, other in itertools.product(categories, numbers):
        ratio = measure_correlation_ratio(cells[place], values[other], table.columns[place].cells)
        result[place, other] = result[other, place] = ratio
    # Pictures have 300,000 pairs of numbers, none of which is missing: those take one product.
    whole = [place for place in numbers if not np.isnan(values[place]).any()]
    result[np.ix_(whole, whole)] = measure_pearsons(table.numbers[:, whole])
    done = set(whole)
    for first, second in itertools.combinations(numbers, 2):
        if not (first in done and second in done):
            pair = np.column_stack([values[first], values[second]])
            both = measure_pearsons(pair[~np.isnan(pair).any(axis=1)])
            result[first, second] = result[second, first] = both[0, 1]
    return result


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """Every two columns: Cramer's V in the real rows and in another table, and the share that both tables agree on.

    Numbers are taken by their buckets: one measure for every kind.
    Shapes: (columns, columns) each, symmetric, 1 on the diagonal.
    """

    real: Floats
    other: Floats
    agreement: Floats


def compare_pairs(real: ComparedTable, others: Sequence[ComparedTable]) -> list[Pairs]:
    """Compares tables with the real one by every two columns; of longer ones `ROWS` rows are looked at."""
    # The draw is the same each time, so that one table's picture is.
    tables = [table.draw(ROWS, np.random.default_rng(0)) for table in (real, *others)]
    cells = [np.ascontiguousarray(table.cells.T, dtype=np.int64) for table in tables]
    ours = np.eye(len(real.columns))
    found = [Pairs(real=ours, other=ours.copy(), agreement=ours.copy()) for _ in others]
    for first, second in itertools.combinations(range(len(ours)), 2):
        shape = real.sizes[first], real.sizes[second]
        counted = [_count_pair(own[first], own[second], shape) for own in cells]
        ours[first, second] = ours[second, first] = _find_cramers_v(*counted[0], shape)
        for pairs, own in zip(found, counted[1:], strict=True):
            pairs.other[first, second] = pairs.other[second, first] = _find_cramers_v(*own, shape)
            pairs.agreement[first, second] = pairs.agreement[second, first] = _share(counted[0], own)
    return found


_Counted = tuple[Integers, Integers]
"""The cells of a pair that occur, in order, and how often. Shapes: (k,) each."""


def _count_pair(first: Integers, second: Integers, shape: tuple[int, int]) -> _Counted:
    keys = first * shape[1] + second
    if shape[0] * shape[1] > _DENSE_CELLS:
        seen, counts = np.unique(keys, return_counts=True)
        return seen, counts
    counts = np.bincount(keys)
    seen = np.flatnonzero(counts)
    return seen, counts[seen]


def _share(ours: _Counted, theirs: _Counted) -> float:
    _, one, other = np.intersect1d(ours[0], theirs[0], assume_unique=True, return_indices=True)
    return float(np.minimum(ours[1][one] / ours[1].sum(), theirs[1][other] / theirs[1].sum()).sum())


def measure_cramers_v(first: Integers, second: Integers, shape: tuple[int, int]) -> float:
    """Cramer's V of two columns of cells, corrected for the number of rows.

    Shapes: (n,) cells each, below `shape`.
    Source: Bergsma 2013, equations for the bias-corrected phi squared and numbers of rows and columns.
    """
    return _find_cramers_v(*_count_pair(first, second, shape), shape)


def _find_cramers_v(keys: Integers, counts: Integers, shape: tuple[int, int]) -> float:
    n = int(counts.sum())
    row, column = np.divmod(keys, shape[1])
    by_first, by_second = np.bincount(row, weights=counts), np.bincount(column, weights=counts)
    phi = float((counts.astype(np.float64) ** 2 / (by_first[row] * by_second[column])).sum()) - 1.0
    k, r = np.count_nonzero(by_first), np.count_nonzero(by_second)
    if min(k, r) < 2 or n < 2:
        return 0.0
    phi = max(0.0, phi - (k - 1) * (r - 1) / (n - 1))
    smaller = min(k - (k - 1) ** 2 / (n - 1), r - (r - 1) ** 2 / (n - 1)) - 1.0
    return min(1.0, float(np.sqrt(phi / smaller))) if smaller > 0.0 else 0.0


def measure_correlation_ratio(cells: Integers, numbers: Floats, size: int) -> float:
    """The share of a number's spread that lies between the cells, as a square root.

    Shapes: (n,) each; numbers that are NaN are left out.
    """
    there = ~np.isnan(numbers)
    if not there.all():
        cells, numbers = cells[there], numbers[there]
    if len(numbers) < 2:
        return 0.0
    deviations = _centre(numbers)
    total = float(deviations @ deviations)
    if not total > 0.0:
        return 0.0
    counts = np.bincount(cells, minlength=size)
    sums = np.bincount(cells, weights=deviations, minlength=size)
    between = float((sums[counts > 0] ** 2 / counts[counts > 0]).sum())
    return min(1.0, float(np.sqrt(between / total)))


def measure_pearsons(numbers: Floats) -> Floats:
    """Pearson's correlation of all columns with each other; 1 with itself, 0 where one of two is constant.

    Shapes: (n, columns), none missing, to (columns, columns).
    """
    if len(numbers) < 2:
        return np.eye(numbers.shape[1])
    centred = _centre(numbers)
    norms = np.linalg.norm(centred, axis=0)
    products = np.outer(norms, norms)
    together = np.divide(centred.T @ centred, products, out=np.zeros_like(products), where=products > 0)
    result: Floats = np.clip(together, -1.0, 1.0)
    np.fill_diagonal(result, 1.0)
    return result


def _centre(numbers: Floats) -> Floats:
    """How far numbers are from their mean: exactly 0 where all are the same, whatever their mean is rounded to."""
    apart: Floats = numbers - numbers[0]
    apart -= apart.mean(axis=0)
    return apart


def score_correlations(table: ComparedTable, real: Floats, synthetic: Floats) -> dict[str, float | None]:
    """How much dependence changed: the mean absolute difference, for each kind of pair and for all; lower is better.

    None where a table has no such pair.
    """
    is_number = np.array([column.kind != "categorical" for column in table.columns])
    numbers = is_number[:, None].astype(int) + is_number[None, :]
    above = np.triu(np.ones_like(numbers, dtype=bool), k=1)
    difference = np.abs(real - synthetic)
    kinds = {"cramers_v": above & (numbers == 0), "correlation_ratio": above & (numbers == 1)}
    kinds |= {"pearson": above & (numbers == 2), "all": above}
    return {name: float(difference[pairs].mean()) if pairs.any() else None for name, pairs in kinds.items()}
