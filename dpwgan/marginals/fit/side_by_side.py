"""Two processes that work side by side and meet at every step.

Processes, not threads: a step of a fit is hundreds of calls of some microseconds, between which threads would wait for
each other's turn with the interpreter.
"""

import math
import mmap
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from dpwgan.array_types import AnyArray

Work = Callable[[Sequence[int], Callable[[], None]], None]
"""What is to be done for some parts, numbered from 0, and how to wait until the other has come as far."""

HALVES = 2
"""Into how many parts work is cut, however many cores there are: what comes of it is the same everywhere."""

_OUT_OF_MEMORY, _FAILED = 75, 70


def share_memory(shape: Sequence[int], dtype: npt.DTypeLike = np.float32) -> AnyArray:
    """Zeros in memory that this process has in common with those that it forks from here on."""
    cells = math.prod(shape)
    return np.frombuffer(mmap.mmap(-1, max(1, np.dtype(dtype).itemsize * cells)), dtype, cells).reshape(shape)


def work_side_by_side(work: Work, *, parts: int, apart: bool, meanwhile: Callable[[], None] | None = None) -> None:
    """Has the last of two parts done by a process of its own while this one does the first, or does all here.

    That process ends with this call, or with whoever made it; what it wrote into shared memory is what is left of it.
    `apart`: whether a second process is wanted; there is none where there is one core alone, or no more are allowed.
    If there is one, and something to do `meanwhile`, it does all parts.
    Privacy: the second process can release nothing: a ledger knows that it was forked.
    Raises: what `work` raises here; MemoryError or RuntimeError if the other did not come to its end.
    """
    here, there = socket.socketpair()
    with here, there:
        child = _fork() if apart and parts > 1 and len(os.sched_getaffinity(0)) > 1 else None
        if child is None:
            return work([*range(parts)], lambda: None)
        if not child:
            here.close()
            _work_apart(work, [parts - 1] if meanwhile is None else [*range(parts)], there)
        there.close()
        try:
            if meanwhile is None:
                work([*range(parts - 1)], lambda: _meet(here))
            else:
                meanwhile()
        except EOFError:
            pass  # what became of the other its exit status says
        except BaseException:
            here.close()  # for the other there is nobody left to work for
            os.waitpid(child, 0)
            raise
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code in (_OUT_OF_MEMORY, -signal.SIGKILL):
        raise MemoryError("the process of the other half ran out of memory")
    if code:
        raise RuntimeError(f"the process of the other half ended with {code}")


def _fork() -> int | None:
    """As `os.fork`, but that signals are for the parent alone, with which the child ends; None if there can be none."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    child: int | None = None
    try:
        child = os.fork()
    except OSError:  # a limit on processes, or on memory
        pass
    finally:
        if child != 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return child


def _work_apart(work: Work, own: Sequence[int], there: socket.socket) -> None:
    """Works in the child, and ends it."""
    code = _FAILED
    try:
        work(own, lambda: (_meet if len(own) == 1 else _go_on)(there))
        code = 0
    except MemoryError:
        code = _OUT_OF_MEMORY
    finally:
        os._exit(code)


def _meet(other: socket.socket) -> None:
    """Waits until the other has come as far. Raises: EOFError if it is gone."""
    try:
        other.send(b"x")
        if other.recv(1):
            return
    except OSError:
        pass
    raise EOFError


def _go_on(other: socket.socket) -> None:
    """Waits for nobody. Raises: EOFError if the other is gone."""
    with suppress(BlockingIOError):
        if not other.recv(1, socket.MSG_DONTWAIT):
            raise EOFError
