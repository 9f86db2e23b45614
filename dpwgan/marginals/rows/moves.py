"""Moves rows of wide tables to cells where answers want more: codes cannot meet all answers, but rows nearly can.

A mixture has far fewer codes than such a table has rows, and steps of its fit are costly; moving a row costs little.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpwgan.array_types import AnyIntegers, Floats, Floats32, Integers
from dpwgan.marginals.answers.zeros import Zeros
from dpwgan.marginals.draws import draw_by_odds
from dpwgan.marginals.groups import Marginal

Answers = Mapping[Marginal, Floats32]
"""The share of rows that each cell of some pairs should have. Shapes: one axis an attribute."""

# The most sweeps over all answers, and comparisons of a row with an answer.
_MOST_SWEEPS, _MOST_WORK = 12, 2.7e9
# Rows are in so many parts: each step looks at one part, as answers move rows one at a time.
_PARTS = 2
# Answers that less than this share of rows misses are left alone.
_LEAST_MISSED = 0.005
# A surplus below this is rounding.
_LEAST_SURPLUS = 0.5
# The price of a row in a cell whose share should be at most this, where a row too many elsewhere costs up to 1.
_FEE, _LEAST_SHARE = 20.0, 1e-6


def count_moves(rows: int, *, answers: int) -> int:
    """The number of sweeps over all answers. Privacy: of public facts, and of released answers."""
    return min(_MOST_SWEEPS, int(_MOST_WORK / (2 * answers * rows))) if answers and rows else 0


def move_rows(groups: AnyIntegers, answers: Answers, *, sweeps: int, rng: np.random.Generator, barred: Zeros) -> None:
    """Moves rows, in place, from cells of pairs that have too many to those that have too few, and are not `barred`.

    A row changes one of its groups if that lessens the error of all answers about this attribute together: squared
    errors over the root of what each cell should have, halfway from chi-squared to plain squares, and a fee for rows
    where there should be none.
    Shapes: `groups` (n, attributes), rows in any order that has nothing to do with them.
    Privacy: post-processing of released answers.
    Source: Zhang et al. 2021, "PrivSyn" (records updated towards noisy marginals), here of a fitted mixture's rows, and
      each with a look at what other answers say; Voas and Williamson 2000 (moves that lessen an error).
    """
    sides: defaultdict[int, list[_Side]] = defaultdict(list)
    for (left, right), shares in answers.items():
        wanted = shares.ravel() * (len(groups) / float(shares.sum(dtype=np.float64)))
        price, fee = 1.0 / np.sqrt(wanted + 1.0), np.where(shares.ravel() < _LEAST_SHARE, _FEE, 0.0)
        own = _Side(right, shares.shape, 0, wanted, wanted.copy(), price, fee, np.empty((2, wanted.size)))
        own.missing[:] -= np.bincount(own.find_cells(groups[:, left], groups[:, right]), minlength=wanted.size)
        own.weigh(slice(None))
        sides[left].append(own)
        sides[right].append(own._replace(other=left, axis=1))
    for _ in range(sweeps):
        for attribute in rng.permutation(sorted(sides)):
            for side in sides[attribute]:
                _move(groups, attribute, side, sides[attribute], barred=barred, rng=rng)


class _Side(NamedTuple):
    """An answer from the side of one of its attributes, at `axis`; both sides share the same arrays of cells.

    `grown`: by how much the error grows for a row more in each cell, and for one less. Shapes: (cells,), `grown`
    (2, cells).
    """

    other: int
    shape: tuple[int, ...]
    axis: int
    wanted: Floats
    missing: Floats
    price: Floats
    fee: Floats
    grown: Floats

    def find_cells(self, own: AnyIntegers, beside: AnyIntegers) -> Integers:
        """The cells of pairs of groups. Shapes: (m,) each."""
        first, second = (own, beside) if self.axis == 0 else (beside, own)
        cells = first.astype(np.int64)
        cells *= self.shape[1]
        cells += second
        return cells

    def lay_out(self, cells: Floats) -> Floats:
        """The same cells as a table. Shapes: (groups beside, own groups)."""
        table = cells.reshape(self.shape)
        return table.T if self.axis == 0 else table

    def note(self, gone: Integers, come: Integers) -> None:
        """Notes that rows have left some cells and come to others. Shapes: (m,) each."""
        np.add.at(self.missing, gone, 1.0)
        np.subtract.at(self.missing, come, 1.0)
        self.weigh(np.concatenate((gone, come)))

    def weigh(self, cells: Integers | slice) -> None:
        """Updates `grown` in some cells."""
        missing, price, fee = self.missing[cells], self.price[cells], self.fee[cells]
        self.grown[0, cells] = price * (1.0 - 2.0 * missing) + fee
        self.grown[1, cells] = price * (1.0 + 2.0 * missing) - fee


def _move(
    groups: AnyIntegers,
    attribute: int,
    side: _Side,
    sides: Sequence[_Side],
    *,
    barred: Zeros,
    rng: np.random.Generator,
) -> None:
    """Moves rows for one answer where that lessens the error of all `sides`."""
    surplus = -side.missing
    if np.maximum(surplus, 0.0).sum() < _LEAST_MISSED * len(groups):
        return
    part = int(rng.integers(_PARTS))
    first, last = len(groups) * part // _PARTS, len(groups) * (part + 1) // _PARTS
    own, beside = (groups[first:last, column] for column in (attribute, side.other))
    leaving = np.where(surplus > _LEAST_SURPLUS, surplus / np.maximum(side.wanted + surplus, 1.0), 0.0)
    lacking = np.maximum(side.lay_out(side.missing), 0.0)
    side.lay_out(leaving)[~lacking.any(axis=1)] = 0.0
    odds = leaving.astype(np.float32).take(side.find_cells(own, beside))
    moved = np.flatnonzero(rng.random(last - first, np.float32) < odds)
    if not len(moved):
        return
    old, given = own[moved], beside[moved]
    is_given = np.bincount(given, minlength=len(lacking)) > 0
    new = draw_by_odds(lacking[is_given], (np.cumsum(is_given) - 1)[given], rng=rng)
    moved += first
    change, cells = np.zeros(len(moved)), list[tuple[Integers, Integers]]()
    for each in sides:
        given = groups[moved, each.other]
        gone, come = each.find_cells(old, given), each.find_cells(new, given)
        change += each.grown[0].take(come) + each.grown[1].take(gone)
        cells.append((gone, come))
    better = change < 0
    for (left, right), flags in barred.items():
        if attribute == left:
            better &= ~flags[new, groups[moved, right]]
        elif attribute == right:
            better &= ~flags[groups[moved, left], new]
    for each, (gone, come) in zip(sides, cells, strict=True):
        each.note(gone[better], come[better])
    groups[moved[better], attribute] = new[better]
