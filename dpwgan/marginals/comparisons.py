"""How a number compares with another one of its row, or with the sum of some: asked where many levels share a group.

Groups say about how large a total is and how large its parts are, not that it is their sum: within a group each number
is drawn by itself. So it is asked how often a number is below another one, or some together, the same, or above, by
what one more column says; and numbers are drawn again, within their groups where that is enough, until rows do so.
Privacy: of rows `ask_for_comparisons` reads the scores of candidates made of releases alone, through the exponential
mechanism, and the counts of the one selected, through the Gaussian mechanism; the rest is post-processing.
"""

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.coarsening import AttributeGroups, Coarsening
from dpwgan.marginals.denoising import draw_towards
from dpwgan.marginals.layout import Attribute
from dpwgan.marginals.queries import expect_gains
from dpwgan.privacy.ledger import Ledger
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.rows import Rows, Sum
from dpwgan.table.schema import DAYS, WHOLE
from dpwgan.table.storage import cut, let_go

Counts = npt.NDArray[np.float64]
Shares = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Side = tuple[int, tuple[int, ...]]

MOST_PARTS = 4
"""The most numbers whose sum another one is held against."""

ALL = -1
"""In place of a column: rows are counted together."""

COMPARISON_SELECTION_LABEL = "comparison selections"
COMPARISON_ANSWER_LABEL = "comparison answers"

DRAFTED_ROWS = 20_000
"""Of how many rows of the fitted codes it is seen which numbers lie near each other, and what is to be expected."""

_BELOW, _SAME, _ABOVE = range(3)
# Comparisons that are looked at, in some of the drafted rows; those that are held against the table, as their sides lie
# nearest; by so many columns each; and so many times a row is counted.
_MOST_SIDES, _MEASURED_ROWS = 2_000, 5_000
_CANDIDATES, _COLUMNS, _MOST_COUNTED = 32, 8, 2 * 10**8
# What less than so many stddevs of its noise is known of is none.
_LEAST_STDDEVS = 3.0
# How often numbers on the wrong side are drawn again.
_TRIES = 10

_NAME = "comparison"


class Comparison(NamedTuple):
    """A number, the others whose sum it is held against, and the column by whose groups that is counted, or `ALL`."""

    own: int
    others: tuple[int, ...]
    by: int = ALL

    @property
    def parents(self) -> tuple[int, ...]:
        """The attributes that the number hangs on."""
        return self.others if self.by == ALL else (*self.others, self.by)


def find_compared(attributes: Sequence[Attribute], *, least_levels: int) -> tuple[int, ...]:
    """The numbers of so many levels that there is another one of the same unit for. Privacy: of public facts alone."""
    units = {place: facts.unit for place, facts in enumerate(attributes) if facts.unit and facts.levels >= least_levels}
    return tuple(place for place, unit in units.items() if list(units.values()).count(unit) > 1)


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
            " ".join([_NAME, *map(str, (asked.own, asked.by, *asked.others))]): shares
            for asked, shares in self.shares.items()
        }

    @classmethod
    def unpack(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "Comparisons":
        """Takes what `pack` gave, among others."""
        found = {}
        for name in arrays:
            kind, *places = name.split()
            if kind == _NAME:
                own, by, *others = map(int, places)
                found[Comparison(own, tuple(others), by)] = arrays[name]
        return cls(found)

    def is_sound(self, coarsening: Coarsening) -> bool:
        """Whether they fit the groups."""
        facts, sizes = dict(enumerate(coarsening.attributes)), {ALL: 1, **dict(enumerate(coarsening.sizes))}
        parents = _find_parents(self.shares)
        return len(parents) == len(self.shares) and all(
            1 <= len(asked.others) <= MOST_PARTS
            and all(place in facts and facts[place].levels for place in (asked.own, *asked.others))
            and not any(_hangs_on(parents, place, asked.own) for place in asked.parents)
            and shares.shape == (sizes.get(asked.by), 3)
            and bool(np.all(shares >= 0) and np.allclose(shares.sum(axis=1), 1.0, atol=1e-3))
            for asked, shares in self.shares.items()
        )

    def redraw(self, encoded: EncodedTable, coarsening: Coarsening, *, rng: np.random.Generator) -> None:
        """Draws numbers again, so that they compare as often as the shares have it."""
        parents, facts, parts = _find_parents(self.shares), coarsening.attributes, coarsening.parts
        known: set[int] = set()
        # Those that others hang on first.
        for asked in sorted(self.shares, key=lambda asked: sum(_hangs_on(parents, asked.own, own) for own in parents)):
            own, shares = facts[asked.own], self.shares[asked].astype(np.float64)
            cells = {place: facts[place].find_cells(encoded) for place in (asked.own, *asked.others)}
            rows = np.flatnonzero(np.logical_and.reduce([cells[place] >= facts[place].codes for place in cells]))
            by = _find_groups(encoded, coarsening, asked.by)[rows]
            # Parts that nothing else hangs on, or was made to hang on, may be drawn again as well.
            free = [place for place in asked.others if place not in known and place not in parents]
            _draw_near(cells, asked, rows[shares[by, _SAME] > 0.5], free=free, coarsening=coarsening, rng=rng)
            old, wanted = cells[asked.own][rows], _find_wanted(cells, asked, facts)[rows]
            cells[asked.own][rows] = _settle(old, wanted, by, shares, part=parts[asked.own], own=own, rng=rng)
            for place in (asked.own, *free):
                facts[place].put_cells(cells[place], into=encoded)
            known |= cells.keys()


def _find_parents(asked: Mapping[Comparison, Any]) -> dict[int, tuple[int, ...]]:
    return {comparison.own: comparison.parents for comparison in asked}


def _hangs_on(parents: Mapping[int, Sequence[int]], own: int, other: int) -> bool:
    """Whether an attribute is the other one, or hangs on it, be it by way of others."""
    return own == other or any(_hangs_on(parents, parent, other) for parent in parents.get(own, ()))


class _Number(NamedTuple):
    """An attribute's numbers, in levels from its origin, and where there is one. Shapes: (n,) each."""

    values: Integers
    is_there: Flags

    @classmethod
    def of(cls, attribute: Attribute, cells: Integers) -> "_Number":
        """Those of cells."""
        return cls(cells - (attribute.codes + attribute.origin), cells >= attribute.codes)


def _find_groups(encoded: EncodedTable, coarsening: Coarsening, by: int, rows: slice = slice(None)) -> Integers:
    """The group of every row in a column; one group where rows are counted together. Shapes: (n,)."""
    if by == ALL:
        return np.zeros(len(encoded.codes[rows]), np.int64)
    found = coarsening.parts[by].find_groups(coarsening.attributes[by].find_cells(encoded, rows))
    return found.astype(np.int64)


def _add_up(numbers: Mapping[int, _Number], others: Sequence[int]) -> tuple[Integers, Flags]:
    """The sum of some numbers of each row, and where all are there. Shapes: (n,) each."""
    values = np.sum([numbers[place].values for place in others], axis=0)
    return values, np.logical_and.reduce([numbers[place].is_there for place in others])


def _find_wanted(cells: Mapping[int, Integers], asked: Comparison, facts: Sequence[Attribute]) -> Integers:
    """The cell that a number has where it is the sum of the others, be it one of its own or not. Shapes: (n,)."""
    values = [cells[place] - facts[place].codes - facts[place].origin for place in asked.others]
    wanted: Integers = np.sum(values, axis=0) + facts[asked.own].codes + facts[asked.own].origin
    return wanted


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
    """Draws parts of some rows again within their groups, in place, where the sum is then of the number's group."""
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
        hits = hits[places < lacking.max(axis=0)[by[moved[hits]]]]
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


def _count_groups(coarsening: Coarsening, by: int) -> int:
    return 1 if by == ALL else coarsening.sizes[by]


def _count(encoded: EncodedTable, coarsening: Coarsening, comparisons: Sequence[Comparison]) -> Counts:
    """How often numbers compare each way, by another column's groups, comparison after comparison, in one vector."""
    facts = coarsening.attributes
    compared = {place for each in comparisons for place in (each.own, *each.others)}
    found = [np.zeros(3 * _count_groups(coarsening, each.by)) for each in comparisons]
    for chunk in cut(encoded.records):
        groups = {by: _find_groups(encoded, coarsening, by, chunk) for by in {each.by for each in comparisons}}
        numbers = {place: _Number.of(facts[place], facts[place].find_cells(encoded, chunk)) for place in compared}
        let_go(encoded.codes, encoded.numbers)
        # Comparisons of the same numbers follow each other.
        for (own, others), same in itertools.groupby(zip(comparisons, found, strict=True), lambda each: each[0][:2]):
            values, is_there = _add_up(numbers, others)
            used = np.flatnonzero(is_there & numbers[own].is_there)
            signs = np.sign(numbers[own].values[used] - values[used]) + 1
            for each, total in same:
                total += np.bincount(3 * groups[each.by][used] + signs, minlength=len(total))
    return np.concatenate(found)


def _count_own(encoded: EncodedTable, argument: dict[str, Any]) -> Counts:
    """Counts a worker's own rows."""
    comparisons = [Comparison(own, tuple(others), by) for own, others, by in argument["comparisons"]]
    return _count(encoded, Coarsening.from_document(argument["coarsening"]), comparisons)


COMPARISONS = Sum[EncodedTable]("comparisons", lambda encoded, argument, array: _count_own(encoded, argument))
"""How often numbers compare each way, by groups of other columns, in one vector."""


def ask_for_comparisons(
    rows: Rows[EncodedTable],
    coarsening: Coarsening,
    drafted: EncodedTable,
    *,
    numbers: Sequence[int],
    records: float,
    times: int,
    ledger: Ledger,
) -> Comparisons:
    """Asks, so many `times`, which number compares with others as no draft would have it: a selection, an answer.

    `numbers`: the attributes whose numbers are compared. `drafted` rows are of the fitted codes: what is expected.
    Where nothing is left to be compared, those that were are asked for once more.
    Privacy: a record adds 1 to one count of a comparison at most, and what is expected is made of releases; so scores
      have sensitivity 1 under zero-out (2 under replace-one), counts 1 (sqrt 2).
    Source: as `QueryDiscriminator`.
    """
    stddev = ledger.find(COMPARISON_ANSWER_LABEL).stddev
    left = list(_list_candidates(drafted, coarsening, numbers, records))
    ends = np.cumsum([3 * _count_groups(coarsening, each.by) for each in left])[:-1]
    every = list(left)

    def split(flat: Counts) -> dict[Comparison, Counts]:
        return {each: own.reshape(-1, 3) for each, own in zip(every, np.split(flat, ends), strict=True)}

    expected = split(_count(drafted, coarsening, every) * (records / drafted.records))
    shares, answers = dict[Comparison, Shares](), defaultdict[Comparison, list[Counts]](list)

    @functools.cache
    def count() -> dict[Comparison, Counts]:
        named = [list(each) for each in every]
        return split(rows.sum(COMPARISONS, argument={"coarsening": coarsening.to_document(), "comparisons": named}))

    def score() -> list[float]:
        errors = {each: np.abs(count()[each] - expected[each]) for each in left}
        return [float(expect_gains(errors[each], expected[each], stddev=stddev).sum()) for each in left]

    def get(asked: Comparison) -> Counts:
        return count()[asked]

    for _ in range(times):
        parents = _find_parents(shares)
        free = [each for each in left if each.own not in parents and not _closes_circle(parents, each)]
        left = free or list(shares)
        asked = left[ledger.select(COMPARISON_SELECTION_LABEL, score)]
        noisy = ledger.release(COMPARISON_ANSWER_LABEL, functools.partial(get, asked))
        answers[asked].append(noisy.values.astype(np.float64))
        mean, of_mean = np.mean(answers[asked], axis=0), stddev / math.sqrt(len(answers[asked]))
        shares[asked] = _find_shares(mean, expected[asked].sum(axis=1), stddev=of_mean)
    return Comparisons(shares)


def _closes_circle(parents: Mapping[int, Sequence[int]], asked: Comparison) -> bool:
    return any(_hangs_on(parents, parent, asked.own) for parent in asked.parents)


def _find_shares(noisy: Counts, totals: Counts, *, stddev: float) -> Shares:
    """The three shares in each group, drawn towards those of all groups together where noise explains the difference.

    Shapes: `noisy` (groups, 3), `totals` (groups,), how many records each is expected to have.
    """
    of_all = noisy.sum(axis=0)
    of_all[of_all < _LEAST_STDDEVS * stddev * math.sqrt(len(noisy))] = 0.0
    of_all = of_all / of_all.sum() if of_all.any() else np.full(3, 1 / 3)
    drawn = np.maximum(draw_towards(noisy, np.outer(totals, of_all), stddev=stddev), 0.0)
    drawn[drawn.sum(axis=1) <= 0] = of_all
    shares: Shares = (drawn / drawn.sum(axis=1, keepdims=True)).astype(np.float32)
    return shares


def _list_candidates(
    drafted: EncodedTable, coarsening: Coarsening, places: Sequence[int], records: float
) -> Iterator[Comparison]:
    """Comparisons of numbers that lie near each other in drafted rows, each by the columns that say most of it."""
    facts, groups = coarsening.attributes, coarsening.to_groups(drafted)
    numbers = {place: _Number.of(facts[place], facts[place].find_cells(drafted)) for place in places}
    some = {
        place: _Number(known.values[:_MEASURED_ROWS], known.is_there[:_MEASURED_ROWS])
        for place, known in numbers.items()
    }
    gaps = {side: _find_gap(some, *side) for side in _list_sides({place: facts[place].unit for place in places})}
    most = int(np.clip(_MOST_COUNTED / (_COLUMNS * max(1.0, records)), 1, _CANDIDATES))
    for own, others in sorted(gaps, key=lambda side: gaps[side])[:most]:
        values, is_there = _add_up(numbers, others)
        used = np.flatnonzero(is_there & numbers[own].is_there)
        signs = np.sign(numbers[own].values[used] - values[used]) + 1
        strengths = np.full(len(facts), -1.0)
        for by, size in enumerate(coarsening.sizes):
            if by != own:
                counts = np.bincount(3 * groups[used, by].astype(np.int64) + signs, minlength=3 * size)
                table = counts.reshape(size, 3) / max(1, len(used))
                strengths[by] = np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0))).sum()
        columns = np.argsort(-strengths, kind="stable")[: min(_COLUMNS, len(facts) - 1)]
        yield from (Comparison(own, others, by) for by in (ALL, *np.sort(columns).tolist()))


def _list_sides(units: Mapping[int, str]) -> Iterator[Side]:
    """Numbers and those that they may be held against: of one unit, or of days a day and numbers of days after it.

    Of two numbers the later one with the other; with sums any, of as many parts as leave the list short.
    """
    for other, own in itertools.combinations(units, 2):
        if units[own] == units[other]:
            yield own, (other,)
    listed = 0
    for parts in range(2, MOST_PARTS + 1):
        listed += len(units) * math.comb(len(units) - 1, parts)
        if listed > _MOST_SIDES:
            return
        for others in itertools.combinations(units, parts):
            kinds = sorted(units[other] for other in others)
            for own, unit in units.items():
                wanted = [*[WHOLE] * (parts - 1), DAYS] if unit == DAYS else [unit] * parts
                if own not in others and kinds == wanted:
                    yield own, others


def _find_gap(numbers: Mapping[int, _Number], own: int, others: Sequence[int]) -> float:
    """How far a number lies from others, in its own mean distance from its mean; infinite where there are no rows."""
    values, is_there = _add_up(numbers, others)
    used = is_there & numbers[own].is_there
    if not used.any():
        return math.inf
    mine = numbers[own].values[used].astype(np.float64)
    return float(np.abs(mine - values[used]).mean() / max(np.abs(mine - mine.mean()).mean(), 1e-9))
