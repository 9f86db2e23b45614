"""Redraws numbers so that they are below, equal to or above another of their row, by as much as measured, or the sum or
product of several, as often as measured.

Within a group each number is drawn independently. So numbers are redrawn, within their groups where that is enough,
until these shares are met (`dpwgan.marginals.selection.comparison_questions` measures them).
Privacy: post-processing of released shares.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dpwgan.array_types import AnyArray, AnyIntegers, Arrays, Flags, Floats, Floats32, Integers, Integers32
from dpwgan.marginals.layout import Attribute
from dpwgan.marginals.named_arrays import find_arrays, name_array
from dpwgan.marginals.one_way.coarsening import AttributeGroups, Coarsening, CoarseRows
from dpwgan.marginals.selection.hanging import hangs_on, put_in_order
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.schema import DAYS

MOST_PARTS = 4
"""The most numbers whose sum another one is held against."""

ALL = -1
"""In place of a column: rows are counted together."""

SUM, DIFFERENCE, PRODUCT = "sum", "difference", "product"
"""How the other side is made. Of a difference all others are taken from the first number."""

_JOIN: dict[str, Callable[[Sequence[Integers]], Integers]] = {
    SUM: lambda values: np.sum(values, axis=0),
    DIFFERENCE: lambda values: values[0] - np.sum(values[1:], axis=0),
    PRODUCT: lambda values: np.prod(values, axis=0),
}
# What is counted is smaller than this: 64 bits hold it, and the gap of two such.
_LARGEST = 1 << 61


def _list_bounds(parts: int) -> Integers:
    """The least gap of each kind, rising: each gap below `parts`, then powers of two up to 2^24 in `parts` parts."""
    ends = [np.arange(parts, 2 * parts) << halvings for halvings in range(24 - parts.bit_length() + 1)]
    return np.concatenate([np.arange(1, parts), *ends])


_BOUNDS = {len(bounds): bounds for bounds in (np.ones(1, np.int64), *map(_list_bounds, (1, 32, 256)))}

SCALES = SIGNS, POWERS, PARTS, DETAILS = tuple(_BOUNDS)
"""How finely gaps are told apart: so many kinds on either side. By their sign alone; by powers of two; by parts of
these, each gap by itself up to 63; by parts of the parts, each by itself up to 511."""

# How often numbers on the wrong side are drawn again, and exchanged before that.
_TRIES, _EXCHANGES = 10, 60


class Sides(NamedTuple):
    """A number and what it is compared with: the sum or difference of others, or the product of two.

    Units: steps of the number's own: of cents and whole amounts, cents.
    """

    own: int
    others: tuple[int, ...]
    how: str = SUM

    def find_factors(self, facts: Sequence[Attribute]) -> tuple[int, ...]:
        """A step of each of the others in steps of the number; 0 where that is not a whole number."""
        own, others = facts[self.own].steps, [facts[place].steps for place in self.others]
        if self.how == PRODUCT:
            # A product is scaled once.
            made = math.prod(others)
            return (own // made if own % made == 0 else 0, *[1] * (len(others) - 1))
        return tuple(own // steps if own % steps == 0 else 0 for steps in others)

    def is_countable(self, facts: Sequence[Attribute]) -> bool:
        """Whether 64 bits hold both sides and all their parts."""
        factors = self.find_factors(facts)
        sizes = [factor * _find_reach(facts[place]) for factor, place in zip(factors, self.others, strict=True)]
        largest = math.prod(sizes) if self.how == PRODUCT else sum(sizes)
        return all(factors) and max(largest, _find_reach(facts[self.own])) < _LARGEST

    def is_total(self, facts: Sequence[Attribute]) -> bool:
        """Whether several numbers add up or multiply to one: all that is asked is whether they do.

        With a number more, that has nothing to do with it, a sum is too large in all rows, and says nothing.
        """
        return len(self.others) > 1 and not facts[self.own].is_moment

    def join(self, values: Sequence[Integers], facts: Sequence[Attribute]) -> Integers:
        """The other side: the sum, difference or product. Shapes: (n,) each."""
        scaled = [factor * each for factor, each in zip(self.find_factors(facts), values, strict=True)]
        return _JOIN[self.how](scaled)


class Comparison(NamedTuple):
    """What is compared, by which column's groups (or `ALL` rows together), and how finely."""

    sides: Sides
    by: int = ALL
    scales: int = SIGNS

    @property
    def width(self) -> int:
        """Number of kinds of gaps: those below, 0, those above."""
        return 2 * self.scales + 1

    @property
    def own(self) -> int:
        """The attribute whose number is compared."""
        return self.sides.own

    @property
    def others(self) -> tuple[int, ...]:
        """Those that it is compared with."""
        return self.sides.others

    @property
    def parents(self) -> tuple[int, ...]:
        """The attributes that the number depends on."""
        return self.others if self.by == ALL else (*self.others, self.by)


@dataclass(frozen=True, eq=False)
class Comparisons:
    """How often numbers are below, equal to or above others, and by how much. Privacy: released numbers alone.

    `shares`: of the rows with all numbers available, in each group of the comparison's column. No number is compared
    twice, and there is no cycle. Shapes: (groups, width).
    """

    shares: Mapping[Comparison, Floats32] = field(default_factory=dict)

    def pack(self) -> dict[str, AnyArray]:
        """All of it as arrays by name."""
        return {
            name_array(asked.sides.how, asked.own, asked.by, *asked.others): shares
            for asked, shares in self.shares.items()
        }

    @classmethod
    def unpack(cls, arrays: Arrays) -> "Comparisons":
        """Takes what `pack` gave, among others."""
        found = {}
        for how, (own, by, *others), shares in find_arrays(arrays, *_JOIN):
            found[Comparison(Sides(own, tuple(others), how), by, shares.shape[-1] // 2)] = shares
        return cls(found)

    def is_sound(self, coarsening: Coarsening) -> bool:
        """Whether they fit the groups."""
        facts, sizes = dict(enumerate(coarsening.attributes)), {ALL: 1, **dict(enumerate(coarsening.sizes))}
        parents = find_parents(self.shares)
        return len(parents) == len(self.shares) and all(
            (len(asked.others) == 2 if asked.sides.how == PRODUCT else 1 <= len(asked.others) <= MOST_PARTS)
            and all(place in facts and facts[place].unit for place in (asked.own, *asked.others))
            and asked.sides.is_countable(coarsening.attributes)
            and not any(hangs_on(parents, place, asked.own) for place in asked.parents)
            and asked.scales in _BOUNDS
            and shares.shape == (sizes.get(asked.by), asked.width)
            and bool(np.all(shares >= 0) and np.allclose(shares.sum(axis=1), 1.0, atol=1e-3))
            for asked, shares in self.shares.items()
        )

    def redraw(
        self,
        encoded: EncodedTable,
        coarsening: Coarsening,
        *,
        rng: np.random.Generator,
        kept: Collection[int] = (),
    ) -> None:
        """Redraws numbers to meet the shares; those of `kept` attributes only where they are compared themselves."""
        parents, facts, parts = find_parents(self.shares), coarsening.attributes, coarsening.parts
        known = set(kept)
        by_own = {asked.own: asked for asked in self.shares}
        for asked in map(by_own.__getitem__, put_in_order(parents)):
            own, shares = facts[asked.own], self.shares[asked].astype(np.float64)
            cells = {place: facts[place].find_cells(encoded) for place in (asked.own, *asked.others)}
            rows = np.flatnonzero(np.logical_and.reduce([cells[place] >= facts[place].codes for place in cells]))
            by = find_groups(CoarseRows(encoded, coarsening), asked.by)[rows]
            # Parts on which nothing else depends may be redrawn as well.
            free = [place for place in asked.others if place not in known and place not in parents]
            _draw_near(cells, asked, rows[shares[by, asked.scales] > 0.5], free=free, coarsening=coarsening, rng=rng)
            old, wanted = cells[asked.own][rows], _find_wanted(cells, asked, facts)[rows]
            if asked.sides.is_total(facts):
                shares = _part_rest(shares, old - wanted, by)
            cells[asked.own][rows] = _settle(old, wanted, by, shares, part=parts[asked.own], own=own, rng=rng)
            for place in (asked.own, *free):
                facts[place].put_cells(cells[place], into=encoded)
            known |= cells.keys()


def _part_rest(shares: Floats, gaps: Integers, by: Integers) -> Floats:
    """Shares of a total: of the rows that do not add up, as many are below as were drafted. Shapes: as `_settle`."""
    below, above = (np.bincount(by[side], minlength=len(shares)) for side in (gaps < 0, gaps > 0))
    part = (below + 1) / (below + above + 2)
    rest = shares[:, 0] + shares[:, 2]
    return np.stack([rest * part, shares[:, 1], rest * (1.0 - part)], axis=1)


def find_parents(asked: Mapping[Comparison, Any]) -> dict[int, tuple[int, ...]]:
    """What each compared number depends on."""
    return {comparison.own: comparison.parents for comparison in asked}


def _find_reach(attribute: Attribute) -> int:
    """More than any number of an attribute, in steps from its origin."""
    return abs(attribute.origin) + attribute.cells + 1


class Number(NamedTuple):
    """An attribute's numbers, in levels from its origin, and where there is one. Shapes: (n,) each."""

    values: Integers
    is_there: Flags

    @classmethod
    def of(cls, attribute: Attribute, cells: Integers) -> "Number":
        """Those of cells."""
        return cls(cells - (attribute.codes + attribute.origin), cells >= attribute.codes)


def find_groups(rows: CoarseRows, by: int, chunk: slice = slice(None)) -> Integers:
    """The group of every row in a column; 0 throughout for `ALL`. Shapes: (n,)."""
    return np.zeros(len(rows.encoded.codes[chunk]), np.int64) if by == ALL else rows.find_groups(by, chunk)


def find_gaps(numbers: Mapping[int, Number], sides: Sides, facts: Sequence[Attribute]) -> tuple[Integers, Integers]:
    """Number minus other side, and the rows of each gap: those with all numbers available. Shapes: (m,) each.

    Of totals it is the size of the gap, and 0 where rounding explains it.
    """
    rows = np.flatnonzero(np.logical_and.reduce([numbers[place].is_there for place in (sides.own, *sides.others)]))
    others = sides.join([numbers[place].values[rows] for place in sides.others], facts)
    gaps: Integers = numbers[sides.own].values[rows] - others
    if sides.is_total(facts):
        gaps = np.where(np.abs(gaps) <= len(sides.others) // 2, 0, np.abs(gaps))
    return gaps, rows


def tell_apart(gaps: Integers, scales: int) -> Integers:
    """The kind of each gap: 0 for those farthest below, `scales` for no gap. Shapes: (n,)."""
    return scales + np.sign(gaps) * np.searchsorted(_BOUNDS[scales], np.abs(gaps), side="right")


def split(table: Floats) -> list[Floats]:
    """The columns of a table of kinds, split by the next coarser kind. Shapes: (n, 2 * scales + 1)."""
    bounds = _BOUNDS[table.shape[1] // 2]
    coarser = SCALES[SCALES.index(len(bounds)) - 1]
    kinds = tell_apart(np.concatenate([-bounds[::-1], [0], bounds]), coarser)
    return np.split(table, np.flatnonzero(np.diff(kinds)) + 1, axis=1)


def _find_wanted(cells: Mapping[int, Integers], asked: Comparison, facts: Sequence[Attribute]) -> Integers:
    """The cell at which both sides are equal, which may lie outside the attribute's. Shapes: (n,)."""
    values = [Number.of(facts[place], cells[place]).values for place in asked.others]
    return asked.sides.join(values, facts) + (facts[asked.own].codes + facts[asked.own].origin)


def _are_near(wanted: Integers, groups: Integers32, *, part: AttributeGroups, own: Attribute) -> Flags:
    """Whether cells are legal and in these groups. Shapes: (n,)."""
    legal = np.clip(wanted, own.codes, own.cells - 1)
    near: Flags = (legal == wanted) & (part.find_groups(legal) == groups)
    return near


def _draw_near(
    cells: Mapping[int, Integers],
    asked: Comparison,
    rows: Integers,
    *,
    free: Sequence[int],
    coarsening: Coarsening,
    rng: np.random.Generator,
) -> None:
    """Redraws parts of some rows within their groups, in place, where both sides then fall into one group.

    A day that is a group by itself is hardly ever hit so, and many rows may have it, as a study's last day: one part
    is then solved for, in the last turn even outside its group.
    """
    facts, parts = coarsening.attributes, coarsening.parts
    own, part = facts[asked.own], parts[asked.own]
    groups = {place: parts[place].find_groups(cells[place]) for place in (asked.own, *free)}
    is_one = np.bincount(part.groups, np.diff(part.starts, append=part.cells)) == 1
    factors = dict(zip(asked.others, asked.sides.find_factors(facts), strict=True))
    for turn in range(_TRIES + 1 if free else 0):
        drawn = {place: cells[place][rows] for place in asked.others}
        if turn:
            drawn |= {place: parts[place].draw_cells(groups[place][rows], rng=rng) for place in free}
        if own.is_moment and asked.sides.how == SUM:
            place = free[turn % len(free)]
            off = cells[asked.own][rows] - _find_wanted(drawn, asked, facts)
            needed = drawn[place] + off // factors[place]
            fits = _are_near(needed, groups[place][rows], part=parts[place], own=facts[place])
            if turn == _TRIES:
                fits = (needed >= facts[place].codes) & (needed < facts[place].cells)
            drawn[place] = np.where(fits & is_one[groups[asked.own][rows]], needed, drawn[place])
        near = _are_near(_find_wanted(drawn, asked, facts), groups[asked.own][rows], part=part, own=own)
        for place in free:
            cells[place][rows[near]] = drawn[place][near]
        rows = rows[~near]


def _settle(
    cells: Integers,
    wanted: Integers,
    by: Integers,
    shares: Floats,
    *,
    part: AttributeGroups,
    own: Attribute,
    rng: np.random.Generator,
) -> Integers:
    """Redraws cells so that their gaps from the wanted ones have each kind as often as `shares` say.

    First exact matches that need not leave their group; then what rows have, or exchange with others, which leaves the
    column by itself as it was; then draws within groups, at random and by gaps of the kinds that are lacking; at last
    any such gaps.
    Shapes: `cells`, `wanted` and `by`, a group, (n,).
    """
    width, settled = shares.shape[1], cells.copy()
    scales = width // 2
    of_all = np.bincount(by, minlength=len(shares))[:, np.newaxis]
    ends = np.minimum(np.floor(np.cumsum(shares, axis=1) * of_all + rng.random((len(shares), 1))), of_all)
    ends[:, -1:] = of_all
    lacking = np.diff(ends, axis=1, prepend=0.0).astype(np.int64)
    rest = np.arange(len(cells))

    def take(drawn: Integers, is_hit: Flags | bool) -> Integers:
        """Settles unsettled rows for what was drawn, as many of each kind as are lacking; gives their places."""
        nonlocal rest
        hits = rng.permutation(np.flatnonzero(is_hit & (drawn >= own.codes) & (drawn < own.cells)))
        kinds = width * by[rest[hits]] + tell_apart(drawn[hits] - wanted[rest[hits]], scales)
        chosen = _choose_first(kinds, lacking.ravel())
        hits, kinds = hits[chosen], kinds[chosen]
        settled[rest[hits]] = drawn[hits]
        lacking.ravel()[:] -= np.bincount(kinds, minlength=lacking.size)
        is_left = np.ones(len(rest), np.bool_)
        is_left[hits] = False
        rest = rest[is_left]
        return hits

    def draw_lacking() -> Integers:
        """Draws for each unsettled row by a kind that its group lacks: there are as many of these as rows are left."""
        nonlocal rest
        rest = rest[np.lexsort((rng.random(len(rest)), by[rest]))]
        kinds = np.repeat(np.arange(lacking.size), lacking.ravel())
        drawn: Integers = wanted[rest] + _draw_gaps(kinds % width - scales, settled - wanted, scales=scales, rng=rng)
        return drawn

    def exchange() -> None:
        """Settles unsettled rows for what others have that is nearest to what they lack.

        Of the others, settled ones keep their kind, and unsettled ones go on with what they get.
        """
        drawn, asking = draw_lacking(), rest
        first, end = (np.searchsorted(values, drawn, side=side) for side in ("left", "right"))
        found = first + (rng.random(len(drawn)) * (end - first)).astype(np.int64)
        others = order[np.minimum(found, len(order) - 1)]
        given, left = settled[others], settled[asking]
        # No row is in two exchanges at once: one half of the unsettled ones asks.
        is_left, asks = np.zeros((2, len(cells)), np.bool_)
        is_left[asking], asks[asking] = True, rng.random(len(asking)) < 0.5
        stays = tell_apart(given - wanted[others], scales) == tell_apart(left - wanted[others], scales)
        fits = np.flatnonzero(asks[asking] & ~asks[others] & (stays | is_left[others]))
        is_hit = np.zeros(len(asking), np.bool_)
        is_hit[fits[np.unique(others[fits], return_index=True)[1]]] = True
        hits = take(given, is_hit)
        one, other = asking[hits], others[hits]
        settled[other] = left[hits]
        places[one], places[other] = places[other], places[one]
        order[places[one]], order[places[other]] = one, other

    def stay_near(drawn: Integers) -> Flags:
        """Which unsettled rows stay in their group with what was drawn; of rare days of the week, few may."""
        near = _are_near(drawn, part.find_groups(settled[rest]), part=part, own=own)
        if own.unit == DAYS:
            near &= rng.random(len(drawn)) < part.find_odds(np.clip(drawn, own.codes, own.cells - 1))
        return near

    take(wanted, cells == wanted)
    take(wanted[rest], stay_near(wanted[rest]))
    take(cells[rest], cells[rest] != wanted[rest])
    # Exchanges leave these values as they are, and change who has them.
    order, places = np.argsort(settled, kind="stable"), np.empty(len(cells), np.int64)
    values, places[order] = settled[order], np.arange(len(cells))
    for _ in range(_EXCHANGES):
        # Of two rows that exchange numbers hardly one becomes equal to its other side.
        if not np.delete(lacking, scales, axis=1).any():
            break
        exchange()
    for turn in range(3 * _TRIES if len(rest) else 0):
        if turn < _TRIES:
            drawn = part.draw_cells(part.find_groups(settled[rest]), rng=rng)
            take(drawn, drawn != wanted[rest])
        else:
            drawn = draw_lacking()
            take(drawn, stay_near(drawn) | (turn >= 2 * _TRIES))
    return settled


def _choose_first(kinds: AnyIntegers, most: Integers) -> Integers:
    """The places of the first `most` of each kind, kind by kind. Shapes: (n,), `most` (kinds,)."""
    order = np.argsort(kinds, kind="stable")
    counts = np.bincount(kinds, minlength=len(most))
    before = np.arange(len(kinds)) - (np.cumsum(counts) - counts)[kinds[order]]
    chosen: Integers = order[before < most[kinds[order]]]
    return chosen


def _draw_gaps(kinds: Integers, others: Integers, *, scales: int, rng: np.random.Generator) -> Integers:
    """Draws a gap of each kind: uniform within a kind, and of the size of some of `others` where kinds are signs.

    Shapes: `kinds` (n,), below 0 for those below.
    """
    bounds = np.append(_BOUNDS[scales], 2 * _BOUNDS[scales][-1])
    least, end = (bounds[np.maximum(np.abs(kinds) - last, 0)] for last in (1, 0))
    sizes = least + (rng.random(len(kinds)) * (end - least)).astype(np.int64)
    if scales == SIGNS and others.any():
        sizes = rng.choice(np.abs(others[others != 0]), len(kinds))
    gaps: Integers = np.sign(kinds) * sizes
    return gaps
