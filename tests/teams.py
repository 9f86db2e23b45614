"""Workers that are threads of one process, for everything about a team but the network between its members."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np

from dpwgan.app import pipeline
from dpwgan.app.config import RunConfig, SynthesisConfig
from dpwgan.app.delivery import Voice
from dpwgan.array_types import Floats
from dpwgan.critic import collective as training_cluster
from dpwgan.errors import ResourceError
from dpwgan.table.cluster import Cluster
from dpwgan.table.workers import Team


class _Meeting:
    def __init__(self, size: int) -> None:
        self.size, self.left = size, False
        self.waiting: list[Floats] = []
        self.totals: list[Floats] = []
        self.changed = threading.Condition()

    def add(self, values: Floats) -> Floats:
        with self.changed:
            number = len(self.totals)
            self.waiting.append(np.asarray(values, np.float64))
            if len(self.waiting) == self.size:
                self.totals.append(np.sum(self.waiting, axis=0))
                self.waiting = []
                self.changed.notify_all()
            self.changed.wait_for(lambda: len(self.totals) > number or self.left, timeout=60)
            if len(self.totals) == number:
                raise ResourceError("another worker was lost")
            return self.totals[number]

    def leave(self) -> None:
        with self.changed:
            self.left = True
            self.changed.notify_all()


class ThreadWorkers:
    """Adds up in memory; whoever fails ends what the others wait for, as a process that ends does."""

    def __init__(self, meeting: _Meeting, rank: int) -> None:
        self._meeting, self.rank = meeting, rank
        self.size, self.broken = meeting.size, False

    def add(self, values: Floats) -> Floats:
        self.broken = True
        total = self._meeting.add(values)
        self.broken = False
        return total

    def leave(self) -> None:
        self._meeting.leave()


Kind = TypeVar("Kind", bound=ThreadWorkers)


def make_workers(size: int, kind: type[Kind] = ThreadWorkers) -> list[Kind]:
    """Makes as many workers as asked for, who know each other."""
    meeting = _Meeting(size)
    return [kind(meeting, rank) for rank in range(size)]


def run_together(workers: Sequence[ThreadWorkers], job: Callable[[ThreadWorkers], Any]) -> list[Any]:
    """Runs a job on every worker at once and gives what each gave, or the error that it raised."""
    results: list[Any] = [None] * len(workers)

    def do(worker: ThreadWorkers) -> None:
        try:
            results[worker.rank] = job(worker)
        except BaseException as error:
            results[worker.rank] = error
            worker.leave()

    threads = [threading.Thread(target=do, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive()
    return results


def run_team(size: int, job: Callable[[Team], Any]) -> list[Any]:
    """Does the same with a team."""
    return run_together(make_workers(size), lambda workers: job(Team(workers)))


def make_config(
    folder: Path, *, data: str = "data.csv", output: str = "out.csv", cluster: Cluster | None = None, **synthesis: Any
) -> RunConfig:
    """A run on the files of a folder that says nothing on the way. `codebook`: that of the specs."""
    return RunConfig(
        data=str(folder / data),
        output=str(folder / output),
        specs=folder / "specs.json",
        codebook=synthesis.pop("codebook", None),
        synthesis=SynthesisConfig(**{"epsilon": 1.0, **synthesis}),
        voice=Voice(quiet=True),
        cluster=cluster,
    )


def run_threads(
    folder: Path,
    size: int,
    *,
    workers: Sequence[ThreadWorkers] | None = None,
    output: str = "out.csv",
    **synthesis: Any,
) -> list[Any]:
    """Runs the pipeline once for each of `size` workers, and gives None or an error for each.

    `epsilons`, `codebooks`, `more`: what each is told, `more` of settings.
    """
    members = make_workers(size) if workers is None else workers
    epsilons, codebooks = synthesis.pop("epsilons", [1.0] * size), synthesis.pop("codebooks", [None] * size)
    more = synthesis.pop("more", [{}] * size)
    addresses = tuple(f"host-{rank}:1" for rank in range(size))

    def job(worker: ThreadWorkers) -> None:
        rank = worker.rank
        asked = {"epsilon": epsilons[rank], "codebook": codebooks[rank], **synthesis, **more[rank]}
        cluster = Cluster(addresses=addresses, rank=rank) if size > 1 else None
        pipeline.run(make_config(folder, output=output, cluster=cluster, **asked))

    with patch.object(training_cluster, "TensorFlowWorkers", lambda cluster, **_: members[cluster.rank]):
        return run_together(members, job)
