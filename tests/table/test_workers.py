"""A team: sums over all rows, charges that follow the chief's, and one end for all."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.array_types import Floats
from dpwgan.errors import PrivacyError, ResourceError, UsageError
from dpwgan.table.rows import Derivation, Rows, Sum
from dpwgan.table.rows import serve as serve_rows
from dpwgan.table.workers import LostPeerError, Team
from tests.ledgers import open_ledger
from tests.teams import run_team

ROWS = np.arange(23.0)


def serve(
    team: Team, *, charges: list[tuple[str, int]] | None = None, charged: Mapping[str, int] | None = None
) -> None:
    first, last = team.get_rows(len(ROWS))

    def do(task: str, argument: Any, array: Floats) -> Floats | None:
        return np.array([ROWS[first:last].sum() * argument, *array]) if task == "sum" else None

    noted = [] if charges is None else charges
    team.serve(do, charge=lambda label, count: noted.append((label, count)), charged=dict(charged or {}))


@pytest.mark.parametrize("size", [2, 3, 5])
def test_every_row_belongs_to_one_worker_when_rows_are_shared_out(size: int) -> None:
    parts = run_team(size, lambda team: team.get_rows(len(ROWS)))
    assert [parts[0][0], *(last for _, last in parts)] == [*(first for first, _ in parts), len(ROWS)]


@pytest.mark.parametrize("size", [2, 4])
def test_sum_is_that_of_all_rows_when_the_chief_asks(size: int) -> None:
    def job(team: Team) -> Any:
        if not team.leads:
            return serve(team)
        first, last = team.get_rows(len(ROWS))
        team.tell("note")
        own = np.array([3 * ROWS[first:last].sum(), 0.5, 0.25])
        total = team.add_up("sum", lambda: own, argument=3, array=np.array([0.5, 0.25]))
        team.dismiss()
        team.dismiss()  # once is enough
        return total

    assert run_team(size, job)[0].tolist() == [3 * ROWS.sum(), size * 0.5, size * 0.25]


ADD = Sum[npt.NDArray[np.float64]]("add", lambda rows, argument, array: np.array([rows.sum() * argument, *array]))
RAISE = Derivation[npt.NDArray[np.float64], npt.NDArray[np.float64]]("raise", lambda rows, power, ledger: rows**power)


def sum_and_raise(rows: Rows[npt.NDArray[np.float64]]) -> list[float]:
    """Sums rows, their squares, the squares of these, and the rows again."""
    squares = rows.derive(RAISE, 2)
    fourth = squares.derive(RAISE, 2)
    return [float(part.sum(ADD, argument=3, array=np.zeros(2))[0]) for part in (rows, squares, fourth, rows)]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_sums_are_those_of_all_rows_when_they_are_here_or_shared(size: int) -> None:
    def job(team: Team) -> Any:
        own, ledger = ROWS[slice(*team.get_rows(len(ROWS)))], open_ledger([])
        if not team.leads:
            return serve_rows(own, team=team, ledger=ledger)
        found = sum_and_raise(Rows(own, records=len(ROWS), team=team, ledger=ledger))
        team.dismiss()
        return found

    here = sum_and_raise(Rows(ROWS, records=len(ROWS)))
    assert here == [3 * (ROWS**power).sum() for power in (1, 2, 4, 1)]
    assert run_team(size, job) == [here, *[None] * (size - 1)]


@pytest.mark.parametrize(
    ("before", "changes", "expected"),
    [
        ({}, [{"first": 1}, {"second": 2}, {"second": 5}], [("first", 1), ("second", 2), ("second", 3)]),
        ({"first": 1, "second": 3}, [{"first": 1, "second": 4}], [("second", 1)]),
    ],
)
def test_others_charge_what_the_chief_charged_when_they_are_asked(before: Any, changes: Any, expected: Any) -> None:
    """All of it, and what is new alone where a run goes on."""
    charges: list[tuple[str, int]] = []

    def job(team: Team) -> None:
        if not team.leads:
            serve(team, charges=charges, charged=before)
            return
        ledger: dict[str, int] = {}
        team.follow(lambda: ledger)
        for change in changes:
            ledger.update(change)
            team.add_up("sum", lambda: np.zeros(1), argument=1)
        team.dismiss()

    run_team(2, job)
    assert charges == expected


def test_all_have_the_document_of_the_chief_when_it_is_shared() -> None:
    document = {"life": 1, "charged": {"counts": 3}, "noise": 0.1 + 0.2}
    assert run_team(3, lambda team: team.share(document if team.leads else {"life": 9})) == [document] * 3


def test_no_row_is_read_when_a_worker_has_not_reserved_what_the_chief_charged() -> None:
    read: list[str] = []

    def refuse(label: str, count: int) -> None:
        raise PrivacyError("nothing of that name was reserved")

    def job(team: Team) -> None:
        if not team.leads:
            team.serve(lambda *_: read.append("rows"), charge=refuse, charged={})
        team.follow(lambda: {"more": 1})
        team.add_up("sum", lambda: np.zeros(1))

    chief, other = run_team(2, job)
    assert isinstance(other, PrivacyError)
    assert isinstance(chief, ResourceError)
    assert read == []


def test_all_others_end_with_the_exit_code_of_the_chief_when_it_dismisses_them() -> None:
    ends = run_team(3, lambda team: team.dismiss(73) if team.leads else serve(team))
    assert ends[0] is None
    assert [type(end) for end in ends[1:]] == [LostPeerError] * 2
    assert {end.exit_code for end in ends[1:]} == {73}


def test_all_others_stop_when_a_worker_is_lost() -> None:
    def job(team: Team) -> None:
        if team.rank == 1:
            raise KeyboardInterrupt
        if team.leads:
            try:
                team.add_up("sum", lambda: np.zeros(1), argument=1)
            finally:
                team.dismiss()  # tells nobody, and does not wait for an answer
        serve(team)

    ends = run_team(3, job)
    assert isinstance(ends[0], ResourceError)
    assert isinstance(ends[2], ResourceError)
    assert ends[0].exit_code == 75


def test_all_name_the_facts_that_differ_when_workers_do_not_agree() -> None:
    def job(team: Team) -> None:
        team.agree({"the specs": b"same", "the budget": b"1.0" if team.rank < 2 else b"2.0", "the table": b"same"})

    ends = run_team(3, job)
    assert {str(end) for end in ends} == {"the workers do not agree on the budget: give all of them the same"}
    assert all(isinstance(end, UsageError) for end in ends)
    assert run_team(3, lambda team: team.agree({"the specs": b"same"})) == [None] * 3


def test_all_take_the_first_exit_code_when_a_worker_is_not_ready() -> None:
    ends = run_team(3, lambda team: team.check_ready(65 if team.rank == 1 else 0))
    assert [end.exit_code for end in ends] == [65] * 3
    assert run_team(3, lambda team: team.check_ready()) == [None] * 3
