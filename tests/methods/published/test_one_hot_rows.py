"""One-hot rows: every sum is that of loops over rows and attributes, wherever the rows lie and however they are cut."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.errors import DpwganError
from dpwgan.methods.published import one_hot_rows
from dpwgan.methods.published.one_hot_rows import OneHotRows
from dpwgan.table import storage
from tests.marginals.groups import make_groups

Floats = npt.NDArray[np.float64]
SIZES = (3, 1, 4, 2)
WIDTH = sum(SIZES)
RECORDS = 53


def put_on_disk(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    mapped = storage.allocate(array.shape, array.dtype, on_disk=True)
    mapped[:] = array
    storage.let_go(mapped)
    assert storage.is_on_disk(mapped)
    return mapped


def find_places(row: npt.NDArray[np.int32]) -> list[int]:
    """Where a one-hot row has its ones, that of the bias last."""
    starts = [sum(SIZES[:attribute]) for attribute in range(len(SIZES))]
    return [*(start + int(group) for start, group in zip(starts, row, strict=True)), WIDTH]


def add_up_by_loops(groups: npt.NDArray[np.int32], shares: list[float]) -> list[float]:
    """The sum of one-hot rows, each times its share."""
    return [
        math.fsum(share for row, share in zip(groups, shares, strict=True) if place in find_places(row))
        for place in range(WIDTH + 1)
    ]


def multiply_by_loops(groups: npt.NDArray[np.int32], vector: Floats) -> list[float]:
    return [math.fsum(float(vector[place]) for place in find_places(row)) for row in groups]


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("cells", [1, 7 * len(SIZES), 1 << 18])
def test_sums_are_those_of_loops_when_rows_are_cut_anywhere(cells, on_disk, monkeypatch):
    monkeypatch.setattr(one_hot_rows, "_BLOCK_CELLS", cells)
    groups = make_groups(RECORDS, sizes=SIZES, seed=1)
    rows = OneHotRows(put_on_disk(groups) if on_disk else groups, SIZES)
    rng = np.random.default_rng(2)
    for weights in (rng.normal(size=WIDTH + 1), 20 * rng.normal(size=WIDTH + 1)):
        slopes = [1 / (1 + math.exp(product)) for product in multiply_by_loops(groups, weights)]
        np.testing.assert_allclose(rows.sum_slopes(weights), add_up_by_loops(groups, slopes), rtol=1e-12)
        for _ in range(2):
            direction = rng.normal(size=WIDTH + 1)
            products = multiply_by_loops(groups, direction)
            bent = [slope * (1 - slope) * product for slope, product in zip(slopes, products, strict=True)]
            found = rows.multiply_curvature(direction)
            np.testing.assert_allclose(found, add_up_by_loops(groups, bent), rtol=1e-9, atol=1e-12)
        scores = [1 / (1 + math.exp(-product)) - 0.3 for product in multiply_by_loops(groups, weights)]
        assert rows.sum_scores(weights, middle=0.3) == pytest.approx([math.fsum(scores)], rel=1e-12)
        # Whole numbers are not rounded.
        assert rows.count_groups().tolist() == add_up_by_loops(groups, [1.0] * RECORDS)[:-1]


def test_rows_are_let_go_of_block_by_block_when_they_are_on_disk(monkeypatch):
    monkeypatch.setattr(one_hot_rows, "_BLOCK_CELLS", 10 * len(SIZES))
    groups = put_on_disk(make_groups(RECORDS, sizes=SIZES, seed=1))
    kept: list[bool] = []
    let_go = storage.let_go

    def note(*arrays: npt.NDArray[np.generic]) -> None:
        kept.extend(storage.is_on_disk(array) for array in arrays)
        let_go(*arrays)

    monkeypatch.setattr(one_hot_rows, "let_go", note)
    rows, blocks = OneHotRows(groups, SIZES), -(-RECORDS // 10)
    weights = np.ones(WIDTH + 1)
    rows.sum_slopes(weights)
    rows.multiply_curvature(weights)
    # Of both sums the rows and their curvature: all of it lies on disk.
    assert kept == [True] * (4 * blocks)


def test_curvature_is_refused_when_there_was_no_slope():
    rows = OneHotRows(make_groups(3, sizes=SIZES, seed=1), SIZES)
    with pytest.raises(DpwganError, match="Internal error"):
        rows.multiply_curvature(np.ones(WIDTH + 1))
