"""Attribute inference: guessing one cell of a person from all the others, with the synthetic table's help."""

import numpy as np

from dpwgan.array_types import Floats, Integers
from dpwgan.audit.attacks.base import AttackResult, CannotPlayError, Game
from dpwgan.audit.comparisons import compare_means, compare_shares
from dpwgan.audit.points import Points, find_nearest_without, lay_out_points
from dpwgan.errors import UsageError

TOLERANCE = 0.05
"""A number counts as guessed within this share of its public range."""


def infer_attributes(game: Game, rng: np.random.Generator) -> AttackResult:
    """Guesses each secret as that of the synthetic row that agrees best in all other columns.

    A guess that succeeds on hold-out rows as often has learnt about the population, not about the person. The headline
    is each row's share of secrets guessed, so that rows, not cells, are what is independent; the parts are columns.
    Raises: UsageError if a secret asked for is no column that can be guessed.
    Source: Giomi, Boenisch, Wehmeyer, Tasnadi 2023, "A unified framework for quantifying privacy risk in synthetic
      data", arXiv:2211.10459, section 4.3.
    """
    secrets = _choose_secrets(game)
    synthetic = lay_out_points(game.synthetic)
    guessed = []
    for table in (game.real, game.holdout):
        targets = lay_out_points(game.draw(table, rng))
        places = find_nearest_without(targets, synthetic, columns=secrets)
        guessed.append(_compare(targets, synthetic, places, secrets))
    right, by_chance = guessed
    confidence = game.settings.confidence
    counts = zip(right.sum(axis=0), by_chance.sum(axis=0), strict=True)
    return AttackResult(
        question="Can a cell of a person be guessed from the others, better than for people never seen?",
        measure="share of a row's secret cells guessed right",
        attacked_rows=len(right),
        headline=compare_means(right.mean(axis=1), by_chance.mean(axis=1), confidence=confidence),
        parts={
            game.synthetic.names[place]: compare_shares(
                int(hits), len(right), int(controls), len(by_chance), confidence=confidence
            )
            for place, (hits, controls) in zip(secrets, counts, strict=True)
        },
        details={"holdout_rows_attacked": len(by_chance), "tolerance_for_numbers": TOLERANCE},
    )


def _choose_secrets(game: Game) -> Integers:
    names = game.synthetic.names
    if len(names) < 2:
        raise CannotPlayError("a table of one column has nothing to guess a cell from")
    for name in game.settings.secrets:
        if name not in names:
            raise UsageError(f"the specs have no column {name!r} that can be guessed")
    return np.array([place for place, name in enumerate(names) if name in (game.settings.secrets or names)])


def _compare(targets: Points, synthetic: Points, places: Integers, secrets: Integers) -> Floats:
    """Says which guesses are right. Shapes: (t, secrets) places give (t, secrets) zeros and ones."""
    right = np.empty(places.shape, dtype=np.float64)
    for number, column in enumerate(secrets):
        truth, guess = targets.values[:, column], synthetic.values[places[:, number], column]
        if targets.numeric[column]:
            near = np.abs(truth - guess) <= TOLERANCE  # never true of NaN
            right[:, number] = near | (np.isnan(truth) & np.isnan(guess))
        else:
            right[:, number] = truth == guess
    return right
