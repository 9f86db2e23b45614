"""Rows as fits get them: all in one place; and tables as they become rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dpwgan.marginals.answers.measurements import GroupedRows
from dpwgan.marginals.groups import GroupLayout
from dpwgan.plan import Run
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.randomness import make_streams
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.rows import Rows
from dpwgan.table.source import make_piece


def hold(encoded: EncodedTable, *, records: int | None = None) -> Rows[EncodedTable]:
    """Gives a table as the rows of a run; `records` as `hold_groups`."""
    return Rows(encoded, records=encoded.records if records is None else records)


def hold_groups(groups: npt.NDArray[np.int32], layout: GroupLayout, *, records: int | None = None) -> Rows[GroupedRows]:
    """Gives rows of groups; `records` is the public number, where null records are left out."""
    return Rows(GroupedRows(groups, layout), records=len(groups) if records is None else records)


def make_run(
    encoded: EncodedTable,
    *,
    ledger: Ledger,
    seed: int = 1,
    progress: Callable[..., Any] = lambda *_: None,
    device: str = "cpu",
    records: int | None = None,
) -> Run:
    """Gives all that a fit gets. `seed` is the model's: noise is the ledger's business."""
    rows = hold(encoded, records=records)
    return Run(ledger=ledger, rows=rows, model=make_streams(seed).model, progress=progress, device=device)


def encode_table(encoder: TableEncoder, frame: pl.DataFrame) -> EncodedTable:
    """Encodes a whole frame of cells. Raises: as `TableEncoder.encode_pieces`."""
    return encoder.encode_pieces([make_piece(frame)], records=frame.height, threads=1)


def round_trip(encoder: TableEncoder, frame: pl.DataFrame) -> pl.DataFrame:
    """Encodes a whole frame of cells and decodes it again."""
    return encoder.decode(encode_table(encoder, frame), np.random.default_rng(0))
