"""Runs with canaries in and out by the toss of a coin, and scores that tell which were in.

Two attackers. One sees the synthetic table alone and looks for cells, and pairs of cells, that a canary holds and
the other rows hardly ever do. The other is also shown the noisy one-way counts, where a method releases them. Both
know all rows but the canaries, as the definition of differential privacy lets them.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from dpwgan.app.fitting import fit_rows
from dpwgan.app.planning import RunPlan
from dpwgan.array_types import Flags, Floats, Integers
from dpwgan.audit.canaries.lower_bound import GuessBound, bound_by_scores
from dpwgan.audit.canaries.watch import Record, Seen, choose_units
from dpwgan.marginals.layout import lay_out_attributes
from dpwgan.marginals.one_way.one_ways import (
    ONE_WAYS_LABEL,
    Blocks,
    OneWayPlan,
    begin_one_ways,
    count_one_ways,
    find_places,
)
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.privacy.randomness import make_streams
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.units.units import Units

_BUCKETS = 100
_MIX = np.int64(-7046029254386353131)  # odd: a product with it, modulo 2^64, can be undone
_MOST_PAIRS = 300
# Sampling more rows costs no privacy, and takes the chance of sampling off what is seen.
_ROWS_SEEN = 10
_LEAST_VARIANCE = 0.25


@dataclass(frozen=True, kw_only=True)
class RunsBound:
    """Lower bounds on epsilon from a few runs. `from_counts` is None where no one-way counts are released.

    Privacy: private statistics, not covered by epsilon.
    """

    from_output: GuessBound
    from_counts: GuessBound | None
    runs: int


def audit_runs(
    encoded: EncodedTable,
    run_plan: RunPlan,
    *,
    canaries: int,
    runs: int,
    rng: np.random.Generator,
    failure_probability: float = 0.05,
    seed: int | None = None,
    units: Units | None = None,
) -> RunsBound:
    """Fits `runs` times, with fresh coins each time, and bounds epsilon by both attackers.

    Privacy: reads rows in each run and charges ledgers of its own: the result is a private statistic.
    `encoded`: a table whose last `canaries` rows, or `units` of equal rows, are the canaries: two at least in all runs
    together, beside one row at least. `rng` tosses the coins; `seed` makes the runs repeatable, whose noise comes from
    the operating system else.
    """
    each = 1 if units is None else int(units.sizes[-1])
    base = encoded.records - canaries * each
    once = encoded.take(np.concatenate([np.arange(base), np.arange(base, encoded.records, each)]))
    looks = _Looks(once, base=base, rows=each, rng=rng)
    coins: list[Flags] = []
    from_output: list[Floats] = []
    from_counts: list[Floats] = []
    for run in range(runs):
        tossed = rng.random(canaries) < 0.5
        present = np.concatenate([np.ones(base, bool), np.repeat(tossed, each)])
        record, streams = Record(), make_streams(None if seed is None else seed + run)
        source = NoiseSource(noise=streams.noise, batches=streams.batches)
        ledger = run_plan.open_ledger(source=source, observers=[record])
        own = choose_units(units, present)
        fitted = fit_rows(encoded.take(present), run_plan, ledger=ledger, model=streams.model, units=own)
        coins.append(tossed)
        from_output.append(looks.score(fitted.sample(_ROWS_SEEN * encoded.records, rng=streams.model)))
        counts = [seen for seen in record.seen if seen.line.startswith(ONE_WAYS_LABEL)]
        anchor = getattr(run_plan.plan.design, "anchor", run_plan.plan.design)
        counted = getattr(anchor, "one_way_plan", None)
        # Counts class by class, or of a prior, are laid out in another way: they are left to the attack on releases.
        if counts and counted is not None and counted.spans == encoded.spans:
            from_counts.append(score_counts(counts, once, counted, canaries=canaries, rows=each))

    def bound(scores: list[Floats]) -> GuessBound:
        return bound_by_scores(
            np.concatenate(scores),
            np.concatenate(coins),
            delta=run_plan.terms.budget.delta,
            # Two attackers on the same runs: each is wrong half as often.
            failure_probability=failure_probability / (2 if from_counts else 1),
            rng=rng,
        )

    return RunsBound(
        from_output=bound(from_output),
        from_counts=bound(from_counts) if from_counts else None,
        runs=runs,
    )


class _Looks:
    """How much more often a canary's cells, pairs of them, and all of them come up in an output than others explain."""

    def __init__(self, encoded: EncodedTable, *, base: int, rows: int, rng: np.random.Generator) -> None:
        """Takes a table with one row of each canary, which has `rows` rows if it is in."""
        cells, self._rows = find_buckets(encoded), rows
        self._base, self._canaries = cells[:base], cells[base:]
        attributes = range(cells.shape[1])
        pairs = list(itertools.combinations(attributes, 2))
        if len(pairs) > _MOST_PAIRS:
            pairs = [pairs[i] for i in rng.choice(len(pairs), _MOST_PAIRS, replace=False)]
        whole = tuple(attributes)
        self._looks: Sequence[tuple[int, ...]] = [*((attribute,) for attribute in attributes), *pairs, whole]

    def score(self, parts: Any) -> Floats:
        """Scores every canary. Shapes: (canaries,)."""
        output = np.concatenate([find_buckets(part) for part in parts])
        total = np.zeros(len(self._canaries))
        for look in self._looks:
            # In rows of the real table: a canary that is in adds one, beside what is known of the other rows, and what
            # other canaries add by chance.
            expected = self._count(self._base, look)
            others = self._rows * (self._count(self._canaries, look) - 1)
            whole = len(self._base) + self._rows * len(self._canaries) / 2
            seen = self._count(output, look) * whole / len(output)
            total += (seen - expected - others / 2) / (
                expected / _ROWS_SEEN + self._rows * others / 4 + _LEAST_VARIANCE
            )
        return total

    def _count(self, rows: Integers, look: tuple[int, ...]) -> Floats:
        """Counts the rows that share each canary's cells."""
        keys, wanted = self._join(rows, look), self._join(self._canaries, look)
        values, counts = np.unique(keys, return_counts=True)
        found = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
        return np.where(values[found] == wanted, counts[found], 0).astype(np.float64)

    def _join(self, rows: Integers, look: tuple[int, ...]) -> Integers:
        """One number for each row's cells in the attributes of a look; whole numbers wrap around."""
        key = np.zeros(len(rows), np.int64)
        for attribute in look:
            key = (key + rows[:, attribute] + 1) * _MIX
        return key


def find_buckets(encoded: EncodedTable) -> Integers:
    """Every row's cell in each attribute, numbers in a hundred buckets. Shapes: (n, attributes)."""
    columns = []
    for attribute in lay_out_attributes(encoded.spans):
        cells = attribute.find_cells(encoded)
        levels = np.maximum(cells - attribute.codes, 0)
        bucketed = levels * _BUCKETS // attribute.levels if attribute.levels > _BUCKETS else levels
        columns.append(np.where(cells < attribute.codes, cells, attribute.codes + bucketed))
    return np.stack(columns, axis=1)


def locate_one_ways(encoded: EncodedTable, plan: OneWayPlan, blocks: Sequence[Blocks]) -> sparse.csr_matrix:
    """Says which of the one-way counts each row adds 1 to. Shapes: (n, counts), in the order of their release.

    `blocks`: those of each look.
    """
    columns, start = [], 0
    for look, of_look in enumerate(blocks):
        for index, starts in zip(plan.find(look), of_look, strict=True):
            attribute = plan.attributes[index]
            columns.append(start + find_places(attribute, starts, attribute.find_cells(encoded)))
            start += attribute.codes + len(starts)
    located = np.stack(columns, axis=1)
    rows = np.repeat(np.arange(len(located)), located.shape[1])
    ones = np.ones(located.size)
    return sparse.csr_matrix((ones, (rows, located.ravel())), shape=(len(located), start))


def score_counts(
    looks: Sequence[Seen], encoded: EncodedTable, plan: OneWayPlan, *, canaries: int, rows: int = 1
) -> Floats:
    """Scores the canaries by the noisy one-way counts: the best linear guess of each coin, given all counts.

    What the rows beside the canaries add is known and taken off; where canaries share cells, their parts are told
    apart as far as the noise lets them. Where a look went is found as the run found it, from the looks before.
    `encoded` has one row of each canary, which has so many `rows` where it is in. Shapes: (canaries,).
    """
    base = np.arange(encoded.records) < encoded.records - canaries
    measured, blocks, known = begin_one_ways(plan), [], []
    for look, seen in enumerate(looks):
        blocks.append(measured.choose_blocks(look))
        measured = measured.add(look, blocks[-1], seen.noisy)
        known.append(count_one_ways(encoded.take(base), plan, look, blocks[-1]))
    released = np.concatenate([seen.released * seen.sensitivity for seen in looks])
    located = rows * locate_one_ways(encoded.take(~base), plan, blocks)
    rest = released - np.concatenate(known) - np.asarray(located.sum(axis=0)).ravel() / 2
    shared = np.asarray((located @ located.T).todense())
    stddev = looks[0].noisy.stddev
    scores: Floats = np.linalg.solve(shared / 4 + stddev**2 * np.eye(canaries), located @ rest / 4)
    return scores
