"""How far a run is: in steps, and in one byte that another process can read if this one ends without a word."""

import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int, float], None]
"""Told of steps done, steps in all and epsilon spent: public numbers."""

STARTING, WORKING, READING, DONE = range(4)
"""Not begun, begun, in a reader that a damaged file can end, and complete with all its outputs."""

_stage: bytearray | mmap.mmap = bytearray(1)


def share() -> None:
    """Puts the byte, from its beginning, where processes that are made from here on share it with this one."""
    global _stage
    _stage = mmap.mmap(-1, 1)


def note(stage: int) -> None:
    """Says how far the program is."""
    _stage[0] = stage


def get_stage() -> int:
    """How far the program is."""
    return _stage[0]


@contextmanager
def reading() -> Iterator[None]:
    """Says that a file is read in the block."""
    before = get_stage()
    note(READING)
    try:
        yield
    finally:
        note(before)
