"""What an attack gets to see, and what comes out of it.

Every attack is played twice: against rows that the synthetic table was made from, and against rows that were held out.
What it achieves on the second it would achieve without the synthetic table having seen anyone: that is the baseline.

Privacy: NOT private, and so is every attack: it reads the private rows, and what it finds is a statistic of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpwgan.audit.intervals import Interval, bound_share, bound_share_difference, check_confidence
from dpwgan.audit.points import Points, lay_out_points
from dpwgan.errors import UsageError
from dpwgan.evaluate.tables import ComparedTable, TableSet

FEWEST_ROWS = 20
"""Of a table that is attacked; with fewer an interval is as wide as what it measures."""


class CannotPlayError(Exception):
    """Why an attack cannot be played on these tables, in one sentence."""


@dataclass(frozen=True, kw_only=True)
class AttackSettings:
    """How attacks are played: at most `rows` rows of each kind are attacked, each interval has that `confidence`.

    `secrets` are the columns to be guessed (none: all); `target` the one whose classifier is inverted (none: chosen).
    Raises: UsageError if a number is out of range.
    """

    rows: int = 1000
    confidence: float = 0.95
    secrets: Sequence[str] = ()
    target: str | None = None

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if self.rows < FEWEST_ROWS:
            raise UsageError(f"at least {FEWEST_ROWS} rows must be attacked")


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """What an attack achieved on training rows, what on hold-out rows, and the difference.

    `measure` says what the three numbers are; `details` holds more figures. It beats its baseline where the excess is
    above 0 by more than chance, which is wrong at the `false_alarm_rate`.
    """

    question: str
    measure: str
    attacked_rows: int
    success: Interval
    baseline: Interval
    excess: Interval
    beats_baseline: bool
    false_alarm_rate: float
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

    def points(self, table: ComparedTable) -> Points:
        """The rows of one of the tables as points."""
        return lay_out_points(table)

    def draw(self, table: ComparedTable, rng: np.random.Generator, *, rows: int | None = None) -> ComparedTable:
        """Draws rows to attack, without replacement: all of them if there are no more than asked for."""
        return table.draw(self.settings.rows if rows is None else rows, rng)

    def judge(self, *, success: Interval, baseline: Interval, excess: Interval, **words: Any) -> AttackResult:
        """Says whether an attack beats its baseline; `words` are the other fields of the result."""
        return AttackResult(
            success=success,
            baseline=baseline,
            excess=excess,
            beats_baseline=excess.lower > 0.0,
            false_alarm_rate=(1.0 - self.settings.confidence) / 2.0,
            **words,
        )

    def judge_shares(self, hits: int, trials: int, controls: int, control_trials: int, **words: Any) -> AttackResult:
        """Judges an attack that either succeeds or fails on a row: `hits` of `trials` training rows, and `controls` of
        `control_trials` hold-out rows.
        """
        confidence = self.settings.confidence
        return self.judge(
            attacked_rows=trials,
            success=bound_share(hits, trials, confidence=confidence),
            baseline=bound_share(controls, control_trials, confidence=confidence),
            excess=bound_share_difference(hits, trials, controls, control_trials, confidence=confidence),
            **words,
        )

    def judge_against_half(self, success: Interval, **words: Any) -> AttackResult:
        """Judges an attack that achieves 1/2 where it knows nothing of who was trained on."""
        half = Interval(value=0.5, lower=0.5, upper=0.5)
        return self.judge(success=success, baseline=half, excess=success.shift(-0.5), **words)


Attack = Callable[[Game, np.random.Generator], AttackResult]
"""Raises `CannotPlayError` for tables that it cannot be played on."""


def choose_target(game: Game) -> int | None:
    """Chooses the column whose classifier is inverted: the one asked for, or the last of 2 to 50 categories.

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
