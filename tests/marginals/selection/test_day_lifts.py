"""Days of the week beside other columns: what is asked, how far a record moves it, and rows of days that are likely."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.marginals.one_way.coarsening import Coarsening, CoarseRows
from dpwgan.marginals.one_way.day_kinds import DAY_KINDS, DayKinds
from dpwgan.marginals.selection import day_lifts
from dpwgan.marginals.selection.day_lifts import (
    DAY_COUNTS,
    DayLifts,
    ask_for_day_lifts,
    ask_for_first_day,
    pose_day_questions,
)
from dpwgan.marginals.selection.queries import ANSWER_LABEL, SELECTION_LABEL, plan_queries
from dpwgan.table.encoded import EncodedTable, lay_out_spans
from dpwgan.table.specs import parse_specs
from tests.ledgers import Watcher, open_ledger
from tests.marginals.groups import coarsen, draw_of_groups, hold_cells
from tests.marginals.neighbours import move
from tests.marginals.tables import read_cells, write_cells

Integers = npt.NDArray[np.int64]

DATE, PLACE, HOUR, COIN = range(4)
SPANS = lay_out_spans(
    parse_specs(
        {
            "date": {"type": "date", "min": "2022-01-03", "max": "2024-01-02", "optional": True},
            "place": {"type": "enum", "values": ["home", "office", "shop"]},
            "hour": {"type": "integer", "min": 0, "max": 199},
            "coin": {"type": "enum", "values": ["heads", "tails"]},
        },
        sha256="",
    )
)
FACTS = lay_out_attributes(SPANS)
MISSING, FIRST_MONDAY = 0, FACTS[DATE].codes
LEVELS = FACTS[DATE].levels


def tell(cells: Integers) -> Integers:
    """The day of the week; -1 for missing ones."""
    return np.where(cells < FIRST_MONDAY, -1, (cells - FIRST_MONDAY) % 7)


def make_visits(records: int, *, seed: int = 0) -> EncodedTable:
    """Nobody is at the office at weekends, and hours are late then; a tenth have no date; coins know of no days."""
    rng = np.random.default_rng(seed)
    days = rng.integers(0, LEVELS, records)
    is_free = days % 7 >= 5
    place = np.where(is_free, rng.choice([0, 2], records), rng.integers(0, 3, records))
    hour = np.where(is_free, rng.integers(112, 200, records), rng.integers(0, 112, records))
    date = np.where(rng.random(records) < 0.1, MISSING, FIRST_MONDAY + days)
    return write_cells(SPANS, date, place, hour, rng.integers(0, 2, records))


def coarsen_visits(encoded: EncodedTable) -> Coarsening:
    """Four weeks make a group, and as many hours."""
    return coarsen(encoded, block=28)


def ask(
    encoded: EncodedTable, *, coarsening: Coarsening, times: int = 1, watcher: Watcher | None = None, **more: Any
) -> DayLifts:
    lines = plan_queries(99, selection_epsilon=50.0, answer_noise_multiplier=more.pop("noise", 0.2))
    ledger = open_ledger(lines, observers=[] if watcher is None else [watcher])
    settings = {"known": DayLifts(), "but": (), "records": encoded.records, "rng": np.random.default_rng(1)} | more
    drafted = CoarseRows(settings.pop("drafted", None) or draw_of_groups(encoded, coarsening), coarsening)
    questions = pose_day_questions(hold_cells(encoded, coarsening), dates=(DATE,), ledger=ledger)
    return ask_for_day_lifts(questions, drafted, times=times, **settings)


def is_odd(encoded: EncodedTable) -> float:
    """The share of rows at the office at a weekend."""
    date, place, *_ = read_cells(encoded)
    return float(np.mean((tell(date) >= 5) & (place == 1)))


@pytest.mark.statistical
@pytest.mark.parametrize("seed", range(4))
def test_offices_are_empty_at_weekends_when_days_are_told_apart(seed):
    encoded = make_visits(20_000, seed=seed)
    coarsening = coarsen_visits(encoded)
    known = ask(encoded, coarsening=coarsening, times=3, noise=20.0)
    assert set(known.lifts) >= {(DATE, PLACE), (DATE, HOUR)}
    drawn = draw_of_groups(encoded, coarsening, seed=seed)
    before = FACTS[DATE].find_cells(drawn)
    # By chance they are not.
    assert is_odd(drawn) > 0.05
    known.redraw(drawn, coarsening, rng=np.random.default_rng(seed))
    assert is_odd(drawn) < 0.015
    date, _, hour, _ = read_cells(drawn)
    assert np.mean((tell(date) >= 5) != (hour >= 112), where=date >= FIRST_MONDAY) < 0.03
    # The column by itself is as it was, group by group and weekday by weekday; missing ones are the same rows.
    assert np.array_equal(date < FIRST_MONDAY, before < FIRST_MONDAY)
    assert np.array_equal(coarsening.parts[DATE].find_groups(date), coarsening.parts[DATE].find_groups(before))
    counts = [np.bincount(tell(cells) + 1, minlength=8) for cells in (date, before)]
    assert np.abs(counts[0] - counts[1]).max() < 0.03 * counts[1][1:].mean()


def ask_first(encoded: EncodedTable, *, noise: float, seed: int, watcher: Watcher | None = None) -> DayLifts:
    lines = plan_queries(1, selection_epsilon=50.0, answer_noise_multiplier=noise)
    ledger = open_ledger(lines, source=seed, observers=[] if watcher is None else [watcher])
    coarsening = coarsen_visits(encoded)
    questions = pose_day_questions(hold_cells(encoded, coarsening), dates=(DATE,), ledger=ledger)
    return ask_for_first_day(questions, coarsening, records=encoded.records)


def test_the_first_answer_is_kept_where_it_says_something_of_days():
    watch = Watcher()
    known = ask_first(make_visits(8_000), noise=20.0, seed=1, watcher=watch)
    assert list(known.lifts) == [(DATE, HOUR)]
    assert watch.order == [SELECTION_LABEL, ANSWER_LABEL]
    assert watch.exact[0].shape == (8, DAY_KINDS)
    lifts = known.lifts[DATE, HOUR]
    assert lifts[:4, 5:7].max() < 0.2
    assert np.abs(lifts[:4, :5] - 1.4).max() < 0.4
    assert np.abs(lifts[4:7, 5:7] - 3.5).max() < 0.7


def test_no_more_is_asked_where_noise_explains_the_first_answer():
    """Most days are those of a week's end, of which one-ways know nothing: but that is so whatever else a row says."""
    encoded, rng = make_visits(8_000), np.random.default_rng(0)
    days = rng.integers(0, LEVELS // 7, 8_000) * 7 + rng.choice(7, 8_000, p=[0.1] * 5 + [0.25] * 2)
    apart = write_cells(SPANS, FIRST_MONDAY + days, *read_cells(encoded)[1:])
    found = [bool(ask_first(apart, noise=40.0, seed=seed).lifts) for seed in range(60)]
    assert sum(found) <= 2


def test_kinds_of_days_are_as_often_as_one_ways_say():
    coarsening = coarsen_visits(make_visits(2_000))
    part = coarsening.parts[DATE]
    odds = DayKinds(first_day=-FACTS[DATE].origin, levels=LEVELS, places=(True,) * 3, odds=np.arange(1.0, 11.0))
    for known in (part, replace(part, odds=odds)):
        drawn = known.draw_cells(np.repeat(np.arange(part.size, dtype=np.int32), 4_000), rng=np.random.default_rng(0))
        shares = np.repeat(part.probabilities / 4_000, 4_000)
        kinds = day_lifts._find_kinds(FACTS[DATE], known, drawn)
        expected = np.bincount(kinds, shares, minlength=DAY_KINDS + 1)[:DAY_KINDS]
        assert day_lifts._share_kinds(FACTS[DATE], known) == pytest.approx(expected, abs=0.01)


def test_coins_do_not_move_days():
    encoded = make_visits(5_000)
    coarsening = coarsen_visits(encoded)
    known = ask(encoded, coarsening=coarsening, but=(PLACE, HOUR), noise=20.0)
    assert set(known.lifts) == {(DATE, COIN)}
    assert np.abs(known.lifts[DATE, COIN][:, :7] - 1.0).max() < 0.25


def test_each_column_says_what_those_before_did_not():
    encoded, watch = make_visits(8_000), Watcher()
    coarsening = coarsen_visits(encoded)
    known = ask(encoded, coarsening=coarsening, times=9, watcher=watch)
    # Hours say most; in the end there is nothing left to be asked.
    assert next(iter(known.lifts)) == (DATE, HOUR)
    assert watch.order == [SELECTION_LABEL, ANSWER_LABEL] * 3
    assert [len(scores) for scores in watch.scores] == [3, 2, 1]
    # Whose hours are not those of a weekend is at the office on no weekend: that is not said twice.
    alone = ask(encoded, coarsening=coarsening, but=(HOUR, COIN))
    assert alone.lifts[DATE, PLACE][1, 5:7].max() < 0.05
    assert alone.lifts[DATE, PLACE][1, :5].mean() > 1.3
    assert known.lifts[DATE, PLACE][1, :5].mean() < 1.1


def test_a_date_is_told_apart_by_so_many_columns_at_most(monkeypatch):
    monkeypatch.setattr(day_lifts, "MOST_COLUMNS", 2)
    encoded = make_visits(2_000)
    assert len(ask(encoded, coarsening=coarsen_visits(encoded), times=3).lifts) == 2


@pytest.mark.parametrize("places", [(True, False, True), None])
def test_counts_are_those_of_a_loop_over_rows(places):
    encoded = make_visits(500)
    coarsening = coarsen_visits(encoded)
    if places:
        odds = DayKinds(first_day=-FACTS[DATE].origin, levels=LEVELS, places=places, odds=np.ones(DAY_KINDS))
        coarsening = replace(coarsening, parts=(replace(coarsening.parts[DATE], odds=odds), *coarsening.parts[1:]))
    pairs = [[DATE, HOUR], [DATE, PLACE]]
    groups = coarsening.to_groups(encoded)
    expected = []
    for own, other in pairs:
        count = np.zeros((coarsening.sizes[other], DAY_KINDS))
        for row, cell in enumerate(FACTS[own].find_cells(encoded).tolist()):
            if cell >= FIRST_MONDAY:
                day = np.datetime64("2022-01-03") + cell - FIRST_MONDAY
                of_month, after = (int(str(day + later)[-2:]) for later in (0, 1))
                kind = (cell - FIRST_MONDAY) % 7
                if places:
                    kind = 7 if of_month == 1 else 9 if after == 1 else kind
                count[groups[row, other], kind] += 1
        expected.append(count.ravel())
    # Rows of two workers add up.
    for parts in ([encoded], [encoded.take(rows) for rows in np.array_split(np.arange(500), 2)]):
        found = sum(hold_cells(part, coarsening).sum(DAY_COUNTS, argument=pairs) for part in parts)
        assert np.array_equal(found, np.concatenate(expected))


@pytest.mark.parametrize("replaced", [False, True])
def test_scores_and_counts_move_by_no_more_than_their_sensitivity_when_a_record_goes_or_changes(replaced):
    encoded = make_visits(400)
    coarsening, largest = coarsen_visits(encoded), 0.0
    again = partial(ask, coarsening=coarsening, drafted=draw_of_groups(encoded, coarsening), records=400, noise=2.0)
    for row in (0, 200, 399):
        cells = read_cells(encoded)
        if replaced:
            for own, by in zip(cells, (FIRST_MONDAY + row, row % 3, row % 200, row % 2), strict=True):
                own[row] = by
        else:
            cells = [np.delete(own, row) for own in cells]
        moved = move(again, encoded, write_cells(SPANS, *cells), replaced=replaced)
        largest = max(largest, float(moved.max()))
    # One that reads rows twice would show: some score moves by nearly as much as it may.
    assert largest > 0.6


@pytest.mark.parametrize(
    "damage",
    [
        lambda lifts: lifts.update({(PLACE, HOUR): lifts[DATE, HOUR]}),
        lambda lifts: lifts.update({(DATE, DATE): lifts[DATE, HOUR]}),
        lambda lifts: lifts.update({(DATE, 9): lifts[DATE, HOUR]}),
        lambda lifts: lifts.update({(DATE, COIN): lifts[DATE, HOUR]}),
        lambda lifts: lifts.update({(DATE, HOUR): 0 * lifts[DATE, HOUR]}),
        lambda lifts: lifts.update({(DATE, HOUR): np.full_like(lifts[DATE, HOUR], np.nan)}),
    ],
)
def test_what_does_not_fit_the_groups_is_found_out(damage):
    encoded = make_visits(100)
    coarsening = coarsen_visits(encoded)
    lifts = {(DATE, HOUR): np.ones((coarsening.sizes[HOUR], DAY_KINDS), np.float32)}
    sound = DayLifts(lifts)
    assert sound.is_sound(coarsening)
    again = DayLifts.unpack(sound.pack() | {"probabilities": np.ones(1), "lifts 0 1": np.ones(1)})
    assert again.is_sound(coarsening)
    assert list(again.lifts) == [(DATE, HOUR)]
    damage(lifts)
    assert not DayLifts(lifts).is_sound(coarsening)
