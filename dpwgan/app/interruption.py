"""How SIGINT and SIGTERM stop a run: as an exception that nothing on the way takes for a failure, until it is too late.

There is one set of signal handlers in a process, so there is one watch.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dpwgan.stages import DONE, note

# Seconds that a run may go on after a signal before it is told again.
PATIENCE = 3.0


class Interrupted(BaseException):
    """A signal asked the run to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Watch:
    """Which signal, if any, asked the run to stop, and whether it still can."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._ignoring = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Raises out of whatever is running; a second signal is no reason to interrupt the clearing up."""
        if self._ignoring or self.number is not None:
            return
        self.number = number
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        raise Interrupted(number)

    def insist(self, number: int, frame: FrameType | None) -> None:
        """Raises once more: the first time may have fallen where Python drops exceptions, such as a finaliser."""
        if not self._ignoring and self.number is not None:
            raise Interrupted(self.number)

    def ignore_more(self) -> None:
        """Lets what is under way, the clearing up or the last step, come to its end."""
        self._ignoring = True
        if self.number is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)


_watches: list[Watch] = []


@contextmanager
def interruptible() -> Iterator[Watch]:
    """Lets signals interrupt the block; afterwards they do what they did before."""
    watch = Watch()
    if threading.current_thread() is not threading.main_thread():
        yield watch  # only the main thread may set handlers
        return
    before = {number: signal.signal(number, watch.handle) for number in (signal.SIGINT, signal.SIGTERM)}
    before[signal.SIGALRM] = signal.signal(signal.SIGALRM, watch.insist)
    _watches.append(watch)
    try:
        yield watch
    finally:
        _watches.remove(watch)
        for number, handler in before.items():
            signal.signal(number, handler)


def pass_point_of_no_return() -> None:
    """From here on the run cannot be stopped: its output is about to appear, and must not half appear.

    Raises: Interrupted if a signal came before.
    """
    for watch in _watches:
        if watch.number is not None:
            raise Interrupted(watch.number)
        watch.ignore_more()


def complete() -> None:
    """Says that all outputs are in place: whatever happens from here on, the run succeeded. Raises: as above."""
    pass_point_of_no_return()
    note(DONE)
