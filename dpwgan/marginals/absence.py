"""Columns that are not available in the same rows, as all of a visit that did not take place: asked for as one.

Pairs would say so one by one, each at the price of a question, and a fit to some of them leaves rows with half a visit.
Columns of which one-ways say that as many rows miss each are asked for together: in how many rows all of them are
missing, in how many none, and which one is where the others are not. Where noise explains all rows in between, there
are none. Where there are such sets, a last question is how often which of them, and of other columns, are missing.
Privacy: of rows `ask_for_absence` reads the scores of candidates made of releases alone, through the exponential
mechanism, and the counts of the one selected, through the Gaussian mechanism; the rest is post-processing.
"""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.coarsening import Coarsening
from dpwgan.marginals.denoising import draw_to_multiples
from dpwgan.marginals.groups import GroupLayout, Marginal
from dpwgan.marginals.loss import Probabilities
from dpwgan.marginals.measurements import GroupedRows
from dpwgan.marginals.queries import ANSWER_LABEL, SELECTION_LABEL, expect_gains
from dpwgan.marginals.simplex import project_on_simplex, rake
from dpwgan.marginals.zeros import Flags, Zeros
from dpwgan.privacy.ledger import Ledger
from dpwgan.table.rows import Rows, Sum
from dpwgan.table.storage import cut

Counts = npt.NDArray[np.float64]
Set = tuple[int, ...]

# As many rows miss each of two columns where so many stddevs of noise explain the difference.
_ALIKE = 2.0
# Columns in one question on those that may be missing together: of few their pairs say as much, and more; it has two
# cells for each. And in one on how often which are missing, which has a cell for each combination.
_LEAST_ALIKE, _MOST_ALIKE, _MOST_ASIDE = 4, 32, 8
# Columns are missing together where rows in between are no more than so many stddevs of noise explain, and, were they
# so many more, would still be less than such a part of what chance makes of the columns' shares.
_EXPLAINED, _LEAST_PART = 3.0, 0.5
# A column that is missing alone, or there alone, in so many stddevs more rows than none is not one of them; and one
# that is missing, or there, in fewer has no part in how often which are.
_STANDS_OUT = 3.0
# What a group is taken to hold at least where a code is given the groups of all records.
_LEAST_SHARE = 1e-9


class Question(NamedTuple):
    """Which of some attributes are missing: together or not, as `_count` has it, or each combination where `each`.

    `shares`: of all rows, those that miss each attribute.
    """

    attributes: Set
    shares: tuple[float, ...]
    each: bool = False

    @property
    def cells(self) -> int:
        """Cells of the answer."""
        return 1 << len(self.shares) if self.each else 3 + 2 * len(self.shares)

    def expect(self, records: float) -> Counts:
        """What each cell would hold, were columns missing by chance. Shapes: (cells,)."""
        missing = np.array(self.shares)
        there = 1.0 - missing
        if self.each:
            return records * _multiply(self.shares).ravel()
        none, all_of_them = there.prod(), missing.prod()
        alone, there_alone = none * missing / there, all_of_them * there / missing
        several = 1.0 - none - all_of_them - alone.sum() - there_alone.sum()
        expected: Counts = records * np.concatenate([[none, all_of_them, max(0.0, several)], alone, there_alone])
        return expected

    def is_told(self, apart: float, places: Sequence[int], *, records: float, stddev: float) -> bool:
        """Whether so many rows in between, under such noise, say that some of its attributes are missing together."""
        noise = stddev * math.sqrt(1 + 2 * len(places))
        shares = np.array(self.shares)[list(places)]
        chance = records * (1.0 - shares.prod() - (1.0 - shares).prod())
        return bool(apart <= _EXPLAINED * noise and apart + _EXPLAINED * noise <= _LEAST_PART * chance)


@dataclass(frozen=True, eq=False)
class Absence:
    """Which attributes are missing together, and how often which of others are. Privacy: released numbers alone.

    `sets` are of attributes that are missing in the same rows. Of `places`, the first of a set for all of it, it is
    known how often which are missing: `shares` of all rows, one axis each, there and missing. `asked`: how many
    questions it took.
    """

    sets: tuple[Set, ...] = ()
    places: Set = ()
    shares: Counts = field(default_factory=lambda: np.ones(()))
    asked: int = 0

    def pack(self) -> dict[str, npt.NDArray[Any]]:
        """All of it as arrays by name."""
        sets = {f"set {number}": np.array(each) for number, each in enumerate(self.sets)}
        return {**sets, "places": np.array(self.places, np.int64), "shares": self.shares, "asked": np.array(self.asked)}

    @classmethod
    def unpack(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "Absence":
        """Takes what `pack` gave."""
        sets = [tuple(arrays[name].tolist()) for name in arrays if name.startswith("set ")]
        places, shares = tuple(arrays["places"].tolist()), arrays["shares"].astype(np.float64)
        return cls(tuple(sets), places, shares, int(arrays["asked"]))

    def find_zeros(self, coarsening: Coarsening, *, with_first: bool = False) -> Zeros:
        """The groups that do not go together: of each two attributes of a set, or of each one and the first alone."""
        found: dict[Marginal, Flags] = {}
        for attributes in self.sets:
            flags = {place: flag_missing(coarsening, place) for place in attributes}
            for left, right in itertools.combinations(attributes, 2):
                if left == attributes[0] or not with_first:
                    found[left, right] = flags[left][:, np.newaxis] != flags[right]
        return found

    def find_kinds(self, coarsening: Coarsening) -> tuple[Counts, dict[int, Flags]]:
        """The share of each kind of rows, by what they miss, and of each attribute the groups that are not of a kind.

        Shapes: (kinds,), and of each attribute (groups, kinds).
        """
        missing = np.indices(self.shares.shape).reshape(len(self.places), self.shares.size).astype(np.bool_)
        sets = {each[0]: each for each in self.sets}
        flags = {
            place: flag_missing(coarsening, place)[:, np.newaxis] != of_kinds
            for first, of_kinds in zip(self.places, missing, strict=True)
            for place in sets.get(first, (first,))
        }
        return self.shares.ravel(), flags

    def make_pure(self, probabilities: Probabilities, coarsening: Coarsening) -> Probabilities:
        """Codes each of which has all of a set missing, or none: as many as its attributes' codes have on the mean.

        Shapes: (codes, width). Privacy: post-processing.
        """
        pure, layout, is_missing = probabilities.copy(), GroupLayout(coarsening.sizes), np.zeros(len(probabilities))
        for attributes in self.sets:
            flags = {place: flag_missing(coarsening, place) for place in attributes}
            shares = np.mean([pure[:, layout.get_slice(place)] @ own for place, own in flags.items()], axis=0)
            # Codes that the set before tells apart, and of these those that miss most first: one at each whole number.
            order = np.lexsort((-shares, is_missing))
            ends = np.cumsum(shares[order]) + 0.5
            is_missing[order] = np.floor(ends) > np.floor(np.append(0.5, ends[:-1]))
            for place, own in flags.items():
                cells = pure[:, layout.get_slice(place)]
                kept = own == is_missing[:, np.newaxis]
                of_all = coarsening.parts[place].probabilities + _LEAST_SHARE
                cells[:] = np.where(kept, cells + _LEAST_SHARE * of_all, 0.0)
                cells /= cells.sum(axis=1, keepdims=True)
        return pure


def _multiply(missing: Sequence[float]) -> Counts:
    """The shares of all combinations, were columns missing by chance. Shapes: an axis each, there and missing."""
    return functools.reduce(np.multiply.outer, (np.array([1.0 - share, share]) for share in missing), np.ones(()))


def flag_missing(coarsening: Coarsening, attribute: int) -> Flags:
    """Which groups of an attribute are of codes that mean not available. Shapes: (groups,)."""
    part, facts = coarsening.parts[attribute], coarsening.attributes[attribute]
    found = np.zeros(part.size, np.bool_)
    found[part.find_groups(np.flatnonzero(facts.is_missing))] = True
    return found


def list_alike(coarsening: Coarsening, *, records: float, stddev: float) -> list[Question]:
    """Questions on attributes that as many rows miss each, where an answer can say whether these are the same rows.

    Units: `stddev` is that of an answer's noise, in counts. Privacy: post-processing of released counts.
    """
    known = sorted((count, variance, place) for place, (count, variance) in _count_missing(coarsening, records).items())
    alike: list[list[tuple[int, float]]] = []
    for (before, of_before, _), (count, variance, place) in itertools.pairwise([(-math.inf, 0.0, -1), *known]):
        if count - before > _ALIKE * math.sqrt(of_before + variance) or len(alike[-1]) == _MOST_ALIKE:
            alike.append([])
        alike[-1].append((place, count / records))
    named = [dict(sorted(each)) for each in alike if len(each) >= _LEAST_ALIKE]
    questions = [Question(tuple(each), tuple(each.values())) for each in named]
    return [each for each in questions if each.is_told(0.0, range(len(each.shares)), records=records, stddev=stddev)]


def ask_aside(coarsening: Coarsening, sets: Sequence[Set], *, records: float, stddev: float) -> Question:
    """The question how often which attributes are missing: the first of each set, and those nearest to half the rows.

    Units and privacy: as `list_alike`.
    """
    firsts, counts = {each[0] for each in sets}, _count_missing(coarsening, records)
    others = {place: count for place, (count, _) in counts.items() if not any(place in each for each in sets)}
    least = _STANDS_OUT * stddev
    halves = {place: abs(count - records / 2) for place, count in others.items() if least <= count <= records - least}
    chosen = sorted({*firsts, *sorted(halves, key=halves.__getitem__)[: _MOST_ASIDE - len(firsts)]})
    return Question(tuple(chosen), tuple(counts[place][0] / records for place in chosen), each=True)


def _count_missing(coarsening: Coarsening, records: float) -> dict[int, tuple[float, float]]:
    """In how many rows each attribute is missing, and the variance of that, where it is both missing and there."""
    found = {}
    for place, (part, facts) in enumerate(zip(coarsening.parts, coarsening.attributes, strict=True)):
        is_missing = flag_missing(coarsening, place) if facts.missing else np.zeros(part.size, np.bool_)
        share = float(part.probabilities[is_missing].sum())
        if 0.0 < share < 1.0:
            found[place] = records * share, float(np.square(part.stddevs[is_missing]).sum())
    return found


def _count(rows: GroupedRows, flags: Sequence[tuple[int, Sequence[bool]]], *, each: bool) -> Counts:
    """How many rows have which attributes missing, by which groups of each are `flags`.

    By `each` combination, or: none, all, several but not all, then each alone, then all but each.
    """
    width = len(flags)
    total = np.zeros(1 << width if each else 3 + 2 * width)
    for chunk in cut(len(rows.groups)):
        missing = np.stack([np.array(groups, np.bool_)[rows.groups[chunk, place]] for place, groups in flags], axis=1)
        if each:
            cells = missing @ (1 << np.arange(width)[::-1])
        else:
            many = missing.sum(axis=1)
            kinds = [many == 0, many == width, many == 1, many == width - 1]
            cells = np.select(kinds, [0, 1, 3 + missing.argmax(axis=1), 3 + width + missing.argmin(axis=1)], 2)
        total += np.bincount(cells, minlength=len(total))
    return total


ABSENCE = Sum[GroupedRows](
    "absence",
    lambda rows, argument, array: np.concatenate([_count(rows, flags, each=each) for flags, each in argument]),
)
"""How many rows have which attributes missing, question after question, in one vector."""


def ask_for_absence(
    rows: Rows[GroupedRows],
    coarsening: Coarsening,
    alike: Sequence[Question],
    *,
    records: float,
    times: int,
    ledger: Ledger,
) -> Absence:
    """Asks, so many `times`, which attributes are missing together: a selection of a question, and its answer.

    Where some are, the last is how often which are; fewer are asked where there are no more. `alike`: what `list_alike`
    gave.
    Privacy: a record adds 1 to one count of a question, and what is expected is made of releases; so scores have
      sensitivity 1 under zero-out (2 under replace-one), counts 1 (sqrt 2).
    Source: as `QueryDiscriminator`.
    """
    stddev = ledger.find(ANSWER_LABEL).stddev
    counted = dict[Question, Counts]()
    left, sets, asked = list(alike), list[Set](), 0

    def count() -> dict[Question, Counts]:
        if new := [question for question in left if question not in counted]:
            flags = [[(at, flag_missing(coarsening, at).tolist()) for at in question.attributes] for question in new]
            flat = rows.sum(ABSENCE, argument=[[own, question.each] for own, question in zip(flags, new, strict=True)])
            ends = np.cumsum([question.cells for question in new])[:-1]
            counted.update(zip(new, np.split(flat, ends), strict=True))
        return counted

    def score() -> list[float]:
        expected = [question.expect(records) for question in left]
        errors = [np.abs(count()[question] - cells) for question, cells in zip(left, expected, strict=True)]
        return [float(expect_gains(*pair, stddev=stddev).sum()) for pair in zip(errors, expected, strict=True)]

    def get(question: Question) -> Counts:
        return count()[question]

    for number in range(times):
        if sets and (number == times - 1 or not left):
            # How often which of known sets is missing says more than a further set.
            aside = ask_aside(coarsening, sets, records=records, stddev=stddev)
            left = [aside] * (len(aside.attributes) > 1)
        if not left:
            break
        question = left.pop(ledger.select(SELECTION_LABEL, score))
        answer = ledger.release(ANSWER_LABEL, functools.partial(get, question)).values.astype(np.float64)
        asked = number + 1
        if question.each:
            expected, of_each = question.expect(records), [np.array([1.0 - share, share]) for share in question.shares]
            counts = draw_to_multiples(answer, expected, stddev=stddev).means
            counts = project_on_simplex(counts, np.ones(len(counts)), total=records)
            shares = rake(counts.reshape((2,) * len(of_each)) / records, *of_each)
            return Absence(tuple(sets), question.attributes, shares, asked)
        together = _find_together(answer, question, records=records, stddev=stddev)
        sets += [together] if together else []
    alone = ask_aside(coarsening, sets, records=records, stddev=math.inf)
    return Absence(tuple(sets), alone.attributes, _multiply(alone.shares), asked)


def _find_together(answer: Counts, question: Question, *, records: float, stddev: float) -> Set:
    """The attributes of a question which an answer says are missing together; none where noise hides it."""
    several, alone = answer[2], answer[3:].reshape(2, -1).sum(axis=0)
    kept = np.flatnonzero(alone <= _STANDS_OUT * math.sqrt(2.0) * stddev)
    is_told = question.is_told(float(several + alone[kept].sum()), kept.tolist(), records=records, stddev=stddev)
    return tuple(question.attributes[place] for place in kept) if len(kept) > 1 and is_told else ()
