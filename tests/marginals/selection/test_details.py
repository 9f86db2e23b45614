"""Codes within groups: what is asked, how far a record moves it, and whose rows hold what goes together."""

import itertools
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.marginals.answers.measurements import GroupedRows
from dpwgan.marginals.one_way.coarsening import GROUPS, Coarsening
from dpwgan.marginals.selection import details
from dpwgan.marginals.selection.details import DETAILS, Details, ask_for_details, find_codes
from dpwgan.marginals.selection.hanging import hangs_on, put_in_order
from dpwgan.marginals.selection.queries import ANSWER_LABEL, SELECTION_LABEL, plan_queries
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.rows import Rows
from dpwgan.table.schema import CategoricalColumn
from tests.ledgers import Watcher, open_ledger
from tests.marginals.groups import group_codes, hold_cells
from tests.marginals.neighbours import move
from tests.marginals.tables import lay_out

CODES, DISTRICTS, GROUPS_OF_CODES = 12, 6, 4
SPANS = lay_out(
    *(
        CategoricalColumn(name=name, tokens=tuple(map(str, range(size))), integer=True)
        for name, size in (("county", CODES), ("district", DISTRICTS), ("state", 3), ("coin", 2))
    )
)
COUNTY, DISTRICT, STATE, COIN = range(4)


def make_places(records: int, *, seed: int = 0) -> EncodedTable:
    """Two counties make a district, two districts a state; groups are of counties that are three apart."""
    rng = np.random.default_rng(seed)
    county = rng.choice(CODES, records, p=np.arange(1, CODES + 1) / 78)
    codes = np.stack([county, county // 2, county // 4, rng.integers(0, 2, records)], axis=1).astype(np.int32)
    return EncodedTable(codes=codes, numbers=np.zeros((records, 0), np.float32), spans=SPANS)


def coarsen_places(encoded: EncodedTable) -> Coarsening:
    """Groups of three counties or of two districts each, no two of which are neighbours; others by themselves."""
    groups = [np.arange(CODES) % GROUPS_OF_CODES, np.arange(DISTRICTS) % 3, np.arange(3), np.arange(2)]
    parts = tuple(group_codes(encoded.codes[:, place], group, stddev=1.0) for place, group in enumerate(groups))
    return Coarsening(spans=SPANS, parts=parts)


def make_codes(encoded: EncodedTable, coarsening: Coarsening) -> npt.NDArray[np.float32]:
    """A code of each row: a fit that has the groups as they are."""
    groups = coarsening.to_groups(encoded)
    return np.hstack([np.eye(size, dtype=np.float32)[groups[:, at]] for at, size in enumerate(coarsening.sizes)])


def group(encoded: EncodedTable, coarsening: Coarsening) -> Rows[GroupedRows]:
    return hold_cells(encoded, coarsening).derive(GROUPS, [COUNTY, DISTRICT])


def ask(
    encoded: EncodedTable,
    *,
    coarsening: Coarsening,
    codes: npt.NDArray[np.float32],
    times: int = 2,
    watcher: Watcher | None = None,
    seed: int = 1,
    **more: Any,
) -> Details:
    lines = plan_queries(99, selection_epsilon=50.0, answer_noise_multiplier=more.pop("noise", 0.2))
    ledger = open_ledger(lines, source=seed, observers=[] if watcher is None else [watcher])
    looked_at, records = more.pop("attributes", [COUNTY, DISTRICT]), more.pop("records", encoded.records)
    known = find_codes(coarsening, looked_at, records=records, least_count=more.pop("least_count", 10.0))
    rows = group(encoded, coarsening)
    return ask_for_details(rows, coarsening, codes, codes=known, records=records, times=times, ledger=ledger, **more)


def draw_of_groups(
    encoded: EncodedTable, coarsening: Coarsening, known: Details, *, seed: int
) -> npt.NDArray[np.int32]:
    rng = np.random.default_rng(seed)
    drawn = coarsening.to_encoded(coarsening.to_groups(encoded), rng=rng)
    known.redraw(drawn, coarsening, rng=rng)
    assert np.array_equal(coarsening.to_groups(drawn), coarsening.to_groups(encoded))
    return drawn.codes


@pytest.mark.statistical
@pytest.mark.parametrize(("seed", "at_once"), [(0, 1 << 22), (1, 1 << 22), (2, 20_000), (3, 20_000)])
def test_codes_of_a_group_go_with_the_other_column_when_they_are_told_apart(seed, at_once, monkeypatch):
    """No district holds two counties of a group, so that one says all of the other; of all rows, or a thousand each."""
    monkeypatch.setattr(details, "_MOST_ODDS", at_once)
    encoded = make_places(20_000, seed=seed)
    coarsening = coarsen_places(encoded)
    known = ask(encoded, coarsening=coarsening, codes=make_codes(encoded, coarsening), seed=seed)
    assert {own for own, _ in known.lifts} == {COUNTY, DISTRICT}
    drawn, chance = (draw_of_groups(encoded, coarsening, by, seed=seed) for by in (known, Details()))

    def count_absurd(codes: npt.NDArray[np.int32]) -> float:
        return float(
            np.mean((codes[:, COUNTY] // 2 != codes[:, DISTRICT]) | (codes[:, DISTRICT] // 2 != codes[:, STATE]))
        )

    assert count_absurd(drawn) < 0.05
    assert count_absurd(chance) > 0.3
    # Each code comes as often as its share has it, give or take five stddevs.
    for place in (COUNTY, DISTRICT):
        counts, wanted = (np.bincount(codes[:, place], minlength=CODES) for codes in (drawn, encoded.codes))
        assert np.all(np.abs(counts - wanted) <= 5 * np.sqrt(wanted) + 1)


def test_counts_are_those_of_a_loop_over_rows():
    encoded = make_places(300)
    coarsening = coarsen_places(encoded)
    named = {str(COUNTY): [0, 1, 2, 4, 0, 5, 6, 3, 7, 1, 8, 3], str(DISTRICT): [0, 3, 2, 0, 4, 2]}
    pairs = [[COUNTY, DISTRICT], [DISTRICT, COIN], [COUNTY, STATE]]
    argument = {"categories": named, "pairs": pairs}
    groups = coarsening.to_groups(encoded)
    expected = []
    for own, other in pairs:
        of_own, of_other = (named.get(str(at)) for at in (own, other))
        count = np.zeros(
            (max(of_own) + 1 - coarsening.sizes[own], max(of_other) + 1 if of_other else coarsening.sizes[other])
        )
        for row, codes in enumerate(encoded.codes.tolist()):
            category = of_own[codes[own]] - coarsening.sizes[own]
            if category >= 0:
                count[category, of_other[codes[other]] if of_other else groups[row, other]] += 1
        expected.append(count.ravel())
    found = group(encoded, coarsening).sum(DETAILS, argument=argument)
    assert np.array_equal(found, np.concatenate(expected))
    # Rows of two workers add up.
    halves = [
        EncodedTable(codes=codes, numbers=encoded.numbers[: len(codes)], spans=SPANS)
        for codes in np.array_split(encoded.codes, 2)
    ]
    assert np.array_equal(sum(group(half, coarsening).sum(DETAILS, argument=argument) for half in halves), found)


@pytest.mark.parametrize("replaced", [False, True])
def test_scores_and_counts_move_by_no_more_than_their_sensitivity_when_a_record_goes_or_changes(replaced):
    encoded = make_places(400)
    coarsening = coarsen_places(encoded)
    more = {"codes": make_codes(encoded, coarsening), "times": 1, "records": 400, "noise": 2.0, "least_count": 1.0}
    again = partial(ask, coarsening=coarsening, **more)
    for other in range(1 if not replaced else 6):
        changed = replace(encoded, codes=encoded.codes[1:], numbers=encoded.numbers[1:])
        if replaced:
            rows = encoded.codes.copy()
            rows[0] = (2 * other + 1, 5 - other, other % 3, other % 2)
            changed = replace(encoded, codes=rows)
        moved = move(again, encoded, changed, replaced=replaced)
        assert len(moved) == 6
        # One that reads rows twice would show: some score moves by nearly as much as it may.
        assert replaced or moved.max() > 0.6


def test_each_attribute_is_told_apart_once_and_then_more_exactly():
    encoded, watch = make_places(2_000), Watcher()
    coarsening = coarsen_places(encoded)
    codes = make_codes(encoded, coarsening)
    known = ask(encoded, coarsening=coarsening, codes=codes, times=9, watcher=watch)
    # Each attribute once, and never one by the other and back.
    assert {own for own, _ in known.lifts} == {COUNTY, DISTRICT}
    assert (COUNTY, DISTRICT) not in known.lifts or (DISTRICT, COUNTY) not in known.lifts
    assert watch.order == [SELECTION_LABEL, ANSWER_LABEL] * 9
    # A district does not hang on its counties, as these hang on it; then the one that has fewer answers is asked for.
    assert list(known.lifts) == [(COUNTY, DISTRICT), (DISTRICT, STATE)]
    assert [len(scores) for scores in watch.scores] == [6, 2, *[1] * 7]
    alone = ask(encoded, coarsening=coarsening, codes=codes, times=1, attributes=[DISTRICT])
    assert [own for own, _ in alone.lifts] == [DISTRICT]
    # Answers to one question are put together, by their mean.
    often = Watcher()
    noisy = ask(encoded, coarsening=coarsening, codes=codes, times=60, attributes=[DISTRICT], noise=8.0, watcher=often)
    ((pair, lifts),) = noisy.lifts.items()
    exact = ask(encoded, coarsening=coarsening, codes=codes, times=1, attributes=[DISTRICT], noise=0.01)
    # Where neither group has the other nothing was expected, and nothing is to be told apart.
    assert np.abs(lifts - exact.lifts[pair])[exact.lifts[pair] > 0.01].max() < 0.2
    assert len(often.noisy) == 60


def test_codes_are_looked_at_where_they_share_a_group_and_hold_enough():
    encoded = make_places(2_000)
    coarsening = coarsen_places(encoded)
    counts = np.bincount(encoded.codes[:, COUNTY], minlength=CODES)
    found = find_codes(coarsening, [COUNTY, STATE], records=2_000, least_count=counts[4] - 0.5)
    assert {attribute: codes.tolist() for attribute, codes in found.items()} == {
        COUNTY: np.flatnonzero(counts >= counts[4]).tolist()
    }
    assert not find_codes(coarsening, [COUNTY], records=2_000, least_count=1e6)


def test_rare_codes_keep_to_chance_and_to_their_share():
    encoded = make_places(4_000)
    coarsening = coarsen_places(encoded)
    # County 0 has a group with counties 4 and 8, and holds less than is asked of it.
    rare = int(np.bincount(encoded.codes[:, COUNTY])[0])
    known = ask(encoded, coarsening=coarsening, codes=make_codes(encoded, coarsening), least_count=rare + 1.0)
    assert 0 not in known.codes[COUNTY]
    assert {4, 8} <= set(known.codes[COUNTY].tolist())
    drawn = draw_of_groups(encoded, coarsening, known, seed=3)
    assert abs(int(np.bincount(drawn[:, COUNTY])[0]) - rare) <= 5 * np.sqrt(rare)


def test_what_hangs_on_others_is_drawn_after_them_whatever_the_order():
    for pairs in itertools.permutations([(0, (1,)), (1, (2, 4)), (3, (5, 1))]):
        order = put_in_order(dict(pairs))
        assert order.index(1) < order.index(0)
        assert order.index(1) < order.index(3)
    assert hangs_on({0: (1,), 1: (2,)}, 0, 2)
    assert not hangs_on({0: (1,), 1: (2,)}, 2, 0)
    # Round in circles, and out of it.
    circle = {0: (1,), 1: (2,), 2: (1, 5)}
    assert [hangs_on(circle, own, other) for own, other in ((0, 5), (1, 1), (1, 0), (2, 9))] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    "damage",
    [
        lambda codes, lifts: codes.update({COUNTY: codes[COUNTY][::-1]}),
        lambda codes, lifts: codes.update({COUNTY: codes[COUNTY] + CODES}),
        lambda codes, lifts: codes.update({9: codes[COUNTY]}),
        lambda codes, lifts: codes.pop(COUNTY),
        lambda codes, lifts: lifts.update({(COUNTY, COIN): lifts[COUNTY, DISTRICT]}),
        lambda codes, lifts: lifts.update(
            {(DISTRICT, COUNTY): np.ones((len(codes[DISTRICT]), 4 + len(codes[COUNTY])))}
        ),
        lambda codes, lifts: lifts.update({(COUNTY, DISTRICT): 0 * lifts[COUNTY, DISTRICT]}),
        lambda codes, lifts: lifts.update({(COUNTY, 9): lifts[COUNTY, DISTRICT]}),
        lambda codes, lifts: lifts.update(dict.fromkeys([(DISTRICT, STATE), (STATE, DISTRICT)], np.ones((4, 3)))),
    ],
)
def test_what_does_not_fit_the_groups_is_found_out(damage):
    encoded = make_places(100)
    coarsening = coarsen_places(encoded)
    codes = {COUNTY: np.arange(CODES), DISTRICT: np.arange(4)}
    lifts = {(COUNTY, DISTRICT): np.ones((CODES, 3 + 4), np.float32)}
    sound = Details(codes, lifts)
    assert sound.is_sound(coarsening)
    again = Details.unpack(sound.pack() | {"probabilities": np.ones(1), "empty 0 1": np.ones(1)})
    assert again.is_sound(coarsening)
    assert list(again.lifts) == [(COUNTY, DISTRICT)]
    assert np.array_equal(again.codes[DISTRICT], np.arange(4))
    damage(codes, lifts)
    assert not Details(codes, lifts).is_sound(coarsening)
