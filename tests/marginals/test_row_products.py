"""Products of rows: as by loops in float64, whichever way their parts lie in memory, and added in place."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.marginals.row_products import add_rows, multiply_rows

SHAPES = [(1, 1, 1), (1, 5, 7), (6, 1, 7), (4, 3, 1), (5, 8, 40)]


def draw(*shape: int, seed: int, dtype: Any) -> npt.NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("a", "b", "codes"), SHAPES)
def test_products_are_those_of_a_loop_when_rows_are_a_part_of_others(a, b, codes, dtype):
    rows = draw(a + b + 2, codes, seed=1, dtype=dtype)
    left, right = rows[1 : 1 + a], rows[1 + a : 1 + a + b]
    less = draw(a, b, seed=2, dtype=dtype)
    before = less.copy()
    expected = np.array([[sum(float(x) * float(y) for x, y in zip(p, q, strict=True)) for q in right] for p in left])
    assert multiply_rows(left, right, scale=0.25) == pytest.approx(0.25 * expected, abs=1e-5)
    for order in (less, np.asfortranarray(less)):
        found = multiply_rows(left, right, scale=0.25, less=order)
        assert found.dtype == dtype
        assert found == pytest.approx(0.25 * expected - less, abs=1e-5)
    # What is taken off is a released answer, which is needed again.
    assert np.array_equal(less, before)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("a", "b", "codes"), SHAPES)
def test_sums_are_added_in_place_when_they_belong_to_a_part_of_an_array(a, b, codes, dtype, order):
    weights = np.asarray(draw(a, b, seed=3, dtype=dtype), order=order)
    rows = draw(b + 1, codes, seed=4, dtype=dtype)[1:]
    into = draw(a + 2, codes, seed=5, dtype=dtype)
    expected = into.astype(np.float64)
    for row, other in np.ndindex(a, b):
        expected[1 + row] += 0.5 * float(weights[row, other]) * rows[other].astype(np.float64)
    add_rows(weights, rows, scale=0.5, into=into[1 : 1 + a])
    assert into == pytest.approx(expected, abs=1e-5)
