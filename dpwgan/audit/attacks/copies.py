"""Exact copies: training rows that stand in the synthetic table as they are."""

import numpy as np
import numpy.typing as npt

from dpwgan.audit.attacks.base import AttackResult, Game
from dpwgan.evaluate.tables import ComparedTable


def count_copies(game: Game, rng: np.random.Generator) -> AttackResult:
    """Counts the training rows that have an equal row in the synthetic table; hold-out rows say how many by chance.

    All rows are looked at, cell by cell, numbers as they are written. Copies alone are no leak: rows that many people
    share are copied by any good table, and held-out ones as often.
    """
    real, synthetic, holdout = (_keys(table) for table in (game.real, game.synthetic, game.holdout))
    copied, by_chance = np.isin(real, synthetic), np.isin(holdout, synthetic)
    keys, inverse, times = np.unique(real, return_inverse=True, return_counts=True)
    alone = times[inverse] == 1
    return game.judge_shares(
        int(copied.sum()),
        len(real),
        int(by_chance.sum()),
        len(holdout),
        question="Do training rows stand in the synthetic table as they are?",
        measure="share of rows with an equal row in the synthetic table",
        details={
            "training_rows_copied": int(copied.sum()),
            "holdout_rows_copied": int(by_chance.sum()),
            "training_rows_copied_that_are_unique": int((copied & alone).sum()),
            "training_rows_that_are_unique": int(alone.sum()),
            "synthetic_rows_equal_to_a_training_row": int(np.isin(synthetic, keys).sum()),
        },
    )


def _keys(table: ComparedTable) -> npt.NDArray[np.void]:
    """One key for each row, equal where all cells are."""
    # -0.0 and 0.0 are one number with two patterns of bits, and so is NaN.
    numbers = np.where(np.isnan(table.numbers), np.nan, table.numbers + 0.0)
    rows = np.ascontiguousarray(numbers)
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
