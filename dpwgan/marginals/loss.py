"""The loss that a generator of codes is fitted to, made of released numbers alone."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from dpwgan.array_types import Floats32

Probabilities = Floats32
"""What a mixture generator says: (codes, width), one distribution an attribute and code, side by side."""
Sums = Floats32


class Codes(NamedTuple):
    """Some of a generator's codes, or all, as losses see them: what one attribute has is one block of memory.

    Shapes: `rows` and `logs` (width, codes), in C order: a code's probability of each group, and the logarithm of that,
    but for a number of the code's that all groups of an attribute share: no gradient of distributions knows it.
    Units: `share` is that of one code in all of them.
    """

    rows: Floats32
    logs: Floats32
    share: float


class ReleasedLoss(Protocol):
    """A loss of the generator's probabilities, computed from releases.

    What it needs of all codes together are each group's mean and sums over codes of its own, none unless it says so;
    beyond them the gradient of each code is its own affair.
    Privacy: post-processing.
    """

    def count_sums(self) -> int:
        """How many sums it needs beside the means."""
        return 0

    def add_up(self, codes: Codes, *, into: Sums) -> None:
        """Writes what some codes have of the sums over what was there. Shapes: `into` (`count_sums()`,)."""
        return

    def add_gradient(self, codes: Codes, means: Sums, sums: Sums, *, into: Probabilities) -> None:
        """Adds the gradient of some codes to others, in place, given the means and sums over all codes.

        Shapes: `means` (width,); `into` (width, codes), in C order.
        Units: of a loss of squared errors over the variance of their noise, halved and summed.
        """


def count_sums(losses: Iterable[ReleasedLoss], *, width: int) -> int:
    """How many sums over codes some losses need, each group's mean among them."""
    return width + sum(loss.count_sums() for loss in losses)


def add_up(losses: Iterable[ReleasedLoss], codes: Codes, *, into: Sums) -> None:
    """Writes what some codes have of the means and of all losses' sums. Shapes: `into` (sums,)."""
    width, many = codes.rows.shape
    np.matmul(codes.rows, np.full(many, codes.share, codes.rows.dtype), out=into[:width])
    for loss, part in _part(losses, into[width:]):
        loss.add_up(codes, into=part)


def add_gradients(losses: Iterable[ReleasedLoss], codes: Codes, sums: Sums, *, into: Probabilities) -> None:
    """Adds the gradients of some codes, given the sums over all. Shapes: `sums` (sums,), `into` (width, codes)."""
    width = len(codes.rows)
    for loss, part in _part(losses, sums[width:]):
        loss.add_gradient(codes, sums[:width], part, into=into)


def sum_gradients(losses: Iterable[ReleasedLoss], codes: Codes) -> Probabilities:
    """The gradient of a sum of losses, of all codes there are. Privacy: post-processing. Shapes: (width, codes)."""
    losses = list(losses)
    sums = np.empty(count_sums(losses, width=len(codes.rows)), codes.rows.dtype)
    total = np.zeros_like(codes.rows)
    add_up(losses, codes, into=sums)
    add_gradients(losses, codes, sums, into=total)
    return total


def _part(losses: Iterable[ReleasedLoss], sums: Sums) -> Iterator[tuple[ReleasedLoss, Sums]]:
    """Each loss with its own sums, which lie side by side."""
    start = 0
    for loss in losses:
        stop = start + loss.count_sums()
        yield loss, sums[start:stop]
        start = stop
