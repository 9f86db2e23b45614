"""Swaps rows between units until the rows of one unit depend on each other as in the table.

The cells of a linked column are in a few groups. It is known, from a release, how often the later of two rows of a
unit has each group after each, or, if groups have an order, how far up or down it lies. Exchangeable rows are paired at
random and swapped with Metropolis odds, by the weights of the pairs that they then form in their units. A pair's weight
grows as long as there are too few of it. Each unit keeps its number of rows of each kind.
Rows drawn independently hardly ever share a moment: so some rows take that of another row of their unit, as the lines
of one visit have its day.
Privacy: the result of `count_links` is not released; all else is post-processing.
Source: Metropolis et al. 1953 (exchanges by their odds); Deming and Stephan 1940 (weights that meet given sums).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from dpwgan.array_types import Flags, Floats, Integers, Integers32
from dpwgan.table.calendar import CalendarColumn
from dpwgan.table.schema import Schema
from dpwgan.table.units.units import count_up

CountBroken = Callable[[Integers, Integers, Integers], Integers]
"""How many rows of some units break a rule: from the row in each place, the size of each unit, and which units."""
Weigh = Callable[[Integers, Integers], Floats]
"""The logarithm of how well rows go with what units share: from units, and the places of rows. Shapes: (m,) each."""
Bounds = tuple[float, ...] | tuple[str, ...]
"""For ordered values where groups begin, without the first; for others the most frequent ones."""

# So many of a list of cells are told from each other, the most frequent ones, times how many kinds of rows are.
_MOST_LISTED = 1_000
# Groups of moments, of all kinds together, and the parts of a power of two of them; and what more groups share where
# rows look for others near by.
_MOST_DAYS, _PARTS, _MOST_ALIKE = 1_000, 2, 40
# So many times as many turns as others moments need, of which a unit's lie near each other among all there are.
_TIMES_OF_MOMENTS = 4

# How many turns there are for units of so many rows, of which each turn moves one; of more rows as much more, up to so
# many times; and after how many turns weights are set right. More turns fit the noise of the shares.
TURNS, _ROWS_OF_TURNS, _MOST_TIMES, _EVERY = 400, 4, 4, 4
# By what share of its error, in logarithms, a weight is set right; how large it may be; and what counts have more.
_RATE, _MOST_WEIGHT, _LEAST_COUNT = 0.1, 8.0, 0.5
# How far below 0 a weight may lie where groups have an order, and how much further for each group between: of pairs
# that there should be none of the further apart are worse, or rows would not know where those like them are.
_LEAST_WEIGHT, _LESS_A_GROUP = 4.0, 2.0
# Rows take equal moments so many times over: a row that takes one is no longer equal to others.
_TIMES_REPEATED = 4
# Where units share columns rows stay among those of so many units side by side: further off these have other cells.
_NEAR = 256


@dataclass(frozen=True, kw_only=True)
class PairCells:
    """The cells that pairs of rows of one unit are counted in, by the groups of their values in one column.

    Group 0 is that of missing values, the others are cut off by the bounds; each of the `kinds` has groups of its own.
    Where bounds have an order, the cell says how many groups the later row lies above the earlier one: exactly, or with
    `told`, as of moments, in steps that are as many parts of each power of two, beside a cell for two equal moments.
    Else there is a cell for each two of the first `told` groups and of one for all others, and one more for pairs in
    the same one of these others.
    """

    bounds: Bounds
    told: int
    kinds: int = 1

    @property
    def groups(self) -> int:
        """Number of groups of each kind."""
        return len(self.bounds) + 2

    @property
    def has_order(self) -> bool:
        """Whether groups lie in an order."""
        return not any(isinstance(bound, str) for bound in self.bounds)

    @property
    def of_moments(self) -> bool:
        """Whether values are moments, two of which may be equal."""
        return self.has_order and self.told > 0

    @property
    def wide(self) -> float:
        """Number of moments in a group: days, or for times microseconds."""
        return self.bounds[1] - self.bounds[0] if len(self.bounds) > 1 else 1.0  # type: ignore[operator]

    @property
    def of_kinds(self) -> int:
        """Number of cells for two kinds; of moments the last is for equal ones."""
        return 2 * self.same_group + self.of_moments if self.has_order else (self.told + 2) ** 2 + 1

    @property
    def same_group(self) -> int:
        """The cell of rows in the same group, among those for two kinds, if groups have an order."""
        return int(self._gaps[-2] + 2)

    @cached_property
    def _gaps(self) -> Integers:
        """The kind of each gap, from 0 up: itself, or by parts of powers of two. Shapes: (groups,)."""
        gaps = np.arange(self.groups)
        if self.told == 0:
            return gaps
        parts = np.arange(self.told, 2 * self.told)
        bounds = [np.arange(1, self.told), *(parts << halvings for halvings in range(self.groups.bit_length()))]
        return np.searchsorted(np.concatenate(bounds), gaps, side="right")

    @property
    def nearest(self) -> int:
        """Number of neighbouring groups that are taken for one when a row looks for others near it."""
        return -(-self.groups // _MOST_ALIKE) if self.has_order else 1

    @property
    def count(self) -> int:
        """Number of cells of all pairs of kinds."""
        return self.kinds**2 * self.of_kinds

    @cached_property
    def table(self) -> Integers:
        """The cell of each two groups, the earlier row's first. Shapes: (kinds groups, kinds groups)."""
        groups = np.arange(self.groups)
        if self.has_order:
            gaps = groups - groups[:, np.newaxis]
            cells = np.sign(gaps) * self._gaps[np.abs(gaps)] + self.same_group
            cells[0], cells[:, 0], cells[0, 0] = 0, 1, 2 * self.same_group - 1
        else:
            coarse = np.minimum(groups, self.told + 1)
            cells = coarse[:, np.newaxis] * (self.told + 2) + coarse
            same = groups[self.told + 1 : -1]
            cells[same, same] = self.of_kinds - 1
        pairs = np.arange(self.kinds**2).reshape(self.kinds, self.kinds) * self.of_kinds
        return np.array(np.kron(np.ones_like(pairs), cells) + np.kron(pairs, np.ones_like(cells)), np.int64)

    def find_groups(self, values: pl.Series, kinds: Integers32) -> Integers:
        """The group of each value of a row of some kind. Shapes: (n,) each."""
        if self.has_order:
            groups = 1 + np.searchsorted(np.array(self.bounds, np.float64), _to_numbers(values), side="right")
        else:
            codes = {cell: place for place, cell in enumerate(self.bounds, 1)}
            found = values.cast(pl.String).replace_strict(codes, default=len(codes) + 1, return_dtype=pl.Int64)
            groups = found.to_numpy()
        known: Integers = np.where(values.is_null().to_numpy(), 0, groups)
        return known if self.kinds == 1 else known + self.groups * kinds.astype(np.int64)


def choose_cells(values: pl.Series, *, most: int, ordered: bool, kinds: int) -> PairCells:
    """Cells from values that are there: `most` quantile groups, or the most frequent values."""
    values = values.drop_nulls()
    if not ordered:
        often = values.cast(pl.String).alias("cell").value_counts(name="times").sort(["times", "cell"], descending=True)
        listed = tuple(often.get_column("cell").head(_MOST_LISTED // kinds).to_list()) or ("",)
        return PairCells(bounds=listed, told=min(most, len(listed)), kinds=kinds)
    numbers = np.sort(_to_numbers(values))
    distinct = np.unique(numbers)
    if len(distinct) > most:
        distinct = np.unique(numbers[len(numbers) * np.arange(most) // most])
    return PairCells(bounds=tuple(distinct[1:].tolist()), told=0, kinds=kinds)


def choose_days(values: pl.Series, *, kinds: int) -> PairCells:
    """Cells of moments from values that are there: groups of equally many days, gaps by halves of powers of two."""
    days = _to_numbers(values.drop_nulls())
    low, high = (float(days.min()), float(days.max())) if len(days) else (0.0, 0.0)
    step = max(1.0, math.ceil((high - low) * kinds / _MOST_DAYS))
    return PairCells(bounds=tuple(np.arange(low + step, high + 1.0, step).tolist()), told=_PARTS, kinds=kinds)


def list_order(schema: Schema) -> list[str]:
    """The columns that rows of a unit are sorted by, after kinds: its unique ones, else linked moments."""
    unit = schema.unit
    if unit is None:
        return []
    return [*unit.unique] or [name for name in unit.linked if isinstance(schema.by_name[name], CalendarColumn)]


def put_in_order(of_units: Integers, kinds: Integers32, by: Sequence[pl.Series]) -> Integers:
    """The rows sorted by unit, kind and the columns of `list_order`. Shapes: (n,)."""
    told = pl.DataFrame([of_units, kinds, *by])
    by_order = pl.arg_sort_by(told.columns, nulls_last=True, maintain_order=True)
    order: Integers = told.select(by_order).to_series().to_numpy()
    return order


def list_rows(sizes: Integers, units: Integers) -> Integers:
    """The rows of some units, where all units, of these sizes, lie one after the other."""
    own = sizes[units]
    rows: Integers = np.repeat((np.cumsum(sizes) - sizes)[units], own) + count_up(own)
    return rows


def _find_equal(values: pl.Series, earlier: Integers, later: Integers) -> Flags:
    """Which pairs of rows have equal values. Shapes: (n,), (m,) each, to (m,)."""
    equal: Flags = (values[earlier] == values[later]).fill_null(False).to_numpy()
    return equal


def count_links(
    values: pl.Series, groups: Integers, of_units: Integers, coins: Floats, *, cells: PairCells
) -> Integers:
    """Counts pairs of rows by cell: each row with one of those before it in its unit, chosen by a coin.

    Rows are sorted by unit, in their order. Shapes: (n,) each, to (cells,); coins in [0, 1).
    Privacy: each row with one before it adds 1 to one count, whatever their order. So a unit of K rows adds K - 1 in
      all: zeroed out it moves the counts by less than K in L2, and replaced by less than sqrt(2) K. Coins do not depend
      on cells.
    """
    earlier, later = _Seats(of_units).pair_rows(coins)
    found = cells.table[groups[earlier], groups[later]]
    if cells.of_moments:
        last = (found // cells.of_kinds + 1) * cells.of_kinds - 1
        found = np.where(_find_equal(values, earlier, later), last, found)
    return np.bincount(found, minlength=cells.count).astype(np.int64)


def choose_repeats(
    values: pl.Series,
    groups: Integers,
    of_units: Integers,
    shares: Floats,
    *,
    cells: PairCells,
    rng: np.random.Generator,
) -> Integers:
    """The row whose moment each row takes, its own or another's, such that as many pairs of a unit are equal as should.

    Rows are sorted by unit, in their order; each is as likely to give as to take, so that moments keep their shares.
    `shares`: of each cell among all of the same kinds.
    Shapes: (n,) each but shares, (cells,), to (n,).
    """
    taken, seats, has_moment = np.arange(len(of_units)), _Seats(of_units), values.is_not_null().to_numpy()
    for _ in range(_TIMES_REPEATED):
        shuffled = np.lexsort((rng.random(len(of_units)), of_units))
        giving, taking = (shuffled[places] for places in seats.pair_rows(rng.random(len(of_units))))
        of_pairs = groups[np.minimum(giving, taking)], groups[np.maximum(giving, taking)]
        of_kinds = cells.table[of_pairs] // cells.of_kinds
        equal, known = _find_equal(values[taken], giving, taking), has_moment[giving] & has_moment[taking]
        pairs, there, free = (
            np.bincount(of_kinds, weights=own, minlength=cells.kinds**2)
            for own in (np.ones(len(taking)), equal, known & ~equal)
        )
        missing = shares.reshape(-1, cells.of_kinds)[:, -1] * pairs - there
        chances = np.clip(missing / np.maximum(free, 1.0), 0.0, 1.0)[of_kinds]
        # Those that are equal stay so when the one that gives takes another's itself.
        repeats = known & (equal | (rng.random(len(taking)) < chances)) & (chances > 0.0)
        sources = np.arange(len(of_units))
        sources[taking[repeats]] = giving[repeats]
        for place in seats.column[1:]:
            own = shuffled[seats.in_unit == place]
            sources[own] = sources[sources[own]]
        taken = taken[sources]
    return taken


def link_rows(
    columns: Sequence[tuple[PairCells, Integers, Floats]],
    of_units: Integers,
    alike: Integers,
    keys: Integers | None,
    *,
    near: bool,
    count_broken: CountBroken | None = None,
    weigh: Weigh | None = None,
    rng: np.random.Generator,
) -> Integers:
    """The row that each place takes, such that pairs of rows fall into cells as they should, and few rows break a rule.

    `columns`: by column its cells, the group of each row, and the share of each cell among all of the same kinds. Rows
    are sorted by unit, in an order that stays: rows swap with those that are `alike`, and only if `keys`, if any, stay
    rising among these. `near`: whether rows are to stay near by; `weigh`: how well they go with units. With
    `count_broken` no swap after which more rows break a rule is made, and every one after which fewer do.
    Shapes: (n,) each but shares, (cells,), to (n,).
    """
    seats = _Seats(of_units)
    weights = [_Weights(*column, seats=seats) for column in columns]
    blocks = np.arange(len(seats.sizes)) // (_NEAR if near else max(1, len(seats.sizes)))
    alike = alike * len(of_units) + np.repeat(blocks, seats.sizes)
    alike = np.unique(alike, return_inverse=True)[1]
    rows = np.arange(len(of_units))
    best: tuple[float, float] = (np.inf, np.inf)
    found = rows.copy()
    broken = np.zeros(len(seats.sizes), np.int64)
    if count_broken is not None:
        broken = count_broken(rows, seats.sizes, np.arange(len(broken)))
    of_moments = any(cells.of_moments for cells, _, _ in columns)
    for turn in range(count_turns(len(of_units) / max(1, len(seats.sizes)), of_moments=of_moments)):
        if turn % _EVERY == 0:
            error = int(broken.sum()), sum(own.set_right(rows) for own in weights)
            if error < best:
                best, found = error, rows.copy()
        # Every second turn pairs rows by a wished-for group: more wishes are met if all use one column.
        by = weights[turn // 2 % len(weights)].whichever_kind[rows] if turn % 2 else None
        coins = rng.random(len(blocks)) if by is None else rng.random(len(blocks))[blocks]
        first, second, of_first, of_second = seats.draw_pairs(alike, by, coins, rng=rng)
        if keys is not None:
            own = keys[rows]
            fits = seats.keeps_order(own, alike, first, own[second]) & seats.keeps_order(own, alike, second, own[first])
            first, second, of_first, of_second = first[fits], second[fits], of_first[fits], of_second[fits]
        gain = np.zeros(len(first))
        for weight in weights:
            gain += weight.weigh(rows, of_first, first, second) + weight.weigh(rows, of_second, second, first)
        if weigh is not None:
            gain += weigh(of_first, rows[second]) - weigh(of_first, rows[first])
            gain += weigh(of_second, rows[first]) - weigh(of_second, rows[second])
        taken = np.log1p(-rng.random(len(gain))) < gain
        if count_broken is not None:
            units = np.stack([of_first, of_second])
            taken = _keep_rules(rows, first, second, units, taken, broken, seats=seats, count_broken=count_broken)
        first, second = first[taken], second[taken]
        rows[first], rows[second] = rows[second], rows[first]
    return found


def count_turns(rows_of_a_unit: float, *, of_moments: bool) -> int:
    """The number of turns, for units of so many rows on average."""
    times = min(max(1.0, rows_of_a_unit / _ROWS_OF_TURNS), _MOST_TIMES)
    return round(times * TURNS * (_TIMES_OF_MOMENTS if of_moments else 1))


def _keep_rules(
    rows: Integers,
    first: Integers,
    second: Integers,
    units: Integers,
    taken: Flags,
    broken: Integers,
    *,
    seats: "_Seats",
    count_broken: CountBroken,
) -> Flags:
    """Which swaps are made: of those taken the ones that break no more rules, and all that break fewer.

    Updates `broken`, the count of each unit. Shapes: (n,) rows, (m,) each but units, (2, m), and broken.
    """
    before = broken[units].sum(axis=0)
    asked = np.flatnonzero((before > 0) | taken)
    swapped = rows.copy()
    swapped[first[asked]], swapped[second[asked]] = rows[second[asked]], rows[first[asked]]
    after = count_broken(swapped, seats.sizes, units[:, asked].ravel()).reshape(2, -1)
    more = after.sum(axis=0) - before[asked]
    fine = (more < 0) | (taken[asked] & (more == 0))
    made = np.zeros_like(taken)
    made[asked[fine]] = True
    broken[units[:, asked[fine]]] = after[:, fine]
    return made


class _Seats:
    """The places of units: where each unit begins, and the position of each place in its unit."""

    def __init__(self, of_units: Integers) -> None:
        self.firsts = np.flatnonzero(np.append(True, of_units[1:] != of_units[:-1])[: len(of_units)])
        self.sizes = np.diff(self.firsts, append=len(of_units))
        self.in_unit = count_up(self.sizes)

    @cached_property
    def column(self) -> Integers:
        """The possible positions in a unit."""
        return np.arange(int(self.sizes.max(initial=0)))

    @cached_property
    def places(self) -> Integers:
        """The places of each unit, padded with its first. Shapes: (units, most)."""
        places: Integers = self.firsts[:, np.newaxis] + self.column * (self.column < self.sizes[:, np.newaxis])
        return places

    @cached_property
    def shares_of(self) -> Floats:
        """What the weight of a pair of places is divided by, by unit size. Shapes: (sizes, most, most)."""
        later = np.maximum(self.column, self.column[:, np.newaxis]).astype(np.float64)
        later[self.column, self.column] = np.inf
        sizes = np.arange(len(self.column) + 1)[:, np.newaxis, np.newaxis]
        shares: Floats = np.where(self.column < sizes, later, np.inf)
        return shares

    def pair_rows(self, coins: Floats) -> tuple[Integers, Integers]:
        """Pairs of rows: each row with one of those before it in its unit, which its coin chooses."""
        later = np.flatnonzero(self.in_unit)
        return later - 1 - (coins[later] * self.in_unit[later]).astype(np.int64), later

    def draw_pairs(
        self, alike: Integers, groups: Integers | None, coins: Floats, *, rng: np.random.Generator
    ) -> tuple[Integers, Integers, Integers, Integers]:
        """Disjoint pairs of places that are alike, at most one place of each unit; and the units of both.

        A coin in [0, 1) chooses the place in its unit. With `groups`, of each place, one of a pair is of the group of
        another place in the other one's unit.
        """
        units = len(self.firsts)
        drawn = self.firsts + (coins * self.sizes).astype(np.int64)
        keys, wishes = alike[drawn], np.zeros(units, np.bool_)
        if groups is not None:
            wishes = rng.random(units) < 0.5
            steps = 1 + (rng.random(units) * (self.sizes - 1)).astype(np.int64)
            others = self.firsts + (drawn - self.firsts + steps) % self.sizes
            keys = keys * (groups.max() + 1) + groups[np.where(wishes, others, drawn)]
        # By keys, and at random among equal ones: in one number, as sorting by two takes seven times as long.
        bits = 62 - int(keys.max(initial=0)).bit_length()
        order = np.argsort((keys << bits) + (rng.random(units) * 2.0**bits).astype(np.int64))
        first, second = order[: units // 2 * 2 : 2], order[1::2]
        fits = keys[first] == keys[second]
        if groups is not None:
            fits &= wishes[first] != wishes[second]
        first, second = first[fits], second[fits]
        return drawn[first], drawn[second], first, second

    def keeps_order(self, keys: Integers, alike: Integers, places: Integers, others: Integers) -> Flags:
        """Whether keys still rise in their unit if places get these others. Shapes: (n,), (m,) to (m,)."""
        before, after = np.maximum(places - 1, 0), np.minimum(places + 1, len(keys) - 1)
        is_first = (self.in_unit[places] == 0) | (alike[before] != alike[places])
        is_last = (self.in_unit[after] == 0) | (after == places) | (alike[after] != alike[places])
        kept: Flags = (is_first | (keys[before] < others)) & (is_last | (others < keys[after]))
        return kept


class _Weights:
    """The weights of pairs of rows by their cells of one column."""

    def __init__(self, cells: PairCells, groups: Integers, shares: Floats, *, seats: _Seats) -> None:
        self._cells, self._groups, self._seats = cells, groups, seats
        self.whichever_kind = groups % cells.groups // cells.nearest
        self._weights = np.zeros(cells.count)
        least = np.full(cells.of_kinds, -_MOST_WEIGHT)
        if cells.has_order:
            gaps = np.arange(2, 2 * cells.same_group - 1)
            least[gaps] = -(_LEAST_WEIGHT + _LESS_A_GROUP * np.abs(gaps - cells.same_group))
        self._least = np.tile(least, cells.kinds**2)
        # The cell of two groups, the other row's first: for a row that is the later one, then for the earlier one.
        table = cells.table
        self._side = len(table)
        self._both_ways = np.concatenate([table.T.ravel(), table.ravel()]).astype(np.int32)
        self._turned = np.where(seats.column > seats.column[:, np.newaxis], table.size, 0)
        shares = shares.reshape(-1, cells.of_kinds).copy()
        if cells.of_moments:
            # Swaps look at groups alone.
            shares[:, cells.same_group] += shares[:, -1]
            shares[:, -1] = 0.0
        counts = self._count(np.arange(len(groups))).reshape(-1, cells.of_kinds)
        self._wanted = (shares * counts.sum(axis=1, keepdims=True)).ravel() + _LEAST_COUNT

    def set_right(self, rows: Integers) -> float:
        """Raises the weights of pairs that are too few, and gives the error of all."""
        there = self._count(rows) + _LEAST_COUNT
        weights = self._weights + _RATE * np.log(self._wanted / there)
        self._weights = np.clip(weights, self._least, _MOST_WEIGHT)
        return float(np.abs(there - self._wanted).sum())

    def weigh(self, rows: Integers, units: Integers, places: Integers, others: Integers) -> Floats:
        """The gain in weight if places of these units get the rows of others, one a unit. Shapes: (m,) each."""
        at = self._seats.in_unit[places]
        groups = self._groups.take(rows.take(self._seats.places.take(units, axis=0)))
        groups += self._turned.take(at, axis=0)
        old, new = (self._groups.take(rows.take(own))[:, np.newaxis] * self._side for own in (places, others))
        gained = self._weights.take(self._both_ways.take(groups + new))
        gained -= self._weights.take(self._both_ways.take(groups + old))
        gained /= self._seats.shares_of[self._seats.sizes.take(units), at]
        summed: Floats = gained.sum(axis=1)
        return summed

    def _count(self, rows: Integers) -> Floats:
        """Counts pairs by cell; those of a row with all before it count as one in all. Shapes: (cells,)."""
        seats, counts = self._seats, np.zeros(self._cells.count)
        groups = self._groups.take(rows.take(seats.places))
        for place in seats.column[1:]:
            own = groups[seats.sizes > place]
            cells = self._both_ways.take(own[:, :place] + own[:, place, np.newaxis] * self._side)
            counts += np.bincount(cells.ravel(), minlength=len(counts)) / place
        return counts


def _to_numbers(values: pl.Series) -> Floats:
    return values.to_physical().cast(pl.Float64).fill_null(0.0).to_numpy()
