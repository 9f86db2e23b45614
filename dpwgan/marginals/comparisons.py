"""Numbers that compare with others of their row, their sums and products, as often as they should.

Within a group each number is drawn by itself. So numbers are drawn again, within their groups where that is enough,
until as many as should be are below others, the same, or above (`dpwgan.marginals.comparison_questions` asks for that).
Privacy: post-processing of released shares.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.coarsening import AttributeGroups, Coarsening
from dpwgan.marginals.hanging import hangs_on, put_in_order
from dpwgan.marginals.layout import Attribute
from dpwgan.table.encoded import EncodedTable

Counts = npt.NDArray[np.float64]
Shares = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

MOST_PARTS = 4
"""The most numbers whose sum another one is held against."""

ALL = -1
"""In place of a column: rows are counted together."""

SUM, DIFFERENCE, PRODUCT = "sum", "difference", "product"
"""How the other side is made. Of a difference the second number is taken from the first."""

_JOIN: dict[str, Callable[[Sequence[Integers]], Integers]] = {
    SUM: lambda values: np.sum(values, axis=0),
    DIFFERENCE: lambda values: values[0] - values[1],
    PRODUCT: lambda values: np.prod(values, axis=0),
}

_BELOW, _SAME, _ABOVE = range(3)
# How often numbers on the wrong side are drawn again.
_TRIES = 10


class Sides(NamedTuple):
    """A number, and what it is held against: the sum of others, or the product or difference of two."""

    own: int
    others: tuple[int, ...]
    how: str = SUM

    def join(self, values: Sequence[Integers]) -> Integers:
        """The sum of the others, or what else is made of them. Shapes: (n,) each."""
        joined: Integers = _JOIN[self.how](values)
        return joined


class Comparison(NamedTuple):
    """What is held against what, and the column by whose groups that is counted, or `ALL`."""

    sides: Sides
    by: int = ALL

    @property
    def own(self) -> int:
        """The attribute whose number is compared."""
        return self.sides.own

    @property
    def others(self) -> tuple[int, ...]:
        """Those that it is held against."""
        return self.sides.others

    @property
    def parents(self) -> tuple[int, ...]:
        """The attributes that the number hangs on."""
        return self.others if self.by == ALL else (*self.others, self.by)


@dataclass(frozen=True, eq=False)
class Comparisons:
    """How often numbers are below others, the same or above. Privacy: released numbers alone.

    `shares`: of each group of a comparison's column the three shares of rows where all numbers are there. No number is
    compared twice, or hangs on itself by way of others. Shapes: (groups, 3).
    """

    shares: Mapping[Comparison, Shares] = field(default_factory=dict)

    def pack(self) -> dict[str, npt.NDArray[Any]]:
        """All of it as arrays by name."""
        return {
            " ".join([asked.sides.how, *map(str, (asked.own, asked.by, *asked.others))]): shares
            for asked, shares in self.shares.items()
        }

    @classmethod
    def unpack(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "Comparisons":
        """Takes what `pack` gave, among others."""
        found = {}
        for name in arrays:
            kind, *places = name.split()
            if kind in _JOIN:
                own, by, *others = map(int, places)
                found[Comparison(Sides(own, tuple(others), kind), by)] = arrays[name]
        return cls(found)

    def is_sound(self, coarsening: Coarsening) -> bool:
        """Whether they fit the groups."""
        facts, sizes = dict(enumerate(coarsening.attributes)), {ALL: 1, **dict(enumerate(coarsening.sizes))}
        parents = find_parents(self.shares)
        return len(parents) == len(self.shares) and all(
            (1 <= len(asked.others) <= MOST_PARTS if asked.sides.how == SUM else len(asked.others) == 2)
            and all(place in facts and facts[place].levels for place in (asked.own, *asked.others))
            and not any(hangs_on(parents, place, asked.own) for place in asked.parents)
            and shares.shape == (sizes.get(asked.by), 3)
            and bool(np.all(shares >= 0) and np.allclose(shares.sum(axis=1), 1.0, atol=1e-3))
            for asked, shares in self.shares.items()
        )

    def redraw(self, encoded: EncodedTable, coarsening: Coarsening, *, rng: np.random.Generator) -> None:
        """Draws numbers again, so that they compare as often as the shares have it."""
        parents, facts, parts = find_parents(self.shares), coarsening.attributes, coarsening.parts
        known: set[int] = set()
        by_own = {asked.own: asked for asked in self.shares}
        for asked in map(by_own.__getitem__, put_in_order(parents)):
            own, shares = facts[asked.own], self.shares[asked].astype(np.float64)
            cells = {place: facts[place].find_cells(encoded) for place in (asked.own, *asked.others)}
            rows = np.flatnonzero(np.logical_and.reduce([cells[place] >= facts[place].codes for place in cells]))
            by = find_groups(encoded, coarsening, asked.by)[rows]
            # Parts that nothing else hangs on, or was made to hang on, may be drawn again as well.
            free = [place for place in asked.others if place not in known and place not in parents]
            _draw_near(cells, asked, rows[shares[by, _SAME] > 0.5], free=free, coarsening=coarsening, rng=rng)
            old, wanted = cells[asked.own][rows], _find_wanted(cells, asked, facts)[rows]
            cells[asked.own][rows] = _settle(old, wanted, by, shares, part=parts[asked.own], own=own, rng=rng)
            for place in (asked.own, *free):
                facts[place].put_cells(cells[place], into=encoded)
            known |= cells.keys()


def find_parents(asked: Mapping[Comparison, Any]) -> dict[int, tuple[int, ...]]:
    """What each compared number hangs on."""
    return {comparison.own: comparison.parents for comparison in asked}


class Number(NamedTuple):
    """An attribute's numbers, in levels from its origin, and where there is one. Shapes: (n,) each."""

    values: Integers
    is_there: Flags

    @classmethod
    def of(cls, attribute: Attribute, cells: Integers) -> "Number":
        """Those of cells."""
        return cls(cells - (attribute.codes + attribute.origin), cells >= attribute.codes)


def find_groups(encoded: EncodedTable, coarsening: Coarsening, by: int, rows: slice = slice(None)) -> Integers:
    """The group of every row in a column; one group where rows are counted together. Shapes: (n,)."""
    if by == ALL:
        return np.zeros(len(encoded.codes[rows]), np.int64)
    found = coarsening.parts[by].find_groups(coarsening.attributes[by].find_cells(encoded, rows))
    return found.astype(np.int64)


def find_gaps(numbers: Mapping[int, Number], sides: Sides) -> tuple[Integers, Integers]:
    """How far a number lies above the other side, and in which rows: those that have all numbers. Shapes: (m,) each."""
    rows = np.flatnonzero(np.logical_and.reduce([numbers[place].is_there for place in (sides.own, *sides.others)]))
    return numbers[sides.own].values[rows] - sides.join([numbers[place].values[rows] for place in sides.others]), rows


def _find_wanted(cells: Mapping[int, Integers], asked: Comparison, facts: Sequence[Attribute]) -> Integers:
    """The cell that a number has where both sides are the same, be it one of its own or not. Shapes: (n,)."""
    values = [Number.of(facts[place], cells[place]).values for place in asked.others]
    return asked.sides.join(values) + (facts[asked.own].codes + facts[asked.own].origin)


def _are_near(wanted: Integers, groups: npt.NDArray[np.int32], *, part: AttributeGroups, own: Attribute) -> Flags:
    """Whether cells are of these groups. Shapes: (n,)."""
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
    """Draws parts of some rows again within their groups, in place, where both sides are then of one group."""
    facts, parts = coarsening.attributes, coarsening.parts
    own, part = facts[asked.own], parts[asked.own]
    groups = {place: parts[place].find_groups(cells[place]) for place in (asked.own, *free)}
    for turn in range(_TRIES + 1 if free else 0):
        drawn = {place: cells[place][rows] for place in asked.others}
        if turn:
            drawn |= {place: parts[place].draw_cells(groups[place][rows], rng=rng) for place in free}
        near = _are_near(_find_wanted(drawn, asked, facts), groups[asked.own][rows], part=part, own=own)
        for place in free:
            cells[place][rows[near]] = drawn[place][near]
        rows = rows[~near]


def _settle(
    cells: Integers,
    wanted: Integers,
    by: Integers,
    shares: Counts,
    *,
    part: AttributeGroups,
    own: Attribute,
    rng: np.random.Generator,
) -> Integers:
    """Draws cells again so that as many as should are the wanted ones, below and above them.

    Shapes: `cells`, `wanted` and `by`, a group, (n,).
    """
    count = functools.partial(np.bincount, minlength=len(shares))
    groups, settled = part.find_groups(cells), cells.copy()
    is_legal, is_near = (wanted >= own.codes) & (wanted < own.cells), _are_near(wanted, groups, part=part, own=own)
    # The same are rows that are already, then those that need not leave their group, then others.
    order = np.lexsort((rng.random(len(cells)), ~is_near, ~is_legal, cells != wanted, by))
    of_all = count(by)
    quota = np.floor(of_all * shares[:, _SAME] + rng.random(len(shares)))
    is_same = np.zeros(len(cells), np.bool_)
    is_same[order] = np.arange(len(cells)) - (np.cumsum(of_all) - of_all)[by[order]] < quota[by[order]]
    is_same &= is_legal
    settled[is_same] = wanted[is_same]
    rest = np.flatnonzero(~is_same)
    _part_sides(settled, wanted, rest, by, shares, groups=groups, part=part, own=own, rng=rng)
    return settled


def _part_sides(
    settled: Integers,
    wanted: Integers,
    rest: Integers,
    by: Integers,
    shares: Counts,
    *,
    groups: npt.NDArray[np.int32],
    part: AttributeGroups,
    own: Attribute,
    rng: np.random.Generator,
) -> None:
    """Draws the `rest` of the cells again, in place, so that as many as should are below the wanted ones, and above.

    Within their groups, some times; then such as lie as far from the wanted ones as others that are on this side.
    """
    count = functools.partial(np.bincount, minlength=len(shares))
    of_rest, sides = count(by[rest]), shares[:, [_BELOW, _ABOVE]]
    lower = np.divide(sides[:, 0], sides.sum(axis=1), out=np.full(len(sides), 0.5), where=sides.sum(axis=1) > 0)
    below = np.floor(of_rest * lower + rng.random(len(shares)))
    for turn in range(_TRIES + 1):
        signs = np.sign(settled[rest] - wanted[rest])
        lacking = np.stack([below - count(by[rest[signs < 0]]), of_rest - below - count(by[rest[signs > 0]])])
        side = np.select([lacking[0] > 0, lacking[1] > 0], [-1, 1], 0)
        moved = rest[(side[by[rest]] != 0) & (signs != side[by[rest]])]
        if not len(moved):
            return
        if turn < _TRIES:
            drawn = part.draw_cells(groups[moved], rng=rng)
        else:
            drawn = wanted[moved] + _draw_gaps(by[moved], side, rest, settled - wanted, by, rng=rng)
        is_hit = (np.sign(drawn - wanted[moved]) == side[by[moved]]) & (drawn >= own.codes) & (drawn < own.cells)
        hits = np.flatnonzero(is_hit)
        hits = hits[np.argsort(by[moved[hits]], kind="stable")]
        of_hits = count(by[moved[hits]])
        places = np.arange(len(hits)) - (np.cumsum(of_hits) - of_hits)[by[moved[hits]]]
        most = np.where(side < 0, *lacking)
        hits = hits[places < most[by[moved[hits]]]]
        settled[moved[hits]] = drawn[hits]


def _draw_gaps(
    groups: Integers, side: Integers, rest: Integers, gaps: Integers, by: Integers, *, rng: np.random.Generator
) -> Integers:
    """Draws, of each of some groups, the gap of a row of the `rest` on its side; 0 if there is none. Shapes: (m,)."""
    giving = rest[np.sign(gaps[rest]) == side[by[rest]]]
    giving = giving[np.argsort(by[giving], kind="stable")]
    counts = np.bincount(by[giving], minlength=len(side))
    chosen = (np.cumsum(counts) - counts)[groups] + (rng.random(len(groups)) * counts[groups]).astype(np.int64)
    if not len(giving):
        return np.zeros(len(groups), np.int64)
    drawn: Integers = np.where(counts[groups] > 0, gaps[giving[np.minimum(chosen, len(giving) - 1)]], 0)
    return drawn
