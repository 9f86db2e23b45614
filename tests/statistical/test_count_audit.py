"""Black-box audits of counting releases: thousands of runs with and without one record, and what they tell apart.

The attacker knows both tables, sees all that is released before any post-processing, and says "it was there" when the
likelihood ratio is above a threshold fixed beforehand. From how often that is so in either world follows a lower bound
on epsilon, which fails with probability 1e-6; it must lie below the claim, and the twin's, with a third of the noise,
above it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dpwgan.marginals.groups import GroupLayout
from dpwgan.marginals.measurements import GroupedRows, MeasuredMarginals, count_marginals
from dpwgan.marginals.pairs import measure_moments, plan_moments
from dpwgan.marginals.queries import QueryDiscriminator, plan_queries
from dpwgan.privacy.accountants.moments import MOMENTS
from dpwgan.privacy.accountants.pld import PLD
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import Charge, ExponentialSelection
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.privacy.randomness import make_streams
from dpwgan.privacy.release import Noisy, Release
from dpwgan.table.rows import Rows
from tests.ledgers import Watcher, open_ledger

FALSE_ALARM = 1e-6
DELTA = 1e-5
TRIALS = 8_000
SIZES = (2, 2, 2)
LAYOUT = GroupLayout(SIZES)
PAIRS = [(0, 1), (0, 2), (1, 2)]
ZERO_OUT, REPLACE_ONE = NeighboringRelation.ZERO_OUT, NeighboringRelation.REPLACE_ONE

CANARY = [1, 1, 0]
ORDINARY = [0, 0, 1]
OTHERS = np.array([ORDINARY] * 6 + [[0, 1, 1]] * 3, np.int32)
CODES = np.array([[0.9, 0.1, 0.7, 0.3, 0.1, 0.9]], np.float32)

Groups = npt.NDArray[np.int32]
Releases = list[npt.NDArray[np.float64]]


class TenRecords(Rows[GroupedRows]):
    """Ten records whether or not one of them is null: their number is public. One sum is asked for, and made once."""

    def __init__(self, groups: Groups) -> None:
        super().__init__(GroupedRows(groups, LAYOUT), records=10)
        self._made: dict[str, npt.NDArray[np.float64]] = {}

    def sum(self, task: Any, **more: Any) -> npt.NDArray[np.float64]:
        if task.name not in self._made:
            self._made[task.name] = super().sum(task, **more)
        return self._made[task.name]


def lower_bound_on_epsilon(said_without: npt.NDArray[np.bool_], said_with: npt.NDArray[np.bool_]) -> float:
    """Bounds epsilon from below by Clopper and Pearson's intervals, each of which fails with half the probability."""
    trials, false_alarms, hits = len(said_without), int(said_without.sum()), int(said_with.sum())
    rarely = stats.beta.isf(FALSE_ALARM / 2, false_alarms + 1, trials - false_alarms) if false_alarms < trials else 1.0
    often = stats.beta.ppf(FALSE_ALARM / 2, hits, trials - hits + 1) if hits else 0.0
    return float(math.log(max(often - DELTA, 1e-300) / rarely))


def make_worlds(relation: NeighboringRelation) -> tuple[Groups, Groups]:
    """The table without the canary, null or another record in its place, and the one with it."""
    without = OTHERS if relation is ZERO_OUT else np.vstack([OTHERS, [ORDINARY]]).astype(np.int32)
    return without, np.vstack([OTHERS, [CANARY]]).astype(np.int32)


class Weaker(NoiseSource):
    """Leaves a share of the noise, and draws selections at a multiple of their epsilon."""

    def __init__(self, *, seed: int, share: float = 1.0, factor: float = 1.0) -> None:
        streams = make_streams(seed)
        super().__init__(noise=streams.noise, batches=streams.batches)
        self._share, self._factor = share, factor

    def add_noise(self, release: Release, exact: npt.NDArray[Any]) -> Noisy:
        if self._share == 0:
            return Noisy(values=exact, stddev=release.stddev)
        noisy = super().add_noise(release, exact)
        return Noisy(values=exact + self._share * (noisy.values - exact), stddev=noisy.stddev)

    def select(self, release: Release, scores: npt.ArrayLike) -> int:
        assert isinstance(release.event, ExponentialSelection)
        keener = replace(release.event, epsilon=self._factor * release.event.epsilon)
        return super().select(replace(release, event=keener), scores)


def make_discriminator(groups: Groups, ledger: Ledger) -> QueryDiscriminator:
    measured = MeasuredMarginals(LAYOUT)
    return QueryDiscriminator(TenRecords(groups), measured=measured, most_ways=2, most_cells=100, ledger=ledger)


def compare(
    released: npt.NDArray[np.float64],
    *,
    without: npt.NDArray[np.float64],
    there: npt.NDArray[np.float64],
    stddev: float,
) -> float:
    """The logarithm of the likelihood ratio of Gaussian noise around either world's counts."""
    return float(((released - without) ** 2 - (released - there) ** 2).sum() / (2 * stddev**2))


def audit(play: Callable[[Groups], Sequence[float]], relation: NeighboringRelation, *, threshold: float) -> float:
    without, there = make_worlds(relation)
    return lower_bound_on_epsilon(np.array(play(without)) > threshold, np.array(play(there)) > threshold)


def claim(charges: Sequence[Charge], relation: NeighboringRelation) -> float:
    """The smaller of two accountants' claims: both are proved."""
    return min(
        accountant.get_epsilon(charges, delta=DELTA, neighboring_relation=relation) for accountant in (MOMENTS, PLD)
    )


@pytest.mark.parametrize(("hits", "false_alarms"), [(0, 0), (8_000, 8_000), (8_000, 0), (400, 20)])
def test_lower_bound_is_below_what_was_seen_when_runs_are_few(hits, false_alarms):
    said_without, said_with = np.arange(TRIALS) < false_alarms, np.arange(TRIALS) < hits
    found = lower_bound_on_epsilon(said_without, said_with)
    assert found < math.log(max(hits, 1e-9) / max(false_alarms, 1e-9)) or hits == false_alarms == TRIALS
    assert found <= math.log(TRIALS)


NOISE = {ZERO_OUT: 1.5, REPLACE_ONE: 1.5 * math.sqrt(2)}
"""So that the two worlds' counts are two thirds of a stddev apart under either relation, and two in the twin."""


def choose_threshold(share: float) -> float:
    """Where a false alarm is two stddevs out, or three where the worlds lie further apart."""
    distance = 1 / (share * 1.5)
    return (2.0 if share == 1 else 3.0) * distance - distance**2 / 2


@pytest.mark.statistical
@pytest.mark.parametrize("relation", [ZERO_OUT, REPLACE_ONE])
@pytest.mark.parametrize(("share", "broken"), [(1.0, False), (1 / 3, True)])
def test_audit_of_moments_stays_below_the_claim_when_a_canary_comes_and_goes(relation, share, broken):
    line = replace(plan_moments(noise_multiplier=NOISE[relation]), times=2 * TRIALS)
    watcher = Watcher()
    ledger = open_ledger([line], source=Weaker(seed=1, share=share), observers=[watcher])

    def count(groups: Groups) -> npt.NDArray[np.float64]:
        weight = math.sqrt(1 / 3)  # three pairs of as many cells each
        return np.concatenate([weight * count_marginals(groups, [pair], LAYOUT)[pair].ravel() for pair in PAIRS])

    without, there = (count(groups) for groups in make_worlds(relation))

    def play(groups: Groups) -> list[float]:
        ratios = []
        rows = TenRecords(groups)
        for _ in range(TRIALS):
            watcher.noisy.clear()
            measure_moments(rows, measured=MeasuredMarginals(LAYOUT), ledger=ledger)
            seen = np.concatenate([part.ravel() for part in watcher.noisy])
            ratios.append(compare(seen, without=without, there=there, stddev=share * line.stddev))
        return ratios

    claimed = claim([(line.event, 1)], relation)
    assert 2.5 < claimed < 3.5
    found = audit(play, relation, threshold=choose_threshold(share))
    assert (found > claimed) is broken
    assert found > 0.5


@pytest.mark.statistical
@pytest.mark.parametrize("relation", [ZERO_OUT, REPLACE_ONE])
@pytest.mark.parametrize(("share", "broken"), [(1.0, False), (1 / 3, True)])
def test_audit_of_a_question_stays_below_the_claim_when_a_canary_comes_and_goes(relation, share, broken):
    """A selection and its answer: which pair was asked for gives the canary away, and so does what was answered."""
    noise_multiplier, selection_epsilon = NOISE[relation], 0.3
    lines = plan_queries(2 * TRIALS, selection_epsilon=selection_epsilon, answer_noise_multiplier=noise_multiplier)
    watcher = Watcher()
    ledger = open_ledger(lines, source=Weaker(seed=2, share=share), observers=[watcher])

    def find_law(groups: Groups) -> npt.NDArray[np.float64]:
        """How likely each pair is asked for, by explicit sums."""
        errors = []
        for left, right in PAIRS:
            answer = np.outer(CODES[0, 2 * left : 2 * left + 2], CODES[0, 2 * right : 2 * right + 2])
            errors.append(np.abs(count_marginals(groups, [(left, right)], LAYOUT)[(left, right)] - 10 * answer).sum())
        weights = np.exp(selection_epsilon * np.array(errors) / 2)
        return weights / weights.sum()

    worlds = make_worlds(relation)
    laws = [find_law(groups) for groups in worlds]
    counts = [{pair: count_marginals(groups, [pair], LAYOUT)[pair].ravel() for pair in PAIRS} for groups in worlds]

    def play(groups: Groups) -> list[float]:
        ratios = []
        discriminator = make_discriminator(groups, ledger)
        for _ in range(TRIALS):
            watcher.noisy.clear()
            pair = discriminator.ask(CODES)
            index = PAIRS.index(pair)  # type: ignore[arg-type]
            seen = watcher.noisy[0].ravel()
            told = compare(seen, without=counts[0][pair], there=counts[1][pair], stddev=share * noise_multiplier)
            ratios.append(math.log(laws[1][index] / laws[0][index]) + told)
        return ratios

    charges: list[Charge] = [(line.event, 1) for line in lines]
    claimed = claim(charges, relation)
    assert 2.5 < claimed < 4.0
    found = audit(play, relation, threshold=choose_threshold(share))
    assert (found > claimed) is broken
    assert found > 0.5


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "broken"), [(1.0, False), (3.0, True)])
def test_audit_of_a_selection_stays_below_the_claim_when_a_canary_comes_and_goes(factor, broken):
    """The selection by itself: the twin draws at three times the epsilon that it was planned with."""
    planned = 1.0
    # Next to no noise is planned for answers, so that a gain is the whole error; none is drawn, nobody looks at them.
    lines = plan_queries(2 * TRIALS, selection_epsilon=planned, answer_noise_multiplier=1e-3)
    ledger = open_ledger(lines, source=Weaker(seed=3, share=0.0, factor=factor))
    # Each generated row is (1, 1, 1). The canary makes the first pair's error smaller, and those of the others larger.
    codes = np.array([[0.0, 1.0, 0.0, 1.0, 0.0, 1.0]], np.float32)
    without, there = make_worlds(ZERO_OUT)

    def play(groups: Groups) -> npt.NDArray[np.bool_]:
        discriminator = make_discriminator(groups, ledger)
        return np.array([discriminator.ask(codes) != (0, 1) for _ in range(TRIALS)])

    # Either bound fails with its own probability, whatever the other one does: both are taken from the same runs.
    said_without, said_with = play(without), play(there)
    found = max(lower_bound_on_epsilon(said_without, said_with), lower_bound_on_epsilon(~said_with, ~said_without))
    assert (found > planned) is broken
