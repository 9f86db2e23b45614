"""The mixture generator: latent codes that are learnt, each with one distribution of its own for every attribute."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.loss import Probabilities, ReleasedLoss, add_up_gradients
from dpwgan.privacy.journal import Journal
from dpwgan.privacy.ledger import Ledger

# The usual memory of Adam's first moment; a short one of the second, since the loss changes with each answer.
_MOMENTUM = 0.9
_DECAY = 0.99
_FLOOR = 1e-8
# Steps are taken some attributes after the others: all that one block of this many cells needs stays in a core's cache.
_BLOCK_CELLS = 1 << 15
_PROGRESS_CALLS = 100
# How often a checkpoint takes down the generator while it is fitted for the last time.
_KEEPS = 10


class CodeGenerator(Protocol):
    """Anything that says, for each of its codes, how likely every group of every attribute is."""

    def probabilities(self) -> Probabilities:
        """The distributions of all codes. Shapes: (codes, width)."""

    def step(self, gradient: Probabilities, *, learning_rate: float) -> None:
        """Moves against a gradient in the probabilities. Shapes: (codes, width)."""

    def pack(self) -> dict[str, npt.NDArray[np.generic]]:
        """Weights and the optimiser's memory as arrays by name, for a checkpoint."""

    def unpack(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Takes over what `pack` gave."""


class Mixture:
    """Codes as a table of logits with a softmax per attribute, moved by Adam.

    A row is drawn by drawing a code, all alike, and from its distributions every attribute by itself; what hangs
    together in rows hangs together because codes differ.
    Privacy: sees released numbers alone.
    Shapes: `logits` (codes, width).
    Source: Liu, Vietri, Wu 2021, arXiv:2106.07153, and Aydore et al. 2021, arXiv:2103.06641 (softmax products fitted to
      released queries by gradients); Kingma and Ba 2015, arXiv:1412.6980 (Adam).
    """

    def __init__(self, sizes: Sequence[int], logits: npt.NDArray[np.float32]) -> None:
        # In memory there is one row a group and one column a code: sums over a group's cells run along whole rows.
        self._table = np.ascontiguousarray(logits.T)
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(int)
        self._slices = [slice(first, last) for first, last in itertools.pairwise(starts)]
        self._blocks = list(_cut(self._slices, most=max(1, _BLOCK_CELLS // self._table.shape[1])))
        self._last = np.empty_like(self._table)
        self.forget()

    @property
    def logits(self) -> npt.NDArray[np.float32]:
        """The logits of all codes. Shapes: (codes, width)."""
        return self._table.T

    def forget(self) -> None:
        """Empties Adam's memory: the loss is about to change."""
        self._mean = np.zeros_like(self._table)
        self._square = np.zeros_like(self._table)
        self._steps = 0

    def pack(self) -> dict[str, npt.NDArray[np.generic]]:
        """Logits and Adam's memory as arrays by name, for a checkpoint."""
        return {"table": self._table, "mean": self._mean, "square": self._square, "steps": np.array(self._steps)}

    def unpack(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Takes over what `pack` gave."""
        self._table, self._mean, self._square = (arrays[key].astype(np.float32) for key in ("table", "mean", "square"))
        self._steps = int(arrays["steps"])

    def probabilities(self) -> Probabilities:
        """The distributions of all codes. Shapes: (codes, width)."""
        values = np.empty_like(self._table)
        for piece in self._slices:
            block = values[piece]
            np.subtract(self._table[piece], np.maximum.reduce(self._table[piece]), out=block)
            np.exp(block, out=block)
            block /= np.add.reduce(block)
        self._last = values
        return values.T

    def step(self, gradient: Probabilities, *, learning_rate: float) -> None:
        """Takes one step of Adam against a gradient in the probabilities that were last given.

        Shapes: (codes, width).
        """
        self._steps += 1
        # The loss is a mean over codes: without this factor a code's gradient would sink to the floor as codes grow.
        codes = self._table.shape[1]
        # Both means leave out the factors that are the same for all: the codes, and what makes them means.
        square_scale = codes * math.sqrt((1 - _DECAY) / (1 - _DECAY**self._steps))
        rate = np.float32(learning_rate * codes * (1 - _MOMENTUM) / (1 - _MOMENTUM**self._steps) / square_scale)
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
            # The slope has done its work: its memory holds the step from here on.
            np.sqrt(square, out=slope)
            slope += floor
            np.divide(mean, slope, out=slope)
            slope *= rate
            self._table[block] -= slope


def fit(
    generator: CodeGenerator,
    losses: Sequence[ReleasedLoss],
    *,
    steps: int,
    learning_rate: float,
    last_rate: float,
    tick: Callable[[], None] = lambda: None,
    first: int = 0,
    keep: Callable[[int], None] = lambda done: None,
) -> None:
    """Fits a generator to released numbers; the rate falls by a constant factor a step. `tick` is called each step.

    `first`: how many of the steps are done already; `keep` is told the number done after each step.
    Privacy: post-processing.
    """
    for step in range(first, steps):
        gradient = add_up_gradients(losses, generator.probabilities())
        rate = learning_rate * (last_rate / learning_rate) ** (step / max(1, steps - 1))
        generator.step(gradient, learning_rate=rate)
        tick()
        keep(step + 1)


def fit_on(
    generator: CodeGenerator,
    losses: Sequence[ReleasedLoss],
    *,
    steps: int,
    learning_rate: float,
    journal: Journal,
    tick: "FitProgress",
) -> None:
    """Fits a generator for the last time, from where an earlier life of the run left it. Privacy: post-processing."""
    kept = journal.recall("generator")
    first = 0 if kept is None else int(kept["fitted"])
    if kept is not None:
        generator.unpack(kept)
        tick.skip(first)
    every = max(1, steps // _KEEPS)

    def keep(done: int) -> None:
        if journal.keeps and (done % every == 0 or done == steps):
            journal.keep("generator", {**generator.pack(), "fitted": np.array(done)})

    last_rate = learning_rate / 20
    fit(
        generator,
        losses,
        steps=steps,
        learning_rate=learning_rate,
        last_rate=last_rate,
        tick=tick,
        first=first,
        keep=keep,
    )


class FitProgress:
    """Counts the steps of fits and tells the progress bar now and then, together with what was spent of epsilon."""

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
    """Puts attributes into blocks of at most so many groups where there are no larger ones.

    Gives each block's slice of the table, and those of its attributes within it.
    """
    taken: list[slice] = []
    for piece in [*slices, None]:
        if taken and (piece is None or piece.stop - taken[0].start > most):
            start = taken[0].start
            yield slice(start, taken[-1].stop), [slice(part.start - start, part.stop - start) for part in taken]
            taken = []
        if piece is not None:
            taken.append(piece)
