"""Rows that the auditor puts in, and what an attacker sees who is shown every release: noisy counts and noisy sums of
gradients, one after another.

The auditor stands at the ledger's door and also sees each before its noise, so that it can say how far one canary moves
it and what the noise is. Nothing here changes a release, but for a replay, whose noise is that of an earlier run.

Under the tool's default relation a canary that is out is a null record, which no table of a custodian holds: a run is
handed the rows that are not null, and the number of rows that it was planned for stays what it is, which is public.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpwgan.app.fitting import fit_rows
from dpwgan.app.planning import RunPlan
from dpwgan.array_types import AnyArray, Flags, Floats, Integers
from dpwgan.errors import DpwganError
from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.privacy.randomness import Streams
from dpwgan.privacy.release import Noisy, Release
from dpwgan.table.encoded import EncodedTable, join
from dpwgan.table.units.units import Units


def add_canaries(encoded: EncodedTable, *, canaries: int, rng: np.random.Generator, rows: int = 1) -> EncodedTable:
    """Appends rows of which every cell is any legal one, with the same probability: unlike rows of a real table.

    A canary that is a unit has so many `rows`, all alike: none moves counts, or the sum of a step, further.
    Privacy: made of public facts and `rng`.
    """
    drawn = EncodedTable.make_empty(encoded.spans, canaries)
    for attribute in lay_out_attributes(encoded.spans):
        attribute.put_cells(rng.integers(0, attribute.cells, canaries), into=drawn)
    return join([encoded, drawn.take(np.repeat(np.arange(canaries), rows))])


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """An array that was released. Units: `exact`, `released` and `noise` are in sensitivities of the release."""

    line: str
    sensitivity: float
    exact: Floats
    noisy: Noisy

    @property
    def released(self) -> Floats:
        """All numbers after the noise."""
        return _flatten(self.noisy.values, self.sensitivity)

    @property
    def noise(self) -> Floats:
        """What was added."""
        return self.released - self.exact


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """One critic step, summed up weight tensor by weight tensor. Units: clip norms.

    `noise`: sums of squares of what was added to the sums. `change`: the same of how it differs from the noise of the
    step before; None for every first step of two. `influence`: how long a vector the canary would have added.
    """

    noise: Floats
    change: Floats | None
    influence: Floats


class Record:
    """Watches a ledger's door: everything that one run released, in order, and how often of each line.

    `sizes`: how many numbers each weight tensor of the critic holds.
    """

    def __init__(self, *, canary: int | None = None) -> None:
        """Watches from now on. `canary`: whose influence on critic steps is measured; None for no steps.

        A row, or where steps sample units a unit.
        """
        self.watched_row = canary
        self.seen: list[Seen] = []
        self.selections: list[Any] = []
        self.steps: list[Step] = []
        self.sizes: list[int] = []
        self.times = Counter[str]()
        self._before: Floats | None = None

    def on_release(self, release: Release, *, exact: Sequence[AnyArray], noisy: Sequence[Noisy]) -> None:
        """Keeps arrays that were released, before and after the noise."""
        self.times[release.label] += 1
        sensitivity = release.sensitivity
        for before, after in zip(exact, noisy, strict=True):
            flat = _flatten(before, sensitivity)
            self.seen.append(Seen(line=release.label, sensitivity=sensitivity, exact=flat, noisy=after))

    def on_selection(self, release: Release, *, exact: Any, chosen: Any) -> None:
        """Keeps what was selected."""
        self.times[release.label] += 1
        self.selections.append(chosen)

    def on_step(
        self, release: Release, *, sizes: Sequence[int], noisy: Floats, exact: Floats, influence: Floats
    ) -> None:
        """Keeps a step's noise and the canary's influence, as squares: the vectors are long and many."""
        self.times[release.label] += 1
        self.sizes = list(sizes)
        noise = (noisy.astype(np.float64) - exact) / release.sensitivity
        change = None if self._before is None else _add_squares(noise - self._before, sizes)
        self._before = noise if change is None else None
        length = np.sqrt(_add_squares(influence.astype(np.float64) / release.sensitivity, sizes))
        self.steps.append(Step(noise=_add_squares(noise, sizes), change=change, influence=length))


class ReplayEnded(Exception):
    """Everything that was to be replayed has been."""


class Replay(NoiseSource):
    """What an earlier run released, once more; it keeps what would have been given noise this time.

    Two worlds with one history: whatever differs before the noise is the influence of the rows that differ. Raises
    `ReplayEnded` where the record ends or a critic begins.
    Privacy: none; of use to an audit alone.
    """

    def __init__(self, record: Record, streams: Streams) -> None:
        super().__init__(noise=streams.noise, batches=streams.batches)
        self._record, self._selections = record, iter(record.selections)
        self.exact: list[Floats] = []

    def add_noise(self, release: Release, exact: AnyArray) -> Noisy:
        """What was released. Raises: DpwganError, an internal error, if something else was; ReplayEnded."""
        known = self._record.seen[len(self.exact)]
        if known.line != release.label or np.shape(known.noisy.values) != np.shape(exact):
            raise DpwganError("Internal error: a replayed run took another way.")
        self.exact.append(_flatten(exact, release.sensitivity))
        if len(self.exact) == len(self._record.seen):
            raise ReplayEnded
        return known.noisy

    def select(self, release: Release, scores: npt.ArrayLike) -> int:
        """What was selected."""
        return int(next(self._selections))

    def draw_batch(self, release: Release, records: int) -> Integers:
        """Ends the replay: a critic's influence is measured step by step. Raises: ReplayEnded."""
        raise ReplayEnded


def replay(
    encoded: EncodedTable,
    run_plan: RunPlan,
    record: Record,
    *,
    model: np.random.Generator,
    streams: Streams,
    units: Units | None,
) -> list[Floats]:
    """What another table, of the same history, would have had noise added to. Units: sensitivities.

    Privacy: private numbers. Raises: DpwganError, an internal error, if the run took another way.
    """
    source = Replay(record, streams)
    with suppress(ReplayEnded):
        fit_rows(encoded, run_plan, ledger=run_plan.open_ledger(source=source), model=model, units=units)
    if len(source.exact) != len(record.seen):
        raise DpwganError("Internal error: a replayed run released less.")
    return source.exact


def choose_units(units: Units | None, present: Flags) -> Units | None:
    """The units of the rows that are true here, each with all of its rows; how many there are in all stays public."""
    if units is None:
        return None
    own, of_rows = np.unique(units.of_rows[present], return_inverse=True)
    return Units(of_rows.astype(np.int32), elsewhere=units.count - len(own))


def _flatten(values: AnyArray, sensitivity: float) -> Floats:
    """All numbers of an array, in sensitivities."""
    return np.asarray(values, np.float64).ravel() / sensitivity


def _add_squares(numbers: Floats, sizes: Sequence[int]) -> Floats:
    """Sums squares weight tensor by weight tensor."""
    squares: Floats = np.add.reduceat(np.square(numbers), np.cumsum([0, *sizes])[:-1])
    return squares
