"""Rules that rows of a unit keep beside each other, in the output of a run."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpwgan.app import together
from dpwgan.app.api import Synthesizer
from dpwgan.errors import SpecsError

STAYS: dict[str, Any] = {
    "unit": {"column": "patient", "max_rows": 5, "unique": ["admitted"], "rules": ["previous.discharged < admitted"]},
    "patient": {"type": "integer", "uuid": True, "min": 1},
    "sex": {"type": "enum", "values": ["f", "m"], "of": "unit"},
    "admitted": {"type": "date", "min": "2020-01-01", "max": "2022-12-31"},
    "discharged": {"type": "date", "since": "admitted", "min": "0 days", "max": "200 days"},
    "ward": {"type": "enum", "values": ["a", "b", "c"]},
}


def make_stays(patients: int = 2_000) -> pd.DataFrame:
    """Stays of patients, each after the one before it, in one ward after the other."""
    rng = np.random.default_rng(5)
    rows = []
    for patient in range(patients):
        day = rng.integers(0, 300)
        for place in range(rng.integers(1, 6)):
            nights = rng.integers(10, 80)
            rows.append((patient, "fm"[patient % 2], day, day + nights, "abc"[place % 3]))
            day += nights + rng.integers(1, 100)
    frame = pd.DataFrame(rows, columns=["patient", "sex", "admitted", "discharged", "ward"])
    first = np.datetime64("2020-01-01")
    for name in ("admitted", "discharged"):
        frame[name] = (first + frame[name].to_numpy().astype("timedelta64[D]")).astype(str)
    return frame


def find_overlaps(frame: pd.DataFrame) -> Any:
    moments = frame.assign(**{name: pd.to_datetime(frame[name]) for name in ("admitted", "discharged")})
    before = moments.groupby("patient").discharged.shift()
    return (moments.admitted <= before)[before.notna()]


def fit(unit: Any, **changes: Any) -> Synthesizer:
    specs = {**STAYS, **changes, "unit": {**{k: v for k, v in STAYS["unit"].items() if k != "rules"}, **unit}}
    return Synthesizer(specs, 20.0, method="independent").fit(make_stays())


@pytest.mark.parametrize("more", [{}, {"linked": ["ward"]}, {"linked": ["admitted", "ward"]}])
def test_stays_of_a_patient_do_not_overlap(more, tmp_path, monkeypatch):
    monkeypatch.setattr(together, "choose_step", lambda columns: 8_000)  # fewer rows to choose from take less time
    fitted, alone = fit({**more, "rules": STAYS["unit"]["rules"]}), fit(more)
    real = make_stays()
    fitted.save(tmp_path / "model")
    frames = [model.sample(6_000) for model in (fitted, Synthesizer.load(tmp_path / "model"), alone)]
    nights = [(pd.to_datetime(one.discharged) - pd.to_datetime(one.admitted)).dt.days for one in (*frames, real)]
    assert find_overlaps(real).sum() == 0
    assert find_overlaps(frames[2]).mean() > 0.1
    for frame, own in zip(frames[:2], nights[:2], strict=True):
        assert len(frame) == 6_000
        assert find_overlaps(frame).sum() == 0
        assert abs(own.mean() / nights[3].mean() - 1) < 0.1
        assert abs((frame.sex == "f").mean() - 0.5) < 0.08
        wards = (frame.ward.value_counts(normalize=True) - real.ward.value_counts(normalize=True)).abs()
        assert wards.max() < 0.06


def test_children_are_younger_than_the_head_of_their_house_and_what_units_share_may_be_read():
    rng = np.random.default_rng(6)
    house = np.repeat(np.arange(2_000), 3)
    head = rng.integers(30, 60, 2_000)[house]
    age = np.where(np.arange(6_000) % 3 == 0, head, head - rng.integers(20, 30, 6_000))
    role = np.where(np.arange(6_000) % 3 == 0, "head", "child")
    frame = pd.DataFrame({"house": house, "born": 2_020 - head, "role": role, "age": age})
    frame["left"] = frame.born - 1_960 + frame.age
    specs = {
        "unit": {"column": "house", "max_rows": 3, "kind": "role"},
        "house": {"type": "integer", "uuid": True},
        "born": {"type": "integer", "min": 1960, "max": 1990, "of": "unit"},
        "role": {"type": "enum", "values": ["head", "child"]},
        "age": {"type": "integer", "min": 0, "max": 60},
        "left": {"derived": {"sql": "born - 1960 + age"}},
    }
    for rules in (["first.age >= age + 15"], ["first.left >= left + 15"], []):
        unit = {**specs["unit"], "rules": [f"role = 'head' OR {rule}" for rule in rules]}
        unit = unit if rules else specs["unit"]
        out = Synthesizer({**specs, "unit": unit}, 20.0, method="independent").fit(frame).sample(3_000)
        gaps = out.house.map(out[out.role == "head"].groupby("house").age.first()) - out.age
        younger = (gaps >= 15)[(out.role == "child") & gaps.notna()]
        assert younger.all() == bool(rules)
        assert rules or younger.mean() < 0.9


def test_rules_between_rows_are_planned_with_their_time():
    unruled = {key: value for key, value in STAYS["unit"].items() if key != "rules"}
    units = ({**STAYS["unit"], "linked": ["ward"]}, STAYS["unit"], unruled)
    plans = [Synthesizer({**STAYS, "unit": unit}, 1.0, method="independent").plan(records=9_000) for unit in units]
    assert plans[0].seconds > plans[1].seconds > plans[2].seconds


def test_what_no_unit_can_keep_is_refused(monkeypatch):
    monkeypatch.setattr(together, "choose_step", lambda columns: 1_000)
    tried = []
    put_together = together.UnitSource._put_together
    monkeypatch.setattr(
        together.UnitSource, "_put_together", lambda *rows, **more: tried.append(1) or put_together(*rows, **more)
    )
    with pytest.raises(SpecsError, match=r"Hardly a unit .* keeps all rules"):
        fit({"rules": ["first.ward <> first.ward"]}).sample(500)
    assert len(tried) == 5
