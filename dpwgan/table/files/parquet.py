"""Parquet files: a table whose columns have types of their own, read as the cells of the same table in CSV.

Text is the cell as it stands, null the empty cell. A number, truth value or date is written by what the value itself
means (`dpwgan.table.spelling`); what a column may hold is still said by the specs alone. Written are the types of the
table that was read, or else those that the specs ask for (`dpwgan.table.types`).

Files are read and written a few groups of rows at a time.
"""

import base64
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import polars as pl
from polars.io.plugins import register_io_source
from polars.selectors import by_name

from dpwgan.errors import DataError, quote
from dpwgan.stages import reading
from dpwgan.table.files.stream import ByteStream
from dpwgan.table.findings import Findings, check_header
from dpwgan.table.schema import Schema
from dpwgan.table.source import Piece, SourceTable, choose_step
from dpwgan.table.spelling import Speller, spell_values
from dpwgan.table.types import choose_type, give_type

_GROUP = 1 << 16
# Seconds after which it is looked whether the other side is still there.
_PATIENCE = 0.5


@contextmanager
def telling(name: str) -> Iterator[None]:
    """Turns errors of a damaged Parquet file in the block into one sentence: their own words may quote cells.

    Raises: DataError.
    """
    try:
        yield
    except (pl.exceptions.PolarsError, OSError, pl.exceptions.PanicException):  # the last is no Exception
        raise DataError(f"{name} is not a Parquet file that can be read.") from None


def open_parquet(path: str | Path, schema: Schema, *, name: str) -> SourceTable:
    """Opens a Parquet file as a table of string cells: reads names and the number of rows, which its last part holds.

    Privacy: a row's cells are a function of that row's values and the specs.
    Raises: DataError if it is not Parquet, or its columns and the specs differ; as `ByteStream` if it cannot be opened.
    """
    stream = ByteStream(path)
    # What is no regular file can be read once, and not from any place of it.
    source = str(path) if stream.is_regular else stream.read()

    def scan() -> pl.LazyFrame:
        return pl.scan_parquet(source, glob=False)

    with telling(name):
        types = dict(scan().collect_schema())
        records = int(scan().select(pl.len()).collect().item())
    header = tuple(types)
    check_header(header, schema)
    with telling(name):
        if pl.Time in types.values():
            _refuse_seconds(source, schema)
    spellers = {column: Speller(schema.by_name[column]) for column in filter(schema.is_read, header)}
    step = choose_step(len(header))

    def spell(values: pl.DataFrame, findings: Findings) -> pl.DataFrame:
        with telling(name):
            columns = values.get_columns()
            return pl.DataFrame({own.name: spell_values(own, spellers[own.name], findings) for own in columns})

    def pieces() -> Iterator[Piece]:
        with telling(name), reading():
            for batch in scan().select(by_name(*spellers)).collect_batches(chunk_size=step):
                for values in batch.iter_slices(step):
                    findings = Findings()
                    yield Piece(records=values.height, parse=partial(spell, values, findings), findings=findings)

    return SourceTable(header=header, records=records, types=types, pieces=pieces)


def _refuse_seconds(source: str | bytes, schema: Schema) -> None:
    """Refuses times of day that Arrow had in seconds: polars has them a thousand times as late, or not at all."""
    import pyarrow as pa

    told = pl.read_parquet_metadata(source).get("ARROW:schema", "")
    try:
        fields = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(told)))
    except (ValueError, OSError):  # none, or none that polars goes by
        return
    for field in fields:
        if schema.is_read(field.name) and getattr(field.type, "value_type", field.type) == pa.time32("s"):
            raise DataError(
                f"Column {quote(field.name)}: times in whole seconds, which polars misreads: write finer ones."
            )


class ParquetWriter:
    """Packs a table of legal string cells that comes in chunks, and hands the bytes on as they come.

    Groups of rows have the same size however the chunks are cut: equal rows make equal bytes.
    The packing is a thread's work, so that whoever brings the rows can be interrupted.
    """

    def __init__(
        self, stream: IO[bytes], header: Sequence[str], schema: Schema, types: Mapping[str, pl.DataType]
    ) -> None:
        self._columns = [schema.by_name[name] for name in header]
        types = {name: choose_type(schema.by_name[name], schema, types.get(name)) for name in header}
        # pandas cannot read the dictionaries that polars writes: their indices have no sign.
        self._types = {name: pl.String() if kind == pl.Categorical else kind for name, kind in types.items()}
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
        columns = ((frame.get_column(column.name), column) for column in self._columns)
        self._put(
            pl.DataFrame({column.name: give_type(cells, column, self._types[column.name]) for cells, column in columns})
        )
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
        try:
            register_io_source(self._give, schema=self._types).sink_parquet(
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
