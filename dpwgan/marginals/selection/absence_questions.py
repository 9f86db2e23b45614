"""Which columns are missing in the same rows, as all of a visit that did not take place: one question for all.

Pairs would cost a question each, and a fit to some of them leaves rows with half a visit. Columns that are missing
equally often, by the one-ways, are candidates together. The answer counts the rows where all are missing, where none
is, where one alone is or is not, and all others by the first column (in the table's order) after which this changes.
If noise explains the rows in between, there are none. If they change after one column, as between two parts of a
survey that equally many skip, the columns up to it are a set, and the rest is asked for again.
Privacy: rows are read by `Questions`, for selections and answers alone; the rest is post-processing.
"""

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from dpwgan.array_types import Floats, Integers
from dpwgan.marginals.answers.measurements import GroupedRows
from dpwgan.marginals.fit.absence import Absence, Set, flag_missing
from dpwgan.marginals.one_way.coarsening import Coarsening
from dpwgan.marginals.selection.queries import ANSWER_LABEL
from dpwgan.marginals.selection.questions import Questions
from dpwgan.privacy.ledger import Ledger
from dpwgan.table.rows import Rows, Sum
from dpwgan.table.storage import cut

# As many rows miss each of two columns where so many stddevs of noise explain the difference.
_ALIKE = 2.0
# Columns in one question: of few their pairs say as much, and more, unless a question was about more; and it has three
# cells for each.
_LEAST_COLUMNS, _LEAST_LEFT, _MOST_COLUMNS = 4, 3, 32
# Columns are missing together where rows in between are no more than so many stddevs of noise explain, and, were they
# so many more, would still be less than such a part of what chance makes of the columns' shares.
_EXPLAINED, _LEAST_PART = 3.0, 0.5
# A column that is missing alone, or there alone, in so many stddevs more rows than none is not one of them.
_STANDS_OUT = 3.0


class Question(NamedTuple):
    """Whether some attributes are missing together. `shares`: the fraction of rows where each is missing."""

    attributes: Set
    shares: tuple[float, ...]

    @property
    def cells(self) -> int:
        """Number of cells of the answer: see `_count`."""
        return 1 + 3 * len(self.shares)

    def expect(self, records: float) -> Floats:
        """The expected counts if columns were missing independently. Shapes: (cells,)."""
        missing = np.array(self.shares)
        there = 1.0 - missing
        none, all_of_them = there.prod(), missing.prod()
        alone, there_alone = none * missing / there, all_of_them * there / missing
        # Behind each column but the last, less rows in which one column alone is otherwise: it comes next, or first.
        changing = np.cumprod(missing)[:-1] * there[1:] + np.cumprod(there)[:-1] * missing[1:]
        changing -= (alone + there_alone)[1:]
        changing[0] -= alone[0] + there_alone[0]
        expected = np.concatenate([[none, all_of_them], alone, there_alone, changing])
        return np.array(records * np.maximum(expected, 0.0), np.float64)

    def is_told(self, apart: float, places: Sequence[int], *, records: float, stddev: float) -> bool:
        """Whether `apart` rows in between, under such noise, show that those at `places` are missing together."""
        noise = stddev * math.sqrt(3 * len(places) - 1)
        shares = np.array(self.shares)[list(places)]
        chance = records * (1.0 - shares.prod() - (1.0 - shares).prod())
        return bool(apart <= _EXPLAINED * noise and apart + _EXPLAINED * noise <= _LEAST_PART * chance)


def list_questions(coarsening: Coarsening, *, records: float, stddev: float) -> list[Question]:
    """Questions on attributes that are missing equally often, where an answer can tell if in the same rows.

    Units: `stddev` of an answer's noise, in counts. Privacy: post-processing of released counts.
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


def _count(rows: GroupedRows, flags: Sequence[tuple[int, Sequence[bool]]]) -> Floats:
    """Counts rows by which attributes are missing: `flags` say which groups of each are.

    The cells: none, all, each alone, all but each; and of all other rows the attribute after which it changes first.
    """
    width = len(flags)
    total = np.zeros(1 + 3 * width)
    for chunk in cut(len(rows.groups)):
        missing = np.stack([np.array(groups, np.bool_)[rows.groups[chunk, place]] for place, groups in flags], axis=1)
        many = missing.sum(axis=1)
        kinds = [many == 0, many == width, many == 1, many == width - 1]
        changes = (missing[:, 1:] != missing[:, :-1]).argmax(axis=1)
        named = [0, 1, 2 + missing.argmax(axis=1), 2 + width + missing.argmin(axis=1)]
        cells = np.select(kinds, named, 2 + 2 * width + changes)
        total += np.bincount(cells, minlength=len(total))
    return total


ABSENCE = Sum[GroupedRows](
    "absence", lambda rows, argument, array: np.concatenate([_count(rows, flags) for flags in argument])
)
"""Counts of rows by which attributes are missing, one question after the other, in one vector."""


def ask_for_absence(
    rows: Rows[GroupedRows], coarsening: Coarsening, *, records: float, times: int, ledger: Ledger
) -> Absence:
    """Asks up to `times` times which attributes are missing together: a selection and an answer each.

    Privacy: a record adds 1 to one count of a question, as `Questions` has it; what is expected is made of releases.
    """
    stddev = ledger.find(ANSWER_LABEL).stddev
    left, sets, asked = list_questions(coarsening, records=records, stddev=stddev), list[Set](), 0

    def pose(questions: Sequence[Question]) -> Questions[Question]:
        flags = [[(at, flag_missing(coarsening, at).tolist()) for at in each.attributes] for each in questions]
        count = partial(rows.sum, ABSENCE, argument=flags)
        return Questions({each: (each.cells,) for each in questions}, count, ledger=ledger)

    looks = pose(left)
    while left and asked < times:
        question, answer = looks.ask({each: each.expect(records) for each in left})
        asked += 1
        left.remove(question)
        together, others = _find_together(answer, question, records=records, stddev=stddev)
        sets += [together] if together else []
        if others is not None:
            left.append(others)
            looks = pose(left)
    return Absence(tuple(sets), asked, {place: flag_missing(coarsening, place) for each in sets for place in each})


def _find_together(answer: Floats, question: Question, *, records: float, stddev: float) -> tuple[Set, Question | None]:
    """The attributes that an answer shows to be missing together, and the question that is left on those after them.

    No attributes where noise hides it.
    """
    width = len(question.shares)
    alone, changing = answer[2 : 2 + 2 * width].reshape(2, -1).sum(axis=0), answer[2 + 2 * width :]
    kept = np.flatnonzero(alone <= _STANDS_OUT * math.sqrt(2.0) * stddev)

    def find(kept: Integers, changing: Floats) -> Set:
        apart = float(changing.sum() + alone[kept].sum())
        is_told = len(kept) > 1 and question.is_told(apart, kept.tolist(), records=records, stddev=stddev)
        return tuple(question.attributes[place] for place in kept) if is_told else ()

    together, borders = find(kept, changing), np.flatnonzero(changing > _STANDS_OUT * stddev)
    if together or not len(borders):
        return together, None
    # Of rows that change here all columns before are alike: it is known of these, not of those after.
    first = int(borders[0]) + 1
    others = Question(question.attributes[first:], question.shares[first:])
    is_open = len(others.shares) >= _LEAST_LEFT and others.is_told(
        0.0, range(len(others.shares)), records=records, stddev=stddev
    )
    return find(kept[kept < first], changing[: first - 1]), others if is_open else None
