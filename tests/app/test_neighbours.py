"""What one unit moves of all that a run releases: whole runs on neighbouring tables, of one history.

Both are given what was released of the first, so whatever differs before the noise is the unit's part.
"""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpwgan.app import fitting
from dpwgan.app.api import Synthesizer
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import DiscreteGaussian
from dpwgan.privacy.release import Release
from tests.app.test_releases_alone import DROPS, FEW, FINDS, PERSONS, Again, make_frame
from tests.methods.test_units import measure

ALIKE = {"kind": "x", "status": "7", "part": 2_000, "total": "2007", "day": "2020-02-02", "sex": "f"}
OTHERS = {"kind": "y", "status": "9", "part": 1_000, "total": "5007", "day": "2022-10-10", "sex": "m"}
ANSWERS = [f"answer {number}" for number in range(4)]
UNIT = np.flatnonzero(np.bincount(PERSONS).argmax() == PERSONS)
"""The places of a unit of more rows than are kept."""


class History(Again):
    """Keeps what was to be released as well."""

    releases: list[Release]

    def _note(self, release: Release, *rest: Any, give: str, **more: Any) -> Any:
        self.releases.append(release)
        return getattr(Again, give)(self, release, *rest, **more)

    def add_noise(self, release, exact):
        return self._note(release, exact, give="add_noise")

    def select(self, release, scores):
        return self._note(release, scores, give="select")

    def discover(self, release, counts, **more):
        return self._note(release, counts, give="discover", **more)


def put(frame: pd.DataFrame, row: dict[str, Any], answer: str) -> pd.DataFrame:
    """The table, of which all rows of the unit are this one."""
    changed = frame.copy()
    for name, cell in (row | dict.fromkeys(ANSWERS, answer)).items():
        changed.loc[UNIT, name] = cell
    return changed


def find_moved(release: Release, exact: Any, other: Any) -> float:
    """How far a release moved, in its sensitivities."""
    if isinstance(exact, dict):  # each row by itself: what that costs a unit is the selection's own affair
        return sum(abs(exact.get(cell, 0) - other.get(cell, 0)) for cell in {*exact, *other}) / release.event.rows
    return measure(release, np.asarray(exact, np.float64) - np.asarray(other, np.float64))


@pytest.mark.parametrize(("method", "settings"), [("query-gan", FEW), ("independent", {})])
@pytest.mark.parametrize("relation", NeighboringRelation)
def test_a_unit_moves_all_that_a_run_releases_by_its_sensitivity_at_most(method, settings, relation, monkeypatch):
    monkeypatch.setattr(fitting, "NoiseSource", History)
    replacing = relation is NeighboringRelation.REPLACE_ONE
    # Without its rows a table is that of which a rule drops them.
    specs, other = (
        (FINDS, put(make_frame(0), OTHERS, "3")) if replacing else (DROPS, put(make_frame(0), {"part": 0}, ""))
    )
    runs, known = [], []
    for frame in (put(make_frame(0), ALIKE, ""), other):
        for name, value in (("known", known), ("exact", []), ("releases", [])):
            monkeypatch.setattr(History, name, value, raising=False)
        Synthesizer(specs, 30.0, method=method, seed=5, settings=settings, neighbours=relation.spelled).fit(frame)
        runs.append((History.releases, History.exact))
    assert runs[0][0] == runs[1][0]
    moved: dict[str, float] = {}
    for release, *both in zip(runs[0][0], runs[0][1], runs[1][1], strict=True):
        event = release.event
        factor = math.sqrt(2.0) if isinstance(event, DiscreteGaussian) else getattr(event, "replace_one_factor", 2.0)
        length = find_moved(release, *both) / (factor if replacing else 1.0)
        assert length <= 1 + 1e-9, release.label
        moved[release.label] = max(moved.get(release.label, 0.0), length)
    assert {"rows of units", "links of rows", "one-way counts"} <= moved.keys()
    assert sum(length > 0.999 for length in moved.values()) >= 2
    # Each row of the unit but the first has some before it.
    assert moved["links of rows"] == pytest.approx(2 / 3)
