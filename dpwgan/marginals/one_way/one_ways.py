"""The private one-way release: how many records every cell of every attribute holds, give or take the noise.

A category column has one histogram. A number has several, one after the other, because a range of a million levels is
mostly empty: each look says where the next one is worth being finer (`dpwgan.marginals.one_way.number_tree`).

Sensitivity. Of each look a record adds 1 to exactly one count of each of its histograms: its code, or the one interval
that its level lies in, since codes and intervals cover all cells once, whichever they are. So zeroing a record out
takes these away, one a histogram, and replacing it moves each of them to another count at most. The intervals of a look
are made of earlier looks alone, which are released; so the looks compose as any adaptive releases do. The last release
has a histogram of the steps that numbers are rounded to (`dpwgan.marginals.one_way.round_steps`), and of the kinds of
days (`dpwgan.marginals.one_way.day_kinds`): a record adds 1 to one count of each at most.
Source: Hay, Rastogi, Miklau, Suciu 2010, arXiv:0904.0942 (hierarchical histograms).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpwgan.array_types import Arrays, Floats, Integers
from dpwgan.errors import DpwganError
from dpwgan.marginals.layout import Attribute, lay_out_attributes
from dpwgan.marginals.one_way.day_kinds import DAY_KINDS, DayKinds, estimate_days, find_day_kinds
from dpwgan.marginals.one_way.number_tree import MOST_BLOCKS, NumberTree, count_looks, lay_out_first
from dpwgan.marginals.one_way.round_steps import RoundSteps, choose_bands, estimate_odds, find_steps
from dpwgan.privacy.events import DiscreteGaussian, Laplace, round_up_stddev
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.release import Noisy, Release
from dpwgan.table.encoded import EncodedTable, Span
from dpwgan.table.rows import Rows, Sum
from dpwgan.table.storage import cut, let_go

ONE_WAYS_LABEL, LOOK = "one-way counts", ", look "
"""The first look's label in the ledger, and what follows it from the second look on, before its number."""

ROUND_STEPS_LABEL = "round steps"

_ROUND_STEPS_NOISE = 2.0
"""Noise of round steps over that of a look: shares of a few steps need little budget."""

Blocks = tuple[Integers, ...]
"""The starts of the intervals of levels, for each attribute in a look; empty without a number."""


@dataclass(frozen=True, kw_only=True)
class OneWayPlan:
    """The histograms that are released, from public facts alone.

    `looks`: the number of histograms of each attribute, one a look. A histogram has all codes of its attribute, then
    intervals of levels.
    """

    spans: tuple[Span, ...]
    attributes: tuple[Attribute, ...]
    looks: tuple[int, ...]

    @property
    def histograms(self) -> tuple[int, ...]:
        """Number of histograms in each look: its squared L2 sensitivity under zero-out.

        Privacy: a record adds 1 to exactly one count of each histogram. Zeroing it out takes these away, a distance of
          sqrt(histograms); replacing it moves each of them to another count at most, sqrt(2) times that.
        """
        return tuple(sum(looks > look for looks in self.looks) for look in range(max(self.looks, default=0)))

    @property
    def sensitivity(self) -> float:
        """L2 sensitivity of all counts together under zero-out, with round steps scaled to a look's noise."""
        return math.sqrt(sum(self.histograms) + len(self.rounded) / _ROUND_STEPS_NOISE**2)

    @property
    def rounded(self) -> tuple[int, ...]:
        """The attributes with a histogram of round steps, or of kinds of days."""
        return tuple(index for index, attribute in enumerate(self.attributes) if _count_kinds(attribute))

    @property
    def most_cells(self) -> int:
        """About the most counts: what memory is planned for."""
        return sum(
            looks * (attribute.codes + min(attribute.levels, MOST_BLOCKS))
            for attribute, looks in zip(self.attributes, self.looks, strict=True)
        )

    def count_cells(self, look: int, blocks: Blocks) -> int:
        """Number of counts in a look with these blocks."""
        return sum(self.attributes[index].codes for index in self.find(look)) + sum(map(len, blocks))

    def find(self, look: int) -> tuple[int, ...]:
        """The attributes with a histogram in a look."""
        return tuple(index for index, looks in enumerate(self.looks) if looks > look)

    def plan_releases(self, *, noise_multiplier: float, pure: bool = False) -> list[Release]:
        """The releases of this plan, for the ledger to reserve: one a look, and the round steps.

        Units: `noise_multiplier` is noise stddev over the L2 sensitivity of all of it, or, if `pure`, the scale of
        Laplace noise over the L1 sensitivity. The counts of all looks get the same noise, so that all together is as
        private as one release of that noise multiplier.
        """
        most = sum(self.histograms) + len(self.rounded) / _ROUND_STEPS_NOISE
        size = noise_multiplier * most if pure else round_up_stddev(noise_multiplier * self.sensitivity)
        kind = "discrete Laplace" if pure else "discrete Gaussian"

        def plan(label: str, histograms: int, what: str, *, times: float = 1.0) -> Release:
            event: Laplace | DiscreteGaussian
            if pure:
                event, moved = Laplace(epsilon=histograms / (times * size)), float(histograms)
            else:
                event, moved = DiscreteGaussian(stddev=times * size, cells=histograms), math.sqrt(histograms)
            return Release(label=label, event=event, times=1, mechanism=f"{kind} noise on {what}", sensitivity=moved)

        looks = [
            plan(name_look(look), histograms, "finer counts" if look else "all one-way counts together")
            for look, histograms in enumerate(self.histograms)
        ]
        if not self.rounded:
            return looks
        has_days = any(attribute.has_many_days for attribute in self.attributes)
        what = "counts of the steps that numbers are rounded to" + ", and of kinds of days" * has_days
        return [*looks, plan(ROUND_STEPS_LABEL, len(self.rounded), what, times=_ROUND_STEPS_NOISE)]


def name_look(look: int) -> str:
    """The label of a look in the ledger."""
    return ONE_WAYS_LABEL if look == 0 else f"{ONE_WAYS_LABEL}{LOOK}{look + 1}"


@dataclass(frozen=True, kw_only=True, eq=False)
class OneWays:
    """The released histograms so far: by attribute, the blocks and the noisy counts of each look.

    Units: counts of records, each with independent noise of stddev `stddev`.
    `odds`: by attribute, of levels by round steps or kinds of days.
    """

    plan: OneWayPlan
    histograms: tuple[tuple[tuple[Integers, Floats], ...], ...]
    stddev: float = math.nan
    odds: Mapping[int, RoundSteps | DayKinds] = field(default_factory=dict)

    def choose_blocks(self, look: int) -> Blocks:
        """Where the blocks of the next look start, for each attribute in it.

        Privacy: of public facts, and of the looks before it alone.
        """
        chosen = []
        for index in self.plan.find(look):
            attribute, earlier = self.plan.attributes[index], self.histograms[index]
            if not attribute.levels:
                chosen.append(np.zeros(0, np.int64))
            elif earlier:
                chosen.append(self.get_tree(index).refine(looks_left=self.plan.looks[index] - look))
            else:
                chosen.append(lay_out_first(attribute.levels, attribute.borders))
        return tuple(chosen)

    def add(self, look: int, blocks: Blocks, noisy: Noisy) -> "OneWays":
        """With one more look, a release of `count_one_ways` with these blocks."""
        indices, histograms = self.plan.find(look), list(self.histograms)
        sizes = [self.plan.attributes[index].codes + len(starts) for index, starts in zip(indices, blocks, strict=True)]
        counts = np.split(noisy.values.astype(np.float64), np.cumsum(sizes)[:-1])
        for index, starts, own in zip(indices, blocks, counts, strict=True):
            histograms[index] = (*histograms[index], (starts, own))
        return replace(self, histograms=tuple(histograms), stddev=noisy.stddev)

    def choose_bands(self) -> tuple[Blocks, Blocks]:
        """Where bands of magnitude begin, for each attribute with round steps, and which levels are intervals alone.

        Privacy: of public facts, and of the looks alone.
        """
        bands, alone = [], []
        for index in self.plan.rounded:
            facts, intervals = self.plan.attributes[index], self.get_tree(index).split()
            noise = _ROUND_STEPS_NOISE * self.stddev
            # Days have no steps, and so one band.
            bands.append(choose_bands(intervals, facts, stddev=noise))
            alone.append(intervals.starts[intervals.sizes == 1])
        return tuple(bands), tuple(alone)

    def add_round_steps(self, bands: Blocks, noisy: Noisy) -> "OneWays":
        """With the round steps, a release of `count_round_steps` with these bands."""
        found: dict[int, RoundSteps | DayKinds | None] = {}
        left = noisy.values.astype(np.float64)
        for index, own in zip(self.plan.rounded, bands, strict=True):
            facts, intervals = self.plan.attributes[index], self.get_tree(index).split()
            counts, left = np.split(left, [len(own) * _count_kinds(facts)])
            if facts.has_many_days:
                found[index] = estimate_days(counts, intervals, first_day=-facts.origin, stddev=noisy.stddev)
            else:
                bands_of_steps = counts.reshape(len(own), -1)
                found[index] = estimate_odds(bands_of_steps, intervals, facts, bands=own, stddev=noisy.stddev)
        return replace(self, odds={index: odds for index, odds in found.items() if odds is not None})

    def get_codes(self, attribute: int) -> tuple[Floats, float]:
        """The noisy counts of an attribute's codes, and their stddev: the mean over its histograms.

        Shapes: (codes,).
        """
        histograms, codes = self.histograms[attribute], self.plan.attributes[attribute].codes
        mean: Floats = np.mean([counts[:codes] for _, counts in histograms], axis=0)
        return mean, self.stddev / math.sqrt(len(histograms))

    def get_tree(self, attribute: int) -> NumberTree:
        """The estimates of an attribute's levels. It must have some."""
        facts = self.plan.attributes[attribute]
        looks = [(starts, counts[facts.codes :]) for starts, counts in self.histograms[attribute]]
        return NumberTree(looks, variance=self.stddev**2, levels=facts.levels, cuts=facts.borders)


def plan_one_ways(spans: tuple[Span, ...]) -> OneWayPlan:
    """Chooses how many histograms every attribute has.

    Privacy: reads public facts only.
    """
    attributes = lay_out_attributes(spans)
    looks = tuple(count_looks(attribute.levels, attribute.borders) for attribute in attributes)
    return OneWayPlan(spans=spans, attributes=attributes, looks=looks)


def begin_one_ways(plan: OneWayPlan) -> OneWays:
    """A plan with nothing released yet."""
    return OneWays(plan=plan, histograms=((),) * len(plan.attributes))


def count_one_ways(encoded: EncodedTable, plan: OneWayPlan, look: int, blocks: Blocks) -> Floats:
    """Counts every histogram of a look, exactly. The result is not released.

    Privacy: L2 sensitivity as `OneWayPlan.histograms` says, whatever the blocks. The counts are whole numbers far below
      2^53, so that no sum is rounded.
    Raises: DpwganError, an internal error, if the table is not laid out as in the plan.
    """
    attributes = [plan.attributes[index] for index in plan.find(look)]
    if encoded.spans != plan.spans or len(blocks) != len(attributes):
        raise DpwganError("Internal error: the encoded table is not laid out as the plan of its counts.")
    counts = [np.zeros(facts.codes + len(own), np.int64) for facts, own in zip(attributes, blocks, strict=True)]
    for rows in cut(encoded.records):
        for attribute, own, counts_so_far in zip(attributes, blocks, counts, strict=True):
            places = find_places(attribute, own, attribute.find_cells(encoded, rows))
            counts_so_far += np.bincount(places, minlength=len(counts_so_far))
        let_go(encoded.codes, encoded.numbers)
    return np.concatenate(counts).astype(np.float64)


def count_round_steps(encoded: EncodedTable, plan: OneWayPlan, bands: Blocks, alone: Blocks) -> Floats:
    """Counts records by band and round step, or kind of day, exactly, without those whose level is `alone`.

    Privacy: a record adds 1 to one count of each attribute in `OneWayPlan.rounded` at most, so that zeroing it out
      moves all by the root of how many these are, whatever bands and levels are given; replacing it by sqrt(2) times
      that. What it gives is not released.
    """
    counts = []
    for index, starts, known in zip(plan.rounded, bands, alone, strict=True):
        attribute = plan.attributes[index]
        kinds = _count_kinds(attribute)
        own = np.zeros(len(starts) * kinds, np.int64)
        for rows in cut(encoded.records):
            levels = attribute.find_cells(encoded, rows) - attribute.codes
            levels = levels[(levels >= 0) & ~np.isin(levels, known)]
            places = (np.searchsorted(starts, levels, side="right") - 1) * kinds + _find_kinds(attribute, levels)
            own += np.bincount(places, minlength=len(own))
            let_go(encoded.codes, encoded.numbers)
        counts.append(own)
    return np.concatenate(counts).astype(np.float64)


def _count_kinds(attribute: Attribute) -> int:
    """Number of round steps or kinds of days of an attribute's levels; 0 if it has no such histogram."""
    return DAY_KINDS if attribute.has_many_days else len(attribute.round_steps)


def _find_kinds(attribute: Attribute, levels: Integers) -> Integers:
    """The round step or kind of day of each level. Shapes: (n,)."""
    if attribute.has_many_days:
        return find_day_kinds(levels, first_day=-attribute.origin)
    return find_steps(levels, zero=attribute.zero_level, steps=attribute.round_steps)


def find_places(attribute: Attribute, starts: Integers, cells: Integers) -> Integers:
    """The count of a histogram that each cell adds 1 to: a code's own, or that of a level's interval.

    Shapes: (n,) cells to (n,). `starts`: where the histogram's intervals of levels start.
    """
    if not attribute.levels:
        return cells
    firsts = np.append(np.arange(attribute.codes), attribute.codes + starts)
    return np.searchsorted(firsts, cells, side="right") - 1


def _count_own(encoded: EncodedTable, argument: Any, array: Floats) -> Floats:
    """Counts a worker's own rows. The spans have all public facts that the plan is made from."""
    blocks = np.split(array.astype(np.int64), np.cumsum(argument["sizes"])[:-1])
    return count_one_ways(encoded, plan_one_ways(encoded.spans), argument["look"], tuple(blocks))


ONE_WAYS = Sum[EncodedTable]("one-ways", _count_own)
"""`count_one_ways` of a look, whose blocks are the array."""


def _count_own_steps(encoded: EncodedTable, argument: Any, array: Floats) -> Floats:
    parts = np.split(array.astype(np.int64), np.cumsum(argument["sizes"])[:-1])
    half = len(parts) // 2
    return count_round_steps(encoded, plan_one_ways(encoded.spans), tuple(parts[:half]), tuple(parts[half:]))


ROUND_STEPS = Sum[EncodedTable]("round-steps", _count_own_steps)
"""`count_round_steps`, whose bands and then whose levels are the array."""


def measure_one_ways(rows: Rows[EncodedTable], plan: OneWayPlan, *, ledger: Ledger) -> OneWays:
    """Releases all looks of the plan in turn.

    A look that an earlier life of the run began, and lost, is left out, but for the first.
    Privacy: the sensitivity of a release is the root of its histograms under zero-out, and sqrt(2) times that under
      replace-one; where it looks is made of the looks before.
    Raises: PrivacyError from the ledger; DpwganError, an internal error, if the table is not laid out as in the plan.
    """
    if plan_one_ways(rows.own.spans) != plan:
        raise DpwganError("Internal error: the encoded table is not laid out as the plan of its counts.")
    measured = begin_one_ways(plan)
    for look in range(len(plan.histograms)):
        name, blocks = name_look(look), measured.choose_blocks(look)
        if look and ledger.journal.has_lost(name):
            continue
        noisy = _release(rows, ONE_WAYS, {"look": look}, blocks, ledger=ledger, label=name, dispensable=look > 0)
        measured = measured.add(look, blocks, noisy)
    if plan.rounded and not ledger.journal.has_lost(ROUND_STEPS_LABEL):
        bands, alone = measured.choose_bands()
        places = (*bands, *alone)
        noisy = _release(rows, ROUND_STEPS, {}, places, ledger=ledger, label=ROUND_STEPS_LABEL, dispensable=True)
        measured = measured.add_round_steps(bands, noisy)
    return measured


def _release(
    rows: Rows[EncodedTable],
    counts: Sum[EncodedTable],
    facts: dict[str, int],
    blocks: Blocks,
    *,
    ledger: Ledger,
    label: str,
    dispensable: bool,
) -> Noisy:
    """Releases counts, or takes them from the run's checkpoint."""
    argument, array = {**facts, "sizes": [len(own) for own in blocks]}, np.concatenate(blocks).astype(np.float64)

    def act() -> Arrays:
        noisy = ledger.release(label, lambda: rows.sum(counts, argument=argument, array=array).astype(np.int64))
        return {"counts": noisy.values, "stddev": np.array(noisy.stddev)}

    kept = ledger.keep(label, act, dispensable=dispensable)
    return Noisy(values=kept["counts"], stddev=float(kept["stddev"]))
