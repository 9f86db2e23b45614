"""The same questions to two neighbours: by how much what is read of rows differs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.selection.queries import SELECTION_SENSITIVITY
from dpwgan.table.encoded import EncodedTable
from tests.ledgers import Watcher


def move(
    ask: Callable[..., Any], table: EncodedTable, neighbour: EncodedTable, *, replaced: bool
) -> npt.NDArray[np.float64]:
    """By how much each score moves when a record goes, or is `replaced`: no more than by its sensitivity.

    Nor do counts, where both were asked for the same.
    """
    watches, most = [Watcher(), Watcher()], 2 if replaced else 1
    for rows, watch in zip((table, neighbour), watches, strict=True):
        ask(rows, watcher=watch)
    scores, exact = ([getattr(watch, name) for watch in watches] for name in ("scores", "exact"))
    moved = np.abs(np.concatenate([np.subtract(*both) for both in zip(*scores, strict=True)]))
    assert moved.max() <= most * SELECTION_SENSITIVITY
    if watches[0].chosen == watches[1].chosen:
        assert all(np.square(np.subtract(*both)).sum() <= most for both in zip(*exact, strict=True))
    return moved
