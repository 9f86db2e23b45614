"""All that has been released of a table so far: groups, their shares, marginals; and first codes drawn from these.

Every marginal method begins with `release_groups`, adds its measurements to `measured`, draws first codes from a tree
of pairs, and fits a mixture (`dpwgan.marginals.fit.mixture`) to all of it.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dpwgan.array_types import AnyIntegers, Arrays, Floats, Floats32
from dpwgan.marginals.anchor_plan import AnchorDesign
from dpwgan.marginals.answers.measurements import GroupedRows, MeasuredMarginals, answer_marginal
from dpwgan.marginals.answers.public_prior import PublicPrior, choose_kept
from dpwgan.marginals.answers.views import Views
from dpwgan.marginals.answers.zeros import Zeros, join, mask
from dpwgan.marginals.fit.absence import Absence
from dpwgan.marginals.fit.forbidden import add_implied, find_kinds, find_zeros, leave_out, tie
from dpwgan.marginals.fit.markov_tree import draw_first_codes
from dpwgan.marginals.groups import Edge, GroupLayout, Marginal
from dpwgan.marginals.loss import Probabilities
from dpwgan.marginals.one_way.coarsening import CELLS, GROUPS, Coarsening, CoarseRows
from dpwgan.marginals.one_way.merging import coarsen
from dpwgan.marginals.one_way.one_ways import measure_one_ways
from dpwgan.marginals.rows.moves import Answers
from dpwgan.marginals.selection.absence_questions import ask_for_absence
from dpwgan.marginals.simplex import project_on_simplex
from dpwgan.plan import Run
from dpwgan.privacy.ledger import Ledger
from dpwgan.table.rows import Rows

_LEAST_SHARE = 1e-9
_ABSENCE_ACT = "absence"
# Codes miss an answer where its mean squared error is more than so many times the noise's variance: a fit that has
# converged leaves half of that.
_MISSED = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleasedTable:
    """A table's groups and all marginals of them that were released.

    `zeros`: the cells that rules forbid; `implied`: those and what else they leave empty; `absence`: which columns are
    missing together. `measured` knows of all three. `prior` is a public table. `records`: the total that answers are
    shares of, public or estimated from released counts.
    Privacy: all but `rows` and their `cells` is made of releases alone. These are for further releases, never for the
      output.
    """

    coarsening: Coarsening
    measured: MeasuredMarginals
    cells: Rows[CoarseRows]
    rows: Rows[GroupedRows]
    records: float
    zeros: Zeros = field(default_factory=dict)
    implied: Zeros = field(default_factory=dict)
    absence: Absence = field(default_factory=Absence)
    prior: PublicPrior | None = None

    @property
    def layout(self) -> GroupLayout:
        """Where each attribute's groups lie."""
        return self.rows.own.layout

    @functools.cached_property
    def shares(self) -> list[Floats]:
        """The released share of each group, by attribute: none is zero, and they add up to one."""
        known = [
            (~self.zeros.get((place,), np.False_)) * part for place, part in enumerate(self.coarsening.probabilities)
        ]
        floored = [np.maximum(part, _LEAST_SHARE) for part in known]
        return [part / part.sum() for part in floored]

    @property
    def logits(self) -> Floats32:
        """One code that has every attribute by itself. Shapes: (1, width)."""
        return np.log(np.concatenate(self.shares)).astype(np.float32)[np.newaxis]

    def keep(
        self, name: str, ledger: Ledger, measure: Callable[[], Iterable[Marginal]], *, dispensable: bool = False
    ) -> list[Marginal]:
        """Measures, or takes from the run's checkpoint what an earlier life measured; gives the marginals.

        `measure` adds to `measured`, and gives the marginals as well.
        """

        def act() -> Arrays:
            arrays = self.measured.pack(measure())
            return arrays if self.prior is None else {**arrays, "evidence": self.prior.evidence}

        kept = ledger.keep(name, act, dispensable=dispensable)
        if self.prior is not None:
            self.prior.evidence = kept["evidence"].astype(np.float64)
        return self.measured.unpack(kept)

    def find_missed(self, probabilities: Probabilities) -> Answers:
        """The targets for moving rows: of measured pairs the answer where codes miss it by more than noise, else what
        codes have; none if codes miss no answer.

        Privacy: post-processing of released answers.
        Shapes: `probabilities` (codes, width).
        """
        found: dict[Marginal, Floats32] = {}
        missed = 0
        for pair in self.measured:
            if len(pair) != 2 or not self.measured.views.is_of_groups(pair):
                continue
            found[pair] = answer_marginal(probabilities, pair, self.measured.views)
            errors = (found[pair] - self.measured.get_shares(pair)) / self.measured.get_stddevs(pair)
            if np.square(errors).mean() > _MISSED:
                found[pair] = self._project(pair).astype(np.float32)
                missed += 1
        return found if missed else {}

    def draw_codes(self, tree: Sequence[Edge], *, codes: int, stddev: float, rng: np.random.Generator) -> Floats32:
        """Draws a mixture's first codes from a tree of measured pairs, or from the rows of a public table if believed.

        Shapes: (codes, width) logits. Units: `stddev` is that of an answer's noise, in counts.
        """
        known = None if self.prior is None else self.prior.draw_codes(codes, rng=rng)
        if known is not None:
            return known

        def get_conditional(given: int, attribute: int) -> Floats:
            """Of each group of one attribute the distribution of the other one, drawn to the one-way by its noise."""
            forward = given < attribute
            pair = (given, attribute) if forward else (attribute, given)
            block = self._project(pair)
            table = (block if forward else block.T) + stddev / self.records * self.shares[attribute]
            if self.measured.zeros:
                empty = mask(self.measured.zeros, pair, block.shape)
                # A group that goes with none of the other's has no distribution to speak of.
                empty = empty if forward else empty.T
                table[empty & ~empty.all(axis=1, keepdims=True)] = 0.0
            shares: Floats = table / table.sum(axis=1, keepdims=True)
            return shares

        return draw_first_codes(
            self.layout,
            tree,
            one_ways=self.shares,
            get_conditional=get_conditional,
            codes=codes,
            rng=rng,
            zeros=self.implied,
            absence=self.absence,
        )

    def _project(self, pair: Marginal) -> Floats:
        noisy = self.measured.get_shares(pair).astype(np.float64)
        known = ~mask(self.measured.zeros, pair, noisy.shape)
        projected: Floats = np.zeros_like(noisy)
        projected[known] = project_on_simplex(noisy[known], np.ones(np.count_nonzero(known)), total=1.0)
        return projected


def release_groups(run: Run, design: AnchorDesign) -> ReleasedTable:
    """Releases the one-way counts of a design, and merges codes and levels into groups that stand out of the noise.

    Rules forbid combinations of groups. One-ways are shrunk towards public rows, which are a prior for answers.
    Privacy: the releases of `measure_one_ways` and `ask_for_absence`; the rest is made of them alone.
    Raises: PrivacyError from the ledger.
    """
    rows, ledger, plan, rules = run.rows, run.ledger, design.one_way_plan, design.shape.rules
    one_ways = measure_one_ways(rows, plan, ledger=ledger)
    merge = functools.partial(
        coarsen,
        one_ways,
        least_count=design.fit.least_count,
        most_cells=design.most_groups,
        most_intervals=design.most_intervals,
        kinds=find_kinds(plan, rules),
    )
    coarsening, records = merge(records=rows.records), float(rows.records)
    if any(rule.drops for rule in rules):
        records = _estimate_records(coarsening, most=rows.records)
        coarsening = merge(records=round(records))
    coarsening = leave_out(coarsening, rules)
    groups = None if run.public is None else coarsening.to_groups(run.public)
    if groups is not None:
        coarsening = _draw_towards_public(coarsening, groups, records=records)
    cells = rows.derive(CELLS, coarsening.to_document())
    grouped = cells.derive(GROUPS, list(design.detailed))
    absence = Absence(asked=design.absences)
    if design.absences and not ledger.journal.has_lost(_ABSENCE_ACT):
        ask = functools.partial(ask_for_absence, grouped, coarsening, records=records, times=design.absences)
        kept = ledger.keep(_ABSENCE_ACT, lambda: ask(ledger=ledger).pack(), dispensable=True)
        absence = Absence.unpack(kept, coarsening)
    zeros = find_zeros(coarsening, rules)
    implied = add_implied(zeros, coarsening.sizes)
    coarsening = tie(coarsening, join(implied, absence.find_zeros(with_first=True)))
    views = Views(grouped.own.layout, [attribute.ordered for attribute in plan.attributes])
    measured = MeasuredMarginals(views, join(implied, absence.find_zeros()))
    for attribute, (counts, stddevs) in enumerate(zip(coarsening.counts, coarsening.stddevs, strict=True)):
        measured.add((attribute,), counts / records, stddev=stddevs / records)
    table = ReleasedTable(
        coarsening=coarsening,
        measured=measured,
        cells=cells,
        rows=grouped,
        records=records,
        zeros=zeros,
        implied=implied,
        absence=absence,
    )
    if groups is None:
        return table
    prior = PublicPrior(groups, views, one_ways=table.shares, stddev=design.answer_stddev / records)
    return replace(table, prior=prior)


def _draw_towards_public(coarsening: Coarsening, groups: AnyIntegers, *, records: float) -> Coarsening:
    """The coarsening with one-ways shrunk towards those of public rows. Privacy: post-processing of released counts."""
    parts = []
    for attribute, part in enumerate(coarsening.parts):
        known = np.bincount(groups[:, attribute], minlength=part.size) / len(groups)
        kept = choose_kept(part.counts, records * known, part.stddevs)
        counts = kept * part.counts + (1.0 - kept) * records * known
        shares = kept * part.probabilities + (1.0 - kept) * known
        parts.append(replace(part, counts=counts, probabilities=shares))
    return replace(coarsening, parts=tuple(parts))


def _estimate_records(coarsening: Coarsening, *, most: int) -> float:
    """The number of records, estimated from all one-ways, weighted by precision; at least 1.

    Privacy: post-processing of released counts; the number of dropped rows is not known otherwise.
    """
    totals = np.array([counts.sum() for counts in coarsening.counts])
    precisions = np.array([1.0 / np.square(stddevs).sum() for stddevs in coarsening.stddevs])
    return float(np.clip(totals @ precisions / precisions.sum(), 1, most))
