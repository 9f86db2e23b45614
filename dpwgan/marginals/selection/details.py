"""Which code of its group a row has, given another column: for columns with more codes than groups.

Such a column keeps each code's share, but within a group a row's code would be drawn independently of all else: a
county beside the district of another. So some pairs are measured again, a column's codes by another's groups (or its
codes, if it has such), and the rows of a group share its codes accordingly.
Privacy: rows are read by `Questions`, for selections and answers alone; the rest is post-processing.
"""

import functools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpwgan.array_types import AnyArray, Arrays, Floats, Floats32, Integers
from dpwgan.marginals.answers.denoising import draw_to_multiples
from dpwgan.marginals.answers.measurements import GroupedRows, answer_pairs
from dpwgan.marginals.answers.settled import draw_to_columns
from dpwgan.marginals.draws import find_lifts, trade_cells
from dpwgan.marginals.groups import Edge, GroupLayout
from dpwgan.marginals.loss import Probabilities
from dpwgan.marginals.named_arrays import find_arrays, name_array
from dpwgan.marginals.one_way.coarsening import AttributeGroups, Coarsening
from dpwgan.marginals.selection.hanging import hangs_on, put_in_order
from dpwgan.marginals.selection.questions import Questions
from dpwgan.privacy.ledger import Ledger
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.rows import Rows, Sum
from dpwgan.table.storage import cut

# Other columns that are held against one of many codes: those that hang together with its groups most.
_CANDIDATES = 8
# What codes that can be told apart hold of all records together, for it to be worth a question.
_LEAST_SHARE = 0.05
# Of so many rows codes are shared out at once, times all categories: odds are in memory a few times.
_MOST_ODDS = 1 << 22

_CODES, _LIFTS = "codes", "lifts"


@dataclass(frozen=True, eq=False)
class Details:
    """How the rows of a group share its codes, given other columns. Privacy: released numbers alone.

    `codes`: by attribute, the codes of shared groups that have a category of their own, rising. `lifts`: by attribute
    and parent, P(code, category of the parent) over what it would be if codes depended on groups alone; categories are
    the parent's groups, then those of its own codes. No attribute has two parents, and there is no cycle.
    Shapes: (codes, categories).
    """

    codes: Mapping[int, Integers] = field(default_factory=dict)
    lifts: Mapping[Edge, Floats32] = field(default_factory=dict)

    def pack(self) -> dict[str, AnyArray]:
        """All of it as arrays by name."""
        codes = {name_array(_CODES, attribute): codes for attribute, codes in self.codes.items()}
        return codes | {name_array(_LIFTS, *pair): lifts for pair, lifts in self.lifts.items()}

    @classmethod
    def unpack(cls, arrays: Arrays) -> "Details":
        """Takes what `pack` gave, among others."""
        codes = {attribute: codes for _, (attribute,), codes in find_arrays(arrays, _CODES)}
        return cls(codes, {(own, other): lifts for _, (own, other), lifts in find_arrays(arrays, _LIFTS)})

    def is_sound(self, coarsening: Coarsening) -> bool:
        """Whether they fit the groups."""
        parts, by = dict(enumerate(coarsening.parts)), dict(self.lifts.keys())
        codes_fit = all(
            attribute in parts
            and len(parts[attribute].starts) == parts[attribute].cells
            and np.array_equal(codes, np.unique(codes))
            and np.all((codes >= 0) & (codes < parts[attribute].cells))
            for attribute, codes in self.codes.items()
        )
        parents = _find_parents(self.lifts)
        lifts_fit = all(
            own in self.codes
            and other in parts
            and lifts.shape == (len(self.codes[own]), parts[other].size + len(self.codes.get(other, ())))
            and np.all(lifts > 0)
            and not hangs_on(parents, other, own)
            for (own, other), lifts in self.lifts.items()
        )
        return bool(codes_fit and lifts_fit and len(by) == len(self.lifts))

    def redraw(self, encoded: EncodedTable, coarsening: Coarsening, *, rng: np.random.Generator) -> None:
        """Redraws the codes of rows within their groups; each code keeps its share of the group."""
        by = dict(self.lifts.keys())
        for own in put_in_order(_find_parents(self.lifts)):
            kind, other = (_Categories(coarsening.parts[at], self.codes.get(at)) for at in (own, by[own]))
            cells, others = (coarsening.attributes[at].find_cells(encoded) for at in (own, by[own]))
            # All other codes of a group are one kind, of lift 1.
            lifts = np.pad(self.lifts[own, by[own]].T, ((0, 0), (kind.part.size, 0)), constant_values=1.0)
            drawn, found, kinds = cells.copy(), other.find(others), kind.find(cells)
            for rows in cut(len(cells), size=max(1, _MOST_ODDS // kind.count)):
                groups = kind.part.groups[cells[rows]].astype(np.int64)
                drawn[rows] = trade_cells(cells[rows], groups, kinds[rows], found[rows], lifts, rng=rng)
            coarsening.attributes[own].put_cells(drawn, into=encoded)


def _find_parents(lifts: Iterable[Edge]) -> dict[int, tuple[int]]:
    return {own: (other,) for own, other in lifts}


class _Categories:
    """An attribute's categories: its groups, then those of its codes that have a category of their own."""

    def __init__(self, part: AttributeGroups, codes: Integers | None) -> None:
        self.part = part
        self.codes = np.zeros(0, np.int64) if codes is None else codes
        self.count = part.size + len(self.codes)
        self.groups = np.append(np.arange(part.size), part.groups[self.codes])
        """The group of each category."""

    def find(self, cells: Integers) -> Integers:
        """The category of each cell. Shapes: (n,)."""
        if not len(self.codes):
            return self.part.find_groups(cells).astype(np.int64)
        return self._of_cells[cells]

    @functools.cached_property
    def _of_cells(self) -> Integers:
        found = self.part.groups.astype(np.int64)
        found[self.codes] = self.part.size + np.arange(len(self.codes))
        return found

    @functools.cached_property
    def weights(self) -> Floats:
        """The share of its group that each category has: of a group, that of its other codes."""
        own = self.part.weights[self.codes]
        rest = 1.0 - np.bincount(self.part.groups[self.codes], own, minlength=self.part.size)
        return np.append(np.maximum(rest, 0.0), own)


def find_codes(
    coarsening: Coarsening, attributes: Sequence[int], *, records: float, least_count: float
) -> dict[int, Integers]:
    """The codes that share a group and are frequent enough to be told apart, by attribute, where these matter.

    Units: `least_count`, in records: what such a code holds at least.
    Privacy: post-processing of the one-way release.
    """
    found = {}
    for attribute in attributes:
        part = coarsening.parts[attribute]
        held = records * part.probabilities[part.groups] * part.weights
        beside = np.bincount(part.groups, held >= least_count)[part.groups]
        codes = np.flatnonzero((held >= least_count) & (beside > 1))
        if held[codes].sum() >= _LEAST_SHARE * records:
            found[attribute] = codes
    return found


def _count_details(rows: GroupedRows, argument: dict[str, Any]) -> Floats:
    """Counts some attributes' codes by others' categories, one pair after the other, in one vector."""
    sizes, groups = rows.layout.sizes, rows.groups
    of_cells = {int(place): np.array(categories) for place, categories in argument["categories"].items()}
    pairs = argument["pairs"]
    widths = {place: int(categories.max()) + 1 for place, categories in of_cells.items()}
    found = [np.zeros((widths[own] - sizes[own]) * widths.get(other, sizes[other])) for own, other in pairs]
    for chunk in cut(len(groups)):
        seen = {place: categories[rows.cells[place][chunk]] for place, categories in of_cells.items()}
        for total, (own, other) in zip(found, pairs, strict=True):
            of_own = seen[own] >= sizes[own]
            by = seen[other] if other in seen else groups[chunk, other].astype(np.int64)
            cells = (seen[own][of_own] - sizes[own]) * widths.get(other, sizes[other]) + by[of_own]
            total += np.bincount(cells, minlength=len(total))
    return np.concatenate(found)


DETAILS = Sum[GroupedRows]("details", lambda rows, argument, array: _count_details(rows, argument))
"""Codes of some attributes by categories of others, in one vector."""


def ask_for_details(
    rows: Rows[GroupedRows],
    coarsening: Coarsening,
    probabilities: Probabilities,
    *,
    codes: Mapping[int, Integers],
    records: float,
    times: int,
    ledger: Ledger,
) -> Details:
    """Asks `times` times which other column tells an attribute's codes apart best: a selection and an answer each.

    `codes`: as `find_codes` gave them, of attributes whose cells rows hold. `probabilities`: the fitted mixture, which
    gives the expected counts, where codes of a group do not depend on the other column. Each attribute has one parent:
    further questions measure it again, and the mean has less noise.
    Privacy: a record adds 1 to one count of a pair at most, as `Questions` has it; what is expected is made of
      releases.
    Shapes: `probabilities` (codes, width).
    """
    answers = defaultdict[Edge, list[Floats]](list)
    kinds = [_Categories(part, codes.get(place)) for place, part in enumerate(coarsening.parts)]
    left = list(_list_candidates(kinds, probabilities, rows.own.layout))
    expected = {pair: records * _expect(kinds, probabilities, pair, rows.own.layout) for pair in left}

    def count() -> Floats:
        named = {str(place): kinds[place].find(np.arange(kinds[place].part.cells)).tolist() for place in codes}
        return rows.sum(DETAILS, argument={"categories": named, "pairs": list(expected)})

    questions = Questions({pair: cells.shape for pair, cells in expected.items()}, count, ledger=ledger)
    stddev = questions.stddev
    for _ in range(times):
        parents = _find_parents(answers)
        free = [pair for pair in left if pair[0] not in parents and not hangs_on(parents, pair[1], pair[0])]
        left = free or [min(answers, key=lambda pair: len(answers[pair]))]
        of_mean = stddev / math.sqrt(max(1, times // len(codes)))
        pair, answer = questions.ask({pair: expected[pair] for pair in left}, stddev=of_mean)
        answers[pair].append(answer)
    return Details(codes, {pair: _lift(own, expected[pair], stddev=stddev) for pair, own in answers.items()})


def _lift(answers: Sequence[Floats], expected: Floats, *, stddev: float) -> Floats32:
    """The lift that the mean of the answers shows, shrunk towards 1 as far as noise explains it."""
    answer, noise = np.mean(answers, axis=0), stddev / math.sqrt(len(answers))
    drawn = draw_to_columns(answer, expected, draw_to_multiples(answer, expected, stddev=noise), stddev=noise)
    return find_lifts(drawn.means, expected)


def _list_candidates(kinds: Sequence[_Categories], probabilities: Probabilities, layout: GroupLayout) -> Iterator[Edge]:
    """Each attribute of such codes, with the attributes most dependent on it by the fitted mixture."""
    shares = probabilities.mean(axis=0)
    for own, kind in enumerate(kinds):
        if not len(kind.codes):
            continue
        rows = layout.get_slice(own)
        together = np.abs(answer_pairs(probabilities, rows) - np.outer(shares[rows], shares)).sum(axis=0)
        strengths = np.add.reduceat(together, layout.starts)
        strengths[own] = -1.0
        most = np.argsort(-strengths, kind="stable")[: min(_CANDIDATES, len(kinds) - 1)]
        yield from ((own, int(other)) for other in np.sort(most))


def _expect(kinds: Sequence[_Categories], probabilities: Probabilities, pair: Edge, layout: GroupLayout) -> Floats:
    """The shares of an attribute's codes by another's categories if codes depended on groups alone."""
    own, other = (kinds[at] for at in pair)
    groups = answer_pairs(probabilities, *map(layout.get_slice, pair)).astype(np.float64)
    size = own.part.size
    cells = groups[np.ix_(own.groups[size:], other.groups)]
    expected: Floats = cells * np.outer(own.weights[size:], other.weights)
    return expected
