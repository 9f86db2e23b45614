"""The anchor's plan: how the budget is shared out, what a public fact decides, and in which order rows are read."""

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpwgan.errors import PrivacyError
from dpwgan.marginals import anchor, anchor_plan
from dpwgan.marginals.anchor import FittedAnchor, fit_anchor
from dpwgan.marginals.anchor_plan import AnchorDesign, AnchorSettings, Kind, plan_anchor
from dpwgan.marginals.answers import measurements
from dpwgan.marginals.fit import plan as fit_plan
from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.marginals.one_way import one_ways
from dpwgan.marginals.one_way.one_ways import ONE_WAYS_LABEL
from dpwgan.marginals.rows.mixture_sampler import MixtureSampler
from dpwgan.marginals.selection import absence_questions, details, rank_correlations
from dpwgan.marginals.selection.comparison_questions import COMPARISON_LABELS
from dpwgan.marginals.selection.comparisons import Comparisons
from dpwgan.marginals.selection.day_lifts import DayLifts
from dpwgan.marginals.selection.details import Details
from dpwgan.marginals.selection.queries import ANSWER_LABEL, SELECTION_LABEL
from dpwgan.marginals.selection.rank_correlations import CORRELATIONS_LABEL, NORMS_LABEL
from dpwgan.plan import Plan
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.ledger import Ledger
from dpwgan.table.calendar import DAY, CalendarColumn
from dpwgan.table.encoded import EncodedTable, TableShape
from dpwgan.table.rows import Rows
from dpwgan.table.schema import CategoricalColumn, NumericColumn
from tests.ledgers import Watcher, open_ledger, watch_reads
from tests.marginals.groups import add_up_information
from tests.methods.privacy_totals import total_rho
from tests.methods.runs import NARROW, make_table, reserve
from tests.plans import make_terms
from tests.rows import make_run

ZERO_OUT = NeighboringRelation.ZERO_OUT
KINDS: tuple[Kind, ...] = ("queries", "one-ways")
FAST = AnchorSettings(rounds=3, codes=40, fit_steps=8)


def make_plan(
    table: EncodedTable | TableShape, *, kind: Kind = "queries", settings: AnchorSettings = FAST, **terms: Any
) -> Plan[AnchorDesign]:
    shape = table if isinstance(table, TableShape) else table.shape
    return plan_anchor(shape, make_terms(**terms), kind=kind, settings=settings)


def fit(
    encoded: EncodedTable, plan: Plan[AnchorDesign], *, ledger: Ledger | None = None, seed: int = 1
) -> FittedAnchor:
    run = make_run(encoded, ledger=reserve(plan) if ledger is None else ledger, seed=seed)
    return fit_anchor(run, plan.design)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [NARROW, NARROW[:2], NARROW[:1]])
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_releases_take_their_share_of_rho_when_added_up(kind, columns, share):
    plan = make_plan(make_table(300, columns=columns), kind=kind)
    if plan.design.pure:
        # Few histograms, and nothing else: Laplace noise, whose epsilons add up.
        assert not plan.design.fit.ticks
        assert sum(release.event.epsilon for release in plan.releases) == pytest.approx(1 / plan.choice.noise)
        gaussian = make_terms().calibrate(lambda scale: replace(plan.design, scale=scale, pure=False).releases).noise
        assert plan.releases[0].stddev <= replace(plan.design, scale=gaussian, pure=False).releases[0].stddev
        return
    part = replace(plan.design, scale=plan.design.scale / math.sqrt(share))
    rho = total_rho([release.charge for release in part.releases], relation=ZERO_OUT)
    assert rho == pytest.approx(1 / (2 * part.scale**2), rel=1e-9)
    assert rho == pytest.approx(share / (2 * plan.choice.noise**2), rel=1e-9)


def test_lines_are_those_of_the_kind_when_reserved():
    encoded = make_table(300)
    lines = {
        kind: {release.label: release.times for release in make_plan(encoded, kind=kind, epsilon=30.0).releases}
        for kind in KINDS
    }
    assert lines["one-ways"] == {ONE_WAYS_LABEL: 1}
    # With one column nothing hangs together, and the one-way counts have the whole budget.
    lone = make_table(200, columns=NARROW[:1])
    for kind in KINDS:
        plan = make_plan(lone, kind=kind)
        assert [release.label for release in plan.releases] == [ONE_WAYS_LABEL]
        assert len(fit(lone, plan).generator.probabilities()) == 1
    questions = len(NARROW) - 1 + 3
    assert lines["queries"] == {ONE_WAYS_LABEL: 1, SELECTION_LABEL: questions, ANSWER_LABEL: questions}
    assert make_plan(encoded, epsilon=0.05).design.queries == 2 + 3


def test_more_is_asked_for_when_the_budget_is_larger():
    encoded = make_table(300)
    plans = [make_plan(encoded, settings=AnchorSettings(), epsilon=epsilon) for epsilon in (0.05, 4.0, 8.0, 60.0)]
    edges, rounds = ([getattr(plan.design, name) for plan in plans] for name in ("edges", "rounds"))
    assert edges == sorted(edges)
    assert (edges[0], edges[-1]) == (2, len(NARROW) - 1)
    assert rounds == sorted(rounds)
    assert rounds[0] == 0 < rounds[-1]
    # One-ways have nearly all of a budget that shows little else, and never less than their part of every marginal.
    shares = [plan.design.one_ways_share for plan in plans]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 0.8
    assert shares[-1] >= 0.15
    assert plans[0].design.scale > plans[1].design.scale > plans[2].design.scale
    assert all(plan.design.ways == 2 for plan in plans)
    assert make_plan(encoded, settings=AnchorSettings(ways=4)).design.ways == 4
    assert make_plan(make_table(300, columns=NARROW[:2]), settings=AnchorSettings(ways=4)).design.ways == 2
    limits = {3: 15, 8: 40, 15: 75, 16: 80, 25: 80, 27: 87, 35: 148, 98: 160}
    assert {columns: anchor_plan._limit_rounds(columns) for columns in limits} == limits
    many = replace(encoded.shape, records=10_000_000)
    assert make_plan(many, settings=AnchorSettings(), epsilon=8.0).design.rounds == 5 * len(NARROW)


def test_columns_of_few_cells_are_asked_for_more_and_larger_marginals_when_planned():
    design = make_plan(make_table(300), settings=AnchorSettings(), epsilon=8.0).design
    few = replace(design.one_way_plan.attributes[0], codes=2, levels=0, missing=())
    plans = [
        replace(design.one_way_plan, attributes=(replace(few, codes=codes),) * 16, looks=(1,) * 16) for codes in (2, 20)
    ]
    cells = [anchor_plan._count_cells(plan) for plan in plans]
    assert [anchor_plan._choose_ways(3_300.0, each) for each in cells] == [5, 3]
    assert [anchor_plan._choose_ways(300.0, each) for each in cells] == [3, 2]


@pytest.mark.parametrize(
    ("columns", "rounds", "turns"),
    [
        (5, 0, 0),
        (5, 7, 7),
        (30, 80, 80),
        (35, 157, 79),
        (31, 40, 40),
        (32, 40, 20),
        (98, 24, 4),
        (98, 51, 9),
        (98, 111, 11),
    ],
)
def test_questions_are_asked_together_when_they_or_columns_are_many(columns, rounds, turns):
    design = make_plan(make_table(300), settings=AnchorSettings(), epsilon=8.0).design
    plan = replace(design.one_way_plan, attributes=design.one_way_plan.attributes[:1] * columns, looks=(1,) * columns)
    assert replace(design, one_way_plan=plan, rounds=rounds).fit.turns == turns


def test_all_questions_are_asked_when_some_are_asked_together(monkeypatch):
    monkeypatch.setattr(fit_plan, "_MOST_TURNS", 2)
    encoded, watch = make_table(300), Watcher()
    plan = make_plan(encoded, settings=replace(FAST, rounds=5), epsilon=30.0)
    assert plan.design.fit.turns == 2
    fit(encoded, plan, ledger=reserve(plan, observers=[watch]))
    assert watch.order.count(SELECTION_LABEL) == watch.order.count(ANSWER_LABEL) == plan.design.queries
    assert plan.design.queries == len(NARROW) - 1 + 5


def test_last_fit_takes_more_steps_when_the_noise_is_weak():
    design = make_plan(make_table(300), settings=AnchorSettings()).design
    steps = [replace(design, scale=300 / strength).fit.steps for strength in (10, 20_000, 30_000, 40_000, 10**6)]
    assert steps == [300, 300, 450, 500, 500]
    assert replace(design, settings=FAST, scale=1e-6).fit.steps == 8


def test_wide_tables_have_more_codes_and_fewer_but_longer_steps(monkeypatch):
    design = make_plan(make_table(300), settings=AnchorSettings()).design
    assert replace(design, scale=300 / 10**6).fit.choose_codes(400) == 300
    assert replace(design, shape=replace(design.shape, records=1_200), scale=1e-3).fit.choose_codes(400) == 1_200
    design = replace(design, shape=replace(design.shape, records=10**6), scale=1.0)
    widths = (400, 600, 1_500, 4_000, 40_000)
    assert [design.fit.choose_codes(width) for width in widths] == [3_000, 3_600, 9_000, 4_000, 500]
    strengths = (600, 40_000, 80_000, 10**6)
    codes = [replace(design, scale=10**6 / strength).fit.choose_codes(2_000) for strength in strengths]
    assert codes == [1_200, 4_000, 8_000, 8_000]
    for width, steps, rate, turn_steps in (
        (300, 500, 0.1, 10),
        (500, 500, 0.1, 10),
        (1_000, 167, 0.3 / 1.67, 5),
        (9_000, 63, 30 / 63, 5),
        (60_000, 50, 0.6, 5),
    ):
        monkeypatch.setattr(fit_plan.FitPlan, "likely_width", width)
        assert (design.fit.steps, design.fit.learning_rate) == (steps, pytest.approx(rate))
        assert design.fit.turn_steps == turn_steps
        assert design.fit.is_short == (turn_steps == 5)
        assert design.summary()["fit_learning_rate"] == design.fit.learning_rate
        asked = replace(design, settings=AnchorSettings(fit_steps=30, fit_learning_rate=0.02))
        assert (asked.fit.steps, asked.fit.learning_rate, asked.fit.is_short) == (30, 0.02, False)


@pytest.mark.parametrize(("short", "steps", "rate"), [(False, 10, 0.07), (True, 5, 0.14)])
def test_codes_go_on_from_turn_to_turn_when_fitted(short, steps, rate, monkeypatch):
    encoded, fits = make_table(300, columns=NARROW), list[tuple[Any, ...]]()
    design = make_plan(encoded, settings=replace(FAST, fit_steps=None)).design
    monkeypatch.setattr(fit_plan.FitPlan, "is_short", short)
    fit_codes = anchor.fit

    def note(mixture: Any, losses: Any, **given: Any) -> None:
        before = mixture.probabilities()
        fit_codes(mixture, losses, **given)
        fits.append(
            (mixture, before, mixture.probabilities(), *map(given.get, ("steps", "learning_rate", "last_rate")))
        )

    monkeypatch.setattr(anchor, "fit", note)
    monkeypatch.setattr(anchor, "fit_on", lambda *_, **__: None)
    left = fit(encoded, Plan(design=design, shape=encoded.shape, choice=make_plan(encoded).choice)).generator
    assert len(fits) == design.fit.turns + 1 == 4
    starts, ends = [[step[i] for step in fits] for i in (1, 2)]
    for start, end in zip([*starts[1:], left.probabilities()], ends, strict=True):
        np.testing.assert_allclose(start, end, atol=1e-6)
    assert all(np.abs(end - start).max() > 0.01 for start, end in zip(starts, ends, strict=True))
    for mixture, _, _, taken, first, last in fits:
        assert (taken, first, last) == (steps, pytest.approx(rate), pytest.approx(rate))
        assert mixture.probabilities().shape == (40, left.probabilities().shape[1])


def test_columns_have_more_groups_when_they_are_few():
    design = make_plan(make_table(300), settings=AnchorSettings(), epsilon=8.0).design
    one = replace(design.one_way_plan.attributes[0], codes=700, levels=0)
    number = replace(one, codes=0, levels=700)

    def count(columns: int) -> tuple[int, ...]:
        plan = replace(design.one_way_plan, attributes=(number, *(one,) * (columns - 1)), looks=(1,) * columns)
        return replace(design, one_way_plan=plan).most_sizes[:2]

    assert [count(columns) for columns in (2, 8, 9)] == [(128, 512), (128, 512), (128, 455)]
    assert [count(columns) for columns in (100, 400)] == [(40, 128), (32, 128)]


# Where rows are turned into exact counts.
READS = [
    (Rows, "sum"),
    (one_ways, "count_one_ways"),
    (measurements, "count_pairs"),
    (measurements, "count_marginals"),
    (absence_questions, "_count"),
    (details, "_count_details"),
    (rank_correlations, "_count_norms"),
    (rank_correlations, "_add_up_products"),
]


def fit_watched(
    encoded: EncodedTable, plan: Plan[AnchorDesign], patch: pytest.MonkeyPatch
) -> tuple[FittedAnchor, list[str], Watcher]:
    """A fit that charges all that it reserved, and reads rows behind the door alone; by which labels it read them."""
    watcher = Watcher()
    ledger = reserve(plan, observers=[watcher])
    reads = watch_reads(patch, ledger, watcher, READS)
    fitted = fit(encoded, plan, ledger=ledger)
    assert ledger.charged == {release.label: release.times for release in plan.releases}
    return fitted, reads, watcher


def make_wide(monkeypatch: pytest.MonkeyPatch, records: int = 2_000) -> EncodedTable:
    """A table with two columns of more codes than groups: one code of each belongs to one of the other."""
    monkeypatch.setattr(anchor_plan, "MOST_CELLS", 6)
    monkeypatch.setattr(anchor_plan, "_MOST_GROUPS", 6)
    tokens = tuple(map(str, range(24)))
    columns = [CategoricalColumn(name=name, tokens=tokens, integer=True) for name in ("county", "seat")] + NARROW[:2]
    encoded = make_table(records, columns=columns)
    encoded.codes[:, 1] = encoded.codes[:, 0]
    return encoded


def test_codes_are_told_apart_within_their_groups_when_they_are_many(monkeypatch):
    encoded = make_wide(monkeypatch)
    plan = make_plan(encoded, epsilon=30.0, settings=replace(FAST, codes=400, fit_steps=200, rounds=8))
    assert (plan.design.most_groups, plan.design.detailed, plan.design.details) == (6, (0, 1), 2)
    assert plan.design.queries == 3 + 8
    assert {release.label: release.times for release in plan.releases}[ANSWER_LABEL] == plan.design.queries
    rho = total_rho([release.charge for release in plan.releases], relation=ZERO_OUT)
    assert rho == pytest.approx(1 / (2 * plan.choice.noise**2), rel=1e-9)
    fitted, reads, watcher = fit_watched(encoded, plan, monkeypatch)
    assert reads[-1] == SELECTION_LABEL
    assert watcher.order[-4:] == [SELECTION_LABEL, ANSWER_LABEL] * 2
    sampler = fitted.make_sampler(fitted.generator.probabilities())
    assert next(iter(sampler.details.lifts)) in ((0, 1), (1, 0))

    def count_absurd(sampler: MixtureSampler) -> float:
        (drawn,) = sampler.sample(2_000, rng=np.random.default_rng(1))
        again = sampler.draw_cells(sampler.coarsening.to_groups(drawn), rng=np.random.default_rng(2))
        return max(float(np.mean(rows.codes[:, 0] != rows.codes[:, 1])) for rows in (drawn, again))

    assert count_absurd(sampler) < 0.4
    assert count_absurd(replace(sampler, details=Details())) > 0.6


@pytest.mark.parametrize("rounds", [4, 9])
def test_all_is_asked_when_there_are_no_codes_to_tell_apart(rounds, monkeypatch):
    encoded = make_wide(monkeypatch, records=600)
    encoded.codes[:, :2] %= 2  # no group of several codes holds a record
    plan = make_plan(encoded, epsilon=100.0, settings=replace(FAST, rounds=rounds))
    assert plan.design.details == rounds // 4
    ledger = reserve(plan)
    assert not fit(encoded, plan, ledger=ledger).details.lifts
    assert ledger.charged == {release.label: release.times for release in plan.releases}


def test_codes_are_told_apart_only_where_public_facts_say_that_it_can_pay(monkeypatch):
    encoded = make_wide(monkeypatch)
    rounds = replace(FAST, rounds=8)
    strong = make_plan(encoded, epsilon=30.0, settings=rounds).design
    assert strong.detailed == (0, 1)
    # A column of fewer codes than it may have groups has such that share one where the last of Zipf's law are rare.
    monkeypatch.setattr(anchor_plan, "MOST_CELLS", 24)
    least = 3 * strong.answer_stddev * 24 * math.log(24)
    for records, found in ((math.floor(least), (0, 1)), (math.ceil(least), ())):
        shape = replace(strong.shape, records=records)
        assert anchor_plan._choose_detailed(replace(strong, shape=shape)) == found
    monkeypatch.setattr(anchor_plan, "MOST_CELLS", 6)
    # Four answers each, but a quarter of the rounds at most; no more columns than that.
    for many, played, questions in (
        (0, 80, (0, 1)),
        (1, 80, (4, 4)),
        (4, 80, (16, 4)),
        (7, 80, (20, 2)),
        (1, 8, (2, 2)),
    ):
        design = replace(strong, rounds=played, detailed=tuple(range(many)))
        assert (design.details, design.answers_a_detail) == questions
    assert anchor_plan._choose_detailed(replace(strong, rounds=4)) == (0,)
    assert anchor_plan._choose_detailed(replace(strong, rounds=3)) == ()
    # A number has levels in an order, whose intervals need no telling apart.
    number = replace(strong.one_way_plan.attributes[0], codes=0, levels=24)
    others = replace(strong.one_way_plan, attributes=(number, *strong.one_way_plan.attributes[1:]))
    assert anchor_plan._choose_detailed(replace(strong, one_way_plan=others)) == (1,)
    assert not make_plan(encoded, kind="one-ways", epsilon=30.0, settings=rounds).design.details


def make_pay(records: int = 1_000) -> EncodedTable:
    """A table with two numbers of many levels, which are the same."""
    numbers = [NumericColumn(name=name, minimum=0, maximum=999, integer=True) for name in ("pay", "total")]
    encoded = make_table(records, columns=[*numbers, *NARROW[:2]])
    encoded.numbers[:, 1] = encoded.numbers[:, 0]
    return encoded


def test_numbers_are_compared_when_there_are_several_of_a_unit(monkeypatch):
    encoded = make_pay()
    plan = make_plan(encoded, epsilon=10.0, settings=replace(FAST, codes=200, fit_steps=100))
    design = plan.design
    assert (design.compared, design.comparisons, design.queries) == ((0, 1), 1, 3 + 3)
    # The noise of an answer is four times that of others; the selection is as theirs.
    lines = {release.label: release for release in plan.releases}
    selection, answer = (lines[label] for label in COMPARISON_LABELS)
    assert answer.stddev == pytest.approx(4 * lines[ANSWER_LABEL].stddev, rel=1e-6)
    assert selection.event == lines[SELECTION_LABEL].event
    assert selection.times == answer.times == 1
    rho = total_rho([release.charge for release in plan.releases], relation=ZERO_OUT)
    assert rho == pytest.approx(1 / (2 * plan.choice.noise**2), rel=1e-6)
    fitted, reads, watcher = fit_watched(encoded, plan, monkeypatch)
    assert reads[-1] == COMPARISON_LABELS[0]
    assert watcher.order[-2:] == [*COMPARISON_LABELS]
    sampler = fitted.make_sampler(fitted.generator.probabilities())

    def count_same(sampler: MixtureSampler) -> float:
        (drawn,) = sampler.sample(1_000, rng=np.random.default_rng(1))
        again = sampler.draw_cells(sampler.coarsening.to_groups(drawn), rng=np.random.default_rng(2))
        return min(float(np.mean(rows.numbers[:, 0] == rows.numbers[:, 1])) for rows in (drawn, again))

    assert count_same(sampler) > 0.95
    assert count_same(replace(sampler, comparisons=Comparisons())) < 0.6


def test_numbers_are_compared_only_where_public_facts_say_that_there_is_something_to_compare():
    encoded = make_pay()
    design = make_plan(encoded, epsilon=10.0).design
    assert [replace(design, compared=tuple(range(many))).comparisons for many in (0, 2, 3, 11, 21)] == [0, 1, 2, 10, 10]
    assert not make_plan(encoded, epsilon=10.0, settings=replace(FAST, rounds=0)).design.compared
    # After a short fit rows are moved to answers.
    long, short = (
        make_plan(encoded, epsilon=10.0, settings=AnchorSettings(rounds=3, codes=codes)).design for codes in (40, 10**6)
    )
    assert (long.fit.is_short, long.compared, short.fit.is_short, short.compared) == (False, (0, 1), True, ())
    assert not make_plan(encoded, kind="one-ways", epsilon=10.0).design.compared
    few = NumericColumn(name="few", minimum=0, maximum=127, integer=True)
    for columns in ([few, replace(few, name="fewer"), *NARROW[:2]], [replace(few, maximum=999), few, *NARROW[:2]]):
        assert not make_plan(make_table(300, columns=columns), epsilon=10.0).design.compared


# From a Saturday on, in 2022.
DATE = CalendarColumn(name="date", written="date", format="%Y-%m-%d", first=19_000 * DAY, step=DAY, steps=699)


@pytest.mark.parametrize(("dates", "numbers", "comparisons"), [(1, 1, 0), (2, 0, 3), (3, 0, 6), (2, 1, 4), (2, 2, 6)])
def test_dates_are_compared_twice_more_each_and_once_with_what_may_lie_between(dates, numbers, comparisons):
    columns = [replace(DATE, name=f"date {place}") for place in range(dates)]
    columns += [NumericColumn(name=f"n {place}", minimum=0, maximum=999, integer=True) for place in range(numbers)]
    assert make_plan(make_table(300, columns=[*columns, NARROW[0]])).design.comparisons == comparisons


def test_days_are_told_apart_when_there_is_a_date(monkeypatch):
    encoded = make_table(3_000, columns=[DATE, *NARROW[:2], NARROW[0]])
    cells, facts = np.arange(3_000) % 700, lay_out_attributes(encoded.spans)
    facts[0].put_cells(cells, into=encoded)
    encoded.codes[:, -1] = cells % 7 < 2  # at weekends
    plan = make_plan(encoded, epsilon=20.0, settings=replace(FAST, codes=200, fit_steps=100, rounds=6))
    assert (plan.design.dates, plan.design.day_questions, plan.design.queries) == ((0,), 1, 3 + 6)
    fitted, reads, _ = fit_watched(encoded, plan, monkeypatch)
    assert reads[-1] == SELECTION_LABEL
    sampler = fitted.make_sampler(fitted.generator.probabilities())
    assert list(sampler.day_lifts.lifts) == [(0, 3)]

    def count_odd(sampler: MixtureSampler) -> float:
        (drawn,) = sampler.sample(2_000, rng=np.random.default_rng(1))
        return float(np.mean((facts[0].find_cells(drawn) % 7 < 2) != (drawn.codes[:, -1] == 1)))

    assert count_odd(sampler) < 0.05
    assert count_odd(replace(sampler, day_lifts=DayLifts())) > 0.3
    # Of few rounds none is spared for it; of many as many as columns can be asked for.
    for rounds, questions in ((5, 0), (12, 2), (60, 3)):
        assert make_plan(encoded, settings=replace(FAST, rounds=rounds)).design.day_questions == questions


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_read_behind_the_door_alone_when_fitted(kind, monkeypatch):
    encoded = make_table(300)
    # Marginals of three are counted too.
    plan = make_plan(encoded, kind=kind, settings=AnchorSettings(rounds=3, ways=3, codes=40, fit_steps=8))
    watcher = Watcher()
    ledger = reserve(plan, observers=[watcher])
    reads = watch_reads(monkeypatch, ledger, watcher, READS)
    fit(encoded, plan, ledger=ledger)
    assert set(reads) == {release.label for release in plan.releases} - {ANSWER_LABEL}
    assert Counter(watcher.order) == ledger.charged == {release.label: release.times for release in plan.releases}
    assert ledger.epsilon_spent() == ledger.epsilon_reserved()


@pytest.mark.parametrize("kind", KINDS)
def test_no_row_is_read_when_the_ledger_refuses(kind, monkeypatch):
    encoded = make_table(300)
    plan = make_plan(encoded, kind=kind)
    # A ledger in which one act of each line is missing stops the fit there.
    choice = plan.choice
    for missing in [release.label for release in plan.releases]:
        ledger = open_ledger([], budget=choice.terms.budget, accountant=choice.accountant)
        for release in plan.releases:
            kept = release.times - (release.label == missing)
            if kept:
                ledger.reserve(replace(release, times=kept))
        with pytest.raises(PrivacyError, match=missing):
            fit(encoded, plan, ledger=ledger)
    ledger = open_ledger([], budget=choice.terms.budget, accountant=choice.accountant)
    monkeypatch.setattr(one_ways, "count_one_ways", lambda *_: pytest.fail("rows were read"))
    with pytest.raises(PrivacyError, match=ONE_WAYS_LABEL):
        fit(encoded, plan, ledger=ledger)


@pytest.mark.parametrize("kind", KINDS)
def test_fitted_generator_is_near_the_table_when_there_is_hardly_any_noise(kind):
    rng = np.random.default_rng(3)
    encoded = make_table(2_000, columns=NARROW[:3])
    # The second column follows the first one.
    encoded.codes[:, 1] = np.where(rng.random(2_000) < 0.9, encoded.codes[:, 0] % 2, encoded.codes[:, 1])
    plan = make_plan(encoded, kind=kind, epsilon=1_000.0, settings=AnchorSettings(rounds=2, codes=200, fit_steps=300))
    fitted = fit(encoded, plan)
    probabilities = fitted.generator.probabilities()
    groups = fitted.table.rows.own.groups
    left, right = fitted.table.layout.get_slice(0), fitted.table.layout.get_slice(1)
    truth = np.zeros((left.stop - left.start, right.stop - right.start))
    np.add.at(truth, (groups[:, 0], groups[:, 1]), 1 / 2_000)
    error = np.abs(probabilities[:, left].T @ probabilities[:, right] / len(probabilities) - truth).sum()
    assert bool(error < 0.05) is (kind != "one-ways")
    assert np.abs(probabilities[:, left].mean(axis=0) - truth.sum(axis=1)).sum() < 0.03


def test_three_way_strength_is_public_when_the_table_is_large():
    """Three-way marginals come with n and epsilon alone, not with what the rows hold."""
    small = make_table(300).shape
    plans = [
        make_plan(shape, settings=AnchorSettings(), delta=1e-9) for shape in (small, replace(small, records=10**7))
    ]
    assert [plan.design.ways for plan in plans] == [2, 5]


def test_information_weight_is_public_and_follows_the_strength_when_none_is_asked_for():
    shape = make_table(300).shape
    plans = {
        (epsilon, weight): make_plan(
            shape, settings=AnchorSettings(information_weight=weight), epsilon=epsilon, delta=1e-9
        ).design
        for epsilon in (0.1, 1.0)
        for weight in (None, 0.25)
    }
    weights = {key: plan.fit.information_weight for key, plan in plans.items()}
    assert weights[0.1, 0.25] == weights[1.0, 0.25] == 0.25
    # The strength is n over the scale of the noise, which at these epsilons goes with one over epsilon.
    assert weights[1.0, None] / weights[0.1, None] == pytest.approx(10.0, rel=0.1)
    assert all(plan.summary()["information_weight"] == plan.fit.information_weight for plan in plans.values())
    # It moves no answer by more than so many stddevs of its noise, so that large tables are met more closely.
    large = make_plan(replace(shape, records=10**7), settings=AnchorSettings(), delta=1e-9).design
    assert large.fit.information_weight * large.answer_stddev == pytest.approx(2.0)


def test_codes_know_less_of_columns_when_information_weighs_more():
    encoded = make_table(400)
    knowledge = []
    for weight in (0.0, 0.3):
        settings = replace(FAST, information_weight=weight, fit_steps=100)
        fitted = fit(encoded, make_plan(encoded, settings=settings))
        knowledge.append(add_up_information(fitted.generator.probabilities(), fitted.table.measured.views.own))
    assert knowledge[1] < 0.5 * knowledge[0]


@pytest.mark.parametrize("stddevs_off", [0.9, 1.1])
def test_rows_go_to_answers_of_which_codes_of_a_short_fit_miss_one_by_more_than_noise(monkeypatch, stddevs_off):
    encoded = make_table(2_000, columns=NARROW)
    settings = replace(FAST, rounds=2, fit_steps=None)
    assert not fit(encoded, make_plan(encoded, settings=FAST)).is_short
    assert not fit(encoded, make_plan(encoded, settings=replace(settings, codes=20))).is_short
    monkeypatch.setattr(fit_plan, "_MOST_STEPPED_CELLS", 1)
    fitted = fit(encoded, make_plan(encoded, settings=settings))
    assert fitted.is_short
    table, probabilities = fitted.table, fitted.generator.probabilities()
    pairs = [pair for pair in table.measured if len(pair) == 2 and table.measured.views.is_of_groups(pair)]
    for pair in pairs:
        said = np.mean([np.outer(*(code[table.layout.get_slice(a)] for a in pair)) for code in probabilities], axis=0)
        stddev = table.measured.get_stddevs(pair)
        off = np.where(np.indices(said.shape).sum(axis=0) % 2, stddev, -stddev) * (pair == pairs[-1])
        table.measured._shares[pair] = (said + stddevs_off * off).astype(np.float32)
    wanted = fitted.make_sampler(probabilities).answers
    assert wanted.keys() == (set(pairs) if stddevs_off > 1 else set())
    assert not replace(fitted, is_short=False).make_sampler(probabilities).answers
    for pair, shares in wanted.items():
        # Other answers are met: there codes are as near.
        answer = np.maximum(table.measured.get_shares(pair), 0)
        assert np.abs(shares - answer / answer.sum()).sum() < (0.1 if pair == pairs[-1] else 1e-5)
        assert shares.min() >= 0
        assert shares.sum() == pytest.approx(1.0, abs=1e-5)


def make_survey(records: int = 3_000) -> EncodedTable:
    """Forty questions of five answers that all rise with one attitude, and a kind that has nothing to do with it."""
    answers = [CategoricalColumn(name=f"q{i}", tokens=tuple("12345"), integer=True) for i in range(40)]
    encoded = make_table(
        records, columns=[*answers, CategoricalColumn(name="kind", tokens=tuple("abc"), integer=False)]
    )
    rng = np.random.default_rng(0)
    attitude = rng.standard_normal((records, 1)) + 0.8 * rng.standard_normal((records, 40))
    encoded.codes[:, :40] = np.clip(np.rint(3 + attitude), 1, 5) - 1
    return encoded


def test_columns_that_rise_together_do_so_where_they_have_more_pairs_than_can_be_asked_for(monkeypatch):
    encoded = make_survey()
    plan = make_plan(encoded, epsilon=1.0, settings=replace(FAST, codes=300, fit_steps=100))
    assert plan.design.correlated == tuple(range(40))
    rho = total_rho([release.charge for release in plan.releases], relation=ZERO_OUT)
    assert rho == pytest.approx(1 / (2 * plan.choice.noise**2), rel=1e-6)
    fitted, reads, _ = fit_watched(encoded, plan, monkeypatch)
    of_ranks = [label for label in dict.fromkeys(reads) if "ranks" in label or "rank " in label]
    assert of_ranks == [NORMS_LABEL, CORRELATIONS_LABEL]

    def correlate(fitted: FittedAnchor) -> float:
        """The mean correlation of answers in the codes, over what it is in the table."""
        drawn, *_ = fitted.make_sampler(fitted.generator.probabilities()).sample(3_000, rng=np.random.default_rng(1))
        upper = np.triu_indices(40, 1)
        means = [np.corrcoef(rows.codes[:, :40], rowvar=False)[upper].mean() for rows in (drawn, encoded)]
        return float(means[0] / means[1])

    assert correlate(fitted) > 0.75
    monkeypatch.undo()
    without = replace(plan, design=replace(plan.design, correlated=()))
    assert correlate(fit(encoded, without)) < 0.6


def test_columns_are_correlated_only_where_public_facts_say_that_it_pays(monkeypatch):
    shape = make_survey(500).shape

    def find(records: int = 3_000, epsilon: float = 1.0, **more: Any) -> AnchorDesign:
        return make_plan(replace(shape, records=records), epsilon=epsilon, **more).design

    assert [len(find(records).correlated) for records in (200, 3_000, 30_000)] == [0, 40, 40]
    assert not find(kind="one-ways").correlated
    # With little noise, a quarter as many questions say what there is to say: pairs of codes count half.
    rounds = math.comb(40, 2) // 4 - find(10**7).edges
    many = {more: find(10**7, settings=replace(FAST, rounds=rounds + more)).correlated for more in (-1, 0)}
    assert [len(found) for found in many.values()] == [40, 0]
    # With more noise, fewer.
    assert not find(settings=replace(FAST, rounds=rounds - 1)).correlated
    # Of 41 columns' pairs, too.
    taken = 1.0 - find()._questions_share / (1.0 - find().one_ways_share)
    assert taken == pytest.approx(0.4 * math.comb(40, 2) / 2 / math.comb(41, 2))
    assert not make_plan(make_table(300), epsilon=8.0).design.correlated


def test_numbers_are_correlated_where_they_have_more_pairs_than_there_are_questions():
    numbers = [NumericColumn(name=f"x{i}", minimum=0, maximum=999, integer=True) for i in range(8)]
    names = [CategoricalColumn(name=f"kind{i}", tokens=("a", "b", "c"), integer=False) for i in range(2)]

    def find(rounds: int, epsilon: float = 8.0) -> AnchorDesign:
        table = make_table(1_000, columns=[*names, *numbers])
        return make_plan(table, epsilon=epsilon, settings=replace(FAST, rounds=rounds)).design

    most = math.comb(8, 2) - 9 - 1
    assert [find(rounds).correlated for rounds in (most, most + 1)] == [tuple(range(2, 10)), ()]
    # However small the budget is: what does not stand out is shrunk away.
    assert find(0, epsilon=0.1).correlated == tuple(range(2, 10))
    taken = 1.0 - find(0)._questions_share / (1.0 - find(0).one_ways_share)
    assert taken == pytest.approx(0.4 * math.comb(8, 2) / math.comb(10, 2))


def test_a_fit_goes_on_without_correlations_that_a_killed_run_lost(monkeypatch):
    encoded = make_survey(1_500)
    plan = make_plan(encoded, epsilon=1.0)
    ledger = reserve(plan)
    monkeypatch.setattr(ledger.journal, "has_lost", lambda name: name == "correlations")
    fitted = fit(encoded, plan, ledger=ledger)
    assert ledger.charged[CORRELATIONS_LABEL] == 0
    assert len(fitted.losses) == 2
