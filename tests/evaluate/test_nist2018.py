"""The challenge's three scores: equal to a brute-force route, to hand-worked cases, and drawn as they should be."""

import dataclasses
import itertools
import math
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from scipy.stats import binomtest

from dpwgan.evaluate import nist2018
from dpwgan.evaluate.tables import ComparedTable
from tests.evaluate import brute_force
from tests.evaluate.samples import SPECS, Row, draw_categorical, draw_rows, is_close, make_categorical, read_rows

SCORED = {name: spec for name, spec in SPECS.items() if "derived" not in spec}


def read_pair(folder: Path, seed: int, *, cities: int = 5) -> tuple[list[Row], list[Row], ComparedTable, ComparedTable]:
    real = draw_rows(seed, rows=60 + 7 * seed)
    synthetic = draw_rows(1000 + seed, rows=50 + 5 * seed, cities=cities)
    tables = (read_rows(folder / "a.csv", rows) for rows in (real, synthetic))
    return [row[:-1] for row in real], [row[:-1] for row in synthetic], *tables


def read_cities(folder: Path, rows: list[Row]) -> ComparedTable:
    return read_rows(folder / "a.csv", rows, {column: SPECS[column] for column in ("SEX", "CITY", "INCWAGE")})


def find_roles(table: ComparedTable) -> nist2018.Roles:
    roles = nist2018.find_roles(table, sex="SEX", city="CITY", wage="INCWAGE")
    assert roles is not None
    return roles


def write_condition(condition: nist2018.Condition, table: ComparedTable) -> tuple[str, set[str] | tuple[str, float]]:
    column = table.columns[condition.column]
    if condition.accepted is not None:
        return column.name, {label for label, is_in in zip(column.labels, condition.accepted, strict=True) if is_in}
    return column.name, ("" if math.isnan(condition.center) else repr(condition.center), condition.radius)


@pytest.mark.parametrize("seed", range(12))
def test_three_scores_equal_a_brute_force_route_when_tables_are_random(tmp_path, seed):
    real_rows, synthetic_rows, real, synthetic = read_pair(tmp_path, seed, cities=3 + seed % 3)
    rng = np.random.default_rng(seed)
    triples = nist2018.draw_triples(len(real.columns), rng)
    named = [tuple(real.names[place] for place in triple) for triple in triples]
    expected = brute_force.score_marginals(real_rows, synthetic_rows, named, SCORED)  # type: ignore[arg-type]
    assert is_close(nist2018.score_marginals(real, synthetic, triples), expected, tolerance=1e-12)

    conjunctions = nist2018.draw_conjunctions(real, rng)
    written = [[write_condition(condition, real) for condition in conjunction] for conjunction in conjunctions]
    expected = brute_force.score_conjunctions(real_rows, synthetic_rows, written, SCORED)
    assert is_close(nist2018.score_conjunctions(real, synthetic, conjunctions), expected, tolerance=1e-12)

    roles = find_roles(real)
    expected = brute_force.score_gini_and_pay_gap(real_rows, synthetic_rows, SCORED)
    assert is_close(nist2018.score_gini_and_pay_gap(real, synthetic, roles), expected, tolerance=1e-12)


def test_brute_force_route_disagrees_when_a_rule_of_either_is_broken(tmp_path):
    # The test of the test above: other buckets, other distances and other sexes are all noticed.
    real_rows, synthetic_rows, real, synthetic = read_pair(tmp_path, 3)
    rng = np.random.default_rng(3)
    triples = nist2018.draw_triples(len(real.columns), rng)
    named = [tuple(real.names[place] for place in triple) for triple in triples]
    narrow = {**SCORED, "INCWAGE": {**SCORED["INCWAGE"], "max": 4100}}
    found = nist2018.score_marginals(real, synthetic, triples)
    assert not is_close(found, brute_force.score_marginals(real_rows, synthetic_rows, named, narrow))  # type: ignore[arg-type]
    conjunctions = nist2018.draw_conjunctions(real, rng)
    wrong = [tuple(dataclasses.replace(c, radius=c.radius + 0.5) for c in conjunction) for conjunction in conjunctions]
    assert not is_close(
        nist2018.score_conjunctions(real, synthetic, conjunctions), nist2018.score_conjunctions(real, synthetic, wrong)
    )
    roles = find_roles(real)
    turned = dataclasses.replace(roles, first_sex=roles.second_sex, second_sex=roles.first_sex)
    expected = brute_force.score_gini_and_pay_gap(real_rows, synthetic_rows, SCORED)
    assert is_close(nist2018.score_gini_and_pay_gap(real, synthetic, roles), expected, tolerance=1e-12)
    gaps = nist2018._describe_cities(real, roles)[1], nist2018._describe_cities(real, turned)[1]
    assert gaps[0] != gaps[1]


def test_conjunctions_score_a_third_when_one_of_a_thousandth_share_is_never_met_at_a_tenth():
    # real share 1/10, synthetic 0 -> counts as 1e-6: ln(1e-1 / 1e-6) / ln 1000 = 5/3, below 0 and so 0;
    # real share 1, synthetic 0.1: ln 10 / ln 1000 = 1/3, so 2/3 of a million.
    real = make_categorical([[0]] * 10, [2])
    tenth = make_categorical([[0]] + [[1]] * 9, [2])
    condition = (nist2018.Condition(column=0, accepted=np.array([True, False])),)
    assert is_close(nist2018.score_conjunctions(real, tenth, [condition]), 1e6 * 2 / 3)
    none = make_categorical([[1]] * 10, [2])
    assert nist2018.score_conjunctions(tenth, none, [condition]) == 0.0


def test_gini_index_equals_a_hand_worked_case_when_wages_are_known():
    # Wages 1, 3: 1 - 2 * (1 + 4) / (2 * 4) = -0.25; equal wages of two: 1 - 2 * 3/4 = -0.5; none above 0: 1.
    assert nist2018._measure_gini(np.array([1.0, 3.0])) == pytest.approx(-0.25)
    assert nist2018._measure_gini(np.array([2.0, 2.0])) == pytest.approx(-0.5)
    assert nist2018._measure_gini(np.array([0.0, 0.0])) == 1.0
    assert nist2018._measure_gini(np.array([])) == 1.0


def test_gini_and_pay_gap_loses_a_city_when_the_synthetic_table_has_not_it(tmp_path):
    # Two cities, one of them missing: both root mean squares are sqrt(1/2).
    rows = [["1", "0", "500"], ["2", "0", "100"], ["1", "1", "100"], ["2", "1", "500"]]
    real, one = read_cities(tmp_path, rows), read_cities(tmp_path, rows[:2])
    roles = find_roles(real)
    assert is_close(nist2018.score_gini_and_pay_gap(real, one, roles), 1e6 * math.sqrt(0.5))
    # With the sexes' wages swapped the ranks are swapped too: the second half is lost, the first stays.
    swapped = dataclasses.replace(real, cells=real.cells[[1, 0, 3, 2]], numbers=real.numbers)
    turned = dataclasses.replace(swapped, cells=np.column_stack([1 - real.cells[:, 0], real.cells[:, 1:]]))
    assert is_close(nist2018.score_gini_and_pay_gap(real, turned, roles), 500_000.0)


def test_gini_and_pay_gap_ranks_by_first_appearance_when_gaps_are_equal():
    table = make_categorical([[0, 2, 0], [1, 2, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], [2, 3, 1])
    table = dataclasses.replace(table, numbers=np.column_stack([table.cells[:, :2], np.full(6, 7.0)]))
    roles = nist2018.Roles(sex=0, city=1, wage=2, first_sex=0, second_sex=1)
    assert nist2018._describe_cities(table, roles)[1] == {2: 0, 0: 1, 1: 2}


def test_gini_and_pay_gap_is_whole_when_there_is_one_city_only(tmp_path):
    real = read_cities(tmp_path, [["1", "0", "500"], ["2", "0", "100"]])
    assert nist2018.score_gini_and_pay_gap(real, real, find_roles(real)) == 1e6


def test_roles_are_not_found_when_a_column_is_absent_or_of_another_kind(tmp_path):
    _, _, real, _ = read_pair(tmp_path, 1)
    find_roles(real)
    assert nist2018.find_roles(real, sex="SEX", city="TOWN", wage="INCWAGE") is None
    assert nist2018.find_roles(real, sex="age", city="CITY", wage="INCWAGE") is None
    assert nist2018.find_roles(real, sex="SEX", city="CITY", wage="job") is None
    assert nist2018.find_roles(real, sex="flat", city="CITY", wage="INCWAGE") is None


def test_roles_take_the_first_two_available_cells_when_the_sexes_are_not_coded_1_and_2(tmp_path):
    specs = {
        "sex": {"type": "enum", "values": ["f", "m"], "missing": ["?"]},
        "CITY": SPECS["CITY"],
        "pay": SPECS["age"],
    }
    table = read_rows(tmp_path / "a.csv", [["f", "1", "3"]], specs)
    roles = nist2018.find_roles(table, sex="sex", city="CITY", wage="pay")
    assert roles is not None
    assert (roles.first_sex, roles.second_sex) == (0, 1)


def test_triples_are_of_three_different_columns_when_drawn():
    triples = nist2018.draw_triples(4, np.random.default_rng(0))
    assert len(triples) == 100
    assert all(len(set(triple)) == 3 for triple in triples)


def test_conjunctions_hold_their_own_row_when_drawn(tmp_path):
    _, _, real, _ = read_pair(tmp_path, 2)
    conjunctions = nist2018.draw_conjunctions(real, np.random.default_rng(5))
    everything = np.arange(real.rows)
    for conjunction in conjunctions:
        rows = everything
        for condition in conjunction:
            rows = condition.keep(real, rows)
        assert len(rows) >= 1


def count_parts(chance: float) -> tuple[int, int]:
    """Counts the conditions that are drawn, and the columns that could have had one."""
    real = draw_categorical(0, rows=20_000, sizes=[3] * 40)
    with patch.object(nist2018, "KEPT", chance):
        conjunctions = nist2018.draw_conjunctions(real, np.random.default_rng(11))
    return sum(map(len, conjunctions)), 40 * len(conjunctions)


@pytest.mark.statistical
def test_conjunctions_take_a_tenth_of_the_columns_when_drawn():
    # Exact binomial test, false alarm 1e-6. The seed is fixed, so that it either always or never passes.
    assert binomtest(*count_parts(nist2018.KEPT), 0.1).pvalue > 1e-6
    assert binomtest(*count_parts(0.14), 0.1).pvalue < 1e-6  # the broken twin: 40% too many


@pytest.mark.statistical
def test_conjunctions_accept_one_cell_as_often_as_the_rule_says_when_a_column_has_four():
    # The first further draw repeats the row's cell with probability 1/4: then one cell is accepted.
    # Exact binomial test, false alarm 1e-6; the broken twin holds the count against 1/3.
    real = draw_categorical(0, rows=20_000, sizes=[4] * 40)
    drawn = nist2018.draw_conjunctions(real, np.random.default_rng(12))
    sizes = [int(condition.accepted.sum()) for conjunction in drawn for condition in conjunction]  # type: ignore[union-attr]
    assert binomtest(sizes.count(1), len(sizes), 0.25).pvalue > 1e-6
    assert binomtest(sizes.count(1), len(sizes), 1 / 3).pvalue < 1e-6


@pytest.mark.statistical
def test_marginals_stay_within_sampling_error_when_the_seed_changes():
    # The mean over all triples is exact; a mean of 100 draws lies within the Hoeffding bound of it. 20 seeds, all
    # together a false alarm of 1e-6. The broken twin draws among the first four columns alone, which agree.
    real = draw_categorical(1, rows=3_000, sizes=[3] * 8)
    cells = real.cells.copy()
    for place in range(4, 8):
        cells[:, place] = 2 - cells[:, place]
    synthetic = dataclasses.replace(real, cells=cells)
    everything = list(itertools.combinations(range(8), 3))
    overlaps = [nist2018.score_marginals(real, synthetic, [triple]) for triple in everything]
    truth, bound = float(np.mean(overlaps)), 1e6 * math.sqrt(math.log(2 * 20 / 1e-6) / 200)
    scores = [
        nist2018.score_marginals(real, synthetic, nist2018.draw_triples(8, np.random.default_rng(seed)))
        for seed in range(20)
    ]
    assert max(abs(score - truth) for score in scores) < bound
    twin = nist2018.score_marginals(real, synthetic, nist2018.draw_triples(4, np.random.default_rng(0)))
    assert abs(twin - truth) > bound
