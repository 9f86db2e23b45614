"""A run in a process of its own, and one that waits for it: however it ends, there are one exit code and one sentence.

A library can end its process without a word to Python: where memory ends, or a file is damaged, or the system kills
it. What it says on stderr then goes to nobody, since it may quote a cell. The process that waits holds no rows.
Nothing heavy is imported here: from the first line of a program on, signals are answered by what stands here.
"""

import errno
import importlib
import math
import os
import resource
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from dpwgan.stages import DONE, READING, STARTING, get_stage, share

_STOPPING = (signal.SIGINT, signal.SIGTERM)
_FAULTS = (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGTRAP, signal.SIGSYS)
# With less than this numpy's and scipy's libraries wait for memory for ever when they are loaded.
_LEAST_BYTES = 1280 << 20
_PARENT_DEATH = 1  # PR_SET_PDEATHSIG


def run_watched(program: str) -> NoReturn:
    """Runs `main` of a module in a child of this process, and ends with its exit code.

    Exit codes: those of `main`; 0 if the run is complete, whatever ends its process then; else 75 where memory ended,
    65 where a file broke its reader, 128 + n for a signal n that stopped it, 70 for all other ends.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))  # it would hold rows
    share()
    if find_limit(0) < _LEAST_BYTES:
        low = f"the limit on memory (ulimit) is below the {_LEAST_BYTES >> 20} MB that the libraries need to start"
        sys.exit(_tell(75, low))
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    parent = os.getpid()
    child = os.fork()
    if not child:
        _work_apart(program, parent)

    def pass_on(number: int, frame: FrameType | None) -> None:
        os.kill(child, number)  # which is there until it is waited for, below

    for number in _STOPPING:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    for number in _STOPPING:
        signal.signal(number, signal.SIG_IGN)
    limited = find_limit(child) < math.inf
    os._exit(_judge(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), limited=limited))


def find_limit(process: int) -> float:
    """Bytes that a process, 0 for this one, may map or allocate by ulimit or its like; infinite where none is set."""
    limits = (resource.prlimit(process, limit)[0] for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    return min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=math.inf)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Says whether an exception, or one on the way to it, came of too little memory, by whichever library."""
    if error is None:
        return False
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    if type(error).__name__ in ("ResourceExhaustedError", "OutOfMemoryError"):
        return True
    # Under a limit libraries cannot be mapped, nor threads get their stacks.
    starved = isinstance(error, ImportError | SystemError) or type(error).__name__ == "PanicException"
    if (starved or "start new thread" in str(error)) and find_limit(0) < math.inf:
        return True
    return is_out_of_memory(error.__context__)


def _work_apart(program: str, parent: int) -> NoReturn:
    """Does the work in the child. Whoever kills its parent means the run."""
    import ctypes

    ctypes.CDLL(None).prctl(_PARENT_DEATH, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)
    _keep_stderr_for_python()
    for number in _STOPPING:
        signal.signal(number, _leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    code = importlib.import_module(program).main()
    for number in _STOPPING:
        signal.signal(number, signal.SIG_IGN)
    for stream in filter(None, (sys.stdout, sys.stderr)):  # either may have been closed from the start
        with suppress(OSError, ValueError):  # whoever reads it is gone, which was told where it mattered
            stream.flush()
    # Without the farewells of libraries: their threads may wait for memory that there is not.
    os._exit(code)


def _leave(number: int, frame: FrameType | None) -> None:
    """Answers a signal before the run has begun, or when it is over."""
    os._exit(0 if get_stage() == DONE else 128 + number)


def _keep_stderr_for_python() -> None:
    if sys.stderr is None:
        return
    encoding = sys.stderr.encoding
    own = os.dup(sys.stderr.fileno())
    sys.stderr = open(own, "w", buffering=1, encoding=encoding, errors="backslashreplace")  # noqa: SIM115
    with open(os.devnull, "w") as sink:
        os.dup2(sink.fileno(), 2)


def _judge(code: int, *, limited: bool) -> int:
    """The exit code of a run that ended with `code`, below 0 for a signal; where it could say nothing, it is said here.

    Exit codes: as `run_watched`.
    """
    stage = get_stage()
    if stage == DONE and code < 0:
        return 0
    if code >= 0 and not (stage == STARTING and code - 128 in _STOPPING):
        return code
    number = -code if code < 0 else code - 128
    if number == signal.SIGKILL or (number in _FAULTS and limited):
        return _tell(75, "out of memory: the system ended the run; no output was written")
    if number in _FAULTS and stage == READING:
        return _tell(65, "the table is damaged: it ended the process that read it; no output was written")
    if number in _FAULTS:
        return _tell(70, f"internal error: {signal.Signals(number).name} in a library; no output was written")
    return _tell(128 + number, f"stopped by {signal.Signals(number).name}; no output was written", event="stopped")


def _tell(code: int, sentence: str, *, event: str = "error") -> int:
    try:
        from dpwgan.app.commands import ask_format, fail
        from dpwgan.app.logs import speak

        with speak(quiet=True, log_format=ask_format(sys.argv)):
            return fail(code, sentence, event=event)
    except (MemoryError, ImportError):  # what ended the run may be short here as well
        os.write(2, f"dpwgan: error: {sentence[0].upper()}{sentence[1:]}.\n".encode())
        return code
