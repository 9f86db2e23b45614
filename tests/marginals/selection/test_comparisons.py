"""Numbers beside others: which may be held against each other, how far a record moves it, and rows that add up."""

import json
import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.marginals.one_way.coarsening import Coarsening, CoarseRows
from dpwgan.marginals.one_way.day_kinds import DAY_KINDS, DayKinds
from dpwgan.marginals.selection import comparison_questions as questions
from dpwgan.marginals.selection import comparisons
from dpwgan.marginals.selection.comparison_questions import (
    COMPARISON_LABELS,
    COMPARISONS,
    ask_for_comparisons,
)
from dpwgan.marginals.selection.comparison_shares import find_parts, find_shares
from dpwgan.marginals.selection.comparisons import (
    ALL,
    DETAILS,
    DIFFERENCE,
    PARTS,
    POWERS,
    PRODUCT,
    SCALES,
    SIGNS,
    SUM,
    Comparison,
    Comparisons,
    Sides,
    tell_apart,
)
from dpwgan.marginals.selection.queries import plan_queries
from dpwgan.table.calendar import DAY, SECOND, CalendarColumn
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.schema import CategoricalColumn, NumericColumn
from tests.ledgers import Watcher, open_ledger
from tests.marginals.groups import coarsen, draw_of_groups, hold_cells
from tests.marginals.neighbours import move
from tests.marginals.tables import lay_out, read_cells, write_cells

Levels = npt.NDArray[np.int64]

PAY, EXTRA, TOTAL, KIND = range(4)
LEVELS, KINDS = 2_000, 3


def compare(own: int, others: tuple[int, ...], by: int = ALL, how: str = SUM, scales: int = SIGNS) -> Comparison:
    return Comparison(Sides(own, others, how), by, scales)


def make_number(name: str, *, most: int = LEVELS - 1, least: int = 0, **more: Any) -> NumericColumn:
    return NumericColumn(name=name, minimum=least, maximum=most, integer=True, **more)


COLUMN_OF_KINDS = CategoricalColumn(name="kind", tokens=tuple("abc"), integer=False)
SPANS = lay_out(
    make_number("pay"),
    make_number("extra", missing=("", "none")),
    make_number("total", least=-10, most=LEVELS - 11),
    COLUMN_OF_KINDS,
)
ATTRIBUTES = lay_out_attributes(SPANS)


def write(pay: Levels, extra: Levels, total: Levels, kind: Levels) -> EncodedTable:
    """Rows of these numbers; where extra is below 0 it is missing."""
    return write_cells(SPANS, pay, np.maximum(extra + 2, 0), total + 10, kind)


def make_payroll(records: int, *, seed: int = 0) -> EncodedTable:
    """Total is pay and what is extra, which nobody of kind 0 has; some know nothing of it."""
    rng = np.random.default_rng(seed)
    pay, kind = rng.integers(100, 1_500, records), rng.choice(KINDS, records, p=[0.5, 0.3, 0.2])
    extra = np.where(kind == 0, 0, rng.integers(1, 400, records))
    total = pay + extra
    return write(pay, np.where(rng.random(records) < 0.1, -3, extra), total, kind)


def read(encoded: EncodedTable) -> dict[int, Levels]:
    """The numbers of rows; of extra below 0 where it is missing."""
    return {
        place: ATTRIBUTES[place].find_cells(encoded) - ATTRIBUTES[place].codes - ATTRIBUTES[place].zero_level
        for place in (PAY, EXTRA, TOTAL)
    }


def ask(
    encoded: EncodedTable,
    *,
    coarsening: Coarsening,
    drafted: EncodedTable | None = None,
    times: int = 1,
    more: int = 0,
    noise: float = 0.2,
    watcher: Watcher | None = None,
    seed: int = 1,
    records: int | None = None,
    numbers: tuple[int, ...] = (PAY, EXTRA, TOTAL),
) -> Comparisons:
    lines = plan_queries(99, selection_epsilon=50.0, answer_noise_multiplier=noise, labels=COMPARISON_LABELS)
    ledger = open_ledger(lines, source=seed, observers=[] if watcher is None else [watcher])
    return ask_for_comparisons(
        hold_cells(encoded, coarsening),
        CoarseRows(draw_of_groups(encoded, coarsening) if drafted is None else drafted, coarsening),
        numbers=numbers,
        records=records or encoded.records,
        times=times,
        more=more,
        ledger=ledger,
        rng=np.random.default_rng(seed),
    )


def add_up(encoded: EncodedTable) -> float:
    """The share of rows whose total is the sum, among those that know both."""
    numbers = read(encoded)
    known = numbers[EXTRA] >= 0
    return float(np.mean((numbers[PAY] + numbers[EXTRA] == numbers[TOTAL])[known]))


@pytest.mark.parametrize("seed", range(3))
def test_rows_add_up_when_the_table_does(seed):
    encoded = make_payroll(6_000, seed=seed)
    coarsening = coarsen(encoded)
    known = ask(encoded, coarsening=coarsening, noise=5.0, seed=seed)
    assert {asked.sides[:2] for asked in known.shares} == {(TOTAL, (PAY, EXTRA))}
    drawn = draw_of_groups(encoded, coarsening)
    by_chance, before = add_up(drawn), coarsening.to_groups(drawn)
    known.redraw(drawn, coarsening, rng=np.random.default_rng(seed))
    # Without, hardly any row adds up.
    assert by_chance < 0.05
    assert add_up(drawn) == 1.0
    after = coarsening.to_groups(drawn)
    assert np.array_equal(np.delete(before, TOTAL, axis=1), np.delete(after, TOTAL, axis=1))
    # Most sums lie in the total's group or beside it: nothing else is moved.
    assert np.abs(after[:, TOTAL].astype(int) - before[:, TOTAL]).max() <= 2


def test_numbers_are_the_same_as_often_as_another_column_says():
    rng = np.random.default_rng(0)
    records = 8_000
    pay, kind = rng.integers(100, 1_500, records), rng.integers(0, KINDS, records)
    # Of kind 0 all are the same, of kind 1 half of them, of kind 2 a tenth is below and the rest above.
    gap = np.select(
        [kind == 0, kind == 1], [0, rng.integers(0, 2, records) * 40], np.where(rng.random(records) < 0.1, -40, 40)
    )
    encoded = write(pay, np.full(records, -3), pay + gap, kind)
    coarsening = coarsen(encoded)
    known = ask(encoded, coarsening=coarsening, noise=2.0)
    ((asked, shares),) = known.shares.items()
    assert asked == compare(TOTAL, (PAY,), KIND)
    assert np.abs(shares - [[0, 1, 0], [0, 0.5, 0.5], [0.1, 0, 0.9]]).max() < 0.02
    drawn = draw_of_groups(encoded, coarsening)
    known.redraw(drawn, coarsening, rng=rng)
    kinds = tell_apart(read(drawn)[TOTAL] - read(drawn)[PAY], SIGNS)
    for of_kind, wanted in enumerate(shares):
        found = np.bincount(kinds[kind == of_kind], minlength=3) / np.count_nonzero(kind == of_kind)
        assert np.abs(found - wanted).max() < 0.01


@pytest.mark.parametrize("scales", SCALES)
def test_numbers_lie_as_far_apart_as_in_the_table_when_that_is_asked_for(scales):
    rng = np.random.default_rng(0)
    pay = rng.integers(100, 1_500, 20_000)
    apart = np.minimum(rng.geometric(0.08, len(pay)) - 1, 400)
    encoded = write(pay, np.full(len(pay), -3), pay + apart, np.zeros(len(pay), int))
    coarsening = coarsen(encoded)
    exact = np.bincount(tell_apart(apart, scales), minlength=2 * scales + 1)[np.newaxis] / len(pay)
    known = Comparisons({compare(TOTAL, (PAY,), scales=scales): exact.astype(np.float32)})
    drawn = draw_of_groups(encoded, coarsening)
    known.redraw(drawn, coarsening, rng=rng)
    found = read(drawn)[TOTAL] - read(drawn)[PAY]
    assert found.min() == 0
    off = np.abs(
        np.quantile(found, [0.25, 0.5, 0.75, 0.9, 0.99]) / np.quantile(apart, [0.25, 0.5, 0.75, 0.9, 0.99]) - 1
    )
    # That one is not below the other says little of how far it is above.
    assert (off.max() < 0.2) == (scales != SIGNS)
    assert (abs(found.mean() / apart.mean() - 1) < 0.1) == (scales != SIGNS)
    assert (off.max() < 0.05) == (scales in (PARTS, DETAILS))


def test_gaps_are_told_apart_by_powers_of_two_and_drawn_of_their_kind():
    gaps = np.array([-(2**40), -4, -3, -2, -1, 0, 1, 2, 3, 4, 7, 8, 2**23, 2**24])
    assert (tell_apart(gaps, POWERS) - POWERS).tolist() == [-24, -3, -2, -2, -1, 0, 1, 2, 2, 3, 3, 4, 24, 24]
    assert (tell_apart(gaps, SIGNS) - 1).tolist() == np.sign(gaps).tolist()
    kinds = np.tile(np.arange(2 * POWERS + 1), 200)
    draw = partial(comparisons._draw_gaps, rng=np.random.default_rng(0))
    drawn = draw(kinds - POWERS, np.array([0, 5]), scales=POWERS)
    assert np.array_equal(tell_apart(drawn, POWERS), kinds)
    assert set(drawn[kinds == POWERS + 3].tolist()) == {4, 5, 6, 7}
    # A thirty-second of a power of two, or one: 127 and 126 are of one kind, 63 and 62 are not.
    gaps = np.array([-(2**40), -64, -63, 0, 1, 31, 32, 62, 63, 64, 65, 66, 126, 127, 128, 131, 132, 2**24 - 1, 2**24])
    parts = [-639, -64, -63, 0, 1, 31, 32, 62, 63, 64, 64, 65, 95, 95, 96, 96, 97, 639, 639]
    assert (tell_apart(gaps, PARTS) - PARTS).tolist() == parts
    kinds = np.tile(np.arange(2 * PARTS + 1), 9)
    drawn = draw(kinds - PARTS, np.array([0, 5]), scales=PARTS)
    assert np.array_equal(tell_apart(drawn, PARTS), kinds)
    assert set(drawn[kinds == PARTS + 96].tolist()) == {128, 129, 130, 131}
    # Of these parts an eighth, or one.
    gaps = np.array([-512, -511, 0, 1, 510, 511, 512, 513, 514, 1_023, 1_024, 1_027, 1_028, 2**24])
    parts = [-512, -511, 0, 1, 510, 511, 512, 512, 513, 767, 768, 768, 769, 4_351]
    assert (tell_apart(gaps, DETAILS) - DETAILS).tolist() == parts
    # Where signs are all that is known, gaps are as large as others are.
    signs = np.tile([-1, 0, 1], 50)
    drawn = draw(signs, np.array([0, -30, 12]), scales=SIGNS)
    assert np.array_equal(np.sign(drawn), signs)
    assert set(np.abs(drawn).tolist()) == {0, 12, 30}
    assert np.array_equal(draw(signs, np.zeros(3, int), scales=SIGNS), signs)


def test_rows_go_to_the_right_side_even_where_their_group_is_on_the_other():
    rng = np.random.default_rng(0)
    records = 3_000
    pay = rng.integers(300, 1_500, records)
    encoded = write(pay, np.full(records, -3), pay + rng.integers(-280, 300, records), rng.integers(0, KINDS, records))
    coarsening = coarsen(encoded)
    for sides in ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.25, 0.0, 0.75]):
        drawn = draw_of_groups(encoded, coarsening)
        known = Comparisons({compare(TOTAL, (PAY,)): np.array([sides], np.float32)})
        known.redraw(drawn, coarsening, rng=np.random.default_rng(1))
        signs = np.sign(read(drawn)[TOTAL] - read(drawn)[PAY])
        assert np.abs(np.bincount(signs + 1, minlength=3) / records - sides).max() <= 1 / records + 1e-9
        assert np.array_equal(read(drawn)[PAY], read(draw_of_groups(encoded, coarsening))[PAY])


def test_a_column_by_itself_stays_as_it_was_where_rows_change_their_groups():
    rng = np.random.default_rng(0)
    records = 20_000
    pay, kind = rng.integers(300, 1_500, records), np.zeros(records, int)
    total = pay + np.where(rng.random(records) < 0.5, 1, -1) * rng.integers(120, 250, records)
    encoded = write(pay, np.full(records, -3), total, kind)
    coarsening = coarsen(encoded)
    # Of a draft that knows nothing of pay where it draws totals, most rows leave their groups.
    drawn = write(pay, np.full(records, -3), rng.permutation(total), kind)
    shares = np.bincount(tell_apart(total - pay, POWERS), minlength=2 * POWERS + 1)[np.newaxis] / records
    Comparisons({compare(TOTAL, (PAY,), scales=POWERS): shares.astype(np.float32)}).redraw(drawn, coarsening, rng=rng)
    found, wanted = (np.bincount(coarsening.to_groups(rows)[:, TOTAL], minlength=20) for rows in (drawn, encoded))
    assert 0.5 * np.abs(found - wanted).sum() < 0.02 * records
    kinds = np.bincount(tell_apart(read(drawn)[TOTAL] - read(drawn)[PAY], POWERS), minlength=2 * POWERS + 1)
    assert np.abs(kinds / records - shares).max() < 0.01


def test_a_column_by_itself_stays_nearly_as_it_was_where_all_rows_go_to_one_side():
    rng = np.random.default_rng(0)
    pay, none, kind = rng.integers(100, 1_200, 4_000), np.full(4_000, -3), np.zeros(4_000, int)
    total = pay + rng.integers(1, 500, len(pay))
    # Of a draft that knows nothing of pay where it draws totals, a third of the rows are on the wrong side.
    drawn = write(pay, none, rng.permutation(total), kind)
    known = Comparisons({compare(TOTAL, (PAY,)): np.array([[0.0, 0.0, 1.0]], np.float32)})
    known.redraw(drawn, coarsen(write(pay, none, total, kind)), rng=rng)
    found = read(drawn)[TOTAL]
    assert np.all(found > pay)
    # Drawn anew within their groups, and then outside of them, totals are half a stddev too large.
    assert np.abs(np.sort(found) - np.sort(total)).mean() < 0.12 * total.std()


def make_totals(records: int, *, seed: int) -> EncodedTable:
    """Three parts in cents, their sum but for a step of rounding, and a number that has nothing to do with it."""
    rng = np.random.default_rng(seed)
    size = rng.lognormal(7.0, 0.6, records)
    parts = [np.rint(size * rng.lognormal(0.0, 0.3, records)).astype(np.int64) for _ in range(3)]
    total = np.sum(parts, axis=0) + rng.choice([-1, 0, 1], records, p=[0.2, 0.6, 0.2])
    numbers = [np.minimum(each, 39_999) for each in (*parts, total, rng.integers(30, 180, records))]
    spans = lay_out(*(make_number(name, most=39_999) for name in ("a", "b", "c", "total", "rate")))
    return write_cells(spans, *numbers)


@pytest.mark.parametrize("seed", range(3))
def test_a_total_is_the_sum_of_its_parts_and_of_nothing_else(seed):
    encoded = make_totals(3_000, seed=seed)
    coarsening = coarsen(encoded, block=1_500)
    known = ask(encoded, coarsening=coarsening, numbers=tuple(range(5)), times=2, noise=20.0, seed=seed)
    totals = [asked.sides for asked in known.shares if len(asked.others) > 1]
    assert totals == [Sides(3, (0, 1, 2))]
    drawn = draw_of_groups(encoded, coarsening)
    before = np.sort(read_cells(drawn)[3])
    known.redraw(drawn, coarsening, rng=np.random.default_rng(seed))
    a, b, c, total, _ = read_cells(drawn)
    assert np.mean(a + b + c == total) > 0.97
    assert np.abs(np.sort(total) - before).mean() < 0.15 * before.std()


def test_counts_are_those_of_a_loop_over_rows():
    encoded = make_payroll(400)
    coarsening = coarsen(encoded)
    asked = [compare(TOTAL, (PAY,), KIND), compare(TOTAL, (PAY, EXTRA), ALL), compare(EXTRA, (PAY,), TOTAL)]
    asked += [compare(TOTAL, (PAY, EXTRA), KIND, PRODUCT), compare(PAY, (TOTAL, EXTRA), KIND, DIFFERENCE)]
    asked += [compare(TOTAL, (PAY,), KIND, scales=scales) for scales in (POWERS, PARTS, DETAILS)]
    numbers, groups = read(encoded), coarsening.to_groups(encoded)
    expected = []
    for (own, others, how), by, scales in asked:
        counts = np.zeros((1 if by == ALL else coarsening.sizes[by], 2 * scales + 1))
        for row in range(encoded.records):
            if all(place != EXTRA or numbers[EXTRA][row] >= 0 for place in (own, *others)):
                values = [int(numbers[place][row]) for place in others]
                joined = {SUM: sum(values), PRODUCT: math.prod(values), DIFFERENCE: values[0] - sum(values[1:])}
                gap = int(numbers[own][row]) - joined[how]
                if len(others) > 1:  # a total: how far it is off, but for a step of rounding
                    gap = 0 if abs(gap) <= 1 else abs(gap)
                kind = min(abs(gap).bit_length(), scales)
                if scales in (PARTS, DETAILS):
                    digits = {PARTS: 6, DETAILS: 9}[scales]
                    halvings = max(0, abs(gap).bit_length() - digits)
                    kind = (1 << digits - 1) * halvings + (abs(gap) >> halvings)
                counts[0 if by == ALL else groups[row, by], scales + (kind if gap > 0 else -kind)] += 1
        expected.append(counts.ravel())
    assert np.concatenate(expected).sum() > 400
    # Rows of two workers add up, who are told by JSON.
    told = json.loads(json.dumps(asked))
    for parts in ([encoded], [encoded.take(rows) for rows in np.array_split(np.arange(400), 2)]):
        found = sum(hold_cells(part, coarsening).sum(COMPARISONS, argument=told) for part in parts)
        assert np.array_equal(found, np.concatenate(expected))


@pytest.mark.parametrize("replaced", [False, True])
def test_scores_and_counts_move_by_no_more_than_their_sensitivity_when_a_record_goes_or_changes(replaced):
    encoded = make_payroll(300)
    coarsening = coarsen(encoded)
    again = partial(ask, coarsening=coarsening, drafted=draw_of_groups(encoded, coarsening), records=300, noise=2.0)
    largest = 0.0
    for other in range(1, 7):
        if replaced:
            changed = encoded.take(np.arange(300))
            values = (np.array([cell]) for cell in (1_900 - 90 * other, 50 * other - 60, 30 * other, other % KINDS))
            row = write(*values)
            changed.codes[0], changed.numbers[0] = row.codes[0], row.numbers[0]
        else:
            changed = encoded.take(np.delete(np.arange(300), other))
        moved = move(again, encoded, changed, replaced=replaced)
        assert len(moved) > 10
        largest = max(largest, float(moved.max()))
    # One that reads rows twice would show: some score moves by nearly as much as it may.
    assert largest > 0.6


def test_each_number_is_compared_once_and_then_more_exactly():
    encoded, watch = make_payroll(2_000), Watcher()
    coarsening = coarsen(encoded)
    known = ask(encoded, coarsening=coarsening, times=9, watcher=watch)
    owners = [asked.own for asked in known.shares]
    assert owners[0] == TOTAL
    assert len(set(owners)) == len(owners)
    # Pay and extra are what the total hangs on: they cannot hang on it.
    assert all(TOTAL not in asked.parents for asked in known.shares)
    assert watch.order == [*COMPARISON_LABELS] * 9
    # Answers to one question are put together, by their mean.
    pay = read(encoded)[PAY]
    halves = write(pay, np.full(2_000, -3), pay + 40 * (np.arange(2_000) % 2), np.zeros(2_000, int))
    coarsening = coarsen(halves)
    again = partial(ask, halves, coarsening=coarsening, noise=100.0, numbers=(PAY, TOTAL))
    errors = [
        [
            abs(float(shares[0, asked.scales]) - 0.5)
            for seed in range(8)
            for asked, shares in again(times=times, seed=seed).shares.items()
            if asked[:2] == (Sides(TOTAL, (PAY,)), ALL)
        ]
        for times in (1, 27)
    ]
    assert min(map(len, errors)) > 4
    assert np.mean(errors[1]) < 0.7 * np.mean(errors[0])


def test_shares_are_those_of_all_rows_where_noise_hides_their_own():
    rng = np.random.default_rng(0)
    totals = np.array([5_000.0, 3_000.0, 40.0, 0.0])
    exact = np.outer(totals, [0.0, 0.7, 0.3])
    exact[1] = [0.0, 3_000.0, 0.0]
    noisy = exact + rng.normal(0, 30, exact.shape)
    shares = find_shares(noisy, np.outer(totals, [0.3, 0.0, 0.7]), stddev=30.0)
    assert np.allclose(shares.sum(axis=1), 1.0, atol=1e-6)
    # Below is nobody, as far as can be told; so nobody is drawn there.
    assert np.all(shares[:, 0] < 0.01)
    assert np.abs(shares[:2, 1] - [0.7, 1.0]).max() < 0.03
    pooled = noisy.sum(axis=0)[1] / noisy.sum(axis=0)[1:].sum()
    assert shares[3, 1] == pytest.approx(pooled, abs=5e-3)
    # Of a few rows something is believed: a share of their own would be off by as much as noise is.
    assert abs(shares[2, 1] - pooled) < 0.1
    # Of nobody nothing is known.
    assert np.allclose(find_shares(np.zeros((2, 3)), np.zeros((2, 3)), stddev=1.0), 1 / 3)


def test_shares_are_those_expected_where_noise_explains_the_difference():
    rng = np.random.default_rng(0)
    expected = np.outer(rng.uniform(100, 500, 14), [0.5, 0.0, 0.5])
    expected[:7] = expected[:7] * [1.5, 0.0, 0.5]
    asis = [find_shares(expected + rng.normal(0, 300, (14, 3)), expected, stddev=300.0) for _ in range(100)]
    exact = expected / expected.sum(axis=1, keepdims=True)
    assert np.mean([np.allclose(shares, exact, atol=1e-6) for shares in asis]) > 0.95
    # All of them the same stand out of it, and then next to nobody is elsewhere.
    same = np.outer(expected.sum(axis=1), [0.0, 1.0, 0.0])
    found = find_shares(20 * same + rng.normal(0, 300, (14, 3)), 20 * expected, stddev=300.0)
    assert np.average(found[:, 1], weights=same.sum(axis=1)) > 0.95


@pytest.mark.parametrize("seed", range(4))
def test_answers_that_are_mere_noise_move_nothing(seed, monkeypatch):
    monkeypatch.setattr(questions, "_list_candidates", lambda *_: iter([compare(TOTAL, (PAY,), PAY)]))
    rng = np.random.default_rng(seed)
    pay, total = rng.integers(100, 1_500, (2, 4_000))
    encoded = write(pay, np.full(4_000, -3), total, rng.integers(0, KINDS, 4_000))
    again = partial(ask, encoded, coarsening=coarsen(encoded), drafted=encoded, numbers=(PAY, TOTAL))
    assert not again(noise=300.0, seed=seed).shares


def test_days_and_a_number_that_counts_both_ends_are_a_day_off_in_all_rows():
    day = {"first": 0, "format": "%Y-%m-%d", "step": DAY, "written": "date"}
    begin, end = (CalendarColumn(name=name, steps=1_000, **day) for name in ("begin", "end"))  # type: ignore[arg-type]
    spans = lay_out(begin, end, make_number("days", most=199))
    rng = np.random.default_rng(0)
    first, days = rng.integers(0, 800, 6_000), rng.integers(1, 120, 6_000)
    encoded = write_cells(spans, first, first + days - 1, days)
    coarsening = coarsen(encoded, block=30)
    known = ask(encoded, coarsening=coarsening, numbers=(0, 1, 2), more=1)
    assert list(known.shares) == [compare(1, (0, 2), scales=POWERS)]
    drawn = draw_of_groups(encoded, coarsening)
    known.redraw(drawn, coarsening, rng=rng)
    begins, ends, lengths = read_cells(drawn)
    assert np.mean(ends == begins + lengths - 1) > 0.98


@pytest.mark.parametrize("seed", range(2))
def test_a_payslip_adds_up_twice_where_groups_are_too_wide_to_show_small_parts(seed):
    names = ["base", "bonus", "gross", "social", "tax", "net"]
    spans = lay_out(*(make_number(name, most=9_999) for name in names))
    rng = np.random.default_rng(seed)
    base, bonus = rng.integers(2_000, 6_000, 6_000), rng.integers(0, 120, 6_000)
    gross = base + bonus
    social, tax = gross // 5, rng.integers(20, 400, 6_000)
    numbers = [base, bonus, gross, social, tax, gross - social - tax]
    encoded = write_cells(spans, *numbers)
    coarsening = coarsen(encoded, block=500)
    known = ask(encoded, coarsening=coarsening, numbers=tuple(range(6)), times=5, noise=10.0, seed=seed)
    drawn = draw_of_groups(encoded, coarsening)

    def check() -> tuple[float, float]:
        base, bonus, gross, social, tax, net = read_cells(drawn)
        return float(np.mean(gross == base + bonus)), float(np.mean(gross == social + tax + net))

    assert max(check()) < 0.02
    known.redraw(drawn, coarsening, rng=rng)
    assert min(check()) > 0.97


_DAYS = {"format": "%Y-%m-%d", "step": DAY, "written": "date"}
_MINUTES = {"format": "%H:%M", "step": 60 * SECOND, "written": "time"}


@pytest.mark.parametrize(("moment", "steps"), [(_DAYS, 2_000), (_MINUTES, 1_439)])
def test_moments_are_as_much_later_as_a_number_says_where_groups_are_too_wide_to_show_it(moment, steps):
    """A stay's nights, of a year, or a ride's minutes: in place of what was found of the two alone."""
    begin, end = (CalendarColumn(name=name, first=0, steps=steps, **moment) for name in ("begin", "end"))
    numbers = [make_number(name, most=99) for name in ("age", "length")]
    spans = lay_out(begin, end, *numbers)
    rng = np.random.default_rng(0)
    begins, lengths = rng.integers(0, steps - 99, 6_000), rng.geometric(0.2, 6_000).clip(1, 99)
    encoded = write_cells(spans, begins, begins + lengths, rng.integers(0, 100, 6_000), lengths)
    coarsening = coarsen(encoded, block=60)
    alone, right = compare(1, (0,), scales=POWERS), compare(1, (0, 3), scales=POWERS)
    every = set(questions._list_candidates(CoarseRows(draw_of_groups(encoded, coarsening), coarsening), (0, 1), 6_000))
    assert {alone, right, compare(1, (0, 2), scales=POWERS)} <= every
    known = ask(encoded, coarsening=coarsening, numbers=(0, 1), more=1)
    assert list(known.shares) == [right]
    drawn = draw_of_groups(encoded, coarsening)
    known.redraw(drawn, coarsening, rng=rng)
    first, last, _, length = read_cells(drawn)
    assert np.mean(last == first + length) > 0.98


def test_a_day_that_is_a_group_of_its_own_stays_as_frequent_where_a_number_says_how_much_later_it_is():
    """Who is alive was last seen on a study's last day, however long that is after the first."""
    begin, end = (CalendarColumn(name=name, first=0, steps=960, **_DAYS) for name in ("begin", "end"))
    spans = lay_out(begin, end, make_number("days", most=999))
    rng = np.random.default_rng(0)
    begins = rng.integers(0, 860, 6_000)
    ends = np.where(rng.random(6_000) < 0.5, 960, rng.integers(begins, 960))
    encoded = write_cells(spans, begins, ends, ends - begins)
    coarsening = coarsen(encoded, block=60)
    assert coarsening.parts[1].starts[-1] == 960
    known = Comparisons({compare(1, (0, 2)): np.array([[0.0, 1.0, 0.0]], np.float32)})
    drawn = draw_of_groups(encoded, coarsening)
    known.redraw(drawn, coarsening, rng=rng)
    first, last, days = read_cells(drawn)
    assert np.mean(last == first + days) > 0.99
    assert np.mean(last == 960) == pytest.approx(np.mean(ends == 960), abs=0.01)


def ask_how_much_later(gaps: Levels, kind: Levels, *, more: int, seed: int = 0) -> tuple[Levels, Levels, Comparisons]:
    """Two days, and how far rows drawn of their groups then lie apart, by the kind of each row."""
    begin, end = (CalendarColumn(name=name, first=0, steps=4_000, **_DAYS) for name in ("begin", "end"))
    spans = lay_out(begin, end, COLUMN_OF_KINDS)
    rng = np.random.default_rng(seed)
    begins = rng.integers(0, 1_500, len(gaps))
    encoded = write_cells(spans, begins, begins + gaps, kind)
    coarsening = coarsen(encoded, block=60)
    known = ask(encoded, coarsening=coarsening, numbers=(0, 1), more=more, noise=20.0, seed=seed)
    drawn = draw_of_groups(encoded, coarsening)
    known.redraw(drawn, coarsening, rng=rng)
    first, last, kinds = read_cells(drawn)
    return last - first, kinds, known


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("more", [0, 1])
def test_bills_are_due_on_the_day_that_was_agreed_with_each_kind_of_customer(more, seed):
    """Powers of two alone say that 14 days are 8 to 15. What is paid late keeps to these as well."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(KINDS, 12_000, p=[0.5, 0.3, 0.2])
    terms = np.array([14, 30, 60])
    gaps = np.where(rng.random(12_000) < 0.8, terms[kind], 64 + rng.integers(0, 192, 12_000))
    found, kinds, known = ask_how_much_later(gaps, kind, more=more, seed=seed)
    assert [asked.scales for asked in known.shares] == [PARTS if more else POWERS]
    is_late = found >= 64
    assert np.mean(is_late) == pytest.approx(0.2, abs=0.02)
    assert found[is_late].mean() == pytest.approx(gaps[gaps >= 64].mean(), rel=0.06)
    right = np.mean((found == terms[kinds])[~is_late])
    assert right > 0.9 if more else right < 0.4


def test_gaps_that_lie_far_off_and_near_each_other_are_told_apart_at_once():
    """Who comes again after five years, give or take some weeks: of one power of two, as far as drafts can tell."""
    gaps = np.rint(np.random.default_rng(0).normal(1_500, 30, 12_000)).astype(np.int64)
    found, _, known = ask_how_much_later(gaps, np.zeros(12_000, np.int64), more=1)
    assert [asked.scales for asked in known.shares] == [PARTS]
    assert found.mean() == pytest.approx(1_500, abs=3)
    assert found.std() == pytest.approx(30, rel=0.25)


def test_parts_of_a_power_hold_what_was_expected_of_it_and_stay_so_where_noise_explains_them():
    rng = np.random.default_rng(0)
    expected, exact = np.zeros((2, 2, 2 * PARTS + 1))
    expected[:, PARTS + 8 : PARTS + 16] = 500.0
    exact[:, PARTS + 14] = 4_000.0
    expected[0, PARTS + 64 : PARTS + 96] = exact[0, PARTS + 64 : PARTS + 96] = 10.0
    find = partial(find_parts, exact + rng.normal(0, 30.0, exact.shape), expected, stddev=30.0)
    shares = find(are_of_one=False)
    assert np.allclose(shares.sum(axis=1), 1.0, atol=1e-6)
    assert shares[:, PARTS + 14] == pytest.approx([4_000 / 4_320, 1.0], abs=1e-3)
    assert shares[0, PARTS + 64 : PARTS + 96] == pytest.approx(10 / 4_320, rel=1e-3)
    # Where hardly any is of another power, all are of that one.
    assert find(are_of_one=True)[:, PARTS + 14] == pytest.approx(1.0, abs=1e-6)
    # Of nobody nothing is known.
    empty = np.zeros((1, 2 * PARTS + 1))
    assert np.allclose(find_parts(empty, empty, stddev=1.0, are_of_one=False), 1 / empty.size)


def test_the_same_is_asked_once_more_but_more_finely():
    signs, powers, parts, details = (compare(1, (0,), scales=scales) for scales in SCALES)
    by, longer = compare(1, (0,), 2, scales=POWERS), compare(1, (0, 3), scales=POWERS)
    every = (signs, powers, parts, details, by, longer)
    refined = [[asked for asked in every if questions._refines(asked, known, {1: (0,)})] for known in every]
    # Of a sign alone, any number between two would say how far they lie apart.
    assert refined == [[powers], [parts, by, longer], [details, longer], [longer], [longer], []]


@pytest.mark.parametrize(("more", "is_exact"), [(1, False), (2, True)])
def test_contracts_of_a_year_end_on_the_day_before(more, is_exact):
    """Parts of powers alone say that 365 days are 360 to 367."""
    gaps = np.where(np.random.default_rng(0).random(12_000) < 0.8, 364, 729)
    found, _, known = ask_how_much_later(gaps, np.zeros(12_000, np.int64), more=more)
    assert [asked.scales for asked in known.shares] == [DETAILS if is_exact else PARTS]
    assert np.mean(np.abs(found - 364) < 8) == pytest.approx(0.8, abs=0.02)
    assert (np.mean(found == 364) > 0.75) == is_exact


@pytest.mark.parametrize(("least", "is_longer"), [(None, False), (0.0, True)])
def test_moments_do_not_hang_on_a_number_that_says_nothing_of_them(least, is_longer, monkeypatch):
    """How far they lie apart is told in powers of two, so that a small number more would seem to say something."""
    if least is not None:
        monkeypatch.setattr(questions, "_LEAST_EXACT", least)
    begin, end = (CalendarColumn(name=name, first=0, steps=2_000, **_DAYS) for name in ("begin", "end"))
    spans = lay_out(begin, end, make_number("quantity", most=99))
    rng = np.random.default_rng(0)
    begins, gaps = rng.integers(0, 1_400, 6_000), np.minimum(rng.geometric(0.04, 6_000) - 1, 400)
    encoded = write_cells(spans, begins, begins + gaps, rng.integers(1, 30, 6_000))
    drafts = [compare(1, others, scales=POWERS) for others in ((0,), (0, 2))]
    monkeypatch.setattr(questions, "_list_candidates", lambda *_: iter(drafts))
    known = ask(encoded, coarsening=coarsen(encoded, block=60), numbers=(0, 1), more=1, noise=5.0)
    assert list(known.shares) == drafts[is_longer:][:1]


@pytest.mark.parametrize("candidates", [[], [compare(EXTRA, (TOTAL, PAY), how=DIFFERENCE)]])
def test_few_candidates_are_no_matter(candidates, monkeypatch):
    """None, or a difference whose sum was not among the nearest."""
    monkeypatch.setattr(questions, "_list_candidates", lambda *_: iter(candidates))
    encoded = make_payroll(500)
    assert list(ask(encoded, coarsening=coarsen(encoded), times=3).shares) == candidates


def test_days_that_nobody_has_are_not_made_by_how_far_others_lie():
    """The second day is never on a weekend, and the same or some days later."""
    day = {"first": 0, "format": "%Y-%m-%d", "step": DAY, "written": "date"}
    columns = [CalendarColumn(name=name, steps=1_000, **day) for name in ("begin", "end")]  # type: ignore[arg-type]
    spans = lay_out(*columns)
    rng = np.random.default_rng(0)
    begins = rng.integers(0, 900, 20_000)
    ends = begins + np.where(rng.random(20_000) < 0.4, 0, rng.integers(0, 60, 20_000))
    ends += np.array([0, 0, 2, 1, 0, 0, 0])[ends % 7]  # the first of January 1970 was a Thursday
    encoded = write_cells(spans, begins, ends)
    coarsening = coarsen(encoded, block=30)
    odds = np.where(np.isin(np.arange(DAY_KINDS), (5, 6)), 1e-6, 1.4)
    kinds = DayKinds(first_day=0, levels=lay_out_attributes(spans)[1].levels, places=(False,) * 3, odds=odds)
    coarsening = replace(coarsening, parts=(coarsening.parts[0], replace(coarsening.parts[1], odds=kinds)))
    shares = np.bincount(tell_apart(ends - begins, POWERS), minlength=2 * POWERS + 1)[np.newaxis] / len(begins)
    drawn = draw_of_groups(encoded, coarsening)
    Comparisons({compare(1, (0,), scales=POWERS): shares.astype(np.float32)}).redraw(drawn, coarsening, rng=rng)
    first, last = read_cells(drawn)
    assert np.mean(np.isin(last % 7, (2, 3))) < 0.02
    found = np.bincount(tell_apart(last - first, POWERS), minlength=2 * POWERS + 1) / len(begins)
    assert np.abs(found - shares).max() < 0.01


def test_differences_are_free_where_the_sum_is_set_by_something_else():
    asked = compare(3, (8, 5), how=DIFFERENCE)
    assert [questions._is_free(parents, asked) for parents in ({}, {8: (7, 6)}, {8: (3, 7)})] == [False, True, False]


def test_differences_are_asked_for_once_the_sum_is_set_by_something_else(monkeypatch):
    candidates = [compare(EXTRA, (TOTAL, PAY), how=DIFFERENCE), compare(TOTAL, (PAY,))]
    monkeypatch.setattr(questions, "_list_candidates", lambda *_: iter(candidates))
    encoded = make_payroll(3_000)
    known = ask(encoded, coarsening=coarsen(encoded), times=2)
    assert list(known.shares) == candidates[::-1]
    assert np.abs(known.shares[candidates[0]] - [0, 1, 0]).max() < 0.01


@pytest.mark.parametrize(("turned", "is_kept"), [(0.02, False), (0.1, True)])
def test_what_would_move_few_rows_is_left_alone(turned, is_kept, monkeypatch):
    monkeypatch.setattr(questions, "_list_candidates", lambda *_: iter([compare(TOTAL, (PAY,))]))
    pay = np.full(5_000, 500)
    total = np.where(np.arange(5_000) < 2_500, 300, 700)
    drafted = write(pay, 0 * pay, total, 0 * pay)
    encoded = write(pay, 0 * pay, np.where(np.arange(5_000) < 2_500 + 5_000 * turned, 300, 700), 0 * pay)
    known = ask(encoded, coarsening=coarsen(encoded), drafted=drafted)
    assert bool(known.shares) is is_kept


@pytest.mark.parametrize("seed", range(2))
def test_rows_multiply_when_the_table_does(seed):
    rng = np.random.default_rng(seed)
    extra, pay = rng.integers(1, 6, 4_000), rng.integers(50, 390, 4_000)
    encoded = write(pay, extra, pay * extra, rng.integers(0, KINDS, 4_000))
    coarsening = coarsen(encoded)
    known = ask(encoded, coarsening=coarsening, noise=5.0, seed=seed)
    assert [asked.sides for asked in known.shares] == [Sides(TOTAL, (PAY, EXTRA), PRODUCT)]
    drawn = draw_of_groups(encoded, coarsening)
    by_chance = np.mean(read(drawn)[PAY] * read(drawn)[EXTRA] == read(drawn)[TOTAL])
    known.redraw(drawn, coarsening, rng=rng)
    numbers = read(drawn)
    is_legal = numbers[PAY] * numbers[EXTRA] < LEVELS - 10
    assert by_chance < 0.05
    assert np.mean((numbers[PAY] * numbers[EXTRA] == numbers[TOTAL])[is_legal]) > 0.99


@pytest.mark.parametrize("how", [SUM, PRODUCT])
def test_rows_add_up_or_multiply_whatever_the_decimals(how):
    """A loss in cents is what is paid, in cents, and a whole amount, or so many times what is paid."""
    money = {"minimum": 0, "integer": False, "decimals": 2}
    columns = [NumericColumn(name=name, maximum=most, **money) for name, most in (("loss", 5_000), ("paid", 300))]
    spans = lay_out(make_number("own", most=300), *columns)
    rng = np.random.default_rng(0)
    own, paid = rng.integers(0, 200 if how == SUM else 15, 6_000), rng.integers(0, 30_000, 6_000)
    encoded = write_cells(spans, own, paid + 100 * own if how == SUM else own * paid, paid)
    fine, coarse = coarsen(encoded, block=5), coarsen(encoded, block=1_000)
    coarsening = replace(coarse, parts=(fine.parts[0], *coarse.parts[1:]))
    known = ask(encoded, coarsening=coarsening, numbers=(0, 1, 2))
    assert {asked.sides for asked in known.shares} == {Sides(1, (0, 2), how)}
    assert known.is_sound(coarsening)
    assert not Comparisons({compare(0, (1,)): np.full((1, 3), 1 / 3, np.float32)}).is_sound(coarsening)
    drawn = draw_of_groups(encoded, coarsening)
    known.redraw(drawn, coarsening, rng=rng)
    whole, loss, rest = read_cells(drawn)
    assert np.mean(loss == (rest + 100 * whole if how == SUM else rest * whole)) > 0.99


def test_few_comparisons_are_counted_where_rows_are_many():
    encoded = make_payroll(500)
    coarsening = coarsen(encoded)
    drafted = CoarseRows(draw_of_groups(encoded, coarsening), coarsening)
    every, few = (list(questions._list_candidates(drafted, (PAY, EXTRA, TOTAL), records)) for records in (500.0, 1e9))
    assert {(EXTRA, (PAY,)), (TOTAL, (PAY,)), (TOTAL, (EXTRA,)), (TOTAL, (PAY, EXTRA))} <= {
        each.sides[:2] for each in every
    }
    assert {each.sides for each in few} == {Sides(TOTAL, (PAY, EXTRA))}
    assert all(ALL in {other.by for other in every if other.sides == each.sides} for each in every)
    assert all(each.by != each.own for each in every)


@pytest.mark.parametrize(
    "damage",
    [
        lambda shares: shares.update({compare(TOTAL, (PAY,), KIND): shares[compare(TOTAL, (PAY, EXTRA), KIND)]}),
        lambda shares: shares.update({compare(PAY, (TOTAL,)): np.ones((1, 3)) / 3}),
        lambda shares: shares.update({compare(EXTRA, (PAY,), TOTAL): np.ones((20, 3)) / 3}),
        lambda shares: shares.update({compare(EXTRA, (PAY,)): np.ones((1, 3))}),
        lambda shares: shares.update({compare(EXTRA, (PAY,)): np.array([[-0.5, 0.5, 1.0]])}),
        lambda shares: shares.update({compare(EXTRA, (PAY,)): np.ones((2, 3)) / 3}),
        lambda shares: shares.update({compare(EXTRA, (KIND,)): np.ones((1, 3)) / 3}),
        lambda shares: shares.update({compare(EXTRA, (9,)): np.ones((1, 3)) / 3}),
        lambda shares: shares.update({compare(EXTRA, (PAY,), 9): np.ones((1, 3)) / 3}),
        lambda shares: shares.update({compare(EXTRA, ()): np.ones((1, 3)) / 3}),
        lambda shares: shares.update({compare(EXTRA, (PAY,), how=PRODUCT): np.ones((1, 3)) / 3}),
    ],
)
def test_what_does_not_fit_the_groups_is_found_out(damage):
    coarsening = coarsen(make_payroll(100))
    shares = {compare(TOTAL, (PAY, EXTRA), KIND): np.full((KINDS, 3), 1 / 3, np.float32)}
    sound = Comparisons({**shares, compare(EXTRA, (PAY,)): np.array([[0.0, 0.25, 0.75]])})
    product = Comparisons({compare(TOTAL, (PAY, EXTRA), how=PRODUCT): np.array([[0.0, 0.25, 0.75]])})
    assert product.is_sound(coarsening)
    assert list(Comparisons.unpack(product.pack()).shares) == list(product.shares)
    assert sound.is_sound(coarsening)
    again = Comparisons.unpack(sound.pack() | {"probabilities": np.ones(1), "empty 0 1": np.ones(1)})
    assert list(again.shares) == list(sound.shares)
    assert all(np.array_equal(again.shares[each], sound.shares[each]) for each in sound.shares)
    assert again.is_sound(coarsening)
    damage(shares)
    assert not Comparisons(shares).is_sound(coarsening)


def test_what_others_hang_on_is_drawn_before_them_whatever_the_order():
    """Extra is set by pay, then the total by both."""
    encoded = make_payroll(1_000)
    coarsening = coarsen(encoded)
    same = np.array([[0.0, 1.0, 0.0]], np.float32)
    asked = [compare(TOTAL, (PAY, EXTRA)), compare(EXTRA, (PAY,))]
    for order in (asked, asked[::-1]):
        drawn = draw_of_groups(write(*(np.full(1_000, value) for value in (500, 480, 900, 0))), coarsening)
        Comparisons(dict.fromkeys(order, same)).redraw(drawn, coarsening, rng=np.random.default_rng(0))
        numbers = read(drawn)
        assert np.array_equal(numbers[EXTRA], numbers[PAY])
        assert np.array_equal(numbers[TOTAL], 2 * numbers[PAY])
    nothing = replace(encoded, codes=encoded.codes[:0], numbers=encoded.numbers[:0])
    Comparisons({asked[0]: same}).redraw(nothing, coarsening, rng=np.random.default_rng(0))
