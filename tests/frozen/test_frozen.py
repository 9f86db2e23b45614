"""What the tool does today, frozen: outputs, claims, ledgers, and the exact value of every release before its noise.

If one of these fails, look at what it says before anything else: see `tests.frozen.refreeze` for when, and how, the
goldens may be written anew.
"""

import copy
from collections.abc import Callable
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


CHANGES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "output": (lambda case: case.update(output="0" * 64), False),
    "value": (lambda case: case["transcript"][0].__setitem__(3, "0" * 16), False),
    "event": (lambda case: case["transcript"][0][1].update(stddev=0.1), True),
    "sensitivity": (lambda case: case["transcript"][0].__setitem__(2, 0.1), True),
    "ledger": (lambda case: case["ledger"][0].update(stddev=0.1), True),
    "missing": (lambda case: case["transcript"].pop(0), True),
}
"""Each with whether it is seen on another platform, too."""


@pytest.mark.parametrize("same_platform", [True, False])
@pytest.mark.parametrize("part", CHANGES)
def test_a_change_is_found_when_one_thing_is_another(part: str, same_platform: bool) -> None:
    golden, (change, seen_anywhere) = read_golden("independent"), CHANGES[part]
    changed = copy.deepcopy(golden)
    change(changed["cases"]["rand-hie, zero-out"])
    if not same_platform:
        changed["platform"] = "another"
    assert bool(compare(golden, changed)) == (same_platform or seen_anywhere)
    assert not compare(golden, golden)
