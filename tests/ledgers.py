"""Ledgers for tests: open, with everything reserved and a seeded source of noise."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.privacy.accountants.accountant import Accountant
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.events import Event
from dpwgan.privacy.journal import Journal
from dpwgan.privacy.ledger import Ledger, Observer
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.privacy.randomness import Streams, make_streams
from dpwgan.privacy.release import Noisy, Release
from dpwgan.privacy.unit import ONE_ROW, Unit

PLENTY = Budget(epsilon=1e6, delta=1e-5)


class Watcher:
    """Keeps all that goes through the door, before and after the noise."""

    def __init__(self, *, row: int | None = None) -> None:
        self.watched_row = row
        self.order: list[str] = []
        self.releases: list[Release] = []
        self.exact: list[npt.NDArray[Any]] = []
        self.noisy: list[npt.NDArray[Any]] = []
        self.scores: list[Any] = []
        self.chosen: list[Any] = []
        self.steps: list[dict[str, Any]] = []

    def on_release(self, release: Release, *, exact: Sequence[npt.NDArray[Any]], noisy: Sequence[Noisy]) -> None:
        self.order.append(release.label)
        self.releases.append(release)
        self.exact += [np.array(values) for values in exact]
        self.noisy += [np.array(part.values) for part in noisy]

    def on_selection(self, release: Release, *, exact: Any, chosen: Any) -> None:
        self.order.append(release.label)
        self.releases.append(release)
        self.scores.append(exact)
        self.chosen.append(chosen)

    def on_step(self, release: Release, **parts: Any) -> None:
        self.steps.append(parts)


def make_source(streams: Streams | int = 1) -> NoiseSource:
    """Makes a source of noise of the given streams, or of those of a seed."""
    streams = make_streams(streams) if isinstance(streams, int) else streams
    return NoiseSource(noise=streams.noise, batches=streams.batches)


def make_release(
    label: str, event: Event, times: int = 1, *, sensitivity: float = 1.0, mechanism: str = "noise", **details: Any
) -> Release:
    """Makes a line of a plan."""
    return Release(label=label, event=event, times=times, sensitivity=sensitivity, mechanism=mechanism, details=details)


def open_ledger(
    releases: Iterable[Release],
    *,
    budget: Budget = PLENTY,
    accountant: Accountant = MOMENTS,
    relation: NeighboringRelation = NeighboringRelation.ZERO_OUT,
    no_guarantee: bool | None = None,
    journal: Journal | None = None,
    source: NoiseSource | Streams | int | None = 1,
    observers: Sequence[Observer] = (),
    unit: Unit = ONE_ROW,
) -> Ledger:
    """Opens a ledger with the releases reserved; None for no source of noise at all.

    Where no budget is given any noise will do, and there is no guarantee to state.
    """
    ledger = Ledger(
        budget,
        accountant=accountant,
        neighboring_relation=relation,
        unit=unit,
        no_guarantee=budget is PLENTY if no_guarantee is None else no_guarantee,
        journal=journal,
        source=make_source(source) if isinstance(source, (Streams, int)) else source,
        observers=observers,
    )
    for release in releases:
        ledger.reserve(release)
    return ledger


def open_for_plan(plan: Any, **more: Any) -> Ledger:
    """Opens the ledger that a plan was made for."""
    terms = plan.choice.terms
    shared = {"budget": terms.budget, "accountant": plan.choice.accountant, "relation": terms.neighboring_relation}
    shared["unit"] = terms.unit
    return open_ledger(plan.releases, **{**shared, **more})


def watch_reads(
    patch: pytest.MonkeyPatch, ledger: Ledger, watcher: Watcher, functions: Iterable[tuple[Any, str]]
) -> list[str]:
    """Fails each function that reads rows where nothing was charged for that has not been released yet.

    Gives the label that was charged last before each read, as it goes.
    """
    reads: list[str] = []

    def watch(module: Any, name: str) -> None:
        act = getattr(module, name)

        def read(*args: Any, **more: Any) -> Any:
            waiting = Counter(ledger.charged) - Counter(watcher.order)
            assert sum(waiting.values()) == 1, f"rows were read with {dict(waiting)} charged and not yet released"
            reads.extend(waiting)
            return act(*args, **more)

        patch.setattr(module, name, read)

    for module, name in functions:
        watch(module, name)
    return reads
