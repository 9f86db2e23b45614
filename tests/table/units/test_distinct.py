"""Rows of units told apart: by any counting of their keys, with no row lost, and from next to where they were."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpwgan.table.units.distinct import find_alike, tell_apart

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=30)


@given(rows=ROWS, seed=st.integers(0, 2**32), by_chance=st.booleans())
def test_rows_are_alike_but_for_one_of_each_key_of_a_unit(rows, seed, by_chance):
    keys, units = np.array(rows).T
    alike = find_alike(keys, units, rng=np.random.default_rng(seed) if by_chance else None)
    times = Counter(zip(keys, units, strict=True))
    found = Counter(zip(keys[alike], units[alike], strict=True))
    assert found == {key: count - 1 for key, count in times.items() if count > 1}


@given(rows=ROWS, most=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_each_row_is_in_one_place_of_its_kind_and_no_more_are_alike(rows, most, seed):
    keys, kinds = np.array(rows, np.int32).T
    units, rng = np.arange(len(keys)) // most, np.random.default_rng(seed)
    order = tell_apart(keys, units, kinds, rng=rng)
    assert sorted(order) == [*range(len(keys))]
    np.testing.assert_array_equal(kinds[order], kinds)
    assert find_alike(keys[order], units).sum() <= find_alike(keys, units).sum()
    for key, kind in product(range(4), range(3)):
        own = order[(keys[order] == key) & (kinds == kind)]
        assert (np.diff(own) > 0).all()


@pytest.mark.parametrize(
    ("sizes", "cells", "left"),
    [((6, 7), 12, 0.0), ((1, 13), 12, 0.005), ((12, 13), 12, 0.15), ((2, 5), 400, 0.0)],
    ids=["half of the months", "any of them", "all of them", "days"],
)
@pytest.mark.parametrize("kinds", [1, 2])
def test_hardly_a_unit_has_a_key_twice_and_rows_stay_near(sizes, cells, left, kinds):
    rng = np.random.default_rng(1)
    of_units = rng.integers(*sizes, 1_500)
    units = np.repeat(np.arange(1_500), of_units)
    keys, kinds = rng.integers(0, cells, len(units)), rng.integers(0, kinds, len(units)).astype(np.int32)
    order = tell_apart(keys, units, kinds, rng=rng)

    def count(keys):
        return len(np.unique(units[find_alike(keys, units)])) / 1_500

    # The broken twin: rows as they came.
    assert count(keys[order]) <= left < count(keys)
    # Of all there is a third would be the mean distance in any order.
    assert abs(order - np.arange(len(order))).mean() < 0.03 * len(order)


def test_units_keep_the_keys_of_rows_near_by():
    rng = np.random.default_rng(1)
    units, half = np.repeat(np.arange(1_500), 8), 750 * 8
    # Pupils of two schools, each with eight subjects, of which five are taught in both.
    keys = np.concatenate([rng.integers(0, 8, half), rng.integers(3, 11, half)])
    order = tell_apart(keys, units, np.zeros(len(keys), np.int32), rng=rng)
    # Some rows leave their school, as their pupils have too many of one subject and too few of another: 17% were to,
    # had rows changed places with any other, and without fewer being alike for it.
    assert (keys[order[:half]] > 7).mean() < 0.03
    assert find_alike(keys[order], units).mean() < 0.01


def test_large_units_are_told_apart_in_as_many_turns_as_small_ones():
    rng = np.random.default_rng(1)
    units = np.repeat(np.arange(40), 300)
    keys = rng.integers(0, 400, len(units))
    # One exchange a unit and turn would leave some 1,000 of them.
    assert find_alike(keys, units).sum() > 3_000
    order = tell_apart(keys, units, np.zeros(len(keys), np.int32), rng=rng)
    assert find_alike(keys[order], units).sum() < 100
