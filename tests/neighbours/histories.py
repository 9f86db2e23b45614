"""Two runs of one history: the second is given what was released of the first, so that all else that differs is a leak.

What differs before the noise is a unit's part, and has a bound. All that comes of a run, and is said, is the same.
"""

import logging
import math
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import tensorflow as tf

from dpwgan.app import fitting, together
from dpwgan.app.api import Synthesizer
from dpwgan.app.logs import LOGGER
from dpwgan.critic.private_step import FusedStep, flatten, split_like
from dpwgan.errors import DpwganError, ResourceError
from dpwgan.methods.published.gradient_penalty import PrivatePenaltyStep
from dpwgan.privacy.events import (
    DiscreteGaussian,
    ExponentialSelection,
    Laplace,
    PoissonGaussian,
    StableSelection,
    Wishart,
)
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.privacy.release import Release
from dpwgan.table import storage
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.source import SourceTable, make_piece, make_table
from dpwgan.table.units import links
from tests.neighbours.tables import Case, Cells


class Apart(Exception):
    """A run did something that the one before it did not."""


@dataclass(eq=False)
class Act:
    """One charge: what it was for, and what there was before the noise and after it."""

    release: Release
    count: int
    exact: list[Any] = field(default_factory=list, repr=False)
    given: list[Any] = field(default_factory=list, repr=False)


@dataclass(eq=False)
class Tape:
    """All that a run released, and what came of it."""

    acts: list[Act] = field(default_factory=list)
    sums: list[np.ndarray] = field(default_factory=list)
    influences: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    error: str = ""
    claim: Any = None
    made: pd.DataFrame | None = None


class History(NoiseSource):
    """Notes what is to be released, and gives what was released before, if anything was."""

    tape: Tape
    earlier: Tape | None

    def _take(self, release: Release, exact: Any, draw: Any) -> Any:
        act = next(act for act in reversed(self.tape.acts) if act.release.label == release.label)
        place = len(act.exact)
        act.exact.append(exact)
        stream = self._noise
        self._noise = np.random.default_rng([len(self.tape.acts), place])
        try:
            if self.earlier is None:
                act.given.append(draw())
            else:
                act.given.append(self.earlier.acts[self.tape.acts.index(act)].given[place])
        except IndexError:
            raise Apart(f"{release.label}: there was no such release") from None
        finally:
            self._noise = stream
        return act.given[-1]

    def add_noise(self, release, exact):
        return self._take(release, np.array(exact), lambda: NoiseSource.add_noise(self, release, exact))

    def select(self, release, scores):
        return self._take(release, np.array(scores), lambda: NoiseSource.select(self, release, scores))

    def discover(self, release, counts, **more):
        return self._take(release, dict(counts), lambda: NoiseSource.discover(self, release, counts, **more))

    def draw_normal_numbers(self, release, size, **more):
        # Whose batch it is for does not matter.
        return np.random.default_rng(size).standard_normal(size, np.float32) * np.float32(release.stddev)


def _note_step(total: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Notes the sum of a step, and the part of its first row or unit; gives the first run's sum in its place."""
    tape, earlier = History.tape, History.earlier
    tape.sums.append(np.array(total))
    tape.influences.append(float(np.linalg.norm(part.astype(np.float64))))
    return np.array(total) if earlier is None else earlier.sums[len(tape.sums) - 1]


def _watch_sums(clipped_sums: Any) -> Any:
    """Watches steps that are compiled."""

    def watch(step: Any, rows: Any, *generated: Any) -> Any:
        # Without generated rows the step's noise on layers stays what it is.
        there, without = (flatten(clipped_sums(step, batch)[0]) for batch in (rows, rows[1:]))
        sums, others = clipped_sums(step, rows, *generated)
        known = tf.numpy_function(_note_step, [flatten(sums), there - without], tf.float32)
        known.set_shape([sum(math.prod(part.shape) for part in sums)])
        return split_like(known, sums), others

    return watch


def _watch_sum(clipped_sum: Any) -> Any:
    """Watches steps that are not: each row brings secrets of its own, and its own alone are drawn again."""

    def watch(step: Any, rows: Any) -> Any:
        sums = clipped_sum(step, rows)
        alone = clipped_sum(step, rows[:1])
        return split_like(tf.constant(_note_step(flatten(sums).numpy(), flatten(alone).numpy())), sums)

    return watch


def _put(act: Any, **known: Any) -> Any:
    return lambda *given, **more: act(*given, **{**more, **known})


@contextmanager
def _watching(tape: Tape, earlier: Tape | None, *, block: int | None) -> Iterator[None]:
    charge = Ledger.charge

    def note(ledger: Ledger, label: str, count: int = 1) -> None:
        charge(ledger, label, count)
        release = ledger.find(label)
        place = len(tape.acts)
        tape.acts.append(Act(release, count))
        if earlier is not None:
            there = earlier.acts[place] if place < len(earlier.acts) else None
            if there is None or (there.release, there.count) != (release, count):
                raise Apart(f"{label} is charged, and {there and there.release.label} was")

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            tape.said.append(record.getMessage())

    listener = Listener(logging.DEBUG)
    with ExitStack() as stack:
        for owner, name, value in (
            (History, "tape", tape),
            (History, "earlier", earlier),
            (Ledger, "charge", note),
            (fitting, "NoiseSource", History),
            (together, "choose_step", lambda columns: 400),
            (links, "TURNS", 8),
            (FusedStep, "clipped_sums", _watch_sums(FusedStep.clipped_sums)),
            (PrivatePenaltyStep, "clipped_sum", _watch_sum(PrivatePenaltyStep.clipped_sum)),
        ):
            stack.enter_context(mock.patch.object(owner, name, value, create=name in ("tape", "earlier")))
        if block is not None:
            stack.enter_context(mock.patch.object(storage.cut, "__kwdefaults__", {"size": block}))
            encode = TableEncoder.encode_pieces
            stack.enter_context(mock.patch.object(TableEncoder, "encode_pieces", _put(encode, on_disk=True)))
        stack.callback(LOGGER.setLevel, LOGGER.level)
        stack.callback(LOGGER.removeHandler, listener)
        LOGGER.setLevel(logging.DEBUG)
        LOGGER.addHandler(listener)
        warned = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        yield
        tape.said += [str(warning.message) for warning in warned]


def _make_frame(rows: list[Cells]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict.fromkeys(rows[0], pl.String))


def cut_table(rows: list[Cells], *, piece: int | None = None) -> SourceTable:
    """The rows as a table that is read in so large pieces, or at once."""
    frame = _make_frame(rows)
    whole = make_table(frame)
    if piece is None:
        return whole
    cuts = [frame[start : start + piece] for start in range(0, frame.height, piece)]
    return SourceTable(header=whole.header, records=frame.height, pieces=lambda: (make_piece(part) for part in cuts))


def play(
    case: Case,
    rows: list[Cells],
    earlier: Tape | None = None,
    *,
    piece: int | None = None,
    block: int | None = None,
    threads: int = 1,
) -> Tape:
    """Runs a case on some rows, with what was released earlier, and notes all that happens.

    `piece`: rows that are read at a time; `block`: rows that are counted at a time, on disk.
    """
    tape = Tape()
    # TensorFlow keeps the threads of whatever ran first in this process.
    given = {"threads": None if "steps" in case.options["settings"] else threads, **case.options}
    with _watching(tape, earlier, block=block), tempfile.TemporaryDirectory() as folder:
        if case.public is not None:
            given["public"] = Path(folder) / "public.csv"
            _make_frame(case.public).write_csv(given["public"])
        try:
            synthesizer = Synthesizer(case.specs, case.epsilon, seed=case.number % 1_000, **given)
            synthesizer.fit_encoded(synthesizer.encode_table(cut_table(rows, piece=piece)))
            tape.claim = synthesizer.claim(), synthesizer.schema
            if case.number % 3 == 0 or "rules" in case.specs.get("unit", {}):
                tape.made = synthesizer.sample(60)
        except Exception as error:
            if isinstance(error, ResourceError) or (earlier is None and not isinstance(error, DpwganError)):
                raise
            tape.error = f"{type(error).__name__}: {error}"
    return tape


def _list_exact(act: Act) -> list[Any]:
    return [exact if isinstance(exact, dict) else np.asarray(exact, np.float64) for exact in act.exact]


def measure(first: Act, other: Act) -> float:
    """How far an act moved, over all that it released, in its sensitivities of a unit that is zeroed out."""
    release = first.release
    event = release.event
    pairs = list(zip(_list_exact(first), _list_exact(other), strict=True))
    if isinstance(event, StableSelection):
        # Each row by itself: what that costs a unit is the selection's own affair.
        return sum(abs(one.get(c, 0) - two.get(c, 0)) for one, two in pairs for c in {*one, *two}) / event.rows
    differences = [one - two for one, two in pairs]
    if isinstance(event, ExponentialSelection):
        length = max(float(np.abs(part).max()) for part in differences)
    elif isinstance(event, Laplace):
        length = sum(float(np.abs(part).sum()) for part in differences)
    elif isinstance(event, Wishart):
        length = sum(float(np.abs(np.linalg.eigvalsh(part)).sum()) for part in differences)
    else:
        length = math.sqrt(sum(float(np.square(part).sum()) for part in differences))
    return length / release.sensitivity


def find_factor(event: Any, case: Case) -> float:
    """How many times what zeroing out moves a replacement may move."""
    # Rules that drop rows do not go with lists that are found: there a unit is taken out of these alone.
    replaced = case.options["neighbours"] == "replace-one" or (case.finds and not isinstance(event, StableSelection))
    if not replaced:
        return 1.0
    if isinstance(event, DiscreteGaussian):
        return math.sqrt(2.0)
    return float(getattr(event, "replace_one_factor", 2.0))


def compare(case: Case, first: Tape, other: Tape, moved: dict[str, float], *, same: bool = False) -> list[str]:
    """What is wrong with two runs of one history; `same`: nothing may move, as the tables are the same."""
    if other.error != first.error:
        return [f"ends with {other.error!r} in the place of {first.error!r}"]
    wrong = []
    labels = [[(act.release, act.count, len(act.exact)) for act in tape.acts] for tape in (first, other)]
    if labels[0] != labels[1]:
        return ["other releases"]
    for one, two in zip(first.acts, other.acts, strict=True):
        label = one.release.label
        shapes = [[np.shape(exact) for exact in act.exact] for act in (one, two)]
        if shapes[0] != shapes[1]:
            wrong.append(f"{label}: of other shapes")
            continue
        if one.exact:
            length = measure(one, two) / find_factor(one.release.event, case)
            moved[label] = max(moved.get(label, 0.0), length)
            if not length <= (0.0 if same else 1 + 1e-9):
                wrong.append(f"{label} moves by {length:.6g}")
    wrong += _compare_steps(case, first, other, moved, same=same)
    if first.claim != other.claim:
        wrong.append("another claim or schema")
    if first.said != other.said:
        news = [text for text in other.said if text not in first.said] or ["fewer things"]
        wrong.append(f"says {news[0]!r}")
    if first.made is not None and not first.made.equals(other.made):
        wrong.append("another output")
    return wrong


def _compare_steps(case: Case, first: Tape, other: Tape, moved: dict[str, float], *, same: bool) -> list[str]:
    steps = [act.release for act in first.acts if isinstance(act.release.event, PoissonGaussian)]
    if not steps:
        return []
    release, wrong = steps[0], []
    lengths = [length / release.sensitivity for length in (*first.influences, *other.influences)]
    drops = any(isinstance(rule, dict) and rule.get("violations") == "drop" for rule in case.specs.get("rules", []))
    # Rows that are dropped are not there, and all others lie elsewhere; secrets of rows go by their place.
    if "dp-critic" not in case.options["method"] and (same or not drops):
        factor = 1.0 if same else release.event.rows * find_factor(release.event, case)
        moves = [np.linalg.norm(one.astype(np.float64) - two) for one, two in zip(first.sums, other.sums, strict=True)]
        lengths += [float(length) / release.sensitivity / factor for length in moves]
        if same and max(moves, default=0.0) > 1e-5 * release.sensitivity:
            wrong.append(f"{release.label}: other sums")
    moved[release.label] = max([moved.get(release.label, 0.0), *lengths])
    if not max(lengths, default=0.0) <= 1 + 1e-6:
        wrong.append(f"{release.label} move by {max(lengths):.6g}")
    return wrong
