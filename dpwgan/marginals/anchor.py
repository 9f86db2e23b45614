"""The anchor: a mixture of codes fitted to released marginals; a method by itself, and the start of a critic.

Privacy: `dpwgan.marginals.anchor_plan` fixes every release, its noise and its count from public facts; `fit_anchor`
charges each before it happens. What is not a release is made of releases.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from dpwgan.marginals.anchor_plan import AnchorDesign
from dpwgan.marginals.fit.code_information import CodeInformation
from dpwgan.marginals.fit.emptiness import find_empty
from dpwgan.marginals.fit.forbidden import ForbiddenMass
from dpwgan.marginals.fit.mixture import FitProgress, Mixture, fit, fit_on
from dpwgan.marginals.groups import Edge, Marginal
from dpwgan.marginals.loss import Probabilities, ReleasedLoss
from dpwgan.marginals.one_way.coarsening import CoarseRows
from dpwgan.marginals.released import ReleasedTable, release_groups
from dpwgan.marginals.rows.mixture_sampler import MixtureSampler
from dpwgan.marginals.selection import comparison_questions, day_lifts
from dpwgan.marginals.selection.comparison_questions import ask_for_comparisons
from dpwgan.marginals.selection.comparisons import Comparisons, find_parents
from dpwgan.marginals.selection.day_lifts import DayLifts, ask_for_day_lifts, ask_for_first_day, pose_day_questions
from dpwgan.marginals.selection.details import Details, ask_for_details, find_codes
from dpwgan.marginals.selection.queries import QueryDiscriminator
from dpwgan.marginals.selection.questions import Questions
from dpwgan.marginals.selection.rank_correlations import RankCorrelations, measure_correlations, rank_groups
from dpwgan.plan import Run
from dpwgan.privacy.certificate import Certificate
from dpwgan.privacy.ledger import Ledger

Within = TypeVar("Within", Details, DayLifts, Comparisons)

_CORRELATIONS_ACT, _DETAILS_ACT, _COMPARISONS_ACT = "correlations", "details", "comparisons"
_FIRST_DAY_ACT, _DAYS_ACT = "first day", "days"
# Weight of mass on combinations that a rule forbids: so many times the cost of being a stddev off an answer there. More
# would keep codes of two kinds from ever changing places, and what is left is mended in each code's rows.
_FORBIDDEN_WEIGHT = 5.0


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedAnchor:
    """A generator fitted to its releases, by `losses`. `table` is for further discriminators, its rows never for the
    output. `is_short`: whether the fit had few steps, by plan. `details`, `day_lifts` and `comparisons` are how rows
    vary within groups.
    """

    table: ReleasedTable
    losses: list[ReleasedLoss]
    generator: Mixture
    is_short: bool = False
    details: Details = field(default_factory=Details)
    day_lifts: DayLifts = field(default_factory=DayLifts)
    comparisons: Comparisons = field(default_factory=Comparisons)

    def make_pure(self, probabilities: Probabilities) -> Probabilities:
        """Codes each of which has all or none of the columns that are missing together. Shapes: (codes, width)."""
        return self.table.absence.make_pure(probabilities, self.table.coarsening)

    def make_sampler(self, probabilities: Probabilities, *, certificate: Certificate | None = None) -> MixtureSampler:
        """The sampler of rows of fitted codes; it avoids pairs that answers show to be empty.

        After a short fit rows are moved to answers that codes miss. What is certified is the codes.
        Privacy: post-processing of releases. Shapes: (codes, width).
        """
        table = self.table
        empty = find_empty(table.measured, probabilities, records=table.records)
        return MixtureSampler(
            probabilities=probabilities,
            coarsening=table.coarsening,
            certificate=certificate,
            empty=empty,
            barred=table.absence.find_zeros(with_first=True),
            answers=table.find_missed(probabilities) if self.is_short else {},
            details=self.details,
            day_lifts=self.day_lifts,
            comparisons=self.comparisons,
        )


def on_one_thread() -> AbstractContextManager[Any]:
    """Has BLAS use one thread in the block: the fit's products are so small that more would mostly wait."""
    limits: AbstractContextManager[Any] = threadpool_limits(limits=1, user_api="blas")
    return limits


def fit_anchor(run: Run, design: AnchorDesign, *, meanwhile: Callable[[], None] | None = None) -> FittedAnchor:
    """Measures one-ways and marginals, and fits the generator to them.

    `meanwhile`: something to do beside the last fit, if there is a core for it.
    Privacy: each release is charged before it reads rows; the rest is post-processing. Public rows are a prior.
    Raises: PrivacyError from the ledger.
    """
    if run.rows.shared:
        run = replace(run, threads=1)  # a process with connections to others is not one to fork
    ledger, table = run.ledger, release_groups(run, design)
    layout = table.layout
    if not design.fit.ticks:
        run.progress(1, 1, ledger.epsilon_spent())
        return FittedAnchor(table=table, losses=[table.measured], generator=Mixture(layout.sizes, table.logits))
    information = CodeInformation(weight=design.fit.information_weight * table.records)
    losses: list[ReleasedLoss] = [table.measured, information]
    if table.prior is not None:
        losses.append(table.prior)
    if table.zeros:
        weight = _FORBIDDEN_WEIGHT * table.records / design.answer_stddev
        losses.append(ForbiddenMass(layout, table.zeros, weight=weight))
    if design.correlated and not ledger.journal.has_lost(_CORRELATIONS_ACT):
        losses.append(_correlate(table, design.correlated, ledger=ledger))
    tick = FitProgress(design.fit.ticks, ledger=ledger, progress=run.progress)
    least_count = design.fit.least_count / math.sqrt(design.answers_a_detail)
    detailed = find_codes(table.coarsening, design.detailed, records=table.records, least_count=least_count)
    details = min(design.details, design.answers_a_detail * len(detailed))
    of_days, days = pose_day_questions(table.cells, dates=design.dates, ledger=ledger), DayLifts()
    if design.day_questions:
        first = partial(ask_for_first_day, of_days, table.coarsening, records=table.records)
        days = _ask_once(_FIRST_DAY_ACT, first, days, ledger=ledger)
    # If the first one shows nothing of days, it is the only one.
    day_questions = design.day_questions if days.lifts else min(1, design.day_questions)
    questions = design.queries - details - day_questions - table.absence.asked
    generator = _play_rounds(table, design, run, questions=questions, losses=losses, tick=tick)
    fit_on(generator, losses, design.fit, journal=ledger.journal, tick=tick, threads=run.threads, meanwhile=meanwhile)
    told = Details()
    if details:
        ask = partial(ask_for_details, table.rows, table.coarsening, generator.probabilities(), records=table.records)
        told = _ask_once(_DETAILS_ACT, partial(ask, codes=detailed, times=details, ledger=ledger), told, ledger=ledger)
    fitted = FittedAnchor(
        table=table, losses=losses, generator=generator, is_short=design.fit.is_short, details=told, day_lifts=days
    )
    return _ask_within_groups(fitted, design, run, of_days=of_days, day_questions=day_questions - 1)


def _ask_once(act: str, ask: Callable[[], Within], known: Within, *, ledger: Ledger) -> Within:
    """What `ask` gives, or the run's checkpoint has of it; what is `known` where an earlier life lost it."""
    if ledger.journal.has_lost(act):
        return known
    return known.unpack(ledger.keep(act, lambda: ask().pack(), dispensable=True))


def _ask_within_groups(
    fitted: FittedAnchor, design: AnchorDesign, run: Run, *, of_days: Questions[Edge], day_questions: int
) -> FittedAnchor:
    """Asks how numbers compare, and `day_questions` times on which days what happens: groups cannot show it."""
    table, ledger = fitted.table, run.ledger
    if day_questions <= 0 and not design.compared:
        return fitted
    drafting = np.random.default_rng(run.model.integers(2**63))

    def draft(records: int) -> CoarseRows:
        pure = fitted.make_pure(fitted.generator.probabilities())
        sampler = MixtureSampler(probabilities=pure, coarsening=table.coarsening)
        drawn = sampler.draw_cells(sampler.draft(records, rng=drafting).groups, rng=drafting)
        return CoarseRows(drawn, table.coarsening)

    def compare() -> Comparisons:
        return ask_for_comparisons(
            table.cells,
            draft(comparison_questions.DRAFTED_ROWS),
            numbers=design.compared,
            records=table.records,
            times=design.comparisons - design.refinements,
            more=design.refinements,
            ledger=ledger,
            rng=drafting,
        )

    def tell_days() -> DayLifts:
        return ask_for_day_lifts(
            of_days,
            draft(day_lifts.DRAFTED_ROWS),
            known=fitted.day_lifts,
            but=find_parents(fitted.comparisons.shares),
            records=table.records,
            times=day_questions,
            rng=drafting,
        )

    if design.compared:
        fitted = replace(fitted, comparisons=_ask_once(_COMPARISONS_ACT, compare, fitted.comparisons, ledger=ledger))
    if day_questions > 0:
        fitted = replace(fitted, day_lifts=_ask_once(_DAYS_ACT, tell_days, fitted.day_lifts, ledger=ledger))
    return fitted


def _correlate(table: ReleasedTable, places: Sequence[int], *, ledger: Ledger) -> RankCorrelations:
    """Releases how the ranks of some attributes go together, or takes it from the run's checkpoint."""
    ranks = rank_groups(table.coarsening, places)
    measure = partial(measure_correlations, table.rows, ranks, places=places, shares=np.concatenate(table.shares))
    kept = ledger.keep(_CORRELATIONS_ACT, lambda: measure(records=table.records, ledger=ledger), dispensable=True)
    return RankCorrelations(ranks, kept["products"].astype(np.float64), stddev=float(kept["stddev"]))


def _play_rounds(
    table: ReleasedTable,
    design: AnchorDesign,
    run: Run,
    *,
    questions: int,
    losses: Sequence[ReleasedLoss],
    tick: FitProgress,
) -> Mixture:
    """Asks for the tree, then for further marginals in turns, each where codes fitted to all before are worst.

    `questions`: in all. A turn that an earlier life of the run began, and lost, is left out.
    """
    ledger, journal, coarsening, threads = run.ledger, run.ledger.journal, table.coarsening, run.threads
    edges = min(design.edges, questions)
    rounds = questions - edges
    discriminator = QueryDiscriminator(
        table.rows,
        measured=table.measured,
        records=table.records,
        most_ways=design.ways,
        most_cells=design.settings.most_cells,
        ledger=ledger,
        prior=table.prior,
        threads=threads,
    )

    def ask_for_tree() -> list[Edge]:
        return discriminator.ask_for_tree(table.shares, stddevs=coarsening.stddevs, edges=edges)

    def ask(turn: int) -> list[Marginal]:
        first, last = (rounds * turns // design.fit.turns for turns in (turn - 1, turn))
        return discriminator.ask(mixture.probabilities(), times=last - first)

    tree: list[Edge] = [(left, right) for left, right in table.keep("tree", ledger, ask_for_tree)]
    kept = journal.recall("codes")
    fitted = -1 if kept is None else int(kept["turn"])
    if kept is None:
        codes = design.fit.choose_codes(table.layout.width)
        logits = table.draw_codes(tree, codes=codes, stddev=design.answer_stddev, rng=run.model)
    else:
        logits = kept["logits"].astype(np.float32)
    mixture = Mixture(coarsening.sizes, logits)
    steps, rate = design.fit.turn_steps, design.fit.turn_learning_rate
    for number in range(design.fit.turns + 1):
        name = f"round {number}"
        if number > 0 and not journal.has_lost(name):
            table.keep(name, ledger, partial(ask, number), dispensable=True)
        if number <= fitted:
            tick.skip(steps)
            continue
        # The optimiser's memory is of fewer answers, and is in no checkpoint.
        mixture.forget()
        fit(mixture, losses, steps=steps, learning_rate=rate, last_rate=rate, tick=tick, threads=threads)
        if journal.keeps:
            journal.keep("codes", {"logits": mixture.logits, "turn": np.array(number)})
    mixture.forget()
    return mixture
