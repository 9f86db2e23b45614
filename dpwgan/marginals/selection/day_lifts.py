"""How days of the week depend on other columns, which groups of days, as runs of days, cannot show.

Offices take no appointments on Sundays, and emergencies come on all days; within a group, whether a row's day is a
Sunday would be independent of both. So rows are counted by kind of day and another column's groups, and rows of a
group trade days accordingly.
Privacy: rows are read by `Questions`, for selections and answers alone; the rest is post-processing.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpwgan.array_types import AnyArray, Arrays, Floats, Floats32, Integers
from dpwgan.marginals.answers.denoising import denoise, take_sums
from dpwgan.marginals.draws import find_lifts, trade_cells
from dpwgan.marginals.groups import Edge
from dpwgan.marginals.layout import Attribute
from dpwgan.marginals.named_arrays import find_arrays, name_array
from dpwgan.marginals.one_way.coarsening import AttributeGroups, Coarsening, CoarseRows
from dpwgan.marginals.one_way.day_kinds import DAY_KINDS, NO_PLACES, DayKinds, find_day_kinds
from dpwgan.marginals.selection.questions import Questions
from dpwgan.privacy.ledger import Ledger
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.rows import Rows, Sum
from dpwgan.table.storage import cut, let_go

MOST_COLUMNS = 5
"""The most other columns that the days of one date may depend on."""

DRAFTED_ROWS = 100_000
"""Rows drafted from the fitted codes for the expected counts: their sampling error passes into lifts."""

# Days that are as many at least are worth telling apart.
_LEAST_DAYS = 14
# An answer is more than noise where squares of what it is off are so many stddevs more than noise has.
_TOLD = 4.0

_KIND = "days"


@dataclass(frozen=True, eq=False)
class DayLifts:
    """How the rows of a group share its days, given other columns. Privacy: released numbers alone.

    `lifts`: by date and other attribute, in the order in which they were measured: the share of each kind of day in
    each of the other's groups, over what the lifts before give. Shapes: (groups, DAY_KINDS).
    """

    lifts: Mapping[Edge, Floats32] = field(default_factory=dict)

    @property
    def dates(self) -> frozenset[int]:
        """The attributes whose days are redrawn."""
        return frozenset(own for own, _ in self.lifts)

    def pack(self) -> dict[str, AnyArray]:
        """All of it as arrays by name."""
        return {name_array(_KIND, *pair): lifts for pair, lifts in self.lifts.items()}

    @classmethod
    def unpack(cls, arrays: Arrays) -> "DayLifts":
        """Takes what `pack` gave, among others."""
        return cls({(own, other): lifts for _, (own, other), lifts in find_arrays(arrays, _KIND)})

    def is_sound(self, coarsening: Coarsening) -> bool:
        """Whether they fit the groups."""
        dates, sizes = find_dates(coarsening.attributes), dict(enumerate(coarsening.sizes))
        return all(
            own in dates and own != other and lifts.shape == (sizes.get(other), DAY_KINDS) and bool(np.all(lifts > 0))
            for (own, other), lifts in self.lifts.items()
        )

    def redraw(self, encoded: EncodedTable, coarsening: Coarsening, *, rng: np.random.Generator) -> None:
        """Has rows trade days within their groups, so that kinds of days depend on other columns as measured."""
        for own in sorted(self.dates):
            facts, part = coarsening.attributes[own], coarsening.parts[own]
            cells = facts.find_cells(encoded)
            rows, groups = np.flatnonzero(cells >= facts.codes), part.find_groups(cells).astype(np.int64)
            lifts, conditions = np.ones((1, DAY_KINDS)), np.zeros(len(cells), np.int64)
            for (date, other), by in self.lifts.items():
                if date == own:
                    found = CoarseRows(encoded, coarsening).find_groups(other)
                    met, conditions = np.unique(conditions * len(by) + found, return_inverse=True)
                    lifts = lifts[met // len(by)] * by[met % len(by)]
            kinds = _find_kinds(facts, part, cells)
            cells[rows] = trade_cells(cells[rows], groups[rows], kinds[rows], conditions[rows], lifts, rng=rng)
            facts.put_cells(cells, into=encoded)


def find_dates(attributes: Sequence[Attribute]) -> tuple[int, ...]:
    """The attributes that are days of the calendar. Privacy: of public facts alone."""
    days = {place: facts.levels for place, facts in enumerate(attributes) if facts.first_day is not None}
    return tuple(place for place, levels in days.items() if levels >= _LEAST_DAYS)


def _find_kinds(facts: Attribute, part: AttributeGroups, cells: Integers) -> Integers:
    """The kind of day of each cell, and one more for what is missing. Shapes: (n,).

    Places in the month are kinds where released counts tell them from other days.
    """
    places = part.odds.places if isinstance(part.odds, DayKinds) else NO_PLACES
    kinds = find_day_kinds(cells - facts.codes, first_day=-facts.origin, places=places)
    return np.where(cells < facts.codes, DAY_KINDS, kinds)


def _count(rows: CoarseRows, pairs: Sequence[Edge]) -> Floats:
    """Counts rows by the other attribute's groups and kind of day, one pair after the other, in one vector."""
    encoded, coarsening = rows
    facts, parts, width = coarsening.attributes, coarsening.parts, DAY_KINDS + 1
    found = [np.zeros(coarsening.sizes[other] * width) for _, other in pairs]
    for chunk in cut(encoded.records):
        kinds = {own: _find_kinds(facts[own], parts[own], facts[own].find_cells(encoded, chunk)) for own, _ in pairs}
        groups = {other: rows.find_groups(other, chunk) for _, other in pairs}
        let_go(encoded.codes, encoded.numbers)
        for (own, other), total in zip(pairs, found, strict=True):
            total += np.bincount(groups[other] * width + kinds[own], minlength=len(total))
    return np.concatenate([total.reshape(-1, width)[:, :DAY_KINDS].ravel() for total in found])


DAY_COUNTS = Sum[CoarseRows]("kinds of days", lambda rows, pairs, array: _count(rows, pairs))
"""How many rows have each kind of day, by groups of other columns, in one vector."""


def pose_day_questions(rows: Rows[CoarseRows], *, dates: Sequence[int], ledger: Ledger) -> Questions[Edge]:
    """The candidates: each date with each other attribute.

    Privacy: a record adds 1 to one count of a pair at most, as `Questions` has it.
    """
    coarsening = rows.own.coarsening
    pairs = [(own, other) for own in dates for other in range(len(coarsening.sizes)) if own != other]
    shapes = {pair: (coarsening.sizes[pair[1]], DAY_KINDS) for pair in pairs}
    ordered = {pair for pair in pairs if coarsening.attributes[pair[1]].ordered}
    return Questions(shapes, lambda: rows.sum(DAY_COUNTS, argument=pairs), ledger=ledger, ordered=ordered)


def ask_for_first_day(questions: Questions[Edge], coarsening: Coarsening, *, records: float) -> DayLifts:
    """Asks once which column tells days apart best; no lifts where noise explains the answer: no need to ask more.

    Expected is independence of days and other columns.
    Privacy: a selection and an answer of `questions`; the rest is made of releases.
    """
    dates = {own for own, _ in questions.shapes}
    kinds = {own: _share_kinds(coarsening.attributes[own], coarsening.parts[own]) for own in dates}
    expected = {(own, by): records * np.outer(coarsening.probabilities[by], kinds[own]) for own, by in questions.shapes}
    pair, answer = questions.ask(expected)
    # The answer's margins are those of one-ways, which are known less exactly than its noise says.
    variance, free = questions.stddev**2, (len(answer) - 1) * (DAY_KINDS - 1)
    unexplained = np.square(answer - take_sums(answer, expected[pair])).sum() - variance * free
    if unexplained < _TOLD * variance * math.sqrt(2.0 * free):
        return DayLifts()
    return DayLifts({pair: _lift(answer, expected[pair], coarsening.attributes[pair[1]], stddev=questions.stddev)})


def ask_for_day_lifts(
    questions: Questions[Edge],
    drafted: CoarseRows,
    *,
    known: DayLifts,
    but: Collection[int],
    records: float,
    times: int,
    rng: np.random.Generator,
) -> DayLifts:
    """Asks `times` times which other column tells the days of a date apart best: a selection and an answer each.

    `drafted` rows of the fitted mixture give the expected counts, once they trade days by all lifts `known` so far.
    `but`: attributes that are redrawn afterwards, which neither depend on others here nor others on them.
    Privacy: as `ask_for_first_day`.
    """
    every = [pair for pair in questions.shapes if not {*pair}.intersection(but)]
    lifts = {pair: by for pair, by in known.lifts.items() if pair in every}
    for _ in range(times):
        many = Counter(own for own, _ in lifts)
        left = [pair for pair in every if pair not in lifts and many[pair[0]] < MOST_COLUMNS]
        if not left:
            break
        drawn = drafted.copy()
        DayLifts(lifts).redraw(*drawn, rng=rng)
        expected = questions.split(_count(drawn, list(questions.shapes)) * (records / drafted.encoded.records))
        pair, answer = questions.ask({pair: expected[pair] for pair in left})
        facts = drafted.coarsening.attributes[pair[1]]
        lifts[pair] = _lift(answer, expected[pair], facts, stddev=questions.stddev)
    return DayLifts(lifts)


def _share_kinds(facts: Attribute, part: AttributeGroups) -> Floats:
    """The share of rows that have each kind of day. Shapes: (DAY_KINDS,). Privacy: post-processing of one-ways."""
    cells = np.arange(facts.cells)
    groups = part.find_groups(cells)
    shares = (part.probabilities / np.bincount(groups))[groups] * part.find_odds(cells)
    found = np.bincount(_find_kinds(facts, part, cells), shares, minlength=DAY_KINDS + 1)
    return found[:DAY_KINDS].astype(np.float64)


def _lift(answer: Floats, expected: Floats, other: Attribute, *, stddev: float) -> Floats32:
    """The lift that an answer shows, shrunk towards 1 as far as noise explains it."""
    means, _ = denoise(answer, expected, stddev=stddev, ordered=[other.ordered, False])
    return find_lifts(means, expected)
