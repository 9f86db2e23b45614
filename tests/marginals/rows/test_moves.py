"""Rows moved to answers: nearer to all of them together, and what none is about stays as it was."""

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.marginals.groups import GroupLayout, Marginal
from dpwgan.marginals.rows import moves
from dpwgan.marginals.rows.moves import Answers, count_moves, move_rows
from tests.marginals.groups import count_by_loop

SIZES = (4, 6, 5, 3)
ROWS = 4_000
PAIRS: tuple[Marginal, ...] = ((0, 1), (1, 2))

Groups = npt.NDArray[np.int32]


def draw_chain(seed: int, *, rows: int = ROWS) -> Groups:
    """Rows of which the first three attributes hang together, each with the one before it, and the last with none."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, SIZES, (rows, len(SIZES))).astype(np.int32)
    for left, right in PAIRS:
        follow = rng.random(rows) < 0.8
        groups[follow, right] = groups[follow, left] % SIZES[right]
    return groups


def share(groups: Groups, pair: Marginal) -> npt.NDArray[np.float64]:
    return count_by_loop(groups, pair, GroupLayout(SIZES)) / len(groups)


def find_distance(groups: Groups, answers: Answers) -> float:
    """The largest total variation that rows miss an answer by, counted row by row in float64."""
    return max(0.5 * float(np.abs(share(groups, pair) - shares).sum()) for pair, shares in answers.items())


def answer(groups: Groups) -> Answers:
    return {pair: share(groups, pair).astype(np.float32) for pair in PAIRS}


def draw_apart(seed: int) -> Groups:
    """Rows with the shares of the chain's columns and nothing that hangs together."""
    rng = np.random.default_rng(seed)
    return np.asfortranarray(rng.permuted(draw_chain(seed), axis=0))


def test_rows_meet_all_answers_together_and_keep_what_none_is_about():
    answers, groups = answer(draw_chain(1)), draw_apart(2)
    before, last = find_distance(groups, answers), groups[:, 3].copy()
    ones = [share(groups, (attribute,)) for attribute in range(3)]
    move_rows(groups, answers, sweeps=6, rng=np.random.default_rng(3), barred={})
    assert before > 0.4
    assert find_distance(groups, answers) < 0.02
    assert np.array_equal(groups[:, 3], last)
    assert all(np.abs(share(groups, (a,)) - ones[a]).sum() < 0.05 for a in range(3))


def test_answers_are_not_met_together_where_moves_look_at_one_alone(monkeypatch):
    answers, looked, move = answer(draw_chain(1)), [], moves._move

    def move_alone(groups, attribute, side, sides, **more):
        looked.append(len(sides))
        move(groups, attribute, side, [side], **more)

    monkeypatch.setattr(moves, "_move", move_alone)
    groups = draw_apart(2)
    move_rows(groups, answers, sweeps=6, rng=np.random.default_rng(3), barred={})
    assert max(looked) == 2
    assert find_distance(groups, answers) > 0.1


def test_what_is_missing_is_kept_up_with_every_move(monkeypatch):
    """What the last moves were told is missing is what a count of the rows says."""
    told, move = [], moves._move
    answers, groups = answer(draw_chain(1)), draw_apart(2)

    def look(groups, attribute, side, sides, **more):
        left, right = sorted((attribute, side.other))
        missing = side.lay_out(side.missing) if attribute == right else side.lay_out(side.missing).T
        wanted = answers[left, right].astype(np.float64) * len(groups)
        told.append(np.abs(missing - (wanted - share(groups, (left, right)) * len(groups))).max())
        move(groups, attribute, side, sides, **more)

    monkeypatch.setattr(moves, "_move", look)
    move_rows(groups, answers, sweeps=2, rng=np.random.default_rng(3), barred={})
    assert len(told) == 2 * 2 * len(PAIRS)
    assert max(told) < 0.01


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_few_rows_stay_rows_of_the_groups(rows):
    groups = draw_chain(5, rows=rows)
    move_rows(groups, answer(draw_chain(1)), sweeps=3, rng=np.random.default_rng(0), barred={})
    assert groups.shape == (rows, len(SIZES))
    assert ((groups >= 0) & (groups < SIZES)).all()


def test_cells_that_should_be_empty_lose_their_rows():
    groups, wanted = draw_apart(2), np.zeros(SIZES[:2], np.float32)
    wanted[[0, 1, 2, 3], [0, 1, 2, 3]] = 0.25
    move_rows(groups, {(0, 1): wanted}, sweeps=12, rng=np.random.default_rng(1), barred={})
    assert share(groups, (0, 1))[wanted == 0].sum() < 0.01


def list_against_each_other() -> Answers:
    """One answer has empty cells, and nothing without rows there meets the two others."""
    tied = np.hstack([np.diag([0.25] * 4), np.zeros((4, 2))])
    wanted = np.full((4, 5), 0.05)
    wanted[0, 0] = wanted[1, 1] = 0.055
    wanted[0, 1] = wanted[1, 0] = 0.045
    return {
        pair: shares.astype(np.float32)
        for pair, shares in (
            ((0, 1), tied),
            ((0, 2), wanted),
            ((1, 2), np.vstack([wanted[[1, 0, 2, 3]], wanted[:2] * 0])),
        )
    }


def draw_tied(seed: int) -> Groups:
    """Rows whose first two attributes are the same."""
    groups = draw_apart(seed)
    groups[:, 1] = groups[:, 0]
    return groups


@pytest.mark.parametrize(("fee", "least", "most"), [(None, 0.0, 0.001), (0.0, 0.003, 1.0)])
def test_rows_stay_out_of_empty_cells_whatever_other_answers_want(monkeypatch, fee, least, most):
    """Without the fee they would not."""
    if fee is not None:
        monkeypatch.setattr(moves, "_FEE", fee)
    answers, groups = list_against_each_other(), draw_tied(2)
    move_rows(groups, answers, sweeps=6, rng=np.random.default_rng(1), barred={})
    assert least <= share(groups, (0, 1))[answers[0, 1] == 0].sum() <= most


@pytest.mark.parametrize("pair", [(0, 1), (1, 2)])
def test_rows_are_moved_into_no_barred_cell(pair):
    """Without the bar they are."""
    answers, flags = answer(draw_chain(1)), np.indices([SIZES[a] for a in pair]).sum(axis=0) % 2 == 1
    held = []
    for barred in ({pair: flags}, {}):
        groups = draw_apart(2)
        groups = np.asfortranarray(groups[~flags[groups[:, pair[0]], groups[:, pair[1]]]])
        move_rows(groups, answers, sweeps=6, rng=np.random.default_rng(3), barred=barred)
        held.append(share(groups, pair)[flags].sum())
    assert held[0] == 0.0 < 0.05 < held[1]


@pytest.mark.parametrize("axis", [0, 1])
def test_what_a_row_more_or_less_weighs_is_what_the_error_grows_by(axis):
    rng = np.random.default_rng(4)
    wanted, rows = rng.integers(0, 9, (3, 4)).astype(np.float64), rng.integers(0, 9, (3, 4)).astype(np.float64)
    fee = np.where(wanted == 0, 20.0, 0.0)

    def find_error(rows: npt.NDArray[np.float64]) -> float:
        return float((np.square(rows - wanted) / np.sqrt(wanted + 1.0) + fee * rows).sum())

    price = 1.0 / np.sqrt(wanted + 1.0)
    of_cells = (part.ravel() for part in (wanted, wanted - rows, price, fee))
    side = moves._Side(1 - axis, (3, 4), axis, *of_cells, np.empty((2, 12)))
    side.weigh(slice(None))
    for moved in range(2):
        for first, second in np.ndindex(3, 4):
            own, beside = np.array([(first, second)], np.int32).T[[axis, 1 - axis]]
            for grown, change in zip(side.grown, (1, -1), strict=True):
                after = rows.copy()
                after[first, second] += change
                assert grown[side.find_cells(own, beside)] == pytest.approx([find_error(after) - find_error(rows)])
        if not moved:  # Then all of it again, of rows some of which have moved.
            side.note(np.array([1, 1, 5]), np.array([0, 5, 11]))
            rows.ravel()[:] = side.wanted - side.missing
    assert side.lay_out(side.wanted).shape == ((4, 3) if axis == 0 else (3, 4))


@pytest.mark.parametrize(
    ("rows", "answers", "sweeps"),
    [(20_000, 130, 12), (661_968, 190, 10), (10**7, 30, 4), (10**8, 60, 0), (1_000, 0, 0), (0, 9, 0)],
)
def test_rows_of_very_large_tables_are_left_where_they_are(rows, answers, sweeps):
    assert count_moves(rows, answers=answers) == sweeps
