"""Rows moved to answers: nearer to all of them together, and what none is about stays as it was."""

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.marginals import moves
from dpwgan.marginals.groups import GroupLayout, Marginal
from dpwgan.marginals.moves import Answers, count_moves, move_rows
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
    move_rows(groups, answers, sizes=SIZES, sweeps=6, rng=np.random.default_rng(3))
    assert before > 0.4
    assert find_distance(groups, answers) < 0.02
    assert np.array_equal(groups[:, 3], last)
    assert all(np.abs(share(groups, (a,)) - ones[a]).sum() < 0.05 for a in range(3))


def test_answers_are_not_met_together_where_moves_look_at_one_alone(monkeypatch):
    answers, looked, move = answer(draw_chain(1)), [], moves._move

    def move_alone(groups, attribute, side, sides, *, rng):
        looked.append(len(sides))
        move(groups, attribute, side, [side], rng=rng)

    monkeypatch.setattr(moves, "_move", move_alone)
    groups = draw_apart(2)
    move_rows(groups, answers, sizes=SIZES, sweeps=6, rng=np.random.default_rng(3))
    assert max(looked) == 2
    assert find_distance(groups, answers) > 0.1


def test_what_is_missing_is_kept_up_with_every_move(monkeypatch):
    """What the last moves were told is missing is what a count of the rows says."""
    told, move = [], moves._move
    answers, groups = answer(draw_chain(1)), draw_apart(2)

    def look(groups, attribute, side, sides, *, rng):
        left, right = sorted((attribute, side.other))
        missing = side.missing if attribute == right else side.missing.T
        wanted = answers[left, right].astype(np.float64) * len(groups)
        told.append(np.abs(missing - (wanted - share(groups, (left, right)) * len(groups))).max())
        move(groups, attribute, side, sides, rng=rng)

    monkeypatch.setattr(moves, "_move", look)
    move_rows(groups, answers, sizes=SIZES, sweeps=2, rng=np.random.default_rng(3))
    assert len(told) == 2 * 2 * len(PAIRS)
    assert max(told) < 0.01


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_few_rows_stay_rows_of_the_groups(rows):
    groups = draw_chain(5, rows=rows)
    move_rows(groups, answer(draw_chain(1)), sizes=SIZES, sweeps=3, rng=np.random.default_rng(0))
    assert groups.shape == (rows, len(SIZES))
    assert ((groups >= 0) & (groups < SIZES)).all()


def test_cells_that_should_be_empty_lose_their_rows():
    groups, wanted = draw_apart(2), np.zeros(SIZES[:2], np.float32)
    wanted[[0, 1, 2, 3], [0, 1, 2, 3]] = 0.25
    move_rows(groups, {(0, 1): wanted}, sizes=SIZES, sweeps=12, rng=np.random.default_rng(1))
    assert share(groups, (0, 1))[wanted == 0].sum() < 0.01


@pytest.mark.parametrize(
    ("rows", "answers", "sweeps"),
    [(20_000, 130, 4), (661_968, 190, 3), (10**7, 30, 1), (10**8, 60, 0), (1_000, 0, 0), (0, 9, 0)],
)
def test_rows_of_very_large_tables_are_left_where_they_are(rows, answers, sweeps):
    assert count_moves(rows, answers=answers) == sweeps
