"""How the tool speaks: on stderr one line an event, as text or as JSON; on stdout what was asked for.

Privacy: what is said here is not covered by the guarantee, so nothing computed from rows may be said, except through
the ledger. Every message in the project keeps to that: columns, rules, settings, the public n, at most a row count.
"""

import json
import logging
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from dpwgan.errors import OutputError, printable

LOGGER = logging.getLogger("dpwgan")
LOGGER.addHandler(logging.NullHandler())  # as a library the tool is silent unless its user says otherwise


class TextFormatter(logging.Formatter):
    """One line of text: the tool's name, the level where it matters, the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Formats one event; never a traceback, whose texts may hold cells."""
        level = "" if record.levelno < logging.WARNING else record.levelname.lower() + ": "
        return f"dpwgan: {level}{printable(record.getMessage())}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, message, and the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Formats one event; never a traceback, whose texts may hold cells."""
        event = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        return json.dumps({**event, **getattr(record, "fields", {})})


class Handler(logging.StreamHandler):  # type: ignore[type-arg] # which Python 3.10 cannot be told when it runs
    """Writes to stderr, and keeps quiet where that fails: logging's own complaint would quote the code."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one event, to stderr's stand-in while a bar is shown: above the bar."""
        self.stream = sys.stderr
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Drops what cannot be written."""


@contextmanager
def speak(*, quiet: bool = False, verbose: bool = False, log_format: str = "text") -> Iterator[None]:
    """Sends the tool's events to stderr while the block runs, and keeps other packages silent."""
    handler = Handler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    levels = LOGGER.level, LOGGER.propagate
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO)
    LOGGER.propagate = False
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(levels[0])
        LOGGER.propagate = levels[1]


def print_lines(lines: Iterable[str]) -> None:
    """Writes lines on stdout, whatever is in them on lines of their own. Raises: as `print_out`."""
    print_out("".join(f"{printable(line)}\n" for line in lines))


def print_out(text: str) -> None:
    """Writes text on stdout at once. Raises: OutputError if stdout is closed; BrokenPipeError if its reader is gone."""
    if sys.stdout is None:
        raise OutputError("stdout is closed")
    # A column's name may have letters that the terminal's encoding has not.
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()
