"""Null records: nothing that a fit reads may depend on what a null row holds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpwgan.app.planning import RunPlan
from dpwgan.audit.canaries.watch import Record, WatchedLedger, watched
from dpwgan.audit.canaries.worlds import add_canaries, nulled
from dpwgan.marginals import one_ways
from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.methods import ron_gauss
from dpwgan.privacy.randomness import make_streams
from dpwgan.table.encoded import EncodedTable
from tests.audit.canaries.runs import METHODS, OF_IMAGES, make_plan, make_table

CANARIES = 20


def fit(encoded: EncodedTable, run_plan: RunPlan, *, canary: int | None = None) -> tuple[Record, Any]:
    ledger = WatchedLedger(run_plan.open_ledger())
    with watched(ledger, canary=canary) as record:
        fitted = run_plan.method.fit(
            encoded,
            run_plan.plan,
            streams=make_streams(3),
            ledger=ledger,
            progress=lambda *_: None,
            device="cpu",
        )
    return record, fitted


def sample(fitted: Any) -> EncodedTable:
    (part,) = fitted.sample(50, rng=np.random.default_rng(0))
    return part  # type: ignore[no-any-return]


def are_equal(one: EncodedTable, other: EncodedTable) -> bool:
    return np.array_equal(one.codes, other.codes) and np.array_equal(one.numbers, other.numbers)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "dp-wgan, moments" else ()) for name in METHODS]
)
def test_fit_is_the_same_to_the_last_bit_when_null_rows_hold_something_else(name: str) -> None:
    encoded = make_table(canaries=CANARIES, images=name in OF_IMAGES)
    present = np.arange(encoded.records) < encoded.records - CANARIES
    other = add_canaries(encoded.take(present), canaries=CANARIES, rng=np.random.default_rng(77))
    run_plan = make_plan(name, encoded, epsilon=8.0)  # seeded: the noise is the same, and a row that is read shows
    with nulled(present):
        record, fitted = fit(encoded, run_plan)
        again, fitted_again = fit(other, run_plan)
    assert are_equal(sample(fitted), sample(fitted_again))
    for one, two in zip(record.releases, again.releases, strict=True):
        np.testing.assert_array_equal(one.released, two.released)
    # The twin: rows that are not null do show.
    assert not are_equal(sample(fitted), sample(fit(other, run_plan)[1]))


def test_null_record_is_in_no_class_when_rows_are_parted() -> None:
    encoded = make_table(canaries=CANARIES)
    label = next(span for span in encoded.spans if span.column == "letters")
    present = np.arange(encoded.records) % 3 > 0
    with nulled(present):
        tables = ron_gauss.split_classes(encoded, label)
        assert sum(table.records for table in tables) == present.sum()
        for index, table in enumerate(tables):
            mine = present & (encoded.codes[:, label.source] == index)
            np.testing.assert_array_equal(table.numbers, encoded.numbers[mine])


def test_counts_are_those_of_the_rows_that_are_left_when_others_are_null() -> None:
    encoded = make_table(canaries=CANARIES)
    present = np.arange(encoded.records) % 3 > 0
    plan = one_ways.plan_one_ways(encoded.spans)
    expected = one_ways.count_one_ways(encoded.take(present), plan)
    with nulled(present):
        found = one_ways.count_one_ways(encoded, plan)
    for mine, theirs in zip(found, expected, strict=True):
        for one, two in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(one, two)
    assert sum(histogram.sum() for histogram in found[0]) == present.sum() * len(found[0])


def test_worlds_are_as_before_when_the_block_is_over() -> None:
    before = one_ways.count_one_ways
    with pytest.raises(ZeroDivisionError), nulled(np.ones(3, bool)):
        raise ZeroDivisionError
    assert one_ways.count_one_ways is before


@pytest.mark.parametrize("name", ["dp-wgan, none", "query-gan"])
def test_fit_is_the_same_when_it_is_watched(name: str) -> None:
    encoded = make_table()
    run_plan = make_plan(name, encoded)
    watched_run = sample(fit(encoded, run_plan, canary=encoded.records - 1)[1])
    plain = run_plan.method.fit(
        encoded,
        run_plan.plan,
        streams=make_streams(3),
        ledger=run_plan.open_ledger(),
        progress=lambda *_: None,
        device="cpu",
    )
    assert are_equal(watched_run, sample(plain))


def test_canaries_are_any_legal_cells_when_they_are_drawn() -> None:
    encoded = make_table(records=10, canaries=5_000)
    drawn = encoded.take(np.arange(encoded.records) >= 10)
    for attribute in lay_out_attributes(encoded.spans):
        cells = attribute.find_cells(drawn)
        assert cells.min() >= 0
        assert cells.max() < attribute.cells
        if attribute.cells <= 10:
            counts = np.bincount(cells, minlength=attribute.cells)
            assert np.all(np.abs(counts - 5_000 / attribute.cells) < 5 * np.sqrt(5_000 / attribute.cells))
    assert replace(encoded).records == 5_010
