"""Rows of one unit together: as many as a released histogram says, alike in the unit's columns, under a fresh name."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpwgan.app import cli, fitting
from dpwgan.app.api import Synthesizer
from dpwgan.app.claim import Claim
from dpwgan.app.claims.verification import find_faults
from dpwgan.app.sampling import RowSource
from dpwgan.app.together import UnitSource, _give_up, _hand_out, cut_units, draw_forms
from dpwgan.errors import SpecsError, UsageError
from dpwgan.marginals.rows.matching import CodeFit
from dpwgan.privacy.unit_counts import SIZES_LABEL
from tests.lives import fit_through_kills
from tests.programs import read_claim

NAMED = {"unit": {"column": "house", "max_rows": 4}, "house": {"type": "integer", "uuid": True, "min": 100}}
SPECS: dict[str, Any] = {
    **NAMED,
    "county": {"type": "enum", "count": 3, "of": "unit"},
    "rent": {"type": "integer", "min": 0, "max": 99, "of": "unit"},
    "dear": {"derived": {"from": "rent", "floordiv": 50}},
    "age": {"type": "integer", "min": 0, "max": 99},
    "rules": [{"sql": "age >= 15 OR rent < 50"}],
}
WHOLE = ["county", "rent", "dear"]
FEW: dict[str, Any] = {"method": "query-gan", "settings": {"rounds": 4, "codes": 100}}  # for few columns enough


def make_frame(units: int = 600) -> pd.DataFrame:
    """Households of 1 to 6, each in one county and of one rent; the young pay less."""
    rng = np.random.default_rng(4)
    house = np.repeat(np.arange(units), 1 + rng.binomial(5, 0.4, units))
    county, rent = rng.integers(0, 3, units)[house], rng.integers(0, 100, units)[house]
    age = np.where(rent < 50, rng.integers(0, 100, len(house)), rng.integers(15, 100, len(house)))
    names = np.char.add("H", house.astype(str))
    return pd.DataFrame({"house": names, "county": county, "rent": rent, "dear": rent // 50, "age": age})


def fit(specs: Any = SPECS, *, frame: pd.DataFrame | None = None, **options: Any) -> Synthesizer:
    return Synthesizer(specs, 20.0, method="independent", **options).fit(make_frame() if frame is None else frame)


def find_shares(names: pd.Series) -> Any:
    return np.bincount(np.minimum(names.value_counts(), 4), minlength=5)[1:] / names.nunique()


@pytest.fixture(scope="module")
def fitted() -> Synthesizer:
    return fit()


@pytest.mark.parametrize("rows", [None, 1, 7, 70_000])
def test_units_are_whole_and_as_large_as_the_tables_when_rows_are_put_together(fitted, rows):
    out = fitted.sample(rows)
    assert len(out) == (fitted.claim().rows if rows is None else rows)
    assert (out.groupby("house")[WHOLE].nunique() == 1).all(axis=None)
    # Rows of a unit lie together, and units count up from the first of their names.
    assert out.house.drop_duplicates().tolist() == list(range(100, 100 + out.house.nunique()))
    assert out.house.is_monotonic_increasing
    assert not ((out.age < 15) & (out.rent >= 50)).any()
    if rows is None or rows > 1_000:
        # Noise of 1.8 units a size, in 600; another way of cutting is further away.
        np.testing.assert_allclose(find_shares(out.house), find_shares(make_frame().house), atol=0.04)
        assert np.abs(find_shares(pd.Series(np.arange(len(out)) // 3)) - find_shares(out.house)).max() > 0.2
        # Shares of the unit's columns are those of rows.
        np.testing.assert_allclose(
            out.county.value_counts(normalize=True).sort_index(),
            make_frame().county.value_counts(normalize=True).sort_index(),
            atol=0.05,
        )
        # It is not first the lower half, say.
        assert abs(out.rent.head(len(out) // 2).mean() - out.rent.mean()) < 5


def test_rows_have_names_of_their_own_beside_the_units(monkeypatch):
    monkeypatch.setattr("dpwgan.app.together.choose_step", lambda columns: 500)
    line, key = {"type": "integer", "uuid": True, "min": 1, "width": 5}, {"type": "string", "uuid": True}
    specs = {**SPECS, "unit": {**NAMED["unit"], "kind": "role"}, "line": line, "key": key}
    specs["role"] = {"type": "enum", "values": ["head", "other"]}
    frame = make_frame()
    role = np.where(frame.house.duplicated(), "other", "head")
    out = fit(specs, frame=frame.assign(line="S3CRET", key="S3CRET", role=role)).sample(2_000)
    assert out.line.tolist() == [f"{row:05d}" for row in range(1, 2_001)]
    assert out.key.is_unique
    assert out.house.nunique() < 2_000


def test_output_does_not_depend_on_threads_and_is_the_seeds():
    frames = [fit(seed=3, threads=threads).sample(2_000) for threads in (1, 2)]
    pd.testing.assert_frame_equal(*frames)


@pytest.mark.parametrize(("units", "is_hidden"), [(600, False), (5, True)])
def test_noise_on_rows_of_units_is_warned_about_when_it_is_more_than_there_are(caplog, units, is_hidden):
    with caplog.at_level("WARNING", logger="dpwgan"):
        fit(frame=make_frame(units))  # noise of 1.8 units on each of four sizes
    assert ("adds up to more units than there are" in caplog.text) == is_hidden


def test_claim_names_the_histogram_and_holds(tmp_path, capsys):
    paths = [str(tmp_path / name) for name in ("data.csv", "out.csv", "specs.json")]
    make_frame().to_csv(paths[0], index=False)
    Path(paths[2]).write_text(json.dumps({**SPECS, "house": {"type": "string", "uuid": True}}))
    model = ("--save-model", str(tmp_path / "model"))
    assert cli.main((*paths, "1.0", "--method", "independent", *model), environment={}) == 0
    claim = read_claim(tmp_path)
    first = claim["ledger"][0]
    assert (first["label"], first["event"], first["epsilon"], first["charged"]) == (SIZES_LABEL, "laplace", 0.04, 1)
    assert "rows" not in first
    assert {line["rows"] for line in claim["ledger"] if line["event"] == "discrete_gaussian"} <= {4}
    assert claim["guarantee"]["epsilon"] <= 1.0
    assert any("a unit is in one cell" in words for words in claim["accountant"]["assumptions"])
    assert "the released histogram" in claim["output"]["note"]
    assert not list(find_faults(Claim(document=claim)))
    names = pd.read_csv(paths[1]).house
    assert names.str.len().eq(36).all()
    assert names.value_counts().max() <= 4
    # From a saved model, and of some counties only; a condition on persons would cut units.
    again = (paths[1] + "2", str(tmp_path / "more.csv"))
    where = ("--from-model", str(tmp_path / "model"), again[1], "--rows", "50", "--where", "county = 1")
    assert cli.main(where, environment={}) == 0
    more = pd.read_csv(again[1])
    assert (len(more), set(more.county)) == (50, {1})
    assert (more.groupby("house").rent.nunique() == 1).all()
    assert cli.main((*where[:2], again[0], "--where", "age > 20 AND county = 1"), environment={}) == 2
    assert "reads 'age', in which rows of a unit may differ" in capsys.readouterr().err
    assert not Path(again[0]).exists()


def test_nothing_is_released_when_a_unit_has_one_row():
    one = {**SPECS, "unit": {"column": "house", "max_rows": 1}}
    named, alone = fit(one, seed=5), fit({**one, "house": {"type": "drop"}, **_without_of()}, seed=5)
    assert [line["label"] for line in named.claim().document["ledger"]] == [
        line["label"] for line in alone.claim().document["ledger"]
    ]
    out = named.sample()
    assert out.house.tolist() == list(range(100, 100 + len(out)))
    pd.testing.assert_frame_equal(out.drop(columns="house"), alone.sample())
    assert len(named.sample(40, where="age > 20")) == 40


def _without_of() -> dict[str, Any]:
    return {name: {key: value for key, value in SPECS[name].items() if key != "of"} for name in ("county", "rent")}


@pytest.mark.parametrize("shared", [True, False])
def test_units_have_as_many_rows_of_each_kind_as_the_tables_when_a_column_says_it(shared):
    frame = make_frame(4_000)
    first = ~frame.house.duplicated()
    # One head in each, and a spouse where there are three; all others are of the last kind.
    second = frame.groupby("house").cumcount().eq(1) & frame.groupby("house").house.transform("size").eq(3)
    frame["role"] = np.where(first, "head", np.where(second, "spouse", "other"))
    specs = {
        **SPECS,
        **({} if shared else _without_of()),
        "unit": {**NAMED["unit"], "kind": "role"},
        "role": {"type": "enum", "values": ["head", "spouse", "other", "guest"]},
    }
    frame = frame[frame.groupby("house").cumcount() < 4]
    synthesizer = fit(specs, frame=frame)
    out = synthesizer.sample(20_000)

    def count(table: pd.DataFrame) -> Any:
        roles = table.role.astype(pd.CategoricalDtype(specs["role"]["values"]))
        return pd.crosstab(table.house, roles, dropna=False).value_counts(normalize=True)

    real, told = count(frame), count(out)
    # Noise of 1.8 units a form, in 4,000, of 69 forms; kinds by chance are off by half.
    assert real.sub(told, fill_value=0.0).abs().sum() / 2 < 0.02
    broken = count(out.assign(role=np.random.default_rng(1).permutation(out.role)))
    assert real.sub(broken, fill_value=0.0).abs().sum() / 2 > 0.4
    if shared:
        assert (out.groupby("house")[WHOLE].nunique() == 1).all(axis=None)
        assert not ((out.age < 15) & (out.rent >= 50)).any()
    assert not list(find_faults(synthesizer.claim()))


def test_units_have_as_many_rows_of_a_kind_as_the_specs_say():
    frame = make_frame()
    # In three of ten houses nobody is the head: specs say what output has, and the table is not checked.
    frame["role"] = np.where(frame.house.duplicated() | frame.house.str.endswith(("0", "3", "6")), "other", "head")
    specs = {**SPECS, "role": {"type": "enum", "values": ["spouse", "head", "other"]}}
    for of_kind, is_so in (({"head": 1, "spouse": [0, 1]}, True), ({}, False)):
        unit = {**NAMED["unit"], "kind": "role", "of_kind": of_kind}
        fitted = Synthesizer({**specs, "unit": unit}, 20.0, method="independent").fit(frame)
        for rows in (701, 1, 2) if is_so else (701,):
            out = fitted.sample(rows)
            heads, spouses = (out.role.eq(role).groupby(out.house).sum() for role in ("head", "spouse"))
            assert len(out) == rows
            assert (heads.eq(1) & spouses.le(1)).all() == is_so


@pytest.mark.parametrize("kind", [None, "role", "wave"])
def test_no_two_rows_of_a_unit_are_alike_in_its_unique_columns(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("dpwgan.app.together.choose_step", lambda columns: 8_000)
    rng = np.random.default_rng(2)
    house = np.repeat(np.arange(2_000), rng.choice([1, 3, 6], 2_000, p=[0.2, 0.2, 0.6]))
    wave = pd.Series(house).groupby(house).cumcount().to_numpy()
    role = np.where(wave % 2, "left", "right")
    frame = pd.DataFrame({"house": house, "county": house % 3, "wave": wave, "role": role})
    specs = {
        "unit": {"column": "house", "max_rows": 6, "unique": ["wave"], **({"kind": kind} if kind else {})},
        "house": {"type": "integer", "uuid": True},
        "county": SPECS["county"],
        "wave": {"type": "enum", "count": 6},
        "role": {"type": "enum", "values": ["left", "right"]},
    }
    synthesizer = Synthesizer(specs, 20.0, **FEW).fit(frame)
    synthesizer.save(tmp_path / "model")
    out = Synthesizer.load(tmp_path / "model").sample(9_000)
    assert not out.duplicated(["house", "wave"]).any()
    assert out.groupby("house").county.nunique().eq(1).all()
    whole = [table.groupby("house").wave.nunique().eq(6).mean() for table in (frame, out)]
    assert whole[1] == pytest.approx(whole[0], abs=0.02)
    for name in ("wave", "role"):
        shares = [table[name].value_counts(normalize=True).sort_index() for table in (frame, out)]
        # Of 36 fits the largest difference was .004, with a stddev of .0008.
        np.testing.assert_allclose(*shares, atol=0.025)
    # The broken twin: waves drawn by themselves.
    alone = Synthesizer({**specs, "unit": {"column": "house", "max_rows": 6}}, 20.0, **FEW).fit(frame)
    assert alone.sample(9_000).duplicated(["house", "wave"]).mean() > 0.2


def test_units_have_no_more_rows_than_a_released_list_tells_apart():
    # Cells that come once are not released, and what is left of the list is one cell.
    frame = pd.DataFrame({"house": np.arange(600) // 2, "wave": np.arange(600).astype(str)})
    specs = {
        "unit": {"column": "house", "max_rows": 2, "unique": ["wave"]},
        "house": {"type": "integer", "uuid": True},
        "wave": {"type": "enum", "values_from": "data", "domain_privacy": "private", "missing": ["other"]},
    }
    out = Synthesizer(specs, 5.0, method="independent").fit(frame).sample(8)
    assert out.wave.eq("other").all()
    assert out.house.is_unique


def test_a_row_may_come_twice_in_a_unit_where_its_kind_is_short():
    specs = {**SPECS, "unit": {**NAMED["unit"], "kind": "role"}, "role": {"type": "enum", "values": ["head", "other"]}}
    frame = make_frame().assign(role="other")
    frame.loc[frame.index[:6], "role"] = "head"
    synthesizer = fit(specs, frame=frame)
    units = UnitSource(RowSource(synthesizer._fit.model, synthesizer._fit.encoder, rows=400), *list_parts(synthesizer))
    drawn = units.draw(np.tile([4, 0], (100, 1)), 0, 0, draft=None, rng=np.random.default_rng(1))
    assert drawn.height == 400
    assert (drawn.group_by("house").len()["len"] == 4).all()


def test_rows_of_a_kind_that_is_short_come_twice_in_different_units():
    kinds, units = np.where(np.arange(40) < 5, 1, 0).astype(np.int32), np.tile([2, 2], (10, 1))
    rows = _hand_out(kinds, units, rng=np.random.default_rng(2)).reshape(10, 4)
    assert (kinds[rows].sum(axis=1) == 2).all()
    assert all(len({*unit}) == 4 for unit in rows.tolist())
    assert {*rows[kinds[rows] == 1].tolist()} == {*range(5)}


def list_parts(synthesizer: Synthesizer) -> tuple[Any, Any]:
    """The encoder and the unit that rows are put together by."""
    encoder = synthesizer._fit.encoder
    return encoder, encoder.schema.unit


def test_large_units_are_told_from_small_ones_by_number_and_not_by_their_digits():
    house = np.repeat(np.arange(1_200), np.where(np.arange(1_200) % 2, 2, 12))
    frame = pd.DataFrame({"house": house, "county": house % 2})
    unit = {"unit": {"column": "house", "max_rows": 12}, "house": NAMED["house"], "county": SPECS["county"]}
    houses = Synthesizer(unit, 20.0, method="query-gan").fit(frame).sample().groupby("house")
    counties = houses.county.first().groupby(houses.size()).mean()
    assert counties[[2, 12]].tolist() == pytest.approx([1.0, 0.0], abs=0.05)


@pytest.mark.parametrize("linked", [{}, {"linked": ["age"]}], ids=["not linked", "linked"])
@pytest.mark.parametrize("shared", [True, False], ids=["of the unit", "of rows"])
def test_units_of_some_kind_are_as_large_as_the_tables(shared, linked, tmp_path, monkeypatch):
    monkeypatch.setattr("dpwgan.app.together.choose_step", lambda columns: 8_000)
    frame = make_frame(4_000)
    frame["county"] = frame.groupby("house").house.transform("size").to_numpy() % 3
    specs = {**SPECS, **({} if shared else _without_of()), "unit": {**NAMED["unit"], **linked}}
    synthesizer = Synthesizer(specs, 20.0, **FEW).fit(frame)
    synthesizer.save(tmp_path / "model")
    out = Synthesizer.load(tmp_path / "model").sample(12_000)
    assert out.columns.tolist() == frame.columns.tolist()

    def count(table: pd.DataFrame) -> Any:
        size = table.groupby("house").house.transform("size").clip(upper=4)
        return table.groupby([table.county, size]).size() / len(table)

    kept = frame[frame.groupby("house").cumcount() < 4]
    # The broken twin: sizes by chance.
    by_chance = out.assign(county=np.random.default_rng(1).permutation(out.county))
    off = [count(table).sub(count(kept), fill_value=0.0).abs().sum() / 2 for table in (out, by_chance)]
    # Of 96 fits, short or not, .002 to .028, with a stddev of .008 at most; of the twin .52 to .54.
    assert off[0] < 0.06
    assert off[1] > 0.4


@pytest.mark.parametrize("most", [1, 4])
def test_places_and_sizes_are_those_of_units_of_the_output_and_never_read(most, tmp_path):
    roles = {"role": {"type": "enum", "values": ["head", "spouse", "other"]}}
    specs = {
        **SPECS,
        **roles,
        "unit": {"column": "house", "max_rows": most, "kind": "role", "unique": ["age"]},
        "line": {"type": "place", "of": "unit", "min": 0, "width": 2},
        "members": {"type": "size", "of": "unit"},
    }
    frame = make_frame().drop_duplicates(["house", "age"]).assign(line="S3CRET", members=None)
    frame["role"] = np.random.default_rng(1).choice([*roles["role"]["values"]], len(frame))
    synthesizer = fit(specs, frame=frame)
    synthesizer.save(tmp_path / "model")
    for out in (synthesizer.sample(1_500), Synthesizer.load(tmp_path / "model").sample(300)):
        of_unit = out.groupby("house")
        assert (out.members == of_unit.house.transform("size")).all()
        assert out.members.max() == most
        assert (out.line == of_unit.cumcount().map("{:02d}".format)).all()
        # Rows stand in the order of their kinds, and of what tells them apart.
        rank = out.role.map(roles["role"]["values"].index) * 1_000 + out.age
        assert rank.groupby(out.house).apply(lambda own: own.is_monotonic_increasing).all()
    assert not list(find_faults(synthesizer.claim()))


METERS: dict[str, Any] = {
    "unit": {"column": "house", "max_rows": 6, "kind": "register"},
    "house": {"type": "integer", "uuid": True},
    "tariff": {"type": "enum", "values": ["one", "two"], "of": "unit"},
    "persons": {"type": "integer", "min": 1, "max": 8, "of": "unit"},
    "register": {"type": "enum", "values": ["all", "day", "night", "shared"]},
    "rules": ["(register = 'all') = (tariff = 'one')", "register <> 'shared' OR persons > 8"],
}


def make_meters() -> pd.DataFrame:
    """Of 300 households half have six readings of one register, the others three of each of two."""
    house = np.repeat(np.arange(300), 6)
    register = np.where(house % 2, "all", np.tile(["day", "night"], 900))
    tariff = np.where(house % 2, "one", "two")
    return pd.DataFrame({"house": house, "tariff": tariff, "persons": 1 + house % 8, "register": register})


def test_no_unit_has_kinds_that_go_with_no_cells_of_its_own_columns(caplog):
    out = Synthesizer(METERS, 1.0, method="independent").fit(make_meters()).sample(2_000)
    assert len(out) == 2_000
    kinds = out.groupby("house").register.agg(frozenset)
    assert set(kinds) <= {frozenset(own) for own in (["all"], ["day"], ["night"], ["day", "night"])}
    # 209 forms with noise of 35 each are more than 1,800 rows.
    assert "units have 209 forms" in caplog.text
    rules = [{"sql": "register = 'all' AND persons > 8", "violations": "keep"}]
    with pytest.raises(SpecsError, match="The rules leave no unit"):
        fit({**METERS, "rules": rules}, frame=make_meters())


@pytest.mark.parametrize("kind", [{}, {"kind": "role"}], ids=["of one kind", "of kinds"])
def test_units_are_as_large_as_those_of_the_rows_that_no_rule_drops(kind):
    rules = [*SPECS["rules"], {"sql": "age < 40", "violations": "drop"}]
    frame = make_frame(4_000)
    frame = frame[frame.groupby("house").cumcount() < 4]
    frame["role"] = np.where(frame.age % 2, "odd", "even")
    roles = {"role": {"type": "enum", "values": ["odd", "even"]}}
    unit = {"unit": {**NAMED["unit"], **kind}}
    out = fit({**SPECS, **roles, **unit, "rules": rules}, frame=frame).sample(20_000)
    # A fifth of all units have no row left.
    np.testing.assert_allclose(find_shares(out.house), find_shares(frame[frame.age < 40].house), atol=0.02)
    assert np.abs(find_shares(frame.house) - find_shares(out.house)).max() > 0.2


def test_rows_are_put_together_in_any_order_when_units_share_no_column():
    out = fit({**SPECS, **_without_of()}).sample()
    assert out.house.value_counts().max() == 4
    assert (out.groupby("house").county.nunique() > 1).mean() > 0.4


def test_units_are_refused_when_hardly_one_keeps_the_rules(monkeypatch):
    monkeypatch.setattr("dpwgan.app.together._MOST_TURNS", 3)
    monkeypatch.setattr("dpwgan.app.together.choose_step", lambda columns: 400)
    rules = [{"sql": "age % 50 = rent % 50", "violations": "keep"}]
    specs = {**SPECS, "rent": {**SPECS["rent"], "max": 10**6}, "rules": rules, "dear": {"type": "drop"}}
    frame = make_frame()
    frame["rent"] = np.random.default_rng(5).integers(0, 10**6, 600)[frame.groupby("house").ngroup()]
    with pytest.raises(SpecsError, match="Hardly a unit"):
        fit(specs, frame=frame).sample(300)
    # Of one row each they keep every rule that rows keep.
    assert len(fit({**specs, "unit": {"column": "house", "max_rows": 1}}, frame=frame).sample(99)) == 99


@pytest.mark.parametrize(("kill", "times"), [(22, 2), (60, 1)], ids=["planned anew", "goes on"])
def test_sizes_are_paid_for_as_often_as_released_when_a_run_is_killed(tmp_path, monkeypatch, kill, times):
    counts, count = [], fitting.count_forms
    monkeypatch.setattr(fitting, "count_forms", lambda *args: counts.append(args) or count(*args))
    synthesizer, _ = fit_through_kills(tmp_path, [kill], specs=SPECS, epsilon=20.0, frame=make_frame(100))
    lines = [line["label"] for line in synthesizer.claim().document["ledger"] if line["charged"]]
    assert len(counts) == sum(label.startswith(SIZES_LABEL) for label in lines) == times


@pytest.mark.parametrize(
    ("fine", "forms"),
    [
        ([(2, 1), (1, 0), (0, 4)], {(2, 1)}),
        ([(1, 0), (2, 2), (3, 3)], {(1, 2)}),
        ([(1, 0), (1, 1)], {(1, 1), (1, 0)}),
    ],
    ids=["as many rows", "more", "fewer"],
)
def test_units_made_in_vain_are_given_up_for_fine_ones_of_as_many_rows_in_all(fine, forms):
    units, rng = np.array([[1, 0], [0, 3], [0, 3], [1, 1]]), np.random.default_rng(1)
    left = _give_up(units, {(0, 3)}, fine, least=np.zeros(2, int), rng=rng)
    assert left.sum() == units.sum()
    others = Counter(map(tuple, left.tolist())) - Counter([(1, 0), (1, 1)])
    assert set(others) == forms
    # Without any that is fine, or for what is not in vain, nothing changes.
    np.testing.assert_array_equal(_give_up(units, {(0, 3)}, [], least=np.zeros(2, int), rng=rng), units)
    np.testing.assert_array_equal(_give_up(units, set(), fine, least=np.zeros(2, int), rng=rng), units)


@pytest.mark.parametrize("rows", [32_768, 4_000])
def test_units_of_rare_cells_are_as_many_where_rules_tie_their_rows_to_them(rows, monkeypatch):
    monkeypatch.setattr("dpwgan.app.together.choose_step", lambda columns: rows)
    rng = np.random.default_rng(5)
    house = np.repeat(np.arange(2_000), 4)
    county, born = rng.choice(41, p=[0.6] + [0.01] * 40, size=2_000)[house], rng.integers(0, 80, 2_000)[house]
    age, income = born + rng.integers(0, 3, len(house)), rng.integers(0, 1_000, len(house))
    frame = pd.DataFrame({"house": house, "county": county, "born": born, "age": age, "income": income})
    specs = {
        **NAMED,
        "county": {"type": "enum", "count": 41, "of": "unit"},
        "born": {"type": "integer", "min": 0, "max": 79, "of": "unit"},
        "age": {"type": "integer", "min": 0, "max": 99},
        "income": {"type": "integer", "min": 0, "max": 999},
        "rules": ["age >= born AND age < born + 3"],
    }
    fitted = Synthesizer(specs, 20.0, method="independent").fit(frame.astype(str))
    shares = []
    for tries in (20, 0):
        monkeypatch.setattr("dpwgan.table.units.replacements._TRIES", tries)
        out = fitted.sample()
        assert out.age.sub(out.born).between(0, 2).all()
        assert out.groupby("house")[["county", "born"]].nunique().eq(1).all(axis=None)
        shares.append((out.county == 0).mean())
        # Persons of a house are hardly ever alike: .0005 of the table, and .025 and more of a row for several of them.
        assert out.duplicated(["house", "age", "income"]).mean() < 0.01
    # Of .621. Six runs gave .620 to .622, and .709 and more without other rows for those that break the rule.
    assert 0.6 < shares[0] < 0.64 < shares[1], shares


@pytest.mark.statistical
@pytest.mark.parametrize("linked", [{}, {"linked": ["wish"]}])
def test_rows_hang_on_the_last_of_many_columns_that_units_share(linked, monkeypatch):
    rng = np.random.default_rng(6)
    house = np.repeat(np.arange(1_500), 3)
    shared = {f"s{place}": rng.integers(0, 5, 1_500) for place in range(6)} | {"rent": rng.integers(0, 12, 1_500)}
    pay, wish = (np.clip(shared["rent"][house] + rng.integers(-1, 2, len(house)), 0, 11) for _ in range(2))
    frame = pd.DataFrame({"house": house, **{name: of[house] for name, of in shared.items()}, "pay": pay, "wish": wish})
    specs: dict[str, Any] = {
        "unit": {**NAMED["unit"], **linked},
        "house": NAMED["house"],
        **{name: {"type": "enum", "count": 5, "of": "unit"} for name in shared},
        "rent": {"type": "integer", "min": 0, "max": 11, "of": "unit"},
        **{name: {"type": "integer", "min": 0, "max": 11} for name in ("pay", "wish")},
    }
    fitted = Synthesizer(specs, 20.0, **FEW).fit(frame.astype(str))
    found = [fitted.sample(), pd.concat(fitted.sample(9) for _ in range(20))]
    # The broken twin: rows stay next to others that are nearly alike.
    monkeypatch.setattr(CodeFit, "match", lambda fit, rows, *more, rng: np.arange(len(rows)))
    monkeypatch.setattr(CodeFit, "weigh", lambda fit, heads, rows: np.zeros(len(rows)))
    found.append(fitted.sample())
    near = [(out.rent - out.pay).abs().lt(2).mean() for out in found]
    # Three runs gave .97 to .99, .92 to .97 for few rows (.59 with as few to choose from), and .53 at most.
    assert min(near[:2]) > 0.85 > 0.7 > near[2], near


def test_what_a_unit_has_to_have_is_not_cut():
    units, rng = np.array([[0, 2]]), np.random.default_rng(1)
    assert _give_up(units, {(0, 2)}, [(2, 1)], least=np.array([1, 1]), rng=rng).tolist() == [[1, 1]]
    assert _give_up(units, {(0, 2)}, [(1, 2)], least=np.array([0, 2]), rng=rng).tolist() == [[0, 2]]
    forms = np.array([[1, 2], [1, 0]])
    for rows in (500, 499, 1, 2):
        drawn = draw_forms(forms, [1.0, 0.0], rows, rng=rng)
        assert drawn.sum() == rows
        assert (drawn[:, 0] == 1).all()


@pytest.mark.parametrize("rows", [1, 2, 50, 1_001])
def test_drawn_sizes_add_up_and_are_in_proportion(rows):
    forms, shares = np.array([[1, 0], [0, 1], [2, 0], [1, 2]]), [0.2, 0.0, 0.5, 0.3]
    units = draw_forms(forms, shares, rows, rng=np.random.default_rng(1))
    sizes = units.sum(axis=1)
    assert sizes.sum() == rows
    assert sizes.min() >= 1
    if rows > 1_000:
        found = [(units == form).all(axis=1).mean() for form in forms]
        np.testing.assert_allclose(found, shares, atol=0.02)
    parts = list(cut_units(units, step=20))
    np.testing.assert_array_equal(np.concatenate([part for part, _, _ in parts]), units)
    assert [first for _, first, _ in parts] == np.cumsum([0, *(len(part) for part, _, _ in parts)])[:-1].tolist()
    assert [first for _, _, first in parts] == np.cumsum([0, *(part.sum() for part, _, _ in parts)])[:-1].tolist()
    assert max(part.sum() for part, _, _ in parts) < 20 + 2 * 4


def test_a_frame_with_its_own_condition_is_refused(fitted):
    with pytest.raises(UsageError, match="units are written whole"):
        fitted.sample(10, where="age > 3")
    assert set(fitted.sample(10, where="county = 2").county) == {2}


@pytest.mark.parametrize(("rows", "drawn"), [(10, range(1_000, 1_200)), (400, range(7_900, 8_500))])
def test_rows_to_choose_from_are_few_when_others_are_left_out_for_a_condition(fitted, monkeypatch, rows, drawn):
    asked, draw = [], RowSource.draw
    monkeypatch.setattr(RowSource, "draw", lambda self, rows, **more: asked.append(rows) or draw(self, rows, **more))
    fitted.sample(rows, where="county = 2")
    assert asked[0] in drawn
    asked.clear()
    fitted.sample(rows)
    assert asked[0] > 30_000
