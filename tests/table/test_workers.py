"""A team: sums over all rows, charges that follow the chief's, and one end for all."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from dpwgan.errors import PrivacyError, ResourceError, UsageError
from dpwgan.table.workers import LostPeerError, Team, alone
from tests.teams import run_team

ROWS = np.arange(23.0)


def serve(
    team: Team, *, charges: list[tuple[str, int]] | None = None, charged: Mapping[str, int] | None = None
) -> None:
    first, last = team.get_rows(len(ROWS))
    tasks = {
        "sum": lambda argument, array: np.array([ROWS[first:last].sum() * argument, *array]),
        "note": lambda argument, array: None,
    }
    noted = [] if charges is None else charges
    team.serve(tasks, charge=lambda label, count: noted.append((label, count)), charged=dict(charged or {}))


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


def test_one_worker_gives_its_own_sum_when_it_is_alone() -> None:
    assert alone("sum", lambda: ROWS, argument=1) is ROWS


def test_others_charge_what_the_chief_charged_when_they_are_asked() -> None:
    ledger: dict[str, int] = {}
    charges: list[tuple[str, int]] = []

    def job(team: Team) -> None:
        if not team.leads:
            serve(team, charges=charges)
            return
        team.follow(lambda: ledger)
        for label, count in (("first", 1), ("second", 2), ("second", 5)):
            ledger[label] = count
            team.add_up("sum", lambda: np.zeros(1), argument=1)
        team.dismiss()

    run_team(2, job)
    assert charges == [("first", 1), ("second", 2), ("second", 3)]


def test_others_charge_what_is_new_when_a_run_goes_on() -> None:
    charges: list[tuple[str, int]] = []

    def job(team: Team) -> None:
        if not team.leads:
            serve(team, charges=charges, charged={"first": 1, "second": 3})
            return
        team.follow(lambda: {"first": 1, "second": 4})
        team.add_up("sum", lambda: np.zeros(1), argument=1)
        team.dismiss()

    run_team(2, job)
    assert charges == [("second", 1)]


def test_all_have_the_document_of_the_chief_when_it_is_shared() -> None:
    document = {"life": 1, "charged": {"counts": 3}, "noise": 0.1 + 0.2}
    assert run_team(3, lambda team: team.share(document if team.leads else {"life": 9})) == [document] * 3


def test_no_row_is_read_when_a_worker_has_not_reserved_what_the_chief_charged() -> None:
    read: list[str] = []

    def refuse(label: str, count: int) -> None:
        raise PrivacyError("nothing of that name was reserved")

    def job(team: Team) -> None:
        if not team.leads:
            team.serve({"sum": lambda *_: read.append("rows")}, charge=refuse, charged={})  # type: ignore[func-returns-value]
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
