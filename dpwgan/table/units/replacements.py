"""Other rows for those that break a rule between columns with the cells that their unit shares.

Giving up their units instead would mostly lose units of rare cells, whose rows differ most.
Privacy: post-processing of releases.
"""

from collections.abc import Callable, Iterable

import numpy as np
import polars as pl

from dpwgan.array_types import Flags, Integers, Integers32

# Tries in each order. The reach to each side is this in the last ones, and half of it in those before, every so many.
_TRIES, _NEAR_BY, _TURNS = 20, 64, 4


def replace_broken(
    frame: pl.DataFrame,
    broken: Flags,
    of_units: Integers,
    kinds: Integers32,
    orders: Iterable[tuple[Integers, Integers]],
    put: Callable[[Integers, Integers], tuple[pl.DataFrame, Flags]],
    *,
    rng: np.random.Generator,
) -> tuple[pl.DataFrame, Flags]:
    """Replaces rows that break a rule by others of their kind, and says which still do.

    They are looked for near by in one order after the other, ever further away. An order is the rank of each row, below
    n, and the rank near which each place looks. No unit takes a row twice. `put` gives rows of these numbers with the
    cells of the places that they are for, and which of them break a rule.
    Shapes: (n,) each.
    """
    of_kinds, taken = kinds.astype(np.int64) * len(kinds), np.arange(len(kinds))
    units = of_units * len(kinds)
    for ranks, sought in orders:
        by_rank = np.argsort(of_kinds + ranks)
        ordered = (of_kinds + ranks)[by_rank]
        for turn in range(_TRIES):
            places = np.flatnonzero(broken)
            if not len(places):
                break
            reach, kind = _NEAR_BY >> (_TRIES - 1 - turn) // _TURNS, of_kinds[places]
            first, last = (np.searchsorted(ordered, kind + sought[places], side) for side in ("left", "right"))
            first = np.maximum(first - reach, np.searchsorted(ordered, kind))
            last = np.minimum(last + reach, np.searchsorted(ordered, kind + len(kinds)))
            rows = by_rank[first + (rng.random(len(places)) * (last - first)).astype(np.int64)]
            others, wrong = put(rows, places)
            repeats = _find_repeats(units[places] + rows, held=(units + taken)[~broken])
            fine = np.flatnonzero(~wrong & ~repeats)
            taken[places[fine]], broken[places[fine]] = rows[fine], False
            chosen = np.arange(len(kinds))
            chosen[places[fine]] = len(kinds) + fine
            frame = pl.concat([frame, others])[chosen]
        if not broken.any():
            break
    return frame, broken


def _find_repeats(keys: Integers, *, held: Integers) -> Flags:
    """Which keys are held already, or come earlier in the list. Shapes: (k,) and any, to (k,)."""
    repeats = np.ones(len(keys), np.bool_)
    repeats[np.unique(keys, return_index=True)[1]] = False
    return repeats | np.isin(keys, held)
