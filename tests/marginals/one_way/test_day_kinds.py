"""Kinds of days: by the calendar of the standard library, drawn as their odds say, and found again in noisy counts."""

import datetime
import itertools
import json
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.errors import InputError
from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.marginals.one_way.coarsening import Coarsening
from dpwgan.marginals.one_way.day_kinds import DAY_KINDS, DayKinds, estimate_days, find_day_kinds
from dpwgan.marginals.one_way.merging import coarsen
from dpwgan.marginals.one_way.number_tree import Intervals
from dpwgan.marginals.one_way.one_ways import count_round_steps, plan_one_ways
from dpwgan.marginals.selection.day_lifts import find_dates
from dpwgan.table.encoded import lay_out_spans
from dpwgan.table.specs import parse_specs
from tests.marginals.tables import measure_one_ways, write_cells

FIRST = datetime.date(2019, 2, 20)
FIRST_DAY = FIRST.toordinal() - datetime.date(1970, 1, 1).toordinal()
LEVELS = 1_200
ALL = (True, True, True)
Integers = npt.NDArray[np.int64]


def tell(level: int, places: tuple[bool, ...] = ALL) -> int:
    """The kind of a day, by the standard library."""
    day = FIRST + datetime.timedelta(days=level)
    is_last = (day + datetime.timedelta(days=1)).month != day.month
    for place, flag in enumerate((day.day == 1, day.day == 15, is_last)):
        if flag and places[place]:
            return 7 + place
    return day.weekday()


KINDS = np.array([tell(level) for level in range(LEVELS)])


def make_intervals(starts: list[int], masses: list[float]) -> Intervals:
    sizes = np.diff([*starts, LEVELS])
    many = len(starts)
    return Intervals(
        starts=np.array(starts),
        sizes=sizes,
        masses=np.array(masses),
        counts=np.array(masses),
        variances=np.ones(many),
        is_inner=np.zeros(many, bool),
    )


@pytest.mark.parametrize("places", list(itertools.product([True, False], repeat=3)))
def test_kinds_are_those_of_the_calendar(places: tuple[bool, ...]) -> None:
    found = find_day_kinds(np.arange(LEVELS), first_day=FIRST_DAY, places=places)
    assert found.tolist() == [tell(level, places) for level in range(LEVELS)]
    assert set(found.tolist()) == {*range(7), *(7 + place for place in range(3) if places[place])}


def test_kinds_hold_before_1970_and_on_leap_days() -> None:
    for day in (datetime.date(1899, 12, 31), datetime.date(1904, 2, 29), datetime.date(2000, 2, 28)):
        first = day.toordinal() - datetime.date(1970, 1, 1).toordinal()
        is_last = (day + datetime.timedelta(days=1)).month != day.month
        expected = 9 if is_last else day.weekday()
        assert find_day_kinds(np.array([0]), first_day=first).tolist() == [expected]


def test_days_are_drawn_and_weighed_as_their_odds_say() -> None:
    odds = np.array([1.0, 2.0, 1.0, 0.5, 1.0, 0.1, 1e-9, 30.0, 1.0, 1.0])
    kinds = DayKinds(first_day=FIRST_DAY, levels=LEVELS, places=(True, False, True), odds=odds)
    starts, sizes = np.array([0, 3, 40, 900]), np.array([3, 37, 5, 300])
    expected = [
        np.array([odds[tell(level, kinds.places)] for level in range(start, start + size)])
        for start, size in zip(starts, sizes, strict=True)
    ]
    assert kinds.weigh(starts, sizes) == pytest.approx([own.mean() for own in expected])
    chosen = np.repeat(np.arange(4), 40_000)
    drawn = kinds.draw(starts, sizes, chosen, rng=np.random.default_rng(1))
    assert np.all((drawn >= starts[chosen]) & (drawn < (starts + sizes)[chosen]))
    for place, own in enumerate(expected):
        shares = np.bincount(drawn[chosen == place] - starts[place], minlength=len(own)) / 40_000
        assert np.abs(shares - own / own.sum()).max() < 0.01


def count(levels: Integers, *, noise: float, seed: int) -> npt.NDArray[np.float64]:
    counts = np.bincount(KINDS[levels], minlength=DAY_KINDS)
    return counts + np.random.default_rng(seed).normal(0.0, noise, DAY_KINDS)


def draw_days(law: dict[int, float], *, seed: int) -> Integers:
    """Days that are as likely as their kinds say, of 20,000 records."""
    weights = np.array([law.get(int(kind), 1.0) for kind in KINDS])
    return np.random.default_rng(seed).choice(LEVELS, 20_000, p=weights / weights.sum())


@pytest.mark.parametrize(
    "law",
    [{5: 0.3, 6: 0.0}, {7: 200.0}, {7: 200.0, 5: 0.0, 6: 0.0}, {8: 6.0, 9: 9.0}],
    ids=["weekends", "the first", "both", "the 15th and the last"],
)
def test_shares_of_kinds_are_found_again_when_intervals_hide_them(law: dict[int, float]) -> None:
    days = draw_days(law, seed=2)
    starts = [0, 100, 101, 180, 700]
    masses = np.bincount(np.searchsorted(starts, days, side="right") - 1, minlength=5).astype(float)
    intervals = make_intervals(starts, masses.tolist())
    inside = days[days != 100]  # a level that stands alone is not counted
    kinds = estimate_days(count(inside, noise=30.0, seed=3), intervals, first_day=FIRST_DAY, stddev=30.0)
    assert kinds is not None
    wide = np.array([0, 2, 3, 4])
    chosen = np.repeat(wide, np.round(masses[wide]).astype(int))
    drawn = kinds.draw(intervals.starts, intervals.sizes, chosen, rng=np.random.default_rng(4))
    real, made = (Counter(KINDS[own].tolist()) for own in (inside, drawn))
    for kind in range(DAY_KINDS):
        assert made[kind] / len(drawn) == pytest.approx(real[kind] / len(inside), abs=0.012), kind


def test_no_day_is_drawn_that_nobody_chose_whatever_its_place_in_the_month() -> None:
    """Closed on Sundays, on the first of a month as on others: places that differ by nothing else make no kind."""
    weights = np.array([(FIRST + datetime.timedelta(days=level)).weekday() != 6 for level in range(LEVELS)], float)
    days = np.random.default_rng(7).choice(LEVELS, 20_000, p=weights / weights.sum())
    intervals = make_intervals([0], [20_000.0])
    kinds = estimate_days(count(days, noise=30.0, seed=8), intervals, first_day=FIRST_DAY, stddev=30.0)
    assert kinds is not None
    assert kinds.places == (False, False, False)
    drawn = kinds.draw(np.array([0]), np.array([LEVELS]), np.zeros(20_000, np.int64), rng=np.random.default_rng(9))
    assert weights[drawn].all()


def test_nothing_is_made_of_noise() -> None:
    days = draw_days({}, seed=5)
    intervals = make_intervals([0, 400], [1.0, 1.0])
    found = [
        estimate_days(count(days, noise=60.0, seed=seed), intervals, first_day=FIRST_DAY, stddev=60.0)
        for seed in range(200)
    ]
    assert sum(kinds is not None for kinds in found) <= 4
    nobody = make_intervals([0, 400], [0.0, 0.0])
    assert estimate_days(np.ones(DAY_KINDS), nobody, first_day=FIRST_DAY, stddev=1.0) is None
    assert estimate_days(-np.ones(DAY_KINDS), intervals, first_day=FIRST_DAY, stddev=1.0) is None


def read(columns: dict[str, Any]) -> tuple[Any, ...]:
    return lay_out_spans(parse_specs(columns, sha256=""))


SPAN = {"min": "2019-02-20", "max": "2022-06-03"}


def test_days_on_end_have_kinds_and_no_other_moments() -> None:
    columns = {
        "date": {"type": "date", **SPAN},
        "moment": {
            "type": "datetime",
            "format": "%Y-%m-%d %H:%M",
            "min": "2019-02-20 00:00",
            "max": "2022-06-03 23:59",
        },
        "weeks": {"type": "date", "min": "2009-02-20", "max": "2022-06-03", "step": "7 days"},
        "months": {"type": "date", "format": "%Y-%m", "min": "2001-01", "max": "2022-06"},
        "time": {"type": "time", "format": "%H:%M", "min": "00:00", "max": "23:59"},
        "short": {"type": "date", "min": "2022-03-01", "max": "2022-06-03"},
        "few": {"type": "date", "min": "2019-02-20", "max": "2019-03-04"},
        "later": {"type": "date", "since": "date", "min": "0 days", "max": "900 days"},
        "number": {"type": "integer", "min": 0, "max": 9_999},
    }
    attributes = lay_out_attributes(read(columns))
    found = {facts.column: facts.first_day for facts in attributes if facts.first_day is not None}
    assert found == {"date": FIRST_DAY, "moment (day)": FIRST_DAY, "short": FIRST_DAY + 1_105, "few": FIRST_DAY}
    # Few days are counted one by one, as all numbers of few levels are.
    assert {facts.column for facts in attributes if facts.has_many_days} == {"date", "moment (day)"}
    # Of less than two weeks it is not asked what goes with weekdays.
    assert {attributes[place].column for place in find_dates(attributes)} == {"date", "moment (day)", "short"}


def test_a_record_moves_one_count_of_kinds_by_one() -> None:
    """By brute force, over all days: the first and the last row, taken away or with another day."""
    spans = read({"date": {"type": "date", **SPAN}, "other": {"type": "date", **SPAN, "optional": True}})
    plan, rng = plan_one_ways(spans), np.random.default_rng(6)
    assert plan.rounded == (0, 1)
    bands, alone = (np.zeros(1, np.int64),) * 2, (np.array([5, 700]), np.zeros(0, np.int64))
    days, others = rng.integers(0, 1_200, 40), rng.integers(0, 1_201, 40)
    counts = count_round_steps(write_cells(spans, days, others), plan, bands, alone)
    expected = np.zeros(2 * DAY_KINDS)
    for day in days[~np.isin(days, alone[0])].tolist():
        expected[tell(day)] += 1
    for other in others[others > 0].tolist():
        expected[DAY_KINDS + tell(other - 1)] += 1
    assert np.array_equal(counts, expected)
    for row in (0, 20, 39):
        left = write_cells(spans, np.delete(days, row), np.delete(others, row))
        less = count_round_steps(left, plan, bands, alone)
        assert np.abs(counts - less).sum() <= 2 == len(plan.rounded)
        assert np.linalg.norm(counts - less) <= np.sqrt(len(plan.rounded))


def test_a_document_is_read_as_it_was_written_and_refused_when_it_is_damaged() -> None:
    kinds = DayKinds(first_day=-3, levels=400, places=(True, False, True), odds=np.linspace(0.1, 1.0, DAY_KINDS))
    kinds.weigh(np.array([0]), np.array([400]))
    document = kinds.to_document()
    again = DayKinds.from_document(document)
    assert again.to_document() == document
    for key, value in (
        ("odds", [1.0]),
        ("odds", [-1.0] * DAY_KINDS),
        ("levels", 0),
        ("levels", 1 << 40),
        ("places", 3),
    ):
        with pytest.raises((TypeError, ValueError)):
            DayKinds.from_document({**document, key: value})


def test_drawn_dates_fall_where_counted_ones_do_and_are_read_again_from_a_saved_model() -> None:
    spans = read({"date": {"type": "date", **SPAN}})
    days = draw_days({7: 120.0}, seed=10)
    plan, encoded = plan_one_ways(spans), write_cells(spans, days)
    one_ways = measure_one_ways(encoded, plan, noise_multiplier=250.0 / plan.sensitivity)
    coarsening = coarsen(one_ways, records=len(days), least_count=750.0)
    document = json.loads(json.dumps(coarsening.to_document()))
    for read_again in (coarsening, Coarsening.from_document(document)):
        (part,) = read_again.parts
        groups = np.random.default_rng(11).choice(part.size, len(days), p=part.probabilities)
        drawn = part.draw_cells(groups.astype(np.int32), rng=np.random.default_rng(12))
        real, made = (Counter(KINDS[own].tolist()) for own in (days, drawn))
        for kind in range(DAY_KINDS):
            assert made[kind] / len(days) == pytest.approx(real[kind] / len(days), abs=0.03), kind
        # By themselves intervals, which noise keeps wide here, spread them over all days alike.
        (even,) = replace(read_again, parts=(replace(part, odds=None),)).parts
        spread = even.draw_cells(groups.astype(np.int32), rng=np.random.default_rng(12))
        assert np.count_nonzero(KINDS[spread] == 7) < 0.5 * made[7]
    document["attributes"][0]["round_steps"]["levels"] -= 1
    with pytest.raises(InputError):
        Coarsening.from_document(document)
