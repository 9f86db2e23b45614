"""Marginals: counted and answered as by explicit sums, their loss's slope, and how far one record moves them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.marginals.answers.measurements import MeasuredMarginals, answer_marginal, answer_pairs, count_pairs
from dpwgan.marginals.answers.views import Views
from dpwgan.marginals.groups import GroupLayout, Marginal
from tests.counts import count_marginal
from tests.marginals.groups import (
    Floats,
    add_up_gradients,
    answer_by_loop,
    count_by_loop,
    find_slope,
    list_cells,
    make_groups,
    make_probabilities,
    replace_row,
)
from tests.marginals.random_answers import add_to_others, loss_by_loop, measure

SIZES = (3, 1, 4, 2, 5)
LAYOUT = GroupLayout(SIZES)
VIEWS = Views(LAYOUT)
MARGINALS: list[Marginal] = [
    marginal for ways in (1, 2, 3, 4) for marginal in itertools.combinations(range(len(SIZES)), ways)
]


def test_layout_says_where_groups_lie_when_sizes_differ():
    assert (LAYOUT.width, LAYOUT.attributes, LAYOUT.starts) == (15, 5, (0, 3, 4, 8, 10))
    assert LAYOUT.get_slice(2) == slice(4, 8)
    assert LAYOUT.count_cells((0, 2, 4)) == 60


@pytest.mark.parametrize("marginal", MARGINALS)
def test_counts_are_those_of_a_loop_when_every_row_is_looked_at(marginal):
    groups = make_groups(211, sizes=SIZES, seed=1)
    expected = count_by_loop(groups, marginal, LAYOUT)
    assert np.array_equal(count_marginal(groups, marginal, LAYOUT), expected)
    pairs = count_pairs(groups, LAYOUT)
    if len(marginal) == 2:
        left, right = (LAYOUT.get_slice(attribute) for attribute in marginal)
        assert np.array_equal(pairs[left, right], expected)
        assert np.array_equal(pairs[right, left], expected.T)
    if len(marginal) == 1:
        piece = LAYOUT.get_slice(marginal[0])
        assert np.array_equal(pairs[piece, piece], np.diag(expected))


@pytest.mark.parametrize("marginal", [marginal for marginal in MARGINALS if len(marginal) > 1])
def test_answers_are_those_of_explicit_sums_when_codes_are_random(marginal):
    probabilities = make_probabilities(17, sizes=SIZES, seed=3)
    expected = answer_by_loop(probabilities, marginal, LAYOUT)
    assert answer_marginal(probabilities, marginal, VIEWS) == pytest.approx(expected, abs=1e-6)
    assert expected.sum() == pytest.approx(1.0, abs=1e-5)
    if len(marginal) == 2:
        left, right = (LAYOUT.get_slice(attribute) for attribute in marginal)
        assert answer_pairs(probabilities)[left, right] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("sizes", [SIZES, (40, 33), (2,) * 9, (6, 5, 2, 31, 1, 4, 32, 3), (1, 1, 1), (3, *(1,) * 40)])
@pytest.mark.parametrize("records", [0, 1, 300, (1 << 16) + 3])
def test_pairs_are_counted_as_one_by_one_whatever_chunks_and_attributes_are_counted_together(records, sizes):
    layout, groups = GroupLayout(sizes), make_groups(records, sizes=sizes, seed=13)
    pairs = count_pairs(groups, layout)
    for left, right in itertools.product(range(len(sizes)), repeat=2):
        both, cells = groups[:, left].astype(int) * sizes[right] + groups[:, right], sizes[left] * sizes[right]
        expected = np.bincount(both, minlength=cells).reshape(sizes[left], sizes[right])
        assert np.array_equal(pairs[layout.get_slice(left), layout.get_slice(right)], expected)


def test_answers_are_a_part_of_all_pairs_when_some_groups_are_asked_for():
    probabilities = make_probabilities(17, sizes=SIZES, seed=14)
    part = answer_pairs(probabilities, slice(2, 5), slice(7, 15))
    assert part == pytest.approx(answer_pairs(probabilities)[2:5, 7:15], abs=1e-6)


@pytest.mark.parametrize("marginals", [[marginal] for marginal in MARGINALS[::2]] + [MARGINALS])
def test_loss_slopes_as_finite_differences_do_when_marginals_have_one_to_four_attributes(marginals):
    measured, said = measure(marginals, views=VIEWS, seed=4)
    assert list(measured) == marginals
    probabilities = make_probabilities(3, sizes=SIZES, seed=5).astype(np.float64)
    gradient = add_up_gradients([measured], probabilities)  # type: ignore[arg-type]
    slope = find_slope(lambda at: loss_by_loop(at, said, VIEWS), probabilities)
    assert gradient == pytest.approx(slope, rel=1e-6, abs=1e-8)
    # What is computed in float32 in a run is the same but for its rounding.
    coarse = add_up_gradients([measured], probabilities.astype(np.float32))
    assert coarse.dtype == np.float32
    assert coarse == pytest.approx(gradient, rel=1e-3, abs=1e-4 * np.abs(gradient).max())


def slope_by_loop(probabilities: Floats, said: dict[Marginal, tuple]) -> Floats:
    """The gradient cell by cell in float64, by the product rule."""
    codes, gradient = len(probabilities), np.zeros_like(probabilities)
    for marginal, (shares, stddevs) in said.items():
        weighted = (answer_by_loop(probabilities, marginal, LAYOUT) - shares) / stddevs**2 / codes
        for cell in list_cells(marginal, LAYOUT):
            places = [LAYOUT.starts[attribute] + group for attribute, group in zip(marginal, cell, strict=True)]
            for place in places:
                others = [other for other in places if other != place]
                gradient[:, place] += weighted[cell] * probabilities[:, others].prod(axis=1)
    return gradient


def forget_one(said: dict[Marginal, tuple], marginal: Marginal) -> dict[Marginal, tuple]:
    """A broken twin: one answer is not compared."""
    return {other: answer for other, answer in said.items() if other != marginal}


def turn_shares(said: dict[Marginal, tuple], marginal: Marginal) -> dict[Marginal, tuple]:
    """A broken twin: the shares of one answer lie in another order than its cells."""
    shares, stddevs = said[marginal]
    return {**said, marginal: (np.ravel(shares)[::-1].reshape(shares.shape), stddevs)}


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [MARGINALS, MARGINALS[::-2], [(0, 4), (1, 2), (1, 3), (1, 4), (2, 3, 4)]])
def test_slope_in_float32_is_that_of_a_loop_in_float64_when_pairs_do_and_do_not_lie_side_by_side(chosen):
    measured, said = measure(chosen, views=VIEWS, seed=8)
    probabilities = make_probabilities(40, sizes=SIZES, seed=9)
    exact = probabilities.astype(np.float64)
    expected, size = slope_by_loop(exact, said), np.abs(slope_by_loop(exact, said)).max()
    slope = add_up_gradients([measured], probabilities)
    assert slope == pytest.approx(expected, abs=2e-6 * size)
    assert add_to_others(measured, probabilities) == pytest.approx(expected, abs=2e-6 * size)
    for twin in (forget_one, turn_shares):
        for marginal in chosen:
            if LAYOUT.count_cells(marginal) > 1:
                broken = slope_by_loop(exact, twin(said, marginal))
                assert np.abs(slope - broken).max() > 2e-5 * size, (twin, marginal)


def test_gradient_is_that_of_all_answers_when_some_come_after_it_was_taken():
    marginals: list[Marginal] = [(0,), (0, 2), (0, 3), (0, 2, 4)]
    probabilities = make_probabilities(6, sizes=SIZES, seed=12)
    whole, _ = measure(marginals, views=VIEWS, seed=11)
    growing, copied = MeasuredMarginals(VIEWS), MeasuredMarginals(VIEWS)
    for marginal in marginals:
        add_up_gradients([copied], probabilities)
        copied.unpack(whole.pack([marginal]))
    for number in range(1, len(marginals) + 1):
        part, said = measure(marginals[:number], views=VIEWS, seed=11)
        add_up_gradients([growing], probabilities)
        shares, stddevs = said[marginals[number - 1]]
        growing.add(marginals[number - 1], shares, stddev=stddevs)
        assert np.array_equal(*(add_up_gradients([loss], probabilities) for loss in (growing, part)))
    assert np.array_equal(*(add_up_gradients([loss], probabilities) for loss in (copied, whole)))


def test_marginal_is_the_mean_by_precision_when_it_is_measured_again():
    rng = np.random.default_rng(6)
    measured = MeasuredMarginals(VIEWS)
    answers, stddevs = rng.normal(0.3, 0.1, (3, 3, 4)), np.array([0.5, 0.1, 0.2])
    for answer, stddev in zip(answers, stddevs, strict=True):
        measured.add((0, 2), answer, stddev=stddev)
    precisions = 1 / stddevs**2
    expected = np.tensordot(precisions, answers, axes=1) / precisions.sum()
    assert measured.get_shares((0, 2)) == pytest.approx(expected, rel=1e-6)
    assert len([*measured]) == 1
    probabilities = make_probabilities(4, sizes=SIZES, seed=7)
    slope = slope_by_loop(probabilities.astype(np.float64), {(0, 2): (expected, precisions.sum() ** -0.5)})
    assert add_up_gradients([measured], probabilities) == pytest.approx(slope, rel=1e-3, abs=1e-4 * np.abs(slope).max())


@settings(max_examples=40)
@given(st.integers(1, 30), st.integers(0, 2**31))
def test_marginals_move_by_no_more_than_the_sensitivity_when_a_record_goes_or_changes(records, seed):
    rng = np.random.default_rng(seed)
    groups = make_groups(records, sizes=SIZES, seed=seed)
    row = int(rng.integers(records))
    without = np.delete(groups, row, axis=0)
    changed = replace_row(groups, row, by=rng.integers(0, SIZES))
    pairs = {name: count_pairs(rows, LAYOUT) for name, rows in (("real", groups), ("out", without), ("new", changed))}
    for marginal in MARGINALS:
        counts = count_marginal(groups, marginal, LAYOUT)
        assert np.linalg.norm(counts - count_marginal(without, marginal, LAYOUT)) == 1.0
        assert np.linalg.norm(counts - count_marginal(changed, marginal, LAYOUT)) <= np.sqrt(2)
        if len(marginal) == 2:
            left, right = (LAYOUT.get_slice(attribute) for attribute in marginal)
            assert np.linalg.norm((pairs["real"] - pairs["out"])[left, right]) == 1.0
            assert np.linalg.norm((pairs["real"] - pairs["new"])[left, right]) <= np.sqrt(2)


def test_replaced_record_reaches_the_sensitivity_when_it_leaves_every_cell():
    groups = np.zeros((5, 5), np.int32)
    changed = replace_row(groups, 0, by=[2, 0, 3, 1, 4])
    for marginal in MARGINALS:
        moved = count_marginal(groups, marginal, LAYOUT) - count_marginal(changed, marginal, LAYOUT)
        assert np.linalg.norm(moved) == pytest.approx(0.0 if marginal == (1,) else np.sqrt(2))
