"""Columns encoded as how far they lie from another column's cell, so that order and distance are kept."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
import polars as pl

from dpwgan.errors import quote
from dpwgan.table.codecs.codec import EncodedCells, Flags, Missing, TrainedCodec, list_distinct
from dpwgan.table.codecs.moments import MomentCodec
from dpwgan.table.codecs.numbers import NumberCodec, Steps
from dpwgan.table.findings import Findings

Read = tuple[Missing, Steps, Mapping[str, Flags]]
"""Of (k,) cells the index of the missing code, -1 where there is none; where they lie; and which break which rule."""


class RelativeCodec(TrainedCodec):
    """A column as its distance from another one, in whose rows where there is none there is none here.

    `astray` is the rule that says how far it may lie: from `least` to `most` steps of `lag`. The claim's "each row by
    itself" holds: a cell is read beside the other cell of its row.
    """

    astray: ClassVar[str]
    out_of_domain: str
    lag: NumberCodec | MomentCodec
    least: int
    most: int

    def encode_row(self, frame: pl.DataFrame, findings: Findings) -> EncodedCells:
        """Reads both cells of (n,) rows, and counts those that lie too far apart or the wrong way round."""
        source = self.sources[0]
        missing, places, legal = _read_rows(frame.get_column(self.name), self.read_places, findings, self.name)
        no_start, starts, has_legal_start = _read_rows(frame.get_column(source), self.read_starts, Findings(), source)
        alone = legal & has_legal_start & (missing < 0) & (no_start >= 0)
        steps = self.count_steps(places, starts)
        both = legal & has_legal_start & (missing < 0) & (no_start < 0)
        astray = both & ((steps < self.least) | (steps > self.most))
        if self.out_of_domain == "missing":
            missing = np.where(alone | astray, 0, missing).astype(np.int32)
        else:
            findings.add(self.name, f"is there where {quote(source)} is not", int(np.count_nonzero(alone)))
            if self.out_of_domain == "reject":
                findings.add(self.name, self.astray.format(quote(source)), int(np.count_nonzero(astray)))
        return self.lag.encode_steps(missing, np.where(missing < 0, steps, self.least).clip(self.least, self.most))

    def decode_row(self, encoded: EncodedCells, rng: np.random.Generator, cells: Mapping[str, pl.Series]) -> pl.Series:
        """Adds (n,) distances to what was decoded already."""
        source = self.sources[0]
        missing, steps = self.lag.decode_steps(encoded, rng)
        no_start, starts, _ = _read_rows(cells[source], self.read_starts, Findings(), source)
        if self.missing:
            own = np.full(len(steps), -1, np.int32) if missing is None else missing
            missing = np.where((own < 0) & (no_start >= 0), 0, own).astype(np.int32)
        return self.put_missing(self.write_places(starts, steps), missing)

    def count_illegal(self, frame: pl.DataFrame) -> int:
        """Looks at both cells as such, one row after the other."""
        lies_right = self.lie_right(frame).fill_null(False)
        lies_right |= frame.get_column(self.name).cast(pl.String).is_in(list(self.missing))
        return max(super().count_illegal(frame), int((~lies_right).sum()))

    @abstractmethod
    def read_places(self, cells: pl.Series) -> Read:
        """Reads (k,) different cells of this column."""

    @abstractmethod
    def read_starts(self, cells: pl.Series) -> Read:
        """Reads (k,) different cells of the other column."""

    @abstractmethod
    def count_steps(self, places: Steps, starts: Steps) -> Steps:
        """How far (n,) places lie from their starts."""

    @abstractmethod
    def write_places(self, starts: Steps, steps: Steps) -> pl.Series:
        """Writes what lies so many steps from (n,) starts."""

    @abstractmethod
    def lie_right(self, frame: pl.DataFrame) -> pl.Series:
        """Says of (n,) rows of the output whether the distance is one that may be; NULL where a cell is missing."""


def _read_rows(
    cells: pl.Series, read: Callable[[pl.Series], Read], findings: Findings, name: str
) -> tuple[Missing, Steps, Flags]:
    """Of (n,) rows which missing code a cell is, or where it lies, and whether it is legal by itself."""
    distinct, rows = list_distinct(cells)
    missing, places, illegal = read(pl.Series(distinct, dtype=pl.String))
    legal = np.ones(len(distinct), np.bool_)
    for rule, broken in illegal.items():
        legal &= ~broken
        if broken.any():
            findings.add(name, rule, int(np.count_nonzero(broken.take(rows))))
    return missing.take(rows), places.take(rows), legal.take(rows)
