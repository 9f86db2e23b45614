"""The mixture generator: learnt codes, each with a distribution of its own for every attribute."""

import copy
import itertools
import math
import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from dpwgan.array_types import AnyArray, Arrays, Floats32
from dpwgan.marginals.fit.plan import FitPlan
from dpwgan.marginals.fit.side_by_side import HALVES, share_memory, work_side_by_side
from dpwgan.marginals.loss import Codes, Probabilities, ReleasedLoss, add_gradients, add_up, count_sums
from dpwgan.privacy.journal import Journal
from dpwgan.privacy.ledger import Ledger

# The usual memory of Adam's first moment; a short one of the second, since the loss changes with each answer.
_MOMENTUM = 0.9
_DECAY = 0.99
_FLOOR = 1e-8
# Steps are taken block by block of attributes, each of this many cells, so that a block stays in a core's cache.
_BLOCK_CELLS = 1 << 15
_PROGRESS_CALLS = 100
# With fewer cells of codes, over all steps, starting a second process takes longer than it saves.
_LEAST_APART = 1 << 23
# With no more, one process is done by the time that another has imported TensorFlow and done its half.
_MOST_MEANWHILE = 1 << 28
# How often a checkpoint keeps the generator during the last fit.
_KEEPS = 10


class Mixture:
    """Codes as a table of logits with a softmax per attribute, trained by Adam.

    A row is drawn by drawing a code uniformly, and then each attribute independently from the code's distributions;
    columns depend on each other through the code.
    Privacy: sees released numbers alone.
    Shapes: `logits` (codes, width).
    Source: Liu, Vietri, Wu 2021, arXiv:2106.07153, and Aydore et al. 2021, arXiv:2103.06641 (softmax products fitted to
      released queries by gradients); Kingma and Ba 2015, arXiv:1412.6980 (Adam).
    """

    def __init__(self, sizes: Sequence[int], logits: Floats32) -> None:
        # In memory one row a group and one column a code: sums over an attribute's groups run along whole rows. It is
        # shared, since two processes may train some codes each.
        self._table, self._mean, self._square = (share_memory(logits.T.shape) for _ in range(3))
        self._table[:] = logits.T
        self._steps = 0
        self._codes = len(logits)
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(int)
        self._slices = [slice(first, last) for first, last in itertools.pairwise(starts)]
        self._make_room()

    def _make_room(self) -> None:
        """Allocates what `see` writes distributions to: each part has its own."""
        self._last = np.empty(self._table.shape, np.float32)
        self._blocks = list(_cut(self._slices, most=max(1, _BLOCK_CELLS // self._table.shape[1])))

    @property
    def logits(self) -> Floats32:
        """The logits of all codes. Shapes: (codes, width)."""
        return self._table.T

    def forget(self) -> None:
        """Empties Adam's memory: the loss is about to change."""
        self._mean.fill(0.0)
        self._square.fill(0.0)
        self._steps = 0

    def pack(self) -> dict[str, AnyArray]:
        """Logits and Adam's memory as arrays by name, for a checkpoint."""
        return {"table": self._table, "mean": self._mean, "square": self._square, "steps": np.array(self._steps)}

    def unpack(self, arrays: Arrays) -> None:
        """Takes over what `pack` gave."""
        self._table[:], self._mean[:], self._square[:] = (arrays[key] for key in ("table", "mean", "square"))
        self._steps = int(arrays["steps"])

    def cut(self) -> "list[Mixture]":
        """Halves of the codes, or the one there is, as views: training a half trains these codes."""
        count = min(HALVES, self._codes)
        return [self._take(slice(self._codes * i // count, self._codes * (i + 1) // count)) for i in range(count)]

    def _take(self, codes: slice) -> "Mixture":
        part = copy.copy(self)
        part._table, part._mean, part._square = (whole[:, codes] for whole in (self._table, self._mean, self._square))
        part._make_room()
        return part

    def count_steps(self, steps: int) -> None:
        """Counts steps that its halves were trained for."""
        self._steps += steps

    def probabilities(self) -> Probabilities:
        """The distributions of all codes. Shapes: (codes, width)."""
        return self.see().rows.T.copy(order="K")

    def see(self) -> Codes:
        """The same, as losses see them; valid until the next call."""
        for piece in self._slices:
            block = self._last[piece]
            np.subtract(self._table[piece], np.maximum.reduce(self._table[piece]), out=block)
            np.exp(block, out=block)
            block /= np.add.reduce(block)
        return Codes(rows=self._last, logs=self._table, share=1.0 / self._codes)

    def step(self, gradient: Probabilities, *, learning_rate: float) -> None:
        """Takes one step of Adam against a gradient in the probabilities that were last given.

        Shapes: (codes, width).
        """
        self._steps += 1
        # The loss is a mean over codes: without this factor a code's gradient would sink to the floor with many codes.
        # Both running means leave out common factors: the number of codes, and 1 minus the decay.
        square_scale = self._codes * math.sqrt((1 - _DECAY) / (1 - _DECAY**self._steps))
        rate = np.float32(learning_rate * self._codes * (1 - _MOMENTUM) / (1 - _MOMENTUM**self._steps) / square_scale)
        floor = np.float32(_FLOOR / square_scale)
        for block, pieces in self._blocks:
            last = self._last[block]
            slope = np.multiply(last, gradient.T[block])
            for piece in pieces:
                slope[piece] -= last[piece] * np.add.reduce(slope[piece])
            mean, square = self._mean[block], self._square[block]
            mean *= np.float32(_MOMENTUM)
            mean += slope
            square *= np.float32(_DECAY)
            square += np.square(slope, out=slope)
            # From here on the slope's memory holds the step.
            np.sqrt(square, out=slope)
            slope += floor
            np.divide(mean, slope, out=slope)
            slope *= rate
            self._table[block] -= slope


def fit(
    generator: Mixture,
    losses: Sequence[ReleasedLoss],
    *,
    steps: int,
    learning_rate: float,
    last_rate: float,
    tick: Callable[[], None] = lambda: None,
    first: int = 0,
    last: int | None = None,
    threads: int | None = 1,
    meanwhile: Callable[[], None] | None = None,
) -> None:
    """Fits a generator to released numbers; the rate falls by a constant factor a step. `tick` is called each step.

    Of all `steps` those from `first` up to `last` are taken. `threads`: unless 1, and if this process may use two
    cores, two halves of the codes are trained side by side, with the same result. `meanwhile`: something else of some
    seconds to do beside a short fit, if there is a process for it.
    Privacy: post-processing.
    """
    last = steps if last is None else last
    parts = generator.cut()
    # Two buffers, for odd and even steps: whoever is ahead writes where nobody reads any more.
    sums = share_memory((2, len(parts), count_sums(losses, width=len(parts[0].see().rows))))
    here, ticked = os.getpid(), 0

    def work(own: Sequence[int], meet: Callable[[], None]) -> None:
        nonlocal ticked
        gradients: dict[int, Probabilities] = {}
        for step in range(first, last):
            of_all = sums[step % 2]
            seen = {place: parts[place].see() for place in own}
            for place, codes in seen.items():
                add_up(losses, codes, into=of_all[place])
            meet()
            known = np.add.reduce(of_all)
            rate = learning_rate * (last_rate / learning_rate) ** (step / max(1, steps - 1))
            gradients = gradients or {place: np.empty_like(codes.rows) for place, codes in seen.items()}
            for place, codes in seen.items():
                gradients[place].fill(0.0)
                add_gradients(losses, codes, known, into=gradients[place])
                parts[place].step(gradients[place].T, learning_rate=rate)
            if 0 in own and os.getpid() == here:
                tick()
                ticked += 1

    cells = (last - first) * sum(part.logits.size for part in parts)
    apart = threads != 1 and cells >= _LEAST_APART
    work_side_by_side(work, parts=len(parts), apart=apart, meanwhile=meanwhile if cells <= _MOST_MEANWHILE else None)
    for _ in range(last - first - ticked):
        tick()
    generator.count_steps(last - first)


def fit_on(
    generator: Mixture,
    losses: Sequence[ReleasedLoss],
    plan: FitPlan,
    *,
    journal: Journal,
    tick: "FitProgress",
    threads: int | None,
    meanwhile: Callable[[], None] | None,
) -> None:
    """The last fit, from where an earlier life of the run left it. Privacy: post-processing."""
    kept = journal.recall("generator")
    first = 0 if kept is None else int(kept["fitted"])
    if kept is not None:
        generator.unpack(kept)
        tick.skip(first)
    every = max(1, plan.steps // _KEEPS) if journal.keeps else plan.steps
    while first < plan.steps:
        done = min(plan.steps, first - first % every + every)
        fit(
            generator,
            losses,
            steps=plan.steps,
            learning_rate=plan.learning_rate,
            last_rate=plan.learning_rate / 20,
            tick=tick,
            first=first,
            last=done,
            threads=threads,
            meanwhile=meanwhile,
        )
        if journal.keeps:
            journal.keep("generator", {**generator.pack(), "fitted": np.array(done)})
        first = done


class FitProgress:
    """Counts the steps of fits and reports them now and then, with the epsilon spent."""

    def __init__(self, total: int, *, ledger: Ledger, progress: Callable[[int, int, float], None]) -> None:
        self._total, self._ledger, self._progress = total, ledger, progress
        self._done = 0
        self._every = max(1, total // _PROGRESS_CALLS)

    def skip(self, steps: int) -> None:
        """Counts steps that an earlier life of the run took."""
        self._done += steps

    def __call__(self) -> None:
        """Counts a step."""
        self._done += 1
        if self._done % self._every == 0 or self._done == self._total:
            self._progress(self._done, self._total, self._ledger.epsilon_spent())


def _cut(slices: Sequence[slice], *, most: int) -> Iterator[tuple[slice, list[slice]]]:
    """Blocks of neighbouring attributes with at most so many groups, or one larger attribute.

    Gives each block's slice of the table, and the slices of its attributes within it.
    """
    taken: list[slice] = []
    for piece in [*slices, None]:
        if taken and (piece is None or piece.stop - taken[0].start > most):
            start = taken[0].start
            yield slice(start, taken[-1].stop), [slice(part.start - start, part.stop - start) for part in taken]
            taken = []
        if piece is not None:
            taken.append(piece)
