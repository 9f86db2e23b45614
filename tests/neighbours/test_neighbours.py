"""What a unit moves of all that a run releases, in made-up tables; `python -m tests.neighbours` looks further.

Each fault must be found in the case that is named beside it.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from dpwgan.app import fitting
from dpwgan.app import links as app_links
from dpwgan.app.logs import LOGGER
from dpwgan.critic import critic
from dpwgan.marginals.one_way import one_ways
from dpwgan.marginals.selection import queries
from dpwgan.marginals.selection.questions import Questions
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.units.units import Units
from tests.neighbours.__main__ import main, try_case
from tests.neighbours.tables import make_case

CASES = (16, 28, 34, 41, 42, 44, 53, 55, 62, 71, 83, 85, 91)
Act = Callable[..., Any]


def test_a_unit_moves_releases_by_their_sensitivity_at_most_and_nothing_else():
    moved: dict[str, float] = {}
    told: set[str] = set()
    for number in CASES:
        case = make_case(number)
        told.update(case.specs.get("unit", ()))
        assert not try_case(case, moved, Counter()), number
    assert {"kind", "of_kind", "linked", "rules"} <= told
    reached = {label for label, length in moved.items() if length > 0.999}
    assert {"one-way counts", "query selections", "query answers", "certificate", "rows of units"} <= reached
    assert {"round steps", "critic steps"} <= reached
    assert moved["links of rows"] > 0


@pytest.mark.slow
def test_a_unit_moves_no_more_in_other_tables():
    assert main(["--first", "100", "--cases", "12"]) == 0


def _count_first_row_twice(act: Act, attribute: Any, starts: Any, cells: Any) -> Any:
    places = act(attribute, starts, cells)
    return np.append(places, places[:1])


def _keep_one_more(act: Act, units: Units, most: int, **more: Any) -> Any:
    return act(units, most + 1, **more)


def _say_how_many(act: Act, encoded: Any, *given: Any, **more: Any) -> Any:
    LOGGER.info("%d codes", encoded.codes.sum())
    return act(encoded, *given, **more)


def _draw_by_rows(act: Act, encoded: Any, *given: Any, model: np.random.Generator, **more: Any) -> Any:
    model.random(int(encoded.codes.sum()) % 3)
    return act(encoded, *given, model=model, **more)


def _ask_by_rows(act: Act, questions: Any, expected: Any, **more: Any) -> Any:
    rows = next(iter(questions._counts.values())).sum()
    return act(questions, expected if rows % 2 else dict([*expected.items()][:1]), **more)


def _drop_first_of_piece(act: Act, encoder: Any, frame: Any, findings: Any) -> Any:
    kept = act(encoder, frame, findings)
    kept[0] = False
    return kept


def _count_rows_of_units(act: Act, *given: Any, firsts: Any = None, **more: Any) -> Any:
    return act(*given, firsts=None if firsts is None else np.ones_like(firsts), **more)


def _times(act: Act, *given: Any, times: float, **more: Any) -> Any:
    return times * act(*given, **more)


FAULTS: dict[str, tuple[int, Any, str, Act]] = {
    "a row is counted twice": (41, one_ways, "find_places", _count_first_row_twice),
    "a unit keeps a row more": (28, Units, "choose", _keep_one_more),
    "scores are a tenth larger": (44, queries, "expect_gains", partial(_times, times=1.1)),
    "links are counted three times": (37, app_links, "count_links", partial(_times, times=3)),
    "forms are counted twice": (31, fitting, "count_forms", partial(_times, times=2)),
    "rows are counted in lists of units": (43, fitting, "discover_domains", _count_rows_of_units),
    "gradients are clipped a tenth later": (85, critic, "clip_factors", partial(_times, times=1.1)),
    "an exact sum is said": (34, fitting, "fit_rows", _say_how_many),
    "draws hang on rows": (42, fitting, "fit_rows", _draw_by_rows),
    "candidates hang on rows": (83, Questions, "ask", _ask_by_rows),
    "rows hang on their piece": (0, TableEncoder, "find_kept", _drop_first_of_piece),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_something_is_wrong_with_neighbours_where(fault, monkeypatch):
    number, owner, name, broken = FAULTS[fault]
    act = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *given, **more: broken(act, *given, **more))
    assert try_case(make_case(number), {}, Counter())
