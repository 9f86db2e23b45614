"""Rows of units change places until no two of one unit are alike in the columns that tell its rows apart.

Rows by themselves know of no unit: of twelve months drawn for a household some come twice. In each turn every row that
is like another one of its unit may change places with a row near by, further away from turn to turn, and does where
fewer are alike for it: what units share, and lie in the order of, often says which keys their rows have. In the end the
rows of one key lie in their old order in the places that this key has: which keys each unit has was all that had to be
found, and so its rows come from next to where they were.
Privacy: post-processing of releases.
"""

import numpy as np

from dpwgan.array_types import AnyIntegers, Flags, Integers, Integers32

_MOST_TURNS = 200
# So many rows to both sides are near by at first, and twice as many each time after so many turns.
_NEAR, _TURNS = 32, 4


def find_alike(keys: AnyIntegers, units: AnyIntegers, *, rng: np.random.Generator | None = None) -> Flags:
    """Which rows have the key of another row of their unit, but for one of each such key, by chance if `rng` is given.

    Shapes: (n,) keys, (n,) units.
    """
    tie = np.arange(len(keys)) if rng is None else rng.permutation(len(keys))
    order = np.lexsort((tie, keys, units))
    alike = np.zeros(len(keys), np.bool_)
    alike[order[1:]] = (units[order[1:]] == units[order[:-1]]) & (keys[order[1:]] == keys[order[:-1]])
    return alike


def tell_apart(keys: Integers, units: Integers, kinds: Integers32, *, rng: np.random.Generator) -> Integers:
    """Which row each place of units takes, one of its kind, so that few units or none have a key twice.

    Where keys are as few as places of a unit, some units always do: those that others left no better rows.
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
        # By turns with any row, and with those that are themselves alike, as what one unit has twice others lack.
        pool = by_kind if turn % 2 else by_kind[alike[by_kind]]
        others = draw_near(pool, of_kinds, places, reach=_NEAR << turn // _TURNS, rng=rng)
        cells = np.sort(units * width + own)

        def count(units: Integers, keys: Integers, cells: Integers = cells) -> Integers:
            asked = units * width + keys
            return np.searchsorted(cells, asked, "right") - np.searchsorted(cells, asked, "left")

        more = 0 + (count(units[others], own[places]) > 0) + (count(units[places], own[others]) > 0)
        fewer = 1 + (count(units[others], own[others]) > 1)
        fine = np.flatnonzero((units[others] != units[places]) & (more < fewer))
        # One exchange a turn for each key of a unit: what is counted holds for it alone.
        pairs = np.stack([places[fine], others[fine]])[:, rng.permutation(len(fine))]
        asked = units[pairs][:, None] * width + own[pairs][None]
        _, firsts = np.unique(asked.reshape(4, -1).T, return_index=True)
        alone = np.bincount(firsts // 4, minlength=len(fine)) == 4
        rows[pairs[:, alone]] = rows[pairs[::-1, alone]]
    order = np.arange(len(keys))
    found: Integers = np.empty_like(rows)
    found[np.lexsort((order, keys[rows], kinds))] = np.lexsort((order, keys, kinds))
    return found


def draw_near(
    pool: Integers, of_kinds: Integers, places: Integers, *, reach: int, rng: np.random.Generator
) -> Integers:
    """For each place one of its kind within reach, out of a pool that holds it and is sorted by kinds, then places.

    Shapes: `of_kinds` (n,), the kind of each place times n; (k,) places to (k,).
    """
    own, kinds = of_kinds[pool] + pool, of_kinds[places]
    first = np.searchsorted(own, kinds + np.maximum(places - reach, 0))
    last = np.searchsorted(own, kinds + np.minimum(places + reach, len(of_kinds) - 1), "right")
    drawn: Integers = pool[first + (rng.random(len(places)) * (last - first)).astype(np.int64)]
    return drawn
