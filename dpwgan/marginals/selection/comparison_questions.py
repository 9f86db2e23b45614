"""How numbers compare with others of their row, their sums and products: asked where many levels share a group.

Groups say about how large a total is and how large its parts are, not that it is their sum: within a group each number
is drawn by itself. So it is asked how often a number is below another one, the same, or above, and how often it is what
several add up or multiply to, by what one more column says.
Privacy: rows are read by `Questions`, for selections and answers alone; the rest is post-processing.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from dpwgan.array_types import Floats, Floats32
from dpwgan.marginals.layout import Attribute
from dpwgan.marginals.one_way.coarsening import Coarsening, CoarseRows
from dpwgan.marginals.selection.comparison_search import Search
from dpwgan.marginals.selection.comparison_shares import find_parts, find_shares
from dpwgan.marginals.selection.comparisons import (
    ALL,
    DETAILS,
    DIFFERENCE,
    PARTS,
    POWERS,
    SCALES,
    SIGNS,
    SUM,
    Comparison,
    Comparisons,
    Number,
    Sides,
    find_gaps,
    find_groups,
    find_parents,
    tell_apart,
)
from dpwgan.marginals.selection.hanging import hangs_on
from dpwgan.marginals.selection.questions import Questions
from dpwgan.privacy.ledger import Ledger
from dpwgan.table.rows import Rows, Sum
from dpwgan.table.schema import WHOLE
from dpwgan.table.storage import cut, let_go

COMPARISON_LABELS = "comparison selections", "comparison answers"

DRAFTED_ROWS = 20_000
"""Of how many rows of the fitted codes it is seen which numbers lie near each other, and what is to be expected."""

# At most so many comparisons, those of the nearest sides, are candidates, each by so many columns; and so many counts
# of rows are taken in all.
_CANDIDATES, _COLUMNS, _MOST_COUNTED = 32, 8, 2 * 10**8
# So many more sums may be candidates for their means alone.
_BLIND = 64
# A comparison that would move a smaller share of rows is dropped: it would cost other columns more.
_LEAST_MOVED = 0.05
# Gaps of which so many are drafted in one power of two are told apart more finely at once.
_OF_ONE_POWER = 0.9
# What is taken to lie between two moments does so in at least this share of rows, give or take a step.
_LEAST_EXACT = 0.3


def find_compared(attributes: Sequence[Attribute], *, least_levels: int) -> tuple[int, ...]:
    """The moments, and the numbers of `least_levels` or more, that share their kind with another attribute.

    Moments of fewer levels count, since these share groups where noise is large: equal days would not stay equal.
    Privacy: of public facts alone.
    """
    kinds = {
        place: facts.kind
        for place, facts in enumerate(attributes)
        if facts.kind and facts.levels >= (2 if facts.is_moment else least_levels)
    }
    return tuple(place for place, kind in kinds.items() if list(kinds.values()).count(kind) > 1)


def _count_groups(coarsening: Coarsening, by: int) -> int:
    return 1 if by == ALL else coarsening.sizes[by]


def _count(rows: CoarseRows, comparisons: Sequence[Comparison]) -> Floats:
    """Counts rows by another column's groups and kind of gap, one comparison after the other, in one vector."""
    encoded, coarsening = rows
    facts = coarsening.attributes
    compared = {place for each in comparisons for place in (each.own, *each.others)}
    found = [np.zeros(each.width * _count_groups(coarsening, each.by)) for each in comparisons]
    for chunk in cut(encoded.records):
        groups = {by: find_groups(rows, by, chunk) for by in {each.by for each in comparisons}}
        numbers = {place: Number.of(facts[place], facts[place].find_cells(encoded, chunk)) for place in compared}
        let_go(encoded.codes, encoded.numbers)
        # Comparisons of the same numbers, as finely, follow each other.
        together = zip(comparisons, found, strict=True)
        for (sides, scales), same in itertools.groupby(together, lambda each: (each[0].sides, each[0].scales)):
            gaps, having = find_gaps(numbers, sides, facts)
            kinds = tell_apart(gaps, scales)
            for each, total in same:
                total += np.bincount(each.width * groups[each.by][having] + kinds, minlength=len(total))
    return np.concatenate(found)


def _read(named: Sequence[Any]) -> list[Comparison]:
    """Comparisons from the lists that another worker was sent."""
    return [Comparison(Sides(own, tuple(others), how), by, scales) for (own, others, how), by, scales in named]


COMPARISONS = Sum[CoarseRows]("comparisons", lambda rows, named, array: _count(rows, _read(named)))
"""Counts of kinds of gaps by groups of other columns, in one vector."""


def ask_for_comparisons(
    rows: Rows[CoarseRows],
    drafted: CoarseRows,
    *,
    numbers: Sequence[int],
    records: float,
    times: int,
    more: int = 0,
    ledger: Ledger,
    rng: np.random.Generator,
) -> Comparisons:
    """Asks `times` times for the comparison that drafted rows miss most: a selection and an answer each.

    `numbers`: the attributes that are compared. `drafted` rows of the fitted mixture give the expected counts, once
    they meet all answers so far. Then `more` questions refine moments: their gaps more finely, or a number that says
    them. When no comparison is left, earlier ones are measured again. Answers close to what was expected are left out.
    Privacy: a record adds 1 to one count of a comparison at most, as `Questions` has it; what is expected is made of
      releases.
    """
    every = list(_list_candidates(drafted, numbers, records))
    game = _Game(drafted, records=records, rng=rng)
    for candidates, often in ((game.list_first, times), (game.list_finer, more)):
        found = candidates(every)
        # Of cents with few groups, and whole numbers with many, none may be drawn again.
        if found and often:
            shapes = {each: (_count_groups(drafted.coarsening, each.by), each.width) for each in found}
            count = partial(rows.sum, COMPARISONS, argument=found)
            game.play(Questions(shapes, count, ledger=ledger, labels=COMPARISON_LABELS), times=often)
    return Comparisons(game.shares)


class _Game:
    """The state of the game: all answers, the counts expected before each first one, and the shares known now."""

    def __init__(self, drafted: CoarseRows, *, records: float, rng: np.random.Generator) -> None:
        self.shares: dict[Comparison, Floats32] = {}
        self._answers = defaultdict[Comparison, list[Floats]](list)
        self._before: dict[Comparison, Floats] = {}
        self._drafted, self._records, self._rng = drafted, records, rng

    def _lies_between(self, each: Comparison) -> bool:
        """Whether a moment is compared with another one plus what may lie between."""
        return self._drafted.coarsening.attributes[each.own].is_moment and len(each.others) > 1

    def list_first(self, every: Sequence[Comparison]) -> list[Comparison]:
        """The candidates of the first game: all but those that refine others.

        How far two moments lie apart has to be known before what lies between, or the exact gap, is asked for.
        """
        return [each for each in every if each.scales <= POWERS and not self._lies_between(each)]

    def _are_of_one_power(self, each: Comparison) -> bool:
        """Whether nearly all drafted gaps are in one power of two, one with parts: which power says nothing then."""
        counts = _count(self._drafted, [Comparison(each.sides, ALL, POWERS)])
        counts[POWERS - 1 : POWERS + 2] = 0.0, counts[POWERS - 1 : POWERS + 2].sum(), 0.0  # what has no parts
        return bool(counts.argmax() != POWERS and counts.max() >= _OF_ONE_POWER * counts.sum())

    @property
    def _bases(self) -> list[Comparison]:
        """What refinements build on: known shares, and of other numbers what was asked, for which drafts were right.

        Not parts of powers, which noise hides first.
        """
        owners = {each.own for each in self.shares}
        return [*self.shares, *(each for each in self._answers if each.own not in owners and each.scales <= POWERS)]

    def list_finer(self, every: Sequence[Comparison]) -> list[Comparison]:
        """Refinements of moments: of what was asked, or of gaps that are drafted in one power of two."""
        bases, facts = {base.own: base for base in self._bases}, self._drafted.coarsening.attributes

        def says_more(each: Comparison) -> bool:
            base = bases.get(each.own)
            if base and set(base.others) <= set(each.others) and (each.scales <= POWERS or base.by == each.by):
                return True
            return each.scales > POWERS and each.by == ALL and self._are_of_one_power(each)

        return [each for each in every if facts[each.own].is_moment and says_more(each)]

    def _list_left(self, every: Sequence[Comparison]) -> list[Comparison]:
        """Candidates not yet asked for, of new numbers or refining known ones; if none, those asked before."""
        parents, owners = find_parents(self.shares), {each.own for each in self._answers}
        parted = {(each.own, each.scales) for each in self._answers if each.scales > POWERS}

        def is_left(each: Comparison) -> bool:
            says_more = any(_refines(each, base, parents) for base in self._bases)
            is_new = (each.scales == PARTS or each.own not in owners) and _is_free(parents, each)
            return each not in self._answers and (each.own, each.scales) not in parted and (says_more or is_new)

        again = [each for each in every if each in self._answers and (each in self.shares or _is_free(parents, each))]
        return [each for each in every if is_left(each)] or again or list(every)

    def play(self, questions: Questions[Comparison], *, times: int) -> None:
        """Asks `times` times, each time among the candidates left."""
        every = list(questions.shapes)
        for _ in range(times):
            drawn = self._drafted.copy()
            Comparisons(self.shares).redraw(*drawn, rng=self._rng)
            scale = self._records / drawn.encoded.records
            expected = questions.split(_count(drawn, every) * scale)
            left = self._list_left(every)
            asked, answer = questions.ask({each: expected[each] for each in left})
            self._answers[asked].append(answer)
            self._learn(asked, expected[asked], stddev=questions.stddev)

    def _learn(self, asked: Comparison, expected: Floats, *, stddev: float) -> None:
        answers = self._answers[asked]
        mean, of_mean = np.mean(answers, axis=0), stddev / math.sqrt(len(answers))
        # Rows that meet earlier answers do not say what was expected without them.
        first = self._before.setdefault(asked, expected)
        if asked.scales > POWERS:
            are_of_one = asked.scales == PARTS and self._are_of_one_power(asked)
            found = find_parts(mean, first, stddev=of_mean, are_of_one=are_of_one)
        else:
            found = find_shares(mean, first, stddev=of_mean)
        totals = first.sum(axis=1, keepdims=True)
        moved, total = np.abs(found * totals - first).sum() / 2, max(1.0, totals.sum())
        # A moment lies near another one plus any small number.
        is_exact = (found * totals)[:, asked.scales - 1 : asked.scales + 2].sum() >= _LEAST_EXACT * total
        if moved >= _LEAST_MOVED * total and (is_exact or not self._lies_between(asked)):
            self.shares = {each: own for each, own in self.shares.items() if each.own != asked.own} | {asked: found}
        else:
            self.shares.pop(asked, None)


def _is_free(parents: Mapping[int, Sequence[int]], asked: Comparison) -> bool:
    """Whether a comparison fits beside the known ones: no cycle, a difference only if its sum is compared already."""
    if asked.own in parents or any(hangs_on(parents, parent, asked.own) for parent in asked.parents):
        return False
    return asked.sides.how != DIFFERENCE or asked.others[0] in parents


def _refines(asked: Comparison, known: Comparison, parents: Mapping[int, Sequence[int]]) -> bool:
    """Whether a comparison refines a known one: the same sides by a column, or one step finer, or with more parts, as
    a day against another day and the days between.
    """
    others = {own: of_own for own, of_own in parents.items() if own != asked.own}
    is_as_fine = known.scales == SIGNS == asked.scales or (known.scales != SIGNS and asked.scales == POWERS)
    has_more = is_as_fine and asked.sides.how == SUM and set(known.others) < set(asked.others)
    is_finer = known.scales != DETAILS and asked == known._replace(scales=SCALES[SCALES.index(known.scales) + 1])
    is_parted = known.by == ALL != asked.by and asked == known._replace(by=asked.by)
    return asked.own == known.own and (has_more or is_finer or is_parted) and _is_free(others, asked)


def _list_candidates(drafted: CoarseRows, compared: Sequence[int], records: float) -> Iterator[Comparison]:
    """Comparisons of sides that are near in drafted rows, each by the columns most dependent on their order."""
    encoded, coarsening = drafted
    facts, groups = coarsening.attributes, coarsening.to_groups(encoded)
    factors = [place for place, attribute in enumerate(facts) if attribute.unit == WHOLE and attribute.levels > 1]
    places = sorted({*compared, *factors})
    numbers = {place: Number.of(facts[place], facts[place].find_cells(encoded)) for place in places}
    search = Search(facts=facts, sizes=coarsening.sizes, compared=compared, drafted=numbers)
    most = int(np.clip(_MOST_COUNTED / (_COLUMNS * max(1.0, records)), 1, _CANDIDATES))
    nearest = search.find_nearest(most)
    blind = [(sides, POWERS) for sides in search.list_later(nearest)]
    blind += [(sides, SIGNS) for sides in search.list_sums(_BLIND)]
    counted = dict.fromkeys(each for each in blind if each[0] not in nearest)
    yield from (
        Comparison(sides, ALL, scales) for sides, scales in list(counted)[: int(_MOST_COUNTED / max(1.0, records))]
    )
    for sides in nearest:
        gaps, rows = find_gaps(numbers, sides, facts)
        strengths = np.full(len(facts), -1.0)
        for by, size in enumerate(coarsening.sizes):
            if by != sides.own:
                cells = 3 * groups[rows, by].astype(np.int64) + np.sign(gaps) + 1
                table = np.bincount(cells, minlength=3 * size).reshape(size, 3) / max(1, len(rows))
                strengths[by] = np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0))).sum()
        columns = np.argsort(-strengths, kind="stable")[: min(_COLUMNS, len(facts) - 1)]
        # Gaps of amounts scale with the amounts; gaps of moments do not.
        for scales in SCALES if facts[sides.own].is_moment else (SIGNS,):
            yield from (Comparison(sides, by, scales) for by in (ALL, *np.sort(columns).tolist()))
