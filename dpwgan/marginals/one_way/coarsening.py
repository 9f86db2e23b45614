"""Groups of cells that hold enough records to stand out of the noise, and the way back to cells.

All of it is post-processing of the released one-way counts: nothing is chosen by reading rows.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dpwgan.array_types import AnyIntegers, Floats, Integers, Integers32
from dpwgan.errors import DpwganError, InputError
from dpwgan.marginals.answers.measurements import GroupedRows
from dpwgan.marginals.groups import GroupLayout
from dpwgan.marginals.layout import Attribute, lay_out_attributes
from dpwgan.marginals.one_way.day_kinds import DayKinds
from dpwgan.marginals.one_way.round_steps import RoundSteps
from dpwgan.table.encoded import EncodedTable, Span
from dpwgan.table.rows import Derivation
from dpwgan.table.storage import allocate_beside, cut, let_go

_NUMBER_FIELDS = ("weights", "probabilities", "counts", "stddevs")


@dataclass(frozen=True, kw_only=True, eq=False)
class AttributeGroups:
    """How one attribute's cells lie in groups.

    The cells are cut into intervals, one code or a run of levels each: `starts` (m,) rise from 0, `groups` (m,) are the
    group of each, `weights` (m,) the distribution of each group's rows over its intervals. For each group, (k,):
    `probabilities`, its estimated share of the records, on the simplex; `counts` and `stddevs`, the noisy count, not
    projected, and the stddev of its noise. These are independent between groups, except that the same counts chose the
    groups. Levels within an interval are uniform, or as `odds` say, whose levels begin after `codes` cells.
    """

    cells: int
    starts: Integers
    groups: Integers32
    weights: Floats
    probabilities: Floats
    counts: Floats
    stddevs: Floats
    codes: int = 0
    odds: RoundSteps | DayKinds | None = None

    def __post_init__(self) -> None:
        intervals, groups = len(self.starts), len(self.probabilities)
        is_sound = (
            groups >= 1
            and self.groups.shape == self.weights.shape == (intervals,)
            and self.counts.shape == self.stddevs.shape == (groups,)
            and intervals >= 1
            and self.starts[0] == 0
            and np.all(np.diff(self.starts) > 0)
            and self.starts[-1] < self.cells
            and np.array_equal(np.unique(self.groups), np.arange(groups))
            and all(np.all(np.isfinite(getattr(self, name))) for name in _NUMBER_FIELDS)
            and all(np.all(array >= 0) for array in (self.weights, self.probabilities, self.stddevs))
            and math.isclose(float(self.probabilities.sum()), 1.0, rel_tol=1e-6)
            and np.allclose(np.bincount(self.groups, self.weights), 1.0, rtol=1e-6)
            and (not isinstance(self.odds, DayKinds) or self.odds.levels == self.cells - self.codes)
        )
        if not is_sound:
            raise DpwganError("Internal error: the groups of an attribute's cells do not fit together.")

    @property
    def size(self) -> int:
        """Number of groups."""
        return len(self.probabilities)

    def find_groups(self, cells: Integers) -> Integers32:
        """The group of every cell. Shapes: (n,)."""
        if len(self.starts) == self.cells:
            found: Integers32 = self.groups[cells]
        else:
            found = self.groups[np.searchsorted(self.starts, cells, side="right") - 1]
        return found

    def draw_cells(self, groups: Integers32, *, rng: np.random.Generator) -> Integers:
        """Draws a cell for every group: an interval by its weight, and a cell of it uniformly or by the odds.

        Shapes: (n,).
        """
        order = np.argsort(self.groups, kind="stable")
        bounds = np.searchsorted(self.groups[order], np.arange(self.size + 1))
        sizes = np.diff(self.starts, append=self.cells)
        first = order[bounds[:-1]]
        cells: Integers = self.starts[first][groups]
        # A group of one cell, as most codes are, needs no draw.
        several = (np.diff(bounds) > 1) | (sizes[first] > 1)
        rows = np.flatnonzero(several[groups])
        chosen = self._draw_intervals(groups[rows], order=order, bounds=bounds, rng=rng)
        if self.odds is None:
            cells[rows] = self.starts[chosen] + rng.integers(0, sizes[chosen])
            return cells
        wide = sizes[chosen] > 1
        cells[rows[~wide]] = self.starts[chosen[~wide]]
        cells[rows[wide]] = self.codes + self.odds.draw(self.starts - self.codes, sizes, chosen[wide], rng=rng)
        return cells

    def find_odds(self, cells: Integers) -> Floats:
        """The probability of each cell over the mean of its group. Shapes: (n,)."""
        places, sizes = np.searchsorted(self.starts, cells, side="right") - 1, np.diff(self.starts, append=self.cells)
        odds: Floats = (self.weights / sizes * np.bincount(self.groups, sizes)[self.groups])[places]
        if self.odds is not None:
            wide = np.flatnonzero(sizes > 1)
            mean = np.ones(len(sizes))
            mean[wide] = self.odds.weigh(self.starts[wide] - self.codes, sizes[wide])
            rows = np.flatnonzero(sizes[places] > 1)
            own = self.odds.weigh(cells[rows] - self.codes, np.ones(len(rows), np.int64))
            odds[rows] *= own / np.maximum(mean[places[rows]], 1e-12)
        return odds

    def _draw_intervals(
        self, groups: Integers32, *, order: Integers, bounds: Integers, rng: np.random.Generator
    ) -> Integers:
        """Draws an interval for every group. `order` sorts intervals by group; each group begins at its bound."""
        # One rising scale for all groups: group g holds the interval [g, g + 1).
        within = np.cumsum(self.weights[order])
        within -= np.concatenate(([0.0], within))[bounds[self.groups[order]]]
        scale = self.groups[order] + np.minimum(within, 1.0)
        drawn = np.searchsorted(scale, groups + rng.random(len(groups)), side="right")
        # Rounded sums must not lead into another group, nor to an interval of weight 0.
        weighted = np.flatnonzero(self.weights[order] > 0)
        last = weighted[np.searchsorted(weighted, bounds[1:]) - 1]
        return order[np.clip(drawn, bounds[groups], last[groups])]


@dataclass(frozen=True, kw_only=True, eq=False)
class Coarsening:
    """The table's attributes with their cells in groups: all that methods that fit counts see."""

    spans: tuple[Span, ...]
    parts: tuple[AttributeGroups, ...]

    def __post_init__(self) -> None:
        cells = [attribute.cells for attribute in self.attributes]
        if cells != [part.cells for part in self.parts]:
            raise DpwganError("Internal error: the groups of cells do not fit the columns.")

    @functools.cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes, one a trained column."""
        return lay_out_attributes(self.spans)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of groups of each attribute."""
        return tuple(part.size for part in self.parts)

    @property
    def width(self) -> int:
        """Number of groups of all attributes: the width of a one-hot row."""
        return sum(self.sizes)

    @property
    def probabilities(self) -> tuple[Floats, ...]:
        """Each attribute's estimated shares, one a group, on the simplex."""
        return tuple(part.probabilities for part in self.parts)

    @property
    def counts(self) -> tuple[Floats, ...]:
        """Each attribute's noisy counts, one a group, not projected."""
        return tuple(part.counts for part in self.parts)

    @property
    def stddevs(self) -> tuple[Floats, ...]:
        """The stddevs of the noise on `counts`."""
        return tuple(part.stddevs for part in self.parts)

    def to_groups(self, encoded: EncodedTable) -> Integers:
        """The group of every row in every attribute, a function of each row alone; in memory or on disk as rows are.

        Shapes: (n, attributes), of the shortest type of whole numbers.
        Raises: DpwganError, an internal error, if the table is not laid out as these attributes.
        """
        if encoded.spans != self.spans:
            raise DpwganError("Internal error: the encoded table is not laid out as its groups of cells.")
        attributes = self.attributes
        beside = encoded.codes if encoded.codes.shape[1] else encoded.numbers
        kind = np.min_scalar_type(max(self.sizes, default=1) - 1)
        groups: Integers = allocate_beside(beside, (encoded.records, len(attributes)), kind)
        for rows in cut(encoded.records):
            for index, (attribute, part) in enumerate(zip(attributes, self.parts, strict=True)):
                groups[rows, index] = part.find_groups(attribute.find_cells(encoded, rows))
            let_go(encoded.codes, encoded.numbers, groups)
        return groups

    def to_encoded(self, groups: AnyIntegers, *, rng: np.random.Generator) -> EncodedTable:
        """Draws an encoded row for every row of groups; `to_groups` gives the same groups back.

        Shapes: (n, attributes).
        Raises: DpwganError, an internal error, if a group does not exist.
        """
        if groups.ndim != 2 or groups.shape[1] != len(self.parts):
            raise DpwganError("Internal error: rows of groups need one group for each attribute.")
        if len(groups) and not (np.all(groups >= 0) and np.all(groups < np.array(self.sizes))):
            raise DpwganError("Internal error: a row holds a group that does not exist.")
        # Column-major, as columns are written and read one at a time.
        encoded = EncodedTable.make_empty(self.spans, len(groups), order="F")
        for index, (attribute, part) in enumerate(zip(self.attributes, self.parts, strict=True)):
            chosen = groups[:, index].astype(np.int32)
            attribute.put_cells(part.draw_cells(chosen, rng=rng), into=encoded)
        return encoded

    def to_document(self) -> dict[str, Any]:
        """All of it as JSON-able values, for `from_document`."""
        return {
            "spans": [asdict(span) for span in self.spans],
            "attributes": [
                {
                    "cells": part.cells,
                    "codes": part.codes,
                    "starts": part.starts.tolist(),
                    "groups": part.groups.tolist(),
                    **{name: getattr(part, name).tolist() for name in _NUMBER_FIELDS},
                    "round_steps": None if part.odds is None else part.odds.to_document(),
                }
                for part in self.parts
            ],
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "Coarsening":
        """Reads what `to_document` gave. Raises: InputError if it is damaged."""
        try:
            return cls(
                spans=tuple(Span(**span) for span in document["spans"]),
                parts=tuple(
                    AttributeGroups(
                        cells=int(part["cells"]),
                        starts=np.array(part["starts"], np.int64),
                        groups=np.array(part["groups"], np.int32),
                        **{name: np.array(part[name], np.float64) for name in _NUMBER_FIELDS},
                        codes=int(part["codes"]),
                        odds=part["round_steps"] and _read_odds(part["round_steps"]),
                    )
                    for part in document["attributes"]
                ),
            )
        except (DpwganError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"the saved groups of cells are missing or damaged ({type(error).__name__})") from None


def _read_odds(document: dict[str, Any]) -> RoundSteps | DayKinds:
    return DayKinds.from_document(document) if "first_day" in document else RoundSteps.from_document(document)


class CoarseRows(NamedTuple):
    """Encoded rows with a coarsening, for counts of both cells and groups."""

    encoded: EncodedTable
    coarsening: Coarsening

    def find_groups(self, attribute: int, rows: slice = slice(None)) -> Integers:
        """The group of every row in an attribute. Shapes: (n,)."""
        cells = self.coarsening.attributes[attribute].find_cells(self.encoded, rows)
        return self.coarsening.parts[attribute].find_groups(cells).astype(np.int64)

    def copy(self) -> "CoarseRows":
        """A copy of the rows, to be redrawn."""
        encoded = self.encoded
        return self._replace(encoded=replace(encoded, codes=encoded.codes.copy(), numbers=encoded.numbers.copy()))


CELLS = Derivation[EncodedTable, CoarseRows](
    "cells", lambda encoded, document, beside: CoarseRows(encoded, Coarsening.from_document(document))
)
"""Rows with a `Coarsening`, from its document."""


def _group(rows: CoarseRows, detailed: Sequence[int]) -> GroupedRows:
    encoded, coarsening = rows
    cells = {place: _find_cells(coarsening.attributes[place], encoded) for place in detailed}
    return GroupedRows(coarsening.to_groups(encoded), GroupLayout(coarsening.sizes), cells)


def _find_cells(attribute: Attribute, encoded: EncodedTable) -> AnyIntegers:
    """The cell of every row in an attribute; in memory or on disk as rows are. Shapes: (n,)."""
    cells: AnyIntegers
    cells = allocate_beside(encoded.codes, (encoded.records, 1), np.min_scalar_type(attribute.cells - 1))[:, 0]
    for rows in cut(encoded.records):
        cells[rows] = attribute.find_cells(encoded, rows)
        let_go(encoded.codes, cells)
    return cells


GROUPS = Derivation[CoarseRows, GroupedRows]("groups", lambda rows, detailed, beside: _group(rows, detailed))
"""Rows of groups; of the named attributes the cells as well."""
