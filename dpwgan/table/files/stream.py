"""The bytes of a file or of standard input, unpacked, a piece at a time and as often as they are needed.

Whatever cannot be read twice (standard input, a pipe) is kept: in memory while it is short, else in a file without a
name in the folder of TMPDIR.
"""

import codecs
import errno
import gzip
import itertools
import os
import stat
import sys
import tempfile
import weakref
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from dpwgan.errors import DataError, InputError, TransferError, say_why

GZIP_MAGIC = b"\x1f\x8b"

PIECE = 1 << 20
"""Bytes that are read at a time, unless asked otherwise: few enough to stay in the processor's cache."""

MOST_HELD_IN_MEMORY = 1 << 26
"""Bytes that are kept for later, of input or output; beyond them they go to a temporary file."""

_MOST_PUBLIC = 1 << 28


class ByteStream:
    """A file's bytes, unpacked if they begin as gzip does, whatever the name."""

    def __init__(self, path: str | Path) -> None:
        """Reads nothing of a file yet, and all of what cannot be read twice.

        Raises: InputError if it is missing or cannot be opened; TransferError if reading breaks off.
        """
        self.name = say(path)
        self._path = Path(path)
        self._held: IO[bytes] | None = None
        self._seen: tuple[int, ...] | None = None
        if str(path) == "-":
            if sys.stdin is None:
                raise InputError("Standard input is closed.")
            self._hold(sys.stdin.buffer)
            return
        with self._telling(), self._path.open("rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                self._hold(file)

    @property
    def is_regular(self) -> bool:
        """Whether it is a file of which any part can be read at any time."""
        return self._held is None

    def read(self) -> bytes:
        """All bytes at once, as they stand. Raises: as `pieces`."""
        with self._telling(), self._open() as file:
            return file.read()

    def pieces(self, sizes: Iterable[int] | None = None) -> Iterator[bytes]:
        """The bytes in order, in pieces of `PIECE` to the end or of the sizes asked for; the end may be sooner.

        Raises: as the constructor; TransferError for a damaged archive; DataError if the file is not what it was when
          it was read before.
        """
        with self._telling(), self._open() as file:
            first = file.read(len(GZIP_MAGIC))
            file.seek(0)
            source = gzip.GzipFile(fileobj=file, mode="rb") if first == GZIP_MAGIC else file
            try:
                for size in itertools.repeat(PIECE) if sizes is None else sizes:
                    piece = source.read(size)
                    if not piece:
                        return
                    yield piece
            except (EOFError, gzip.BadGzipFile, zlib.error):
                raise TransferError(f"{self.name} is a gzip archive that is cut short or damaged.") from None

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        if self._held is not None:
            self._held.seek(0)
            yield self._held
            return
        with self._path.open("rb") as file:
            status = os.fstat(file.fileno())
            seen = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            if self._seen not in (None, seen):
                raise DataError(f"{self.name} was changed while it was read.")
            self._seen = seen
            yield file

    def _hold(self, source: IO[bytes]) -> None:
        self._held = tempfile.SpooledTemporaryFile(max_size=MOST_HELD_IN_MEMORY)  # noqa: SIM115
        weakref.finalize(self, self._held.close)
        with self._telling():
            while piece := source.read(PIECE):
                self._held.write(piece)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Turns a failure to read into a sentence."""
        try:
            yield
        except FileNotFoundError:
            raise InputError(f"{self.name} does not exist.") from None
        except IsADirectoryError:
            raise InputError(f"{self.name} is a directory.") from None
        except PermissionError:
            raise InputError(f"{self.name} may not be read.") from None
        except OSError as error:
            raise TransferError(f"{self.name} could not be read to its end: {error.strerror}.") from None


def say(path: str | Path) -> str:
    """Names a file, or standard input, at the beginning of a sentence."""
    return "Standard input" if str(path) == "-" else f"The file {str(path)!r}"


def read_bytes(path: str | Path) -> bytes:
    """Reads a small file or standard input whole, as it stands.

    Raises: InputError if it is missing or cannot be opened; TransferError if reading breaks off.
    """
    return ByteStream(path).read()


def read_public(path: str | Path, *, name: str) -> bytes:
    """Reads specs, a codebook or settings, so that whoever waits can interrupt it: /dev/zero has no end.

    Raises: InputError, which calls it by its name, also if it is too long for any of these.
    """
    content = bytearray()
    try:
        with Path(path).open("rb") as file:
            while piece := file.read(PIECE):
                content += piece
                if len(content) > _MOST_PUBLIC:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    except OSError as error:
        raise InputError(f"{name} cannot be read: {say_why(error)}.") from None
    return bytes(content)


def decode_public(content: bytes) -> str | None:
    """The text of a public file, in UTF-8, UTF-16 or else Latin-1; None if it is binary."""
    is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if b"\0" in content and not is_wide:
        return None
    try:
        return content.decode("utf-16" if is_wide else "utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")
