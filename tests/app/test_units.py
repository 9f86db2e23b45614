"""A unit of privacy through whole runs: what is kept, what is written, what is claimed."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dpwgan.app.api import Synthesizer
from dpwgan.app.claims.verification import find_faults
from dpwgan.errors import UsageError
from dpwgan.privacy.randomness import make_choice_stream
from dpwgan.table.units import units
from tests.end_to_end.bad_inputs import HEADER, ROWS, SPECS
from tests.frozen.cases import FORMAL, METHODS
from tests.lives import SPECS as SMALL
from tests.lives import fit_through_kills, make_frame
from tests.programs import read_claim, run_on

UNIT = {"column": "person", "max_rows": 2}


def run(folder: Path, *flags: str, people: Any, seed: str | None = "7", **specs: Any) -> dict[str, Any]:
    """Runs the tool on the good table, whose rows are these people's, and gives the claim."""
    lines = [f"{HEADER},person", *(f"{row},{name}" for row, name in zip(ROWS, people, strict=True))]
    run_on(folder, lines, {**SPECS, **specs}, *(() if seed is None else ("--seed", seed)), *flags)
    return read_claim(folder)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "flags"), FORMAL)
def test_output_is_that_of_rows_when_each_unit_has_one(method, flags, tmp_path):
    people, whole = [f"P{row}" for row in range(60)], ("--method", method, *flags)
    one = {**UNIT, "max_rows": 1}
    run(tmp_path / "unit", *whole, people=people, unit=one)
    run(tmp_path / "rows", *whole, people=people, person={"type": "drop"})
    assert (tmp_path / "unit" / "out.csv").read_bytes() == (tmp_path / "rows" / "out.csv").read_bytes()


def test_rows_beyond_a_units_own_are_left_out_and_the_claim_says_so(tmp_path):
    people = [f"P{row // 6}" for row in range(60)]
    claim = run(tmp_path / "a", "--method", "independent", people=people, seed=None, unit=UNIT)
    assert (claim["public"]["records"], claim["public"]["rows_read"], claim["output"]["rows"]) == (20, 60, 20)
    assert claim["public"]["units"] == 10
    assert claim["budget"]["delta_asked"] == 1 / 400
    guarantee = claim["guarantee"]
    assert guarantee["rows_per_unit"] == 2
    assert guarantee["unit"] == "all rows with the same cell in 'person', at most 2 of which are kept"
    assert "the rows of one unit" in guarantee["neighbouring_relation"]["meaning"]
    assert "any one unit" in claim["statement"]
    assert {line["rows"] for line in claim["ledger"]} == {2}
    assert not any(item.startswith("a person with more than one row") for item in claim["not_covered"])
    assert any(item.startswith("how many rows a unit has") for item in claim["not_covered"])
    assert any(item.startswith("a person who is more than one unit") for item in claim["not_covered"])
    assert "in common is not kept" in claim["output"]["note"]
    out = pl.read_csv(tmp_path / "a" / "out.csv", infer_schema=False)
    assert out.columns == list(SPECS)
    # As many rows without a name: whoever runs it vouches for that.
    flags = ("--method", "independent", "--rows-per-unit", "6")
    claim = run(tmp_path / "b", *flags, people=people, seed=None, person={"type": "drop"})
    assert "rows_read" not in claim["public"]
    assert (claim["public"]["records"], claim["guarantee"]["rows_per_unit"]) == (60, 6)
    assert any("--rows-per-unit, not checked" in words for words in claim["accountant"]["assumptions"])


def test_a_list_of_a_column_that_units_share_costs_a_unit_what_it_costs_a_row():
    towns = {"type": "enum", "values_from": "data", "domain_privacy": "private", "missing": ["?"]}
    unit, named = {"column": "who", "max_rows": 5}, {"who": {"type": "integer", "uuid": True}}
    specs = {"unit": unit, **named, "town": {**towns, "of": "unit"}, "own": towns}
    # Some 170 units are needed of a town, or 930 rows, for which most have too few.
    who = np.repeat(np.arange(300), np.where(np.arange(300) < 20, 5, 1))
    town = np.where(who < 280, "big", "small")
    frame = pl.DataFrame({"who": who, "town": town, "own": town}).to_pandas()
    synthesizer = Synthesizer(specs, 2.0, 1e-6, method="independent").fit(frame)
    claim = synthesizer.claim()
    lines = {line["label"]: line for line in claim.document["ledger"]}
    shared, own = lines["cells of town"], lines["cells of own"]
    assert "rows" not in shared
    assert shared["mechanism"].endswith("each unit counted once")
    assert own["rows"] == 5
    assert (shared["epsilon"], shared["delta"]) == (own["epsilon"], own["delta"])
    assert [synthesizer.schema.by_name[name].tokens for name in ("town", "own")] == [("big", "?"), ("?",)]
    assert not list(find_faults(claim))


@pytest.mark.slow
@pytest.mark.parametrize("anchor", ["queries", "none"])
def test_critic_draws_whole_units_when_a_column_names_them(anchor, tmp_path):
    people = [f"P{row // 6}" for row in range(60)]
    flags = dict(METHODS["dp-wgan"])[anchor][1]
    for name, rules in (("units", []), ("rows", [{"sql": "age < 200", "violations": "drop"}])):
        claim = run(tmp_path / name, *flags, people=people, seed=None, unit=UNIT, rules=rules)
        steps = next(line for line in claim["ledger"] if line["label"] == "critic steps")
        # Where rules drop rows it is not told whose those are that are left: then rows are drawn apart.
        assert steps.get("rows", 1) == (1 if name == "units" else 2)
        drawn = [words for words in claim["accountant"]["assumptions"] if "every critic step draws each" in words]
        assert ("draws each unit" in drawn[0]) is (name == "units")
        assert claim["guarantee"]["epsilon"] <= 1.0


@pytest.mark.parametrize("entry", [{"type": "string", "uuid": True}, {"type": "drop"}])
def test_row_names_are_warned_of_unless_it_is_said_whose_rows_are(entry, tmp_path, capsys):
    people = [f"P{row}" for row in range(60)]
    for folder, flags, warned in (("a", (), True), ("b", ("--rows-per-unit", "1"), False)):
        run(tmp_path / folder, "--method", "independent", *flags, people=people, person=entry)
        told = capsys.readouterr().err
        assert ("what is protected is one row: if column 'person' says whose a row is" in told) is warned


def test_a_frame_has_units_and_its_model_none_when_it_is_saved(tmp_path):
    frame = make_frame().assign(person=np.repeat(np.arange(53), 4)[:211])
    specs = {**SMALL, "unit": UNIT}
    synthesizer = Synthesizer(specs, 1.0, method="independent").fit(frame)
    assert synthesizer.claim().document["public"]["records"] == 2 * 53
    assert list(synthesizer.sample(5).columns) == list(SMALL)
    synthesizer.save(tmp_path / "model")
    assert list(Synthesizer.load(tmp_path / "model").sample(5).columns) == list(SMALL)
    with pytest.raises(UsageError, match="leave --rows-per-unit out"):
        Synthesizer(specs, 1.0, method="independent", rows_per_unit=3).fit(frame)


def test_a_unit_keeps_its_rows_when_its_run_is_killed_and_goes_on(tmp_path, monkeypatch):
    chosen = []
    choose = units.Units.choose
    monkeypatch.setattr(units.Units, "choose", lambda *args, **more: chosen.append(choose(*args, **more)) or chosen[-1])
    frame = make_frame().assign(person=np.repeat(np.arange(53), 4)[:211])
    for name, kills in (("a", [30, 20]), ("b", [])):
        fit_through_kills(tmp_path / name, kills, specs={**SMALL, "unit": UNIT}, epsilon=1.0, frame=frame)
    assert len(chosen) == 4
    np.testing.assert_array_equal(chosen[0], chosen[1])
    np.testing.assert_array_equal(chosen[0], chosen[2])
    # Another run keeps others.
    assert np.any(chosen[0] != chosen[3])


def test_the_choice_is_that_of_the_seed_or_of_the_run_when_it_has_one():
    def draw(*seed: int, **key: int) -> int:
        return int(make_choice_stream(*seed, **key).integers(1 << 62))

    assert draw(1) == draw(1) == draw(1, key=5) != draw(2)
    assert draw(key=5) == draw(key=5) != draw(key=6)
    assert draw() != draw()
