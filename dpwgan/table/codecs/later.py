"""Dates and times encoded as the time since another column's, so that their order and distance are kept."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from dpwgan.errors import quote
from dpwgan.table.calendar import DAY, LaterColumn
from dpwgan.table.codecs.codec import EncodedCells, Missing, list_distinct
from dpwgan.table.codecs.moments import MomentCodec
from dpwgan.table.findings import Findings
from dpwgan.table.moments import MOMENT, read_moments, write_moments

Moments = npt.NDArray[np.int64]
"""Microseconds since the beginning of 1970."""


class LaterCodec(MomentCodec):
    """Moments as the time since those of another column, in whose rows where there is none there is none here.

    The claim's "each row by itself" holds: a cell is read beside the other cell of its row.
    """

    fault = "is not as long after the other column's moment as the specs say"

    def __init__(self, column: LaterColumn, earlier: MomentCodec) -> None:
        super().__init__(column)
        self._later, self._earlier = column, earlier
        self._lag = MomentCodec(column.lag)
        self.sources = (column.since,)

    def encode_row(self, frame: pl.DataFrame, findings: Findings) -> EncodedCells:
        """Reads both moments of (n,) rows, and counts those that lie too far apart or the wrong way round."""
        column = self._later
        missing, moments, legal = self._read_rows(self, frame, findings)
        no_start, starts, has_legal_start = self._read_rows(self._earlier, frame, Findings())
        alone = legal & has_legal_start & (missing < 0) & (no_start >= 0)
        steps = (moments - self._find_beginning(starts) - column.least) // column.step
        both = legal & has_legal_start & (missing < 0) & (no_start < 0)
        astray = both & ((steps < 0) | (steps > column.lag.steps))
        if column.out_of_domain == "missing":
            missing = np.where(alone | astray, 0, missing).astype(np.int32)
        else:
            findings.add(self.name, f"is there where {quote(column.since)} is not", int(np.count_nonzero(alone)))
            if column.out_of_domain == "reject":
                rule = f"is not as long after {quote(column.since)} as the specs say"
                findings.add(self.name, rule, int(np.count_nonzero(astray)))
        return self._lag.encode_steps(missing, np.where(missing < 0, steps.clip(0, column.lag.steps), 0))

    def decode_row(self, encoded: EncodedCells, rng: np.random.Generator, cells: Mapping[str, pl.Series]) -> pl.Series:
        """Adds (n,) times between to the moments that were decoded already."""
        column = self._later
        missing, steps = self._lag.decode_steps(encoded, rng)
        no_start, starts, _ = self._read_rows(self._earlier, cells[column.since].to_frame(column.since), Findings())
        if column.missing:
            own = np.full(len(steps), -1, np.int32) if missing is None else missing
            missing = np.where((own < 0) & (no_start >= 0), 0, own).astype(np.int32)
        moments = pl.Series(self._find_beginning(starts) + column.least + steps * column.step).cast(MOMENT)
        return self.put_missing(write_moments(moments, column), missing)

    def count_illegal(self, frame: pl.DataFrame) -> int:
        """Looks at dates and times as such, one row after the other."""
        column = self._later
        own, start = (read_moments(frame.get_column(codec.name), codec.column) for codec in (self, self._earlier))
        if column.by_days:
            between = (own.dt.date() - start.dt.date()).dt.total_microseconds()
        else:
            between = (own - start).dt.total_microseconds()
        lies_right = between.is_between(column.least, column.most).fill_null(False)
        lies_right |= frame.get_column(self.name).cast(pl.String).is_in(list(column.missing))
        return max(super().count_illegal(frame), int((~lies_right).sum()))

    def _find_beginning(self, starts: Moments) -> Moments:
        return starts // DAY * DAY if self._later.by_days else starts

    @staticmethod
    def _read_rows(
        codec: MomentCodec, frame: pl.DataFrame, findings: Findings
    ) -> tuple[Missing, Moments, npt.NDArray[np.bool_]]:
        """Of (n,) rows which missing code a cell is, or the moment, and whether it is legal by itself."""
        distinct, places = list_distinct(frame.get_column(codec.name))
        missing, steps, illegal = codec.read(pl.Series(distinct, dtype=pl.String))
        legal = np.ones(len(distinct), np.bool_)
        for rule, broken in illegal.items():
            legal &= ~broken
            if broken.any():
                findings.add(codec.name, rule, int(np.count_nonzero(broken.take(places))))
        return missing.take(places), codec.add_steps(steps).take(places), legal.take(places)
