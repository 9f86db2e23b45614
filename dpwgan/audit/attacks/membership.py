"""Membership inference: telling training rows from held-out ones by where the synthetic rows lie."""

import numpy as np

from dpwgan.array_types import Floats
from dpwgan.audit.attacks.base import FEWEST_ROWS, AttackResult, CannotPlayError, Game
from dpwgan.audit.comparisons import Comparison, compare_order, compare_shares
from dpwgan.audit.points import find_nearest, lay_out_points

FALSE_POSITIVE_RATE = 0.01

FEW = "few accused"
"""The part of an attack that names the few rows it is surest of, at that rate."""

_SMALLEST_DISTANCE = 1e-3
"""Added to distances before their ratio is taken: rows that coincide are not infinitely dense."""


def attack_by_distance(game: Game, rng: np.random.Generator) -> AttackResult:
    """Takes rows for members that lie near a synthetic row: the score is minus the distance to the nearest one.

    Source: Chen, Yu, Zhang, Fritz 2020, "GAN-Leaks", arXiv:1909.03935, section 4.2 (full black-box attack).
    """
    synthetic = lay_out_points(game.synthetic)
    scores = [-find_nearest(lay_out_points(game.draw(table, rng)), synthetic) for table in (game.real, game.holdout)]
    question = "Does a row's nearness to the synthetic rows tell that it was trained on?"
    return _judge(game, rng, *scores, question=question)


def attack_by_density_ratio(game: Game, rng: np.random.Generator) -> AttackResult:
    """Takes rows for members where the synthetic rows are dense and the population is not.

    Half of the hold-out rows stand for the population and are not attacked. Densities are those of the nearest
    neighbour, whose ratio is a power of the ratio of distances, so that the power and all constants drop out.
    Source: van Breugel, Sun, Qian, van der Schaar 2023, "Membership inference attacks against synthetic data through
      overfitting detection" (DOMIAS), arXiv:2302.12580, equation 2; densities by nearest neighbours, not by a flow.
    """
    if game.holdout.rows < 2 * FEWEST_ROWS:
        raise CannotPlayError(
            f"half of the hold-out rows have to stand for the population, and {game.holdout.rows} are too few"
        )
    order = rng.permutation(game.holdout.rows)
    half = game.holdout.rows // 2
    population = lay_out_points(game.holdout.take(order[:half]))
    synthetic = lay_out_points(game.synthetic)
    scores = []
    for table in (game.real, game.holdout.take(order[half:])):
        targets = lay_out_points(game.draw(table, rng))
        near, usual = (find_nearest(targets, rows) for rows in (synthetic, population))
        scores.append(np.log(usual + _SMALLEST_DISTANCE) - np.log(near + _SMALLEST_DISTANCE))
    question = "Is a row more probable under the synthetic table than in the population because it was trained on?"
    return _judge(game, rng, *scores, question=question)


def _judge(game: Game, rng: np.random.Generator, members: Floats, others: Floats, *, question: str) -> AttackResult:
    confidence = game.settings.confidence
    return AttackResult(
        question=question,
        measure="chance that a training row scores above a hold-out row (area under the ROC curve)",
        attacked_rows=len(members),
        headline=compare_order(members, others, confidence=confidence),
        parts={FEW: _accuse_few(members, others, rng, confidence=confidence)},
        details={"holdout_rows_attacked": len(others), "false_positive_rate_aimed_at": FALSE_POSITIVE_RATE},
    )


def _accuse_few(members: Floats, others: Floats, rng: np.random.Generator, *, confidence: float) -> Comparison:
    """Measures the attack where it accuses few: an attack that is sure of a few rows may have an area near 1/2.

    The threshold comes from one half of the hold-out rows and is tried on the other, so that neither rate is fitted.
    Scores that tie are put in order by a draw: else rows that everybody shares would keep the threshold above all.
    Source: Carlini et al. 2022, "Membership inference attacks from first principles", arXiv:2112.03570, section III.
    """
    members, others = _part_ties(members, others, rng)
    order = rng.permutation(len(others))
    chosen, tried = others[order[: len(others) // 2]], others[order[len(others) // 2 :]]
    threshold = np.sort(chosen)[::-1][int(FALSE_POSITIVE_RATE * len(chosen))]  # so few of them, at most, are above
    hits, alarms = int((members > threshold).sum()), int((tried > threshold).sum())
    return compare_shares(hits, len(members), alarms, len(tried), confidence=confidence)


def _part_ties(members: Floats, others: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The same scores as ranks, ties put in order by a draw."""
    scores = np.concatenate([members, others])
    places = np.empty(len(scores))
    places[np.lexsort((rng.random(len(scores)), scores))] = np.arange(len(scores))
    return places[: len(members)], places[len(members) :]
