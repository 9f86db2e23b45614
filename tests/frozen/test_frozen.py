"""What the tool does today, frozen: outputs, claims, ledgers, and the exact value of every release before its noise.

If one of these fails, look at what it says before anything else: see `tests.frozen.refreeze` for when, and how, the
goldens may be written anew.
"""

import copy
from pathlib import Path
from typing import Any

import pytest

from dpwgan.methods.registry import METHODS as REGISTRY
from tests.critic.tables import HAS_REFERENCE
from tests.frozen.cases import METHODS, list_cases
from tests.frozen.refreeze import GROUPS, compare, read_golden, run_fresh

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("methods", GROUPS, ids=", ".join)
def test_runs_are_the_frozen_ones_when_nothing_was_meant_to_change(methods: tuple[str, ...], tmp_path: Path) -> None:
    found = run_fresh(*methods, cwd=tmp_path)
    goldens = {method: read_golden(method) for method in methods}
    if not HAS_REFERENCE:
        for golden in goldens.values():
            golden["cases"] = {name: case for name, case in golden["cases"].items() if "reference" not in name}
    changes = [f"{method}: {change}" for method in methods for change in compare(goldens[method], found[method])]
    assert not changes, "\n".join(changes)
    if any(goldens[method]["platform"] != found[method]["platform"] for method in methods):
        pytest.skip("this processor rounds otherwise than the goldens' one: hashes were not compared, all else was")


def test_every_method_and_relation_is_frozen_when_the_registry_is_listed() -> None:
    assert set(METHODS) == set(REGISTRY) == {method for group in GROUPS for method in group}
    for method in METHODS:
        assert set(read_golden(method)["cases"]) == {name for name, _, _ in list_cases(method)}


@pytest.fixture
def golden() -> dict[str, Any]:
    return read_golden("independent")


@pytest.mark.parametrize("same_platform", [True, False])
@pytest.mark.parametrize(
    ("part", "seen_anywhere"),
    [("output", False), ("value", False), ("event", True), ("sensitivity", True), ("ledger", True), ("missing", True)],
)
def test_a_change_is_found_when_one_thing_is_another(
    golden: dict[str, Any], part: str, seen_anywhere: bool, same_platform: bool
) -> None:
    changed = copy.deepcopy(golden)
    case = changed["cases"]["rand-hie, zero-out"]
    line = case["transcript"][0]
    if part == "output":
        case["output"] = "0" * 64
    elif part == "value":
        line[3] = "0" * 16
    elif part == "event":
        line[1]["stddev"] *= 0.999
    elif part == "sensitivity":
        line[2] *= 0.999
    elif part == "ledger":
        case["ledger"][0]["stddev"] *= 0.999
    else:
        del case["transcript"][0]
    if not same_platform:
        changed["platform"] = "another"
    assert bool(compare(golden, changed)) == (same_platform or seen_anywhere)
    assert not compare(golden, golden)
