"""How strongly each two columns hang together, for the report's heat maps.

Privacy: NOT private. The numbers are statistics of the rows.
"""

import itertools

import numpy as np
import numpy.typing as npt

from dpwgan.evaluate.dependence import measure_cramers_v
from dpwgan.evaluate.tables import ComparedTable

MOST_ROWS = 50_000
"""Rows that are looked at, drawn at random: V is then known to about 0.005, less than a shade of a heat map."""


def measure_pairs(table: ComparedTable) -> npt.NDArray[np.float64]:
    """Gives Cramer's V of each two columns, of numbers between their buckets; 1 on the diagonal.

    One measure for every kind of column, so that one map can show them all.

    Privacy: NOT private.
    Shapes: (d, d), symmetric.
    Source: Bergsma 2013, as `dpwgan.evaluate.dependence.measure_cramers_v`.
    """
    if table.rows > MOST_ROWS:
        # The draw is the same each time, so that one table's picture is.
        table = table.take(np.random.default_rng(0).choice(table.rows, MOST_ROWS, replace=False, shuffle=False))
    cells = np.ascontiguousarray(table.cells.T, dtype=np.int64)
    result = np.eye(len(cells))
    for first, second in itertools.combinations(range(len(cells)), 2):
        shape = table.columns[first].cells, table.columns[second].cells
        result[first, second] = result[second, first] = measure_cramers_v(cells[first], cells[second], shape)
    return result
