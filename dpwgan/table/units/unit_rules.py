"""Rules between rows of one unit: rows are placed in units in turn, each after rows that it may follow.

Rows are sorted by unit, in the order in which they are written. As in a CHECK of SQL, a condition that is NULL holds,
so that a first row breaks no condition on the row before it.
Privacy: rows that are drawn are read, and none of the table.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from dpwgan.array_types import Flags, Integers
from dpwgan.table.codecs.codec import ReadCodec
from dpwgan.table.conditions import read_sql
from dpwgan.table.units.links import Weigh, list_rows
from dpwgan.table.units.units import count_up

# Units that a row may choose from.
_NEAR = 64


class UnitRules:
    """The rules between rows of a unit, which see cells as rules between columns do."""

    def __init__(self, rules: Sequence[str], codecs: Mapping[str, ReadCodec]) -> None:
        self._conditions = [read_sql(text) for text in rules]
        read = (name for one in self._conditions for name in (*one.columns, *(name for _, name in one.others)))
        self.columns = tuple(dict.fromkeys(read))
        self._codecs = {name: codecs[name] for name in self.columns}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._conditions)

    def read_values(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The values that they see of (n,) rows of cells."""
        return pl.DataFrame({name: codec.get_values(frame) for name, codec in self._codecs.items()})

    def find_broken(self, values: pl.DataFrame, of_units: Integers) -> Flags:
        """Which of (n,) rows of values, sorted by unit, break a rule."""
        is_first, own = np.append(True, of_units[1:] != of_units[:-1])[: len(of_units)], np.arange(len(of_units))
        firsts = np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
        return self.find_broken_beside(values, own, np.where(is_first, -1, own - 1), firsts)

    def find_broken_beside(self, values: pl.DataFrame, own: Integers, previous: Integers, first: Integers) -> Flags:
        """Which rows of values break a rule, given the previous and the first row of their unit.

        Shapes: (m,) each; -1 for no previous row.
        """
        rows = values[own].with_columns(
            pl.when(pl.Series(previous >= 0)).then(values[previous].to_struct()).alias("previous"),
            values[first].to_struct("first"),
        )
        broken = [~condition.evaluate(rows).fill_null(True).to_numpy() for condition in self._conditions]
        found: Flags = np.logical_or.reduce([np.zeros(len(own), np.bool_), *broken])
        return found


class PlacedRows:
    """Rows to be placed in units, and how many of them break a rule there.

    Shapes: values (n,), of rows; `in_order` (n,), the rows in the order in which those of a unit are written; keys
    (n,), from 0 up, which must differ within a unit, if there are any.
    """

    def __init__(self, rules: UnitRules, values: pl.DataFrame, in_order: Integers, keys: Integers | None) -> None:
        self._rules, self._in_order = rules, in_order
        self._values, self._keys = values[in_order], None if keys is None else keys[in_order]
        self._ranks = np.empty_like(in_order)
        self._ranks[in_order] = np.arange(len(in_order))

    def count_broken(self, rows: Integers, sizes: Integers, units: Integers) -> Integers:
        """The number of rows in each of `units` that break a rule or repeat a key, if units of these sizes have `rows`.

        Shapes: (n,), (all units,), (units,), to (units,).
        """
        ranks, of_units = self._ranks[rows[list_rows(sizes, units)]], np.repeat(np.arange(len(units)), sizes[units])
        # As one number: sorting by two takes much longer.
        ranks = np.sort(of_units * len(self._ranks) + ranks) - of_units * len(self._ranks)
        broken = self._rules.find_broken(self._values[ranks], of_units)
        if self._keys is not None:
            keys = self._keys[ranks]
            broken[1:] |= (keys[1:] == keys[:-1]) & (of_units[1:] == of_units[:-1])
        counts: Integers = np.bincount(of_units, broken, len(units)).astype(np.int64)
        return counts

    def place(
        self,
        of_units: Integers,
        seats: Integers,
        near: Integers,
        *,
        weigh: Weigh | None = None,
        rng: np.random.Generator,
    ) -> Integers:
        """The row that each place takes: one for the same seat, of a unit near by, that breaks no rule there.

        Rows are placed in their order, all blocks side by side; preferably in a unit as large as the one each is from,
        or, with `weigh`, by how well they go with it.
        What is left goes to the places that are left.
        Shapes: (n,) units and seats, from 0 up, of places, and `near` (units,), units with neighbours near by, to (n,).
        """
        sizes, most = np.bincount(of_units), int(seats.max()) + 1
        codes, free = np.unique(of_units * most + seats, return_counts=True)
        blocks = np.empty_like(near)
        blocks[near] = np.arange(len(near)) // _NEAR
        of_blocks, of_rows = blocks[of_units], sizes[of_units]
        last, first, found = np.full(len(sizes), -1), np.full(len(sizes), -1), np.full(len(of_units), -1)
        members = _tabulate(near, blocks)
        for turn in _tabulate(self._in_order, of_blocks).T:
            rows = turn[turn >= 0]
            units = members[of_blocks[rows]]
            wanted = units * most + seats[rows, np.newaxis]
            at = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
            open_to, which = np.nonzero((codes[at] == wanted) & (free[at] > 0))
            asked, own = units[open_to, which], rows[open_to]
            fine = ~self._breaks(own, last[asked], first[asked])
            asked, own, open_to, which = asked[fine], own[fine], open_to[fine], which[fine]
            scores = np.full(units.shape, -np.inf)
            if weigh is None:
                scores[open_to, which] = (sizes[asked] == of_rows[own]) + rng.random(len(own))
            else:  # the largest of weights with such noise is each by its weight
                scores[open_to, which] = weigh(asked, own) + rng.gumbel(size=len(own))
            best, is_placed = scores.argmax(axis=1), np.isfinite(scores).any(axis=1)
            rows, chosen = rows[is_placed], units[is_placed, best[is_placed]]
            found[rows], last[chosen] = chosen, rows
            first[chosen] = np.where(first[chosen] < 0, rows, first[chosen])
            free[at[is_placed, best[is_placed]]] -= 1
        lost, left = np.flatnonzero(found < 0), np.repeat(codes, free)
        left = left[np.lexsort((left % most, blocks[left // most]))]
        found[lost[np.lexsort((seats[lost], of_blocks[lost]))]] = left // most
        taken = np.empty_like(found)
        taken[np.lexsort((seats, of_units))] = np.lexsort((seats, found))
        return taken

    def _breaks(self, own: Integers, previous: Integers, first: Integers) -> Flags:
        """As `find_broken_beside`, of rows; a first one of -1 is the row itself."""
        ranks, before = self._ranks[own], np.where(previous < 0, -1, self._ranks[previous])
        broken = self._rules.find_broken_beside(
            self._values, ranks, before, np.where(first < 0, ranks, self._ranks[first])
        )
        return broken if self._keys is None else broken | ((before >= 0) & (self._keys[before] == self._keys[ranks]))


def _tabulate(values: Integers, groups: Integers) -> Integers:
    """The values of each group, in their order, padded with -1. Shapes: values (n,), the group of each value."""
    of = groups[values]
    order = np.argsort(of, kind="stable")
    counts = np.bincount(of)
    table = np.full((len(counts), counts.max()), -1)
    table[of[order], count_up(counts)] = values[order]
    return table
