"""Which columns are not available in the same rows, as all of a visit that did not take place: asked for as one.

Pairs would say so one by one, each at the price of a question, and a fit to some of them leaves rows with half a visit.
Columns of which one-ways say that as many rows miss each are asked for together: in how many rows all of them are
missing, in how many none, and which one is where the others are not. Where noise explains all rows in between, there
are none.
Privacy: rows are read by `Questions`, for selections and answers alone; the rest is post-processing.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.absence import Absence, Set, flag_missing
from dpwgan.marginals.coarsening import Coarsening
from dpwgan.marginals.measurements import GroupedRows
from dpwgan.marginals.queries import ANSWER_LABEL
from dpwgan.marginals.questions import Questions
from dpwgan.privacy.ledger import Ledger
from dpwgan.table.rows import Rows, Sum
from dpwgan.table.storage import cut

Counts = npt.NDArray[np.float64]

# As many rows miss each of two columns where so many stddevs of noise explain the difference.
_ALIKE = 2.0
# Columns in one question: of few their pairs say as much, and more; and it has two cells for each.
_LEAST_COLUMNS, _MOST_COLUMNS = 4, 32
# Columns are missing together where rows in between are no more than so many stddevs of noise explain, and, were they
# so many more, would still be less than such a part of what chance makes of the columns' shares.
_EXPLAINED, _LEAST_PART = 3.0, 0.5
# A column that is missing alone, or there alone, in so many stddevs more rows than none is not one of them.
_STANDS_OUT = 3.0


class Question(NamedTuple):
    """Whether some attributes are missing together. `shares`: of all rows, those that miss each of them."""

    attributes: Set
    shares: tuple[float, ...]

    @property
    def cells(self) -> int:
        """Cells of the answer, as `_count` has them."""
        return 3 + 2 * len(self.shares)

    def expect(self, records: float) -> Counts:
        """What each cell would hold, were columns missing by chance. Shapes: (cells,)."""
        missing = np.array(self.shares)
        there = 1.0 - missing
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


def list_questions(coarsening: Coarsening, *, records: float, stddev: float) -> list[Question]:
    """Questions on attributes that as many rows miss each, where an answer can say whether these are the same rows.

    Units: `stddev` is that of an answer's noise, in counts. Privacy: post-processing of released counts.
    """
    known = []
    for place, (part, facts) in enumerate(zip(coarsening.parts, coarsening.attributes, strict=True)):
        is_missing = flag_missing(coarsening, place) if facts.missing else np.zeros(part.size, np.bool_)
        share = float(part.probabilities[is_missing].sum())
        if 0.0 < share < 1.0:
            known.append((records * share, float(np.square(part.stddevs[is_missing]).sum()), place))
    alike: list[dict[int, float]] = []
    for (before, of_before, _), (count, variance, place) in itertools.pairwise([(-math.inf, 0.0, -1), *sorted(known)]):
        if count - before > _ALIKE * math.sqrt(of_before + variance) or len(alike[-1]) == _MOST_COLUMNS:
            alike.append({})
        alike[-1][place] = count / records
    named = [dict(sorted(each.items())) for each in alike if len(each) >= _LEAST_COLUMNS]
    questions = [Question(tuple(each), tuple(each.values())) for each in named]
    return [each for each in questions if each.is_told(0.0, range(len(each.shares)), records=records, stddev=stddev)]


def _count(rows: GroupedRows, flags: Sequence[tuple[int, Sequence[bool]]]) -> Counts:
    """How many rows have which attributes missing, by which groups of each are `flags`.

    That is none, all, several but not all, then each alone, then all but each.
    """
    width = len(flags)
    total = np.zeros(3 + 2 * width)
    for chunk in cut(len(rows.groups)):
        missing = np.stack([np.array(groups, np.bool_)[rows.groups[chunk, place]] for place, groups in flags], axis=1)
        many = missing.sum(axis=1)
        kinds = [many == 0, many == width, many == 1, many == width - 1]
        cells = np.select(kinds, [0, 1, 3 + missing.argmax(axis=1), 3 + width + missing.argmin(axis=1)], 2)
        total += np.bincount(cells, minlength=len(total))
    return total


ABSENCE = Sum[GroupedRows](
    "absence", lambda rows, argument, array: np.concatenate([_count(rows, flags) for flags in argument])
)
"""How many rows have which attributes missing, question after question, in one vector."""


def ask_for_absence(
    rows: Rows[GroupedRows], coarsening: Coarsening, *, records: float, times: int, ledger: Ledger
) -> Absence:
    """Asks, so many `times` at most, which attributes are missing together: a selection of a question, and its answer.

    Privacy: a record adds 1 to one count of a question, and what is expected is made of releases; so scores have
      sensitivity 1 under zero-out (2 under replace-one), counts 1 (sqrt 2).
    Source: as `QueryDiscriminator`.
    """
    stddev = ledger.find(ANSWER_LABEL).stddev
    questions = list_questions(coarsening, records=records, stddev=stddev)
    expected = {question: question.expect(records) for question in questions}
    sets = list[Set]()

    def count() -> Counts:
        flags = [[(at, flag_missing(coarsening, at).tolist()) for at in question.attributes] for question in expected]
        return rows.sum(ABSENCE, argument=flags)

    looks = Questions({question: (question.cells,) for question in expected}, count, ledger=ledger)
    asked = min(times, len(expected))
    for _ in range(asked):
        question, answer = looks.ask(expected)
        del expected[question]
        together = _find_together(answer, question, records=records, stddev=stddev)
        sets += [together] if together else []
    return Absence(tuple(sets), asked, {place: flag_missing(coarsening, place) for each in sets for place in each})


def _find_together(answer: Counts, question: Question, *, records: float, stddev: float) -> Set:
    """The attributes of a question which an answer says are missing together; none where noise hides it."""
    several, alone = answer[2], answer[3:].reshape(2, -1).sum(axis=0)
    kept = np.flatnonzero(alone <= _STANDS_OUT * math.sqrt(2.0) * stddev)
    is_told = question.is_told(float(several + alone[kept].sum()), kept.tolist(), records=records, stddev=stddev)
    return tuple(question.attributes[place] for place in kept) if len(kept) > 1 and is_told else ()
