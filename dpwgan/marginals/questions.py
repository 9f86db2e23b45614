"""Tables of counts that are asked for one at a time: the one whose answer is expected to gain most, and its answer.

Privacy: of rows it reads the scores of candidates made of releases alone, through the exponential mechanism, and the
counts of the one selected, through the Gaussian mechanism.
"""

import functools
import math
from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.queries import ANSWER_LABEL, SELECTION_LABEL, expect_gains
from dpwgan.marginals.views import WIDTHS, join_neighbours
from dpwgan.privacy.ledger import Ledger

Counts = npt.NDArray[np.float64]
Question = TypeVar("Question")


class Questions(Generic[Question]):
    """Candidates by name, each a table of counts; all are counted when the first is selected.

    Privacy: a record must add 1 to one count of a candidate at most. Scores then have sensitivity 1 under zero-out (2
      under replace-one), counts 1 (sqrt 2). Rows are read within the ledger's selections and answers alone.
    Source: as `QueryDiscriminator`.
    """

    def __init__(
        self,
        shapes: Mapping[Question, tuple[int, ...]],
        count: Callable[[], Counts],
        *,
        ledger: Ledger,
        labels: tuple[str, str] = (SELECTION_LABEL, ANSWER_LABEL),
        ordered: Collection[Question] = (),
    ) -> None:
        """Counts nothing yet: `count` gives all tables of these `shapes` in a row. `labels`: of both releases.

        Of `ordered` candidates neighbours along the first axis are alike: gains may be those in blocks of them.
        """
        self._ordered = ordered
        self._shapes = shapes
        self._count_all = count
        self._ledger = ledger
        self._labels = labels

    @property
    def stddev(self) -> float:
        """That of the noise on each count."""
        return self._ledger.find(self._labels[1]).stddev

    @property
    def candidates(self) -> list[Question]:
        """All of them, in their order."""
        return list(self._shapes)

    def split(self, flat: Counts) -> dict[Question, Counts]:
        """The table of each candidate, from a vector that has all of them one after the other."""
        pieces = np.split(flat, np.cumsum([math.prod(shape) for shape in self._shapes.values()])[:-1])
        return {one: piece.reshape(shape) for (one, shape), piece in zip(self._shapes.items(), pieces, strict=True)}

    @functools.cached_property
    def _counts(self) -> dict[Question, Counts]:
        return self.split(self._count_all())

    def ask(self, expected: Mapping[Question, Counts], *, stddev: float | None = None) -> tuple[Question, Counts]:
        """Selects one of those of which counts are expected, and releases its counts.

        `stddev`: of the noise that gains are expected with, if it is not that of this answer alone.
        """
        noise, left = stddev or self.stddev, list(expected)

        def score_blocks(one: Question, width: int) -> float:
            counts, centre = (join_neighbours(cells, width) for cells in (self._counts[one], expected[one]))
            return float(expect_gains(np.abs(counts - centre), centre, stddev=noise * math.sqrt(width)).sum())

        def score() -> list[float]:
            widths = {one: WIDTHS if one in self._ordered else WIDTHS[:1] for one in left}
            return [max(score_blocks(one, width) for width in widths[one]) for one in left]

        asked = left[self._ledger.select(self._labels[0], score)]
        noisy = self._ledger.release(self._labels[1], lambda: self._counts[asked])
        return asked, noisy.values.astype(np.float64)
