"""Which days a date falls on: a released histogram of weekdays, and of the first, the 15th and the last of a month.

Shops close on Sundays and contracts begin on the first, which intervals of weeks and months do not show. Every day has
one kind: its place in the month, if it is one of the three, else its weekday. A place in the month that differs from
other days by no more than noise is no kind: its days are of their weekdays. The rest is as for rounded numbers
(`dpwgan.marginals.one_way.round_steps`): each kind has odds within every interval, such that all intervals together
match the counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpwgan.array_types import Floats, Integers
from dpwgan.marginals.draws import draw_by_odds
from dpwgan.marginals.one_way.number_tree import Intervals
from dpwgan.marginals.one_way.round_steps import match_totals

_WEEKDAYS, _ALL_PLACES = 7, (True,) * 3
NO_PLACES = (False,) * 3
"""No place in the month is a kind."""
DAY_KINDS = _WEEKDAYS + len(_ALL_PLACES)
"""Monday to Sunday, the first, the 15th and the last of a month."""

_THURSDAY = 3  # that the first of January 1970 was

_STANDS_OUT, _TOLD = 4.0, 2.0
"""In stddevs of noise: how far a kind must be from uniform days to count, and the least count that is not 0."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DayKinds:
    """The odds of days within an interval.

    `first_day`: the day of level 0, counted from 1970; `levels`: their number; `places`: which of the three places in
    the month are kinds. Shapes: `odds` (DAY_KINDS,), of one day each.
    """

    first_day: int
    levels: int
    places: tuple[bool, ...]
    odds: Floats

    @cached_property
    def _days(self) -> tuple[Integers, ...]:
        """The levels of each kind, rising."""
        kinds = find_day_kinds(np.arange(self.levels), first_day=self.first_day, places=self.places)
        return tuple(np.flatnonzero(kinds == kind) for kind in range(DAY_KINDS))

    def weigh(self, starts: Integers, sizes: Integers) -> Floats:
        """The mean odds of a day in each interval of levels. Shapes: (m,) each."""
        return self.count(starts, sizes) @ self.odds / sizes

    def draw(self, starts: Integers, sizes: Integers, chosen: Integers, *, rng: np.random.Generator) -> Integers:
        """Draws a day from each chosen interval by the odds. Shapes: (m,) intervals, (n,) chosen."""
        many = self.count(starts, sizes)
        kinds = draw_by_odds(many * self.odds, chosen, rng=rng)
        places = (rng.random(len(chosen)) * many[chosen, kinds]).astype(np.int64)
        levels = np.empty(len(chosen), np.int64)
        for kind, days in enumerate(self._days):
            own = np.flatnonzero(kinds == kind)
            levels[own] = days[np.searchsorted(days, starts[chosen[own]]) + places[own]]
        return levels

    def count(self, starts: Integers, sizes: Integers) -> Integers:
        """How many days of each kind each interval has. Shapes: (m, DAY_KINDS)."""
        return np.stack([np.searchsorted(own, starts + sizes) - np.searchsorted(own, starts) for own in self._days], 1)

    def to_document(self) -> dict[str, Any]:
        """Everything as JSON-able values."""
        first_day, levels = self.first_day, self.levels
        return {"first_day": first_day, "levels": levels, "places": [*self.places], "odds": self.odds.tolist()}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "DayKinds":
        """Reads what `to_document` gave. Raises: KeyError, TypeError or ValueError if it is damaged."""
        odds, levels = np.array(document["odds"], np.float64), int(document["levels"])
        places = tuple(bool(place) for place in document["places"])
        if odds.shape != (DAY_KINDS,) or not np.all((odds > 0) & np.isfinite(odds)) or not 0 < levels < 1 << 22:
            raise ValueError("odds do not fit the kinds of days")
        return cls(first_day=int(document["first_day"]), levels=levels, places=places, odds=odds)


def find_day_kinds(levels: Integers, *, first_day: int, places: Sequence[bool] = _ALL_PLACES) -> Integers:
    """The kind of the day at each level. Shapes: (n,). `places`: those in the month that are kinds."""
    days = levels + first_day
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    of_month = (dates - months.astype("datetime64[D]")).astype(np.int64)
    is_last = (dates + np.timedelta64(1, "D")).astype("datetime64[M]") > months
    kinds = (days + _THURSDAY) % _WEEKDAYS
    for kind, (flags, is_told) in enumerate(zip((of_month == 0, of_month == 14, is_last), places, strict=True)):
        if is_told:
            kinds[flags] = _WEEKDAYS + kind
    return kinds


def estimate_days(counts: Floats, intervals: Intervals, *, first_day: int, stddev: float) -> DayKinds | None:
    """The odds of days in intervals by the noisy counts of kinds; None if these show only noise.

    Privacy: post-processing of releases. Shapes: (DAY_KINDS,) counts.
    """
    used = (intervals.sizes > 1) & (intervals.masses > 0)
    if not np.any(used):
        return None
    starts, sizes = intervals.starts[used], intervals.sizes[used]
    shares = intervals.masses[used] / intervals.masses[used].sum()
    levels, odds = int(intervals.sizes.sum()), np.ones(DAY_KINDS)
    all_kinds = DayKinds(first_day=first_day, levels=levels, places=_ALL_PLACES, odds=odds)
    by_chance = (shares / sizes) @ all_kinds.count(starts, sizes)
    weekdays = np.arange(DAY_KINDS) < _WEEKDAYS
    if not np.all(by_chance[weekdays]):
        return None
    expected = max(float(counts[weekdays].sum()), 0.0) * by_chance / by_chance[weekdays].sum()
    differs = np.abs(counts - expected) >= _STANDS_OUT * stddev
    differs[weekdays] = np.any(differs[weekdays])
    kinds = replace(all_kinds, places=tuple(differs[~weekdays].tolist()))
    held = np.where(differs, counts * (counts >= _TOLD * stddev), expected) * (weekdays | differs)
    if not (np.any(differs) and held.sum()):
        return None
    # Weekdays include the days of places in the month that are no kinds.
    days = kinds.count(starts, sizes)
    held[weekdays] *= ((shares / sizes) @ days)[weekdays] / by_chance[weekdays]
    return replace(kinds, odds=match_totals(held, shares, days))
