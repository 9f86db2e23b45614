"""Singling out, linkability and inference, played by the package anonymeter.

Of its figures the counts of successes are used. Its correction for tables of unequal size fits a curve to rows drawn by
no seed of ours, so tables of equal size are given to it; its attack at random cannot be repeated either: left out.
Source: Giomi, Boenisch, Wehmeyer, Tasnadi 2023, "A unified framework for quantifying privacy risk in synthetic data",
  arXiv:2211.10459.
"""

import importlib.util
import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from dpwgan.audit.attacks.base import AttackResult, CannotPlayError, Game, choose_target
from dpwgan.audit.comparisons import compare_shares
from dpwgan.audit.points import lay_out_points
from dpwgan.evaluate.tables import ComparedTable

if TYPE_CHECKING:
    import pandas as pd

COLUMNS_OF_A_PREDICATE = 3
LINKING_NEIGHBOURS = 1

_MOST_ATTEMPTS = 50
"""Predicates tried for each one that is asked for."""


def single_out(game: Game, rng: np.random.Generator) -> AttackResult:
    """Looks for predicates true of exactly one synthetic row, and counts those that are true of exactly one person.

    Training rows and hold-out rows are cut to the same number of different rows, so that "exactly one" means the same
    in both. The predicates are the same on both sides and may share rows, so the interval is approximate.
    Source: Giomi et al. 2023, section 4.1.
    """
    evaluators = _load_evaluators()
    # Cut to one size before duplicates go: the different rows of a longer table are rarer ones.
    rows = min(game.real.rows, game.holdout.rows)
    real, holdout = (
        _to_frame(table.draw(rows, rng), missing_apart=False).drop_duplicates(ignore_index=True)
        for table in (game.real, game.holdout)
    )
    rows = min(len(real), len(holdout))
    real, holdout = (
        frame.iloc[np.sort(rng.choice(len(frame), size=rows, replace=False))].reset_index(drop=True)
        for frame in (real, holdout)
    )
    synthetic = _to_frame(game.synthetic, missing_apart=False)
    trials = game.settings.rows
    columns = min(COLUMNS_OF_A_PREDICATE, len(game.real.columns))
    evaluator = evaluators.SinglingOutEvaluator(
        ori=real,
        syn=synthetic,
        control=holdout,
        n_attacks=trials,
        n_cols=columns,
        max_attempts=_MOST_ATTEMPTS * trials,
        seed=int(rng.integers(1 << 31)),
    )
    return _play(
        game,
        evaluator,
        trials,
        mode="multivariate",
        question="Does the synthetic table tell what only one person has?",
        measure="share of predicates, each true of one synthetic row, that are true of exactly one row",
        details={"different_rows_compared": rows, "columns_of_a_predicate": columns},
    )


def link(game: Game, rng: np.random.Generator) -> AttackResult:
    """Tries to put a person's row together again from two halves of its columns, over the nearest synthetic row.

    The columns are dealt out by turns. Two halves are linked if the same synthetic row is nearest to both.
    Source: Giomi et al. 2023, section 4.2.
    """
    evaluators = _load_evaluators()
    if len(game.real.columns) < 2:
        raise CannotPlayError("a table of one column has no two halves to link")
    frames = _draw_frames(game, rng)
    halves = tuple([name for name in frames["syn"].columns if _place(name) % 2 == side] for side in (0, 1))
    trials = len(frames["ori"])
    evaluator = evaluators.LinkabilityEvaluator(
        **frames, aux_cols=halves, n_attacks=trials, n_neighbors=LINKING_NEIGHBOURS
    )
    return _play(
        game,
        evaluator,
        trials,
        question="Can two data sets about the same people be joined over the synthetic table?",
        measure="share of rows whose two halves have the same nearest synthetic row",
        details={
            "halves": [sorted({game.synthetic.names[_place(name)] for name in half}) for half in halves],
            "by_guessing": min(1.0, LINKING_NEIGHBOURS / len(frames["syn"])),
        },
    )


def infer(game: Game, rng: np.random.Generator) -> AttackResult:
    """Guesses one column of categories: a reference beside our own attribute inference, which guesses every column.

    Of numbers it counts every guess below 0 as right, so it is played on categories alone.
    Raises: UsageError if the target asked for has no categories.
    Source: Giomi et al. 2023, section 4.3.
    """
    evaluators = _load_evaluators()
    target = choose_target(game)
    if target is None or len(game.real.columns) < 2:
        raise CannotPlayError("the table has no column of 2 to 50 categories to guess from others")
    frames = _draw_frames(game, rng)
    secret = f"c{target}"
    known = [name for name in frames["syn"].columns if name != secret]
    trials = len(frames["ori"])
    evaluator = evaluators.InferenceEvaluator(**frames, aux_cols=known, secret=secret, n_attacks=trials)
    return _play(
        game,
        evaluator,
        trials,
        question="Can a cell of a person be guessed from the others, by anonymeter's own attack?",
        measure="share of rows whose cell of one column is guessed right",
        details={"column": game.synthetic.names[target]},
    )


def _play(game: Game, evaluator: Any, trials: int, *, mode: str | None = None, **said: Any) -> AttackResult:
    """Plays an attack `trials` times on training and on hold-out rows; `said`: other fields of the result."""
    results = evaluator.evaluate(**({"n_jobs": 1} if mode is None else {"mode": mode})).results()
    hits, controls = int(results.n_success), round(float(results.n_control))
    headline = compare_shares(hits, trials, controls, trials, confidence=game.settings.confidence)
    return AttackResult(attacked_rows=trials, headline=headline, **said)


def _draw_frames(game: Game, rng: np.random.Generator) -> "dict[str, pd.DataFrame]":
    """The tables by the names of anonymeter's arguments, as many training as hold-out rows."""
    trials = min(game.settings.rows, game.real.rows, game.holdout.rows)
    tables = {"ori": game.real.draw(trials, rng), "control": game.holdout.draw(trials, rng)}
    tables["syn"] = game.synthetic
    return {name: _to_frame(table, missing_apart=True) for name, table in tables.items()}


def _to_frame(table: ComparedTable, *, missing_apart: bool) -> "pd.DataFrame":
    """A data frame with the types that anonymeter tells columns by: text for categories, floats for numbers.

    A missing number is a null, which its predicates know; or, with `missing_apart`, 0 and a category beside it, since
    its distances do not know nulls. Columns go by their place, as it gives some characters of names a meaning.
    """
    import pandas as pd

    points = lay_out_points(table)
    columns: dict[str, Any] = {}
    for place in range(len(table.columns)):
        values = points.values[:, place].astype(np.float64)
        missing = np.isnan(values)
        if not points.numeric[place]:
            codes = table.cells[:, place]
            columns[f"c{place}"] = np.char.add("cell", codes.astype(np.str_)).astype(object)
        elif missing_apart:
            columns[f"c{place}"] = np.where(missing, 0.0, values)
            if table.columns[place].kind == "number_or_missing":
                columns[f"c{place}m"] = np.where(missing, "missing", "there").astype(object)
        else:
            columns[f"c{place}"] = pd.array(np.where(missing, 0.0, table.numbers[:, place]), dtype="Float64")
            columns[f"c{place}"][missing] = pd.NA
    return pd.DataFrame(columns)


def _place(name: str) -> int:
    return int(name.strip("cm"))


def is_installed() -> bool:
    """Says whether the attacks of this file can be played."""
    return importlib.util.find_spec("anonymeter") is not None


def _load_evaluators() -> Any:
    if not is_installed():
        raise CannotPlayError("the package anonymeter is not installed (it comes with the evaluation dependencies)")
    logging.getLogger("anonymeter").setLevel(logging.ERROR)  # its warnings are about figures that are not used here
    from anonymeter import evaluators

    return evaluators
