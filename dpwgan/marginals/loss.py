"""The loss that a generator of codes is fitted to, made of released numbers alone."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from dpwgan.array_types import Floats32

Probabilities = Floats32
"""A mixture's distributions: (codes, width), one for each attribute and code, side by side."""
Sums = Floats32


class Codes(NamedTuple):
    """Some or all of a generator's codes, as losses see them: each attribute is one block of memory.

    Shapes: `rows` and `logs` (width, codes), in C order: a code's probability of each group, and its logarithm up to a
    constant for each code and attribute, which no gradient of distributions depends on.
    Units: `share` is that of one code in all of them.
    """

    rows: Floats32
    logs: Floats32
    share: float


class ReleasedLoss(Protocol):
    """A loss of the generator's probabilities, computed from releases.

    It depends on all codes together by the groups' means and by sums over codes of its own alone, so that the gradient
    of each code can be computed by itself, given these.
    Privacy: post-processing.
    """

    def count_sums(self) -> int:
        """Number of sums beside the means."""
        return 0

    def add_up(self, codes: Codes, *, into: Sums) -> None:
        """Writes the part of some codes in the sums. Shapes: `into` (`count_sums()`,)."""
        return

    def add_gradient(self, codes: Codes, means: Sums, sums: Sums, *, into: Probabilities) -> None:
        """Adds the gradient of some codes, in place, given the means and sums over all codes.

        Shapes: `means` (width,); `into` (width, codes), in C order.
        Units: of a loss of squared errors over the variance of their noise, halved and summed.
        """


def count_sums(losses: Iterable[ReleasedLoss], *, width: int) -> int:
    """Number of sums over codes that some losses need, the groups' means included."""
    return width + sum(loss.count_sums() for loss in losses)


def add_up(losses: Iterable[ReleasedLoss], codes: Codes, *, into: Sums) -> None:
    """Writes the part of some codes in the means and in all losses' sums. Shapes: `into` (sums,)."""
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
    """The gradient of a sum of losses by all codes. Privacy: post-processing. Shapes: (width, codes)."""
    losses = list(losses)
    sums = np.empty(count_sums(losses, width=len(codes.rows)), codes.rows.dtype)
    total = np.zeros_like(codes.rows)
    add_up(losses, codes, into=sums)
    add_gradients(losses, codes, sums, into=total)
    return total


def _part(losses: Iterable[ReleasedLoss], sums: Sums) -> Iterator[tuple[ReleasedLoss, Sums]]:
    """Each loss with its own sums."""
    start = 0
    for loss in losses:
        stop = start + loss.count_sums()
        yield loss, sums[start:stop]
        start = stop
