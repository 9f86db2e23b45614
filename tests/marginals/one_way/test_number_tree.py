"""Intervals of a number's levels from noisy looks, against least squares and against every partition."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.marginals.one_way import number_tree
from dpwgan.marginals.one_way.number_tree import Intervals, NumberTree, count_looks, lay_out_first


def draw_partition(levels: int, rng: np.random.Generator, *, cuts: tuple[int, ...] = ()) -> np.ndarray:
    """Nodes of the binary trees that cover all levels, any of them."""
    starts = []
    for base, end in zip((0, *cuts), (*cuts, levels), strict=True):
        nodes = [(base, 1 << max(0, int(end - base - 1).bit_length()))]
        while nodes:
            start, width = nodes.pop()
            if start >= end:
                continue
            if width > 1 and rng.random() < 0.7:
                nodes += [(start, width // 2), (start + width // 2, width // 2)]
            else:
                starts.append(start)
    return np.array(sorted(starts))


Look = tuple[np.ndarray, np.ndarray]


def take_look(counts: np.ndarray, starts: np.ndarray, *, stddev: float, rng: np.random.Generator) -> Look:
    sums = np.add.reduceat(counts.astype(np.float64), starts)
    return starts, sums + rng.normal(0, stddev, len(starts))


def make_design(looks: list[Look], levels: int) -> np.ndarray:
    """One row a measured block: which levels it adds up."""
    blocks = [block for starts, _ in looks for block in zip(starts, [*starts[1:], levels], strict=True)]
    return np.array([(np.arange(levels) >= start) & (np.arange(levels) < end) for start, end in blocks], float)


@pytest.mark.parametrize(("levels", "cuts"), [(1, ()), (7, ()), (32, ()), (37, (5, 6)), (150, ()), (129, (1, 64, 100))])
def test_estimates_are_those_of_least_squares_when_every_level_is_told_apart(levels, cuts):
    rng = np.random.default_rng(levels)
    counts = rng.permutation(levels) * 100.0 + 500.0
    partitions = [np.arange(levels), *(draw_partition(levels, rng, cuts=cuts) for _ in range(3))]
    looks = [take_look(counts, starts, stddev=2.0, rng=rng) for starts in partitions]
    tree = NumberTree(looks, variance=4.0, levels=levels, cuts=cuts)
    design, measured = make_design(looks, levels), np.concatenate([counts for _, counts in looks])
    precision = design.T @ design / 4.0
    # The totals without knowing them beforehand.
    covariance = np.linalg.inv(precision)
    free = covariance @ design.T @ measured / 4.0
    bases = np.array([0, *cuts])
    found, variances = tree.totals
    assert found == pytest.approx(np.add.reduceat(free, bases))
    of_segment = np.searchsorted(bases, np.arange(levels), side="right") - 1
    members = (of_segment[:, None] == np.arange(len(bases))).astype(float)
    assert variances == pytest.approx(np.diag(members.T @ covariance @ members))
    # The levels, given the totals.
    totals = np.add.reduceat(counts, bases)
    system = np.block([[precision, members], [members.T, np.zeros((len(bases), len(bases)))]])
    fitted = np.linalg.solve(system, np.concatenate((design.T @ measured / 4.0, totals)))[:levels]
    intervals = tree.split(totals=totals)
    assert intervals.sizes.tolist() == [1] * levels
    assert intervals.masses == pytest.approx(fitted)
    # From what is inside a level alone: the mean of its own counts.
    for level in range(levels):
        own = [measured[row] for row in np.flatnonzero((design.sum(axis=1) == 1) & (design[:, level] == 1))]
        assert intervals.counts[level] == pytest.approx(np.mean(own))
        assert intervals.variances[level] == pytest.approx(4.0 / len(own))


def partitions(start: int, size: int) -> Iterator[list[tuple[int, int]]]:
    """Every dyadic partition of `size` levels from `start` on."""
    yield [(start, size)]
    if size > 1:
        halves = (partitions(start, size // 2), partitions(start + size // 2, size // 2))
        yield from (left + right for left, right in itertools.product(*halves))


@settings(max_examples=60)
@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, 9.0, -3.0]), min_size=8, max_size=8), st.sampled_from([0.5, 1.0, 3.0]))
def test_partition_has_the_least_penalised_squares_when_compared_with_every_other(counts, stddev):
    values = np.array(counts)

    def price(parts: list[tuple[int, int]]) -> float:
        misfit = sum(np.sum((values[a : a + m] - values[a : a + m].mean()) ** 2) for a, m in parts)
        return float(misfit / stddev**2) + number_tree._SPLIT_PENALTY * len(parts)

    tree = NumberTree([(np.arange(8), values)], variance=stddev**2, levels=8)
    intervals = tree.split(totals=np.array([1.0]))
    found = list(zip(intervals.starts.tolist(), intervals.sizes.tolist(), strict=True))
    assert price(found) == pytest.approx(min(price(parts) for parts in partitions(0, 8)))


@settings(max_examples=60)
@given(st.integers(1, 3_000), st.integers(0, 3), st.floats(0.1, 1e4), st.integers(0, 2**31))
def test_every_look_covers_all_levels_with_nodes_and_all_records_are_shared_out(levels, parts, stddev, seed):
    rng = np.random.default_rng(seed)
    cuts = tuple(np.unique(rng.integers(1, max(levels, 2), parts)).tolist()) if levels > 1 else ()
    counts = rng.poisson(rng.choice([0, 1, 300], levels))
    looks = [take_look(counts, lay_out_first(levels, cuts), stddev=stddev, rng=rng)]
    of_all = count_looks(levels, cuts)
    for look in range(1, of_all):
        tree = NumberTree(looks, variance=stddev**2, levels=levels, cuts=cuts)
        starts = tree.refine(looks_left=of_all - look)
        assert starts[0] == 0
        assert np.all(np.diff(starts) > 0)
        assert starts[-1] < levels
        # No block lies on both sides of a cut, nor over a border of a node as large as itself.
        assert set(cuts) <= set(starts.tolist())
        bases = np.array([0, *cuts])[np.searchsorted([0, *cuts], starts, side="right") - 1]
        sizes = np.diff(starts, append=levels)
        widths = np.array([1 << int(size - 1).bit_length() for size in sizes])
        assert np.all((starts - bases) % widths == 0)
        looks.append(take_look(counts, starts, stddev=stddev, rng=rng))
    totals = rng.uniform(0, 10_000, len(cuts) + 1)
    intervals = NumberTree(looks, variance=stddev**2, levels=levels, cuts=cuts).split(totals=totals)
    assert intervals.starts[0] == 0
    assert np.array_equal(intervals.starts[1:], np.cumsum(intervals.sizes)[:-1])
    assert intervals.sizes.sum() == levels
    assert intervals.masses.min() >= 0
    assert np.add.reduceat(intervals.masses, np.searchsorted(intervals.starts, [0, *cuts])) == pytest.approx(totals)
    assert intervals.variances.min() > 0


@pytest.mark.parametrize("levels", [17, 101, 129, 502, 100_001, 1 << 31])
def test_first_blocks_tell_the_mean_nearly_as_well_as_a_noisy_sum(levels):
    starts = lay_out_first(levels)
    middles = (starts + np.append(starts[1:], levels) - 1) / 2
    # The mean is a sum of noisy counts, each times how far its block is from a mean in the middle. A noisy sum of the
    # numbers would have the noise of one count times the largest of them.
    assert np.sqrt(np.square(middles - levels / 2).sum()) < 1.5 * levels
    singles = np.arange(128)
    assert np.sqrt(np.square(singles - 64).sum()) > 2 * 1.5 * 128


@pytest.mark.parametrize("levels", [16, 12])
def test_one_look_takes_all_levels_where_they_are_few(levels):
    assert count_looks(levels) == 1
    assert np.array_equal(lay_out_first(levels), np.arange(levels))


@pytest.mark.parametrize("levels", [1 << 20, 1 << 31, (1 << 53) - 1])
def test_an_empty_stretch_is_counted_as_one_when_nothing_stands_out_in_it(levels):
    rng = np.random.default_rng(3)
    first = lay_out_first(levels)
    counts = rng.normal(0, 5.0, len(first))
    counts[3] += 10_000
    starts = NumberTree([(first, counts)], variance=25.0, levels=levels).refine(looks_left=4)
    width = int(first[1])
    inside = (starts >= 3 * width) & (starts < 4 * width)
    assert inside.sum() >= 16
    assert (~inside).sum() < 30


def find_intervals(counts: np.ndarray, *, stddev: float, rng: np.random.Generator) -> Intervals:
    """What all looks together make of exact counts."""
    looks = [take_look(counts, lay_out_first(len(counts)), stddev=stddev, rng=rng)]
    for left in reversed(range(1, count_looks(len(counts)))):
        starts = NumberTree(looks, variance=stddev**2, levels=len(counts)).refine(looks_left=left)
        looks.append(take_look(counts, starts, stddev=stddev, rng=rng))
    return NumberTree(looks, variance=stddev**2, levels=len(counts)).split(totals=np.array([counts.sum()]))


@pytest.mark.parametrize("told", [True, False], ids=["as it is", "broken twin: noise beside a level is records"])
def test_a_few_levels_that_have_all_records_have_none_beside_them(told, monkeypatch):
    if not told:
        monkeypatch.setattr(number_tree, "_MOST_BESIDE", -1.0)
    rng, counts = np.random.default_rng(3), np.zeros(1 << 16)
    used = rng.choice(len(counts), 20, replace=False)
    counts[used] = rng.integers(1_000, 3_000, 20)
    found = [find_intervals(counts, stddev=60.0, rng=rng) for _ in range(10)]
    # Where noise is large for once, all is left as it was.
    few = [set(one.starts[one.masses > 0]) == {*used} for one in found]
    assert (np.sum(few) >= 8) == told
    masses = [one.masses[np.isin(one.starts, used)] for one in found]
    assert np.abs(np.mean(masses, axis=0) - counts[np.sort(used)]).max() < (60 if told else 200)


@pytest.mark.parametrize("share", [0.02, 0.2])
def test_records_beside_a_few_levels_stay_there_where_noise_does_not_explain_them(share):
    rng, counts = np.random.default_rng(3), np.zeros(1 << 16)
    counts[[0, 500, 1 << 15]] = 20_000
    counts[1_000:40_000] += share * 60_000 / 39_000
    for _ in range(10):
        found = find_intervals(counts, stddev=30.0, rng=rng)
        assert found.masses[found.sizes > 1].sum() == pytest.approx(share * 60_000, rel=0.25)


@pytest.mark.parametrize(("place", "cleared"), [(1, True), (2, True), (4, True), (5, False), (8, False)])
def test_a_few_levels_side_by_side_pass_for_one_that_has_all_records(place, cleared):
    # Intervals of 2, 2, 4, 8, ... levels, of which one has all but what noise explains.
    starts = np.array([0, *2 ** np.arange(1, 12)])
    counts = np.array([15.0, -10, 12, -15, 10, -12, 10, 15, -10, -15, 48, -40])
    counts[place] += 1_000
    tree = NumberTree([(starts, counts)], variance=100.0, levels=1 << 12)
    found = tree.split(totals=np.array([1_000.0]))
    assert (found.masses[found.starts != starts[place]].sum() == 0.0) == cleared


def spread_tail(levels: int, *, records: int) -> np.ndarray:
    """Counts of the blocks [2^k, 2^(k+1)) of a tail that halves from one to the next, evenly inside."""
    counts = np.zeros(levels)
    for height in range(4, levels.bit_length() - 1):
        counts[1 << height : 2 << height] = records / 2 ** (height - 3) / (1 << height)
    counts[:16] = (records - counts.sum()) / 16
    return counts


@pytest.mark.parametrize("drawn", [True, False], ids=["as it is", "broken twin: tails are cut off"])
def test_the_mean_of_a_long_tail_is_kept_where_noise_hides_its_end(drawn, monkeypatch):
    if not drawn:
        monkeypatch.setattr(NumberTree, "_tails", property(lambda tree: [np.full(1, np.nan)] * len(tree._scales)))
    levels, records, stddev, rng = 1 << 14, 2_000, 3.0, np.random.default_rng(1)
    counts = spread_tail(levels, records=records)
    means = []
    for _ in range(60):
        found = find_intervals(counts, stddev=stddev, rng=rng)
        means.append(found.masses @ (found.starts + (found.sizes - 1) / 2) / records)
    off = np.mean(means) / (counts @ np.arange(levels) / records) - 1
    assert (abs(off) < 0.06) == drawn


def go_straight_on(first: np.ndarray, second: np.ndarray, third: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where((third > 0) & (third < second), third**2 / second, np.nan)


@pytest.mark.parametrize("bent", [True, False], ids=["as it is", "broken twin: straight on"])
def test_a_lognormal_tail_in_a_wide_range_comes_out_as_wide_as_it_is(bent, monkeypatch):
    if not bent:
        monkeypatch.setattr(number_tree, "_go_on", go_straight_on)
    levels, stddev, rng = np.arange(1 << 20), 60.0, np.random.default_rng(4)
    density = np.exp(-2 * np.square(np.log(levels + 1) - 10)) / (levels + 1)
    density /= density.sum()
    real = np.sqrt(density @ np.square(levels - density @ levels))
    deviations = []
    for _ in range(60):
        found = find_intervals(20_000 * density, stddev=stddev, rng=rng)
        shares, middles = found.masses / 20_000, found.starts + (found.sizes - 1) / 2
        squares = np.square(middles - shares @ middles) + (found.sizes**2 - 1) / 12
        deviations.append(np.sqrt(shares @ squares) / real)
    assert (np.mean(deviations) < 1.15) == bent


def find_none_ended(tree: NumberTree, held: np.ndarray, expected: np.ndarray, *, height: int) -> np.ndarray:
    return np.zeros(len(held), bool)


@pytest.mark.parametrize("ends", [True, False], ids=["as it is", "broken twin: any fall is a tail's"])
def test_what_ends_amid_a_block_does_not_go_on_into_the_noise_beyond(ends, monkeypatch):
    if not ends:
        monkeypatch.setattr(NumberTree, "_find_ended", find_none_ended)
    stddev, rng = 20.0, np.random.default_rng(1)
    counts = np.append(np.full(5, 500.0), np.zeros(11))
    beyond = []
    for _ in range(100):
        found = find_intervals(counts, stddev=stddev, rng=rng)
        beyond.append(found.masses[found.starts >= 6].sum() / stddev)
    assert (np.mean(beyond) < 0.5) == ends


def test_a_tail_goes_on_to_the_end_of_the_range_alone():
    starts, levels = np.array([0, 1, *2 ** np.arange(1, 8)]), 160
    tree = NumberTree([(starts, 2.0 ** -np.arange(9))], variance=1e-12, levels=levels)
    assert tree._tails[-1] == pytest.approx(2.0**-8 * (160 - 128) / 128)
    assert tree._tails[-2] == pytest.approx(2.0**-7)


def test_mere_noise_below_all_records_is_cleared_even_where_it_falls_off_like_a_tail():
    counts = np.array([2.0, 8, 3, 3, 1, 1, 1, 1, *[0.0] * 16, *[1_000] * 8])
    tree = NumberTree([(np.arange(32), counts)], variance=25.0, levels=32)
    assert not np.isnan(tree._tails[-1])
    found = tree.split(totals=np.array([8_000.0]))
    assert found.masses[found.starts < 24].sum() == 0.0


@given(st.floats(-3, 3), st.floats(-8, -0.1), st.floats(-3, 3))
def test_a_tail_goes_on_along_its_parabola_or_straight_where_that_bends_up(first, second, third):
    logarithms = np.cumsum([5.0, first, second, min(second + third, -0.1)])
    one, two, three = np.exp(logarithms[1:])[:, np.newaxis]
    falls, bend = np.diff(logarithms[1:])[1], min(np.diff(logarithms[1:], n=2)[0], 0.0)
    assert number_tree._go_on(one, two, three)[0] == pytest.approx(np.exp(logarithms[-1] + falls + bend))
    assert number_tree._go_on(np.full(1, np.nan), two, three)[0] == pytest.approx(np.exp(logarithms[-1] + falls))
    assert number_tree._go_on(-one, two, three)[0] == 0.0
    assert np.isnan(number_tree._go_on(one, three, two)[0])
    assert number_tree._go_on(one, two, -three)[0] == 0.0


@given(st.floats(-30, 30), st.floats(1, 50), st.floats(1, 100))
def test_a_count_is_drawn_to_the_mean_that_bayes_rule_gives(count, stddev, expected):
    count = min(count, 3.9 * stddev)
    held = np.linspace(-1, 1, 40_001) * 12 * (stddev + expected)
    log_density = -((held - count) ** 2) / 2 / stddev**2 - (held - expected) ** 2 / 2 / expected**2
    density = np.exp(log_density - log_density.max())
    drawn = number_tree._draw_towards(*(np.array([value]) for value in (count, stddev, expected)))[0]
    assert drawn == pytest.approx(held @ density / density.sum(), abs=0.01 * min(stddev, expected))


def test_what_stands_out_is_not_drawn_anywhere():
    counts = np.array([4.1, 500.0])
    assert np.array_equal(number_tree._draw_towards(counts, np.ones(2), np.full(2, 1e-6)), counts)
