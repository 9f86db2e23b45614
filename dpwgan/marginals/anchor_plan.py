"""What an anchor releases, how much noise each release has and how often it happens, from public facts alone."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from dpwgan.marginals.fit.plan import FitPlan
from dpwgan.marginals.one_way.merging import MOST_CELLS
from dpwgan.marginals.one_way.one_ways import OneWayPlan, plan_one_ways
from dpwgan.marginals.selection.comparison_questions import COMPARISON_LABELS, find_compared
from dpwgan.marginals.selection.day_lifts import MOST_COLUMNS, find_dates
from dpwgan.marginals.selection.queries import ANSWER_SENSITIVITY, plan_queries
from dpwgan.marginals.selection.rank_correlations import has_order, plan_correlations
from dpwgan.marginals.settings import AnchorSettings
from dpwgan.plan import Cost, Plan
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.events import Gaussian
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import AccountantChoice, Terms
from dpwgan.table.encoded import TableShape
from dpwgan.table.schema import WHOLE

Kind = Literal["queries", "one-ways"]
Noise = Literal["laplace", "gaussian"]

# The strength of a budget is n sqrt(2 rho): the number of records over the noise of a lone count.
# Shares are of rho (zero-concentrated privacy), and add up. One-ways are a part of every marginal and say which groups
# are worth counting. They get the cells of all columns over the strength, so that their noise is a fixed part of the
# spread of the columns' cells; answers, which say something of one-ways too, get the rest. A selection only has to find
# one of the worst marginals.
_LEAST_ONE_WAYS, _MOST_ONE_WAYS = 0.15, 0.8
SELECTION_SHARE = 0.05
# Strength that each marginal beyond one-ways needs: with less, the tree stays a forest.
_STRENGTH_A_QUESTION = 20.0
_LEAST_QUESTIONS = 2
# The most groups of a column of categories, and of all columns together: codes beyond share groups.
_MOST_GROUPS, _MOST_GROUPS_OF_ALL = 512, 4_096
# Of many columns numbers have fewer groups, but at least so many: of larger groups answers say more.
_LEAST_INTERVALS = 32
# Answers for each column whose codes share groups, to tell these apart: at most one of so many rounds in all.
_ANSWERS_A_DETAIL, _ROUNDS_A_DETAIL = 4, 4
# At most one of so many rounds is for days of the week.
_ROUNDS_A_DAY = 6
# The most questions on columns missing together, and at most one of so many questions.
_MOST_ABSENCES, _QUESTIONS_AN_ABSENCE = 4, 8
# The most comparisons of numbers of more levels than groups; and their noise over that of other answers: what is looked
# for concerns many rows.
_MOST_COMPARISONS, _COMPARISON_NOISE = 10, 4.0
# Numbers are correlated where they have more pairs than there are questions; all columns with an order where these have
# more than so many times that, and twice that where the noise's eigenvalues are a fixed part of the largest possible.
_PAIRS_A_CORRELATION = 2
_STRENGTH_OF_CORRELATIONS = 80.0
# The share of what one-ways leave, of a table of numbers alone: others have other pairs.
_CORRELATIONS_SHARE = 0.4
# Rounds beyond the tree, over the root of the strength.
_ROUNDS_FACTOR = 0.4
# At most so many, or a quarter of the pairs if that is more, and of few columns so many for each: further ones would be
# larger marginals, or the same again, which take long to fit and change little.
_MOST_ROUNDS, _MOST_ROUNDS_OF_ALL, _ROUNDS_AN_ATTRIBUTE = 80, 160, 5
_PAIRS_A_ROUND = 4
# Three-way marginals pay where an answer's noise is far below a group.
_STRENGTH_FOR_THREE_WAYS = 3_000.0
# Larger ones pay where each of their cells has this strength; columns of few cells also get more rounds.
_STRENGTH_A_CELL = 25.0
_MOST_WAYS = 5
_FEW_CELLS = 4.0
# Measured as that of the fit: seconds of one-way counts and groups, to start up and for each attribute.
_SECONDS_OF_ONE_WAYS = 0.3
_SECONDS_AN_ATTRIBUTE = 1.3e-3
# Seconds of a row in the counts of all pairs, over the square of the columns.
_SECONDS_A_PAIR = 1.5e-9


@dataclass(frozen=True, kw_only=True)
class AnchorDesign:
    """Every release of an anchor, fixed before a row is read.

    `one_ways_share`: the one-way counts' share of rho; `edges`: pairs of the tree; `rounds`: marginals after it.
    Attributes: `detailed` ones may have their codes told apart within groups, `compared` ones their numbers compared,
    and the rank correlations of `correlated` ones are released.
    Units: `scale` s stands for rho = 1/(2 s^2) in all; noise multipliers are noise stddevs over sensitivities. One-way
    counts that are all there is may be `pure`: with Laplace noise, and s stands for epsilon = 1/s.
    """

    shape: TableShape
    settings: AnchorSettings
    kind: Kind
    one_way_plan: OneWayPlan
    one_ways_share: float
    edges: int
    rounds: int
    ways: int
    scale: float
    pure: bool = False
    detailed: tuple[int, ...] = ()
    compared: tuple[int, ...] = ()
    correlated: tuple[int, ...] = ()

    @property
    def attributes(self) -> int:
        """Number of attributes."""
        return len(self.one_way_plan.attributes)

    @property
    def strength(self) -> float:
        """The number of records over the noise that a lone count would have."""
        return self.shape.records / self.scale

    @property
    def queries(self) -> int:
        """Number of marginals asked for one at a time: the tree's and the rounds'."""
        return self.edges + self.rounds

    @property
    def details(self) -> int:
        """The most rounds that tell codes apart within their groups; released counts may leave fewer."""
        return min(_ANSWERS_A_DETAIL * len(self.detailed), self.rounds // _ROUNDS_A_DETAIL)

    @property
    def fit(self) -> FitPlan:
        """How codes are fitted to all that is released."""
        return FitPlan(
            settings=self.settings,
            attributes=self.one_way_plan.attributes,
            records=self.shape.records,
            queries=self.queries,
            rounds=self.rounds,
            strength=self.strength,
            answer_stddev=self.answer_stddev,
        )

    @property
    def dates(self) -> tuple[int, ...]:
        """The attributes whose days may be told apart by other columns."""
        return find_dates(self.one_way_plan.attributes)

    @property
    def day_questions(self) -> int:
        """How many rounds tell days apart."""
        return min(min(MOST_COLUMNS, self.attributes - 1) * len(self.dates), self.rounds // _ROUNDS_A_DAY)

    @property
    def absences(self) -> int:
        """The most questions on columns missing together; released counts may leave fewer."""
        missing = sum(attribute.missing > 0 for attribute in self.one_way_plan.attributes)
        return min(_MOST_ABSENCES, missing // 2, self.queries // _QUESTIONS_AN_ABSENCE)

    @property
    def answers_a_detail(self) -> int:
        """How many answers tell the codes of an attribute apart."""
        return self.details // len(self.detailed) if self.detailed else 1

    @property
    def refinements(self) -> int:
        """Questions on how far moments lie apart exactly: two for each but one, ever finer, and one more where numbers
        may say it.
        """
        facts = self.one_way_plan.attributes
        moments = sum(each.is_moment and place in self.compared for place, each in enumerate(facts))
        more = 2 * max(0, moments - 1) + (moments > 0 and any(each.unit == WHOLE for each in facts))
        return min(_MOST_COMPARISONS, more)

    @property
    def comparisons(self) -> int:
        """Questions on how numbers compare: one for each but one, on which all others may depend."""
        return min(_MOST_COMPARISONS, max(0, len(self.compared) - 1)) + self.refinements

    @property
    def _cost_of_questions(self) -> float:
        """What all questions cost, in marginals: comparisons have as costly selections."""
        of_comparison = SELECTION_SHARE + (1.0 - SELECTION_SHARE) / _COMPARISON_NOISE**2
        return max(1.0, self.queries + self.comparisons * of_comparison)

    @property
    def one_ways_noise_multiplier(self) -> float:
        """Noise of the one-way counts over their joint sensitivity."""
        return self.scale / math.sqrt(self.one_ways_share)

    @property
    def _correlated_pairs(self) -> float:
        """Pairs of correlated columns; one with codes counts half, as these may be mere names."""
        numbers = sum(self.one_way_plan.attributes[place].levels > 0 for place in self.correlated)
        return (math.comb(len(self.correlated), 2) + math.comb(numbers, 2)) / 2

    @property
    def _questions_share(self) -> float:
        """The share of rho that questions have: what one-ways and correlations leave."""
        of_correlations = _CORRELATIONS_SHARE * self._correlated_pairs / max(1, math.comb(self.attributes, 2))
        return (1.0 - self.one_ways_share) * (1.0 - of_correlations)

    @property
    def selection_epsilon(self) -> float:
        """Epsilon of one selection: (epsilon^2/8)-zCDP each."""
        share = self._questions_share * SELECTION_SHARE
        return 2.0 * math.sqrt(share / self._cost_of_questions) / self.scale

    @property
    def answer_noise_multiplier(self) -> float:
        """Noise of one answer, in counts; none is asked for beside one-ways alone."""
        share = (1.0 - SELECTION_SHARE) * self._questions_share
        if share == 0.0:
            return math.inf
        return self.scale * math.sqrt(self._cost_of_questions / share)

    @property
    def answer_stddev(self) -> float:
        """Stddev of the noise on a count of an answer, in counts."""
        return self.answer_noise_multiplier * ANSWER_SENSITIVITY

    @property
    def releases(self) -> list[Release]:
        """What to reserve in the ledger."""
        lines = self.one_way_plan.plan_releases(noise_multiplier=self.one_ways_noise_multiplier, pure=self.pure)
        if self.correlated:
            share = 1.0 - self.one_ways_share - self._questions_share
            lines += plan_correlations(noise_multiplier=self.scale / math.sqrt(share))
        if self.queries:
            lines += plan_queries(
                self.queries,
                selection_epsilon=self.selection_epsilon,
                answer_noise_multiplier=self.answer_noise_multiplier,
            )
        if self.comparisons:
            lines += plan_queries(
                self.comparisons,
                selection_epsilon=self.selection_epsilon,
                answer_noise_multiplier=_COMPARISON_NOISE * self.answer_noise_multiplier,
                labels=COMPARISON_LABELS,
            )
        return lines

    @property
    def columns(self) -> tuple[str, ...]:
        """The column of each attribute."""
        return tuple(attribute.column for attribute in self.one_way_plan.attributes)

    @property
    def most_sizes(self) -> tuple[int, ...]:
        """The most groups that each attribute can have: what memory is planned for."""
        return tuple(
            min(attribute.cells, self.most_intervals if attribute.levels else self.most_groups)
            for attribute in self.one_way_plan.attributes
        )

    @property
    def most_groups(self) -> int:
        """The most groups that an attribute without a number can have. Privacy: of public facts alone."""
        return max(MOST_CELLS, min(_MOST_GROUPS, _MOST_GROUPS_OF_ALL // max(1, self.attributes)))

    @property
    def most_intervals(self) -> int:
        """The most groups that an attribute with a number can have. Privacy: of public facts alone."""
        return min(MOST_CELLS, max(_LEAST_INTERVALS, _MOST_GROUPS_OF_ALL // max(1, self.attributes)))

    @property
    def most_width(self) -> int:
        """The most groups that all attributes together can have: what memory is planned for."""
        return sum(self.most_sizes)

    @property
    def cost(self) -> Cost:
        """Rows of groups, pairs of groups, codes and their copies; the time of the releases and of the fit."""
        width = self.most_width if self.fit.ticks else 0
        group_bytes = np.min_scalar_type(max(self.most_sizes, default=1) - 1).itemsize
        code_bytes = 4 * 11 * self.fit.choose_codes(width) * width
        seconds = _SECONDS_OF_ONE_WAYS + self.attributes * _SECONDS_AN_ATTRIBUTE
        if self.fit.ticks:
            seconds += self.shape.records * self.attributes**2 * _SECONDS_A_PAIR
            seconds += self.fit.seconds
        return Cost(
            row_bytes=(group_bytes * self.attributes + 2 * len(self.detailed)) * self.shape.records
            + self.shape.row_bytes,
            working_bytes=48 * self.one_way_plan.most_cells + 20 * width**2 + code_bytes,
            seconds=seconds,
        )

    def summary(self) -> dict[str, Any]:
        """The settings, those asked for and those chosen, as JSON-able pairs."""
        if self.kind == "one-ways":
            return {"one_ways_noise_multiplier": self.one_ways_noise_multiplier}
        return {
            **{key: value for key, value in asdict(self.settings).items() if value is not None},
            "rounds": self.rounds,
            "ways": self.ways,
            "fit_steps": self.fit.steps,
            "fit_learning_rate": self.fit.learning_rate,
            "information_weight": self.fit.information_weight,
            "anchor": self.kind,
            "one_ways_noise_multiplier": self.one_ways_noise_multiplier,
            "answer_noise_multiplier": self.answer_noise_multiplier,
        }


def lay_out_anchor(
    shape: TableShape, terms: Terms, *, kind: Kind, settings: AnchorSettings, share: float = 1.0
) -> AnchorDesign:
    """Fixes the releases and how often each happens, given that all of them have `share` of the budget's rho.

    The scale is still that of a lone release: the caller calibrates it with all else that the run releases.
    Privacy: sees public facts only. Raises: PrivacyError if the budget cannot be met.
    """
    # The signal-to-noise ratio of a lone count decides how many marginals are worth asking for.
    lone = terms.find_noise_scale(MOMENTS, lambda scale: [(Gaussian(noise_multiplier=scale), 1)])
    strength = shape.records * math.sqrt(share) / lone
    one_way_plan = plan_one_ways(shape.spans)
    attributes = len(one_way_plan.attributes)
    cells, joined = _count_cells(one_way_plan), max(0, attributes - 1)
    questions = max(_LEAST_QUESTIONS, round(strength / _STRENGTH_A_QUESTION))
    rounds = settings.rounds
    if rounds is None:
        often = _ROUNDS_FACTOR * max(1.0, _FEW_CELLS / cells)
        rounds = min(_limit_rounds(attributes), round(often * math.sqrt(strength)), max(0, questions - joined))
    one_ways_share = min(max(_LEAST_ONE_WAYS, attributes * cells / strength), _MOST_ONE_WAYS)
    design = AnchorDesign(
        shape=shape,
        settings=settings,
        kind=kind,
        one_way_plan=one_way_plan,
        one_ways_share=one_ways_share if kind == "queries" and attributes > 1 else 1.0,
        edges=min(questions, joined) if kind == "queries" else 0,
        rounds=rounds if attributes > 2 and kind == "queries" else 0,
        ways=min(attributes, settings.ways or _choose_ways(strength, cells)),
        scale=lone / math.sqrt(share),
    )
    if not design.queries:
        return design
    compared: tuple[int, ...] = ()
    if design.rounds and not design.fit.is_short:
        # After a short fit rows are moved to answers, which numbers drawn again would undo.
        compared = find_compared(one_way_plan.attributes, least_levels=MOST_CELLS + 1)
    design = replace(design, detailed=_choose_detailed(design), compared=compared)
    return replace(design, correlated=_choose_correlated(design))


def _choose_correlated(design: AnchorDesign) -> tuple[int, ...]:
    """Chooses attributes with an order, where their pairs far outnumber the questions; or numbers, or none."""
    attributes = design.one_way_plan.attributes
    found = tuple(place for place, attribute in enumerate(attributes) if has_order(attribute))
    numbers = tuple(place for place in found if attributes[place].levels)
    noise = len(found) * (_STRENGTH_OF_CORRELATIONS / design.strength) ** 2 / (1.0 - design.one_ways_share)
    if replace(design, correlated=found)._correlated_pairs > _PAIRS_A_CORRELATION * design.queries * (1.0 + noise):
        return found
    return numbers if math.comb(len(numbers), 2) > design.queries else ()


def _choose_detailed(design: AnchorDesign) -> tuple[int, ...]:
    """Chooses attributes whose codes share groups: they are many, or rare under Zipf's law.

    If there are too many for the rounds, those of the longest lists. Privacy: of public facts alone.
    """
    most, of_all = design.most_groups, design.shape.records / design.fit.least_count
    codes = [0 if attribute.levels else attribute.codes for attribute in design.one_way_plan.attributes]
    shared = [place for place, many in enumerate(codes) if many > min(most, of_all / math.log(max(2, many)))]
    longest = sorted(shared, key=lambda place: -codes[place])
    return tuple(sorted(longest[: design.rounds // _ROUNDS_A_DETAIL]))


def _limit_rounds(attributes: int) -> int:
    """Limits the rounds. Privacy: sees public facts only."""
    usual = min(_MOST_ROUNDS, _ROUNDS_AN_ATTRIBUTE * attributes)
    return min(_MOST_ROUNDS_OF_ALL, max(usual, math.comb(attributes, 2) // _PAIRS_A_ROUND))


def _choose_ways(strength: float, cells: float) -> int:
    """Chooses how many attributes a marginal may have. Privacy: sees public facts only."""
    least = 3 if strength >= _STRENGTH_FOR_THREE_WAYS else 2
    ways = math.log(max(1.0, strength / _STRENGTH_A_CELL)) / math.log(cells)
    return max(least, min(_MOST_WAYS, int(ways)))


def _count_cells(plan: OneWayPlan) -> float:
    """The geometric mean of the attributes' cells, at least 2: a k-way marginal has about its k-th power."""
    logs = [math.log(max(2, min(attribute.cells, MOST_CELLS))) for attribute in plan.attributes]
    return math.exp(sum(logs) / max(1, len(logs))) if logs else 2.0


def plan_anchor(
    shape: TableShape, terms: Terms, *, kind: Kind, settings: AnchorSettings, noise: Noise | None = None
) -> Plan[AnchorDesign]:
    """Fixes the releases of a run that has no others, and their noise.

    Privacy: sees public facts only.
    Raises: UsageError for an unknown rule, PrivacyError if the budget cannot be met.
    """
    design, choice = calibrate_anchor(lay_out_anchor(shape, terms, kind=kind, settings=settings), terms, noise=noise)
    return Plan(design=design, shape=shape, choice=choice)


def calibrate_anchor(
    first: AnchorDesign, terms: Terms, *, noise: Noise | None = None
) -> tuple[AnchorDesign, AccountantChoice]:
    """The design with the least noise for a run without other releases.

    Few histograms have less with Laplace noise, whose stddev grows with their number and not with its root. `noise`:
    the kind that was asked for, of one-way counts that are all there is.
    Privacy: a choice of public facts. Raises: PrivacyError if the budget cannot be met.
    """

    def calibrate(design: AnchorDesign) -> tuple[AnchorDesign, AccountantChoice]:
        choice = terms.calibrate(lambda scale: replace(design, scale=scale).releases)
        return replace(design, scale=choice.noise), choice

    asked = (False, True) if noise is None else (noise == "laplace",)
    kinds = [first] if first.fit.ticks else [replace(first, pure=pure) for pure in asked]
    return min(map(calibrate, kinds), key=lambda found: found[0].releases[0].stddev)
