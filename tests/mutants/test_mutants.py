"""The list of mutants: each line is still there, once, and each test that is to notice."""

from pathlib import Path

import pytest

from tests.mutants.__main__ import ROOT, Mutant, read_mutants

MUTANTS = read_mutants()


def test_mutants_have_names_of_their_own_when_listed() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 60


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_line_is_there_once_and_its_tests_are_when_a_mutant_is_listed(mutant: Mutant) -> None:
    broken = mutant.break_source()
    compile(broken, mutant.file, "exec")
    assert broken != (ROOT / mutant.file).read_text(encoding="utf-8")
    for test in mutant.tests:
        file, _, function = test.partition("::")
        assert f"def {function.partition('[')[0]}" in Path(ROOT, file).read_text(encoding="utf-8")
