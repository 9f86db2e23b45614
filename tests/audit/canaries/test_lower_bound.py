"""Bounds on epsilon against published numbers, exact fractions, integrals, and mechanisms whose epsilon is known."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from dpwgan.audit.canaries.lower_bound import (
    MOST_EPSILON,
    Signal,
    bound_by_guesses,
    bound_by_scores,
    bound_stddev,
    epsilon_of_signals,
    p_value_of_guesses,
)
from dpwgan.privacy.accountants.amortized import gaussian_epsilon
from dpwgan.privacy.accountants.pld import PLD
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import Gaussian, PoissonGaussian
from tests.audit.canaries.two_worlds import bound_by_two_worlds

FALSE_ALARM = 1e-6


@pytest.mark.parametrize(
    ("canaries", "guesses", "correct", "delta", "published"),
    [(1000, 100, 75, 1e-4, 0.673), (100_000, 1510, 1439, 1e-5, 2.675)],
)
def test_bound_is_the_published_one_when_the_numbers_are_those_of_the_paper(
    canaries, guesses, correct, delta, published
):
    """Source: arXiv:2305.08846, Appendix D (the example beneath the code) and section 7 (Figure 11)."""
    found = bound_by_guesses(correct, guesses=guesses, canaries=canaries, delta=delta, failure_probability=0.05)
    assert found == pytest.approx(published, abs=1e-3)


def count_exactly(correct: int, *, guesses: int, canaries: int, odds: Fraction, delta: Fraction) -> Fraction:
    """The bound of the theorem in exact fractions, by plain sums. `odds` stands for e^epsilon."""
    right = odds / (1 + odds)
    law = [math.comb(guesses, k) * right**k * (1 - right) ** (guesses - k) for k in range(guesses + 1)]

    def tail(least: int) -> Fraction:
        return sum(law[max(least, 0) :], Fraction(0))

    worst = max(((tail(correct - i) - tail(correct)) / i for i in range(1, canaries + 1)), default=Fraction(0))
    return min(Fraction(1), tail(correct) + 2 * canaries * delta * worst)


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10_000), Fraction(1, 50)])
@pytest.mark.parametrize("odds", [Fraction(1), Fraction(3, 2), Fraction(20)])
def test_p_value_equals_sums_of_fractions_when_guesses_are_few(odds, delta):
    for canaries, guesses in ((1, 1), (7, 5), (12, 12)):
        for correct in range(guesses + 1):
            found = p_value_of_guesses(
                correct, guesses=guesses, canaries=canaries, epsilon=math.log(odds), delta=float(delta)
            )
            exact = count_exactly(correct, guesses=guesses, canaries=canaries, odds=odds, delta=delta)
            assert found == pytest.approx(float(exact), rel=1e-9)


@pytest.mark.parametrize("delta", [1e-5, 1e-3, 0.05])
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("canaries", [1, 10, 200])
def test_p_value_is_above_the_truth_when_a_mechanism_uses_up_its_delta(canaries, epsilon, delta):
    """Two mechanisms that are (epsilon, delta)-DP, worked out exactly: each coin told with probability delta by itself,
    or all of them at once; randomised response of epsilon otherwise."""
    accuracy = 1 / (1 + math.exp(-epsilon))
    for correct in range(canaries + 1):
        bound = p_value_of_guesses(correct, guesses=canaries, canaries=canaries, epsilon=epsilon, delta=delta)
        alone = stats.binom.sf(correct - 1, canaries, delta + (1 - delta) * accuracy)
        together = delta + (1 - delta) * stats.binom.sf(correct - 1, canaries, accuracy)
        assert bound >= alone * (1 - 1e-9)
        assert bound >= together * (1 - 1e-9)


def test_p_value_without_its_delta_is_too_small_when_a_mechanism_uses_up_its_delta():
    """The broken twin: a bound that forgets delta."""
    truth = stats.binom.sf(199, 200, 0.05 + 0.95 / (1 + math.exp(-0.7)))
    assert p_value_of_guesses(200, guesses=200, canaries=200, epsilon=0.7, delta=0.0) < truth


@pytest.mark.statistical
@pytest.mark.parametrize(("guesses", "epsilon"), [(40, 0.5), (400, 2.0)])
def test_bound_passes_epsilon_as_seldom_as_stated_when_coins_are_told_by_randomised_response(guesses, epsilon):
    audits, failure_probability = 2_000, 0.05
    rng = np.random.default_rng(1)
    correct, times = np.unique(rng.binomial(guesses, 1 / (1 + math.exp(-epsilon)), audits), return_counts=True)
    found = np.array(
        [
            bound_by_guesses(int(k), guesses=guesses, canaries=guesses, delta=0.0, failure_probability=0.05)
            for k in correct
        ]
    )
    most = stats.binom.isf(FALSE_ALARM, audits, failure_probability)
    assert times[found > epsilon].sum() <= most
    # The twin: coins told with twice the epsilon that is claimed are found out.
    assert times[found > 0.5 * epsilon].sum() > most
    assert guesses < 400 or times[found > 0.5 * epsilon].sum() > 0.9 * audits


@pytest.mark.statistical
def test_bound_stays_below_epsilon_when_many_canaries_are_released_with_gaussian_noise():
    """2,000 coins, each with noise of its own; with a tenth of the noise the bound passes the same epsilon."""
    delta, canaries = 1e-10, 2_000  # 2 m delta has to be far below the failure probability
    rng = np.random.default_rng(2)
    for epsilon in (1.0, 2.0):
        noise_multiplier = optimize.brentq(
            lambda s, e=epsilon: gaussian_epsilon(np.array([delta]), noise_multiplier=s)[0] - e, 1.0, 20.0
        )
        for share, broken in ((1.0, False), (0.1, True)):
            present = rng.random(canaries) < 0.5
            scores = present + share * noise_multiplier * rng.standard_normal(canaries)
            bound = bound_by_scores(scores, present, delta=delta, failure_probability=1e-6, rng=rng)
            assert (bound.found > epsilon) is broken
            assert bound.found <= bound.found_if_all_were_right


def test_guesses_are_made_for_both_ends_when_scores_say_all():
    present = np.arange(100) % 2 == 0
    shared = {"delta": 0.0, "failure_probability": 0.04, "rng": np.random.default_rng(0)}
    bound = bound_by_scores(present.astype(float), present, **shared)  # type: ignore[arg-type]
    assert (bound.right, bound.guesses, bound.canaries) == (100, 100, 100)
    # All right: (e^epsilon / (1 + e^epsilon))^100 = 0.01.
    odds = 0.01 ** (1 / 100)
    assert bound.found == pytest.approx(math.log(odds / (1 - odds)), abs=1e-9)
    assert bound_by_scores(-present.astype(float), present, **shared).found == 0.0  # type: ignore[arg-type]


def test_ties_are_broken_by_chance_when_all_scores_are_the_same():
    present = np.arange(1_000) >= 500  # in the order of the scores, guesses would all be right
    bound = bound_by_scores(np.zeros(1_000), present, delta=0.0, failure_probability=1e-6, rng=np.random.default_rng(3))
    assert bound.found == 0.0


@pytest.mark.parametrize(
    ("hits", "false_alarms", "delta"), [(0, 0, 0.0), (200, 200, 0.0), (10, 0, 0.1)]
)  # no hit, no difference, and hits that delta explains
def test_two_worlds_bound_is_nothing_when_hits_tell_nothing(hits, false_alarms, delta):
    found = bound_by_two_worlds(hits=hits, false_alarms=false_alarms, trials=200, delta=delta, failure_probability=0.05)
    assert found == 0.0


@pytest.mark.parametrize(("hits", "false_alarms"), [(90, 3), (200, 0)])
def test_two_worlds_bound_solves_binomial_tails_when_trials_are_few(hits, false_alarms):
    """Each end of Clopper and Pearson's is where a plain binomial tail has half the failure probability."""
    found = bound_by_two_worlds(hits=hits, false_alarms=false_alarms, trials=200, delta=0.0, failure_probability=0.05)
    often = optimize.brentq(lambda p: stats.binom.sf(hits - 1, 200, p) - 0.025, 1e-9, 1 - 1e-9)
    rarely = optimize.brentq(lambda p: stats.binom.cdf(false_alarms, 200, p) - 0.025, 1e-9, 1 - 1e-9)
    assert found == pytest.approx(math.log(often / rarely), rel=1e-6)
    assert found < math.log(200)


@pytest.mark.statistical
def test_bound_on_a_stddev_fails_as_seldom_as_stated_when_noise_is_gaussian():
    squares = np.random.default_rng(4).chisquare(7, 20_000)
    found = np.array([bound_stddev(s, samples=7, failure_probability=0.05) for s in squares[:4_000]])
    assert np.count_nonzero(found < 1.0) <= stats.binom.isf(FALSE_ALARM, 4_000, 0.05)
    assert np.count_nonzero(found < 1.0) >= stats.binom.ppf(FALSE_ALARM, 4_000, 0.05)  # and no more careful than that
    assert bound_stddev(1.0, samples=0, failure_probability=0.05) == math.inf


@pytest.mark.parametrize("strength", [0.05, 0.5, 2.0])
def test_epsilon_of_a_signal_is_that_of_one_gaussian_when_it_is_split(strength):
    exact = float(gaussian_epsilon(np.array([1e-6]), noise_multiplier=1 / strength)[0])
    split = [Signal(strength / 2, 1.0, 3), Signal(strength / 2, 1.0, 1)]
    assert exact * (1 - 1e-6) <= epsilon_of_signals(split, delta=1e-6) <= exact
    assert epsilon_of_signals([], delta=1e-6) == 0.0
    assert epsilon_of_signals([Signal(1e9, 1.0, 1)], delta=1e-6) <= MOST_EPSILON


def integrate_step(epsilon: float, *, strength: float, probability: float) -> float:
    """The larger delta of one sampled Gaussian step in either direction, by integrals."""

    def plain(x: float) -> float:
        return float(stats.norm.pdf(x))

    def mixed(x: float) -> float:
        return float((1 - probability) * stats.norm.pdf(x) + probability * stats.norm.pdf(x - strength))

    def delta(upper: object, lower: object) -> float:
        value, _ = integrate.quad(
            lambda x: max(upper(x) - math.exp(epsilon) * lower(x), 0.0),  # type: ignore[operator]
            -12,
            12 + strength,
            limit=500,
            points=[0, strength],
        )
        return float(value)

    return max(delta(mixed, plain), delta(plain, mixed))


@pytest.mark.slow
@pytest.mark.parametrize(("strength", "probability"), [(0.8, 0.2), (2.0, 0.05)])
def test_epsilon_of_a_step_is_the_integral_from_below_when_it_is_sampled(strength, probability):
    delta = 1e-4
    exact = optimize.brentq(
        lambda e: integrate_step(e, strength=strength, probability=probability) - delta, 1e-3, 20.0, xtol=1e-6
    )
    found = epsilon_of_signals([Signal(strength, probability, 1)], delta=delta)
    assert exact - 5e-3 <= found <= exact + 1e-6


def test_epsilon_of_steps_is_a_little_below_the_tools_own_when_they_are_composed_with_counts():
    charges = [
        (PoissonGaussian(sampling_probability=0.1, noise_multiplier=4.0), 150),
        (Gaussian(noise_multiplier=8.0), 2),
    ]
    upper = PLD.get_epsilon(charges, delta=1e-6, neighboring_relation=NeighboringRelation.ZERO_OUT)
    found = epsilon_of_signals([Signal(1 / 4, 0.1, 150), Signal(1 / 8, 1.0, 2)], delta=1e-6)
    assert 0.97 * upper <= found <= upper
