"""The worst marginal: selected by the exponential mechanism, and measured with Gaussian noise.

Privacy: of rows it reads the scores of a public list of candidates (or of one made from releases alone), through the
exponential mechanism, and the answer to the one selected, through the Gaussian mechanism.
"""

import functools
import itertools
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TypeVar

import numpy as np

from dpwgan.array_types import AnyFloats, Floats
from dpwgan.marginals.answers.denoising import OUTLIER, SPREAD, denoise
from dpwgan.marginals.answers.measurements import (
    MARGINALS,
    PAIRS,
    GroupedRows,
    MeasuredMarginals,
    answer_marginal,
    answer_pairs,
)
from dpwgan.marginals.answers.public_prior import PublicPrior
from dpwgan.marginals.answers.views import WIDTHS, Look, list_looks
from dpwgan.marginals.fit.markov_tree import Forest
from dpwgan.marginals.fit.side_by_side import HALVES, share_memory, work_side_by_side
from dpwgan.marginals.groups import Edge, Marginal
from dpwgan.marginals.loss import Probabilities
from dpwgan.privacy.events import ExponentialSelection, discrete_gaussian
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.release import Release
from dpwgan.table.rows import Rows

AnyMarginal = TypeVar("AnyMarginal", bound=Marginal)
Scores = Floats | Mapping[Marginal, float]

SELECTION_LABEL = "query selections"
ANSWER_LABEL = "query answers"

SELECTION_SENSITIVITY = 1.0 + 1e-6
"""Zeroing out a record moves one cell of a marginal by 1, and by no more the gain expected there.

The rest is room for the rounding of sums in float64: some 1e-7 for 10^9 records.
"""

_SELECTION_REPLACE_ONE_FACTOR = 2.0
ANSWER_SENSITIVITY = 1.0

_LARGER_PART, _LARGER_PART_OF_FEW, _FEW_ATTRIBUTES = 8, 4, 12
# Of four attributes and more, at most so many marginals of each order are candidates, with so many counts of rows.
MOST_LARGER = 400
_MOST_COUNTED = 10**8
# Cells that are scored at a time.
_BLOCK_CELLS = 1 << 15
# With fewer cells to score a second process takes longer to be made than it saves.
_LEAST_APART = 1 << 20

BLOCKS_PART = 0.5
"""Weight of a gain in blocks over one in single groups, whose cells need not be asked for again."""

ONE_WAY_STDDEVS = 1.5
"""How many stddevs of the one-ways' noise an error must exceed to count, where one-ways are all there is."""


@dataclass(eq=False)
class QueryDiscriminator:
    """Tells real rows from generated ones by one marginal at a time.

    A marginal's score is the expected decrease of its cells' absolute errors by an answer (`expect_gains`), summed over
    cells or blocks of neighbours, at the best width. A few large errors among many small cells count, since answers are
    shrunk towards the generator's where noise explains the difference.
    `records`: the total that answers are shares of. `most_ways`: attributes in a marginal, 2 or more; `most_cells`:
    pairs with more cells are no candidates outside the tree, and larger marginals have a lower limit. `prior` is
    compared with each answer. Pairs are counted at the first question, larger marginals as they become candidates.
    Privacy: scores have sensitivity 1 under zero-out (2 under replace-one), an answer's counts 1 (sqrt 2). Rows are
      read within the ledger's selections and answers alone.
    Source: McKenna, Mullins, Sheldon, Miklau 2022, arXiv:2201.12677 (AIM: errors less expected noise, there for a
      marginal as a whole); Hardt, Ligett, McSherry 2012, arXiv:1012.4763 (MWEM: the game).
    """

    rows: Rows[GroupedRows]
    _: KW_ONLY
    measured: MeasuredMarginals
    records: float
    most_ways: int
    most_cells: int
    ledger: Ledger
    prior: PublicPrior | None
    threads: int | None

    def __post_init__(self) -> None:
        self._layout, self._views = self.rows.own.layout, self.measured.views
        self._stddev = self.ledger.find(ANSWER_LABEL).stddev
        self._larger: dict[Marginal, Floats] = {}

    @functools.cached_property
    def _pairs(self) -> Floats:
        """All pairs, exactly: counted when first needed, by a question that was charged before."""
        return self.rows.sum(PAIRS)

    def ask_for_tree(self, one_ways: Sequence[Floats], *, stddevs: Sequence[Floats], edges: int) -> list[Edge]:
        """Asks for `edges` pairs, each of which joins two components: a selection and an answer each.

        `one_ways[a]` are the released shares of attribute a's groups, `stddevs[a]` those of their noise, in counts: the
        generator to beat has all attributes independent. With a prior, the first pair is the one on which that is
        worst, so that a misleading table is found out.
        """
        shares = np.concatenate(one_ways).astype(np.float32)
        independent = np.outer(shares, shares)
        variances = np.square(np.concatenate(stddevs))

        def score_against(pairs: AnyFloats) -> Floats:
            return self._score_pairs(lambda left, right: pairs[left, right], one_ways=(shares, variances))

        score = functools.cache(functools.partial(score_against, independent))
        score_first = score if self.prior is None else functools.partial(score_against, self.prior.pairs)
        every = list(itertools.combinations(range(self._layout.attributes), 2))
        forest, tree = Forest(self._layout.attributes), list[Edge]()
        for _ in range(edges):
            apart = [edge for edge in every if not forest.is_joined(edge)]
            edge = self._select(apart, score if tree else score_first)
            forest.join(edge)
            tree.append(edge)
            left, right = (self._layout.get_slice(attribute) for attribute in edge)
            self._answer(edge, independent[left, right])
        return tree

    def ask(self, probabilities: Probabilities, *, times: int = 1) -> list[Marginal]:
        """Asks `times` times for the marginal on which the generator is worst: a selection and an answer each.

        All use the same scores, so no marginal shares two attributes with one before while there are others.
        """
        # A row a group, as its products need it: laid out once, not once a block of groups.
        probabilities = np.asfortranarray(probabilities)
        pairs, larger = self._candidates, self._find_larger()

        @functools.cache
        def score() -> dict[Marginal, float]:
            self._count([marginal for marginal in larger if marginal not in self._larger])
            gains = share_memory((len(larger),), np.float64)

            def score_larger(place: int) -> None:
                gains[place] = self._score_larger(larger[place], probabilities)

            beside = [functools.partial(score_larger, place) for place in range(len(larger))]
            scores = self._score_pairs(functools.partial(answer_pairs, probabilities), beside=beside)
            return {pair: float(scores[pair]) for pair in pairs} | dict(zip(larger, gains.tolist(), strict=True))

        every: list[Marginal] = [*pairs, *larger]
        attributes = {marginal: frozenset(self._views.find_attributes(marginal)) for marginal in every}
        left, asked = every, list[Marginal]()
        for _ in range(times):
            if asked:
                known = attributes[asked[-1]]
                left = [other for other in left if len(known & attributes[other]) < 2] or every
            marginal = self._select(left, score)
            self._answer(marginal, answer_marginal(probabilities, marginal, self._views))
            asked.append(marginal)
        return asked

    def _find_larger(self) -> list[Marginal]:
        """The candidates of three attributes and more: all sets of so many, where these are few.

        Else those of whose attributes each was measured with another. Made of releases and public sizes alone.
        """
        known = map(self._views.find_attributes, self.measured)
        asked = {pair for marginal in known for pair in itertools.combinations(marginal, 2)}
        most = min(MOST_LARGER, _MOST_COUNTED // max(1, self.rows.records))
        most_cells = limit_larger_cells(self.most_cells, attributes=self._layout.attributes)
        found: dict[Marginal, Marginal] = {}
        smaller: set[Marginal] = set(asked)
        for ways in range(3, self.most_ways + 1):
            if math.comb(self._layout.attributes, ways) <= most:
                joined = set(itertools.combinations(range(self._layout.attributes), ways))
            else:
                joined = {
                    tuple(sorted({*pair, *marginal}))
                    for marginal in smaller
                    for pair in asked
                    if len({*pair, *marginal}) == ways
                }
            views = {larger: self._views.find_view(larger, most_cells=most_cells) for larger in joined}
            grown = {larger: view for larger, view in views.items() if view is not None}
            if ways > 3 and len(grown) > most:
                # A hash makes a fixed pseudorandom choice, so that each is counted once.
                kept = sorted(grown, key=lambda larger: zlib.crc32(repr(larger).encode()))[:most]
                grown = {larger: grown[larger] for larger in kept}
            found.update(grown)
            smaller = set(grown)
        return [found[larger] for larger in sorted(found)]

    def _count(self, marginals: Sequence[Marginal]) -> None:
        """Counts further marginals, in one pass over the rows."""
        if not marginals:
            return
        views = self._views
        named = [[(views.attribute_of[view], views.width_of[view]) for view in marginal] for marginal in marginals]
        flat = self.rows.sum(MARGINALS, argument=named)
        pieces = np.split(flat, np.cumsum([views.count_cells(marginal) for marginal in marginals])[:-1])
        for marginal, piece in zip(marginals, pieces, strict=True):
            self._larger[marginal] = piece.reshape([views.sizes[view] for view in marginal])

    @functools.cached_property
    def _candidates(self) -> list[Edge]:
        """Pairs in all their views: those of at most `most_cells`, or all if there are none."""
        edges = itertools.combinations(range(self._layout.attributes), 2)
        pairs = [(left, right) for edge in edges for left, right in self._views.list_views(edge)]
        return [pair for pair in pairs if self._views.count_cells(pair) <= self.most_cells] or pairs

    @functools.cached_property
    def _looks(self) -> list[list[Look]]:
        """The looks of each attribute."""
        return [list_looks(self._views, attribute) for attribute in range(self._layout.attributes - 1)]

    def _score_pairs(
        self,
        answer: Callable[[slice, slice], Probabilities],
        *,
        one_ways: Sequence[AnyFloats] = (),
        beside: Sequence[Callable[[], None]] = (),
    ) -> Floats:
        """Scores every pair in every view, by blocks of its first attribute's groups that fit a core's cache.

        The score of single groups is that at the best width of summing up their answer. `answer` gives a part of the
        (width, width) shares. `one_ways`: shares and the variances of their noise in counts, (width,) both; errors that
        these explain do not count. `beside`: other things to score, into shared memory.
        Shapes: the result (views, views).
        """
        layout, views = self._layout, len(self._views.sizes)
        scores = share_memory((views, views), np.float64)
        scores.fill(-np.inf)
        pairs = self._pairs

        def score(attribute: int) -> None:
            looks = self._looks[attribute]
            rows, right = layout.get_slice(attribute), slice(layout.starts[attribute + 1], layout.width)
            gains = [np.zeros((2, 1))] * len(looks)
            answers = answer(rows, right)
            many = max(1, _BLOCK_CELLS // answers.shape[1] // WIDTHS[-1]) * WIDTHS[-1]  # so that blocks are whole
            for first in range(0, len(answers), many):
                left = slice(rows.start + first, min(rows.start + first + many, rows.stop))
                parts = self._compare(pairs[left, right], answers[first : first + many])
                # Along each side: the cells of each block, and one-ways with the variances of their noise.
                height, width = parts[0].shape
                sides = [(np.ones(height), np.ones(width))]
                sides += [(of_all[left], of_all[right]) for of_all in one_ways]
                for place, look in enumerate(looks):
                    parts, sides = [look.join(part) for part in parts], [look.join_each(*side) for side in sides]
                    errors, expected = np.abs(parts[0]), parts[1]
                    if one_ways:
                        np.maximum(errors - _explain(*sides[1:]), 0.0, out=errors)
                    added_up = expect_gains(errors, expected, stddev=self._stddev * np.sqrt(np.outer(*sides[0])))
                    asked = added_up if place == 0 else expect_gains(errors, expected, stddev=self._stddev)
                    gains[place] = gains[place] + np.stack((added_up.sum(axis=0), asked.sum(axis=0)))
            for look, so_far in zip(looks, gains, strict=True):
                added_up, asked = np.add.reduceat(so_far, look.starts, axis=1)
                of_blocks = (look.views != look.others) | (look.own != attribute)
                scores[look.own, look.views] = np.where(of_blocks, BLOCKS_PART * asked, asked)
                scores[attribute, look.others] = np.maximum(scores[attribute, look.others], added_up)

        # Attributes are dealt out by the number of cells to score, all else one by one.
        cells = np.array(layout.sizes[:-1]) * (layout.width - np.array(layout.starts[1:]))
        order = np.argsort(cells)[::-1].tolist()

        def work(own: Sequence[int], meet: Callable[[], None]) -> None:
            for part in own:
                for attribute in order[part::HALVES]:
                    score(attribute)
                for score_other in beside[part::HALVES]:
                    score_other()

        work_side_by_side(work, parts=HALVES, apart=self.threads != 1 and cells.sum() >= _LEAST_APART)
        return scores

    def _score_larger(self, marginal: Marginal, probabilities: Probabilities) -> float:
        """Scores a marginal of three views or more."""
        answer = answer_marginal(probabilities, marginal, self._views)
        errors, expected = self._compare(self._larger[marginal], answer)
        gain = float(expect_gains(np.abs(errors), expected, stddev=self._stddev).sum())
        return gain if self._views.is_of_groups(marginal) else BLOCKS_PART * gain

    def _compare(self, counts: Floats, answers: Probabilities) -> list[Floats]:
        """Errors and expected values. Units: counts. Shapes: all alike."""
        expected = answers.astype(np.float64)
        expected *= self.records
        errors = counts - expected
        return [errors, expected]

    def _select(self, candidates: Sequence[AnyMarginal], score: Callable[[], Scores]) -> AnyMarginal:
        """Selects a candidate. A cached `score` reads rows within the first selection only."""

        def list_scores() -> list[float]:
            scores = score()
            return [float(scores[candidate]) for candidate in candidates]

        return candidates[self.ledger.select(SELECTION_LABEL, list_scores)]

    def _answer(self, marginal: Marginal, expected: Probabilities) -> None:
        """Releases a marginal's counts, and shrinks them towards the generator's as far as noise explains it."""

        def count() -> Floats:
            if len(marginal) > 2:
                return self._larger[marginal]
            return self._views.take_pair(self._pairs, marginal)

        noisy = self.ledger.release(ANSWER_LABEL, count)
        if self.prior is not None:
            self.prior.note(marginal, noisy.values / self.records)
        centre, ordered = expected.astype(np.float64) * self.records, [self._views.ordered[view] for view in marginal]
        drawn, stddevs = denoise(noisy.values, centre, stddev=noisy.stddev, ordered=ordered)
        self.measured.add(marginal, drawn / self.records, stddev=stddevs / self.records)


def limit_larger_cells(most_cells: int, *, attributes: int) -> int:
    """The most cells of a marginal of three attributes and more: an eighth of a pair's, as time goes with cells.

    A quarter where attributes are few, and so are their marginals.
    Privacy: of public facts alone.
    """
    return most_cells // (_LARGER_PART_OF_FEW if attributes <= _FEW_ATTRIBUTES else _LARGER_PART)


def plan_queries(
    times: int,
    *,
    selection_epsilon: float,
    answer_noise_multiplier: float,
    labels: tuple[str, str] = (SELECTION_LABEL, ANSWER_LABEL),
) -> list[Release]:
    """The releases of `times` questions, for the ledger to reserve: a selection and an answer each.

    `labels`: of both; by default those of a `QueryDiscriminator`.
    """
    return [
        Release(
            label=labels[0],
            event=ExponentialSelection(epsilon=selection_epsilon, replace_one_factor=_SELECTION_REPLACE_ONE_FACTOR),
            times=times,
            mechanism="exponential mechanism on the expected gains of answers",
            sensitivity=SELECTION_SENSITIVITY,
            details={"score_sensitivity": 1.0},
        ),
        Release(
            label=labels[1],
            event=discrete_gaussian(noise_multiplier=answer_noise_multiplier, cells=1),
            times=times,
            mechanism="discrete Gaussian noise on the counts of the selected marginal",
            sensitivity=ANSWER_SENSITIVITY,
        ),
    ]


def _explain(shares: tuple[Floats, Floats], variances: tuple[Floats, Floats]) -> Floats:
    """The errors that noise on one-ways makes in blocks of their product, where it is the same in all cells of a group.

    Units: counts. Shapes: (blocks,) of each side, to (blocks, blocks).
    """
    (own, other), (of_own, of_other) = shares, variances
    explained: Floats = np.sqrt(np.outer(of_own, np.square(other)) + np.outer(np.square(own), of_other))
    return ONE_WAY_STDDEVS * explained


def expect_gains(errors: Floats, expected: Floats, *, stddev: float | Floats) -> Floats:
    """The expected decrease of each cell's absolute error by an answer, shrunk as `draw_towards` does.

    The error left is the root of two squares: the part that shrinkage takes back, and the mean absolute value of the
    noise that it keeps. An error beyond `OUTLIER` stddevs is not shrunk; it counts by its excess over that, so that
    gains are continuous. Negative where an answer does more harm than good.
    Privacy: its slope in the error is from 0 to 1: what moves an error by 1 moves a gain by 1 at most.
    Shapes: all alike, `errors` not negative. Units: counts of records.
    """
    kept = np.square(SPREAD * expected)
    kept /= kept + stddev**2
    left = 1.0 - kept
    left *= errors
    np.square(left, out=left)
    left += np.square(np.multiply(kept, math.sqrt(2.0 / math.pi) * stddev, out=kept), out=kept)
    np.sqrt(left, out=left)
    gains: Floats = errors - np.minimum(left, OUTLIER * stddev, out=left)
    return gains
