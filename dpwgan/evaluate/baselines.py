"""Two tables made of the real rows, between which a score can be read: a floor and a ceiling.

Privacy: NOT private: the ceiling holds real rows, and the floor their cells. They are never written.
"""

from dataclasses import replace

import numpy as np

from dpwgan.evaluate.tables import ComparedTable


def make_floor(real: ComparedTable, *, rows: int, rng: np.random.Generator) -> ComparedTable:
    """Gives a table whose single columns are the real ones and nothing else is: each column shuffled by itself."""
    cells = np.empty((rows, len(real.columns)), dtype=np.int32)
    numbers = np.empty((rows, len(real.columns)), dtype=np.float64)
    for place in range(len(real.columns)):
        order = np.resize(rng.permutation(real.rows), rows)
        cells[:, place], numbers[:, place] = real.cells[order, place], real.numbers[order, place]
    return replace(real, cells=cells, numbers=numbers)


def make_ceiling(real: ComparedTable, *, rows: int, rng: np.random.Generator) -> ComparedTable:
    """Gives real rows drawn with replacement: as good as a table of that many rows can be expected to be."""
    return real.take(rng.integers(real.rows, size=rows))
