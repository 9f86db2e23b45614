"""k-way scores, principal component, dependence, baselines: against other routes and hand-worked cases."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binomtest
from scipy.stats.contingency import association

from benchmarks import scores as benchmark
from dpwgan.evaluate import dependence, marginals, principal, scores
from dpwgan.evaluate.tables import ComparedColumn, ComparedTable
from tests.evaluate.samples import draw_categorical, is_close, make_categorical, make_numeric

SIZES = [2, 3, 4, 2, 5, 3, 2, 6, 3, 2]


@pytest.mark.parametrize("rows", [200, 20])  # with few, most triples have more cells than there are rows
def test_kway_scores_equal_the_benchmark_when_the_binning_is_the_same(rows):
    real, synthetic = draw_categorical(1, rows=rows + 7, sizes=SIZES), draw_categorical(2, rows=rows, sizes=SIZES)
    agreement = marginals.measure_agreement(real, synthetic, marginals.draw_column_sets(len(SIZES)))
    expected = benchmark.score_marginals(real.cells.astype(np.int64), synthetic.cells.astype(np.int64), SIZES)
    found = marginals.score_kway(agreement)
    assert set(found) == set(expected)
    assert all(is_close(float(found[name] or 0.0), value) for name, value in expected.items())


@pytest.mark.parametrize("width", [2_000, 0])
def test_first_component_equals_the_benchmark_when_the_binning_is_the_same(width, monkeypatch):
    # Both routes: the matrix written down, and products alone, as for wide tables.
    monkeypatch.setattr(principal, "_DENSE_WIDTH", width)
    real, synthetic = draw_categorical(1, rows=300, sizes=SIZES), draw_categorical(2, rows=200, sizes=SIZES)
    found = principal.score_first_component(
        principal.find_first_component(real), principal.find_first_component(synthetic)
    )
    expected = benchmark.score_first_component(real.cells.astype(np.int64), synthetic.cells.astype(np.int64), SIZES)
    assert is_close(found, expected, tolerance=1e-9 if width else 1e-4)


def test_first_component_is_finite_when_every_column_is_constant():
    component = principal.find_first_component(make_categorical(np.zeros((5, 2)), [2, 3]))
    assert np.linalg.norm(component) == pytest.approx(1.0)


def test_cramers_v_equals_the_uncorrected_one_of_scipy_when_rows_are_many():
    # The correction is (k-1)(r-1)/(n-1) in phi squared: it is added back here, and the degrees are those of scipy.
    table = draw_categorical(5, rows=5_000, sizes=[3, 4])
    counts = np.zeros((3, 4), dtype=int)
    np.add.at(counts, tuple(table.cells.T), 1)
    found = dependence.measure_cramers_v(*table.cells.T.astype(np.int64), (3, 4))
    phi = found**2 * (3 - 4 / 4999 - 1) + 6 / 4999
    assert is_close(math.sqrt(phi / 2), float(association(counts, method="cramer")))


@pytest.mark.parametrize("dense", [1 << 18, 1])
def test_cramers_v_is_one_or_nothing_when_columns_are_equal_or_one_is_constant(dense, monkeypatch):
    monkeypatch.setattr(dependence, "_DENSE_CELLS", dense)
    cells = np.arange(300) % 4
    assert is_close(dependence.measure_cramers_v(cells, 3 - cells, (4, 4)), 1.0)
    assert dependence.measure_cramers_v(cells, np.zeros(300, dtype=np.int64), (4, 2)) == 0.0


def test_correlation_ratio_equals_a_hand_worked_case_when_numbers_lie_in_two_groups():
    # Groups 0, 2 and 4, 6: between 4 * 4 = 16, all 9 + 1 + 1 + 9 = 20.
    numbers = np.array([0.0, 2.0, 4.0, 6.0, np.nan])
    cells = np.array([0, 0, 1, 1, 2])
    assert is_close(dependence.measure_correlation_ratio(cells, numbers, 3), math.sqrt(16 / 20))
    assert dependence.measure_correlation_ratio(cells, np.full(5, 3.0), 3) == 0.0
    assert dependence.measure_correlation_ratio(cells, np.full(5, np.nan), 3) == 0.0


def test_what_is_constant_depends_on_nothing_when_its_mean_is_rounded():
    constant = np.full((343, 2), 0.1)
    assert (constant.mean(axis=0) != 0.1).all()
    assert dependence.measure_correlation_ratio(np.arange(343) % 4, constant[:, 0], 4) == 0.0
    np.testing.assert_array_equal(dependence.measure_pearsons(constant), np.eye(2))


def test_correlations_score_nothing_when_the_table_is_the_real_one_and_tell_kinds_apart():
    rng = np.random.default_rng(1)
    numbers = rng.uniform(0, 1, size=(400, 2))
    mixed = make_numeric(
        np.column_stack([numbers[:, :1], numbers[:, 0] + 0.1 * numbers[:, 1]]), minimum=0.0, maximum=2.0
    )
    matrix = dependence.measure_dependence(mixed, rng)
    assert matrix[0, 1] == matrix[1, 0] > 0.9
    scores = dependence.score_correlations(mixed, matrix, matrix)
    assert scores == {"cramers_v": None, "correlation_ratio": None, "pearson": 0.0, "all": 0.0}
    broken = make_numeric(np.column_stack([numbers[:, :1], rng.permutation(numbers[:, 0])]), minimum=0.0, maximum=2.0)
    lost = dependence.score_correlations(mixed, matrix, dependence.measure_dependence(broken, rng))
    assert float(lost["pearson"] or 0.0) > 0.7


def test_dependence_is_known_from_part_of_the_rows_when_there_are_many(monkeypatch):
    table = draw_categorical(5, rows=4_000, sizes=[3, 3])
    whole = dependence.measure_dependence(table, np.random.default_rng(0))
    monkeypatch.setattr(dependence, "ROWS", 2_000)
    part = dependence.measure_dependence(table, np.random.default_rng(0))
    assert part[0, 1] != whole[0, 1]
    assert part[0, 1] == pytest.approx(whole[0, 1], abs=0.1)


def test_floor_keeps_single_columns_and_nothing_else_when_it_is_made():
    real = draw_categorical(1, rows=2_000, sizes=[3, 3, 3])
    floor = scores.make_floor(real, rows=2_000, rng=np.random.default_rng(0))
    for place in range(3):
        assert Counter(floor.cells[:, place]) == Counter(real.cells[:, place])
    np.testing.assert_array_equal(floor.numbers, floor.cells)
    assert dependence.measure_cramers_v(*real.cells[:, :2].T.astype(np.int64), (3, 3)) > 0.4
    assert dependence.measure_cramers_v(*floor.cells[:, :2].T.astype(np.int64), (3, 3)) < 0.1


@pytest.mark.parametrize("rows", [1, 37, 5_000])
def test_baselines_have_the_rows_asked_for_and_real_cells_alone_when_made(rows):
    real = draw_categorical(2, rows=50, sizes=SIZES)
    whole = {tuple(row) for row in real.cells.tolist()}
    ceiling = scores.make_ceiling(real, rows=rows, rng=np.random.default_rng(1))
    floor = scores.make_floor(real, rows=rows, rng=np.random.default_rng(1))
    assert ceiling.rows == floor.rows == rows
    assert {tuple(row) for row in ceiling.cells.tolist()} <= whole


@pytest.mark.statistical
def test_ceiling_draws_every_row_as_often_when_it_is_made():
    # Exact binomial test on the first row, false alarm 1e-6; the broken twin never draws it with replacement.
    real = make_categorical(np.arange(100)[:, None] == 0, [2])
    ceiling = scores.make_ceiling(real, rows=100_000, rng=np.random.default_rng(2))
    assert binomtest(int(ceiling.cells.sum()), 100_000, 0.01).pvalue > 1e-6
    assert binomtest(1, 100_000, 0.01).pvalue < 1e-6


@pytest.mark.parametrize("columns", [300, 785])
def test_sets_are_all_different_when_there_are_too_many_to_list(columns):
    sets = marginals.draw_column_sets(columns)
    for k in (1, 2, 3):
        assert len(set(sets[k])) == len(sets[k]) == marginals.SETS
        assert all(len(set(chosen)) == k and sorted(chosen) == list(chosen) for chosen in sets[k])
        assert all(0 <= column < columns for chosen in sets[k] for column in chosen)
    assert sets == marginals.draw_column_sets(columns)


def test_correlations_equal_numpy_when_missing_numbers_are_left_out_of_their_pairs():
    rng = np.random.default_rng(1)
    numbers = rng.standard_normal((400, 6)) @ rng.standard_normal((6, 6))
    numbers[:, 2] = 0.1  # constant
    numbers[::7, 4] = np.nan  # missing now and then
    columns = tuple(ComparedColumn(name=str(i), kind="number", labels=("a", "b")) for i in range(6))
    table = ComparedTable(columns=columns, cells=np.zeros((400, 6), np.int32), numbers=numbers)
    found = dependence.measure_dependence(table, rng)
    for first, second in itertools.combinations(range(6), 2):
        pair = numbers[~np.isnan(numbers[:, [first, second]]).any(axis=1)][:, [first, second]]
        expected = 0.0 if 2 in (first, second) else np.corrcoef(pair.T)[0, 1]
        assert found[first, second] == pytest.approx(expected, abs=1e-12)
        assert found[second, first] == found[first, second]
    np.testing.assert_array_equal(np.diag(found), 1.0)
    few = dependence.measure_dependence(table.take(np.arange(1)), rng)
    np.testing.assert_array_equal(few, np.eye(6))
