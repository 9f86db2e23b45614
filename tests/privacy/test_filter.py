"""The filter of a book: whoever chooses each act by the answers before, as badly as can be, stays within the limit."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpwgan.errors import UsageError
from dpwgan.privacy.budget import Budget
from dpwgan.privacy.events import (
    Charge,
    DiscreteGaussian,
    Event,
    ExponentialSelection,
    Gaussian,
    Laplace,
    PoissonGaussian,
    StableSelection,
    Unprotected,
)
from dpwgan.privacy.filter import PrivacyFilter, open_filter
from tests.privacy.charges import MOMENTS, PLD, RELATIONS, ZERO_OUT, ask

LIMIT = Budget(epsilon=3.0, delta=1e-8)
RELEASE = ((Gaussian(noise_multiplier=10.0), 1), (ExponentialSelection(epsilon=0.1), 5))


def spend(*charges: Charge, privacy_filter: PrivacyFilter | None = None) -> float:
    """What the filter of the limit, or another one, says of some charges."""
    privacy_filter = privacy_filter or open_filter(LIMIT, ZERO_OUT)
    return privacy_filter.get_epsilon(privacy_filter.add_up(charges))


def find_worst_delta(privacy_filter: PrivacyFilter, *, small: float, large: float, factor: float = 1.0) -> float:
    """The largest hockey-stick divergence that an adversary reaches, exactly.

    Who may choose, after each answer, another randomised response of one of two epsilons, or to stop; `factor` is what
    the filter takes the divergences for.
    """
    epsilon = privacy_filter.limit.epsilon
    costs = [factor * privacy_filter.add_up([(Laplace(epsilon=e), 1)]) for e in (small, large)]

    @cache
    def find_best(answers: tuple[int, int], counts: tuple[int, int]) -> float:
        loss = answers[0] * small + answers[1] * large
        best = max(0.0, -math.expm1(epsilon - loss))
        for act, own in enumerate((small, large)):
            more = (counts[0] + (act == 0), counts[1] + (act == 1))
            if privacy_filter.get_epsilon(more[0] * costs[0] + more[1] * costs[1]) > epsilon:
                continue
            told = 1 / (1 + math.exp(-own))
            up, down = ((answers[0] + s * (act == 0), answers[1] + s * (act == 1)) for s in (1, -1))
            best = max(best, told * find_best(up, more) + (1 - told) * find_best(down, more))
        return best

    return find_best((0, 0), (0, 0))


@settings(max_examples=12)
@given(epsilon=st.floats(0.5, 3.0), delta=st.floats(1e-4, 1e-2), part=st.floats(0.08, 0.3), ratio=st.floats(1.2, 4.0))
def test_limit_holds_when_an_adversary_chooses_each_act_by_the_answers_before(epsilon, delta, part, ratio):
    privacy_filter = open_filter(Budget(epsilon=epsilon, delta=delta), ZERO_OUT)
    small = part * epsilon
    assert find_worst_delta(privacy_filter, small=small, large=ratio * small) <= delta


def test_limit_is_passed_when_divergences_are_taken_for_a_quarter_of_what_they_are():
    privacy_filter = open_filter(Budget(epsilon=1.0, delta=1e-3), ZERO_OUT)
    assert find_worst_delta(privacy_filter, small=0.16, large=0.4) <= 1e-3
    assert find_worst_delta(privacy_filter, small=0.16, large=0.4, factor=0.25) > 1e-3


def test_releases_cost_little_more_than_if_they_had_been_planned_together_when_added_up():
    privacy_filter = open_filter(LIMIT, ZERO_OUT)
    for times in (1, 8, 60):
        charges = [(event, count * times) for event, count in RELEASE]
        together, alone = (ask(PLD, each, delta=LIMIT.delta) for each in (charges, RELEASE))
        found = privacy_filter.get_epsilon(times * privacy_filter.add_up(RELEASE))
        assert together < found < 1.3 * together
        assert times == 1 or found < 0.7 * times * alone


EVENTS: tuple[Event, ...] = (
    Gaussian(noise_multiplier=9.0),
    DiscreteGaussian(stddev=20.0, cells=5),
    PoissonGaussian(sampling_probability=0.05, noise_multiplier=1.0),
    ExponentialSelection(epsilon=0.2),
    Laplace(epsilon=0.2),
)


@RELATIONS
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_epsilon_is_above_that_of_acts_planned_together_when_they_are_of_one_kind(event, relation):
    exact = ask(PLD, [(event, 20)], delta=LIMIT.delta, relation=relation)
    found = spend((event, 20), privacy_filter=open_filter(LIMIT, relation))
    # Epsilons of pure acts are added up there; here they compose.
    assert (0.3 if isinstance(event, Laplace) else 1.0) * exact < found < 1.6 * exact


def test_deltas_are_let_to_their_own_share_and_no_further_when_lists_are_paid_for():
    event = StableSelection(epsilon=0.001, delta=LIMIT.delta / 100)
    assert spend((event, 9)) < LIMIT.epsilon
    assert math.isinf(spend((event, 11)))


def test_nothing_is_proved_when_an_act_is_unprotected_and_nothing_spent_when_there_is_none():
    assert math.isinf(spend((Unprotected(reason="a test"), 1)))
    assert spend() == 0.0


def test_release_that_is_left_room_for_fits_and_none_that_is_larger_when_it_is_added():
    privacy_filter = open_filter(LIMIT, ZERO_OUT)
    spent = 3 * privacy_filter.add_up(RELEASE)
    left = privacy_filter.find_left(spent)
    assert 0 < left < LIMIT.epsilon
    fitting = [
        noise
        for noise in np.geomspace(0.5, 50, 400)
        if privacy_filter.get_epsilon(spent + privacy_filter.add_up([(Gaussian(noise_multiplier=noise), 1)]))
        <= LIMIT.epsilon
    ]
    best = ask(PLD, [(Gaussian(noise_multiplier=fitting[0]), 1)], delta=LIMIT.delta)
    assert best <= left < 1.15 * best
    assert privacy_filter.find_left(100 * spent) == 0.0


@pytest.mark.parametrize(
    "shares",
    [{}, {2.0: 1.0}, {2.5: 0.6, 4.0: 0.5}, {2.25: 0.5}, {2.0: -0.1}],
    ids=["none", "all", "more", "odd", "below"],
)
def test_filter_is_refused_when_its_shares_prove_nothing(shares):
    with pytest.raises(UsageError):
        PrivacyFilter(limit=LIMIT, neighboring_relation=ZERO_OUT, shares=shares)


def test_limit_is_refused_when_no_release_would_fit():
    with pytest.raises(UsageError, match="no release fits"):
        open_filter(Budget(epsilon=1e-4, delta=1e-30), ZERO_OUT)


def test_epsilon_is_that_of_the_theorem_when_worked_out_by_hand():
    shares = {2.0: 0.5, 3.0: 0.25}
    privacy_filter = PrivacyFilter(limit=Budget(epsilon=9.0, delta=1e-4), neighboring_relation=ZERO_OUT, shares=shares)
    # Order 2: 2/(2 16) + ln(1/2) - ln(1e-4/2) - ln 2; order 3: 3/(2 16) + ln(2/3) - (ln(1e-4/4) + ln 3)/2.
    by_order = (0.0625 + 4 * math.log(10) - math.log(2), 0.09375 + math.log(2 / 3) + math.log(4e4 / 3) / 2)
    found = spend((Gaussian(noise_multiplier=4.0), 1), privacy_filter=privacy_filter)
    assert found == pytest.approx(min(by_order), rel=1e-9)
    pure, large = (privacy_filter.add_up([(Laplace(epsilon=epsilon), 1)]) for epsilon in (0.1, 5.0))
    assert pure[:2] == pytest.approx([0.01, 0.015])
    assert large[:2] == pytest.approx([5.0, 5.0])


def test_steps_that_sample_each_row_of_a_unit_apart_cost_as_the_accountant_says():
    charge = PoissonGaussian(sampling_probability=0.05, noise_multiplier=4.0, rows=3), 50
    exact = ask(MOMENTS, [charge], delta=LIMIT.delta)
    assert exact < spend(charge) < 1.3 * exact
