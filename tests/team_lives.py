"""A small run of several workers, one of whom is killed at a moment of one's choice, and all that they read of rows."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpwgan.app.api import Synthesizer
from dpwgan.app.checkpoint import JOURNAL_FILE
from dpwgan.app.fitting import EncodedRun
from dpwgan.array_types import Floats
from dpwgan.privacy.ledger import Ledger
from dpwgan.table.workers import Task, Team
from tests.lives import ASKED, Killed, patched, read_journal
from tests.teams import ThreadWorkers, make_workers, run_threads


class MortalWorkers(ThreadWorkers):
    """A worker that is killed instead of adding up for the time `left` says, from 0; None is never."""

    left: int | None = None
    added: int = 0

    def add(self, values: Floats) -> Floats:
        """Adds up, or dies."""
        if self.left == self.added:
            self.broken = True
            raise Killed
        self.added += 1
        return super().add(values)


@dataclass(eq=False)
class TeamLives:
    """What all workers of all lives did. `reads`: how often each task read rows, of the worker that did most of it.

    `too_early`: tasks that began when the worker's ledger, or the disk, had not what the chief had charged.
    `added`: how often each worker of the last life added up.
    """

    kept: Path
    reads: Counter[str] = field(default_factory=Counter)
    too_early: list[str] = field(default_factory=list)
    added: list[int] = field(default_factory=list)
    ends: list[Any] = field(default_factory=list)
    ledgers: dict[int, Ledger] = field(default_factory=dict)
    _done: dict[int, Counter[str]] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

    def note(self, rank: int, task: str) -> None:
        """Takes down that a worker is about to read rows. No ledger changes while a task is done."""
        charged, own = self.ledgers[0].charged, self.ledgers[rank].charged
        document = read_journal(self.kept)
        written = Counter({line["label"]: line["count"] for line in document["spent"]})
        for act in document["acts"]:
            written.update(act["charges"])
        with self._lock:
            if own != charged or +Counter(charged) != written:
                self.too_early.append(f"{task} of worker {rank}")
            self._done.setdefault(rank, Counter())[task] += 1

    def end_life(self, workers: Sequence[MortalWorkers], ends: list[Any]) -> None:
        """Adds up what the life read: all workers read their parts for the same charge."""
        for task in set().union(*self._done.values()):
            self.reads[task] += max(done[task] for done in self._done.values())
        self._done, self.ledgers = {}, {}
        self.added, self.ends = [worker.added for worker in workers], ends


@contextmanager
def watched(lives: TeamLives) -> Iterator[None]:
    """Takes down every read of rows inside the block."""
    fit, serve_run, add_up, serve = Synthesizer.fit_encoded, Synthesizer.serve_encoded, Team.add_up, Team.serve

    def fit_watched(self: Synthesizer, run: EncodedRun, **more: Any) -> Any:
        lives.ledgers[0] = run.ledger
        return fit(self, run, **more)

    def serve_run_watched(self: Synthesizer, run: EncodedRun, *, team: Team) -> None:
        lives.ledgers[team.rank] = run.ledger
        serve_run(self, run, team=team)

    def add_up_watched(self: Team, task: str, own: Callable[[], Floats], **more: Any) -> Floats:
        def read() -> Floats:
            lives.note(0, task)
            return own()

        return add_up(self, task, read, **more)

    def serve_watched(self: Team, do: Task, **more: Any) -> None:
        def read(name: str, argument: Any, array: Floats) -> Any:
            if "place" not in argument:  # else rows are written otherwise, and nothing is given back
                lives.note(self.rank, name)
            return do(name, argument, array)

        serve(self, read, **more)

    patches: Sequence[tuple[Any, str, Any]] = (
        (Synthesizer, "fit_encoded", fit_watched),
        (Synthesizer, "serve_encoded", serve_run_watched),
        (Team, "add_up", add_up_watched),
        (Team, "serve", serve_watched),
    )
    with patched(patches):
        yield


def live(folder: Path, kills: Sequence[tuple[int, int]], *, sizes: Sequence[int] = (2,), **asked: Any) -> TeamLives:
    """Runs; in each life the worker of that rank is killed before that addition; then the last life comes to its end.

    `sizes`: how many workers each life has; the last number goes on.
    """
    lives = TeamLives(folder / "kept")
    with watched(lives):
        for number, kill in enumerate((*kills, None)):
            size = sizes[min(number, len(sizes) - 1)]
            workers = make_workers(size, kind=MortalWorkers)
            if kill is not None:
                workers[kill[0]].left = kill[1]
            resume = (lives.kept / JOURNAL_FILE).exists()
            kept = {"checkpoint": lives.kept, "resume": resume, "epsilons": [ASKED] * size}
            ends = run_threads(folder, size, workers=workers, **kept, **asked)
            lives.end_life(workers, ends)
    return lives
