"""Swaps rows between units until no two rows of one unit are alike in its unique columns.

Rows are drawn without regard to units: of twelve months drawn for a household some come twice. In each turn every row
that equals another one of its unit may swap with a row near by, ever further away, and does if that leaves fewer alike:
units lie in the order of their shared columns, which often determine the keys of their rows. In the end the rows of
each key are put in their old order into the places of that key: only the keys of units had to be found, and so rows
stay close to where they were.
Privacy: post-processing of releases.
"""

import numpy as np

from dpwgan.array_types import AnyIntegers, Flags, Integers, Integers32

_MOST_TURNS = 200
# Reach to both sides at first, doubled after every so many turns.
_NEAR, _TURNS = 32, 4


def find_alike(keys: AnyIntegers, units: AnyIntegers, *, rng: np.random.Generator | None = None) -> Flags:
    """Which rows repeat a key of their unit: all but one of each key, the first or, with `rng`, a random one.

    Shapes: (n,) keys, (n,) units.
    """
    tie = np.arange(len(keys)) if rng is None else rng.permutation(len(keys))
    order = np.lexsort((tie, keys, units))
    alike = np.zeros(len(keys), np.bool_)
    alike[order[1:]] = (units[order[1:]] == units[order[:-1]]) & (keys[order[1:]] == keys[order[:-1]])
    return alike


def tell_apart(
    keys: Integers, units: Integers, kinds: Integers32, *, settles: bool = True, rng: np.random.Generator
) -> Integers:
    """The row that each place of units takes, of the place's kind, such that few units or none repeat a key.

    If keys are as few as places of a unit, some units always do. Unless it `settles`, no row moves but by swaps.
    Shapes: (n,) keys from 0 up, units and kinds, to (n,).
    """
    rows, width = np.arange(len(keys)), int(keys.max()) + 1
    of_kinds = kinds.astype(np.int64) * len(keys)
    by_kind = np.argsort(kinds, kind="stable")
    for turn in range(_MOST_TURNS):
        own = keys[rows]
        alike = find_alike(own, units, rng=rng)
        places = np.flatnonzero(alike)
        if not len(places):
            break
        # In turn with any row, and with rows that repeat keys themselves, as what one unit has twice others lack.
        pool = by_kind if turn % 2 else by_kind[alike[by_kind]]
        others = _draw_near(pool, of_kinds, places, reach=_NEAR << turn // _TURNS, rng=rng)
        cells = np.sort(units * width + own)

        def count(units: Integers, keys: Integers, cells: Integers = cells) -> Integers:
            asked = units * width + keys
            return np.searchsorted(cells, asked, "right") - np.searchsorted(cells, asked, "left")

        more = 0 + (count(units[others], own[places]) > 0) + (count(units[places], own[others]) > 0)
        fewer = 1 + (count(units[others], own[others]) > 1)
        fine = np.flatnonzero((units[others] != units[places]) & (more < fewer))
        # One swap a turn for each key of a unit, as counts hold for one alone.
        pairs = np.stack([places[fine], others[fine]])[:, rng.permutation(len(fine))]
        asked = units[pairs][:, None] * width + own[pairs][None]
        _, firsts = np.unique(asked.reshape(4, -1).T, return_index=True)
        alone = np.bincount(firsts // 4, minlength=len(fine)) == 4
        rows[pairs[:, alone]] = rows[pairs[::-1, alone]]
    if not settles:
        return rows
    found: Integers = np.empty_like(rows)
    found[np.lexsort((keys[rows], kinds))] = np.lexsort((keys, kinds))
    return found


def _draw_near(
    pool: Integers, of_kinds: Integers, places: Integers, *, reach: int, rng: np.random.Generator
) -> Integers:
    """For each place a random one of its kind within reach, from a pool that holds it, sorted by kinds, then places.

    Shapes: `of_kinds` (n,), the kind of each place times n; (k,) places to (k,).
    """
    own, kinds = of_kinds[pool] + pool, of_kinds[places]
    first = np.searchsorted(own, kinds + np.maximum(places - reach, 0))
    last = np.searchsorted(own, kinds + np.minimum(places + reach, len(of_kinds) - 1), "right")
    drawn: Integers = pool[first + (rng.random(len(places)) * (last - first)).astype(np.int64)]
    return drawn
