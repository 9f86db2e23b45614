"""Products of rows: as by loops in float64, whichever way their parts lie in memory, and added in place."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.marginals.answers.row_products import add_rows, multiply_rows

SHAPES = [(1, 1, 1), (1, 5, 7), (6, 1, 7), (4, 3, 1), (5, 8, 40)]


def draw(*shape: int, seed: int, dtype: Any) -> npt.NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("a", "b", "codes"), SHAPES)
def test_products_are_those_of_a_loop_when_rows_are_a_part_of_others(a, b, codes, dtype):
    rows = draw(a + b + 2, codes, seed=1, dtype=dtype)
    left, right = rows[1 : 1 + a], rows[1 + a : 1 + a + b]
    expected = np.array([[sum(float(x) * float(y) for x, y in zip(p, q, strict=True)) for q in right] for p in left])
    assert multiply_rows(left, right, scale=0.25) == pytest.approx(0.25 * expected, abs=1e-5)
    # A part of a vector that holds anything, which is written over in place.
    vector = np.full(a * b + 2, np.nan, dtype)
    found = multiply_rows(left, right, scale=0.25, into=vector[1:-1].reshape((a, b), order="F"))
    assert found.dtype == dtype
    assert vector[1:-1].reshape((a, b), order="F") == pytest.approx(0.25 * expected, abs=1e-5)
    assert np.isnan(vector[[0, -1]]).all()


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
