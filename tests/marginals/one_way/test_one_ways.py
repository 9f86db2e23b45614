"""The private one-way release: what a record can move, look by look, and the noise on it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.errors import DpwganError, PrivacyError
from dpwgan.marginals.one_way import one_ways
from dpwgan.marginals.one_way.number_tree import MOST_BLOCKS
from dpwgan.marginals.one_way.one_ways import Blocks, OneWayPlan, begin_one_ways, count_one_ways, plan_one_ways
from dpwgan.privacy.events import DiscreteGaussian, Laplace, discrete_gaussian
from dpwgan.privacy.journal import Journal
from dpwgan.table.encoded import EncodedTable, lay_out_spans
from dpwgan.table.schema import CategoricalColumn, NumericColumn, Schema
from tests.ledgers import Watcher, open_ledger, watch_reads
from tests.marginals.tables import NARROW, make_encoded, measure_by, measure_one_ways, replace_first_row
from tests.privacy.charges import MOMENTS, RELATIONS, REPLACE_ONE, ZERO_OUT, ask

PAY = NumericColumn(name="pay", minimum=-50, maximum=5_000, integer=True, missing=("N", ""), cuts=(0, 900))


def make_small(records: int, seed: int) -> EncodedTable:
    return make_encoded(records, seed=seed, columns=[*NARROW, PAY])


def choose_any_blocks(plan: OneWayPlan, look: int, rng: np.random.Generator) -> Blocks:
    """Intervals that cover all levels, as good as any that earlier looks could lead to."""
    blocks = []
    for index in plan.find(look):
        levels = plan.attributes[index].levels
        starts = np.flatnonzero(rng.random(levels) < rng.random()) if levels else np.zeros(0, np.int64)
        blocks.append(np.union1d(starts, [0]).astype(np.int64) if levels else starts)
    return tuple(blocks)


def count_looks(encoded: EncodedTable, plan: OneWayPlan, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        count_one_ways(encoded, plan, look, choose_any_blocks(plan, look, rng)) for look in range(len(plan.histograms))
    ]


def test_numbers_are_looked_at_more_often_when_they_have_many_levels():
    encoded = make_encoded(1, seed=0)
    plan = plan_one_ways(encoded.spans)
    looks = {attribute.column: found for attribute, found in zip(plan.attributes, plan.looks, strict=True)}
    assert looks["age"] == looks["fixed"] == looks["letters"] == 1
    assert 1 < looks["pay"] == looks["weight"] < looks["wide"] < 10
    assert plan.histograms == tuple(sum(found > look for found in plan.looks) for look in range(looks["wide"]))
    assert plan.histograms[:2] == (13, 3)
    assert [plan.attributes[index].column for index in plan.rounded] == ["pay", "weight", "wide"]
    assert plan.sensitivity == math.sqrt(sum(plan.looks) + 3 / 4)
    first = begin_one_ways(plan).choose_blocks(0)
    assert [len(starts) for starts in first] == [0, 0, 0, 0, 16, 13, 16, 16, 1, 10, 10, 1, 0]


def test_every_record_adds_one_to_each_histogram_when_counted_by_hand():
    encoded = make_small(60, 4)
    plan = plan_one_ways(encoded.spans)
    rng = np.random.default_rng(0)
    for look in range(len(plan.histograms)):
        blocks = choose_any_blocks(plan, look, rng)
        expected = []
        for index, starts in zip(plan.find(look), blocks, strict=True):
            attribute = plan.attributes[index]
            counts = np.zeros(attribute.codes + len(starts))
            for cell in attribute.find_cells(encoded).tolist():
                level = cell - attribute.codes
                counts[cell if level < 0 else attribute.codes + max(np.flatnonzero(starts <= level))] += 1
            assert counts.sum() == encoded.records
            expected.append(counts)
        counted = count_one_ways(encoded, plan, look, blocks)
        assert len(counted) == plan.count_cells(look, blocks)
        assert np.array_equal(counted, np.concatenate(expected))


@settings(max_examples=50)
@given(st.integers(2, 20), st.integers(0, 2**31))
def test_neighbours_are_no_further_apart_than_the_sensitivity_whatever_the_blocks(records, seed):
    encoded = make_small(records, seed)
    plan = plan_one_ways(encoded.spans)
    tables = [encoded, encoded.take(np.arange(1, records)), replace_first_row(encoded, make_small(1, seed + 1))]
    counts = [count_looks(table, plan, seed) for table in tables]
    releases = plan.plan_releases(noise_multiplier=1.0)[:-1]
    pure = plan.plan_releases(noise_multiplier=1.0, pure=True)[:-1]
    for release, here, without, instead in zip(pure, *counts, strict=True):
        assert np.abs(here - without).sum() == release.sensitivity
        assert isinstance(release.event, Laplace)
        assert np.abs(here - instead).sum() <= release.event.replace_one_factor * release.sensitivity
    for release, here, without, instead in zip(releases, *counts, strict=True):
        assert np.linalg.norm(here - without) == pytest.approx(release.sensitivity)
        assert isinstance(release.event, DiscreteGaussian)
        for neighbour, most in ((without, 0), (instead, release.event.cells)):
            moved = neighbour - here
            assert set(moved) <= {-1, 0, 1}
            assert np.sum(moved == -1) <= release.event.cells
            assert np.sum(moved == 1) <= most


def test_the_check_of_neighbours_fails_when_blocks_overlap():
    """The twin: every look counts each block and what it was cut from."""
    encoded = make_small(10, 2)
    plan = plan_one_ways(encoded.spans)
    release = plan.plan_releases(noise_multiplier=1.0)[1]
    cells = [plan.attributes[index].levels for index in plan.find(1)]
    less = encoded.take(np.arange(1, 10))
    moved = []
    for step in (16, 256):
        blocks = tuple(np.arange(0, own, step) for own in cells)
        moved.append(count_one_ways(encoded, plan, 1, blocks) - count_one_ways(less, plan, 1, blocks))
    assert np.linalg.norm(np.concatenate(moved)) > 1.4 * release.sensitivity


def test_replace_one_bound_is_reached_when_a_record_changes_every_cell():
    column = NumericColumn(name="x", minimum=0, maximum=100_000, integer=True)
    low, high = make_encoded(1, seed=0, columns=[column]), make_encoded(1, seed=0, columns=[column])
    low.numbers[:], high.numbers[:] = 0.0, 1.0
    plan = plan_one_ways(low.spans)
    blocks = (np.array([0, 50_000]),)
    looks = range(len(plan.histograms))
    moved = [count_one_ways(low, plan, look, blocks) - count_one_ways(high, plan, look, blocks) for look in looks]
    assert np.linalg.norm(np.concatenate(moved)) == pytest.approx(math.sqrt(2 * sum(plan.histograms)))


@RELATIONS
def test_looks_cost_together_what_one_release_of_all_of_them_would(relation):
    plan = plan_one_ways(make_small(1, 0).spans)
    assert len(plan.histograms) > 1
    looks = plan.plan_releases(noise_multiplier=3.0)
    # The round steps, of one attribute here, have twice the noise: together they count for a quarter of a histogram.
    whole = discrete_gaussian(noise_multiplier=3.0, cells=4 * sum(plan.histograms) + 1)
    assert [release.stddev for release in looks[:-1]] == pytest.approx([whole.stddev / 2] * len(plan.histograms))
    assert looks[-1].stddev == pytest.approx(whole.stddev)
    names = [one_ways.name_look(look) for look in range(len(plan.histograms))]
    assert [release.label for release in looks] == [*names, one_ways.ROUND_STEPS_LABEL]
    together = ask(MOMENTS, [(whole, 1)], relation=relation)
    assert ask(MOMENTS, [release.charge for release in looks], relation=relation) == pytest.approx(together)


def test_looks_with_laplace_noise_have_one_scale_and_epsilons_that_add_up():
    plan = plan_one_ways(make_encoded(1, seed=0).spans)
    looks = plan.plan_releases(noise_multiplier=4.0, pure=True)
    scales = [release.sensitivity / release.event.epsilon for release in looks]
    assert scales == pytest.approx([scales[0]] * (len(looks) - 1) + [2 * scales[0]])
    # Three numbers of round steps have twice the noise: half a histogram each.
    assert scales[0] == pytest.approx(4.0 * (sum(plan.histograms) + 3 / 2))
    for relation, factor in ((ZERO_OUT, 1), (REPLACE_ONE, 2)):
        total = sum(release.event.get_epsilon(relation) for release in looks)
        assert total == pytest.approx(factor / 4.0)
    measured = measure_by(open_ledger(looks), make_encoded(50, seed=0), plan)
    assert measured.stddev == pytest.approx(math.sqrt(2) * scales[0], rel=0.01)


def test_looks_and_round_steps_are_charged_before_rows_are_read_and_see_earlier_looks_alone(monkeypatch):
    encoded = make_small(300, 5)
    plan = plan_one_ways(encoded.spans)
    releases, watcher = plan.plan_releases(noise_multiplier=0.1), Watcher()
    ledger = open_ledger(releases, observers=[watcher])
    counts = [(one_ways, "count_one_ways"), (one_ways, "count_round_steps")]
    reads = watch_reads(monkeypatch, ledger, watcher, counts)
    measured = measure_by(ledger, encoded, plan)
    assert reads == watcher.order == [release.label for release in releases]
    again = begin_one_ways(plan)
    for look, (release, noisy) in enumerate(zip(releases[:-1], watcher.noisy[:-1], strict=True)):
        blocks = again.choose_blocks(look)
        again = again.add(look, blocks, one_ways.Noisy(values=noisy, stddev=release.stddev))
    bands, _ = again.choose_bands()
    noisy = one_ways.Noisy(values=watcher.noisy[-1], stddev=releases[-1].stddev)
    steps = [len(plan.attributes[index].round_steps) for index in plan.rounded]
    assert len(noisy.values) == sum(len(band) * many for band, many in zip(bands, steps, strict=True))
    again = again.add_round_steps(bands, noisy)
    found = [{index: own.to_document() for index, own in each.odds.items()} for each in (measured, again)]
    assert found[0] == found[1]
    for mine, theirs in zip(measured.histograms, again.histograms, strict=True):
        for (starts, counts), (other_starts, other_counts) in zip(mine, theirs, strict=True):
            assert np.array_equal(starts, other_starts)
            assert np.array_equal(counts, other_counts)


def test_a_look_is_left_out_when_it_was_lost_but_for_the_first(monkeypatch):
    monkeypatch.setattr(Journal, "has_lost", lambda journal, name: name == lost)
    encoded = make_small(50, 5)
    plan = plan_one_ways(encoded.spans)
    releases = plan.plan_releases(noise_multiplier=1.0)
    lost, ledger = one_ways.name_look(1), open_ledger(releases)
    measured = measure_by(ledger, encoded, plan)
    assert len(measured.histograms[-1]) == plan.looks[-1] - 1
    assert ledger.charged == {release.label: int(release.label != lost) for release in releases}
    lost, ledger = one_ways.name_look(0), open_ledger(releases)
    with pytest.raises(PrivacyError, match="not done twice"):
        measure_by(ledger, encoded, plan)


def test_codes_are_averaged_over_their_histograms_when_number_has_several():
    encoded = make_encoded(100, seed=2, columns=[PAY])
    measured = measure_one_ways(encoded, plan_one_ways(encoded.spans), noise_multiplier=1.0)
    codes, stddev = measured.get_codes(0)
    histograms = measured.histograms[0]
    assert len(histograms) > 1
    assert codes == pytest.approx(np.mean([counts[:2] for _, counts in histograms], axis=0))
    assert stddev == pytest.approx(measured.stddev / math.sqrt(len(histograms)))


@pytest.mark.parametrize("levels", [2**20 - 1, 2**31, 2**53 - 1])
def test_a_spike_is_found_alone_with_few_counts_when_the_range_is_as_wide_as_can_be(levels):
    column = NumericColumn(name="x", minimum=0, maximum=levels - 1, integer=True)
    encoded = make_encoded(2_000, seed=1, columns=[column], uniform=True)
    plan = plan_one_ways(encoded.spans)
    attribute, spike = plan.attributes[0], levels // 3
    cells = attribute.find_cells(encoded)
    cells[:700], cells[700:1_000] = 0, spike
    attribute.put_cells(cells, into=encoded)
    measured = measure_one_ways(encoded, plan, noise_multiplier=2.0)
    assert sum(len(counts) for _, counts in measured.histograms[0]) < MOST_BLOCKS
    intervals = measured.get_tree(0).split(totals=np.array([2_000.0]))
    for level, count in ((0, 700), (spike, 300)):
        place = np.searchsorted(intervals.starts, level)
        assert (intervals.starts[place], intervals.sizes[place]) == (level, 1)
        assert intervals.masses[place] == pytest.approx(count, abs=5 * measured.stddev)


def test_intervals_begin_at_every_cut_when_a_column_has_some():
    encoded = make_encoded(500, seed=2, columns=[PAY])
    plan = plan_one_ways(encoded.spans)
    assert plan.attributes[0].cuts == (50, 950)
    measured = measure_one_ways(encoded, plan, noise_multiplier=1.0)
    for starts, _ in measured.histograms[0]:
        assert {50, 950} <= set(starts)


def test_release_is_refused_when_table_or_noise_is_another():
    encoded = make_small(10, 1)
    other = plan_one_ways(lay_out_spans(Schema(columns=(CategoricalColumn(name="x", tokens=("a",)),), sha256="0")))
    with pytest.raises(DpwganError, match="not laid out as the plan"):
        measure_one_ways(encoded, other, noise_multiplier=1.0)
    with pytest.raises(DpwganError, match="not laid out as the plan"):
        count_one_ways(encoded, plan_one_ways(encoded.spans), 0, ())
    with pytest.raises(PrivacyError):
        measure_one_ways(encoded, plan_one_ways(encoded.spans), noise_multiplier=0.0)
