"""The private one-way release: what a record can move, and the noise on it."""

import itertools
import math
import secrets

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpwgan.errors import DpwganError, PrivacyError
from dpwgan.marginals.one_ways import MOST_ROOT_BLOCKS, OneWayPlan, count_one_ways, plan_one_ways
from dpwgan.privacy.events import DiscreteGaussian, discrete_gaussian
from dpwgan.table.encoded import EncodedTable, lay_out_spans
from dpwgan.table.schema import CategoricalColumn, NumericColumn, Schema
from tests.marginals.tables import COLUMNS, make_encoded, measure_one_ways
from tests.normal_law import has_variance

FALSE_ALARM = 1e-6
NARROW = [column for column in COLUMNS if column.name not in ("wide", "weight", "pay")]
PAY = NumericColumn(name="pay", minimum=-50, maximum=5_000, integer=True, missing=("N", ""))


def make_small(records: int, seed: int) -> EncodedTable:
    return make_encoded(records, seed=seed, columns=[*NARROW, PAY])


def flatten(encoded: EncodedTable, plan: OneWayPlan) -> np.ndarray:
    return np.concatenate([histogram for table in count_one_ways(encoded, plan) for histogram in table])


def take(encoded: EncodedTable, rows: np.ndarray) -> EncodedTable:
    return EncodedTable(codes=encoded.codes[rows], numbers=encoded.numbers[rows], spans=encoded.spans)


def test_numbers_have_a_tree_of_histograms_when_they_have_many_levels():
    encoded = make_encoded(1, seed=0)
    plan = plan_one_ways(encoded.spans)
    blocks = {attribute.column: found for attribute, found in zip(plan.attributes, plan.blocks, strict=True)}
    assert blocks["age"] == (121,)
    assert blocks["fixed"] == (1,)
    assert blocks["wide"] == (256, 4_096, 65_536, 1 << 20)
    assert blocks["pay"] == (25, 393, 6_282, 100_501)
    assert blocks["letters"] == (0,)
    assert plan.histograms == sum(len(found) for found in plan.blocks) == 22
    assert max(found[0] for found in plan.blocks) <= MOST_ROOT_BLOCKS


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 30), st.integers(0, 2**31))
def test_every_record_adds_one_cell_to_each_histogram_when_counted(records, seed):
    encoded = make_small(records, seed)
    plan = plan_one_ways(encoded.spans)
    for table in count_one_ways(encoded, plan):
        for histogram in table:
            assert histogram.sum() == records
            assert np.array_equal(histogram, np.abs(np.rint(histogram)))
    # Histograms of one number agree: each block is the sum of the 16 below it.
    for attribute, table in zip(plan.attributes, count_one_ways(encoded, plan), strict=True):
        for coarse, fine in itertools.pairwise(table):
            for block, count in enumerate(coarse[attribute.codes :]):
                below = fine[attribute.codes :][16 * block : 16 * block + 16]
                assert count == below.sum()


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 20), st.integers(0, 2**31))
def test_neighbours_are_no_further_apart_than_the_sensitivity_when_a_record_goes_or_changes(records, seed):
    encoded = make_small(records, seed)
    plan = plan_one_ways(encoded.spans)
    counts = flatten(encoded, plan)
    without = flatten(take(encoded, np.arange(1, records)), plan)
    assert np.linalg.norm(counts - without) == pytest.approx(plan.sensitivity)
    other = make_small(1, seed + 1)
    replaced = EncodedTable(
        codes=np.concatenate((other.codes, encoded.codes[1:])),
        numbers=np.concatenate((other.numbers, encoded.numbers[1:])),
        spans=encoded.spans,
    )
    event = plan.plan_release("counts", noise_multiplier=1.0).event
    assert isinstance(event, DiscreteGaussian)
    for neighbour, most in ((without, 0), (flatten(replaced, plan), event.cells)):
        moved = neighbour - counts
        assert set(moved) <= {-1, 0, 1}
        assert np.sum(moved == -1) <= event.cells
        assert np.sum(moved == 1) <= most


def test_replace_one_bound_is_reached_when_a_record_changes_every_cell():
    column = NumericColumn(name="x", minimum=0, maximum=100_000, integer=True)
    low, high = make_encoded(1, seed=0, columns=[column]), make_encoded(1, seed=0, columns=[column])
    low.numbers[:], high.numbers[:] = 0.0, 1.0
    plan = plan_one_ways(low.spans)
    assert np.linalg.norm(flatten(low, plan) - flatten(high, plan)) == pytest.approx(math.sqrt(2) * plan.sensitivity)


def _measure_noise(noise_multiplier: float) -> tuple[np.ndarray, float]:
    encoded = make_small(200, 3)
    plan = plan_one_ways(encoded.spans)
    one_ways = measure_one_ways(encoded, plan, noise_multiplier=noise_multiplier, seed=secrets.randbits(32))
    released = np.concatenate([histogram for table in one_ways.histograms for histogram in table])
    return released - flatten(encoded, plan), plan.sensitivity


@pytest.mark.statistical
def test_noise_has_the_stddev_of_its_event_on_every_histogram_when_released():
    noise, sensitivity = _measure_noise(2.5)
    assert len(noise) > 5_000
    assert has_variance(noise, stddev=2.5 * sensitivity)
    # Whole numbers, spread over the cells that they stand for.
    spread = noise + np.random.default_rng().uniform(-0.5, 0.5, noise.size)
    assert stats.kstest(spread / (2.5 * sensitivity), "norm").pvalue > FALSE_ALARM


@pytest.mark.statistical
def test_the_check_of_noise_fails_when_noise_is_ten_percent_low():
    noise, sensitivity = _measure_noise(0.9 * 2.5)
    assert not has_variance(noise, stddev=2.5 * sensitivity)


def test_event_is_the_planned_one_when_measured():
    encoded = make_small(10, 1)
    plan = plan_one_ways(encoded.spans)
    one_ways = measure_one_ways(encoded, plan, noise_multiplier=3.0)
    release = plan.plan_release("counts", noise_multiplier=3.0)
    assert release.sensitivity == plan.sensitivity
    assert release.event == discrete_gaussian(noise_multiplier=3.0, cells=plan.histograms)
    assert one_ways.stddev == release.stddev == pytest.approx(3.0 * plan.sensitivity, rel=1e-9)


def test_codes_are_averaged_over_their_histograms_when_number_has_several():
    encoded = make_encoded(100, seed=2, columns=[PAY])
    plan = plan_one_ways(encoded.spans)
    one_ways = measure_one_ways(encoded, plan, noise_multiplier=1.0)
    codes, stddev = one_ways.get_codes(0)
    assert plan.blocks == ((20, 316, 5_051),)
    assert codes == pytest.approx(sum(histogram[:2] for histogram in one_ways.histograms[0]) / 3)
    assert stddev == pytest.approx(one_ways.stddev / math.sqrt(3))
    assert [len(blocks) for blocks in one_ways.get_blocks(0)] == [20, 316, 5_051]


def test_release_is_refused_when_table_or_noise_is_another():
    encoded = make_small(10, 1)
    other = plan_one_ways(lay_out_spans(Schema(columns=(CategoricalColumn(name="x", tokens=("a",)),), sha256="0")))
    with pytest.raises(DpwganError, match="not laid out as the plan"):
        measure_one_ways(encoded, other, noise_multiplier=1.0)
    with pytest.raises(PrivacyError):
        measure_one_ways(encoded, plan_one_ways(encoded.spans), noise_multiplier=0.0)
