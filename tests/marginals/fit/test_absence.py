"""Columns that are missing together: what is asked, how far a record moves it, and rows that keep to the answer."""

from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.marginals import anchor_plan
from dpwgan.marginals.anchor import FittedAnchor, fit_anchor
from dpwgan.marginals.anchor_plan import AnchorSettings, plan_anchor
from dpwgan.marginals.answers.measurements import GroupedRows
from dpwgan.marginals.fit.absence import Absence, flag_missing
from dpwgan.marginals.groups import GroupLayout
from dpwgan.marginals.one_way.coarsening import GROUPS, Coarsening
from dpwgan.marginals.selection import absence_questions
from dpwgan.marginals.selection.absence_questions import ABSENCE, Question, ask_for_absence, list_questions
from dpwgan.marginals.selection.queries import ANSWER_LABEL, SELECTION_LABEL, plan_queries
from dpwgan.privacy.journal import Journal
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.rows import Rows
from dpwgan.table.schema import CategoricalColumn
from tests.ledgers import Watcher, open_ledger, watch_reads
from tests.marginals.groups import group_codes, hold_cells
from tests.marginals.neighbours import move
from tests.marginals.tables import lay_out
from tests.methods.runs import reserve
from tests.plans import make_terms
from tests.rows import make_run

# Six columns of one visit and four of the next, one that nobody lacks, and one that many miss by chance.
VISIT, NEXT, LONE, NEVER = range(6), range(6, 10), 10, 11
COLUMNS, MISSING, VALUES = 12, 2, 3
CODES = [() if place == NEVER else ("x", "y") for place in range(COLUMNS)]
SPANS = lay_out(
    *(
        CategoricalColumn(name=f"c{place}", tokens=(*map(str, range(VALUES)), *codes), missing=codes, integer=True)
        for place, codes in enumerate(CODES)
    )
)


def make_visits(records: int, *, seed: int = 0, apart: float = 0.0, by_chance: bool = False) -> EncodedTable:
    """Who misses the visit misses the next; `apart`: so many miss column 0 too. `by_chance`: each column by itself."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, VALUES, (records, COLUMNS)).astype(np.int32)
    ranks = rng.random((records, COLUMNS))
    if not by_chance:
        ranks[:, :10] = ranks[:, :1]
    missing = ranks < np.select([np.isin(np.arange(COLUMNS), some) for some in (VISIT, NEXT, LONE)], [0.2, 0.32, 0.5])
    missing[rng.random(records) < apart, 0] = True
    codes = np.where(missing, VALUES + rng.integers(0, MISSING, codes.shape), codes)
    return EncodedTable(codes=codes.astype(np.int32), numbers=np.zeros((records, 0), np.float32), spans=SPANS)


def coarsen(encoded: EncodedTable, *, stddev: float = 5.0) -> Coarsening:
    """A group of each value, and of all that is missing one or two."""
    groups = [np.array([0, 1, 2, 3, 3 + place % 2]) for place in range(COLUMNS)]
    groups[NEVER] = np.arange(VALUES)
    parts = tuple(group_codes(encoded.codes[:, place], own, stddev=stddev) for place, own in enumerate(groups))
    return Coarsening(spans=SPANS, parts=parts)


def group(encoded: EncodedTable, coarsening: Coarsening) -> Rows[GroupedRows]:
    return hold_cells(encoded, coarsening).derive(GROUPS, [])


def find_missing(encoded: EncodedTable) -> npt.NDArray[np.bool_]:
    return encoded.codes >= VALUES


def ask(
    encoded: EncodedTable,
    coarsening: Coarsening,
    *,
    times: int = 4,
    noise: float = 0.2,
    records: int | None = None,
    watcher: Watcher | None = None,
    seed: int = 1,
) -> Absence:
    lines = plan_queries(99, selection_epsilon=50.0, answer_noise_multiplier=noise)
    ledger = open_ledger(lines, source=seed, observers=[] if watcher is None else [watcher])
    records = encoded.records if records is None else records
    return ask_for_absence(group(encoded, coarsening), coarsening, records=records, times=times, ledger=ledger)


def test_columns_that_as_many_rows_miss_are_held_against_each_other():
    encoded = make_visits(3_000)
    coarsening = coarsen(encoded)
    shares = find_missing(encoded).mean(axis=0)
    found = list_questions(coarsening, records=3_000, stddev=5.0)
    assert [question.attributes for question in found] == [tuple(VISIT), tuple(NEXT)]
    assert [question.shares for question in found] == [
        pytest.approx(shares[: len(VISIT)]),
        pytest.approx(shares[NEXT.start : NEXT.stop]),
    ]
    # Of fewer columns pairs say as much; and one that others lack far more often is none of them.
    shares = coarsening.parts[9].probabilities + [-0.05, 0, 0, 0.05, 0][: coarsening.parts[9].size]
    fewer = replace(
        coarsening,
        parts=(*coarsening.parts[:9], replace(coarsening.parts[9], probabilities=shares), *coarsening.parts[10:]),
    )
    assert [question.attributes for question in list_questions(fewer, records=3_000, stddev=5.0)] == [tuple(VISIT)]
    # Noise of so many records leaves nothing to be told.
    assert not list_questions(coarsening, records=3_000, stddev=200.0)
    # How many columns one question is about is limited.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(absence_questions, "_MOST_COLUMNS", 4)
        assert [len(question.attributes) for question in list_questions(coarsening, records=3_000, stddev=5.0)] == [
            4,
            4,
        ]


def test_counts_are_those_of_a_loop_over_rows():
    encoded = make_visits(500, by_chance=True)
    coarsening = coarsen(encoded)
    asked = [(0, 3, 7, LONE), (1, 2, 4, 5)]
    expected = []
    for places in asked:
        count = np.zeros(13)
        for row in find_missing(encoded)[:, places].tolist():
            if sum(row) in (0, 4):
                cell = sum(row) // 4
            elif sum(row) == 2:
                cell = 10 + row.index(not row[0]) - 1
            else:
                cell = 2 + row.index(True) if sum(row) == 1 else 6 + row.index(False)
            count[cell] += 1
        expected.append(count)
    argument = [[(at, flag_missing(coarsening, at).tolist()) for at in places] for places in asked]
    found = group(encoded, coarsening).sum(ABSENCE, argument=argument)
    assert np.array_equal(found, np.concatenate(expected))
    halves = [encoded.take(np.arange(500) < 200), encoded.take(np.arange(500) >= 200)]
    assert np.array_equal(sum(group(half, coarsening).sum(ABSENCE, argument=argument) for half in halves), found)


def test_what_is_expected_is_what_chance_would_make_of_the_shares():
    rng = np.random.default_rng(0)
    question = Question((0, 1, 2, 3), (0.2, 0.3, 0.5, 0.7))
    codes = np.zeros((200_000, COLUMNS), np.int32)
    codes[:, :4][rng.random((200_000, 4)) < question.shares] = VALUES
    encoded = EncodedTable(codes=codes, numbers=np.zeros((200_000, 0), np.float32), spans=SPANS)
    coarsening = coarsen(make_visits(500))
    flags = [(at, flag_missing(coarsening, at).tolist()) for at in question.attributes]
    counted, expected = group(encoded, coarsening).sum(ABSENCE, argument=[flags]), question.expect(200_000)
    assert len(counted) == len(expected) == question.cells
    assert expected.sum() == pytest.approx(200_000)
    assert np.all(np.abs(counted - expected) < 5 * np.sqrt(expected) + 1)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("row", [0, 7])
def test_scores_and_counts_move_by_no_more_than_their_sensitivity_when_a_record_goes_or_changes(replaced, row):
    encoded = make_visits(600)
    coarsening = coarsen(encoded, stddev=1.0)
    largest = 0.0
    for other in range(8 if replaced else 1):
        changed = encoded.take(np.arange(600) != row)
        if replaced:
            codes = encoded.codes.copy()
            codes[row] = np.where((np.arange(COLUMNS) * (other + 3)) % 5 < 2, VALUES, 0)
            codes[row, NEVER] = 0
            changed = replace(encoded, codes=codes)
        again = partial(ask, coarsening=coarsening, noise=2.0, records=600)
        largest = max(largest, float(move(again, encoded, changed, replaced=replaced).max()))
    # One that counts rows twice would show: some score moves by nearly as much as it may.
    assert replaced or largest > 0.6


def test_sets_are_found_where_columns_miss_the_same_rows():
    encoded, watch = make_visits(3_000), Watcher()
    coarsening = coarsen(encoded)
    known = ask(encoded, coarsening, noise=5.0, watcher=watch)
    assert sorted(known.sets) == [tuple(VISIT), tuple(NEXT)]
    assert watch.order == [SELECTION_LABEL, ANSWER_LABEL] * 2
    assert [len(scores) for scores in watch.scores] == [2, 1]
    assert known.asked == 2
    again = Absence.unpack(known.pack(), coarsening)
    assert (again.sets, again.asked) == (known.sets, known.asked)
    assert {place: flags.tolist() for place, flags in again.missing.items()} == {
        place: [False] * VALUES + [True] * (1 + place % 2) for place in (*VISIT, *NEXT)
    }
    alone = ask(encoded, coarsening, noise=5.0, times=1)
    assert (len(alone.sets), alone.asked) == (1, 1)


def test_groups_that_do_not_go_together_are_those_of_which_one_is_missing():
    coarsening = coarsen(make_visits(3_000))
    known = make_known(coarsening)
    zeros, with_first = known.find_zeros(), known.find_zeros(with_first=True)
    assert len(zeros) == 6 * 5 // 2 + 4 * 3 // 2
    assert list(with_first) == [*((0, place) for place in range(1, 6)), *((6, place) for place in range(7, 10))]
    for (left, right), flags in zeros.items():
        for own, other in np.ndindex(flags.shape):
            assert flags[own, other] == ((own >= VALUES) != (other >= VALUES)), (left, right)


@pytest.mark.parametrize("seed", range(4))
def test_no_set_is_found_where_columns_are_missing_by_chance(seed):
    encoded, watch = make_visits(3_000, seed=seed, by_chance=True), Watcher()
    # The counts lie a few records apart, which is taken for noise.
    coarsening = coarsen(encoded, stddev=30.0)
    assert list_questions(coarsening, records=3_000, stddev=5.0)
    known = ask(encoded, coarsening, noise=5.0, watcher=watch, seed=seed)
    assert known.sets == ()
    assert known.asked == len(watch.chosen) >= 1
    # Its twin, where they are not.
    assert ask(make_visits(3_000, seed=seed), coarsening, noise=5.0, seed=seed).sets


def test_two_visits_that_as_many_miss_are_not_one():
    encoded = make_visits(3_000)
    codes = encoded.codes.copy()
    codes[:, 3:6] = np.roll(codes[:, 3:6], 1, axis=0)
    encoded = replace(encoded, codes=codes)
    coarsening = coarsen(encoded)
    assert list_questions(coarsening, records=3_000, stddev=5.0)[0].attributes == tuple(VISIT)
    # They are two, one behind the other.
    known = ask(encoded, coarsening, noise=5.0)
    assert sorted(known.sets) == [tuple(VISIT)[:3], tuple(VISIT)[3:], tuple(NEXT)]
    assert known.asked == 3
    assert len(ask(encoded, coarsening, noise=5.0, times=1).sets) == 1
    # Columns of one that lie between those of the other are told by no border.
    codes[:, [1, 4]] = codes[:, [4, 1]]
    mixed = ask(replace(encoded, codes=codes), coarsening, noise=5.0)
    assert mixed.sets[0] == tuple(NEXT)
    assert all(len(each) == 2 for each in mixed.sets[1:])


@pytest.mark.statistical
@pytest.mark.parametrize(("apart", "found"), [(0.0, tuple(VISIT)), (0.03, tuple(VISIT)[1:])])
@pytest.mark.parametrize("seed", range(3))
def test_a_column_that_is_missing_elsewhere_too_is_none_of_the_set(apart, found, seed):
    encoded = make_visits(4_000, apart=apart, seed=seed)
    coarsening = coarsen(encoded, stddev=100.0)
    assert list_questions(coarsening, records=4_000, stddev=8.0)[0].attributes == tuple(VISIT)
    assert found in ask(encoded, coarsening, noise=8.0, seed=seed).sets


def make_known(coarsening: Coarsening) -> Absence:
    """Both visits as sets."""
    missing = {place: flag_missing(coarsening, place) for place in (*VISIT, *NEXT)}
    return Absence((tuple(VISIT), tuple(NEXT)), 2, missing)


def make_codes(codes: int, *, pure: bool, seed: int = 0) -> npt.NDArray[np.float32]:
    """Codes of a mixture, some of which have half a visit."""
    rng, layout = np.random.default_rng(seed), GroupLayout(coarsen(make_visits(500)).sizes)
    made = [rng.dirichlet(np.ones(size), codes) for size in layout.sizes]
    gone = rng.random(codes) < 0.25
    for place in (*VISIT, *NEXT):
        missing = np.arange(layout.sizes[place]) >= VALUES
        share = gone.astype(float) if pure else np.clip(gone * 0.7 + rng.random(codes) * 0.3, 0, 1)
        for cells, part in ((missing, share), (~missing, 1 - share)):
            made[place][:, cells] *= (part / made[place][:, cells].sum(axis=1))[:, np.newaxis]
    return np.hstack(made).astype(np.float32)


def test_codes_have_all_of_a_set_or_none_of_it_and_as_many_rows_miss_it():
    coarsening = coarsen(make_visits(3_000))
    layout = GroupLayout(coarsening.sizes)
    known = make_known(coarsening)

    def see(codes: npt.NDArray[np.float32], place: int) -> npt.NDArray[np.float32]:
        missing: npt.NDArray[np.float32] = codes[:, layout.get_slice(place)][:, VALUES:].sum(axis=1)
        return missing

    codes = make_codes(400, pure=False)
    pure = known.make_pure(codes, coarsening)
    for places in known.sets:
        missing = np.stack([see(pure, place) for place in places])
        assert np.all((missing > 1 - 1e-6) | (missing < 1e-6))
        assert np.allclose(missing, missing[0], atol=1e-6)
        before = np.mean([see(codes, place) for place in places])
        assert abs(missing.mean() - before) <= 1 / 400
    # What codes say beside that stays as it was: other columns, and values where there are any.
    others = slice(layout.get_slice(LONE).start, None)
    assert np.array_equal(pure[:, others], codes[:, others])
    there = see(pure, 2) < 0.5
    both = [made[there][:, layout.get_slice(2)][:, :VALUES].astype(float) for made in (codes, pure)]
    assert np.allclose(*(part / part.sum(axis=1, keepdims=True) for part in both), atol=1e-5)
    # Codes that are pure are left alone, and all where there is no set.
    assert Absence().make_pure(codes, coarsening) is codes
    same = make_codes(400, pure=True)
    assert np.allclose(known.make_pure(same, coarsening), same, atol=1e-6)


def fit_visits(encoded: EncodedTable, patch: pytest.MonkeyPatch) -> tuple[FittedAnchor, Watcher]:
    settings = AnchorSettings(codes=300, fit_steps=60, rounds=16)
    plan, watcher = plan_anchor(encoded.shape, make_terms(epsilon=8.0), kind="queries", settings=settings), Watcher()
    ledger = reserve(plan, observers=[watcher])
    with patch.context() as patched:
        reads = watch_reads(patched, ledger, watcher, [(absence_questions, "_count")])
        fitted = fit_anchor(make_run(encoded, ledger=ledger), plan.design)
    assert set(reads) <= {SELECTION_LABEL}
    assert ledger.charged == {release.label: release.times for release in plan.releases}
    return fitted, watcher


def count_half(fitted: FittedAnchor) -> float:
    """The share of drawn rows that miss a part of a visit."""
    pure = fitted.make_pure(fitted.generator.probabilities())
    (drawn,) = fitted.make_sampler(pure).sample(2_000, rng=np.random.default_rng(1))
    missing = find_missing(drawn)
    half = [missing[:, some].any(axis=1) & ~missing[:, some].all(axis=1) for some in (VISIT, NEXT)]
    return float(np.mean(half[0] | half[1]))


def test_rows_have_a_visit_whole_or_not_at_all(monkeypatch):
    encoded = make_visits(3_000)
    fitted, watcher = fit_visits(encoded, monkeypatch)
    assert watcher.order.count(ANSWER_LABEL) == COLUMNS - 1 + 16
    assert sorted(fitted.table.absence.sets) == [tuple(VISIT), tuple(NEXT)]
    assert count_half(fitted) == 0.0
    monkeypatch.setattr(anchor_plan, "_MOST_ABSENCES", 0)
    unasked, watcher = fit_visits(encoded, monkeypatch)
    assert watcher.order.count(ANSWER_LABEL) == COLUMNS - 1 + 16
    assert count_half(unasked) > 0.005


def test_a_run_that_lost_the_answers_goes_on_without_them(monkeypatch):
    monkeypatch.setattr(Journal, "has_lost", lambda journal, name: name == "absence")
    settings = AnchorSettings(codes=40, fit_steps=4, rounds=8)
    encoded = make_visits(1_000)
    plan = plan_anchor(encoded.shape, make_terms(epsilon=8.0), kind="queries", settings=settings)
    ledger = reserve(plan)
    fitted = fit_anchor(make_run(encoded, ledger=ledger), plan.design)
    assert fitted.table.absence.sets == ()
    # What was lost may have been spent.
    assert ledger.charged[ANSWER_LABEL] == plan.design.queries - plan.design.absences


@pytest.mark.parametrize(
    ("missing", "queries", "asked"), [(0, 99, 0), (1, 99, 0), (3, 99, 1), (12, 99, 4), (12, 17, 2), (12, 7, 0)]
)
def test_how_often_is_asked_goes_by_public_facts(missing, queries, asked):
    plan = plan_anchor(make_visits(100).shape, make_terms(), kind="queries", settings=AnchorSettings())
    attributes = [
        replace(attribute, missing=int(place < missing))
        for place, attribute in enumerate(plan.design.one_way_plan.attributes)
    ]
    one_ways = replace(plan.design.one_way_plan, attributes=tuple(attributes))
    assert replace(plan.design, one_way_plan=one_ways, edges=0, rounds=queries).absences == asked
    assert not plan_anchor(
        make_visits(100).shape, make_terms(), kind="moments", settings=AnchorSettings()
    ).design.absences
