"""Rows from a Gaussian in a random projection of the table's columns: numpy and scipy alone.

A row of groups (`marginals.coarsening`) is a point: a one-hot column gives one coordinate a group, less the group's
share; a column with an order one coordinate, its rank: 2 F - 1, F the share of records in the groups before and in half
of its own, so that it is 0 in the mean and lies in [-1, 1]. Shares are released ones, so the point is a function of
the row and of a release. The model knows the points' covariance in the p dimensions of a random orthonormal projection;
what is beside them has the covariance of independent columns of the released shares.

Back to groups: a rank's quantile is that of its column; of a one-hot column the group with the largest coordinate is
taken, after adding offsets with which the model's own rows have the released shares.
"""

import functools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtr

from dpwgan.array_types import AnyIntegers, Floats, Integers, Integers32
from dpwgan.errors import DpwganError
from dpwgan.gaussians.class_moments import leave_out
from dpwgan.marginals.one_way.coarsening import Coarsening
from dpwgan.table.encoded import EncodedTable, Span
from dpwgan.table.saved import reading_saved
from dpwgan.table.storage import cut_sizes


def draw_projection(width: int, dimension: int, *, rng: np.random.Generator) -> Floats:
    """Draws orthonormal columns, uniformly: all directions are alike. Privacy: public randomness.

    Shapes: (width, dimension).
    Source: Mezzadri 2007, arXiv:math-ph/0609050 (QR of Gaussians, with signs set right).
    """
    columns, triangle = np.linalg.qr(rng.standard_normal((width, dimension)))
    result: Floats = columns * np.where(np.diag(triangle) < 0, -1.0, 1.0)
    return result


def project_on_semidefinite(matrix: Floats) -> Floats:
    """A factor F of the nearest positive semidefinite matrix F F^T to a symmetric one, in Frobenius norm.

    Privacy: post-processing. Shapes: (p, p) to (p, p).
    Source: Higham 1988 (negative eigenvalues become 0).
    """
    values, vectors = np.linalg.eigh(matrix)
    result: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return result


def are_shares(shares: Floats, *, classes: int) -> bool:
    """Says whether these are the shares of so many classes."""
    return shares.shape == (classes,) and bool(np.all(shares >= 0)) and bool(np.isclose(shares.sum(), 1.0))


def draw_labels(shares: Floats, records: int, *, rng: np.random.Generator) -> Integers:
    """Draws labels by shares that are public or released. Shapes: (classes,) to (records,)."""
    return rng.choice(len(shares), size=records, p=shares / shares.sum())


PROJECTED_FILE = "projected.npz"
_COLUMNS_FILE = "projected.json"


# Rows are drawn in chunks of so many, and of pieces whose points fit in about this much memory.
_CHUNK, _PIECE_BYTES = 65_536, 32 * 2**20
_OFFSET_ROWS = 16_384
_OFFSET_STEPS = 150


class CoordinatesOfColumn(NamedTuple):
    """The coordinates that a column has: none of one group, which is constant.

    Shapes: `shares` (groups,); `points`, that of each group, (groups, coordinates of `piece`).
    """

    shares: Floats
    is_rank: bool
    piece: slice
    points: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Coordinates:
    """Which coordinates the columns have. Shapes: `probabilities` (groups,) a column, `is_rank` a flag a column."""

    probabilities: tuple[Floats, ...]
    is_rank: tuple[bool, ...]

    @functools.cached_property
    def columns(self) -> tuple[CoordinatesOfColumn, ...]:
        """Each column by itself."""
        columns, start = [], 0
        for shares, rank in zip(self.probabilities, self.is_rank, strict=True):
            if len(shares) < 2:
                points = np.zeros((len(shares), 0))
            elif rank:
                points = (2 * np.cumsum(shares) - shares - 1.0)[:, np.newaxis]
            else:
                points = np.eye(len(shares)) - shares
            piece = slice(start, start + points.shape[1])
            columns.append(CoordinatesOfColumn(shares, rank, piece, points))
            start = piece.stop
        return tuple(columns)

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return sum(column.points.shape[1] for column in self.columns)

    @property
    def variance(self) -> float:
        """The mean square of a point's length where columns have the released shares."""
        return sum(float(column.shares @ np.square(column.points).sum(axis=1)) for column in self.columns)

    def multiply(self, matrix: Floats) -> Floats:
        """Multiplies the covariance of independent columns with a matrix. Shapes: (width, p) to (width, p)."""
        result = np.empty_like(matrix)
        for shares, _, piece, points in self.columns:
            result[piece] = (points.T * shares) @ (points @ matrix[piece])
        return result

    def project(self, groups: AnyIntegers, projection: Floats) -> Floats:
        """Gives every row's point in the projection.

        Privacy: sums of looked-up vectors in a fixed order, so that a row's point depends on nothing but that row.
        Shapes: (n, columns) groups, (width, p) to (n, p).
        """
        result = np.zeros((len(groups), projection.shape[1]))
        for place, (_, _, piece, points) in enumerate(self.columns):
            if piece.stop > piece.start:
                result += (points @ projection[piece])[groups[:, place]]
        return result


@dataclass(frozen=True, kw_only=True, eq=False)
class ProjectedGaussian:
    """A fitted Gaussian of one class. It holds no rows, and released numbers alone.

    Shapes: `projection` (width, p) with orthonormal columns, `factor` (p, p) with the covariance factor @ factor.T,
    `offsets` (width,), 0 for ranks.
    """

    coarsening: Coarsening
    is_rank: tuple[bool, ...]
    projection: Floats
    factor: Floats
    offsets: Floats

    def __post_init__(self) -> None:
        width, p = self.projection.shape
        is_sound = (
            len(self.is_rank) == len(self.coarsening.parts)
            and width == self.coordinates.width
            and self.factor.shape == (p, p)
            and self.offsets.shape == (width,)
            and all(np.all(np.isfinite(array)) for array in (self.projection, self.factor, self.offsets))
        )
        if not is_sound:
            raise DpwganError("Internal error: a projected Gaussian's arrays do not fit together.")

    @property
    def dimension(self) -> int:
        """Dimensions of the projection."""
        return int(self.projection.shape[1])

    @functools.cached_property
    def coordinates(self) -> Coordinates:
        """The coordinates of the columns."""
        return Coordinates(probabilities=self.coarsening.probabilities, is_rank=self.is_rank)

    def draw_points(self, records: int, *, rng: np.random.Generator) -> Floats:
        """Draws points: W s beside what W leaves of a draw e of independent columns, x = W s + e - W W^T e.

        Shapes: (records, width).
        """
        coordinates = self.coordinates
        inside = rng.standard_normal((records, self.dimension)) @ self.factor.T
        points = np.empty((records, coordinates.width))
        for shares, _, piece, values in coordinates.columns:
            if piece.stop > piece.start:
                roots = np.sqrt(shares)[:, np.newaxis]
                points[:, piece] = rng.standard_normal((records, len(shares))) @ (roots * values)
        points += (inside - points @ self.projection) @ self.projection.T
        return points

    @functools.cached_property
    def stddevs(self) -> Floats:
        """The stddev of each coordinate of `draw_points`. Shapes: (width,)."""
        coordinates, w = self.coordinates, self.projection
        across = coordinates.multiply(w)
        inside = w.T @ across
        variances = np.sum((w @ (self.factor @ self.factor.T + inside)) * w, axis=1) - 2 * np.sum(w * across, axis=1)
        for shares, _, piece, points in coordinates.columns:
            variances[piece] += shares @ np.square(points)
        result: Floats = np.sqrt(np.maximum(variances, 1e-12))
        return result

    def to_groups(self, points: Floats) -> Integers32:
        """The groups that points stand for. Shapes: (n, width) to (n, columns)."""
        stddevs, groups = self.stddevs, np.zeros((len(points), len(self.is_rank)), np.int32)
        for column, (shares, rank, piece, _) in enumerate(self.coordinates.columns):
            if piece.stop == piece.start:
                continue
            if rank:
                # A share of 0 has no quantile of its own, and the last one with a share takes what rounding leaves.
                ends = np.cumsum(shares)
                found = np.searchsorted(ends, ndtr(points[:, piece.start] / stddevs[piece.start]), side="right")
                groups[:, column] = np.minimum(found, np.flatnonzero(shares > 0)[-1])
            else:
                groups[:, column] = np.argmax(points[:, piece] + self.offsets[piece], axis=1)
        return groups

    def draw(self, records: int, *, rng: np.random.Generator) -> EncodedTable:
        """Draws rows, one or more. Privacy: post-processing of releases; free, however often."""
        width = self.coordinates.width + self.dimension
        most = max(1, _PIECE_BYTES // (8 * max(1, width)))
        pieces = [self.to_groups(self.draw_points(size, rng=rng)) for size in cut_sizes(records, most=most)]
        return self.coarsening.to_encoded(np.concatenate(pieces), rng=rng)


def fit_offsets(model: ProjectedGaussian, *, rng: np.random.Generator) -> Floats:
    """Finds offsets with which the largest coordinate of each one-hot column has the released shares.

    A group that comes up too seldom is raised by the logarithm of how much, in stddevs of its coordinate, by smaller
    and smaller steps, on draws of the model. Privacy: post-processing.
    Shapes: (width,).
    """
    coordinates = model.coordinates
    offsets = np.zeros(coordinates.width)
    if coordinates.width == 0 or all(model.is_rank):
        return offsets
    # Columns that share no coordinate can be fitted one by one on the same draws.
    rows = min(_OFFSET_ROWS, max(1024, _PIECE_BYTES * 4 // (8 * coordinates.width)))
    points = model.draw_points(rows, rng=rng)
    stddevs = model.stddevs
    for shares, rank, piece, _ in coordinates.columns:
        if rank or piece.stop == piece.start:
            continue
        drawn = np.ascontiguousarray(points[:, piece])
        offset = shares.copy()
        step = 1.0
        for _ in range(_OFFSET_STEPS):
            found = np.bincount(np.argmax(drawn + offset, axis=1), minlength=len(shares)) / rows
            offset += step * stddevs[piece] * np.log((shares + 1 / rows) / (found + 1 / rows))
            step = max(0.05, 0.97 * step)
        # A group without any share is never the largest.
        offset[shares <= 0] = -1e6
        offsets[piece] = offset
    return offsets


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassSampler:
    """One Gaussian for the whole table, or one a class and the classes' shares.

    `label` is the span of the column of classes, among `spans`, those of the whole table; None without classes.
    Shapes: `shares` (classes,).
    """

    certificate: ClassVar[None] = None
    """Nothing is certified about a Gaussian."""

    spans: tuple[Span, ...]
    label: Span | None
    shares: Floats
    models: tuple[ProjectedGaussian, ...]

    def __post_init__(self) -> None:
        inner = self.spans if self.label is None else leave_out(self.spans, self.label)
        is_sound = (
            len(self.models) == (1 if self.label is None else self.label.categories)
            and are_shares(self.shares, classes=len(self.models))
            and all(model.coarsening.spans == inner for model in self.models)
        )
        if not is_sound:
            raise DpwganError("Internal error: the classes of a projected Gaussian do not fit together.")

    def sample(self, records: int, *, rng: np.random.Generator) -> Iterator[EncodedTable]:
        """Draws rows in chunks: a class by its share, and the rest by its Gaussian.

        Privacy: post-processing of releases; free, however often.
        """
        for size in cut_sizes(records, most=_CHUNK):
            yield self._draw(size, rng=rng)

    def _draw(self, records: int, *, rng: np.random.Generator) -> EncodedTable:
        if self.label is None:
            return self.models[0].draw(records, rng=rng)
        whole = EncodedTable.make_empty(self.spans, records)
        others = [source for source in range(whole.codes.shape[1]) if source != self.label.source]
        classes = draw_labels(self.shares, records, rng=rng)
        whole.codes[:, self.label.source] = classes
        for index, model in enumerate(self.models):
            rows = np.flatnonzero(classes == index)
            if len(rows):
                part = model.draw(len(rows), rng=rng)
                whole.codes[rows[:, np.newaxis], others] = part.codes
                whole.numbers[rows] = part.numbers
        return whole

    def save(self, directory: Path) -> None:
        """Writes the model into an existing folder."""
        arrays = {"shares": self.shares}
        for index, model in enumerate(self.models):
            for name in _ARRAYS:
                arrays[f"{name}_{index}"] = getattr(model, name)
        np.savez(directory / PROJECTED_FILE, **arrays)
        document = {
            "label": None if self.label is None else self.spans.index(self.label),
            "spans": [asdict(span) for span in self.spans],
            "is_rank": [list(model.is_rank) for model in self.models],
            "groups": [model.coarsening.to_document() for model in self.models],
        }
        (directory / _COLUMNS_FILE).write_text(json.dumps(document))

    @classmethod
    def load(cls, directory: Path) -> "ClassSampler":
        """Reads a saved model. Raises: InputError if it is missing or damaged."""
        with reading_saved():
            document = json.loads((directory / _COLUMNS_FILE).read_text())
            spans = tuple(Span(**span) for span in document["spans"])
            label = document["label"]
            with np.load(directory / PROJECTED_FILE, allow_pickle=False) as archive:
                models = tuple(
                    ProjectedGaussian(
                        coarsening=Coarsening.from_document(groups),
                        is_rank=tuple(bool(flag) for flag in is_rank),
                        **{name: archive[f"{name}_{index}"].astype(np.float64) for name in _ARRAYS},
                    )
                    for index, (groups, is_rank) in enumerate(zip(document["groups"], document["is_rank"], strict=True))
                )
                shares = archive["shares"].astype(np.float64)
            return cls(spans=spans, label=None if label is None else spans[label], shares=shares, models=models)


_ARRAYS = ("projection", "factor", "offsets")
