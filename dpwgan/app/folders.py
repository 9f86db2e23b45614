"""Folders whose files are taken at their word: nobody but their owner can have put anything there.

A link to a file is never followed, so that none elsewhere is read or written in the place of one that lies there.
"""

import os
import stat
from pathlib import Path

from dpwgan.errors import InputError, say_why

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def refuse_shared(folder: Path, *, own: bool) -> None:
    """Makes sure that nobody else can write to a folder; with `own` it has to be this user's, or root's.

    Raises: InputError if somebody can, or it cannot be looked at.
    """
    os.close(_open(folder, os.O_RDONLY | os.O_DIRECTORY, own=own))


def read_file(path: Path, *, own: bool) -> bytes:
    """Reads a file that nobody else can write to. Raises: InputError as `refuse_shared`; FileNotFoundError."""
    with open(open_file(path, os.O_RDONLY, own=own), "rb") as file:
        return file.read()


def open_file(path: Path, flags: int, *, own: bool) -> int:
    """Opens a file that nobody else can write to: its descriptor. Raises: as `read_file`."""
    # A pipe in its place must not keep anybody waiting.
    descriptor = _open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, own=own)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"{str(path)!r} is no file")
    return descriptor


def create_file(path: Path) -> int:
    """Creates a file for this user alone in the place of whatever has that name: its descriptor. Raises: OSError."""
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)


def _open(path: Path, flags: int, *, own: bool) -> int:
    try:
        descriptor = os.open(path, os.O_CLOEXEC | flags)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read: {say_why(error)}") from None
    status = os.fstat(descriptor)
    if status.st_mode & _OTHERS:
        os.close(descriptor)
        raise InputError(
            f"others can write to {str(path)!r}, and what it holds could be theirs: chmod go-w it, if it is not"
        )
    if own and status.st_uid not in (os.geteuid(), 0):
        os.close(descriptor)
        raise InputError(f"{str(path)!r} belongs to another user, and what it holds could be theirs")
    return descriptor
