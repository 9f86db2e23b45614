"""Views: which there are, what blocks of neighbours add up to, and answers to them as a loss."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.marginals.answers.measurements import MeasuredMarginals, answer_marginal, count_marginals
from dpwgan.marginals.answers.views import WIDTHS, Views, list_looks
from dpwgan.marginals.groups import GroupLayout, Marginal
from tests.marginals.groups import (
    add_up_gradients,
    answer_by_loop,
    count_by_loop,
    find_slope,
    make_groups,
    make_probabilities,
    replace_row,
)
from tests.marginals.random_answers import add_to_others, join_by_loop, loss_by_loop, measure

SIZES = (9, 3, 17, 2, 5)
LAYOUT = GroupLayout(SIZES)
ORDERED = (True, False, True, True, True)
VIEWS = Views(LAYOUT, ORDERED)
# Blocks beside groups, of one width and of two, and the same pair twice.
MARGINALS: list[Marginal] = [
    (0, 2),
    *VIEWS.list_views((0, 2))[1:],
    (VIEWS.at[2][0], 1),
    (1, VIEWS.at[8][2]),
    (0, VIEWS.at[4][4]),
    (VIEWS.at[4][0], 1, VIEWS.at[8][2]),
    (VIEWS.at[8][0], 1, VIEWS.at[4][2], 3),
]


def find_widths(marginal: Marginal) -> tuple[int, ...]:
    return tuple(VIEWS.width_of[view] for view in marginal)


def name(marginal: Marginal) -> list[tuple[int, int]]:
    """Attributes and widths, as they are sent to where rows are."""
    return list(zip(VIEWS.find_attributes(marginal), find_widths(marginal), strict=True))


def test_there_is_a_view_of_every_width_that_leaves_two_blocks_where_there_is_an_order():
    known = [(attribute, 1) for attribute in range(5)]
    known += [(0, 2), (2, 2), (4, 2), (0, 4), (2, 4), (4, 4), (0, 8), (2, 8)]
    assert list(zip(VIEWS.attribute_of, VIEWS.width_of, strict=True)) == known
    assert VIEWS.sizes == (*SIZES, 5, 9, 3, 3, 5, 2, 2, 3)
    assert [VIEWS.ordered[view] for view in range(len(known))] == [True, False, *[True] * 11]
    assert [find_widths(marginal) for marginal in VIEWS.list_views((1, 2, 4))] == [
        (1, 1, 1),
        (1, 2, 2),
        (1, 4, 4),
        (1, 8, 4),
    ]
    assert VIEWS.list_views((1, 3)) == [(1, 3)]
    assert Views(LAYOUT).sizes == SIZES


@pytest.mark.parametrize(
    ("attributes", "most_cells", "widths"),
    [
        ((0, 2, 4), 765, (1, 1, 1)),
        ((0, 2, 4), 764, (1, 2, 1)),
        ((0, 2, 4), 405, (1, 2, 1)),
        ((0, 2, 4), 404, (2, 2, 1)),
        ((0, 2, 4), 100, (4, 4, 1)),
        ((0, 2, 4), 12, (8, 8, 4)),
        ((0, 2, 4), 11, None),
        ((1, 2, 3), 18, (1, 8, 1)),
        ((1, 2, 3), 17, None),
        ((1, 3), 6, (1, 1)),
        ((1, 3), 5, None),
    ],
)
def test_view_of_few_cells_has_blocks_where_most_groups_are_and_none_longer_than_it_takes(
    attributes, most_cells, widths
):
    found = VIEWS.find_view(attributes, most_cells=most_cells)
    assert (found and find_widths(found)) == widths
    assert found is None or (VIEWS.find_attributes(found), VIEWS.count_cells(found) <= most_cells) == (attributes, True)


@pytest.mark.parametrize("marginal", MARGINALS)
def test_blocks_are_counted_and_answered_as_their_groups_added_up(marginal):
    attributes, widths = VIEWS.find_attributes(marginal), find_widths(marginal)
    groups, probabilities = make_groups(211, sizes=SIZES, seed=1), make_probabilities(7, sizes=SIZES, seed=2)
    counts = count_by_loop(groups, attributes, LAYOUT)
    found = count_marginals(groups, [name(marginal)], LAYOUT).reshape([VIEWS.sizes[view] for view in marginal])
    assert np.array_equal(found, join_by_loop(counts, marginal, VIEWS))
    assert np.array_equal(VIEWS.join(counts, marginal), found)
    answers = join_by_loop(answer_by_loop(probabilities, attributes, LAYOUT), marginal, VIEWS)
    assert answer_marginal(probabilities, marginal, VIEWS) == pytest.approx(answers, abs=1e-6)
    parted = found
    for axis, view in enumerate(marginal):
        parted = np.moveaxis(VIEWS.part(np.moveaxis(parted, axis, 0), view), 0, axis)
    assert parted.shape == counts.shape
    for place in np.ndindex(*counts.shape):
        assert parted[place] == found[tuple(g // w for g, w in zip(place, widths, strict=True))]


@settings(max_examples=40)
@given(st.integers(1, 30), st.integers(0, 2**31))
def test_blocks_move_by_no_more_than_the_sensitivity_when_a_record_goes_or_changes(records, seed):
    rng = np.random.default_rng(seed)
    groups = make_groups(records, sizes=SIZES, seed=seed)
    row = int(rng.integers(records))
    tables = groups, np.delete(groups, row, axis=0), replace_row(groups, row, by=rng.integers(0, SIZES))
    for marginal in MARGINALS:
        counts, without, changed = (count_marginals(table, [name(marginal)], LAYOUT) for table in tables)
        assert np.linalg.norm(counts - without) == 1.0
        assert np.linalg.norm(counts - changed) <= np.sqrt(2)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 20), st.booleans()), min_size=2, max_size=5), st.integers(0, 2**31))
def test_looks_add_up_what_a_loop_does_whatever_has_an_order(columns, seed):
    sizes, ordered = zip(*columns, strict=True)
    views, rng = Views(GroupLayout(sizes), ordered), np.random.default_rng(seed)
    for attribute in range(len(sizes) - 1):
        rest, begin = range(attribute + 1, len(sizes)), views.own.starts[attribute + 1]
        cells = rng.integers(-50, 50, (sizes[attribute], views.own.width - begin)).astype(float)
        joined, number = cells, (np.ones(sizes[attribute]), np.ones(cells.shape[1]))
        looks = list_looks(views, attribute)
        assert [look.width for look in looks] == list(WIDTHS if any(ordered[attribute:]) else WIDTHS[:1])
        for look in looks:
            others = [other for other in rest if look.width == 1 or ordered[attribute] or ordered[other]]
            assert look.others.tolist() == others
            joined, number = look.join(joined), look.join_each(*number)
            own, blocks, starts = views.width_of[views.at[look.width][attribute]], [], []
            for other in others:
                starts.append(len(blocks))
                step, piece = views.width_of[views.at[look.width][other]], views.own.get_slice(other)
                for first in range(piece.start, piece.stop, step):
                    across = cells[:, first - begin : min(first + step, piece.stop) - begin]
                    rows = [across[low : low + own] for low in range(0, sizes[attribute], own)]
                    blocks.append([(row.sum(), row.size) for row in rows])
            assert np.array_equal(joined, np.transpose(blocks)[0])
            assert np.array_equal(np.outer(*number), np.transpose(blocks)[1])
            assert look.starts.tolist() == starts


@pytest.mark.slow
def test_slope_is_that_of_a_loop_when_answers_are_of_blocks():
    """And adding it to others adds it; a twin without one of the answers has another slope."""
    measured, said = measure(MARGINALS, views=VIEWS, seed=8)
    probabilities = make_probabilities(3, sizes=SIZES, seed=9)
    exact = probabilities.astype(np.float64)
    expected = find_slope(lambda at: loss_by_loop(at, said, VIEWS), exact)
    size = np.abs(expected).max()
    slope = add_up_gradients([measured], probabilities)
    assert slope == pytest.approx(expected, abs=1e-5 * size)
    assert add_to_others(measured, probabilities) == pytest.approx(expected, abs=1e-5 * size)
    for marginal in MARGINALS:
        twin = MeasuredMarginals(VIEWS)
        for other, (shares, stddevs) in said.items():
            if other != marginal:
                twin.add(other, shares, stddev=stddevs)
        assert np.abs(add_up_gradients([twin], probabilities) - expected).max() > 1e-4 * size, marginal


def test_answers_of_blocks_come_back_as_they_were_when_they_are_packed():
    measured, said = measure(MARGINALS, views=VIEWS, seed=3)
    copied = MeasuredMarginals(VIEWS)
    assert copied.unpack(measured.pack(MARGINALS)) == MARGINALS
    for marginal, (shares, _) in said.items():
        assert np.array_equal(copied.get_shares(marginal), shares)
    probabilities: npt.NDArray[np.float32] = make_probabilities(6, sizes=SIZES, seed=12)
    assert np.array_equal(*(add_up_gradients([loss], probabilities) for loss in (copied, measured)))
