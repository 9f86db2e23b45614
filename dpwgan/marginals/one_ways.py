"""The private one-way release: how many records every cell of every attribute holds, give or take the noise.

A category column has one histogram. A number has a tree of them over its levels, each 16 times as coarse as the next,
because a range of a million levels is mostly empty: the coarse ones say where to look.
Source: Hay, Rastogi, Miklau, Suciu 2010, arXiv:0904.0942 (hierarchical histograms).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpwgan.errors import DpwganError
from dpwgan.marginals.layout import Attribute, lay_out_attributes
from dpwgan.privacy.events import discrete_gaussian
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.release import Release
from dpwgan.table.encoded import EncodedTable, Span
from dpwgan.table.rows import Rows, Sum
from dpwgan.table.storage import cut, let_go

BRANCHING = 16
"""How many blocks of levels make one block of the next coarser histogram."""

MOST_ROOT_BLOCKS = 256
"""A histogram with no more blocks than this has no coarser one above it: each one more costs noise on all of them."""

Counts = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class OneWayPlan:
    """Which histograms are released, from public facts alone.

    `blocks`: for each attribute, the number of blocks of levels in each of its histograms, the coarsest first; (0,)
    for an attribute without a number. Every histogram holds all codes of its attribute before the blocks.
    """

    spans: tuple[Span, ...]
    attributes: tuple[Attribute, ...]
    blocks: tuple[tuple[int, ...], ...]

    @property
    def cells(self) -> int:
        """Number of counts in all histograms together."""
        return sum(
            attribute.codes + size
            for attribute, blocks in zip(self.attributes, self.blocks, strict=True)
            for size in blocks
        )

    @property
    def histograms(self) -> int:
        """Number of histograms: the squared L2 sensitivity of all of them together under zero-out.

        Privacy: a record adds 1 to exactly one cell of each histogram. Zeroing it out takes these away, a distance of
          sqrt(histograms); replacing it moves each of them to another cell at most, sqrt(2) times that.
        """
        return sum(len(blocks) for blocks in self.blocks)

    @property
    def sensitivity(self) -> float:
        """L2 sensitivity of all histograms together under zero-out."""
        return math.sqrt(self.histograms)

    def plan_release(self, label: str, *, noise_multiplier: float) -> Release:
        """Says what measuring this plan releases, for the ledger to reserve before."""
        return Release(
            label=label,
            event=discrete_gaussian(noise_multiplier=noise_multiplier, cells=self.histograms),
            times=1,
            mechanism="discrete Gaussian noise on all one-way counts together",
            sensitivity=self.sensitivity,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class OneWays:
    """The released histograms, in the order of the plan.

    Units: counts of records, each with independent Gaussian noise of stddev `stddev`.
    """

    plan: OneWayPlan
    histograms: tuple[tuple[Counts, ...], ...]
    stddev: float

    def pack(self) -> dict[str, npt.NDArray[np.generic]]:
        """All counts as arrays by name, for a checkpoint. Privacy: the release alone."""
        counts = np.concatenate([counts for histograms in self.histograms for counts in histograms])
        return {"counts": counts, "stddev": np.array(self.stddev)}

    def get_codes(self, attribute: int) -> tuple[Counts, float]:
        """The noisy counts of an attribute's codes, and their stddev: the mean over its histograms.

        Shapes: (codes,).
        """
        histograms, codes = self.histograms[attribute], self.plan.attributes[attribute].codes
        mean: Counts = np.mean([histogram[:codes] for histogram in histograms], axis=0)
        return mean, self.stddev / math.sqrt(len(histograms))

    def get_blocks(self, attribute: int) -> tuple[Counts, ...]:
        """The noisy counts of an attribute's blocks of levels, the coarsest histogram first.

        Shapes: (blocks,) each, as in the plan.
        """
        codes = self.plan.attributes[attribute].codes
        return tuple(histogram[codes:] for histogram in self.histograms[attribute])


def unpack_one_ways(arrays: Mapping[str, npt.NDArray[np.generic]], plan: OneWayPlan) -> OneWays:
    """Gives back what `OneWays.pack` was given, under the same plan."""
    return split_one_ways(arrays["counts"].astype(np.float64), plan, stddev=float(arrays["stddev"]))


def plan_one_ways(spans: tuple[Span, ...]) -> OneWayPlan:
    """Chooses the histograms of every attribute.

    Privacy: reads public facts only.
    """
    attributes = lay_out_attributes(spans)
    return OneWayPlan(
        spans=spans, attributes=attributes, blocks=tuple(_count_blocks(attribute.levels) for attribute in attributes)
    )


def count_one_ways(encoded: EncodedTable, plan: OneWayPlan) -> tuple[tuple[Counts, ...], ...]:
    """Counts the records in every cell of every histogram, exactly. What it gives is not released.

    Privacy: L2 sensitivity as `OneWayPlan.histograms` says. The counts are whole numbers far below 2^53, so that no
      sum is rounded.
    Raises: DpwganError, an internal error, if the table is not laid out as in the plan.
    """
    if encoded.spans != plan.spans:
        raise DpwganError("Internal error: the encoded table is not laid out as the plan of its counts.")
    cells = [np.zeros(attribute.cells, np.int64) for attribute in plan.attributes]
    for rows in cut(encoded.records):
        for attribute, counts_so_far in zip(plan.attributes, cells, strict=True):
            counted = np.bincount(attribute.find_cells(encoded, rows))
            counts_so_far[: len(counted)] += counted
        let_go(encoded.codes, encoded.numbers)
    tables = []
    for attribute, blocks, counted in zip(plan.attributes, plan.blocks, cells, strict=True):
        finest = counted.astype(np.float64)
        codes, counts = finest[: attribute.codes], finest[attribute.codes :]
        histograms = [finest]
        for size in reversed(blocks[:-1]):
            padded = np.zeros(size * BRANCHING)
            padded[: len(counts)] = counts
            counts = padded.reshape(size, BRANCHING).sum(axis=1)
            histograms.append(np.concatenate((codes, counts)))
        tables.append(tuple(reversed(histograms)))
    return tuple(tables)


def _join_one_ways(encoded: EncodedTable) -> Counts:
    """All histograms in one vector. The table has all public facts that they are planned from."""
    counts = count_one_ways(encoded, plan_one_ways(encoded.spans))
    return np.concatenate([histogram for histograms in counts for histogram in histograms])


ONE_WAYS = Sum[EncodedTable]("one-ways", lambda encoded, argument, array: _join_one_ways(encoded))
"""`count_one_ways`, all histograms in one vector, in the order of the plan."""


def measure_one_ways(rows: Rows[EncodedTable], plan: OneWayPlan, *, ledger: Ledger, label: str) -> OneWays:
    """Releases all histograms of the plan at once, as the ledger has them under `label`.

    Privacy: the sensitivity is `plan.sensitivity` under zero-out, and sqrt(2) times that under replace-one.
    Raises: PrivacyError from the ledger; DpwganError, an internal error, if the table is not laid out as in the plan.
    """
    if plan_one_ways(rows.own.spans) != plan:
        raise DpwganError("Internal error: the encoded table is not laid out as the plan of its counts.")
    noisy = ledger.release(label, lambda: rows.sum(ONE_WAYS))
    return split_one_ways(noisy.values, plan, stddev=noisy.stddev)


def split_one_ways(noisy: Counts, plan: OneWayPlan, *, stddev: float) -> OneWays:
    """Noisy counts, all in one vector, as the histograms of a plan."""
    sizes = [
        [attribute.codes + size for size in blocks]
        for attribute, blocks in zip(plan.attributes, plan.blocks, strict=True)
    ]
    ends = np.cumsum([size for histograms in sizes for size in histograms])
    released = iter(np.split(noisy, ends[:-1]))
    return OneWays(
        plan=plan,
        histograms=tuple(tuple(next(released) for _ in histograms) for histograms in sizes),
        stddev=stddev,
    )


def _count_blocks(levels: int) -> tuple[int, ...]:
    blocks = [levels]
    while blocks[0] > MOST_ROOT_BLOCKS:
        blocks.insert(0, -(-blocks[0] // BRANCHING))
    return tuple(blocks)
