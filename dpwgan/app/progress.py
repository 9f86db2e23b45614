"""How far training has come: a bar on a terminal, a line or two elsewhere, nothing when quiet.

Privacy: shows the step, the public number of steps, the epsilon charged so far and the time: no loss, no batch size.
"""

import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dpwgan.app.delivery import Voice
from dpwgan.app.logs import LOGGER
from dpwgan.stages import Progress

# Seconds that a run may be silent for; one that is done before has nothing to say but its claim.
PATIENCE = 30.0
NO_GUARANTEE = "no guarantee"


def ignore_progress(step: int, steps: int, epsilon_spent: float) -> None:
    """Shows nothing."""


@contextmanager
def show_progress(voice: Voice) -> Iterator[Progress]:
    """The function that training calls with (step, steps, epsilon spent so far).

    A terminal that can redraw a line gets a bar; NO_COLOR and TERM=dumb are honoured.
    """
    if voice.quiet:
        yield ignore_progress
    elif _can_redraw(voice):
        with show_bar() as callback:
            yield callback
    elif voice.verbose or voice.log_format == "json":
        yield Lines()
    else:
        yield Lines(parts=2, patience=PATIENCE)


def _can_redraw(voice: Voice) -> bool:
    return voice.log_format == "text" and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def show_stages(voice: Voice) -> Iterator[None]:
    """Shows messages in the block as one line that is redrawn, with the time so far, if the terminal can do that."""
    if voice.quiet or not _can_redraw(voice):
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    # What goes to a file must not come out on the terminal.
    console, to_screen = Console(stderr=True), sys.stdout is not None and sys.stdout.isatty()
    with Progress(*columns, console=console, transient=True, redirect_stdout=to_screen) as bar:
        task = bar.add_task("")

        def show(record: logging.LogRecord) -> bool:
            if record.levelno <= logging.INFO:
                bar.update(task, description=record.getMessage(), refresh=True)
            return record.levelno > logging.INFO

        LOGGER.addFilter(show)
        try:
            yield
        finally:
            LOGGER.removeFilter(show)


class Lines:
    """Says one line each time another of so many parts of the steps is done, and `patience` seconds are over."""

    def __init__(self, *, parts: int = 10, patience: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._parts, self._patience = clock, parts, patience
        self._first: tuple[int, float] | None = None
        self._part = 0

    def __call__(self, step: int, steps: int, epsilon_spent: float) -> None:
        """Says where training is, if a new part is done. Units: the time left is in seconds."""
        now = self._clock()
        # Timed from the first call on, so that what comes before the first step does not count as a step's time.
        first_step, first_time = self._first = self._first or (step, now)
        part = self._parts * step // max(steps, 1)
        if part <= self._part or now - first_time < self._patience:
            return
        self._part = part
        # A run that goes on may begin with most of its steps done: nothing is known yet of how long one takes.
        left = (now - first_time) * (steps - step) / (step - first_step) if step > first_step else None
        LOGGER.info(
            "step %d of %d (%d%%), %s%s",
            step,
            steps,
            100 * step // max(steps, 1),
            f"epsilon spent so far {epsilon_spent:.4g}" if math.isfinite(epsilon_spent) else NO_GUARANTEE,
            "" if left is None else f", about {duration(left)} left",
            extra={
                "fields": {
                    "event": "progress",
                    "step": step,
                    "steps": steps,
                    "epsilon_spent": epsilon_spent if math.isfinite(epsilon_spent) else None,
                    "seconds_left": None if left is None else round(left, 1),
                }
            },
        )


@contextmanager
def show_bar() -> Iterator[Progress]:
    """Shows a bar on stderr, or in a notebook; log lines come out above it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[spent]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("training", total=None, spent="")

        def callback(step: int, steps: int, epsilon_spent: float) -> None:
            spent = f"epsilon {epsilon_spent:.4g}" if math.isfinite(epsilon_spent) else NO_GUARANTEE
            bar.update(task, completed=step, total=steps, spent=spent)

        yield callback


def duration(seconds: float) -> str:
    """Writes a time for people: 8 s, 4 min, 2.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
