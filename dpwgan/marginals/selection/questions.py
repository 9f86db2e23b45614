"""Candidate tables of counts: select the one whose answer should gain most, and measure it; again and again.

Privacy: of rows it reads the scores of candidates made of releases alone, through the exponential mechanism, and the
counts of the one selected, through the Gaussian mechanism.
"""

import functools
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Generic, TypeVar

import numpy as np

from dpwgan.array_types import Floats
from dpwgan.marginals.answers.views import WIDTHS, join_neighbours
from dpwgan.marginals.selection.queries import ANSWER_LABEL, SELECTION_LABEL, expect_gains
from dpwgan.privacy.ledger import Ledger

Question = TypeVar("Question")


@dataclass(eq=False)
class Questions(Generic[Question]):
    """Candidates by name, each a table of counts; all are counted at the first selection.

    `count` gives all tables of these `shapes`, flat, in one vector. `labels`: of selections and of answers. `ordered`:
    candidates whose first axis has an order, so that blocks of neighbours may be scored.
    Privacy: a record must add 1 to one count of a candidate at most. Scores then have sensitivity 1 under zero-out (2
      under replace-one), counts 1 (sqrt 2). Rows are read within the ledger's selections and answers alone.
    Source: as `QueryDiscriminator`.
    """

    shapes: Mapping[Question, tuple[int, ...]]
    count: Callable[[], Floats]
    _: KW_ONLY
    ledger: Ledger
    labels: tuple[str, str] = (SELECTION_LABEL, ANSWER_LABEL)
    ordered: Collection[Question] = ()

    @property
    def stddev(self) -> float:
        """That of the noise on each count."""
        return self.ledger.find(self.labels[1]).stddev

    def split(self, flat: Floats) -> dict[Question, Floats]:
        """The table of each candidate, from the vector that holds all of them."""
        pieces = np.split(flat, np.cumsum([math.prod(shape) for shape in self.shapes.values()])[:-1])
        return {one: piece.reshape(shape) for (one, shape), piece in zip(self.shapes.items(), pieces, strict=True)}

    @functools.cached_property
    def _counts(self) -> dict[Question, Floats]:
        return self.split(self.count())

    def ask(self, expected: Mapping[Question, Floats], *, stddev: float | None = None) -> tuple[Question, Floats]:
        """Selects among the candidates for which counts are `expected`, and releases the counts of the one selected.

        `stddev`: of the noise that scores assume; that of one answer if not given.
        """
        noise, left = stddev or self.stddev, list(expected)

        def score_blocks(one: Question, width: int) -> float:
            counts, centre = (join_neighbours(cells, width) for cells in (self._counts[one], expected[one]))
            return float(expect_gains(np.abs(counts - centre), centre, stddev=noise * math.sqrt(width)).sum())

        def score() -> list[float]:
            widths = {one: WIDTHS if one in self.ordered else WIDTHS[:1] for one in left}
            return [max(score_blocks(one, width) for width in widths[one]) for one in left]

        asked = left[self.ledger.select(self.labels[0], score)]
        noisy = self.ledger.release(self.labels[1], lambda: self._counts[asked])
        return asked, noisy.values.astype(np.float64)
