"""Files that appear whole or not at all: written beside their target, forced to disk, then renamed onto it.

A table and its claim are put in place together, the claim first, so that no table stands without one. Output to "-"
(standard output) and to devices and pipes is held back until it is complete, then copied.
"""

import contextlib
import gzip
import hashlib
import io
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import polars as pl

from dpwgan.errors import OutputError, TransferError
from dpwgan.table.files.arrays import pack_table
from dpwgan.table.files.csv import write_header, write_rows
from dpwgan.table.files.parquet import ParquetWriter
from dpwgan.table.files.places import choose_passing_name, goes_to_stream, sync, write_all
from dpwgan.table.files.reader import get_format
from dpwgan.table.files.stream import MOST_HELD_IN_MEMORY, PIECE
from dpwgan.table.schema import Schema
from dpwgan.table.threads import map_in_order


@dataclass(frozen=True, kw_only=True)
class WrittenTable:
    """What was written: the number of rows below the header, and the SHA-256 of the file's bytes."""

    records: int
    sha256: str


def write_table(
    path: str | Path,
    frames: Iterable[pl.DataFrame],
    *,
    header: Sequence[str],
    line_ending: str = "\n",
    schema: Schema,
    types: Mapping[str, pl.DataType] | None = None,
    threads: int | None = None,
    claim_path: str | Path | None = None,
    make_claim: Callable[[WrittenTable], bytes] = lambda written: b"",
) -> WrittenTable:
    """Writes a table that comes in chunks: CSV, gzipped if the path ends in .gz, or what .npz or .parquet asks for.

    In CSV cells are quoted only where they have to be. The other forms have the `types` of the table that was read
    where these hold all legal cells, else those of the `schema`; .npz is held in memory until it is whole.
    `threads` put chunks into bytes side by side, by default all cores.
    With a `claim_path` the table appears last, when all of its claim is in place: `make_claim` is called when the table
    is complete on disk but does not show yet, and if it raises, nothing appears.
    Raises: OutputError if the file cannot be created; TransferError if writing breaks off; whatever `frames` and
      `make_claim` raise. In each case no file is left, and one that stood there before still does.
    """
    with _stage(path) as table, contextlib.nullcontext() if claim_path is None else _stage(claim_path) as claim:
        with _HashedStream(table) as stream:
            try:
                records = _write_rows(stream, path, frames, header, line_ending, schema, types or {}, threads)
            except (Exception, pl.exceptions.PanicException):
                if stream.broken is not None:  # whoever packs the table tells it in words of its own
                    raise stream.broken from None
                raise
        written = WrittenTable(records=records, sha256=stream.digest.hexdigest())
        table.finish()
        if claim is not None:
            claim.write(make_claim(written))
            claim.finish()
        try:
            if claim is not None:
                claim.publish()
            table.publish()
        except BaseException as error:
            if isinstance(error, TransferError) and isinstance(table, _BesideFile) and table.shows:
                # Its folder could not be forced to disk. But it can be read: whoever ran once more would spend twice.
                return written
            # A claim for a table that is not there would be harmless but odd; beside an older table it stays, and so
            # it does when a stream's reader has seen some of the rows.
            alone = not table.shows and (goes_to_stream(path) or not os.path.exists(path))
            if isinstance(claim, _BesideFile) and claim.shows and alone:
                with contextlib.suppress(OSError):
                    os.unlink(claim._target)
            raise
    return written


def write_bytes(path: str | Path, data: bytes, *, private: bool = False) -> None:
    """Writes a small file, which with `private` nobody but this user can read. Raises: as `write_table`."""
    with _stage(path, private=private) as pending:
        pending.write(data)
        pending.finish()
        pending.publish()


def check_writable(path: str | Path) -> None:
    """Makes sure that a file can be created where the output is to go, before any work is done. Leaves no file.

    Raises: OutputError if it cannot.
    """
    with _stage(path):
        pass


@contextlib.contextmanager
def _stage(path: str | Path, *, private: bool = False) -> Iterator["_BesideFile | _HeldStream"]:
    """Opens a place for an output, and clears it on every way out, KeyboardInterrupt and SystemExit included."""
    pending: _BesideFile | _HeldStream
    if str(path) == "-":
        pending = _HeldStream("standard output", _open_standard_output)
    elif goes_to_stream(path):
        pending = _HeldStream(repr(str(path)), lambda: os.open(path, os.O_WRONLY))
    else:
        pending = _BesideFile(path, private=private)
    try:
        yield pending
    finally:
        pending.discard()


def _open_standard_output() -> int:
    """Opens the process's standard output past Python's own buffer, which could fail once more when Python ends."""
    if sys.stdout is not None:
        sys.stdout.flush()
    return os.dup(1)


class _BesideFile:
    """A file under a passing name in the target's folder.

    It takes bytes, is finished when all of them are kept, and published when it has its own name; discarding it leaves
    no trace of what was not published. `shows` says whether anything of it is to be seen in its place.
    """

    def __init__(self, path: str | Path, *, private: bool) -> None:
        # Through links, so that the file a link points to is replaced and not the link.
        self._target = os.path.realpath(path)
        self._shown = repr(str(path))
        if os.path.isdir(self._target):
            raise OutputError(f"The output {self._shown} is a folder.")
        self._private = private
        self._name: str | None = None
        self._descriptor = -1
        self.shows = False
        try:
            self._name = str(choose_passing_name(self._target))
            self._descriptor = os.open(self._name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            raise OutputError(f"The output {self._shown} cannot be created: its folder does not exist.") from None
        except OSError as error:
            raise OutputError(f"The output {self._shown} cannot be created: {error.strerror}.") from None
        except BaseException:
            # An interruption may come between the file's creation and the end of this constructor.
            self.discard()
            raise

    def write(self, data: bytes | memoryview) -> None:
        with _telling(self._shown):
            write_all(self._descriptor, data)

    def finish(self) -> None:
        with _telling(self._shown):
            # Some file systems know no rights; the file is then as private as they make it.
            with contextlib.suppress(PermissionError):
                os.fchmod(self._descriptor, self._get_mode())
            os.fsync(self._descriptor)
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def publish(self) -> None:
        if self._name is None:
            return
        try:
            os.rename(self._name, self._target)
        except OSError as error:
            raise OutputError(f"The output {self._shown} cannot be put in place: {error.strerror}.") from None
        self._name = None
        self.shows = True
        with _telling(self._shown):
            sync(Path(self._target).parent)

    def discard(self) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1
        if self._name is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._name)
            self._name = None

    def _get_mode(self) -> int:
        """This user's alone if it is private; else those of the file that is replaced, or of any new file."""
        if self._private:
            return 0o600
        try:
            return stat.S_IMODE(os.stat(self._target).st_mode) & 0o777
        except OSError:
            mask = os.umask(0o077)
            os.umask(mask)
            return 0o666 & ~mask


class _HeldStream:
    """Bytes held back for a stream, which cannot be renamed or taken back, until all of them are known to be good.

    `shows` says whether a reader may have seen any of them. All else is as with `_BesideFile`.
    """

    def __init__(self, shown: str, open_stream: Callable[[], int]) -> None:
        self._shown = shown
        self._open_stream = open_stream
        self.shows = False
        # Closed by `discard`, on every way out of `_stage`.
        self._held: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=MOST_HELD_IN_MEMORY)  # noqa: SIM115

    def write(self, data: bytes | memoryview) -> None:
        with _telling(self._shown):
            self._held.write(data)

    def finish(self) -> None:
        with _telling(self._shown):
            self._held.seek(0)

    def publish(self) -> None:
        try:
            descriptor = self._open_stream()
        except OSError as error:
            raise OutputError(f"The output {self._shown} cannot be opened: {error.strerror}.") from None
        try:
            with _telling(self._shown):
                while data := self._held.read(PIECE):
                    written = os.write(descriptor, data)
                    self.shows = True
                    write_all(descriptor, data[written:])
        finally:
            os.close(descriptor)

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            self._held.close()


class _HashedStream(io.RawIOBase):
    """Passes bytes on to a pending output and keeps their digest.

    Whoever packs a table on threads of its own may write once more after it was broken off. By then the output's file
    is closed, and its number may be another file's. So a closed stream takes nothing, and closing waits for a write.
    """

    def __init__(self, pending: _BesideFile | _HeldStream) -> None:
        self._pending = pending
        self._turn = threading.Lock()
        self.digest = hashlib.sha256()
        self.broken: TransferError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        with self._turn:
            if self.closed:
                raise ValueError("the output is closed")
            try:
                self._pending.write(data)
            except TransferError as error:
                self.broken = error
                raise
            self.digest.update(data)
        return len(data)

    def close(self) -> None:
        with self._turn:
            super().close()


def _write_rows(
    stream: "_HashedStream",
    path: str | Path,
    frames: Iterable[pl.DataFrame],
    header: Sequence[str],
    line_ending: str,
    schema: Schema,
    types: Mapping[str, pl.DataType],
    threads: int | None,
) -> int:
    """The number of rows."""
    form = get_format(path)
    records = 0
    if form == "csv":
        # An archive may have many members, so that they can be made side by side. No name and no time is in them: equal
        # rows make equal bytes.
        packs = str(path).endswith(".gz")

        def pack(text: bytes) -> bytes:
            return gzip.compress(text, compresslevel=6, mtime=0) if packs else text

        def write(frame: pl.DataFrame) -> tuple[int, bytes]:
            return frame.height, pack(write_rows(frame, line_ending))

        stream.write(pack(write_header(header, line_ending)))
        for height, text in map_in_order(write, frames, threads=threads):
            stream.write(text)
            records += height
    elif form == "npz":
        records, data = pack_table(frames, schema)
        stream.write(data)
    else:
        with ParquetWriter(stream, header, schema, types) as packer:  # type: ignore[arg-type]
            for frame in frames:
                packer.write(frame)
                records += frame.height
    return records


@contextlib.contextmanager
def _telling(shown: str) -> Iterator[None]:
    """Turns a failure to write into a sentence."""
    try:
        yield
    except BrokenPipeError:
        raise TransferError(f"Whoever was reading {shown} has stopped.") from None
    except OSError as error:
        raise TransferError(f"Writing {shown} broke off: {error.strerror}.") from None
