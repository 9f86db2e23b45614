"""Balances rows of a mixture: pairs of groups come up as often as the mixture says, without sampling error.

Sampling error is a part of a table's error that no budget takes away; with few rows it is much of it.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from dpwgan.array_types import AnyIntegers, Floats32, Integers
from dpwgan.marginals.answers.zeros import Zeros
from dpwgan.marginals.draws import draw_by_odds
from dpwgan.marginals.groups import GroupLayout

# The most work of all sweeps, in rows times squared attributes; the most sweeps; and the most groups.
_MOST_WORK, _MOST_SWEEPS, _MOST_WIDTH = 1 << 27, 2, 2048
# Rows that move at a time, over the root of all: together they then change a pair by less than its sampling error.
_AT_ONCE = 2.0
# The price of a row of an empty pair, and sweeps over such rows before those over all: small groups lose rows by them,
# which the later sweeps give back.
_PRICE_OF_EMPTY = 2.0
_MENDING_SWEEPS = 4


def count_sweeps(rows: int, *, attributes: int, width: int) -> int:
    """The number of sweeps: 0 where they take long, and sampling error is small.

    Privacy: of public facts, and of the number of groups, which is released.
    """
    return 0 if width > _MOST_WIDTH else min(_MOST_SWEEPS, _MOST_WORK // max(1, rows * attributes**2))


def balance(
    groups: AnyIntegers,
    codes: Integers,
    *,
    probabilities: Floats32,
    sizes: Sequence[int],
    sweeps: int,
    rng: np.random.Generator,
    empty: Zeros,
) -> None:
    """Redraws groups from their rows' codes, in place, and keeps those that bring the counts of pairs nearer to what
    the mixture makes expected: in squares over that, and none in pairs of groups that are `empty`.

    Each row keeps its code; that some codes have a row more than others is made good by the groups.
    Shapes: `groups` (n, attributes) and `codes` (n,), the code of each row; `probabilities` (codes, width).
    Privacy: post-processing of the mixture.
    Source: Voas and Williamson 2000 (tables of rows by combinatorial optimisation; here the rows are a mixture's).
    """
    rows, layout = len(codes), GroupLayout(sizes)
    width, starts = layout.width, np.array(layout.starts)
    missing, price = _compare(groups + starts, probabilities, layout=layout, empty=empty)
    at_once = max(1, round(_AT_ONCE * rows**0.5))
    mending = _MENDING_SWEEPS if empty else 0
    for sweep, attribute in itertools.product(range(mending + sweeps), range(layout.attributes)):
        chosen = find_rows(groups, empty) if sweep < mending else np.arange(rows)
        others = np.empty(rows, np.int64)
        others[chosen] = draw_by_odds(probabilities[:, layout.get_slice(attribute)], codes[chosen], rng=rng)
        order = rng.permutation(chosen)
        for first in range(0, len(chosen), at_once):
            moved = order[first : first + at_once]
            moved = moved[others[moved] != groups[moved, attribute]]
            beside = groups[moved] + starts
            old, new = beside[:, attribute], starts[attribute] + others[moved]
            gone, come = old[:, np.newaxis] * width + beside, new[:, np.newaxis] * width + beside
            change = price[come] * (1 - 2 * missing[come]) + price[gone] * (1 + 2 * missing[gone])
            better = change.sum(axis=1) < 0
            moved, beside, old, new = moved[better], beside[better], old[better, np.newaxis], new[better, np.newaxis]
            for cells, count in ((old, 1.0), (new, -1.0)):
                np.add.at(missing, cells * width + beside, count)
                np.add.at(missing, beside * width + cells, count)
            groups[moved, attribute] = others[moved]


def find_rows(groups: AnyIntegers, empty: Zeros) -> Integers:
    """The rows that have a pair of groups which is empty. Shapes: `groups` (n, attributes)."""
    found = np.zeros(len(groups), np.bool_)
    for (left, right), flags in empty.items():
        found |= flags[groups[:, left], groups[:, right]]
    return np.flatnonzero(found)


def _compare(
    places: Integers, probabilities: Floats32, *, layout: GroupLayout, empty: Zeros
) -> tuple[Floats32, Floats32]:
    """How many rows of each pair of groups are missing, and the price of their square: 0 within an attribute.

    Shapes: (width * width,) each.
    """
    model = probabilities.astype(np.float64)
    missing = model.T @ model * (len(places) / len(model))
    price = 1.0 / (missing + 1.0)
    for pair, flags in empty.items():
        own, others = map(layout.get_slice, pair)
        for cells, value in ((missing, 0.0), (price, _PRICE_OF_EMPTY)):
            cells[own, others][flags] = value
            cells[others, own][flags.T] = value
    for attribute in range(layout.attributes):
        piece = layout.get_slice(attribute)
        price[piece, piece] = 0.0
        pairs = places[:, attribute, np.newaxis] * layout.width + places
        missing -= np.bincount(pairs.ravel(), minlength=missing.size).reshape(missing.shape)
    return missing.ravel().astype(np.float32), price.ravel().astype(np.float32)
