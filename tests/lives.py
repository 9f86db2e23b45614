"""A small run that is killed at moments of one's choice and goes on, and everything that it read and drew."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from dpwgan.app import fitting
from dpwgan.app.api import Synthesizer
from dpwgan.app.checkpoint import JOURNAL_FILE, Checkpoint
from dpwgan.app.claim import Claim
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.randomness import Streams, make_streams

RECORDS = 211
SPECS: dict[str, Any] = {
    "a": {"type": "enum", "values": ["x", "y", "z"]},
    "b": {"type": "enum", "count": 4},
    "c": {"type": "integer", "min": 0, "max": 15},
    "d": {"type": "enum", "count": 2},
}
QUERIES: dict[str, Any] = {"method": "query-gan", "settings": {"rounds": 3, "codes": 20, "fit_steps": 8}}
ASKED = 4.0  # what is lost has to leave enough to go on with


def make_frame(seed: int = 0) -> pd.DataFrame:
    """Draws a table that fits the specs."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": rng.choice(list("xyz"), RECORDS),
            "b": rng.integers(0, 4, RECORDS).astype(str),
            "c": rng.integers(0, 16, RECORDS).astype(str),
            "d": rng.integers(0, 2, RECORDS).astype(str),
        }
    )


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the tool takes it for a failure."""


class RecordedNoise(np.random.Generator):
    """A generator that remembers what it gave."""

    given: list[bytes]

    def normal(self, *arguments: Any, **more: Any) -> Any:
        return self._remember(super().normal(*arguments, **more))

    def standard_normal(self, *arguments: Any, **more: Any) -> Any:
        return self._remember(super().standard_normal(*arguments, **more))

    def bytes(self, length: int) -> Any:
        return self._remember(super().bytes(length))

    def _remember(self, values: Any) -> Any:
        self.given.append(values if isinstance(values, bytes) else np.asarray(values).tobytes())
        return values


@dataclass(eq=False)
class Lives:
    """What all lives of a run did together. `reads`: by the label of the ledger, how many acts read rows.

    `moments`: at which tick of its life each act had rows before it, in order.
    """

    reads: Counter[str] = field(default_factory=Counter)
    noise: list[bytes] = field(default_factory=list)
    ticks: list[int] = field(default_factory=list)
    moments: list[int] = field(default_factory=list)
    count: int = 0
    _left: int | None = None

    def tick(self) -> None:
        """Passes a moment at which the run may be killed."""
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise Killed
        self.ticks[-1] += 1

    def begin(self, kill: int | None) -> None:
        """Begins a life that ends after so many ticks."""
        self.ticks.append(0)
        self._left = kill
        self.count += 1


@contextmanager
def watched(lives: Lives) -> Iterator[None]:
    """Counts reads of rows inside the block, remembers noise, and passes a moment around each read and write."""
    write: Callable[..., None] = vars(Checkpoint)["_write"]

    def write_slowly(self: Checkpoint, name: str, body: bytes) -> None:
        try:
            lives.tick()
        except Killed:
            (self._folder / f"{name}.tmp").write_bytes(body[: len(body) // 2])
            raise
        write(self, name, body)
        lives.tick()

    def reading(act: Callable[..., Any], labels: Callable[[], dict[str, int]]) -> Callable[..., Any]:
        def read(*arguments: Any, **more: Any) -> Any:
            lives.reads.update(labels())
            lives.moments.append(lives.ticks[-1])
            lives.tick()
            given = act(*arguments, **more)
            lives.tick()
            return given

        return read

    def make_recorded_streams(seed: int | None, *, life: int, worker: int) -> Streams:
        streams = make_streams(seed, life=life, worker=worker)
        noise = RecordedNoise(streams.noise.bit_generator)
        noise.given = lives.noise
        return Streams(noise=noise, batches=streams.batches, model=streams.model, seeded=streams.seeded)

    def through_the_door(name: str) -> Callable[..., Any]:
        act: Callable[..., Any] = vars(Ledger)[name]
        return lambda self, label, compute: act(self, label, reading(compute, lambda: {label: 1}))

    patches: Sequence[tuple[Any, str, Any]] = (
        (Checkpoint, "_write", write_slowly),
        (Ledger, "release_all", through_the_door("release_all")),
        (Ledger, "select", through_the_door("select")),
        (fitting, "make_streams", make_recorded_streams),
        (os, "fsync", lambda descriptor: None),  # these lives end with an exception, not with the machine
    )
    with patched(patches):
        yield


@contextmanager
def patched(patches: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    """Puts something else in the place of each of these inside the block."""
    with ExitStack() as stack:
        for target, name, new in patches:
            stack.enter_context(patch.object(target, name, new))
        yield


def fit_through_kills(
    folder: Path,
    kills: Sequence[int],
    *,
    specs: Mapping[str, Any] = SPECS,
    epsilon: float = ASKED,
    frame: pd.DataFrame | None = None,
    **options: Any,
) -> tuple[Synthesizer, Lives]:
    """Runs, is killed after so many ticks in each life, goes on, and gives the fit of the last one."""
    lives = Lives()
    with watched(lives):
        for kill in (*kills, None):
            lives.begin(kill)
            resume = (folder / JOURNAL_FILE).exists()
            synthesizer = Synthesizer(specs, epsilon, checkpoint=folder, resume=resume, **{**QUERIES, **options})
            with suppress(Killed):
                return synthesizer.fit(make_frame() if frame is None else frame), lives
    raise AssertionError("the last life is not killed")


def live(folder: Path, kills: Sequence[int], **options: Any) -> tuple[Claim, pd.DataFrame, Lives]:
    """Does the same, and gives what came of it in the end."""
    synthesizer, lives = fit_through_kills(folder, kills, **options)
    return synthesizer.claim(), synthesizer.sample(), lives


def die(folder: Path, kill: int, *, specs: Mapping[str, Any] = SPECS, **options: Any) -> Lives:
    """Begins a run and is killed after so many ticks."""
    lives = Lives()
    with watched(lives), suppress(Killed):
        lives.begin(kill)
        Synthesizer(specs, ASKED, checkpoint=folder, **{**QUERIES, **options}).fit(make_frame())
        raise AssertionError("the run came to its end")
    return lives


def read_journal(folder: Path) -> dict[str, Any]:
    """Gives what the journal of a folder holds."""
    document: dict[str, Any] = json.loads((folder / JOURNAL_FILE).read_bytes().partition(b"\n")[2])
    return document
