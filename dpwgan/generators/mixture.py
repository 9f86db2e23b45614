"""The mixture generator: latent codes that are learnt, each with one distribution of its own for every attribute."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dpwgan.discriminators.base import Probabilities, ReleasedLoss

# The usual memory of Adam's first moment; a short one of the second, since the loss changes with each answer.
_MOMENTUM = 0.9
_DECAY = 0.99
_FLOOR = 1e-8


class CodeGenerator(Protocol):
    """Anything that says, for each of its codes, how likely every group of every attribute is."""

    def probabilities(self) -> Probabilities:
        """Gives the distributions of all codes. Shapes: (codes, width)."""

    def step(self, gradient: Probabilities, *, learning_rate: float) -> None:
        """Moves against a gradient in the probabilities. Shapes: (codes, width)."""

    def pack(self) -> dict[str, npt.NDArray[np.generic]]:
        """Gives weights and the optimiser's memory as arrays by name, for a checkpoint."""

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
        """Gives logits and Adam's memory as arrays by name, for a checkpoint."""
        return {"table": self._table, "mean": self._mean, "square": self._square, "steps": np.array(self._steps)}

    def unpack(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Takes over what `pack` gave."""
        self._table, self._mean, self._square = (arrays[key].astype(np.float32) for key in ("table", "mean", "square"))
        self._steps = int(arrays["steps"])

    def probabilities(self) -> Probabilities:
        """Gives the distributions of all codes. Shapes: (codes, width)."""
        values = np.empty_like(self._table)
        for piece in self._slices:
            block = values[piece]
            np.subtract(self._table[piece], self._table[piece].max(axis=0), out=block)
            np.exp(block, out=block)
            block /= block.sum(axis=0)
        self._last = values
        return values.T

    def step(self, gradient: Probabilities, *, learning_rate: float) -> None:
        """Takes one step of Adam against a gradient in the probabilities that were last given.

        Shapes: (codes, width).
        """
        slope = self._last * gradient.T
        for piece in self._slices:
            slope[piece] -= self._last[piece] * slope[piece].sum(axis=0)
        # The loss is a mean over codes: without this factor a code's gradient would sink to the floor as codes grow.
        slope *= np.float32(slope.shape[1])
        self._steps += 1
        self._mean *= np.float32(_MOMENTUM)
        self._mean += np.float32(1 - _MOMENTUM) * slope
        np.square(slope, out=slope)
        slope *= np.float32(1 - _DECAY)
        self._square *= np.float32(_DECAY)
        self._square += slope
        # The slope has done its work: its memory holds the step from here on.
        np.multiply(self._square, np.float32(1 / (1 - _DECAY**self._steps)), out=slope)
        np.sqrt(slope, out=slope)
        slope += np.float32(_FLOOR)
        np.divide(self._mean, slope, out=slope)
        slope *= np.float32(learning_rate / (1 - _MOMENTUM**self._steps))
        self._table -= slope


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
        probabilities = generator.probabilities()
        total = np.zeros_like(probabilities)
        for loss in losses:
            total += loss.loss_and_gradient(probabilities)[1]
        generator.step(total, learning_rate=learning_rate * (last_rate / learning_rate) ** (step / max(1, steps - 1)))
        tick()
        keep(step + 1)
