"""The two releases of RON-Gauss: one-way counts, class by class, and covariances of projected rows, class by class.

Everything that is summed here is a whole number, so that a sum is exact whatever the order, one record's part in it is
a function of that record alone, and sensitivities hold to the last bit. Rows are null where they add nothing.

Sensitivities. For z in R^p of norm 1 or less, and the matrix z z^T that it adds to its class's:
(1) Zero-out: one class loses z z^T, of rank 1 and trace at most 1: all that Wishart noise asks for
    (`dpwgan.privacy.mechanisms.wishart`), which is on each class's matrix by itself.
(2) Replace-one, within a class or from one to another: one such matrix goes and one comes. That is twice (1).
(3) L2, zero-out, with sqrt 2 beside the diagonal, so that the vector's norm is the matrix's Frobenius norm: |z|^2 <= 1.
(4) L2, replaced: |z z^T - w w^T|^2 = |z|^4 + |w|^4 - 2 (z.w)^2 <= 2, within a class and from one to another.
(5) One-way counts: a record adds 1 to one cell of each histogram, and 1 to its class where there are classes, h in
    all: L1 h, L2 sqrt h. Replaced, it leaves h cells and enters h others: L1 2 h, L2 sqrt(2 h), whether its class
    changes or not. Each look has histograms of its own; where they look is made of the looks before.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dpwgan.array_types import AnyArray, Floats, Integers
from dpwgan.marginals.one_way.one_ways import Blocks, OneWayPlan, OneWays, count_one_ways
from dpwgan.privacy.events import DiscreteGaussian, Gaussian, Laplace, Wishart
from dpwgan.privacy.mechanisms.wishart import EDGE, shrink_eigenvalues
from dpwgan.privacy.release import Noisy
from dpwgan.table.encoded import EncodedTable, Span
from dpwgan.table.storage import allocate_beside, cut, let_go

Noise = Laplace | Gaussian
MatrixNoise = Wishart | Gaussian

RADIUS = 2**15
"""The unit ball's radius in whole numbers: z is rounded towards 0 on a grid of this many parts of 1."""

PURE_REPLACE_ONE_FACTOR = 2.0
"""What one replaced record moves, over what one zeroed one does, under Laplace and Wishart noise: (2) and (5)."""

COUNTS_REPLACE_ONE_FACTOR = COVARIANCE_REPLACE_ONE_FACTOR = math.sqrt(2.0)
"""The same under Gaussian noise: (4) and (5)."""

MOST_CLASSES = 128
"""A label of more classes would leave few records to each, and all the noise."""

_CHUNK = 1 << 16
_CHUNK_BYTES = 1 << 24
# The sums in L2 are of square roots: what rounding may add to them is far below this.
_ROUNDING = 1e-9


def counts_sensitivity(noise: Laplace | DiscreteGaussian, *, histograms: int) -> float:
    """The sensitivity of so many histograms together: in L1 for Laplace noise, else in L2."""
    return float(histograms) if isinstance(noise, Laplace) else math.sqrt(histograms)


def products_sensitivity(noise: MatrixNoise) -> float:
    """What a record moves of the sums of z z^T: a trace on the grid under Wishart noise, else a length."""
    return float(RADIUS**2) if isinstance(noise, Wishart) else 1.0 + _ROUNDING


def leave_out(spans: Sequence[Span], label: Span) -> tuple[Span, ...]:
    """The spans of the table without a column of codes, laid out as if it had never been there."""
    return tuple(
        replace(
            span,
            start=span.start - (label.width if span.start > label.start else 0),
            source=span.source - (span.head != "linear" and span.source > label.source),
        )
        for span in spans
        if span != label
    )


def split_classes(encoded: EncodedTable, label: Span | None) -> tuple[EncodedTable, ...]:
    """Parts the rows by their class, and the label from the other columns; one table of all rows without a label.

    Privacy: all that is measured here is measured on what this gives: a null record is in none of the tables.
    """
    if label is None:
        return (encoded,)
    others = [source for source in range(encoded.codes.shape[1]) if source != label.source]
    sizes = count_labels(encoded, label)
    tables = tuple(
        EncodedTable(
            codes=allocate_beside(encoded.codes, (size, len(others)), np.int32),
            numbers=allocate_beside(encoded.codes, (size, encoded.numbers.shape[1]), encoded.numbers.dtype),
            spans=leave_out(encoded.spans, label),
        )
        for size in sizes.tolist()
    )
    done = np.zeros(len(tables), np.int64)
    for rows in cut(encoded.records):
        piece = EncodedTable(codes=encoded.codes[rows], numbers=encoded.numbers[rows], spans=encoded.spans)
        labels = piece.codes[:, label.source]
        for index, table in enumerate(tables):
            part = piece.take(labels == index)
            places = slice(done[index], done[index] + part.records)
            table.codes[places], table.numbers[places] = part.codes[:, others], part.numbers
            done[index] += part.records
            let_go(table.codes, table.numbers)
        let_go(encoded.codes, encoded.numbers)
    return tables


def count_labels(encoded: EncodedTable, label: Span) -> Integers:
    """Counts the records of every class, exactly. The result is not released. Shapes: (classes,)."""
    sizes = np.zeros(label.categories, np.int64)
    for rows in cut(encoded.records):
        sizes += np.bincount(encoded.codes[rows, label.source], minlength=label.categories)
        let_go(encoded.codes)
    return sizes


def count_classes(
    tables: Sequence[EncodedTable], plan: OneWayPlan, look: int, blocks: Sequence[Blocks], *, sized: bool
) -> Integers:
    """Counts a look, exactly: all histograms of the first class, of the next one ..., and, if `sized`, classes' sizes.

    `blocks`: those of each class.
    Privacy: sensitivities as the module's (5). What it gives is not released.
    """
    parts = [count_one_ways(table, plan, look, own) for table, own in zip(tables, blocks, strict=True)]
    if sized:
        parts.append(np.array([table.records for table in tables], np.float64))
    return np.rint(np.concatenate(parts)).astype(np.int64)


def read_classes(
    noisy: Noisy, look: int, blocks: Sequence[Blocks], *, measured: Sequence[OneWays]
) -> tuple[list[OneWays], Floats]:
    """Adds each class's counts of a look to what was `measured` of it before, and gives the classes' sizes if there.

    Privacy: post-processing of `count_classes` with noise. Shapes: the sizes (classes,), or (0,).
    """
    lengths = [one_ways.plan.count_cells(look, own) for one_ways, own in zip(measured, blocks, strict=True)]
    *counts, sizes = np.split(noisy.values.astype(np.float64), np.cumsum(lengths))
    return [
        one_ways.add(look, own, Noisy(values=values, stddev=noisy.stddev))
        for one_ways, own, values in zip(measured, blocks, counts, strict=True)
    ], sizes


def to_grid(points: Floats) -> Integers:
    """Puts points onto the whole numbers of the ball: clipped to norm 1, times `RADIUS`, rounded towards 0.

    Privacy: a function of each row by itself, and of it alone to the last bit: squares are added up column by column,
      in an order that does not depend on the other rows. The norm is at most `RADIUS`: rounding towards 0 shortens; a
      row that is not finite, or still too long, becomes null.
    Shapes: (n, p) to (n, p).
    """
    squares = np.zeros(len(points))
    with np.errstate(invalid="ignore", over="ignore"):
        for column in points.T:
            squares += column * column
        scaled = np.trunc(points * (RADIUS / np.maximum(np.sqrt(squares), 1.0))[:, np.newaxis])
    sound = np.isfinite(scaled).all(axis=1) & np.isfinite(squares)
    grid: Integers = np.where(sound[:, np.newaxis], scaled, 0.0).astype(np.int64)
    grid[np.sum(grid * grid, axis=1) > RADIUS**2] = 0
    return grid


def sum_products(rows: AnyArray, to_points: Callable[[AnyArray], Floats], *, dimension: int) -> Integers:
    """Sums z z^T over the rows' points on the grid, exactly. The result is not released.

    Privacy: sensitivities as the module's (1) to (4), in units of `RADIUS` squared. `to_points` must give each row's
      point from that row alone.
    Shapes: (n, columns) to (dimension, dimension).
    """
    total = np.zeros((dimension, dimension), np.int64)
    size = max(1, min(_CHUNK, _CHUNK_BYTES // (8 * dimension)))
    for piece in cut(len(rows), size=size):
        # Sums of 2^16 rows of products up to 2^30 are exact in doubles, whatever the order they are added in.
        points = to_grid(to_points(rows[piece])).astype(np.float64)
        total += np.rint(points.T @ points).astype(np.int64)
        let_go(rows)
    return total


def write_products(total: Integers, *, noise: MatrixNoise) -> AnyArray:
    """A sum of z z^T as it gets its noise: for Gaussian noise half of the matrix, as a vector of the same norm.

    Privacy: sensitivities as the module's (1) to (4); a record is in one class only, so that all classes released
      together cost what one does.
    Units: whole numbers of the grid under Wishart noise, else of a row of norm 1.
    """
    if isinstance(noise, Wishart):
        return total
    rows, columns = np.triu_indices(len(total))
    half: Floats = total[rows, columns] / RADIUS**2 * np.where(rows == columns, 1.0, math.sqrt(2.0))
    return half


def read_products(noisy: Noisy, *, dimension: int) -> Floats:
    """The noisy matrix of what `write_products` gave. Units: of a row of norm 1. Privacy: post-processing."""
    if noisy.values.ndim == 2:
        return np.asarray(noisy.values / RADIUS**2, np.float64)
    matrix = np.zeros((dimension, dimension))
    rows, columns = np.triu_indices(dimension)
    matrix[rows, columns] = noisy.values / np.where(rows == columns, 1.0, math.sqrt(2.0))
    matrix[columns, rows] = matrix[rows, columns]
    return matrix


def shrink_noisy_eigenvalues(values: Floats, *, noise: MatrixNoise) -> Floats:
    """The eigenvalues of what `read_products` gives as what of them stands out of the noise.

    Those within the noise's own are 0, those beyond are shortened as is best in Frobenius norm. Of Gaussian noise the
    edge is 2 s sqrt p, s its stddev beside the diagonal. Privacy: post-processing. Shapes: (p,) to the same.
    Source: Gavish and Donoho 2017, arXiv:1405.7511, Section 6 (shrinkage of eigenvalues; of a spiked Wigner matrix).
    """
    if isinstance(noise, Wishart):
        return shrink_eigenvalues(values, scale=1.0 / noise.epsilon)
    edge = noise.noise_multiplier * math.sqrt(2.0 * len(values))
    return np.where(values > edge, np.sqrt(np.maximum(np.square(values) - edge**2, 0.0)), 0.0)


def bearable_dimension(records: float, noise: MatrixNoise, *, push: float) -> float:
    """The dimension p at which noise on the sum of z z^T pushes its eigenvalues by `push` times records/p.

    Gaussian noise of stddev s beside the diagonal pushes them by 2 s sqrt p (Wigner), s = sigma/sqrt 2; Wishart noise
    of epsilon E by 1.7 p/E. The eigenvalues' mean is at most records/p.
    Privacy: of public numbers only.
    """
    most = push * records
    if isinstance(noise, Wishart):
        return math.sqrt(most * noise.epsilon / EDGE)
    return float((most / (math.sqrt(2.0) * noise.noise_multiplier)) ** (2.0 / 3.0))
