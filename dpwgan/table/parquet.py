"""Parquet files: a table whose columns have types of their own, read as the cells of the same table in CSV.

Text is the cell as it stands, null the empty cell. A number, truth value or date is written by what the value itself
means, as `dpwgan.table.frames` does it for pandas; what a column may hold is still said by the specs alone. Written are
the types that the specs ask for: whole numbers, doubles, and text for everything else.

Files are read and written a few groups of rows at a time.
"""

import io
import queue
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from dpwgan.errors import DataError
from dpwgan.table.findings import Findings, check_header
from dpwgan.table.frames import TYPES, Cell, Refusal, Speller, give_type, write_cells
from dpwgan.table.schema import Schema
from dpwgan.table.source import SourceTable, choose_step, make_piece
from dpwgan.table.stream import ByteStream

_NO_CELL = Refusal("has a type that no cell can have")
# The last is no Exception: a damaged file can make the parser panic.
_UNREADABLE = (pl.exceptions.PolarsError, OSError, pl.exceptions.PanicException)
_GROUP = 1 << 16
# Seconds after which it is looked whether the other side is still there.
_PATIENCE = 0.5


def open_parquet(path: str | Path, schema: Schema, *, name: str, look_at_cells: bool = True) -> SourceTable:
    """Opens a Parquet file as a table of string cells. It is gone over once, so that what is wrong is told at once.

    Without `look_at_cells` the names of the columns and the number of rows are read, which the file's last part holds.
    Privacy: a row's cells are a function of that row's values and the specs.
    Raises: DataError if it is not Parquet, has no rows, its columns and the specs differ, or a value does not say which
      cell it is; as `ByteStream` if it cannot be opened.
    """
    stream = ByteStream(path)
    # What is no regular file can be read once, and not from any place of it.
    source = str(path) if stream.is_regular else stream.read()

    def scan() -> pl.LazyFrame:
        return pl.scan_parquet(source if isinstance(source, str) else io.BytesIO(source), glob=False)

    try:
        header = tuple(scan().collect_schema())
        records = int(scan().select(pl.len()).collect().item())
    except _UNREADABLE:
        # Its own words may quote cells.
        raise DataError(f"{name} is not a Parquet file that can be read.") from None
    check_header(header, schema)
    spellers = {column: Speller(schema.by_name[column]) for column in header}
    step = choose_step(len(header))

    def read() -> Iterator[tuple[pl.DataFrame, Findings]]:
        try:
            for batch in scan().collect_batches(chunk_size=step):
                for first in range(0, batch.height, step):
                    findings = Findings()
                    cells = {
                        values.name: _read_column(values, spellers[values.name], findings)
                        for values in batch.slice(first, step).get_columns()
                    }
                    yield pl.DataFrame(cells), findings
        except _UNREADABLE:
            raise DataError(f"{name} is not a Parquet file that can be read.") from None

    if look_at_cells:
        findings = Findings()
        for _, found in read():
            findings.merge(found)
        findings.raise_if_any()
    if not records:
        raise DataError("The table has a header but no rows.")
    return SourceTable(header=header, records=records, pieces=lambda: (make_piece(frame) for frame, _ in read()))


class ParquetWriter:
    """Packs a table of legal string cells that comes in chunks, and hands the bytes on as they come.

    Groups of rows have the same size however the chunks are cut: equal rows make equal bytes.
    The packing is a thread's work, so that whoever brings the rows can be interrupted.
    """

    def __init__(self, stream: IO[bytes], header: Sequence[str], schema: Schema) -> None:
        self._kinds = {name: schema.by_name[name].choose_type(schema)[0] for name in header}
        self._stream = stream
        self._queue: queue.Queue[pl.DataFrame | None] = queue.Queue(maxsize=1)
        self._error: BaseException | None = None
        self._broken_off = False
        self._thread = threading.Thread(target=self._pack, daemon=True)

    def __enter__(self) -> "ParquetWriter":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._broken_off = kind is not None
        self._put(None)
        self._thread.join()
        if kind is None and self._error is not None:
            raise self._error

    def write(self, frame: pl.DataFrame) -> None:
        """Takes more rows. Raises: whatever the stream raises."""
        self._put(pl.DataFrame([give_type(cells, self._kinds[cells.name]) for cells in frame]))
        if self._error is not None:
            raise self._error

    def _put(self, frame: pl.DataFrame | None) -> None:
        while self._thread.is_alive():
            try:
                self._queue.put(frame, timeout=_PATIENCE)
                return
            except queue.Full:
                continue

    def _pack(self) -> None:
        types = {name: TYPES[kind] for name, kind in self._kinds.items()}
        try:
            register_io_source(self._give, schema=types).sink_parquet(
                self._stream, row_group_size=_GROUP, maintain_order=True
            )
        except _BrokenOff:
            pass
        except BaseException as error:
            self._error = error

    def _give(
        self, columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        del columns, predicate, rows, batch_size  # all of it is asked for
        while (frame := self._queue.get()) is not None:
            yield frame
        if self._broken_off:
            raise _BrokenOff


class _BrokenOff(Exception):
    """There will be no more rows."""


def _read_column(values: pl.Series, speller: Speller, findings: Findings) -> pl.Series:
    kind = values.dtype
    if kind in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        return values.cast(pl.String).fill_null("")
    cells: list[Cell]
    if kind.is_nested():
        cells, places = [_NO_CELL], np.zeros(len(values), np.int64)
    elif (kind.is_numeric() and not kind.is_decimal()) or kind == pl.Boolean:
        # As an array, so that a float32 is written with its own digits and not with those of the double it becomes.
        filled = values.fill_null(False if kind == pl.Boolean else 0).to_numpy()
        distinct, places = np.unique(filled, return_inverse=True)
        cells = [speller.spell(value) for value in distinct]
    else:
        place_of = {value: place for place, value in enumerate(values.drop_nulls().unique(maintain_order=True))}
        places = np.array([place_of.get(value, -1) for value in values.to_list()], np.int64)
        cells = [speller.spell(value) for value in place_of]
    return write_cells(values.name, cells, np.where(values.is_null().to_numpy(), -1, places), findings)
