"""Exact copies: training rows that stand in the synthetic table as they are."""

import numpy as np
import numpy.typing as npt

from dpwgan.audit.attacks.base import AttackResult, CannotPlayError, Game
from dpwgan.audit.comparisons import compare_shares
from dpwgan.evaluate.tables import ComparedTable


def count_copies(game: Game, rng: np.random.Generator) -> AttackResult:
    """Counts the rows that have an equal row in the synthetic table, of those that nobody else has.

    All rows are looked at, cell by cell, numbers as they are written. Rows that many people share are copied by any
    good table, and held-out ones as often: they are counted, but what is compared are the rows that are the only ones
    of their kind among training and hold-out rows together.
    """
    real, synthetic, holdout = (_keys(table) for table in (game.real, game.synthetic, game.holdout))
    copied, by_chance = np.isin(real, synthetic), np.isin(holdout, synthetic)
    _, inverse, times = np.unique(np.concatenate([real, holdout]), return_inverse=True, return_counts=True)
    alone = times[inverse] == 1
    ours, theirs = alone[: len(real)], alone[len(real) :]
    if not (ours.any() and theirs.any()):
        raise CannotPlayError("no row is the only one of its kind")
    hits, controls = int((copied & ours).sum()), int((by_chance & theirs).sum())
    trials, control_trials = int(ours.sum()), int(theirs.sum())
    return AttackResult(
        question="Do training rows stand in the synthetic table as they are?",
        measure="share of rows that nobody else has with an equal row in the synthetic table",
        attacked_rows=trials,
        headline=compare_shares(hits, trials, controls, control_trials, confidence=game.settings.confidence),
        details={
            "holdout_rows_attacked": control_trials,
            "training_rows_copied": int(copied.sum()),
            "holdout_rows_copied": int(by_chance.sum()),
            "synthetic_rows_equal_to_a_training_row": int(np.isin(synthetic, real).sum()),
        },
    )


def _keys(table: ComparedTable) -> npt.NDArray[np.void]:
    """One key for each row, equal where all cells are."""
    # -0.0 and 0.0 are one number with two patterns of bits, and so is NaN.
    numbers = np.where(np.isnan(table.numbers), np.nan, table.numbers + 0.0)
    rows = np.ascontiguousarray(numbers)
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
