"""Every kind of bad input gets its exit code and its sentence, shows no cell, and leaves no file behind."""

from pathlib import Path

import pytest

from dpwgan.app import cli
from tests.critic.tables import needs_reference
from tests.end_to_end.bad_inputs import ACCEPTED, CASES, ELSEWHERE, SECRET, Answer, Case, answer, read_page, write_page

pytestmark = pytest.mark.slow

ERRORS_PAGE = Path(__file__).resolve().parents[2] / "docs" / "errors.md"
# Cells that the cases put into the table: none of them may be shown.
CELLS = (SECRET, "7577", "1e308", "3.577", "77777", "blue, dark")


@pytest.fixture
def given(request: pytest.FixtureRequest, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Answer:
    return answer(request.param, tmp_path, main=cli.main, read_stderr=lambda: capfd.readouterr().err)


def pair(cases: tuple[Case, ...]) -> list:
    return [
        pytest.param(case, case, id=case.kind, marks=needs_reference if "reference" in case.arguments else ())
        for case in cases
    ]


def check_page(case: Case, given: Answer) -> None:
    told = read_page(ERRORS_PAGE.read_text(encoding="utf-8"))
    assert (given.exit_code, case.kind, given.sentence or ACCEPTED) in told, "docs/errors.md is out of date"


REFUSED = tuple(case for case in CASES if case.exit_code != 0)
LEGAL = tuple(case for case in CASES if case.exit_code == 0)


def test_table_of_bad_inputs_is_long_enough_when_counted():
    assert len(REFUSED) >= 60
    assert len({case.kind for case in CASES}) == len(CASES)


@pytest.mark.parametrize(("case", "given"), pair(REFUSED), indirect=["given"])
def test_run_is_refused_with_its_code_and_one_sentence_when_the_input_is_bad(case, given):
    assert given.exit_code == case.exit_code, given.stderr
    assert given.sentence.endswith((".", "?"))
    assert len([line for line in given.stderr.splitlines() if line.startswith("dpwgan: error: ")]) == 1
    assert "Traceback" not in given.stderr
    assert given.left_over == ()
    for cell in CELLS:
        assert cell not in given.stderr
    check_page(case, given)


@pytest.mark.parametrize(("case", "given"), pair(LEGAL), indirect=["given"])
def test_run_succeeds_when_the_input_is_odd_but_legal(case, given):
    assert given.exit_code == 0, given.stderr
    assert given.left_over == ("out.csv", "out.csv.privacy.json")
    check_page(case, given)


def test_errors_page_is_of_these_kinds_alone_when_it_is_read():
    page = ERRORS_PAGE.read_text(encoding="utf-8")
    told = read_page(page)
    assert sorted(kind for _, kind, _ in told) == sorted(
        [case.kind for case in CASES] + [kind for _, kind, _ in ELSEWHERE]
    )
    assert set(ELSEWHERE) <= set(told)
    assert write_page(told) == page
