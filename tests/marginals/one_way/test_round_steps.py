"""Steps that numbers are rounded to: what a record can move, and levels drawn as often as they were counted."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.marginals.one_way import one_ways
from dpwgan.marginals.one_way.coarsening import Coarsening
from dpwgan.marginals.one_way.merging import coarsen
from dpwgan.marginals.one_way.one_ways import ROUND_STEPS_LABEL, Blocks, OneWayPlan, count_round_steps, plan_one_ways
from dpwgan.marginals.one_way.round_steps import RoundSteps, count_levels, find_steps
from dpwgan.privacy.events import DiscreteGaussian
from dpwgan.table.calendar import DAY, SECOND, CalendarColumn
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.schema import NumericColumn, choose_round_steps
from tests.marginals.tables import make_encoded, measure_one_ways, replace_first_row

PAY = NumericColumn(name="pay", minimum=-5_000, maximum=1e5, integer=True, missing=("N",))
PRICE = NumericColumn(name="price", minimum=0.3, maximum=90, integer=False, decimals=2)
AGE = NumericColumn(name="age", minimum=0, maximum=99, integer=True)
TIME = CalendarColumn(name="at", written="time", format="%H:%M", first=0, step=60 * SECOND, steps=1_439)
COLUMNS = (PAY, AGE, PRICE, TIME)
STEPS = np.array([1, 5, 10, 50, 100])


def choose_any(plan: OneWayPlan, seed: int) -> tuple[Blocks, Blocks]:
    """Bands and lone levels as good as any that looks could lead to."""
    rng = np.random.default_rng(seed)
    levels = [plan.attributes[index].levels for index in plan.rounded]
    bands = tuple(np.union1d(rng.integers(0, many, 3), [0]) for many in levels)
    return bands, tuple(np.unique(rng.integers(0, many, many // 2)) for many in levels)


def test_numbers_of_many_levels_have_round_steps_by_the_digit_or_by_the_clock():
    attributes = plan_one_ways(make_encoded(1, seed=0, columns=COLUMNS).spans).attributes
    found = {attribute.column: (attribute.zero_level, attribute.round_steps) for attribute in attributes}
    assert found["pay"] == (5_000, (1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000))
    assert found["age"] == (0, ())
    assert found["price"] == (-30, (1, 5, 10, 50, 100, 500))
    assert found["at"] == (0, (1, 5, 15, 30, 60))
    late = replace(TIME, first=8 * 3_600 * SECOND, steps=600)
    assert late.parts[0].zero_level == -480
    day, time = replace(TIME, written="datetime", steps=1_440 * 30).parts
    assert (day.round_steps, time.round_steps) == ((), (1, 5, 15, 30, 60))
    assert replace(TIME, written="date", step=DAY, steps=3_000).parts[0].round_steps == ()
    assert choose_round_steps(128) == ()


@settings(max_examples=60)
@given(st.integers(-500, 1_500), st.integers(0, 900), st.integers(1, 99))
def test_levels_of_an_interval_are_counted_and_drawn_by_their_largest_step(zero, start, size):
    levels = np.arange(start, start + size)
    found = find_steps(levels, zero=zero, steps=STEPS.tolist())
    by_hand = [
        max(place for place, step in enumerate(STEPS) if (level - zero) % step == 0) if level != zero else 0
        for level in levels
    ]
    assert found.tolist() == by_hand
    counted = count_levels(np.array([start]), np.array([size]), zero=zero, steps=STEPS)
    assert counted.tolist() == [np.bincount(found, minlength=len(STEPS)).tolist()]
    steps = RoundSteps(zero=zero, steps=STEPS, bands=np.array([0]), odds=np.array([[0.2, 0.3, 1.0, 2.0, 5.0]]))
    intervals, chosen = (np.array([7, start]), np.array([1, size])), np.ones(20_000, np.int64)
    drawn = steps.draw(*intervals, chosen, rng=np.random.default_rng(0)) - start
    wanted = steps.odds[0][found] / steps.odds[0][found].sum()
    assert steps.weigh(np.array([start]), np.array([size]))[0] == pytest.approx(steps.odds[0][found].mean())
    noise = np.sqrt(wanted / 20_000)
    assert np.all(np.abs(np.bincount(drawn, minlength=size) / 20_000 - wanted) < 6 * noise)


@settings(max_examples=50)
@given(st.integers(2, 20), st.integers(0, 2**31))
def test_neighbours_are_no_further_apart_than_the_sensitivity_whatever_the_bands(records, seed):
    encoded = make_encoded(records, seed=seed, columns=COLUMNS)
    plan = plan_one_ways(encoded.spans)
    bands, alone = choose_any(plan, seed)
    release = plan.plan_releases(noise_multiplier=1.0)[-1]
    assert release.label == ROUND_STEPS_LABEL
    assert isinstance(release.event, DiscreteGaussian)
    assert _move_furthest(encoded, plan, bands, alone) <= release.sensitivity
    replaced = replace_first_row(encoded, make_encoded(1, seed=seed + 1, columns=COLUMNS))
    moved = count_round_steps(replaced, plan, bands, alone) - count_round_steps(encoded, plan, bands, alone)
    assert np.linalg.norm(moved) <= math.sqrt(2) * release.sensitivity
    assert max(np.sum(moved > 0), np.sum(moved < 0)) <= release.event.cells


def _move_furthest(encoded: EncodedTable, plan: OneWayPlan, bands: Blocks, alone: Blocks) -> float:
    rows = np.arange(encoded.records)
    others = [encoded.take(np.delete(rows, row)) for row in rows]
    whole, *without = (count_round_steps(table, plan, bands, alone) for table in (encoded, *others))
    return max(float(np.linalg.norm(whole - less)) for less in without)


def test_the_check_of_neighbours_fails_when_a_value_counts_for_every_step_that_divides_it(monkeypatch):
    """The twin, and the bound is reached: values that are multiples of all steps, all available."""
    encoded = make_encoded(3, seed=0, columns=[PAY, PRICE])
    plan = plan_one_ways(encoded.spans)
    for attribute, number in zip(plan.attributes, (10_000, 500), strict=True):
        level = attribute.zero_level + number
        attribute.put_cells(np.full(3, attribute.codes + level), into=encoded)
    bands, alone = (np.array([0]),) * 2, (np.zeros(0, np.int64),) * 2
    most = plan.plan_releases(noise_multiplier=1.0)[-1].sensitivity
    assert _move_furthest(encoded, plan, bands, alone) == pytest.approx(most)

    def find_all(levels, *, zero, steps):
        return np.concatenate([np.flatnonzero([True] * len(steps))] * len(levels)) if len(levels) else levels

    monkeypatch.setattr(one_ways, "find_steps", find_all)
    monkeypatch.setattr(one_ways.np, "searchsorted", lambda starts, levels, side: np.ones(1, np.int64))
    assert _move_furthest(encoded, plan, bands, alone) > 1.4 * most


def make_pay(records: int, *, heaped: bool) -> EncodedTable:
    """Pay of which three in five are whole thousands, and all others any number; or any number alone."""
    rng = np.random.default_rng(1)
    encoded = make_encoded(records, seed=0, columns=[PAY])
    values = rng.lognormal(9.5, 0.6, records).clip(0, 1e5)
    values = np.where((rng.random(records) < 0.6) & heaped, np.rint(values / 1_000) * 1_000, np.rint(values))
    attribute = plan_one_ways(encoded.spans).attributes[0]
    attribute.put_cells(attribute.codes + attribute.zero_level + values.astype(np.int64), into=encoded)
    return encoded


@pytest.mark.parametrize("heaped", [True, False])
def test_drawn_numbers_are_round_as_often_as_counted_ones_and_never_where_none_were(heaped):
    encoded = make_pay(20_000, heaped=heaped)
    plan = plan_one_ways(encoded.spans)
    measured = measure_one_ways(encoded, plan, noise_multiplier=30.0)
    coarsening = coarsen(measured, records=20_000, least_count=500.0)
    coarsening = Coarsening.from_document(coarsening.to_document())
    part, attribute = coarsening.parts[0], plan.attributes[0]
    assert (part.odds is not None) == heaped
    groups = np.repeat(np.arange(part.size), np.rint(part.probabilities * 20_000).astype(int))[:, None]
    drawn = coarsening.to_encoded(groups, rng=np.random.default_rng(0))
    assert np.array_equal(coarsening.to_groups(drawn), groups)
    pay = [attribute.find_cells(table) - attribute.codes - attribute.zero_level for table in (encoded, drawn)]
    shares = [np.mean(own % 1_000 == 0) for own in pay]
    assert shares[1] == pytest.approx(shares[0], abs=0.05 if heaped else 0.005)
    ends = [np.quantile(own, [0.05, 0.25, 0.5, 0.75, 0.95]) for own in pay]
    assert np.all(np.abs(ends[1] - ends[0]) < 0.12 * ends[0])
