"""Rows as points, and which rows of one table lie nearest to rows of another.

The distance of two rows is the sum over columns of: 1 where categories differ, 0 where they agree; for a number the
difference as a share of the public range; 1 where it is missing in one row alone.
Source: Gower 1971, "A general coefficient of similarity and some of its properties", times the number of columns.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpwgan.errors import UsageError
from dpwgan.evaluate.tables import ComparedTable
from dpwgan.table.schema import NumericColumn, Schema

Distances = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]

_MOST_PAIRS = 1 << 22  # of rows looked at together: 16 MB a matrix


@dataclass(frozen=True, kw_only=True, eq=False)
class Points:
    """Rows whose columns can be compared: codes of categories, numbers as shares of their public range.

    Shapes: `values` is (n, columns), NaN where a number is missing; `numeric` is (columns,).
    """

    values: npt.NDArray[np.float32]
    numeric: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: npt.NDArray[np.int64]) -> "Points":
        """The points of these rows, in this order."""
        return Points(values=self.values[rows], numeric=self.numeric)


def lay_out_points(table: ComparedTable, schema: Schema) -> Points:
    """Turns a table into points, by public facts alone.

    Privacy: acts on each row by itself; the points are as private as the rows.
    """
    values = table.numbers.astype(np.float64, copy=True)
    numeric = np.array([column.kind != "categorical" for column in table.columns])
    for place, compared in enumerate(table.columns):
        column = schema.by_name[compared.name]
        if isinstance(column, NumericColumn):
            width = column.maximum - column.minimum
            values[:, place] = (values[:, place] - column.minimum) / (width or 1.0)
    return Points(values=values.astype(np.float32), numeric=numeric)


def find_nearest(targets: Points, among: Points, *, neighbours: int = 1) -> tuple[Distances, Places]:
    """Finds the rows nearest to each target, the nearest first; of rows equally near, which ones is not said.

    Shapes: t targets give (t, neighbours) distances and places in `among`.
    Units: distance 1 is one column as different as it can be.
    Raises: UsageError if there are fewer rows than neighbours.
    """
    if not 1 <= neighbours <= len(among):
        raise UsageError(f"{neighbours} nearest rows cannot be found among {len(among)}")
    distances = np.empty((len(targets), neighbours), dtype=np.float32)
    places = np.empty((len(targets), neighbours), dtype=np.int64)
    for rows, matrix in _sweep(targets, among):
        if neighbours == 1:
            found = matrix.argmin(axis=1)[:, None]
        else:
            found = np.argpartition(matrix, neighbours - 1, axis=1)[:, :neighbours]
        near = np.take_along_axis(matrix, found, axis=1)
        order = np.argsort(near, axis=1, kind="stable")
        distances[rows] = np.take_along_axis(near, order, axis=1)
        places[rows] = np.take_along_axis(found, order, axis=1)
    return distances, places


def find_nearest_without(targets: Points, among: Points, *, columns: npt.NDArray[np.int64]) -> Places:
    """Finds the row nearest to each target where one column is not looked at, for each of these columns in turn.

    Shapes: t targets give (t, len(columns)) places in `among`.
    """
    places = np.empty((len(targets), len(columns)), dtype=np.int64)
    for rows, matrix in _sweep(targets, among):
        for number, column in enumerate(columns):
            rest = matrix - _difference(targets, among, rows, int(column))
            places[rows, number] = rest.argmin(axis=1)
    return places


def _sweep(targets: Points, among: Points) -> Iterator[tuple[slice, Distances]]:
    step = max(1, _MOST_PAIRS // max(1, len(among)))
    for first in range(0, len(targets), step):
        rows = slice(first, min(first + step, len(targets)))
        matrix = np.zeros((rows.stop - rows.start, len(among)), dtype=np.float32)
        for column in range(targets.values.shape[1]):
            matrix += _difference(targets, among, rows, column)
        yield rows, matrix


def _difference(targets: Points, among: Points, rows: slice, column: int) -> npt.NDArray[np.float32]:
    left, right = targets.values[rows, column, None], among.values[None, :, column]
    if not targets.numeric[column]:
        return np.not_equal(left, right).astype(np.float32)
    difference = np.abs(left - right)
    if np.isnan(left).any() or np.isnan(right).any():
        difference = np.where(np.isnan(left) & np.isnan(right), np.float32(0.0), difference)
        difference = np.nan_to_num(difference, copy=False, nan=1.0)
    return np.asarray(difference, dtype=np.float32)
