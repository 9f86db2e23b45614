"""How codes are fitted to what is released: how many, in which steps and in what time, from public facts alone."""

import math
from dataclasses import dataclass

from dpwgan.marginals.layout import Attribute
from dpwgan.marginals.settings import AnchorSettings

# Where rounds or columns are many, several questions use the same scores and are fitted together: the worst marginals
# then seldom share columns. By pairs of columns only while so many turns are left.
_MOST_TURNS = 80
_COLUMNS_A_QUESTION, _PAIRS_A_QUESTION, _LEAST_TURNS = 16, 300, 10
# Groups hold at least so many stddevs of an answer's noise: a cell of a pair holds a fraction of that.
_LEAST_STDDEVS = 3.0
# Weight of a nat of mutual information between codes and columns, for each record, at a strength of 1: the weaker the
# noise, the more overfitting shows in what was not measured. A weight of w moves an answer of stddev s by some w s
# stddevs: limited, or large tables would be no nearer to the truth than small ones.
_INFORMATION_WEIGHT = 1e-6
_MOST_STDDEVS_MOVED = 2.0
# The most codes, or if more, two a group (one for each `_STRENGTH_A_CODE`, up to six); and the most cells of codes.
_MOST_CODES, _MOST_CODE_CELLS = 3_000, 16_000_000
_LEAST_CODES_A_GROUP, _MOST_CODES_A_GROUP, _STRENGTH_A_CODE = 2.0, 6.0, 20_000.0
_LEAST_CODES = 500
# The most codes over the strength: few codes meet weak answers.
_CODES_FACTOR = 2.0
# Steps after each turn's answers; half as many, twice as long, where the last fit is short.
_TURN_STEPS, _TURN_RATE = 10, 0.7
# Steps of the last fit: with strong noise more would overfit, above a strength fewer would underfit.
_FIT_STEPS, _MOST_FIT_STEPS = 300, 500
_STRENGTH_FOR_STEPS = 20_000.0
# With many cells of codes steps are fewer and longer: codes start as records of a tree, and in a wide table more codes
# help more than steps do.
_LEAST_FIT_STEPS, _MOST_STEPPED_CELLS = 50, 1e9

# Time, measured as CPU seconds of two busy cores on the tables adult, ACS, IPUMS, RAND HIE and made-up censuses of 98
# columns, at epsilon 1, by benchmarks/estimates.py. Groups of a number; and of a column of codes: all common codes, and
# some times the root of their number.
_LIKELY_NUMBERS = 24.0
_LIKELY_CODES, _LIKELY_RARE = 16.0, 2.5
# A code's group in a step of the fit, and a code's part in one count that is compared with an answer.
_SECONDS_A_CELL = 9e-9
_SECONDS_AN_ANSWER = 1.5e-10


@dataclass(frozen=True, kw_only=True)
class FitPlan:
    """How codes are fitted to `queries` marginals: to those of the tree, then in turns to the `rounds` after it.

    `strength`: records over the noise of a lone count. `answer_stddev`: of an answer's noise, in records.
    """

    settings: AnchorSettings
    attributes: tuple[Attribute, ...]
    records: int
    queries: int
    rounds: int
    strength: float
    answer_stddev: float

    @property
    def turns(self) -> int:
        """How often codes are fitted to new answers after the tree."""
        by_pairs = min(math.comb(len(self.attributes), 2) // _PAIRS_A_QUESTION, self.rounds // _LEAST_TURNS)
        by_columns = max(len(self.attributes) // _COLUMNS_A_QUESTION, by_pairs)
        at_once = max(math.ceil(self.rounds / _MOST_TURNS), by_columns, 1)
        return math.ceil(self.rounds / at_once)

    @property
    def steps(self) -> int:
        """Number of steps of the last fit. Privacy: of public facts alone."""
        if self.settings.fit_steps is not None:
            return self.settings.fit_steps
        chosen = min(_MOST_FIT_STEPS, max(_FIT_STEPS, round(_FIT_STEPS * self.strength / _STRENGTH_FOR_STEPS)))
        width = max(2, round(self.likely_width))
        few = round(_MOST_STEPPED_CELLS / (self.choose_codes(width) * width))
        return min(chosen, max(_LEAST_FIT_STEPS, few))

    @property
    def learning_rate(self) -> float:
        """The rate of the last fit: the setting's, or larger if steps are few by plan."""
        longer = 1.0 if self.settings.fit_steps else max(1.0, _FIT_STEPS / self.steps)
        return self.settings.fit_learning_rate * longer

    @property
    def is_short(self) -> bool:
        """Whether the last fit has few steps by plan, so that it misses answers."""
        return self.learning_rate > self.settings.fit_learning_rate

    @property
    def turn_steps(self) -> int:
        """Number of steps after the tree, and after each turn."""
        return _TURN_STEPS // 2 if self.is_short else _TURN_STEPS

    @property
    def turn_learning_rate(self) -> float:
        """The rate of these steps, which does not fall."""
        return _TURN_RATE * self.settings.fit_learning_rate * _TURN_STEPS / self.turn_steps

    @property
    def ticks(self) -> int:
        """Number of fit steps in all."""
        if not self.queries:
            return 0
        return (self.turns + 1) * self.turn_steps + self.steps

    @property
    def least_count(self) -> float:
        """The least count of a group, if codes are fitted. Units: records."""
        return _LEAST_STDDEVS * self.answer_stddev if self.ticks else 0.0

    @property
    def information_weight(self) -> float:
        """Weight of a nat of mutual information over one of a record's likelihood."""
        if self.settings.information_weight is not None:
            return self.settings.information_weight
        return min(_INFORMATION_WEIGHT * self.strength, _MOST_STDDEVS_MOVED / self.answer_stddev)

    @property
    def likely_width(self) -> float:
        """The expected number of groups of all attributes, for planning steps and time."""
        seen = max(2.0, self.records / (2.0 * _LEAST_STDDEVS * self.answer_stddev))
        return sum(
            min(seen, _LIKELY_NUMBERS, attribute.levels)
            + min(seen, attribute.codes, _LIKELY_CODES + _LIKELY_RARE * math.sqrt(attribute.codes))
            for attribute in self.attributes
        )

    def choose_codes(self, width: int) -> int:
        """Chooses how many codes the fitted generator has. Privacy: of the number of groups, which is released."""
        of_each_group = min(_MOST_CODES_A_GROUP, max(_LEAST_CODES_A_GROUP, self.strength / _STRENGTH_A_CODE))
        most = max(_MOST_CODES, round(of_each_group * width))
        most = min(most, _MOST_CODE_CELLS // max(1, width), round(_CODES_FACTOR * self.strength))
        # Rows are drawn from each code alike: with more codes than rows some would be left out.
        return self.settings.codes or min(max(_LEAST_CODES, most), self.records)

    @property
    def seconds(self) -> float:
        """Estimate of the time that all steps take on two cores."""
        width = max(2.0, self.likely_width)
        answers = self.queries * (width / len(self.attributes)) ** 2
        step_of_a_code = width * _SECONDS_A_CELL + answers * _SECONDS_AN_ANSWER
        return self.choose_codes(round(width)) * self.ticks * step_of_a_code
