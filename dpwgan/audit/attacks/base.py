"""What an attack gets to see, and what comes out of it.

Every attack is played twice: against rows that the synthetic table was made from, and against rows that were held out.
What it achieves on the second it would achieve without the synthetic table having seen anyone: that is the baseline.

Privacy: NOT private, and so is every attack: it reads the private rows, and what it finds is a statistic of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpwgan.audit.comparisons import Comparison
from dpwgan.errors import UsageError
from dpwgan.evaluate.tables import ComparedTable, TableSet

FEWEST_ROWS = 20
"""Of a table that is attacked; with fewer an interval is as wide as what it measures."""


class CannotPlayError(Exception):
    """Why an attack cannot be played on these tables, in one sentence."""


@dataclass(frozen=True, kw_only=True)
class AttackSettings:
    """How attacks are played: at most `rows` rows of each kind are attacked, each interval has that `confidence`, and
    any alarm of an audit is false with a probability of half of what is left of it.

    `secrets` are the columns to be guessed (none: all); `target` the one whose classifier is inverted, and that
    anonymeter guesses (none: chosen).
    Raises: UsageError if a number is out of range.
    """

    rows: int = 1000
    confidence: float = 0.95
    secrets: Sequence[str] = ()
    target: str | None = None

    def __post_init__(self) -> None:
        if not 0.5 < self.confidence < 1.0:
            raise UsageError("the confidence must be above 0.5 and below 1")
        if self.rows < FEWEST_ROWS:
            raise UsageError(f"at least {FEWEST_ROWS} rows must be attacked")


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """What an attack achieved: the headline, and its parts (a column, a threshold) by name.

    `measure` says what the headline's numbers are; `details` holds more figures.
    """

    question: str
    measure: str
    attacked_rows: int
    headline: Comparison
    parts: Mapping[str, Comparison] = field(default_factory=dict)
    details: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Game(TableSet):
    """The three tables, held-out rows among them, which are from the same population as those trained on.

    Raises: UsageError if a table has too few rows.
    """

    holdout: ComparedTable
    settings: AttackSettings = field(default_factory=AttackSettings)

    def __post_init__(self) -> None:
        for name in ("real", "synthetic", "holdout"):
            rows = getattr(self, name).rows
            if rows < FEWEST_ROWS:
                raise UsageError(f"the {name} table has {rows} usable rows, and attacks need at least {FEWEST_ROWS}")

    def draw(self, table: ComparedTable, rng: np.random.Generator) -> ComparedTable:
        """Draws rows to attack, without replacement: all of them if there are no more than asked for."""
        return table.draw(self.settings.rows, rng)


Attack = Callable[[Game, np.random.Generator], AttackResult]
"""Raises `CannotPlayError` for tables that it cannot be played on."""


def choose_target(game: Game) -> int | None:
    """Chooses the column that one attack is about: the one asked for, or the last of 2 to 50 categories.

    Raises: UsageError if the column asked for is not one of categories.
    """
    asked = game.settings.target
    for place, column in reversed(list(enumerate(game.synthetic.columns))):
        listed = column.kind == "categorical"
        if asked is None and listed and 2 <= column.cells <= 50:
            return place
        if column.name == asked:
            if not listed or column.cells < 2:
                raise UsageError(f"column {asked!r} has no list of categories, so no classifier can be inverted")
            return place
    if asked is not None:
        raise UsageError(f"the specs have no column {asked!r} that can be the target")
    return None
