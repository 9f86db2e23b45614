"""The query player: how far a record moves its scores, how it selects, what noise it answers with, whom it asks."""

import functools
import itertools
import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpwgan.marginals.answers.denoising import draw_towards
from dpwgan.marginals.answers.measurements import MeasuredMarginals, answer_marginal
from dpwgan.marginals.answers.public_prior import PublicPrior
from dpwgan.marginals.answers.views import Views
from dpwgan.marginals.groups import GroupLayout, Marginal
from dpwgan.marginals.selection import queries
from dpwgan.marginals.selection.queries import (
    ANSWER_LABEL,
    SELECTION_LABEL,
    SELECTION_SENSITIVITY,
    QueryDiscriminator,
    expect_gains,
    plan_queries,
)
from dpwgan.privacy.events import ExponentialSelection
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.privacy.randomness import make_streams
from dpwgan.privacy.release import Release
from tests.counts import count_marginal
from tests.ledgers import Watcher, open_ledger
from tests.marginals.groups import (
    answer_by_loop,
    are_joined,
    count_by_loop,
    make_groups,
    make_probabilities,
    replace_row,
)
from tests.rows import hold_groups

FALSE_ALARM = 1e-6
SIZES = (3, 1, 4, 2, 5)
LAYOUT = GroupLayout(SIZES)
PAIRS = list(itertools.combinations(range(len(SIZES)), 2))


def make_discriminator(
    groups: npt.NDArray[np.int32],
    *,
    layout: GroupLayout = LAYOUT,
    asked: Sequence[Marginal] = (),
    measured: MeasuredMarginals | None = None,
    ordered: Sequence[bool] = (),
    selection_epsilon: float = 1.0,
    answer_noise_multiplier: float = 2.0,
    source: NoiseSource | int = 0,
    watcher: Watcher | None = None,
    zeroed_out: int = 0,
    **more: Any,
) -> QueryDiscriminator:
    """Beside the rows so many are `zeroed_out`: they add nothing to any count, and are counted as records."""
    limits = {"most_ways": 2, "most_cells": 100_000, "prior": None, "threads": 1, **more}
    measured = MeasuredMarginals(Views(layout, ordered)) if measured is None else measured
    for marginal in asked:
        measured.add(marginal, np.zeros([layout.sizes[attribute] for attribute in marginal]), stddev=1.0)
    lines = plan_queries(10_000, selection_epsilon=selection_epsilon, answer_noise_multiplier=answer_noise_multiplier)
    ledger = open_ledger(lines, source=source, observers=[] if watcher is None else [watcher])
    records = len(groups) + zeroed_out
    return QueryDiscriminator(hold_groups(groups, layout), measured=measured, records=records, ledger=ledger, **limits)


@pytest.fixture
def _many_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attributes count as so many that not all sets of three are candidates."""
    monkeypatch.setattr(queries, "MOST_LARGER", math.comb(5, 3) - 1)


def ask_exactly(discriminator: QueryDiscriminator, shares: list[npt.NDArray], *, edges: int) -> list[Marginal]:
    """Asks for a tree where one-way shares have no noise."""
    return discriminator.ask_for_tree(shares, stddevs=[np.zeros(len(share)) for share in shares], edges=edges)


class Selecting(NoiseSource):
    """Selects one and the same candidate."""

    def __init__(self, index: int) -> None:
        streams = make_streams(1)
        super().__init__(noise=streams.noise, batches=streams.batches)
        self._index = index

    def select(self, release: Release, scores: npt.ArrayLike) -> int:
        return self._index


def find_gain(error: float, expected: float, *, stddev: float) -> float:
    """The gain of one cell, as written down in `expect_gains`."""
    kept = (queries.SPREAD * expected) ** 2 / ((queries.SPREAD * expected) ** 2 + stddev**2)
    left = math.sqrt(((1 - kept) * error) ** 2 + 2 / math.pi * (kept * stddev) ** 2)
    return max(error - left, error - queries.OUTLIER * stddev)


def list_widths(sizes: Sequence[int], ordered: Sequence[bool]) -> list[tuple[int, ...]]:
    """How many groups go into a block of each attribute, in all views of a marginal: two blocks are left at least."""
    found = []
    for most in (1, 2, 4, 8):
        fitting = [[w for w in (2, 4, 8) if w <= most and w < size] for size in sizes]
        view = tuple(max([1, *(of if has_order else [])]) for of, has_order in zip(fitting, ordered, strict=True))
        found += [] if view in found else [view]
    return found


def add_up_gains(
    cells: Iterable[tuple[tuple[int, ...], float, float]],
    *,
    widths: Sequence[Sequence[int]],
    stddev: float,
    whole: bool,
) -> list[float]:
    """The score of a marginal in each of its views, added up block by block in float64.

    Of each cell: its place, the count, and the expected one. `whole`: whether single groups score by the width at which
    their answers, added up, say most.
    """
    cells, asked, added_up = list(cells), [], []
    for view in widths:
        blocks: dict[tuple[int, ...], list[float]] = {}
        for cell, count, expected in cells:
            block = blocks.setdefault(tuple(g // w for g, w in zip(cell, view, strict=True)), [0.0, 0.0, 0.0])
            block[:] = block[0] + count - expected, block[1] + expected, block[2] + 1
        part = 1.0 if max(view) == 1 else 0.5
        asked.append(part * sum(find_gain(abs(error), own, stddev=stddev) for error, own, _ in blocks.values()))
        added_up.append(
            sum(find_gain(abs(error), own, stddev=stddev * math.sqrt(number)) for error, own, number in blocks.values())
        )
    return [max(added_up), *asked[1:]] if whole else asked


def count_gains(
    groups: npt.NDArray[np.int32],
    marginal: Marginal,
    probabilities: npt.NDArray[np.float32],
    *,
    stddev: float,
    ordered: Sequence[bool] = (False,) * len(SIZES),
    views: Sequence[tuple[int, ...]] | None = None,
) -> list[float]:
    """The scores of a marginal, in all its views or some, of which nothing is explained by noise."""
    counts = count_by_loop(groups, marginal, LAYOUT)
    expected = len(groups) * answer_by_loop(probabilities, marginal, LAYOUT)
    cells = ((cell, float(count), float(expected[cell])) for cell, count in np.ndenumerate(counts))
    widths = list_widths([SIZES[a] for a in marginal], [ordered[a] for a in marginal]) if views is None else views
    return add_up_gains(cells, widths=widths, stddev=stddev, whole=len(marginal) == 2)


@pytest.mark.usefixtures("_many_attributes")
@pytest.mark.parametrize("ordered", [(False,) * 5, (True,) * 5, (True, False, False, True, True)])
@pytest.mark.parametrize("most_cells", [1_000, 4 * 40])
def test_scores_are_expected_gains_when_computed_block_by_block(ordered, most_cells):
    watch = Watcher()
    groups = make_groups(60, sizes=SIZES, seed=1)
    probabilities = make_probabilities(7, sizes=SIZES, seed=2)
    more: dict[str, Any] = {"most_ways": 3, "ordered": ordered, "answer_noise_multiplier": 0.7, "watcher": watch}
    make_discriminator(groups, asked=[(0, 2), (2, 4)], most_cells=most_cells, **more).ask(probabilities)
    by_loop = functools.partial(count_gains, groups, probabilities=probabilities, stddev=0.7)
    expected = [score for pair in PAIRS for score in by_loop(marginal=pair, ordered=ordered)]
    # Of the three, of 60 cells, the view that has few of them: the longest, of 5 groups, in blocks of 2 if it may be.
    views = [(1, 1, 1)] if most_cells >= 4 * 60 else [(1, 1, 2)] * ordered[4]
    expected += by_loop(marginal=(0, 2, 4), ordered=ordered, views=views)
    assert watch.scores[0] == pytest.approx(np.array(expected), abs=1e-3)
    # Blocks show more than cells do, where there are any.
    firsts = [by_loop(marginal=pair, ordered=ordered)[0] for pair in PAIRS]
    assert any(score > by_loop(marginal=p)[0] + 1e-3 for score, p in zip(firsts, PAIRS, strict=True)) is any(ordered)


@pytest.mark.parametrize("cells", [1, 200, 2_000])
def test_scores_are_the_same_when_they_are_taken_in_several_blocks(monkeypatch, cells):
    sizes = (37, 3, 21)
    layout, ordered = GroupLayout(sizes), (True, False, True)
    groups = make_groups(600, sizes=sizes, seed=1)
    probabilities = make_probabilities(7, sizes=sizes, seed=2)
    shares = [part.mean(axis=0) for part in np.split(probabilities, layout.starts[1:], axis=1)]
    more: dict[str, Any] = {"layout": layout, "ordered": ordered}
    monkeypatch.setattr(queries, "_BLOCK_CELLS", cells)
    cut = [ask_once(groups, part, shares, **more) for part in (probabilities, None)]
    monkeypatch.setattr(queries, "_BLOCK_CELLS", 1 << 20)
    whole = [ask_once(groups, part, shares, **more) for part in (probabilities, None)]
    assert np.hstack(cut) == pytest.approx(np.hstack(whole), rel=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize(("error", "expected"), [(0.0, 100.0), (30.0, 100.0), (5.0, 2.0), (200.0, 3.0), (60.0, 40.0)])
def test_expected_gain_is_that_of_answers_drawn_back_when_many_are_drawn(error, expected):
    """Against 200,000 answers with noise; within a tenth of the noise, which is what leaving out the cut costs."""
    noisy = expected + error + 10.0 * np.random.default_rng(11).standard_normal(200_000)
    drawn = draw_towards(noisy, np.full(200_000, expected), stddev=10.0)
    gain = error - float(np.abs(drawn - expected - error).mean())
    claimed = float(expect_gains(np.array([error]), np.array([expected]), stddev=10.0)[0])
    # A cell that is expected empty and holds much: the gain counts by what the error exceeds the cut by, which is less.
    room = 40.0 if error > 100 else 2.0
    assert claimed - 2.0 <= gain <= claimed + room


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1), st.floats(1e-3, 1e4))
def test_gain_moves_by_no_more_than_the_error_when_it_moves(error, expected, step, stddev):
    before, after = (
        float(expect_gains(np.array([size]), np.array([expected]), stddev=stddev)[0]) for size in (error, error + step)
    )
    assert -1e-9 <= after - before <= step + 1e-9


@pytest.mark.parametrize("ordered", [(False,) * 5, (True, False, True, False, True)])
def test_tree_scores_leave_out_what_noise_of_one_ways_explains_when_computed_block_by_block(ordered):
    groups = make_groups(60, sizes=SIZES, seed=1)
    rng = np.random.default_rng(2)
    shares = [rng.dirichlet(np.ones(size)) for size in SIZES]
    stddevs = [rng.uniform(0.0, 3.0, size) for size in SIZES]
    watch = Watcher()
    discriminator = make_discriminator(groups, answer_noise_multiplier=0.5, watcher=watch, ordered=ordered)
    discriminator.ask_for_tree(shares, stddevs=stddevs, edges=1)
    expected = []
    for pair in PAIRS:
        gains = []
        for widths in list_widths([SIZES[a] for a in pair], [ordered[a] for a in pair]):
            gains.append(0.0)
            cut = [np.split(np.arange(SIZES[a]), range(w, SIZES[a], w)) for a, w in zip(pair, widths, strict=True)]
            for blocks in itertools.product(*cut):
                error = count_by_loop(groups, pair, LAYOUT)[np.ix_(*blocks)].sum()
                (own, other), (noise, of_other) = (
                    [part[a][block] for a, block in zip(pair, blocks, strict=True)] for part in (shares, stddevs)
                )
                explained = math.hypot(math.sqrt(sum(noise**2)) * sum(other), sum(own) * math.sqrt(sum(of_other**2)))
                expectation = 60 * sum(own) * sum(other)
                left = max(0.0, abs(error - expectation) - queries.ONE_WAY_STDDEVS * explained)
                gains[-1] += find_gain(left, expectation, stddev=0.5 * math.sqrt(len(own) * len(other)))
        expected.append(max(gains))
    assert watch.scores[0] == pytest.approx(np.array(expected), abs=1e-3)


def test_scores_are_the_same_to_the_bit_when_one_process_or_two_take_them(monkeypatch):
    monkeypatch.setattr(queries, "_LEAST_APART", 0)
    forks: list[int] = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: forks.append(1) or fork())
    groups, probabilities = make_groups(60, sizes=SIZES, seed=1), make_probabilities(7, sizes=SIZES, seed=2)
    more: dict[str, Any] = {"most_ways": 3, "asked": [(0, 2), (2, 4), (0, 4), (0, 3), (3, 4)], "ordered": (True,) * 5}
    alone = ask_once(groups, probabilities, [], threads=1, **more)
    assert not forks
    assert np.array_equal(ask_once(groups, probabilities, [], threads=None, **more), alone)
    assert len(forks) == 1
    assert np.all(alone[-2:] != 0.0)  # larger marginals, of which each process has some


def ask_once(
    groups: npt.NDArray[np.int32], probabilities: npt.NDArray[np.float32] | None, shares: list[npt.NDArray], **more: Any
) -> npt.NDArray[np.float64]:
    """All scores of one selection; of the tree's first one where there are no codes yet."""
    watch = Watcher()
    discriminator = make_discriminator(groups, watcher=watch, **more)
    if probabilities is None:
        discriminator.ask_for_tree(shares, stddevs=[np.full(len(share), 0.7) for share in shares], edges=1)
    else:
        discriminator.ask(probabilities)
    assert watch.releases[0].label == SELECTION_LABEL
    assert watch.releases[0].sensitivity == SELECTION_SENSITIVITY
    assert watch.releases[0].event.replace_one_factor == 2.0  # type: ignore[union-attr]
    return np.array(watch.scores[0])


@settings(max_examples=40)
@given(st.integers(2, 40), st.integers(0, 2**31), st.booleans(), st.tuples(*[st.booleans()] * len(SIZES)))
def test_scores_move_by_no_more_than_their_sensitivity_when_a_record_goes_or_changes(records, seed, of_tree, ordered):
    rng = np.random.default_rng(seed)
    groups = make_groups(records, sizes=SIZES, seed=seed)
    row = int(rng.integers(records))
    # Answers that no neighbour had a part in: any at all.
    probabilities = None if of_tree else make_probabilities(5, sizes=SIZES, seed=seed)
    shares = [rng.dirichlet(np.ones(size)) for size in SIZES]
    asked = [tuple(sorted(rng.choice(5, 2, replace=False).tolist())) for _ in range(4)]
    more: dict[str, Any] = {"asked": asked, "most_ways": 4, "ordered": ordered}
    scores = ask_once(groups, probabilities, shares, **more)
    without = ask_once(np.delete(groups, row, axis=0), probabilities, shares, zeroed_out=1, **more)
    changed = replace_row(groups, row, by=rng.integers(0, SIZES))
    replaced = ask_once(changed, probabilities, shares, **more)
    assert len(scores) == len(without) == len(replaced) >= len(PAIRS)
    assert of_tree or len(scores) > len(PAIRS) or len(set(asked)) < 2 or not _touch(asked)
    assert np.max(np.abs(scores - without)) <= SELECTION_SENSITIVITY
    assert np.max(np.abs(scores - replaced)) <= 2 * SELECTION_SENSITIVITY


def _touch(asked: Sequence[Marginal]) -> bool:
    return any(len(set(one) & set(other)) == 1 for one, other in itertools.combinations(asked, 2))


@pytest.mark.parametrize("has_order", [False, True])
def test_score_moves_by_its_sensitivity_when_a_cell_is_short_of_records(has_order):
    groups = np.zeros((9, 5), np.int32)
    probabilities = np.zeros((1, LAYOUT.width), np.float32)
    probabilities[0, list(LAYOUT.starts)] = 1.0
    shares = [np.eye(size)[0] for size in SIZES]
    # Next to no noise: every error stands out of it.
    more: dict[str, Any] = {"answer_noise_multiplier": 1e-9, "ordered": [has_order] * len(SIZES)}
    scores = ask_once(groups, probabilities, shares, **more)
    without = ask_once(groups[1:], probabilities, shares, zeroed_out=1, **more)
    changed = replace_row(groups, 0, by=[1, 0, 1, 1, 1])
    replaced = ask_once(changed, probabilities, shares, **more)
    groups_of_pairs = np.flatnonzero(without - scores > 0.75)
    assert len(groups_of_pairs) == len(PAIRS)
    assert (without - scores)[groups_of_pairs] == pytest.approx(1.0)
    assert (replaced - scores)[groups_of_pairs] == pytest.approx(2.0, abs=1e-5)
    of_blocks = np.delete(without - scores, groups_of_pairs)
    assert len(of_blocks) == (13 if has_order else 0)
    assert of_blocks == pytest.approx(0.5)


@pytest.mark.parametrize("has_order", [False, True])
def test_scores_hold_their_sensitivity_when_the_table_is_large_and_wide(has_order):
    """Where sums are long enough to be rounded: the room above 1 is for that, and must be more than is used."""
    sizes = (300, 300)
    layout = GroupLayout(sizes)
    groups = make_groups(200_000, sizes=sizes, seed=3)
    probabilities = make_probabilities(30, sizes=sizes, seed=4)
    shares: list[npt.NDArray] = []
    more: dict[str, Any] = {"layout": layout, "most_cells": 10**6, "ordered": [has_order] * 2}
    scores = ask_once(groups, probabilities, shares, **more)
    for row in (0, 77):
        without = ask_once(np.delete(groups, row, axis=0), probabilities, shares, zeroed_out=1, **more)
        assert np.abs(scores - without).max() <= SELECTION_SENSITIVITY


@pytest.mark.usefixtures("_many_attributes")
@pytest.mark.parametrize("marginal", [(0, 2), (0, 2, 4)])
def test_answer_is_the_share_of_records_when_there_is_hardly_any_noise(marginal):
    groups = make_groups(400, sizes=SIZES, seed=6)
    measured = MeasuredMarginals(Views(LAYOUT))
    selecting = Selecting([*PAIRS, (0, 2, 4)].index(marginal))
    more: dict[str, Any] = {"asked": [(0, 2), (2, 4)], "most_ways": 3, "answer_noise_multiplier": 1e-3}
    discriminator = make_discriminator(groups, measured=measured, source=selecting, **more)
    assert discriminator.ask(make_probabilities(3, sizes=SIZES, seed=7)) == [marginal]
    # An answer of stddev 0.0025 of a share beside one of 1 that was there before.
    assert measured.get_shares(marginal) * 400 == pytest.approx(count_marginal(groups, marginal, LAYOUT), abs=0.02)


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "broken"), [(0.3, False), (0.6, True)])
def test_candidates_are_drawn_by_the_exponential_law_when_asked_many_times(epsilon, broken):
    """Against the law for an epsilon of 0.3, from scores counted by loops; the twin spends twice that on a draw."""
    groups = make_groups(30, sizes=SIZES, seed=8)
    probabilities = make_probabilities(3, sizes=SIZES, seed=9)
    discriminator = make_discriminator(groups, selection_epsilon=epsilon, answer_noise_multiplier=0.5)
    drawn = [PAIRS.index(discriminator.ask(probabilities)[0]) for _ in range(1_500)]  # type: ignore[arg-type]
    scores = np.array([count_gains(groups, pair, probabilities, stddev=0.5)[0] for pair in PAIRS])
    expected = np.exp(0.3 * (scores - scores.max()) / 2)
    expected *= len(drawn) / expected.sum()
    assert expected.min() >= 5
    assert bool(stats.chisquare(np.bincount(drawn, minlength=len(PAIRS)), expected).pvalue < FALSE_ALARM) is broken


@pytest.mark.parametrize("sizes", [(2,), (2, 3), SIZES, (4,) * 9])
def test_tree_joins_everything_without_a_circle_when_asked_for(sizes):
    watch = Watcher()
    layout, measured = GroupLayout(sizes), MeasuredMarginals(Views(GroupLayout(sizes)))
    groups = make_groups(100, sizes=sizes, seed=10)
    discriminator = make_discriminator(groups, layout=layout, measured=measured, selection_epsilon=0.7, watcher=watch)
    shares = [count_marginal(groups, (attribute,), layout) / 100 for attribute in range(len(sizes))]
    edges = len(sizes) - 1
    tree = ask_exactly(discriminator, shares, edges=edges)
    assert len(tree) == edges
    assert sorted(measured) == sorted(tree)
    # With one edge fewer than there are attributes, all are reached only if there is no circle.
    assert are_joined(range(len(sizes)), tree)
    assert watch.order == [SELECTION_LABEL, ANSWER_LABEL] * edges
    for selection in watch.releases[::2]:
        assert selection.sensitivity == SELECTION_SENSITIVITY
        assert selection.event == ExponentialSelection(epsilon=0.7, replace_one_factor=2.0)
    # After an edge, pairs inside a part are no candidates any more.
    assert [len(scores) for scores in watch.scores] == sorted((len(scores) for scores in watch.scores), reverse=True)


def test_tree_takes_the_pairs_that_hang_together_most_when_epsilon_is_large():
    rng = np.random.default_rng(11)
    first = rng.integers(0, 3, 3_000)
    other = rng.integers(0, 4, 3_000)
    groups = np.stack([first, other, first, np.where(rng.random(3_000) < 0.8, other, 0)], axis=1).astype(np.int32)
    layout = GroupLayout((3, 4, 3, 4))
    discriminator = make_discriminator(groups, layout=layout, selection_epsilon=100.0)
    shares = [count_marginal(groups, (attribute,), layout) / 3_000 for attribute in range(4)]
    assert {(0, 2), (1, 3)} <= set(ask_exactly(discriminator, shares, edges=3))


def test_first_question_is_where_a_public_table_is_most_wrong_and_moves_no_more_than_others():
    layout, rng = GroupLayout((3, 3, 4)), np.random.default_rng(5)
    groups, public = (rng.integers(0, layout.sizes, (400, 3)).astype(np.int32) for _ in range(2))
    public[:, 1] = public[:, 0]
    shares = [count_marginal(groups, (attribute,), layout) / 400 for attribute in range(3)]
    prior, found = PublicPrior(public, Views(layout), one_ways=shares, stddev=0.01), []
    for rows, zeroed_out in ((groups, 0), (groups[:-1], 1)):
        watch = Watcher()
        more = {
            "layout": layout,
            "watcher": watch,
            "zeroed_out": zeroed_out,
            "prior": prior,
            "source": int(rng.integers(9)),
        }
        discriminator = make_discriminator(rows, selection_epsilon=100.0, **more)
        assert ask_exactly(discriminator, shares, edges=1) == [(0, 1)]
        found.append(np.array(watch.scores[0]))
    assert np.abs(found[0] - found[1]).max() <= SELECTION_SENSITIVITY


def test_no_more_candidates_of_four_attributes_are_listed_than_there_may_be(monkeypatch):
    sizes = (2,) * 8
    layout, measured = GroupLayout(sizes), MeasuredMarginals(Views(GroupLayout(sizes)))
    for pair in itertools.combinations(range(8), 2):
        measured.add(pair, np.full((2, 2), 0.25), stddev=0.1)
    monkeypatch.setattr(queries, "MOST_LARGER", 9)
    groups = make_groups(50, sizes=sizes, seed=13)
    found = make_discriminator(groups, layout=layout, measured=measured, most_ways=5)._find_larger()
    by_size = [sum(len(marginal) == size for marginal in found) for size in (3, 4, 5)]
    assert by_size[0] == math.comb(8, 3)
    assert by_size[1:] == [9, 9]


@pytest.mark.usefixtures("_many_attributes")
def test_questions_by_the_same_scores_have_one_attribute_in_common_at_most_when_there_are_others():
    for seed in range(20):
        watch = Watcher()
        discriminator = make_discriminator(
            make_groups(50, sizes=SIZES, seed=seed), asked=[(0, 2), (2, 4)], most_ways=3, watcher=watch
        )
        asked = discriminator.ask(make_probabilities(3, sizes=SIZES, seed=seed), times=12)
        assert watch.order == [SELECTION_LABEL, ANSWER_LABEL] * 12
        every = [*PAIRS, (0, 2, 4)]
        scores, left = dict(zip(every, watch.scores[0], strict=True)), every
        for marginal, seen in zip(asked, watch.scores, strict=True):
            assert list(seen) == [scores[candidate] for candidate in left]
            assert marginal in left
            left = [other for other in left if len(set(marginal) & set(other)) < 2] or every


@pytest.mark.parametrize("most_ways", [2, 3, 4])
@pytest.mark.parametrize("most_cells", [4, 240, 10_000])
@pytest.mark.parametrize("most", [5, 10])
def test_larger_candidates_are_those_of_few_cells_joined_where_all_are_many(most_ways, most_cells, most, monkeypatch):
    monkeypatch.setattr(queries, "MOST_LARGER", most)
    rng = np.random.default_rng(most_ways * most_cells)
    for trial in range(15):
        ways = [tuple(sorted(rng.choice(5, int(rng.integers(1, 4)), replace=False).tolist())) for _ in range(4)]
        discriminator = make_discriminator(
            make_groups(20, sizes=SIZES, seed=trial), asked=ways, most_ways=most_ways, most_cells=most_cells
        )
        expected = [
            marginal
            for size in range(3, most_ways + 1)
            for marginal in itertools.combinations(range(5), size)
            if LAYOUT.count_cells(marginal) <= most_cells // 4
            and (math.comb(5, size) <= most or are_joined(marginal, ways))
        ]
        assert discriminator._find_larger() == sorted(expected)


@pytest.mark.parametrize(("attributes", "cells"), [(3, 4_096), (12, 4_096), (13, 2_048), (98, 2_048)])
def test_larger_marginals_may_have_more_cells_where_attributes_are_few(attributes, cells):
    assert queries.limit_larger_cells(16_384, attributes=attributes) == cells


@pytest.mark.usefixtures("_many_attributes")
def test_candidates_are_the_same_when_tables_differ_and_releases_do_not():
    """What is asked of rows must be public before: two tables that share nothing but what was released."""
    lists = []
    for seed, records in ((1, 90), (2, 17)):
        watch = Watcher()
        groups, asked = make_groups(records, sizes=SIZES, seed=seed), [(0, 1), (1, 4), (2, 3)]
        discriminator = make_discriminator(groups, asked=asked, most_ways=3, most_cells=240, watcher=watch)
        found = discriminator._find_larger()
        discriminator.ask(make_probabilities(3, sizes=SIZES, seed=0))
        lists.append((found, len(watch.scores[0])))
    assert lists[0] == lists[1]
    assert lists[0][0] == [(0, 1, 4)]


def test_pairs_of_many_cells_are_left_out_when_there_are_smaller_ones():
    watch = Watcher()
    discriminator = make_discriminator(make_groups(50, sizes=SIZES, seed=13), most_cells=8, watcher=watch)
    asked = {discriminator.ask(make_probabilities(2, sizes=SIZES, seed=seed))[0] for seed in range(40)}
    small = [pair for pair in PAIRS if LAYOUT.count_cells(pair) <= 8]
    assert asked <= set(small)
    assert {len(scores) for scores in watch.scores} == {len(small)}
    # Where every pair is too large, one of them has to do.
    layout = GroupLayout((9, 9))
    lone = make_discriminator(make_groups(50, sizes=(9, 9), seed=14), layout=layout, most_cells=8)
    assert lone.ask(make_probabilities(2, sizes=(9, 9), seed=0)) == [(0, 1)]


@pytest.mark.parametrize("has_order", [True, False])
def test_blocks_are_asked_for_when_single_cells_hide_in_noise(has_order):
    """A ridge of 4,000 rows over 40 x 40 cells beside noise of 40 rows: without an order there is nothing to see."""
    rng = np.random.default_rng(16)
    along = rng.integers(0, 40, 4_000)
    ridge = np.clip(along + rng.integers(-4, 5, 4_000), 0, 39)
    groups = np.stack([along, ridge, rng.integers(0, 40, 4_000)], axis=1).astype(np.int32)
    layout, codes = GroupLayout((40, 40, 40)), np.full((1, 120), 1 / 40, np.float32)
    measured, watch = MeasuredMarginals(Views(layout, [has_order] * 3)), Watcher()
    discriminator = make_discriminator(
        groups,
        layout=layout,
        measured=measured,
        selection_epsilon=0.5,
        answer_noise_multiplier=40.0,
        watcher=watch,
    )
    (asked,) = discriminator.ask(codes)
    widths = [measured.views.width_of[view] for view in asked]
    assert (measured.views.find_attributes(asked) == (0, 1) and widths == [8, 8]) is has_order
    if has_order:
        counts = measured.views.join(count_marginal(groups, (0, 1), layout), asked)
        before = np.abs(counts / 4_000 - 1 / 25).sum()
        assert np.abs(measured.get_shares(asked) - counts / 4_000).sum() < before / 3
    else:
        assert max(watch.scores[0]) < 200


def test_larger_marginal_is_asked_for_when_only_it_is_wrong():
    """Three coins whose parity is even: every pair looks independent, and the generator has every pair right."""
    rng = np.random.default_rng(15)
    two = rng.integers(0, 2, (4_000, 2))
    groups = np.hstack([two, two.sum(axis=1, keepdims=True) % 2]).astype(np.int32)
    layout = GroupLayout((2, 2, 2))
    discriminator = make_discriminator(
        groups, layout=layout, asked=[(0, 1), (1, 2)], most_ways=3, selection_epsilon=10.0
    )
    codes = np.full((1, 6), 0.5, np.float32)
    assert np.abs(answer_marginal(codes, (0, 1, 2), Views(layout)) - 0.125).max() < 1e-6
    assert discriminator.ask(codes) == [(0, 1, 2)]
