"""Groups of cells from released counts, and rows drawn from groups."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from dpwgan.errors import DpwganError, InputError, UsageError
from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.marginals.one_way import merging
from dpwgan.marginals.one_way.coarsening import Coarsening
from dpwgan.marginals.one_way.day_kinds import DayKinds
from dpwgan.marginals.one_way.merging import _join_neighbours, _merge_neighbours, coarsen
from dpwgan.marginals.one_way.number_tree import Intervals
from dpwgan.marginals.one_way.one_ways import plan_one_ways
from dpwgan.marginals.simplex import project_on_simplex
from dpwgan.table.encoded import EncodedTable, lay_out_spans
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.schema import CategoricalColumn, Column, NumericColumn, Schema
from dpwgan.table.specs import parse_specs
from tests.marginals.groups import make_part
from tests.marginals.tables import COLUMNS, SCHEMA, make_encoded, measure_one_ways
from tests.rows import encode_table

FALSE_ALARM = 1e-6


def release(encoded: EncodedTable, *, stddev: float, least_count: float, seed: int = 0, **most: int) -> Coarsening:
    plan = plan_one_ways(encoded.spans)
    one_ways = measure_one_ways(encoded, plan, noise_multiplier=stddev / plan.sensitivity, seed=seed)
    return coarsen(one_ways, records=encoded.records, least_count=least_count, **most)


def encode(column: Column, cells: list[str]) -> tuple[TableEncoder, EncodedTable]:
    encoder = TableEncoder(Schema(columns=(column,), sha256="0" * 64), [column.name])
    return encoder, encode_table(encoder, pl.DataFrame({column.name: cells}))


@pytest.mark.slow
@settings(max_examples=20)
@given(
    st.integers(1, 400),
    st.sampled_from([0.5, 20.0, 5_000.0]),
    st.sampled_from([0.0, 30.0, 1e6]),
    st.sampled_from([2, 5, 128]),
    st.integers(0, 2**31),
)
def test_groups_come_back_when_rows_are_drawn_from_them(records, stddev, least_count, most_cells, seed):
    columns = [column for column in COLUMNS if column.name not in ("wide", "weight")]
    encoded = make_encoded(records, seed=seed, columns=columns)
    coarsening = release(
        encoded, stddev=stddev, least_count=least_count, seed=seed, most_cells=most_cells, most_intervals=most_cells
    )
    assert max(coarsening.sizes) <= most_cells
    assert coarsening.width == sum(coarsening.sizes)
    for sizes in (coarsening.probabilities, coarsening.counts, coarsening.stddevs):
        assert tuple(map(len, sizes)) == coarsening.sizes
    for probabilities, stddevs in zip(coarsening.probabilities, coarsening.stddevs, strict=True):
        assert probabilities.min() >= 0
        assert probabilities.sum() == pytest.approx(1.0)
        assert stddevs.min() > 0
    groups = coarsening.to_groups(encoded)
    assert groups.dtype == np.uint8
    assert groups.shape == (records, len(columns))
    rng = np.random.default_rng(seed)
    everything = rng.integers(0, coarsening.sizes, (500, len(columns)))
    for chosen in (groups, everything):
        drawn = coarsening.to_encoded(chosen, rng=rng)
        assert np.array_equal(coarsening.to_groups(drawn), chosen)
        assert drawn.numbers.min() >= 0
        assert drawn.numbers.max() <= 1


@pytest.mark.slow
def test_drawn_rows_decode_to_legal_cells_when_columns_are_of_every_dialect():
    encoded = make_encoded(3_000, seed=4)
    coarsening = release(encoded, stddev=3.0, least_count=20.0)
    encoder = TableEncoder(SCHEMA, [column.name for column in COLUMNS])
    rng = np.random.default_rng(0)
    drawn = coarsening.to_encoded(rng.integers(0, coarsening.sizes, (3_000, len(COLUMNS))), rng=rng)
    frame = encoder.decode(drawn, rng)
    encoder.validate(frame)
    assert set(frame["fixed"]) == {"7"}
    assert set(frame["lone"]) == {"1"}
    assert {float(cell) for cell in frame["rate"] if cell} <= {tenth / 10 for tenth in range(3, 20)}
    assert all(cell == "N" or cell.endswith(".00") for cell in frame["whole"])
    # Every cell is written as it was drawn: reading it again gives the same groups.
    again = encode_table(encoder, frame)
    narrow = [index for index, attribute in enumerate(coarsening.attributes) if attribute.column != "wide"]
    assert np.array_equal(coarsening.to_groups(again)[:, narrow], coarsening.to_groups(drawn)[:, narrow])


def test_income_keeps_its_zeros_median_and_tail_when_it_is_skewed():
    rng = np.random.default_rng(8)
    records = 30_000
    income = np.where(rng.random(records) < 0.4, 0, np.minimum(np.exp(rng.normal(10, 1, records)), 1e6)).astype(int)
    column = NumericColumn(name="income", minimum=0, maximum=1_000_000, integer=True, missing=("N",))
    cells = [str(number) for number in income]
    cells[:1_500] = ["N"] * 1_500
    encoder, encoded = encode(column, cells)
    coarsening = release(encoded, stddev=20.0, least_count=100.0)
    groups = rng.choice(coarsening.sizes[0], (records, 1), p=coarsening.probabilities[0])
    drawn = encoder.decode(coarsening.to_encoded(groups, rng=rng), rng)["income"].to_numpy()
    truth = income[1_500:]
    numbers = drawn[drawn != "N"].astype(int)
    assert np.mean(drawn == "N") == pytest.approx(0.05, abs=0.01)
    assert np.mean(numbers == 0) == pytest.approx(np.mean(truth == 0), abs=0.015)
    for share, error in ((0.5, 0.05), (0.75, 0.05), (0.9, 0.05), (0.97, 0.15)):
        assert np.quantile(numbers, share) == pytest.approx(np.quantile(truth, share), rel=error)
    # Nobody else shares the group of the zeros.
    zero = coarsening.to_groups(encode(column, ["0", "1"])[1])[:, 0]
    assert zero[0] != zero[1]


@pytest.mark.statistical
@pytest.mark.parametrize(("shares", "broken"), [([300, 200, 100, 50, 30, 20, 10], False), ([1] * 7, True)])
def test_merged_categories_come_back_at_their_released_shares_and_not_evenly_when_drawn(shares, broken):
    """Noise of stddev 0.01 on counts of 10 and more moves the shares by far less than 50,000 draws can show."""
    tokens, records = tuple("abcdefgh"), 50_000
    counts = np.array([20_000, 300, 200, 100, 50, 30, 20, 10])
    column = CategoricalColumn(name="letter", tokens=tokens)
    _, encoded = encode(column, [token for token, count in zip(tokens, counts, strict=True) for _ in range(count)])
    coarsening = release(encoded, stddev=0.01, least_count=1_000.0)
    assert coarsening.sizes == (2,)
    rng = np.random.default_rng()
    pool = coarsening.to_groups(encoded)[-1, 0]
    codes = coarsening.to_encoded(np.full((records, 1), pool), rng=rng).codes[:, 0]
    observed, expected = np.bincount(codes, minlength=8)[1:], records * np.array(shares) / sum(shares)
    assert bool(stats.chisquare(observed, expected).pvalue < FALSE_ALARM) is broken


def test_rare_cells_hold_little_beside_what_stands_out_when_they_hold_nothing_but_noise():
    tokens = tuple(f"{letter}{digit}" for letter in "abcdefghij" for digit in range(10))
    column = CategoricalColumn(name="code", tokens=tokens)
    _, encoded = encode(column, ["a0"] * 5_000 + ["c4"] * 400)
    coarsening = release(encoded, stddev=30.0, least_count=500.0, seed=3)
    assert coarsening.sizes == (2,)
    weights = coarsening.parts[0].weights
    pool = np.delete(weights, [0])
    stands_out = np.delete(np.arange(100), [0])[pool > 5 * np.median(pool)]
    assert 24 in stands_out
    assert len(stands_out) <= 2
    rest = np.delete(pool, stands_out - 1)
    assert rest.max() < 0.1 * pool[23]


@pytest.mark.parametrize(
    ("counts", "least_count", "labels"),
    [
        ([], 5, []),
        ([9, 9, 9], 5, [0, 1, 2]),
        ([1, 1, 1], 5, [0, 0, 0]),
        ([2, 3, 2, 3, 2], 5, [0, 0, 2, 2, 2]),
        ([9, 1, 9, 1, 9], 5, [0, 1, 2, 1, 4]),
        ([2, 3, 9, 4, 4, 4], 5, [0, 0, 2, 3, 3, 3]),
        ([-1, 7, -1], 5, [0, 1, 0]),
        ([0, 0], 0, [0, 1]),
    ],
)
def test_small_neighbours_are_merged_when_cells_have_an_order(counts, least_count, labels):
    assert _merge_neighbours(np.array(counts, float), least_count).tolist() == labels


@pytest.mark.parametrize(
    ("counts", "labels"),
    [
        ([9, 3, 9, 2, 9], [0, 1, 2, 2, 4]),
        ([1, 8, 9, 4, 4, 4], [1, 1, 2, 3, 3, 3]),
        ([9, 1, 9, 1, 8], [0, 0, 2, 4, 4]),
        ([0, 7, 0], [1, 1, 1]),
        ([1, 1], [0, 0]),
    ],
)
def test_nothing_lies_between_parts_of_a_group_where_small_runs_may_be_alone(counts, labels):
    assert _join_neighbours(np.array(counts, float), 5, alone=3).tolist() == labels


def test_no_group_lies_on_both_sides_of_a_cut_and_small_ones_may_beyond_a_border():
    cells = [str(age) for age in range(100) for _ in range(20 if age >= 15 else 1)]
    plain = NumericColumn(name="age", minimum=0, maximum=120, integer=True)
    for column, apart in ((plain, False), (replace(plain, borders=(15,)), False), (replace(plain, cuts=(15,)), True)):
        _, encoded = encode(column, cells)
        coarsening = release(encoded, stddev=2.0, least_count=100.0)
        groups = coarsening.to_groups(encode(column, ["14", "15"])[1])[:, 0]
        assert (groups[0] != groups[1]) == apart
    # Where there would be too many groups, cuts are given up.
    column = replace(plain, cuts=tuple(range(1, 121)))
    _, encoded = encode(column, cells)
    assert release(encoded, stddev=2.0, least_count=0.0).sizes == (121,)
    assert release(encoded, stddev=2.0, least_count=0.0, most_intervals=10).sizes[0] <= 10


def test_categories_alone_have_more_groups_when_more_are_allowed():
    for column, sizes in (
        (CategoricalColumn(name="x", tokens=tuple(map(str, range(300)))), (128, 300)),
        (NumericColumn(name="x", minimum=0, maximum=299, integer=True, cuts=tuple(range(1, 300))), (128, 128)),
    ):
        _, encoded = encode(column, [str(index % 300) for index in range(30_000)])
        found = [release(encoded, stddev=0.1, least_count=10.0, most_cells=most).sizes[0] for most in (128, 512)]
        assert all(size <= most for size, most in zip(found, sizes, strict=True))
        assert (found[1] == 300) == (sizes[1] == 300)


def test_a_top_code_keeps_its_share_when_a_border_makes_it_a_bin_of_its_own():
    specs = {"x": {"type": "integer", "min": 0, "max": 501, "bins": [0, 1, 250, 500, 501, 501]}}
    column = parse_specs(specs, sha256="0").cut_at_bins()
    (number,) = lay_out_attributes(lay_out_spans(column))
    assert number.borders == (1, 250, 500, 501)
    _, encoded = encode(column.columns[0], ["501"] * 700 + ["500"] * 5 + ["0"] * 200 + ["77"] * 95)
    coarsening = release(encoded, stddev=5.0, least_count=30.0)
    groups = np.zeros((5_000, 1), np.int32) + coarsening.to_groups(encoded)[0, 0]
    drawn = coarsening.to_encoded(groups, rng=np.random.default_rng(1))
    assert set(lay_out_attributes(drawn.spans)[0].find_cells(drawn).tolist()) == {501}


def test_missing_codes_are_merged_with_each_other_only_when_they_are_rare():
    column = CategoricalColumn(name="x", tokens=("a", "b", "c", "N", "M", ""), missing=("N", "M", ""))
    _, encoded = encode(column, ["a"] * 900 + ["b"] * 5 + ["c"] * 5 + ["N"] * 5 + ["M"] * 5 + [""] * 300)
    coarsening = release(encoded, stddev=0.1, least_count=50.0)
    assert coarsening.parts[0].groups.tolist() == [0, 1, 1, 2, 2, 3]
    assert coarsening.probabilities[0] == pytest.approx(np.array([900, 10, 10, 300]) / 1_220, rel=0.05)
    assert coarsening.counts[0] == pytest.approx([900, 10, 10, 300], abs=1)
    assert coarsening.stddevs[0] == pytest.approx(0.1 * np.sqrt([1, 2, 2, 1]))


def test_ordered_categories_are_merged_with_neighbours_when_they_are_rare():
    column = CategoricalColumn(name="x", tokens=tuple("123456789"))
    cells = np.repeat(list("123456789"), [90, 8, 8, 8, 90, 1, 90, 8, 8]).tolist()
    _, encoded = encode(column, cells)
    assert release(encoded, stddev=0.01, least_count=15.0).parts[0].groups.tolist() == [0, 1, 1, 1, 2, 3, 4, 5, 5]


@given(st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 10**5)), min_size=1, max_size=8))
def test_the_curve_through_what_intervals_hold_rises_and_meets_it_at_their_ends(intervals):
    widths, masses = np.array(intervals, float).T
    knots, heights = np.append(0.0, np.cumsum(widths)), np.append(0.0, np.cumsum(masses))
    tolerance = 1e-9 * max(1.0, heights[-1])
    joined = np.arange(len(widths) - 1) % 3 > 0
    assert merging._interpolate(knots, heights, knots, joined=joined) == pytest.approx(heights, abs=tolerance)
    between = np.linspace(0.0, knots[-1], 1_000)
    curve = merging._interpolate(knots, heights, between, joined=joined)
    assert np.all(np.diff(curve) >= -tolerance)
    even = merging._interpolate(knots, knots, between, joined=joined)
    assert even == pytest.approx(between, rel=1e-9)


@pytest.mark.parametrize("smooth", [True, False], ids=["as it is", "broken twin: evenly"])
def test_a_tail_lies_near_the_bulk_where_its_interval_goes_far_beyond(smooth, monkeypatch):
    if not smooth:
        monkeypatch.setattr(
            merging, "_interpolate", lambda knots, heights, places, **_: np.interp(places, knots, heights)
        )
    starts, masses = np.array([0, 1_000, 2_000]), np.array([9_000.0, 900.0, 100.0])
    whole = Intervals(
        starts=starts,
        sizes=np.diff(starts, append=1_000_000),
        masses=masses,
        counts=masses,
        variances=np.ones(3),
        is_inner=np.zeros(3, bool),
    )
    pieces = merging._cut_intervals(whole, most_count=50.0)
    near = pieces.masses[(pieces.starts >= 2_000) & (pieces.starts < 130_000)].sum()
    assert pieces.masses.sum() == pytest.approx(10_000)
    assert (near > 90.0) == smooth


def test_values_that_end_at_once_or_beside_a_heap_are_as_dense_to_the_end():
    knots, heights = np.array([0.0, 10, 20, 30, 40]), np.array([0.0, 100, 500, 500, 500])
    between = merging._interpolate(knots, heights, np.array([19.0, 35.0]), joined=np.array([False, True, True]))
    assert between == pytest.approx([460.0, 500.0])
    assert merging._interpolate(knots, heights, np.array([9.0]), joined=np.zeros(3, bool)) == pytest.approx([90.0])


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=6), st.integers(0, 2**31))
def test_projection_is_the_nearest_point_of_the_simplex_when_compared_with_a_solver(values, seed):
    counts = np.array(values)
    variances = np.random.default_rng(seed).uniform(0.5, 4.0, len(counts))
    projected = project_on_simplex(counts, variances, total=50.0)
    assert projected.min() >= 0
    assert projected.sum() == pytest.approx(50.0)

    # The multiplier of the total, found by bisection instead of sorting.
    excess = optimize.brentq(lambda e: np.maximum(counts - e * variances, 0.0).sum() - 50.0, -1e4, 1e4, xtol=1e-12)
    assert projected == pytest.approx(np.maximum(counts - excess * variances, 0.0), abs=1e-6)


@pytest.mark.slow
def test_probabilities_are_those_of_the_records_when_there_is_hardly_any_noise():
    encoded = make_encoded(20_000, seed=2)
    coarsening = release(encoded, stddev=0.05, least_count=10.0)
    groups = coarsening.to_groups(encoded)
    for own, probabilities, counts in zip(groups.T, coarsening.probabilities, coarsening.counts, strict=True):
        truth = np.bincount(own, minlength=len(counts))
        assert counts == pytest.approx(truth, abs=20)
        assert np.abs(probabilities - truth / 20_000).sum() < 0.01


@pytest.mark.slow
def test_coarsening_is_the_same_when_it_is_saved_and_read():
    encoded = make_encoded(2_000, seed=5)
    coarsening = release(encoded, stddev=5.0, least_count=30.0)
    document = json.loads(json.dumps(coarsening.to_document(), allow_nan=False))
    loaded = Coarsening.from_document(document)
    assert loaded.to_document() == coarsening.to_document()
    groups = coarsening.to_groups(encoded)
    first = coarsening.to_encoded(groups, rng=np.random.default_rng(1))
    second = loaded.to_encoded(groups, rng=np.random.default_rng(1))
    assert np.array_equal(first.codes, second.codes)
    assert np.array_equal(first.numbers, second.numbers)


DAMAGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "attributes": lambda document: document["attributes"].pop(),
    "spans": lambda document: document["spans"][0].pop("role"),
    "starts": lambda document: document["attributes"][4]["starts"].__setitem__(1, 0),
    "groups": lambda document: document["attributes"][4]["groups"].__setitem__(0, 10_000),
    "weights": lambda document: document["attributes"][4]["weights"].__setitem__(0, float("nan")),
    "counts": lambda document: document["attributes"][4]["counts"].append(1.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGES)
def test_saved_groups_are_refused_when_they_are_damaged(name):
    document = release(make_encoded(500, seed=5), stddev=5.0, least_count=30.0).to_document()
    DAMAGES[name](document)
    with pytest.raises(InputError, match="missing or damaged"):
        Coarsening.from_document(document)


@pytest.mark.slow
def test_groups_are_refused_when_they_do_not_exist():
    encoded = make_encoded(50, seed=5)
    coarsening = release(encoded, stddev=5.0, least_count=30.0)
    groups = coarsening.to_groups(encoded)
    groups[3, 2] = coarsening.sizes[2]
    for wrong, words in ((groups, "does not exist"), (groups[:, 1:], "one group for each")):
        with pytest.raises(DpwganError, match=words):
            coarsening.to_encoded(wrong, rng=np.random.default_rng(0))
    with pytest.raises(DpwganError, match="not laid out"):
        coarsening.to_groups(make_encoded(5, seed=1, columns=COLUMNS[:3]))


@pytest.mark.parametrize(
    "change", [{"records": 0}, {"least_count": -1.0}, {"least_count": float("nan")}, {"most_cells": 1}], ids=str
)
def test_coarsening_is_refused_when_a_number_is_out_of_range(change):
    encoded = make_encoded(5, seed=1, columns=COLUMNS[:2])
    one_ways = measure_one_ways(encoded, plan_one_ways(encoded.spans), noise_multiplier=1.0)
    with pytest.raises(UsageError):
        coarsen(one_ways, **{"records": 5, "least_count": 1.0, **change})


@pytest.mark.parametrize(("is_ruled", "heap"), [(True, 40.0), (True, 4_000.0), (False, 40.0)])
def test_what_lies_beyond_a_cut_tells_a_density_where_noise_may_have_emptied_what_is_between(is_ruled, heap):
    """A refund is below 0 and no amount is 0: of all that is known to lie in 10,000 levels most lies near the cut."""
    starts = np.array([0, 10_000, 20_000, 20_001, 20_500, 21_000])
    intervals = Intervals(
        starts=starts,
        sizes=np.append(np.diff(starts), 2_000),
        masses=np.array([0.0, 800.0, heap, 0.0, 9_000.0, 6_000.0]),
        counts=np.array([0.0, 800.0, heap, 60.0, 9_000.0, 6_000.0]),
        variances=np.full(6, 80.0**2),
        is_inner=np.zeros(6, np.bool_),
    )
    cut = merging._cut_intervals(intervals, most_count=100.0, is_ruled=is_ruled)
    own = (cut.starts >= 10_000) & (cut.starts < 20_000)
    assert cut.masses[own].sum() == pytest.approx(800.0)
    assert cut.masses.sum() == pytest.approx(intervals.masses.sum())
    near = cut.masses[own & (cut.starts >= 17_500)].sum() / 800.0
    assert near == pytest.approx(0.25, abs=0.01) if heap > 40.0 or not is_ruled else near > 0.8
    # What was found empty stays so.
    assert cut.masses[(cut.starts < 10_000) | ((cut.starts > 20_000) & (cut.starts < 20_500))].sum() == 0.0


@pytest.mark.parametrize("has_odds", [False, True])
def test_odds_of_cells_are_how_often_they_are_drawn(has_odds):
    """A code and two groups of days, of which one has two intervals."""
    kinds = DayKinds(first_day=0, levels=60, places=(False,) * 3, odds=np.array([1, 2, 1, 1, 3, 0.1, 0.1, 1, 1, 1]))
    weights, odds = np.array([1.0, 0.25, 1.0, 0.75]), kinds if has_odds else None
    part = make_part([0, 1, 21, 22], cells=61, groups=[0, 1, 2, 1], weights=weights, codes=1, odds=odds)
    cells = np.arange(61)
    sizes = np.bincount(part.find_groups(cells))
    drawn = part.draw_cells(np.full(400_000, 1, np.int32), rng=np.random.default_rng(0))
    found = np.bincount(drawn, minlength=61) / len(drawn) * sizes[1]
    odds = part.find_odds(cells)
    assert odds[[0, 21]].tolist() == [1.0, 1.0]
    own = part.find_groups(cells) == 1
    assert np.abs(odds[own] - found[own]).max() < 0.06
