"""The paths of outputs: what is there, and locks, so that one run at a time may write there and leaves no trace."""

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from dpwgan.errors import OutputError


def goes_to_stream(path: str | Path) -> bool:
    """Says whether an output is stdout, a pipe or a device: it is written into, and no file can lie beside it."""
    if str(path) == "-":
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # not there yet
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def choose_passing_name(path: str | Path) -> Path:
    """A name beside the target, links followed, for what is renamed to it once it is whole.

    Raises: OSError if nothing can have the target's own name, such as one that is too long.
    """
    target = Path(os.path.realpath(path))
    with contextlib.suppress(FileNotFoundError):
        os.lstat(target)
    return target.parent / f"{_stem(target)}.{secrets.token_hex(8)}.tmp"


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Writes all of it, however little the system takes at a time. Raises: OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync(path: Path) -> None:
    """Has what a file holds, or the names in a folder, outlive the machine. Raises: OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems cannot do it for a folder; its files are there already.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def hold_place(path: str | Path) -> Iterator[None]:
    """Keeps the place of a file or folder to this process in the block, and clears it of what killed runs left.

    Where the file system has no locks, or the folder cannot be written to, nothing is kept and nothing is cleared.
    Raises: OutputError if another process has the place.
    """
    target = Path(os.path.realpath(path))
    lock = target.parent / f"{_stem(target)}.lock"
    descriptor = _lock(lock, shown=str(path))
    if descriptor is None:
        yield
        return
    try:
        for name in os.listdir(target.parent):
            if re.fullmatch(re.escape(_stem(target)) + r"\.[0-9a-f]{16}\.tmp", name):
                _remove(target.parent / name)
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()
        os.close(descriptor)


def _lock(lock: Path, *, shown: str) -> int | None:
    while True:
        try:
            descriptor = os.open(lock, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it before may have taken its name away in between.
            if os.path.samestat(os.stat(lock), os.fstat(descriptor)):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise OutputError(f"another run is about to write {shown!r}: let it end, or name another output") from None
        except FileNotFoundError:
            pass
        except OSError:
            os.close(descriptor)
            return None
        os.close(descriptor)


def _stem(target: Path) -> str:
    # Short of the longest name that a file may have, whatever the target's is.
    return f".{target.name[:40]}.{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:8]}"


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
