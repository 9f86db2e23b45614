"""The anchor: a mixture of codes fitted to released marginals, a method by itself and what a critic starts from.

Privacy: `plan_anchor` fixes every release, its noise and its count from public facts; `fit_anchor` charges each before
it happens. What is not a release is made of releases.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from dpwgan.marginals.coarsening import GROUPS, MOST_CELLS, Coarsening, coarsen
from dpwgan.marginals.code_information import CodeInformation
from dpwgan.marginals.groups import GroupLayout
from dpwgan.marginals.loss import Probabilities, ReleasedLoss
from dpwgan.marginals.markov_tree import Edge, draw_first_codes, find_strongest_tree
from dpwgan.marginals.measurements import GroupedRows, MeasuredMarginals, answer_pairs
from dpwgan.marginals.mixture import CodeGenerator, Mixture, fit
from dpwgan.marginals.one_ways import OneWayPlan, measure_one_ways, plan_one_ways, unpack_one_ways
from dpwgan.marginals.pairs import MOMENTS_LABEL, measure_moments, plan_moments
from dpwgan.marginals.queries import ANSWER_SENSITIVITY, QueryDiscriminator, plan_queries
from dpwgan.marginals.settings import AnchorSettings
from dpwgan.marginals.simplex import project_on_simplex
from dpwgan.plan import Cost, Plan
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.events import Gaussian
from dpwgan.privacy.journal import Arrays, Journal
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import Terms
from dpwgan.table.encoded import EncodedTable, TableShape
from dpwgan.table.rows import Rows

Kind = Literal["queries", "moments", "one-ways"]
Progress = Callable[[int, int, float], None]

ONE_WAYS_LABEL = "one-way counts"

# Shares of the budget, in units of zero-concentrated privacy (rho), which add up. One-ways are a part of every marginal
# and say which groups are worth counting; a selection only has to find one of the worst marginals.
ONE_WAYS_SHARE = 0.15
SELECTION_SHARE = 0.05
# Groups hold this many stddevs of an answer's noise at least: a cell of a pair holds a fraction of that.
_LEAST_STDDEVS = 3.0
# Beyond the tree: rounds that pay at a given strength of the budget, which is n times the root of 2 rho, the number of
# records over the noise of a lone count.
_ROUNDS_FACTOR = 0.4
_MOST_ROUNDS = 80
# Three-way marginals pay where the noise of an answer is far below a group.
_STRENGTH_FOR_THREE_WAYS = 3_000.0
# What a nat between codes and columns weighs for each record, at a strength of 1: the weaker the noise, the less of an
# answer is left to chance and the more of what was not asked for shows. A weight of w moves an answer of stddev s by
# some w s stddevs: no more than so many, or large tables would not be nearer to the truth than small ones.
_INFORMATION_WEIGHT = 1e-6
_MOST_STDDEVS_MOVED = 2.0
_MOST_CODE_CELLS = 2_000_000
_MOST_CODES = 3_000
_LEAST_CODES = 500
_ROUND_STEPS = 20
_PROGRESS_CALLS = 100
# How often a checkpoint takes down the generator while it is fitted for the last time.
_KEEPS = 10

# Time, measured as CPU seconds of two busy cores on the tables adult, ACS, IPUMS, RAND HIE and made-up censuses of 98
# columns, at epsilon 1, by benchmarks/estimates.py. Groups that a number had, and that columns of many codes had: all
# that are common, and of the rest as many as the root of them.
_LIKELY_NUMBERS = 24.0
_LIKELY_CODES, _LIKELY_RARE = 16.0, 2.5
# One-way counts and their groups: the start-up of what they need, and each attribute.
_SECONDS_OF_ONE_WAYS = 0.3
_SECONDS_AN_ATTRIBUTE = 1.3e-3
# A row's part in the counts of all pairs, over the square of the columns.
_SECONDS_A_PAIR = 1.5e-9
# A code's group in a step of the fit, and a code's part in one count that is compared with an answer.
_SECONDS_A_CELL = 1.6e-8
_SECONDS_AN_ANSWER = 1.5e-10


@dataclass(frozen=True, kw_only=True)
class AnchorDesign:
    """Every release of an anchor, fixed before a row is read.

    Units: `scale` s stands for rho = 1/(2 s^2) in all; noise multipliers are noise stddevs over sensitivities.
    """

    shape: TableShape
    settings: AnchorSettings
    kind: Kind
    one_way_plan: OneWayPlan
    rounds: int
    ways: int
    scale: float

    @property
    def attributes(self) -> int:
        """Number of attributes."""
        return len(self.one_way_plan.attributes)

    @property
    def queries(self) -> int:
        """Number of marginals asked for one at a time: the tree's and the rounds'."""
        return max(0, self.attributes - 1) + self.rounds if self.kind == "queries" else 0

    @property
    def one_ways_share(self) -> float:
        """The one-way counts' share of rho."""
        return ONE_WAYS_SHARE if self.kind != "one-ways" and self.attributes > 1 else 1.0

    @property
    def one_ways_noise_multiplier(self) -> float:
        """Noise of the one-way counts over their joint sensitivity."""
        return self.scale / math.sqrt(self.one_ways_share)

    @property
    def selection_epsilon(self) -> float:
        """Epsilon of one selection: (epsilon^2/8)-zCDP each."""
        share = (1.0 - self.one_ways_share) * SELECTION_SHARE
        return 2.0 * math.sqrt(share / max(1, self.queries)) / self.scale

    @property
    def answer_noise_multiplier(self) -> float:
        """Noise of one answer, in counts; of the joint release for the moments; none is asked for beside one-ways."""
        share = 1.0 - self.one_ways_share
        if share == 0.0:
            return math.inf
        if self.kind == "queries":
            share *= 1.0 - SELECTION_SHARE
        return self.scale * math.sqrt(max(1, self.queries) / share)

    @property
    def answer_stddev(self) -> float:
        """Stddev of the noise on a count of an answer, in counts."""
        pairs = self.attributes * (self.attributes - 1) / 2
        return self.answer_noise_multiplier * (ANSWER_SENSITIVITY if self.kind == "queries" else math.sqrt(pairs))

    @property
    def information_weight(self) -> float:
        """What a nat between codes and columns weighs against one of a record's likelihood."""
        if self.settings.information_weight is not None:
            return self.settings.information_weight
        strength = self.shape.records / self.scale
        return min(_INFORMATION_WEIGHT * strength, _MOST_STDDEVS_MOVED / self.answer_stddev)

    @property
    def releases(self) -> list[Release]:
        """What to reserve in the ledger."""
        lines = [self.one_way_plan.plan_release(ONE_WAYS_LABEL, noise_multiplier=self.one_ways_noise_multiplier)]
        if self.kind == "moments" and self.attributes > 1:
            lines.append(plan_moments(noise_multiplier=self.answer_noise_multiplier))
        if self.queries:
            lines += plan_queries(
                self.queries,
                selection_epsilon=self.selection_epsilon,
                answer_noise_multiplier=self.answer_noise_multiplier,
            )
        return lines

    @property
    def columns(self) -> tuple[str, ...]:
        """The column of each attribute."""
        return tuple(attribute.column for attribute in self.one_way_plan.attributes)

    @property
    def most_sizes(self) -> tuple[int, ...]:
        """The most groups that each attribute can have: what memory is planned for."""
        return tuple(min(attribute.cells, MOST_CELLS) for attribute in self.one_way_plan.attributes)

    @property
    def most_width(self) -> int:
        """The most groups that all attributes together can have: what memory is planned for."""
        return sum(self.most_sizes)

    @property
    def likely_width(self) -> float:
        """About how many groups all attributes together will have: what time is planned for.

        Privacy: of public facts alone; how many there are is found in released counts.
        """
        seen = max(2.0, self.shape.records / (2.0 * _LEAST_STDDEVS * self.answer_stddev))
        return sum(
            min(seen, _LIKELY_NUMBERS, attribute.levels)
            + min(seen, attribute.codes, _LIKELY_CODES + _LIKELY_RARE * math.sqrt(attribute.codes))
            for attribute in self.one_way_plan.attributes
        )

    def choose_codes(self, width: int) -> int:
        """Chooses how many codes the fitted generator has. Privacy: of the number of groups, which is released."""
        return self.settings.codes or max(_LEAST_CODES, min(_MOST_CODES, _MOST_CODE_CELLS // max(1, width)))

    @property
    def fit_ticks(self) -> int:
        """Number of fit steps in all."""
        if self.kind == "one-ways" or self.attributes < 2:
            return 0
        return (self.rounds + 1) * _ROUND_STEPS * (self.kind == "queries") + self.settings.fit_steps

    @property
    def cost(self) -> Cost:
        """Rows of groups, pairs of groups, codes and their copies; the time of the releases and of the fit."""
        width = self.most_width if self.fit_ticks else 0
        levels = sum(attribute.cells for attribute in self.one_way_plan.attributes)
        return Cost(
            row_bytes=4 * self.shape.records * (self.attributes + len(self.shape.spans)),
            working_bytes=48 * levels + 20 * width**2 + 4 * 9 * self.choose_codes(width) * width,
            seconds=self._estimate_seconds(),
        )

    def _estimate_seconds(self) -> float:
        one_ways = _SECONDS_OF_ONE_WAYS + self.attributes * _SECONDS_AN_ATTRIBUTE
        if not self.fit_ticks:
            return one_ways
        width = max(2.0, self.likely_width)
        codes = self.choose_codes(round(width))
        answers = self.queries * (width / self.attributes) ** 2 if self.kind == "queries" else width**2 / 2
        step = codes * (width * _SECONDS_A_CELL + answers * _SECONDS_AN_ANSWER)
        # A draft, fitted in rounds, has a quarter of the codes.
        steps = self.settings.fit_steps + (self.fit_ticks - self.settings.fit_steps) / 4
        return one_ways + self.shape.records * self.attributes**2 * _SECONDS_A_PAIR + steps * step

    def summary(self) -> dict[str, Any]:
        """Gives the settings, those asked for and those chosen, as JSON-able pairs."""
        chosen = {"rounds": self.rounds, "ways": self.ways} if self.kind == "queries" else {}
        if self.kind == "one-ways":
            return {"one_ways_noise_multiplier": self.one_ways_noise_multiplier}
        return {
            **{key: value for key, value in asdict(self.settings).items() if value is not None},
            **chosen,
            "information_weight": self.information_weight,
            "anchor": self.kind,
            "one_ways_noise_multiplier": self.one_ways_noise_multiplier,
            "answer_noise_multiplier": self.answer_noise_multiplier,
        }


def lay_out_anchor(
    shape: TableShape, terms: Terms, *, kind: Kind, settings: AnchorSettings, share: float = 1.0
) -> AnchorDesign:
    """Fixes the releases and how often each happens, where all of them have `share` of the budget, in units of rho.

    The scale is still that of a lone release: the caller calibrates it together with whatever else the run releases.
    Privacy: sees public facts only. Raises: PrivacyError if the budget cannot be met.
    """
    # How far a lone count would stand out of its noise decides how many marginals are worth asking for.
    lone = terms.find_noise_scale(MOMENTS, lambda scale: [(Gaussian(noise_multiplier=scale), 1)])
    strength = shape.records * math.sqrt(share) / lone
    one_way_plan = plan_one_ways(shape.spans)
    attributes = len(one_way_plan.attributes)
    rounds = settings.rounds
    if rounds is None:
        rounds = min(_MOST_ROUNDS, round(_ROUNDS_FACTOR * math.sqrt(strength)))
    return AnchorDesign(
        shape=shape,
        settings=settings,
        kind=kind,
        one_way_plan=one_way_plan,
        rounds=rounds if attributes > 2 and kind == "queries" else 0,
        ways=min(attributes, settings.ways or (3 if strength >= _STRENGTH_FOR_THREE_WAYS else 2)),
        scale=lone / math.sqrt(share),
    )


def plan_anchor(shape: TableShape, terms: Terms, *, kind: Kind, settings: AnchorSettings) -> Plan[AnchorDesign]:
    """Fixes the releases of a run that has no others, and their noise.

    Privacy: sees public facts only.
    Raises: UsageError for an unknown rule, PrivacyError if the budget cannot be met.
    """
    first = lay_out_anchor(shape, terms, kind=kind, settings=settings)
    choice = terms.calibrate(lambda scale: replace(first, scale=scale).releases)
    return Plan(design=replace(first, scale=choice.noise), shape=shape, choice=choice)


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedAnchor:
    """A generator fitted to its releases. `rows` are for further discriminators, never for the output."""

    coarsening: Coarsening
    measured: MeasuredMarginals
    information: CodeInformation
    generator: CodeGenerator
    rows: Rows[GroupedRows]

    @property
    def layout(self) -> GroupLayout:
        """Where each attribute's groups lie."""
        return self.rows.own.layout

    @property
    def losses(self) -> list[ReleasedLoss]:
        """What the generator was fitted to."""
        return [self.measured, self.information]


def on_one_thread() -> AbstractContextManager[Any]:
    """Has the processor's library multiply on one thread in a block.

    The fit's products are small: threads would do little but wait for each other, and waiting is paid for like work.
    """
    limits: AbstractContextManager[Any] = threadpool_limits(limits=1, user_api="blas")
    return limits


def fit_anchor(
    rows: Rows[EncodedTable],
    plan: AnchorDesign,
    *,
    rng: np.random.Generator,
    ledger: Ledger,
    progress: Progress,
    make_generator: Callable[[GroupLayout, npt.NDArray[np.float32]], CodeGenerator] | None = None,
) -> FittedAnchor:
    """Measures one-ways and marginals, and fits the generator to them.

    `make_generator` makes a generator of first logits; None takes a table of codes. `rng` draws the
    first codes.
    Privacy: each release is charged before it reads rows; the rest is post-processing.
    Raises: PrivacyError from the ledger.
    """

    def measure_first() -> Arrays:
        return measure_one_ways(rows, plan.one_way_plan, ledger=ledger, label=ONE_WAYS_LABEL).pack()

    one_ways = unpack_one_ways(ledger.keep(ONE_WAYS_LABEL, measure_first), plan.one_way_plan)
    records = plan.shape.records
    least_count = 0.0 if plan.fit_ticks == 0 else _LEAST_STDDEVS * plan.answer_stddev
    coarsening = coarsen(one_ways, records=records, least_count=least_count)
    grouped = rows.derive(GROUPS, coarsening.to_document())
    layout = grouped.own.layout
    shares = [np.maximum(part, 1e-9) / np.maximum(part, 1e-9).sum() for part in coarsening.probabilities]
    measured = MeasuredMarginals(layout)
    for attribute, (counts, stddevs) in enumerate(zip(coarsening.counts, coarsening.stddevs, strict=True)):
        measured.add((attribute,), counts / records, stddev=stddevs / records)
    information = CodeInformation(weight=plan.information_weight * records)
    losses: list[ReleasedLoss] = [measured, information]
    parts: dict[str, Any] = {
        "coarsening": coarsening,
        "measured": measured,
        "information": information,
        "rows": grouped,
    }
    codes = plan.choose_codes(layout.width)
    start = _Start(layout, measured, shares=shares, plan=plan, records=records, rng=rng)
    if plan.fit_ticks == 0:
        logits = np.log(np.concatenate(shares)).astype(np.float32)[np.newaxis]
        generator: CodeGenerator = Mixture(layout.sizes, logits)
        progress(1, 1, ledger.epsilon_spent())
        return FittedAnchor(generator=generator, **parts)
    tick = _Ticker(plan.fit_ticks, ledger=ledger, progress=progress)
    if plan.kind == "queries":
        discriminator = QueryDiscriminator(
            grouped,
            measured=measured,
            most_ways=plan.ways,
            most_cells=plan.settings.most_cells,
            ledger=ledger,
        )
        answers = _play_rounds(
            discriminator, start, plan=plan, coarsening=coarsening, losses=losses, ledger=ledger, tick=tick
        )
    else:

        def measure_pairs() -> Arrays:
            measure_moments(grouped, measured=measured, ledger=ledger)
            return measured.pack(itertools.combinations(range(layout.attributes), 2))

        measured.unpack(ledger.keep(MOMENTS_LABEL, measure_pairs))
        answers = start.denoise_pairs()
    logits = start.draw(start.find_tree(answers), codes=codes)
    generator = Mixture(layout.sizes, logits) if make_generator is None else make_generator(layout, logits)
    _fit_last(generator, losses, plan=plan, journal=ledger.journal, tick=tick)
    return FittedAnchor(generator=generator, **parts)


def _play_rounds(
    discriminator: QueryDiscriminator,
    start: "_Start",
    *,
    plan: AnchorDesign,
    coarsening: Coarsening,
    losses: Sequence[ReleasedLoss],
    ledger: Ledger,
    tick: "_Ticker",
) -> Probabilities:
    """Asks for the tree, then for one marginal after another, each where a draft fitted to all before is worst.

    A round that an earlier life of the run began, and lost, is left out. Shapes: shares of all pairs, (width, width).
    """
    measured, journal, rate = start.measured, ledger.journal, plan.settings.fit_learning_rate

    def ask_for_tree() -> Arrays:
        return measured.pack(discriminator.ask_for_tree(start.shares, stddevs=coarsening.stddevs))

    tree: list[Edge] = [(left, right) for left, right in measured.unpack(ledger.keep("tree", ask_for_tree))]
    codes = max(_LEAST_CODES, plan.choose_codes(start.layout.width) // 4)
    draft = Mixture(coarsening.sizes, start.draw(tree, codes=codes))

    def ask() -> Arrays:
        return measured.pack([discriminator.ask(draft.probabilities())])

    kept = journal.recall("draft")
    fitted = -1 if kept is None else int(kept["round"])
    if kept is not None:
        draft.unpack(kept)
    for number in range(plan.rounds + 1):
        name = f"round {number}"
        if number > 0 and not journal.has_lost(name):
            measured.unpack(ledger.keep(name, ask, dispensable=True))
            draft.forget()
        if number <= fitted:
            tick.skip(_ROUND_STEPS)
            continue
        fit(draft, losses, steps=_ROUND_STEPS, learning_rate=rate, last_rate=rate / 3, tick=tick)
        if journal.keeps:
            journal.keep("draft", {**draft.pack(), "round": np.array(number)})
    return answer_pairs(draft.probabilities())


def _fit_last(
    generator: CodeGenerator,
    losses: Sequence[ReleasedLoss],
    *,
    plan: AnchorDesign,
    journal: Journal,
    tick: "_Ticker",
) -> None:
    """Fits the generator to everything measured, from where an earlier life of the run left it."""
    steps, rate = plan.settings.fit_steps, plan.settings.fit_learning_rate
    kept = journal.recall("generator")
    first = 0 if kept is None else int(kept["fitted"])
    if kept is not None:
        generator.unpack(kept)
        tick.skip(first)
    every = max(1, steps // _KEEPS)

    def keep(done: int) -> None:
        if journal.keeps and (done % every == 0 or done == steps):
            journal.keep("generator", {**generator.pack(), "fitted": np.array(done)})

    fit(generator, losses, steps=steps, learning_rate=rate, last_rate=rate / 20, tick=tick, first=first, keep=keep)


class _Ticker:
    """Counts fit steps and tells the progress bar now and then."""

    def __init__(self, total: int, *, ledger: Ledger, progress: Progress) -> None:
        self._total, self._ledger, self._progress = total, ledger, progress
        self._done = 0
        self._every = max(1, total // _PROGRESS_CALLS)

    def skip(self, steps: int) -> None:
        """Counts steps that an earlier life of the run took."""
        self._done += steps

    def __call__(self) -> None:
        self._done += 1
        if self._done % self._every == 0 or self._done == self._total:
            self._progress(self._done, self._total, self._ledger.epsilon_spent())


class _Start:
    """First codes of a mixture, from what was released. Privacy: post-processing."""

    def __init__(
        self,
        layout: GroupLayout,
        measured: MeasuredMarginals,
        *,
        shares: Sequence[npt.NDArray[np.float64]],
        plan: AnchorDesign,
        records: int,
        rng: np.random.Generator,
    ) -> None:
        self.measured, self.shares = measured, shares
        self.layout, self._rng = layout, rng
        self._stddev = plan.answer_stddev / records

    def find_tree(self, answers: npt.NDArray[np.float32]) -> list[Edge]:
        """Finds the tree of measured pairs that hang together most, by answers to all of them.

        Shapes: `answers` (width, width) shares.
        """
        one_ways = np.concatenate(self.shares).astype(np.float32)
        strengths = self.layout.add_blocks(np.abs(answers - np.outer(one_ways, one_ways)))
        pairs = [marginal for marginal in self.measured if len(marginal) == 2]
        return find_strongest_tree(
            {(left, right): float(strengths[left, right]) for left, right in pairs},
            attributes=self.layout.attributes,
        )

    def denoise_pairs(self) -> npt.NDArray[np.float32]:
        """Gives all measured pairs, each projected onto the simplex. Shapes: (width, width) shares."""
        answers = np.outer(np.concatenate(self.shares), np.concatenate(self.shares)).astype(np.float32)
        for left, right in itertools.combinations(range(self.layout.attributes), 2):
            block = self._project((left, right))
            answers[self.layout.get_slice(left), self.layout.get_slice(right)] = block
        return answers

    def draw(self, tree: Sequence[Edge], *, codes: int) -> npt.NDArray[np.float32]:
        """Draws codes from the tree. Shapes: (codes, width) logits."""
        return draw_first_codes(
            self.layout,
            tree,
            one_ways=self.shares,
            get_conditional=self._get_conditional,
            codes=codes,
            rng=self._rng,
        )

    def _get_conditional(self, given: int, attribute: int) -> npt.NDArray[np.float64]:
        """Gives each group of one attribute its distribution of the other one, drawn to the one-way by its noise."""
        pair = (given, attribute) if given < attribute else (attribute, given)
        block = self._project(pair)
        block = block if given < attribute else block.T
        table: npt.NDArray[np.float64] = block + self._stddev * self.shares[attribute]
        table /= table.sum(axis=1, keepdims=True)
        return table

    def _project(self, pair: Edge) -> npt.NDArray[np.float64]:
        noisy = self.measured.get_shares(pair).astype(np.float64)
        projected: npt.NDArray[np.float64] = project_on_simplex(noisy.ravel(), np.ones(noisy.size), total=1.0)
        return projected.reshape(noisy.shape)
