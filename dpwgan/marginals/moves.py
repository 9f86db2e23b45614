"""Rows moved to where answers want more of them: of wide tables codes cannot meet all answers, but rows nearly can.

A mixture has far fewer codes than such a table has rows, and steps of its fit are dear. A row costs next to nothing.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.draws import find_on_scale
from dpwgan.marginals.groups import Marginal

Groups = npt.NDArray[np.int32]
Cells = npt.NDArray[np.float64]
Answers = Mapping[Marginal, npt.NDArray[np.float32]]
"""Of pairs of attributes which share of rows each cell should have. Shapes: one axis an attribute."""

# How often all answers are gone through, and at most so many comparisons of a row with an answer in all.
_MOST_SWEEPS, _MOST_WORK = 4, 8e8
# The part of the rows that are too many in a cell which may leave it at a time: each answer moves them by itself.
_HASTE = 0.5
# Answers of which no more than this share of rows lies elsewhere are left alone.
_LEAST_MISSED = 0.005
# A cell has rows too many from this many on: fewer are a matter of rounding.
_LEAST_SURPLUS = 0.5


def count_moves(rows: int, *, answers: int) -> int:
    """How often so many rows are gone through for all answers. Privacy: of public facts, and of released answers."""
    return min(_MOST_SWEEPS, int(_MOST_WORK / (2 * answers * rows))) if answers and rows else 0


def move_rows(groups: Groups, answers: Answers, *, sizes: Sequence[int], sweeps: int, rng: np.random.Generator) -> None:
    """Moves rows, in place, from cells of pairs that have too many to those that have too few.

    A row changes one of its groups, to one that an answer wants more of beside another of its groups, if all answers
    about this attribute together are then nearer: in squares over what each cell should have.
    Shapes: `groups` (n, attributes). Privacy: post-processing of released answers.
    Source: Zhang et al. 2021, "PrivSyn" (records updated towards noisy marginals), here of a fitted mixture's rows, and
      each with a look at what other answers say; Voas and Williamson 2000 (moves that lessen an error).
    """
    sides: defaultdict[int, list[_Side]] = defaultdict(list)
    for (left, right), shares in answers.items():
        wanted = shares * (len(groups) / float(shares.sum(dtype=np.float64)))
        cells = groups[:, left].astype(np.int64) * sizes[right] + groups[:, right]
        missing = wanted - np.bincount(cells, minlength=wanted.size).reshape(wanted.shape)
        price = 1.0 / (wanted + 1.0)
        sides[left].append(_Side(right, wanted.T, missing.T, price.T))
        sides[right].append(_Side(left, wanted, missing, price))
    for _ in range(sweeps):
        for attribute in rng.permutation(sorted(sides)):
            for side in sides[attribute]:
                _move(groups, attribute, side, sides[attribute], rng=rng)


class _Side(NamedTuple):
    """An answer as one of its attributes sees it. Shapes: (groups beside it, own groups)."""

    other: int
    wanted: Cells
    missing: Cells
    price: Cells


def _move(groups: Groups, attribute: int, side: _Side, sides: Sequence[_Side], *, rng: np.random.Generator) -> None:
    """Moves rows for one answer where all `sides` are nearer for it."""
    own, beside = groups[:, attribute], groups[:, side.other]
    surplus = -side.missing
    if np.maximum(surplus, 0.0).sum() < _LEAST_MISSED * len(groups):
        return
    leaving = np.where(surplus > _LEAST_SURPLUS, _HASTE * surplus / np.maximum(side.wanted + surplus, 1.0), 0.0)
    lacking = np.maximum(side.missing, 0.0)
    leaving[~lacking.any(axis=1)] = 0.0
    moved = np.flatnonzero(rng.random(len(groups), np.float32) < leaving.astype(np.float32)[beside, own])
    if not len(moved):
        return
    rows, places = np.unique(beside[moved], return_inverse=True)
    old, new = own[moved], find_on_scale(lacking[rows], places, places + rng.random(len(moved)))
    change = np.zeros(len(moved))
    for other, _, missing, price in sides:
        given = groups[moved, other]
        change += price[given, new] * (1.0 - 2.0 * missing[given, new])
        change += price[given, old] * (1.0 + 2.0 * missing[given, old])
    better = change < 0
    moved, old, new = moved[better], old[better], new[better]
    for other, _, missing, _ in sides:
        given = groups[moved, other]
        np.add.at(missing, (given, old), 1.0)
        np.subtract.at(missing, (given, new), 1.0)
    groups[moved, attribute] = new
