"""The plan of a run: the budget and its parts, from public facts alone."""

import math
from dataclasses import replace
from typing import Any

import pytest

from dpwgan.app.config import SynthesisConfig
from dpwgan.app.planning import (
    DISCOVERY_SHARE,
    SECONDS_A_CELL,
    START_SECONDS,
    RunPlan,
    discovery_label,
    plan_run,
    warn_of_noise,
)
from dpwgan.errors import DataError, PrivacyError, UsageError
from dpwgan.privacy.events import Gaussian
from dpwgan.privacy.journal import Spent
from dpwgan.privacy.terms import Alternative
from dpwgan.table.schema import CategoricalColumn, FixedColumn, Rule, Schema, SizeColumn, UndiscoveredColumn, UnitColumn

SEX = CategoricalColumn(name="sex", tokens=("1", "2"))
TOWN = UndiscoveredColumn(name="town", privacy="private", missing=("",))
JOB = UndiscoveredColumn(name="job", privacy="private", missing=("",))
SEA = UndiscoveredColumn(name="sea", privacy="waived")
FEW = {"steps": 3, "expected_batch_size": 8}
FOUND = CategoricalColumn(name="town", tokens=("a", "b", ""), missing=("",), domain="private")


def make_schema(*columns: CategoricalColumn | UndiscoveredColumn) -> Schema:
    return Schema(columns=columns, sha256="ab" * 32)


def plan(*columns: CategoricalColumn | UndiscoveredColumn, records: int = 100, **options: Any) -> RunPlan:
    """Plans a run on these columns, or on one; of few steps, where no method is named."""
    asked = {"epsilon": 1.0, **({} if "method" in options else {"settings": FEW}), **options}
    return plan_run(make_schema(*(columns or (SEX,))), records=records, config=SynthesisConfig(**asked))


def test_delta_defaults_to_one_over_n_squared_when_none_is_asked_for():
    for records, delta, chosen_by in ((100, 1e-4, "default: 1/n^2"), (1, 0.25, "default: 1/4, as for n = 2")):
        planned = plan(records=records)
        assert (planned.terms.budget.delta, planned.delta_chosen_by) == (delta, chosen_by)


@pytest.mark.parametrize(("delta", "warned"), [(0.02, True), (0.01, False), (1e-6, False)])
def test_delta_is_warned_about_when_it_is_above_one_over_n(caplog, delta, warned):
    with caplog.at_level("WARNING", logger="dpwgan"):
        plan(delta=delta)
    assert ("above 1/n" in caplog.text) == warned


def test_column_without_a_name_is_called_so_when_it_may_say_whose_a_row_is(caplog):
    with caplog.at_level("WARNING", logger="dpwgan"):
        plan(SEX, FixedColumn(name="", cell=None), FixedColumn(name="who", cell=None))
    assert "if column '' (the one without a name) or 'who' says whose a row is" in caplog.text


@pytest.mark.parametrize(("records", "rows_per_unit", "share"), [(100, 1, "12%"), (1_000, 1, None), (1_000, 5, "10%")])
def test_noise_is_warned_about_when_counts_drown_in_it(caplog, records, rows_per_unit, share):
    columns = [replace(SEX, name=name) for name in ("sex", "smokes", "married")]
    with caplog.at_level("WARNING", logger="dpwgan"):
        warn_of_noise(plan(*columns, records=records, method="query-gan", rows_per_unit=rows_per_unit))
    assert ("of the rows: what fewer" in caplog.text) == (share is not None)
    assert share is None or f"on each count is {share}" in caplog.text


@pytest.mark.parametrize(("cells", "is_hidden"), [(300, False), (800, True)])
def test_long_list_is_warned_about_when_noise_hides_most_of_its_cells(caplog, cells, is_hidden):
    codes = CategoricalColumn(name="code", tokens=tuple(map(str, range(cells))))
    sizes = SizeColumn(name="house (rows)", tokens=codes.tokens)
    with caplog.at_level("WARNING", logger="dpwgan"):
        warn_of_noise(plan(SEX, codes, sizes, records=5_000, method="query-gan"))
    assert ("hides most cells of 'code' (800)" in caplog.text) == is_hidden
    assert "'sex'" not in caplog.text
    assert "(rows)' (" not in caplog.text


@pytest.mark.parametrize(("columns", "records", "warned"), [(40, 500, True), (40, 20_000, False), (3, 500, False)])
def test_columns_are_warned_about_when_the_budget_ties_few_of_them(caplog, columns, records, warned):
    many = [replace(SEX, name=f"question {place}") for place in range(columns)]
    with caplog.at_level("WARNING", logger="dpwgan"):
        warn_of_noise(plan(*many, records=records, method="query-gan"))
    assert (f"and it takes {columns - 1} to tie all of them" in caplog.text) == warned


def test_discovery_takes_its_share_when_columns_are_paid_for():
    planned = plan(SEX, TOWN, SEA, JOB, records=1000, epsilon=2.0)
    assert sorted(planned.discoveries) == ["job", "town"]
    assert sum(event.epsilon for event in planned.discoveries.values()) == pytest.approx(2.0 * DISCOVERY_SHARE)
    assert sum(event.delta for event in planned.discoveries.values()) == pytest.approx(1e-6 * DISCOVERY_SHARE)
    assert planned.undiscovered
    ledger = planned.open_ledger()
    assert [item["label"] for item in ledger.itemise()] == [discovery_label("town"), discovery_label("job")]
    planned.reserve_training(ledger)
    assert ledger.epsilon_reserved() <= 2.0


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("dp-wgan", FEW),
        ("dp-wgan", {**FEW, "anchor": "none"}),
        ("query-gan", {}),
        ("independent", {}),
        ("ron-gauss", {}),
        ("dp-critic", {"formal": True}),
        ("dp-gan", {"steps": 20}),
        ("ron-dp-gan", {"steps": 20}),
    ],
)
def test_plan_keeps_its_accountant_when_lists_have_been_found(method, settings):
    before = plan(SEX, TOWN, records=1000, epsilon=2.0, method=method, settings=settings)
    ledger = before.open_ledger()
    later = before.after_discovery(make_schema(SEX, FOUND))
    assert not later.undiscovered
    assert later.shape.width == 1 + 3
    assert later.choice.accountant is before.choice.accountant
    later.reserve_training(ledger)
    assert ledger.epsilon_reserved() <= 2.0


@pytest.mark.parametrize("settings", [FEW, {**FEW, "steps": 50, "noise_multiplier": 4.0}])
@pytest.mark.parametrize("rule", ["auto", "paper", "amortized"])
def test_plan_keeps_the_rule_and_the_reason_when_lists_have_been_found(rule, settings):
    settings = {**settings, "anchor": "none"}
    before = plan(SEX, TOWN, records=1000, epsilon=2.0, accountant=rule, settings=settings)
    later = before.after_discovery(make_schema(SEX, FOUND))
    assert later.choice.describe()["rule"] == rule
    assert later.choice.describe() == before.choice.describe()
    assert later.config == before.config
    assert later.plan.design.noise_multiplier == later.choice.noise == before.plan.design.noise_multiplier
    assert "was asked for" not in later.choice.reason or rule == "amortized"


@pytest.mark.parametrize(
    ("records", "config", "schema", "words"),
    [
        (99, SynthesisConfig(epsilon=1.0, settings=FEW), make_schema(SEX), "for a table of 100 rows; this one has 99"),
        (100, SynthesisConfig(epsilon=0.9, settings=FEW), make_schema(SEX), "other settings"),
        (100, SynthesisConfig(epsilon=1.0, neighbours="replace-one", settings=FEW), make_schema(SEX), "other settings"),
        (100, SynthesisConfig(epsilon=1.0, settings=FEW), make_schema(SEX, SEA), "other specs"),
    ],
)
def test_plan_is_refused_when_it_is_for_something_else(records, config, schema, words):
    plan = plan_run(make_schema(SEX), records=100, config=SynthesisConfig(epsilon=1.0, settings=FEW))
    plan.refuse_unless_for(make_schema(SEX), records=100, config=SynthesisConfig(epsilon=1.0, settings=dict(FEW)))
    with pytest.raises(UsageError, match=words):
        plan.refuse_unless_for(schema, records=records, config=config)


def test_plan_says_none_when_an_accountant_has_no_answer():
    planned = plan(method="independent")
    accountant = planned.choice.accountant
    silent = replace(planned.choice, alternatives=(Alternative(accountant, math.inf, math.nan),)).describe()
    assert silent["alternatives"] == [{"name": accountant.name, "noise_scale": None, "epsilon": None}]


@pytest.mark.parametrize("method", ["dp-wgan", "query-gan", "independent", "ron-gauss", "ron-dp-gan", "dp-gan"])
def test_time_grows_with_rows_columns_and_steps_when_it_is_planned(method):
    def say(records: int, columns: int, **settings: Any) -> float:
        named = (replace(SEX, name=f"c{number}") for number in range(columns))
        return plan(*named, records=records, method=method, settings=settings).seconds

    assert 0.5 < say(1_000, 3) < say(1_000_000, 3) < say(1_000_000, 30)
    if method in ("dp-wgan", "dp-gan", "ron-dp-gan"):
        assert say(1_000, 3, steps=10) < say(1_000, 3, steps=1_000)


def test_time_counts_what_every_run_takes_when_it_is_planned():
    planned = plan()
    assert planned.seconds == pytest.approx(START_SECONDS + 100 * SECONDS_A_CELL + planned.plan.cost.seconds)


def test_time_is_planned_for_few_groups_when_noise_hides_most():
    town = CategoricalColumn(name="town", tokens=tuple(f"t{number}" for number in range(2_000)))
    towns = [replace(town, name=f"c{number}") for number in range(4)]
    loud, quiet = (
        plan(*towns, records=2_000, epsilon=epsilon, settings={}).plan.design.anchor for epsilon in (0.1, 10.0)
    )
    assert loud.fit.likely_width < quiet.fit.likely_width <= quiet.most_width
    assert loud.most_width == quiet.most_width
    assert loud.cost.seconds < quiet.cost.seconds


def test_plan_is_refused_when_it_cannot_be_made():
    with pytest.raises(DataError, match="no rows"):
        plan(records=0)
    with pytest.raises(UsageError, match="method must be one of"):
        plan(records=9, method="magic")
    with pytest.raises(PrivacyError):
        plan(records=9, epsilon=1e-9, delta=1e-15)
    with pytest.raises(UsageError, match="runs only with --no-guarantee"):
        plan(method="dp-gan", settings={"private_part": "generator"})


def test_what_was_spent_comes_off_the_budget_when_a_run_is_planned_anew():
    config = SynthesisConfig(epsilon=1.0, method="independent")
    spent = (Spent(label="counts (plan 1)", event=Gaussian(noise_multiplier=20.0), count=1),)
    whole, rest = (plan_run(make_schema(SEX), records=100, config=config, spent=past) for past in ((), spent))
    assert rest.choice.noise > whole.choice.noise
    ledger = rest.open_ledger()
    assert ledger.epsilon_reserved() <= 1.0
    # It is part of what the guarantee adds up, at the cost that it had.
    assert spent[0].label in {line["label"] for line in ledger.itemise()}
    assert ledger.epsilon_reserved() == pytest.approx(whole.open_ledger().epsilon_reserved(), abs=1e-3)


def test_whole_units_are_sampled_only_where_each_row_is_known_to_be_someones():
    unit = UnitColumn(name="who", max_rows=3)
    dropping = Rule(name="no 2", columns=("sex",), sql="sex <> '2'", violations="drop")
    for rows, rules, settings, sampled in (
        (3, (), FEW, True),
        (1, (), FEW, False),
        # Rows that are left do not say whose they are.
        (3, (dropping,), FEW, False),
        (3, (), {**FEW, "anchor": "none", "engine": "reference"}, False),
    ):
        schema = replace(make_schema(SEX), columns=(SEX, replace(unit, max_rows=rows)), rules=rules)
        planned = plan_run(schema, records=100, config=SynthesisConfig(epsilon=1.0, settings=settings))
        assert (planned.terms.unit.sampled, planned.terms.unit.rows) == (sampled, rows)
        steps = next(line for line in planned.open_ledger().itemise() if line["label"] == "critic steps")
        assert steps.get("rows", 1) == (1 if sampled else rows)
